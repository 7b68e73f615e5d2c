//! Resources that the machine does not have: threads, and space for temporary files.

use std::process::Command;

use crate::common::{Ran, Scratch, capture, command, fixture, print, ran, write_kernel};

const ABS: &str = "abs_dispatch_0_elementwise";

/// Runs `rehal` in a directory.
fn rehal(words: &[&str], scratch: &Scratch, environment: [(&str, &str); 1]) -> Ran {
    let mut command = command("rehal");
    ran(command.args(words).envs(environment).current_dir(scratch.path("")).output().unwrap())
}

#[test]
fn without_threads_tools_work_or_say_so() {
    // No stack of this size exists, so that threads of the standard library cannot be started: as with a
    // limit on them, which a privileged user does not have.
    let no_threads = [("RUST_MIN_STACK", "1152921504606846976")];
    let scratch = Scratch::new();
    let abs = capture("simple_abs.abs.local-sync");
    let profile = format!("{}/../profile/tests/data/sample.ireeprof", env!("CARGO_MANIFEST_DIR"));
    write_kernel(
        &scratch.path("kernel.c"),
        &abs,
        ABS,
        "binding_1[i] = binding_0[i] < 0 ? -binding_0[i] : binding_0[i];",
    );
    let function = format!("--function={ABS}");
    let substitution = format!("--replay_executable_substitution={ABS}=kernel.c");
    let module = format!("--module={}", fixture("modules/add4.vmfb"));
    let lines: [(&[&str], i32); 20] = [
        (&["run", &abs], 0),
        (&["run", "--device=local-task", &abs], 0),
        (&["run", "--replay_ledger=ledger", &abs], 0),
        (&["run", &substitution, &abs], 0),
        (&["verify", "--against=ledger", &abs], 0),
        (&["verify", &substitution, &abs], 1),
        (&["diff", &abs, &abs], 0),
        (&["redact", "--keep=all", &abs, "-o", "redacted"], 0),
        (&["profile", "report", &profile, "-o", "page.html"], 0),
        (&["profile", "timeline", &profile, "-o", "trace"], 0),
        (&["profile", "compare", &profile, &profile], 0),
        (&["kernel", "record", "--directory=records", &abs], 0),
        (&["kernel", "build", "kernel.c", "-o", "kernel.so"], 0),
        (&["kernels", &abs], 0),
        (&["kernels", "--export=exported", &abs], 1),
        (&["slice", &function, &abs, "-o", "slice"], 1),
        (&["compare", &function, "--with=kernel.c", &abs], 1),
        (&["reduce", "--check=true", &abs, "-o", "reduced"], 0),
        (&["races", &abs], 0),
        (&["run-module", &module, "--function=add", "--input=4xf32=1", "--input=4xf32=1"], 0),
    ];
    for (words, status) in lines {
        let ran = rehal(words, &scratch, no_threads);
        assert!(!ran.stderr.contains("panicked"), "{words:?}: {}", ran.stderr);
        assert_eq!(ran.status, Some(status), "{words:?}: {}", ran.stderr);
        assert!(status == 0 || ran.stderr.starts_with("UNAVAILABLE; "), "{words:?}: {}", ran.stderr);
    }
}

/// Verbs that write temporary files.
fn with_temporary_files() -> Vec<Vec<String>> {
    let abs = capture("simple_abs.abs.local-sync");
    let function = format!("--function={ABS}");
    [
        vec!["slice", &function, &abs, "-o", "output"],
        vec!["redact", "--keep=all", &abs, "-o", "output"],
        vec!["reduce", "--check=true", &abs, "-o", "output"],
        vec!["run", "--print_device_statistics", &abs],
        vec!["kernel", "build", "kernel.c", "-o", "output"],
    ]
    .map(|words| words.into_iter().map(str::to_string).collect())
    .to_vec()
}

#[test]
fn a_directory_for_temporary_files_that_does_not_serve_is_named() {
    let scratch = Scratch::new();
    let file = scratch.file("kernel.c", "");
    for words in with_temporary_files() {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        // It is missing, is a file, or cannot be written.
        for directory in ["/nonexistent", file.as_str(), "/proc"] {
            let ran = rehal(&words, &scratch, [("TMPDIR", directory)]);
            assert_eq!(ran.status, Some(1), "{words:?} {directory}: {}", ran.stderr);
            assert!(ran.stderr.contains(&format!("'{directory}'")), "{words:?}: {}", ran.stderr);
            assert!(ran.stderr.contains("in the environment: TMPDIR=PATH"), "{words:?}: {}", ran.stderr);
        }
    }
}

