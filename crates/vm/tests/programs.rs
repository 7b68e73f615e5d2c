//! Programs in VM assembly (`fixtures/vm`), which together contain every instruction. Every export `test_*`
//! must succeed and every `fail_*` fail.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rehal_base::MappedFile;
use rehal_vm::{ModuleFile, dump, test_programs};

fn programs() -> Vec<(String, ModuleFile)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/vm");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "vmfb"));
    paths.sort();
    let read = |path: PathBuf| {
        let file = ModuleFile::map(Arc::new(MappedFile::open(&path).unwrap())).unwrap();
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), file)
    };
    paths.into_iter().map(read).collect()
}

/// The module has only the source map of its last function, as the first.
#[test]
fn errors_name_the_source_of_the_function_that_failed() {
    let (_, file) = programs().into_iter().find(|(name, _)| name == "located").unwrap();
    let places: Vec<String> = test_programs::run_tests(file)
        .unwrap()
        .into_iter()
        .map(|outcome| outcome.result.unwrap_err().context_lines().join(", "))
        .collect();
    assert_eq!(places.len(), 2, "{places:?}");
    assert!(places[0].contains("located.fail_first+00000008"), "{places:?}");
    assert!(!places[0].contains(".mlir"), "{places:?}");
    assert!(places[1].contains("located.fail_last+00000008 (vm/located.mlir:12:5)"), "{places:?}");
}

#[test]
fn every_test_has_the_outcome_in_its_name() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for (name, file) in programs() {
        for outcome in test_programs::run_tests(file).unwrap() {
            count += 1;
            if !outcome.is_expected() {
                wrong.push(format!("{name}.{}: {:?}", outcome.name, outcome.result.map_err(|e| e.report())));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 300, "only {count} tests");
}

#[test]
fn every_instruction_is_in_a_program() {
    let mut text = Vec::new();
    for (_, file) in programs() {
        dump::assembly(&file, dump::AssemblyOptions::default(), &mut text).unwrap();
    }
    let text = String::from_utf8(text).unwrap();
    let used: BTreeSet<&str> = text.split_whitespace().filter_map(|word| word.strip_prefix("vm.")).collect();
    let missing: Vec<&str> = dump::mnemonics().filter(|mnemonic| !used.contains(mnemonic)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
