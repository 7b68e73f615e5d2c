//! Outputs: a file is complete or left as it was, `-` is standard output, and lost output is an error.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::process::{Command, Stdio};

use crate::common::{Ran, Scratch, capture, command, fixture, ran, run};

const STUB: &str = "--function=abs_dispatch_0_elementwise";

/// The placeholder of the output in a command.
const PLACE: &str = "{}";

/// Each argument that names an output: the words of a command, and whether what it writes is the same every
/// time.
fn outputs() -> Vec<(Vec<String>, bool)> {
    let abs = capture("simple_abs.abs.local-sync");
    let add4 = format!("--module={}", fixture("modules/add4.vmfb"));
    let model = format!("--parameters={}", fixture("params/model.irpa"));
    let profile = format!("{}/../profile/tests/data/sample.ireeprof", env!("CARGO_MANIFEST_DIR"));
    let (add, once) =
        (["--function=add", "--input=4xf32=1 2 3 4", "--input=4xf32=1"], "--benchmark_min_time=1x");
    let key = format!("--extract={}={PLACE}", first_key(&model));
    let lines: Vec<(Vec<&str>, bool)> = vec![
        (vec!["iree-run-replay", "--replay_host_reads={}", &abs], true),
        (vec!["rehal", "run", "--replay_ledger={}", &abs], true),
        (vec!["iree-run-module", &add4, add[0], add[1], add[2], "--output=@{}"], true),
        (vec!["iree-run-module", &add4, add[0], add[1], add[2], "--output=+{}"], true),
        (vec!["iree-run-module", &add4, add[0], add[1], add[2], "--instrument_file={}"], true),
        (vec!["iree-benchmark-replay", once, "--benchmark_out={}", &abs], false),
        (vec!["iree-profile", "export", "--format=ireeperf-jsonl", "--output={}", &profile], true),
        (vec!["rehal", "profile", "timeline", &profile, "--output={}"], true),
        (vec!["rehal", "profile", "report", &profile, "-o", PLACE], true),
        (vec!["iree-convert-parameters", &model, "--output={}"], true),
        (vec!["iree-create-parameters", "--data=a=4xf32=1", "--data=b=9xi8", "--output={}"], true),
        (vec!["iree-dump-parameters", &model, &key], true),
        (vec!["rehal", "slice", "--function=*", &abs, "-o", PLACE], false),
        (vec!["rehal", "redact", "--keep=all", &abs, "-o", PLACE], true),
        (vec!["rehal", "kernel", "stub", "--no_run", STUB, "--force", &abs, "-o", PLACE], false),
        (vec!["rehal", "reduce", "--check=true", &abs, "-o", PLACE], false),
    ];
    let owned = |words: Vec<&str>| words.into_iter().map(str::to_string).collect();
    lines.into_iter().map(|(words, is_same)| (owned(words), is_same)).collect()
}

/// The key of a parameter of a file.
fn first_key(parameters: &str) -> String {
    let listing = crate::common::print(&["iree-dump-parameters", parameters]);
    let last = listing.lines().rfind(|line| line.contains('`')).expect("a file of parameters");
    last.split('`').nth(1).expect("a key").to_string()
}

fn to(words: &[String], output: &str) -> Vec<String> {
    words.iter().map(|word| word.replace(PLACE, output)).collect()
}

/// A stub names its language by its extension.
fn name_for(words: &[String]) -> &'static str {
    if words.contains(&"stub".to_string()) { "output.c" } else { "output" }
}

fn tool(words: &[String]) -> Command {
    let mut command = command(&words[0]);
    command.args(&words[1..]);
    command
}

