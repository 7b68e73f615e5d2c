//! Tests of data outside the repository, the corpus and the reference's source, are listed in files, so that
//! they count as ignored if the data is missing, and as missing if it is incomplete.

use crate::{Outcome, ensure, lit};
use libtest_mimic::{Failed, Trial};
use oracle::captures::{corpus, repository};
use oracle::e2e::SOURCE_VARIABLE;
use std::collections::BTreeSet;
use std::fs;

/// Data outside the repository that tests need.
struct Data {
    /// The file that lists the tests, and its contents.
    list: &'static str,
    listed: &'static str,
    /// The test that compares the list with the tests.
    test: &'static str,
    /// If this variable is set, the list is regenerated.
    update_variable: &'static str,
    /// Whether the data is available.
    is_available: fn() -> bool,
    /// Whether a test needs this data, by its name.
    has_test: fn(&str) -> bool,
    /// The error of a test that is run without the data.
    missing: fn() -> Failed,
}

const DATA: [Data; 2] = [
    Data {
        list: "oracle/corpus_tests.txt",
        listed: include_str!("../../corpus_tests.txt"),
        test: "corpus_tests_are_as_listed",
        update_variable: "REHAL_UPDATE_CORPUS_TESTS",
        is_available: || corpus().is_some(),
        has_test: |name| ["::corpus/", "::models/", "::models::"].iter().any(|set| name.contains(set)),
        missing: testing::missing,
    },
    Data {
        list: "oracle/source_tests.txt",
        listed: include_str!("../../source_tests.txt"),
        test: "source_tests_are_as_listed",
        update_variable: "REHAL_UPDATE_SOURCE_TESTS",
        is_available: || lit::source().is_some(),
        has_test: |name| name.starts_with(lit::PREFIX),
        missing: || format!("the reference's source is missing: set {SOURCE_VARIABLE} to a checkout").into(),
    },
];

/// Must be called last: compares the lists with the tests added before.
pub fn add(trials: &mut Vec<Trial>) {
    let mut more = Vec::new();
    for data in &DATA {
        if !(data.is_available)() {
            let ignored = |name: &str| Trial::test(name, || Err((data.missing)())).with_ignored_flag(true);
            more.extend(data.listed.lines().map(ignored));
            continue;
        }
        let names = trials.iter().map(Trial::name).filter(|name| (data.has_test)(name));
        let names: BTreeSet<String> = names.map(ToOwned::to_owned).collect();
        more.push(Trial::test(data.test, move || as_listed(data, &names)));
    }
    trials.extend(more);
}

fn as_listed(data: &Data, names: &BTreeSet<String>) -> Outcome {
    let Data { list, update_variable, .. } = data;
    if std::env::var_os(update_variable).is_some() {
        let text: String = names.iter().map(|name| format!("{name}\n")).collect();
        return Ok(fs::write(repository().join(list), text)?);
    }
    let listed: BTreeSet<String> = data.listed.lines().map(ToOwned::to_owned).collect();
    let missing: Vec<_> = listed.difference(names).collect();
    let new: Vec<_> = names.difference(&listed).collect();
    ensure(missing.is_empty() && new.is_empty(), || {
        format!(
            "{list} differs from the tests; if the tests are right, set {update_variable}=1 and run this test\n\
             only in the list: {missing:#?}\nonly in the tests: {new:#?}"
        )
    })
}
