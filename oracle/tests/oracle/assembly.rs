//! Programs in VM assembly, assembled by the reference: each test must have the outcome in its name with our
//! VM, and the dumps must match. Ours are in `fixtures/vm`; the reference's own tests are included if
//! `REHAL_IREE_SOURCE` names its source tree. Edge cases must have the same outcome in the release.

use crate::{Outcome, ensure, modules};
use libtest_mimic::{Failed, Trial};
use oracle::captures::repository;
use oracle::reference::Reference;
use oracle::tool;
use rehal_base::{MappedFile, StatusCode};
use rehal_vm::{ModuleFile, test_programs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub fn add(trials: &mut Vec<Trial>) {
    trials.push(Trial::test("assembly::release/edges", same_in_the_release));
    let mut sets = vec![("fixtures", repository().join("fixtures/vm"))];
    if let Some(source) = std::env::var_os("REHAL_IREE_SOURCE").filter(|source| !source.is_empty()) {
        let directory = PathBuf::from(source).join("runtime/src/iree/vm/test");
        let found = !programs(&directory).is_empty();
        trials.push(Trial::test("assembly::source", move || {
            ensure(found, || "REHAL_IREE_SOURCE does not name a source tree with VM tests".to_owned())
        }));
        sets.push(("reference", directory));
    }
    for (set, directory) in sets {
        for path in programs(&directory) {
            let name = path.file_stem().unwrap_or_default().display().to_string();
            let is_ours = set == "fixtures";
            trials.push(Trial::test(format!("assembly::{set}/{name}"), move || as_named(&path, is_ours)));
        }
    }
}

/// Each test of the edge case program has the same outcome in the release, with the same status code on
/// failure.
fn same_in_the_release() -> Outcome {
    let directory = repository().join("fixtures/vm");
    let failed = |error: rehal_base::Error| Failed::from(error.report());
    let file = Arc::new(MappedFile::open(&directory.join("edges.vmfb")).map_err(failed)?);
    let outcomes = test_programs::run_tests(ModuleFile::map(file).map_err(failed)?).map_err(failed)?;
    let runner = Reference::find(&repository())?.tool("iree-run-module");
    for outcome in outcomes {
        let function = format!("--function={}", outcome.name);
        let arguments = ["--device=local-sync", "--module=edges.vmfb", &function];
        let ended = tool::run(&runner, &arguments, &directory)?;
        let is_same = match &outcome.result {
            Ok(()) => ended.succeeded(),
            Err(error) if error.code() == StatusCode::Unknown => ended.code == Some(1),
            Err(error) => {
                ended.code == Some(1) && ended.summary().contains(&format!(" {}; ", error.code().name()))
            }
        };
        ensure(is_same, || {
            format!("{}: ours {:?}, theirs {}", outcome.name, outcome.result, ended.summary())
        })?;
    }
    Ok(())
}

fn programs(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "vmasm"))
        .collect();
    found.sort();
    found
}

fn as_named(program: &Path, is_ours: bool) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let module = scratch.path().join("program.vmfb");
    let assembler = Reference::find(&repository())?.tool("iree-as-module");
    let arguments = [format!("--output={}", module.display()), program.display().to_string()];
    let assembled = tool::run(&assembler, &arguments, &repository())?;
    ensure(assembled.succeeded(), || format!("iree-as-module ends with {}", assembled.summary()))?;

    let failed = |error: rehal_base::Error| Failed::from(error.report());
    let file = Arc::new(MappedFile::open(&module).map_err(failed)?);
    let outcomes = test_programs::run_tests(ModuleFile::map(file).map_err(failed)?).map_err(failed)?;
    // Some of our programs are called by the tests of the crate instead.
    ensure(is_ours || !outcomes.is_empty(), || "the program has no tests".to_owned())?;
    let wrong: Vec<String> = outcomes
        .into_iter()
        .filter(|outcome| !outcome.is_expected())
        .map(|outcome| format!("{}: {:?}", outcome.name, outcome.result.map_err(|error| error.report())))
        .collect();
    ensure(wrong.is_empty(), || wrong.join("\n"))?;
    modules::same_dumps_of(&module, program)
}