fn ran_to(words: &[String], output: &str) -> Ran {
    let words = to(words, output);
    run(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The names in a directory.
fn names(scratch: &Scratch) -> Vec<String> {
    let entries = fs::read_dir(scratch.path("")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn standard_output_and_pipes_get_what_a_file_has() {
    for (words, is_same) in outputs() {
        let scratch = Scratch::new();
        let name = name_for(&words);
        let path = scratch.path(name);
        let first = ran_to(&words, path.to_str().unwrap());
        assert_eq!(first.status, Some(0), "{words:?}: {first:?}");
        let expected = fs::read(&path).unwrap();
        for output in ["-", "/dev/stdout"] {
            // The extension says the language.
            if name != "output" && output != "-" {
                continue;
            }
            let printed = tool(&to(&words, output)).current_dir(scratch.path("")).output().unwrap();
            assert!(printed.status.success(), "{words:?}: {printed:?}");
            // The other output of the tool, if it is not on standard error, is before it.
            let is_it = printed.stdout.ends_with(&expected);
            assert!(!is_same || is_it, "{words:?} to {output}: {}", String::from_utf8_lossy(&printed.stdout));
            assert!(is_same || !printed.stdout.is_empty(), "{words:?}");
        }
        let pipe = scratch.path(&format!("pipe.{name}"));
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = Command::new("cat").arg(&pipe).stdout(Stdio::piped()).spawn().unwrap();
        let piped = ran_to(&words, pipe.to_str().unwrap());
        assert_eq!(piped.status, Some(0), "{words:?}: {piped:?}");
        let read = reader.wait_with_output().unwrap().stdout;
        assert!(!is_same || read == expected, "{words:?} to a pipe: {read:?}");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
        assert_eq!(names(&scratch), [name.to_string(), format!("pipe.{name}")], "{words:?}");
    }
}

#[test]
fn lost_output_is_an_error_that_names_its_flag() {
    for (words, _) in outputs() {
        // An empty file is not lost.
        if words.iter().any(|word| word.contains("instrument")) {
            continue;
        }
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let closed = ran(tool(&to(&words, "-")).stdout(writer).output().unwrap());
        assert_eq!(closed.status, Some(1), "a closed pipe: {words:?}: {}", closed.stderr);
        if !words[0].contains("benchmark") {
            assert!(
                closed.stderr.contains("Broken pipe") && closed.stderr.contains("=-"),
                "{words:?}: {}",
                closed.stderr
            );
        }
        if words.contains(&"stub".to_string()) {
            continue;
        }
        let full = ran_to(&words, "/dev/full");
        assert_eq!(full.status, Some(1), "{words:?}: {}", full.stderr);
        assert!(full.stderr.contains("RESOURCE_EXHAUSTED; "), "{words:?}: {}", full.stderr);
        assert!(full.stderr.contains("=/dev/full"), "{words:?}: {}", full.stderr);
        assert!(full.stderr.contains("try: free space"), "{words:?}: {}", full.stderr);
    }
}

#[test]
fn a_failed_write_leaves_the_file_that_was_there() {
    for (words, _) in outputs() {
        if words.iter().any(|word| word.contains("instrument")) {
            continue;
        }
        let scratch = Scratch::new();
        let temporary = Scratch::new();
        let name = name_for(&words);
        let kept = scratch.file(name, "kept");
        // Files in the directory of the output cannot grow: a limit for all files would apply to temporary
        // ones as well.
        let program = tool(&to(&words, &kept));
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"]).arg(program.get_program());
        shell.args(program.get_args()).env("TMPDIR", temporary.path(""));
        let failed = ran(shell.output().unwrap());
        assert_eq!(failed.status, Some(1), "{words:?}: {}", failed.stderr);
        assert!(failed.stderr.contains("File too large"), "{words:?}: {}", failed.stderr);
        assert_eq!(fs::read(&kept).unwrap(), b"kept", "{words:?}");
        assert_eq!((names(&scratch), names(&temporary)), (vec![name.to_string()], vec![]), "{words:?}");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_any_work() {
    let scratch = Scratch::new();
    let missing = scratch.path("missing/output.c");
    // Without write permission, unless the user is exempt.
    let unwritable =
        ["/proc/output.c", missing.to_str().unwrap(), scratch.path("").to_str().unwrap()].map(str::to_string);
    for (words, _) in outputs() {
        for output in &unwritable {
            let refused = ran_to(&words, output);
            assert_eq!((refused.status, &*refused.stdout), (Some(1), ""), "{words:?} {output}: {refused:?}");
            assert!(refused.stderr.contains("  try: "), "{words:?} {output}: {}", refused.stderr);
        }
    }
    assert_eq!(names(&scratch), Vec::<String>::new());
}

#[test]
fn recordings_and_directories_are_not_standard_output() {
    let abs = capture("simple_abs.abs.local-sync");
    let add4 = format!("--module={}", fixture("modules/add4.vmfb"));
    let module = ["iree-run-module", &add4, "--function=add", "--input=4xf32=1", "--input=4xf32=1"];
    let profiling = ["--device_profiling_mode=queue-events", "--device_profiling_output=-"];
    let lines: [Vec<&str>; 5] = [
        [&module[..], &["--device_replay_output=-"]].concat(),
        [&module[..], &profiling].concat(),
        [&["iree-run-replay", &abs][..], &profiling].concat(),
        vec!["rehal", "kernel", "record", "--directory=-", &abs],
        vec!["rehal", "kernels", "--export=-", &abs],
    ];
    for words in lines {
        let scratch = Scratch::new();
        let mut command = command(words[0]);
        let refused = ran(command.args(&words[1..]).current_dir(scratch.path("")).output().unwrap());
        assert_eq!((refused.status, &*refused.stdout), (Some(1), ""), "{words:?}: {refused:?}");
        assert!(refused.stderr.contains("cannot be written to standard output"), "{}", refused.stderr);
        assert_eq!(names(&scratch), Vec::<String>::new(), "{words:?}");
    }
}

#[test]
fn an_output_that_is_also_printed_to_keeps_both() {
    let scratch = Scratch::new();
    let log = scratch.path("log");
    let add4 = format!("--module={}", fixture("modules/add4.vmfb"));
    let file = fs::File::create(&log).unwrap();
    let mut command = command("iree-run-module");
    command.args([&add4, "--function=add", "--input=4xf32=1", "--input=4xf32=1"]);
    command.arg(format!("--output=@{}", log.display()));
    assert!(command.stdout(file).status().unwrap().success());
    let text = fs::read(&log).unwrap();
    assert_eq!(text, [&b"EXEC @add\n"[..], &[0, 0, 0, 0x40].repeat(4)].concat());
}
