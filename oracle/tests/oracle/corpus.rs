//! Tests of the corpus are listed in `oracle/corpus_tests.txt`, so that they count as ignored if the corpus
//! is missing, and as missing if it is incomplete.

use crate::{Outcome, ensure};
use libtest_mimic::Trial;
use oracle::captures::{corpus, repository};
use std::collections::BTreeSet;
use std::fs;

/// If set, the list is regenerated.
const UPDATE_VARIABLE: &str = "REHAL_UPDATE_CORPUS_TESTS";
const LIST: &str = "oracle/corpus_tests.txt";
const LISTED: &str = include_str!("../../corpus_tests.txt");

/// Must be called last: compares the list with the tests added before.
pub fn add(trials: &mut Vec<Trial>) {
    if corpus().is_none() {
        let ignored = |name: &str| Trial::test(name, || Err(testing::missing())).with_ignored_flag(true);
        trials.extend(LISTED.lines().map(ignored));
        return;
    }
    let names = trials.iter().map(Trial::name).filter(|name| is_of_corpus(name));
    let names: BTreeSet<String> = names.map(ToOwned::to_owned).collect();
    trials.push(Trial::test("corpus_tests_are_as_listed", move || as_listed(&names)));
}

/// Whether a test belongs to the corpus: test names contain their set.
fn is_of_corpus(name: &str) -> bool {
    ["::corpus/", "::models/", "::models::"].iter().any(|set| name.contains(set))
}

fn as_listed(names: &BTreeSet<String>) -> Outcome {
    if std::env::var_os(UPDATE_VARIABLE).is_some() {
        let text: String = names.iter().map(|name| format!("{name}\n")).collect();
        return Ok(fs::write(repository().join(LIST), text)?);
    }
    let listed: BTreeSet<String> = LISTED.lines().map(ToOwned::to_owned).collect();
    let missing: Vec<_> = listed.difference(names).collect();
    let new: Vec<_> = names.difference(&listed).collect();
    ensure(missing.is_empty() && new.is_empty(), || {
        format!(
            "{LIST} is not what the corpus has; if the corpus is right, set {UPDATE_VARIABLE}=1 and run this test\n\
             missing from the corpus: {missing:#?}\nmissing from the list: {new:#?}"
        )
    })
}
