//! Shared by the tests of several crates: the location of the fixtures and the corpus, tests that are listed
//! as ignored if the corpus is missing, and damaged files.
//!
//! The fixtures are part of the repository. The corpus is a larger, external set of captures, programs and
//! models: in the directory that `REHAL_CORPUS` names, else in `../shared/corpus`. This crate must not depend
//! on file formats. Used by tests only.
#![forbid(unsafe_code)]

pub mod machines;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fastrand::Rng;
use libtest_mimic::{Failed, Trial};

/// Names the directory of the corpus.
pub const CORPUS_VARIABLE: &str = "REHAL_CORPUS";

/// A program of two functions: one of static shapes without constants, one of dynamic shapes with four.
pub const TWO_FUNCTIONS: &str = "module @my {
  func.func @double(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = arith.addf %a, %a : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
  func.func @add(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %0 = arith.addf %a, %b : tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}
";

/// The root of this repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the repository").to_path_buf()
}

/// The fixtures.
pub fn fixtures() -> PathBuf {
    repository().join("fixtures")
}

/// The corpus, or `None` if it is missing.
///
/// # Panics
///
/// If `REHAL_CORPUS` names a directory without captures: a requested corpus must not be skipped.
pub fn corpus() -> Option<PathBuf> {
    match std::env::var_os(CORPUS_VARIABLE) {
        Some(named) if !named.is_empty() => {
            let named = PathBuf::from(named);
            let has_captures = named.join("captures").is_dir();
            assert!(has_captures, "{CORPUS_VARIABLE} names {}, which has no captures", named.display());
            Some(named)
        }
        _ => {
            let beside = repository().join("../shared/corpus");
            beside.join("captures").is_dir().then_some(beside)
        }
    }
}

/// Changes a few bytes: bits, whole values that overflow, or runs copied from elsewhere.
pub fn mutate(bytes: &mut [u8], random: &mut Rng) {
    const EXTREMES: [u64; 8] =
        [0, 1, u64::MAX, u64::MAX - 63, u64::MAX / 16 + 1, 1 << 32, u64::MAX >> 1, 4096];
    for _ in 0..=random.usize(..3) {
        let at = random.usize(..bytes.len());
        let length = random.usize(..64).min(bytes.len() - at);
        match random.usize(..4) {
            0 => bytes[at] ^= 1 << random.usize(..8),
            1 => bytes[at] = random.u8(..),
            2 => {
                let value = EXTREMES[random.usize(..EXTREMES.len())].to_le_bytes();
                let length = value.len().min(bytes.len() - at);
                bytes[at..at + length].copy_from_slice(&value[..length]);
            }
            _ => {
                let from = random.usize(..=bytes.len() - length);
                bytes.copy_within(from..from + length, at);
            }
        }
    }
}

/// The capture files of the fixtures or of the corpus, sorted by name.
///
/// # Panics
///
/// If the directory cannot be read, or has too few captures to be one of the two.
pub fn captures(set: &Path) -> Vec<PathBuf> {
    captures_in(&set.join("captures"), 50)
}

/// The captures of the fixtures on Vulkan, by name.
///
/// # Panics
///
/// As [`captures`].
pub fn vulkan_captures() -> Vec<PathBuf> {
    captures_in(&fixtures().join("vulkan/captures"), 20)
}

/// The captures in a directory, of which there must be more than `least`.
fn captures_in(directory: &Path, least: usize) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory);
    let entries = entries.unwrap_or_else(|error| panic!("reading {}: {error}", directory.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("the directory can be read").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "ireereplay"));
    assert!(paths.len() > least, "{} has only {} captures", directory.display(), paths.len());
    paths.sort();
    paths
}

/// A capture with every payload type and every edge case that the format allows. It cannot be replayed.
pub fn sample_capture() -> Vec<u8> {
    read_sample("crates/capture/tests/data/sample.ireereplay")
}

/// A profile with a row of every content type: of two devices with clocks, the second of which cannot be
/// correlated with the host's.
pub fn sample_profile() -> Vec<u8> {
    read_sample(SAMPLE_PROFILE)
}

/// The file of [`sample_profile`], in the repository. The fixtures have the reference's reports of it.
const SAMPLE_PROFILE: &str = "crates/profile/tests/data/sample.ireeprof";

fn read_sample(path: &str) -> Vec<u8> {
    std::fs::read(repository().join(path)).unwrap_or_else(|error| panic!("reading {path}: {error}"))
}

/// The device profiles of which the fixtures have the reference's reports, by name: recorded ones, and the
/// sample of the profile crate.
///
/// # Panics
///
/// If there are fewer than four.
pub fn profiles() -> Vec<(String, PathBuf)> {
    let directory = fixtures().join("profiles");
    let entries = std::fs::read_dir(&directory).expect("the fixtures have profiles");
    let name =
        |path: PathBuf| path.file_name()?.to_str()?.strip_suffix(".reports.txt").map(ToOwned::to_owned);
    let mut names: Vec<_> =
        entries.filter_map(|entry| name(entry.expect("the directory can be read").path())).collect();
    names.sort();
    assert!(names.len() >= 4, "{} has only {names:?}", directory.display());
    let path = |name: &str| match name {
        "sample" => repository().join(SAMPLE_PROFILE),
        name => directory.join(format!("{name}.ireeprof")),
    };
    names.into_iter().map(|name| (name.clone(), path(&name))).collect()
}