#[test]
fn a_full_directory_for_temporary_files_is_named() {
    for words in with_temporary_files() {
        if words[0] == "kernel" {
            // What a compiler says when its directory is full is tested with kernels.
            continue;
        }
        let (scratch, temporary) = (Scratch::new(), Scratch::new());
        let program = command("rehal");
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"]).arg(program.get_program());
        shell.args(&words).env("TMPDIR", temporary.path("")).current_dir(scratch.path(""));
        let ran = ran(shell.output().unwrap());
        assert_eq!(ran.status, Some(1), "{words:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(temporary.path("").to_str().unwrap().trim_end_matches('/')),
            "{words:?}: {}",
            ran.stderr
        );
        assert!(ran.stderr.contains("TMPDIR=PATH"), "{words:?}: {}", ran.stderr);
        let left = std::fs::read_dir(temporary.path("")).unwrap().count();
        assert_eq!(left, 0, "{words:?}");
    }
}

/// Of files, by `ulimit -f`: the signal of it does not end the tool.
#[test]
fn a_file_above_the_limit_is_named() {
    let abs = capture("simple_abs.abs.local-sync");
    let lines: [&[&str]; 3] = [
        &["redact", "--keep=all", &abs, "-o", "output"],
        &["run", "--replay_ledger=output", &abs],
        &["profile", "timeline", "sample.ireeprof", "-o", "output"],
    ];
    for words in lines {
        let (scratch, temporary) = (Scratch::new(), Scratch::new());
        let profile = format!("{}/../profile/tests/data/sample.ireeprof", env!("CARGO_MANIFEST_DIR"));
        std::fs::copy(profile, scratch.path("sample.ireeprof")).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -f 0; exec \"$@\"", "sh"]).arg(command("rehal").get_program());
        shell.args(words).env("TMPDIR", temporary.path("")).current_dir(scratch.path(""));
        let ran = ran(shell.output().unwrap());
        assert_eq!(ran.status, Some(1), "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("RESOURCE_EXHAUSTED; "), "{words:?}: {}", ran.stderr);
        let temporary = temporary.path("").display().to_string();
        let place = if words[0] == "redact" { temporary.trim_end_matches('/') } else { "output" };
        for part in ["File too large, above the limit of the process (ulimit -f)", place] {
            assert!(ran.stderr.contains(part), "{words:?}: {part}: {}", ran.stderr);
        }
        assert!(!scratch.path("output").exists(), "{words:?}");
    }
}

/// Without it, the limit of a library in memory is reported as a directory that is denied.
#[test]
fn a_library_above_the_limit_of_files_is_named() {
    let (scratch, path) = (Scratch::new(), capture("add4.add.local-sync"));
    let function = "add_dispatch_0_elementwise_4_f32";
    let stub =
        print(&["rehal", "kernel", "stub", "--no_run", &format!("--function={function}"), "-o", "-", &path]);
    let (source, library) = (scratch.file("stub.c", stub), scratch.path("stub.so"));
    let mut compiler = Command::new("cc");
    assert!(compiler.args(["-shared", "-fPIC", &source, "-o"]).arg(&library).status().unwrap().success());
    let substitution = format!("--replay_executable_substitution={function}={}", library.display());
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 1; exec \"$@\"", "sh"]).arg(command("rehal").get_program());
    let ran = ran(shell.args(["run", "--device=local-sync", &substitution, &path]).output().unwrap());
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.stderr.starts_with("RESOURCE_EXHAUSTED; writing the library"), "{ran:?}");
}

/// Files that a verb has begun to write do not remain if it fails at the second file, or at the end.
#[test]
fn an_error_leaves_nothing() {
    let module = fixture("modules/two_devices.vmfb");
    let add = capture("add4.add.local-sync");
    let lines: [&[&str]; 4] = [
        &["executables", "--binaries_to=new/binaries", &module],
        &[
            "kernel",
            "record",
            "--directory=new/records",
            "--replay_executable_substitution=nothing=k.so",
            &add,
        ],
        &["tune", "--function=none", "--space=none.toml", "--output=new.jsonl", &add],
        &["kernels", "--history=new.jsonl", "--function=none", &add],
    ];
    for words in lines {
        let scratch = Scratch::new();
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -f 1; exec \"$@\"", "sh"]).arg(command("rehal").get_program());
        shell.args(words).current_dir(scratch.path(""));
        let ran = ran(shell.output().unwrap());
        assert_eq!(ran.status, Some(1), "{words:?}: {}", ran.stderr);
        let left: Vec<_> =
            std::fs::read_dir(scratch.path("")).unwrap().flatten().map(|it| it.path()).collect();
        assert!(left.is_empty(), "{words:?} leaves {left:?}: {}", ran.stderr);
    }
}
