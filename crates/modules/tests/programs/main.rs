//! Compiled programs, run on CPUs through the `hal` module: the results must match the reference's.
//!
//! `expected/*.run.txt` of the fixtures and the corpus have the command that ran a program and its output.
//! Tests of the corpus are skipped if it is missing.

mod printed;
mod run;

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::Arguments;
use printed::Printed;

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(testing::on_both_sets("programs_print_what_they_printed", check_all));
    trials.push(testing::on_corpus("models_match_the_reference", models_match_the_reference));
    // The programs' kernels are x86-64 code.
    let is_other = !cfg!(target_arch = "x86_64");
    let trials = trials.into_iter().map(|trial| {
        let is_ignored = is_other || trial.has_ignored_flag();
        trial.with_ignored_flag(is_ignored)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// Runs and compares every program; reports all differences together.
fn check_all(directory: &Path) {
    let mut texts: Vec<_> =
        std::fs::read_dir(directory.join("expected")).unwrap().map(|entry| entry.unwrap().path()).collect();
    texts.retain(|path| path.to_string_lossy().ends_with(".run.txt"));
    texts.sort();
    let mut wrong = Vec::new();
    let mut ran = 0;
    for path in &texts {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let printed = Printed::read(&std::fs::read_to_string(path).unwrap(), directory);
        // The output does not depend on the kind of CPU device, and crashing kernels would take the test down
        // with them. One input of the corpus is rejected by the reference and accepted here; failures of a
        // recorder are not failures of the program.
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
    assert!(ran >= 40, "only {ran} programs ran");
}

/// Real models must produce the same bytes as the reference's run.
fn models_match_the_reference(corpus: &Path) {
    for (model, module, function, inputs, results) in [
        ("magika", "m", "tf2onnx", 1, 1),
        ("basic_pitch", "m", "tf2onnx", 1, 3),
        ("ppocr_cls", "m", "paddle-onnx", 1, 1),
        ("silero_vad", "m", "main_graph", 3, 2),
        ("silero_vad", "ext", "main_graph", 3, 2),
    ] {
        let directory = corpus.join("models").join(model);
        let file = |name: String| directory.join(name).display().to_string();
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
