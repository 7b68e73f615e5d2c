//! Errors about files of another kind name the kind and the command that takes it.

use crate::common::{Scratch, capture, fail, fixture};

/// Files of every kind, their names in errors, and a part of the advice.
fn files(scratch: &Scratch) -> Vec<(String, &'static str, &'static str)> {
    let profile = [b"IRPF\x01\0\x06\0".as_slice(), &[0; 64]].concat();
    vec![
        (capture("add4.add.local-sync"), "a capture (.ireereplay)", "rehal run FILE"),
        (fixture("modules/add4.vmfb"), "a compiled module (.vmfb)", "rehal run-module --module=FILE"),
        (fixture("params/model.irpa"), "a parameter archive (.irpa)", "rehal dump-parameters"),
        (fixture("params/model.safetensors"), "a safetensors parameter file", "rehal dump-parameters"),
        (scratch.file("x.gguf", b"GGUF\x03\0\0\0\0\0\0\0"), "a GGUF parameter file", "rehal dump-parameters"),
        (scratch.file("x.ireeprof", profile), "a device profile (.ireeprof)", "rehal profile"),
        (fixture("modules/add4_swapped.elf"), "an ELF image (machine code)", "--executable_plugin=FILE"),
        (fixture("inputs/mlp_x.npy"), "a NumPy array (.npy)", "--input=@FILE"),
        (scratch.file("x.txt", "text"), "a text file", "name"),
        (scratch.file("empty", ""), "empty", "name"),
    ]
}

/// Runs a tool on each file whose kind is not in `accepted`; errors call the expected kind `plain`.
#[track_caller]
fn refuse_all(words: impl Fn(&str) -> Vec<String>, accepted: &[&str], plain: &str) {
    let scratch = Scratch::new();
    for (path, name, advice) in files(&scratch) {
        if accepted.contains(&name) {
            continue;
        }
        let words = words(&path);
        let stderr = fail(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let first = format!("INVALID_ARGUMENT; '{path}' is {name}, not {plain}\n");
        assert!(stderr.starts_with(&first), "{words:?}: {stderr}");
        assert!(stderr.split_once("\n  try: ").unwrap().1.contains(advice), "{words:?}: {stderr}");
    }
    let directory = scratch.path("");
    let words = words(directory.to_str().unwrap());
    let stderr = fail(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(stderr.contains("is a directory"), "{stderr}");
}

fn words(fixed: &[&str], last: String) -> Vec<String> {
    fixed.iter().map(|word| word.to_string()).chain([last]).collect()
}

#[test]
fn instead_of_a_capture() {
    for tool in crate::common::TOOLS {
        refuse_all(|path| words(tool, path.into()), &["a capture (.ireereplay)"], "a capture");
    }
}

#[test]
fn instead_of_a_module() {
    let module = ["a compiled module (.vmfb)"];
    for mode in ["preload", "mmap"] {
        let mode = format!("--module_mode={mode}");
        for tool in ["iree-run-module", "iree-benchmark-module"] {
            refuse_all(
                |path| words(&[tool, &mode], format!("--module={path}")),
                &module,
                "a compiled module",
            );
        }
    }
    let scratch = Scratch::new();
    let text = scratch.file("x.txt", "text");
    let ran = crate::common::run(&["iree-check-module", &format!("--module={text}")]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.stderr.contains("is a text file, not a compiled module\n"), "{}", ran.stderr);
    refuse_all(|path| words(&["iree-dump-module"], path.into()), &module, "a compiled module");
}

#[test]
fn instead_of_a_profile() {
    let profile = ["a device profile (.ireeprof)"];
    refuse_all(|path| words(&["iree-profile", "summary"], path.into()), &profile, "a device profile");
}

#[test]
fn instead_of_parameters() {
    let accepted = ["a parameter archive (.irpa)", "a safetensors parameter file", "a GGUF parameter file"];
    let module = format!("--module={}", fixture("modules/params.vmfb"));
    for tool in [
        &["iree-dump-parameters"][..],
        &["iree-convert-parameters", "--output=/nonexistent/x.irpa"],
        &["iree-run-module", &module],
    ] {
        refuse_all(|path| words(tool, format!("--parameters={path}")), &accepted, "a parameter file");
    }
    // By a file extension of another format.
    let scratch = Scratch::new();
    let path = scratch.file("x.irpa", std::fs::read(fixture("params/model.safetensors")).unwrap());
    let stderr = fail(&["iree-dump-parameters", &format!("--parameters={path}")]);
    let first =
        format!("INVALID_ARGUMENT; '{path}' is a safetensors parameter file, but has another extension\n");
    assert!(stderr.starts_with(&first), "{stderr}");
    assert!(stderr.contains("try: rename it to end with .safetensors"), "{stderr}");
}

#[test]
fn instead_of_an_executable() {
    for tool in ["iree-run-replay", "iree-benchmark-replay"] {
        refuse_all(
            |path| {
                let substitution = format!("--replay_executable_substitution=4={path}");
                words(&[tool, &substitution], capture("add4.add.local-sync"))
            },
            // VM executables are modules too: only function signatures tell them apart.
            &["an ELF image (machine code)", "a compiled module (.vmfb)"],
            "an executable",
        );
        let module = format!("--replay_executable_substitution=4={}", fixture("modules/add4.vmfb"));
        let stderr = fail(&[tool, &module, &capture("add4.add.local-sync")]);
        assert!(
            stderr.starts_with("INVALID_ARGUMENT; it is a compiled module (.vmfb), not an executable: "),
            "{stderr}"
        );
        assert!(stderr.contains("modules/add4.vmfb' for executable 4"), "{stderr}");
        assert!(stderr.contains("\n  try: rehal run-module --module=FILE runs it"), "{stderr}");
        let named = format!(
            "--replay_executable_substitution=4@embedded-elf-x86_64={}",
            fixture("params/model.irpa")
        );
        let stderr = fail(&[tool, &named, &capture("add4.add.local-sync")]);
        assert!(stderr.contains("is a parameter archive (.irpa), not an executable\n"), "{stderr}");
    }
}
