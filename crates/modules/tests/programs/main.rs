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
        // What a program prints does not depend on the kind of CPU device; parameters are another module's; and
        // kernels that crash would take the test with them.
        let is_local_sync = printed.devices.iter().all(|device| device == "local-sync");
        if !is_local_sync || printed.has_parameters || printed.crashed {
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

#[test]
fn the_corpus_prints_what_it_printed() {
    if let Some(corpus) = corpus() {
        check_all(&corpus, 50);
    }
}