/// Compares `text` with a golden file of our own output, which is written if `REHAL_WRITE_SAMPLES` is set.
///
/// # Panics
///
/// If they differ, with the first line that does.
pub fn assert_golden(path: &Path, text: &str) {
    if std::env::var_os("REHAL_WRITE_SAMPLES").is_some() {
        std::fs::write(path, text).unwrap_or_else(|error| panic!("writing {}: {error}", path.display()));
    }
    let expected = std::fs::read_to_string(path);
    let expected = expected.unwrap_or_else(|error| panic!("reading {}: {error}", path.display()));
    let differs = text.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
    assert!(
        text == expected,
        "{}: {differs:?} (found, expected), {} lines instead of {}; REHAL_WRITE_SAMPLES=1 writes it",
        path.display(),
        text.lines().count(),
        expected.lines().count()
    );
}

/// A test on a set of captures, for the fixtures and the corpus: two tests, the second of which is ignored if
/// the corpus is missing. A panic fails it.
pub fn on_both_sets(name: &str, test: fn(&Path)) -> [Trial; 2] {
    let of_fixtures = Trial::test(format!("{name}::fixtures"), move || {
        test(&fixtures());
        Ok(())
    });
    [of_fixtures, on_corpus(&format!("{name}::corpus"), test)]
}

/// A test on the corpus, ignored if the corpus is missing. A panic fails it.
pub fn on_corpus(name: &str, test: fn(&Path)) -> Trial {
    let corpus = corpus();
    let is_missing = corpus.is_none();
    let run = move || match &corpus {
        Some(corpus) => {
            test(corpus);
            Ok(())
        }
        None => Err(missing()),
    };
    Trial::test(name, run).with_ignored_flag(is_missing)
}

/// The failure of a corpus test that is run without the corpus.
pub fn missing() -> Failed {
    format!("the corpus is missing: {CORPUS_VARIABLE} names its directory").into()
}

/// A case of a large suite: its name, with `/` between the parts, and the test.
pub struct Case {
    /// The name.
    pub name: String,
    /// Fails by an error or a panic.
    pub run: Box<dyn Fn() -> Result<(), Failed> + Send>,
}

/// The cases as tests. Under `cargo test` each is one. Under nextest, which starts a process for each test,
/// the cases of a topmost directory are one: to start a process and to open a device takes longer than most.
/// All of them run, and the failure names those that failed.
pub fn trials(cases: impl IntoIterator<Item = Case>) -> Vec<Trial> {
    let is_one_process = std::env::var_os("NEXTEST").is_none();
    if is_one_process {
        return cases.into_iter().map(|Case { name, run }| Trial::test(name, run)).collect();
    }
    let mut directories = BTreeMap::<String, Vec<Case>>::new();
    for case in cases {
        let directory = case.name.split_once('/').map_or("", |(directory, _)| directory);
        directories.entry(directory.to_owned()).or_default().push(case);
    }
    directories.into_iter().map(|(name, cases)| Trial::test(name, move || run_all(&cases))).collect()
}

/// Runs all cases; fails with the names and the failures of those that fail.
fn run_all(cases: &[Case]) -> Result<(), Failed> {
    let mut failures = Vec::new();
    for Case { name, run } in cases {
        // What a case panics in is its own: cases share nothing.
        let failure = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(())) => continue,
            Ok(Err(failed)) => failed.message().unwrap_or("failed").to_owned(),
            Err(_) => "panicked, see above".to_owned(),
        };
        eprintln!("{name}: {failure}");
        failures.push(format!("{name}: {failure}"));
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, run: fn() -> Result<(), Failed>) -> Case {
        Case { name: name.to_owned(), run: Box::new(run) }
    }

    #[test]
    fn all_cases_run_and_those_that_fail_are_named() {
        let cases = [
            case("a/ok", || Ok(())),
            case("a/fails", || Err("expected 1".into())),
            case("a/panics", || panic!("as it should")),
            case("a/fails_too", || Err("expected 2".into())),
        ];
        let failed = run_all(&cases).unwrap_err();
        assert_eq!(
            failed.message(),
            Some("a/fails: expected 1\na/panics: panicked, see above\na/fails_too: expected 2")
        );
        assert!(run_all(&cases[..1]).is_ok());
    }

    #[test]
    fn cases_are_tests_or_parts_of_one() {
        let cases = ["a/b/x", "a/b/y", "a/z", "w"].map(|name| case(name, || Ok(())));
        let names: Vec<String> = trials(cases).iter().map(|trial| trial.name().to_owned()).collect();
        let is_one_process = std::env::var_os("NEXTEST").is_none();
        assert_eq!(names, if is_one_process { vec!["a/b/x", "a/b/y", "a/z", "w"] } else { vec!["", "a"] });
    }

    #[test]
    fn the_fixtures_are_found() {
        assert!(captures(&fixtures()).iter().any(|path| path.ends_with("add4.add.local-sync.ireereplay")));
    }

    #[test]
    fn a_test_of_the_corpus_is_ignored_without_it() {
        assert_eq!(on_corpus("name", |_| ()).has_ignored_flag(), corpus().is_none());
    }
}
