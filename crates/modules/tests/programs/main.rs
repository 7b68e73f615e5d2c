//! Compiled programs, run on CPUs through the `hal` module: what comes out is what the reference printed.
//!
//! `expected/*.run.txt` of the fixtures, and of the corpus where `REHAL_CORPUS` or `../shared/corpus` has it, hold the
//! command that ran a program and what it printed.
#![cfg(target_arch = "x86_64")]

mod printed;
mod run;

use std::path::{Path, PathBuf};

use printed::Printed;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

fn corpus() -> Option<PathBuf> {
    let folder = match std::env::var_os("REHAL_CORPUS") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => repository().join("../shared/corpus"),
    };
    folder.join("expected").is_dir().then_some(folder)
}

/// Runs each program and compares; all that differ are told together.
#[track_caller]
fn check_all(folder: &Path, least: usize) {
    let mut texts: Vec<_> =
        std::fs::read_dir(folder.join("expected")).unwrap().map(|entry| entry.unwrap().path()).collect();
    texts.retain(|path| path.to_string_lossy().ends_with(".run.txt"));
    texts.sort();
    let mut wrong = Vec::new();
    let mut ran = 0;
    for path in &texts {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let printed = Printed::read(&std::fs::read_to_string(path).unwrap(), folder);
        // What a program prints does not depend on the kind of CPU device, and kernels that crash would take the test
        // with them. One input of the corpus is refused by the reference and taken here; and what a recorder refuses is
        // not the program's failure.
        let is_local_sync = printed.devices.iter().all(|device| device == "local-sync");
        let fails_with = |words| printed.failure.as_ref().is_some_and(|failure| failure.starts_with(words));
        let is_other = fails_with("binary hex") || fails_with("HAL replay recorder");
        if !is_local_sync || printed.crashed || printed.compared || is_other || printed.lacks_files {
            continue;
        }
        ran += 1;
        if let Err(error) = run::check(&printed) {
            wrong.push(format!("{name}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {ran} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(ran >= least, "only {ran} programs ran");
}

#[test]
fn fixtures_print_what_they_printed() {
    check_all(&repository().join("fixtures"), 40);
}

/// Real models give the bytes that the reference's own run of them gave.
#[test]
fn models_give_what_they_gave() {
    let Some(corpus) = corpus() else { return };
    for (model, module, function, inputs, results) in [
        ("magika", "m", "tf2onnx", 1, 1),
        ("basic_pitch", "m", "tf2onnx", 1, 3),
        ("ppocr_cls", "m", "paddle-onnx", 1, 1),
        ("silero_vad", "m", "main_graph", 3, 2),
        ("silero_vad", "ext", "main_graph", 3, 2),
    ] {
        let folder = corpus.join("models").join(model);
        let file = |name: String| folder.join(name).display().to_string();
        let archive = file(format!("{module}.irpa"));
        let printed = Printed {
            devices: vec!["local-sync".to_string()],
            module: file(format!("{module}.vmfb")).into(),
            function: function.to_string(),
            inputs: (0..inputs).map(|index| format!("@{}", file(format!("in{index}.npy")))).collect(),
            parameters: if Path::new(&archive).exists() { vec![format!("model={archive}")] } else { vec![] },
            ..Printed::default()
        };
        let expected: Vec<_> = (0..results).map(|index| file(format!("iree{index}.npy"))).collect();
        run::check_bytes(&printed, &expected).unwrap_or_else(|error| panic!("{model} {module}: {error}"));
    }
}

#[test]
fn the_corpus_prints_what_it_printed() {
    if let Some(corpus) = corpus() {
        check_all(&corpus, 50);
    }
}
