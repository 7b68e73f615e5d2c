//! `cargo xtask tidy`: repository rules that the compiler does not check.
//!
//! One file per kind of rule. A check takes the tree and returns its problems; it is tested on small
//! synthetic trees that break each rule.

mod age;
mod backends;
mod circles;
mod code;
mod dependencies;
mod docs;
mod fixtures;
mod layers;
mod map;
mod one_of_each;
mod platforms;
mod product;
mod source;
mod state;
mod text;
mod tree;
mod weight;
mod words;

use crate::{Outcome, root};
use std::fmt;
use tree::Tree;

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path below the root of the repository.
    path: String,
    /// Line, from 1; 0 for the whole file.
    line: usize,
    /// The problem, and its remedy.
    what: String,
}

impl Problem {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

type Check = fn(&Tree) -> Vec<Problem>;

const CHECKS: [(&str, Check); 19] = [
    ("layers", layers::check),
    ("crate docs", code::crate_docs),
    ("unsafe only where it is allowed", code::unsafe_code),
    ("file and function length", code::lengths),
    ("no default bodies in backends", backends::no_default_bodies),
    ("state of the process is listed", state::check),
    ("platforms have one place", platforms::check),
    ("one address for each question", one_of_each::check),
    ("whitespace and notes", text::whitespace_and_notes),
    ("comments are wrapped", text::wide_comments),
    ("no addresses", text::addresses),
    ("pinned dependencies", dependencies::check),
    ("fixtures and their manifest", fixtures::check),
    ("documents", docs::check),
    ("size of documents", docs::sizes),
    ("the map of the code", map::check),
    ("glossary", words::check),
    ("doc comments begin with a noun", words::doc_comments),
    ("weight", weight::check),
];

/// Prints what a check found; returns the number of problems.
fn report(name: &str, problems: &[Problem], note: Option<String>) -> usize {
    let note = note.map(|note| format!(" ({note})")).unwrap_or_default();
    println!("tidy: {name}: {}{note}", if problems.is_empty() { "ok" } else { "FAILED" });
    for problem in problems {
        println!("  {problem}");
    }
    problems.len()
}

/// Runs every check; reports all problems at the end.
pub fn main(arguments: &[String]) -> Outcome {
    if let Some(unknown) = arguments.first() {
        return Err(format!("unknown argument {unknown:?} (expected none)").into());
    }
    let tree = Tree::read(&root())?;
    let mut count = 0;
    for (name, check) in CHECKS {
        count += report(name, &check(&tree), None);
    }
    let (problems, note) = age::check(&root());
    count += report("age of the figures", &problems, note);
    if count == 0 { Ok(()) } else { Err(format!("{count} problems").into()) }
}
