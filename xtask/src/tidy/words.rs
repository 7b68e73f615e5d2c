//! The glossary: words and phrases that describe around a term, and the term to write instead; and the first
//! words of doc comments.

use super::text::{TEXT, is_ours};
use super::{Problem, tree::Tree};

/// In each line, a phrase in lower case and what to write instead. Matches whole words, across line breaks
/// and underscores.
const WORDS: &str = include_str!("words.txt");

/// Uses that are right: path, phrase, and why. A row whose file no longer has the phrase is a problem too.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("crates/vm/tests/contexts/lent.rs", "given up", "names of functions in fixtures/vm/lent.vmasm"),
    ("fixtures/vm/lent.vmasm", "given up", "names of functions, which the compiled module contains"),
    ("fixtures/vm/shared.vmasm", "somebody", "a message in the compiled module"),
    ("fixtures/vm/client.vmasm", "nobody", "names of functions, which the compiled module contains"),
];

/// How the files with the phrases and with their tests begin.
const OWN: &str = "xtask/src/tidy/words.";

/// Words of the glossary.
pub fn check(tree: &Tree) -> Vec<Problem> {
    check_with(tree, ALLOWED)
}

fn check_with(tree: &Tree, allowed: &[(&str, &str, &str)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut used = vec![false; allowed.len()];
    for path in tree.ending(&TEXT).filter(|path| is_ours(path) && !path.starts_with(OWN)) {
        for (line, phrase, instead) in matches(&tree.text(path)) {
            let row = allowed.iter().position(|(place, allowed, _)| *place == path && *allowed == phrase);
            if let Some(row) = row {
                used[row] = true;
            } else {
                problems.push(Problem::new(path, line, format!("'{phrase}': write {instead}")));
            }
        }
    }
    for ((path, phrase, _), _) in allowed.iter().zip(used).filter(|(_, used)| !used) {
        problems.push(Problem::new(
            path,
            0,
            format!("no '{phrase}' here: remove it from ALLOWED in words.rs"),
        ));
    }
    problems
}

/// Doc comments that begin with a pronoun in place of the noun that they describe.
pub fn doc_comments(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in tree.ending(&[".rs"]) {
        let mut before = "";
        for (index, line) in tree.text(path).lines().enumerate() {
            let line = line.trim_start();
            let is_doc = line.starts_with("//!") || line.starts_with("///");
            let (marker, comment) = line.split_at(if is_doc { 3 } else { 0 });
            let word = comment.trim_start().split(|char: char| !char.is_alphanumeric()).next();
            if let Some(word @ ("What" | "Those")) = word
                && is_doc
                && marker != before
            {
                let what = format!("a doc comment begins with '{word}': write the noun that it describes");
                problems.push(Problem::new(path, index + 1, what));
            }
            before = marker;
        }
    }
    problems
}

/// Line, phrase and replacement of each match in a text.
fn matches(text: &str) -> Vec<(usize, &'static str, &'static str)> {
    let (prose, lines) = prose(text);
    let line_of = |at: usize| lines.partition_point(|start| *start <= at);
    let mut found = Vec::new();
    for (phrase, instead) in WORDS.lines().filter_map(|line| line.split_once(": ")) {
        let whole = prose.match_indices(phrase).filter(|(at, _)| {
            let after = &prose[at + phrase.len()..];
            is_whole(&prose, *at, phrase.len()) && !(phrase == "stands" && after.starts_with(" for "))
        });
        found.extend(whole.map(|(at, _)| (line_of(at), phrase, instead)));
    }
    for verb in ["is no ", "are no "] {
        let phrase = if verb == "is no " { "is no" } else { "are no" };
        let whole = prose.match_indices(verb).filter(|(at, _)| is_whole(&prose, *at, phrase.len()));
        let misused = whole.filter(|(at, _)| !is_existential(&prose[..*at], &prose[at + verb.len()..]));
        found.extend(misused.map(|(at, _)| (line_of(at), phrase, "is not a; or without, missing")));
    }
    found.sort_unstable();
    found
}

/// Whether "is no" between these texts is plain English: "there is no", "is no longer", "is no more than".
fn is_existential(before: &str, after: &str) -> bool {
    let subject = before.split_whitespace().next_back().unwrap_or_default();
    let object = after.split_whitespace().next().unwrap_or_default();
    let object = object.trim_matches(|char: char| !char.is_alphanumeric());
    matches!(subject, "there" | "if" | "unless")
        || ["longer", "more", "less", "greater", "larger", "smaller"].contains(&object)
}

fn is_whole(text: &str, at: usize, length: usize) -> bool {
    let is_word = |char: Option<char>| char.is_some_and(|char| char.is_alphanumeric());
    !is_word(text[..at].chars().next_back()) && !is_word(text[at + length..].chars().next())
}

/// The text in lower case with single spaces, without comment markers and underscores; and where each line
/// starts in it.
fn prose(text: &str) -> (String, Vec<usize>) {
    let (mut prose, mut lines) = (String::with_capacity(text.len()), Vec::new());
    for line in text.lines() {
        lines.push(prose.len());
        let line = line.trim_start();
        let line =
            ["//!", "///", "//", "#"].iter().find_map(|marker| line.strip_prefix(marker)).unwrap_or(line);
        for word in line.replace(['_', '/'], " ").split_whitespace() {
            prose += &word.to_lowercase();
            prose.push(' ');
        }
    }
    (prose, lines)
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    fn found(text: &str) -> Vec<(usize, &'static str)> {
        matches(text).into_iter().map(|(line, phrase, _)| (line, phrase)).collect()
    }

    #[test]
    fn phrases_are_found_across_lines_and_underscores() {
        assert_eq!(found("// The file is in the Folder.\n"), [(1, "folder")]);
        assert_eq!(found("fn f() {}\n    /// a whole\n    /// number of bytes\n"), [(2, "whole number")]);
        assert_eq!(found("fn what_is_none_of_these() {}\n"), [(1, "what is none")]);
        assert_eq!(found("a directory, folderol, `n` stands for an integer\n"), []);
    }

    #[test]
    fn is_no_is_allowed_only_where_something_does_not_exist() {
        assert_eq!(found("'x' is no device\n"), [(1, "is no")]);
        assert_eq!(found("these are no files\n"), [(1, "are no")]);
        assert_eq!(found("there is no device; it is no longer there; this no-op is no more than one\n"), []);
    }

    #[test]
    fn doc_comments_begin_with_a_noun() {
        let text = "//! What is it.\n\n/// Those of one.\nstruct A {\n    /// A field.\n    /// What follows.\n\
                    \x20   a: u8,\n    /// What.\n    b: u8,\n}\n/// Whatever is next.\nWhat!();\n// What is no doc.\n";
        let (_directory, tree) = made_up(&[("a.rs", text), ("a.md", text)]);
        let problems: Vec<_> = doc_comments(&tree).iter().map(ToString::to_string).collect();
        let what = |line: usize, word: &str| {
            format!("a.rs:{line}: a doc comment begins with '{word}': write the noun that it describes")
        };
        assert_eq!(problems, [what(1, "What"), what(3, "Those"), what(8, "What")]);
    }

    #[test]
    fn rows_of_the_lists_must_be_needed() {
        let (_directory, tree) =
            made_up(&[("a.md", "a folder\n"), ("b.md", "fine\n"), ("c.md", "the folder button\n")]);
        let allowed = [("c.md", "folder", "a label"), ("b.md", "folder", "stale")];
        let problems = check_with(&tree, &allowed);
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "a.md:1: 'folder': write directory",
                "b.md: no 'folder' here: remove it from ALLOWED in words.rs",
            ]
        );
    }
}
