//! Rules for Rust files: crate docs, allowed places of `unsafe`, file and function length.

use super::source::{code_only, functions, word_lines};
use super::{Problem, tree::Tree};

/// The document that lists where `unsafe` is allowed, each place with its reason and its assumptions.
const UNSAFE_DOC: &str = "docs/unsafe.md";
/// The section with the list.
const UNSAFE_LIST: &str = "\n## Where unsafe code is\n";

/// Maximum lines of a file.
const FILE_LINES: usize = 900;
/// Maximum lines of a function; about 70 fit on a screen.
const FUNCTION_LINES: usize = 100;
/// Longer functions: file, name, and why.
const LONG_FUNCTIONS: [(&str, &str, &str); 1] = [(
    "crates/vm/src/interpret/dispatch.rs",
    "run",
    "one `match` over the instructions: the compiler lowers it to one jump table, which a split function would not be",
)];

/// Crate roots start with a doc that says what the crate is for and what it must not depend on.
pub fn crate_docs(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in tree.rust().filter(|path| path.ends_with("/src/lib.rs")) {
        let text = tree.text(path);
        let doc: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        if doc.len() < 3 {
            problems.push(Problem::new(
                path,
                1,
                "the crate doc is missing: what the crate is for, what it must not depend on, who uses it",
            ));
        } else if path.starts_with("crates/") && !says_its_limits(&doc) {
            problems.push(Problem::new(path, 1, "the crate doc must say what the crate must not depend on"));
        }
    }
    problems
}

/// Whether a crate doc names what the crate must not depend on.
fn says_its_limits(doc: &[&str]) -> bool {
    let words: Vec<&str> =
        doc.iter().flat_map(|line| line.trim_start_matches("//!").split_whitespace()).collect();
    let text = words.join(" ");
    ["must not depend on", "never"].iter().any(|phrase| text.contains(phrase))
}

/// `unsafe` occurs only in the places that the document lists; every other crate root forbids it.
pub fn unsafe_code(tree: &Tree) -> Vec<Problem> {
    let document = tree.text(UNSAFE_DOC);
    let list =
        document.split_once(UNSAFE_LIST).map_or("", |(_, rest)| rest.split("\n## ").next().unwrap_or(rest));
    let cells = list.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let places: Vec<_> = names.map(|name| format!("crates/{name}").replace("crates/../", "")).collect();
    let mut problems = Vec::new();
    for path in tree.rust() {
        let code = code_only(&tree.text(path));
        if is_root(path) {
            let directory = path.split("src/").next().unwrap_or(path);
            let denied = code.contains("#![forbid(unsafe_code)]")
                || (code.contains("#![deny(unsafe_code)]")
                    && places.iter().any(|place| place.starts_with(directory)));
            if !denied {
                let what = "a crate root forbids unsafe code (or denies it, where a module may have it)";
                problems.push(Problem::new(path, 1, what));
            }
        }
        let covers = |place: &String| path == place || (place.ends_with('/') && path.starts_with(place));
        if !places.iter().any(covers) {
            let what = format!("{UNSAFE_DOC} does not list this file, so that unsafe is not allowed here");
            let lines = word_lines(&code, "unsafe").into_iter();
            problems.extend(lines.map(|line| Problem::new(path, line, what.clone())));
        }
    }
    problems
}

/// Roots of libraries and programs; the entry of a fuzz target is the engine's macro, which needs an unsafe
/// attribute.
fn is_root(path: &str) -> bool {
    let root = path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs") || path.contains("/src/bin/");
    root && !path.starts_with("fuzz/")
}

/// Files and functions stay short enough to read.
pub fn lengths(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in tree.rust() {
        let text = tree.text(path);
        let lines = text.lines().count();
        if lines > FILE_LINES {
            problems.push(Problem::new(
                path,
                0,
                format!("{lines} lines, more than the limit of {FILE_LINES}: split the file"),
            ));
        }
        let is_allowed =
            |name: &str| LONG_FUNCTIONS.iter().any(|(file, function, _)| *file == path && *function == name);
        for function in functions(&code_only(&text))
            .iter()
            .filter(|function| function.lines > FUNCTION_LINES && !is_allowed(&function.name))
        {
            let what = format!(
                "{} has {} lines, more than the limit of {FUNCTION_LINES}: a function should fit on a screen (about 70)",
                function.name, function.lines
            );
            problems.push(Problem::new(path, function.line, what));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    const GOOD: &str = "//! Does one thing.\n//! It must not depend on\n//! another.\n//! All crates use it.\n#![forbid(unsafe_code)]\n";

    #[test]
    fn a_good_crate_passes() {
        let (_directory, tree) = made_up(&[("crates/x/src/lib.rs", GOOD)]);
        assert!(crate_docs(&tree).is_empty() && unsafe_code(&tree).is_empty() && lengths(&tree).is_empty());
    }

    #[test]
    fn crate_docs_are_required() {
        let (_directory, tree) = made_up(&[
            ("crates/x/src/lib.rs", "pub fn f() {}\n"),
            ("crates/y/src/lib.rs", "//! A\n//! B\n//! C\n"),
        ]);
        let lines: Vec<_> = crate_docs(&tree).iter().map(|problem| problem.path.clone()).collect();
        assert_eq!(lines, ["crates/x/src/lib.rs", "crates/y/src/lib.rs"]);
    }

    #[test]
    fn unsafe_needs_an_allowed_place() {
        let list = "| `other/src/` |\n## Where unsafe code is\n\n| path | purpose |\n| --- | --- |\n\
                    | `base/src/map.rs`, `local/src/platform/` | maps `vm/src/` |\n\n## Next\n\n| `vm/src/` | x |\n";
        let code = "fn f() { unsafe {} }\n";
        let (_directory, tree) = made_up(&[
            (UNSAFE_DOC, list),
            ("crates/base/src/lib.rs", "#![deny(unsafe_code)]\n"),
            ("crates/base/src/map.rs", code),
            ("crates/base/src/other.rs", "// unsafe in a comment\nfn f() { unsafe {} }\n"),
            ("crates/capture/src/lib.rs", "#![deny(unsafe_code)]\n"),
            ("crates/cli/src/bin/tool.rs", "fn main() {}\n"),
            ("crates/local/src/platform/linux.rs", code),
            ("crates/other/src/a.rs", code),
            ("crates/vm/src/a.rs", code),
        ]);
        let found: Vec<_> = unsafe_code(&tree).iter().map(|p| (p.path.clone(), p.line)).collect();
        let expected = [
            ("crates/base/src/other.rs", 2),
            ("crates/capture/src/lib.rs", 1),
            ("crates/cli/src/bin/tool.rs", 1),
            ("crates/other/src/a.rs", 1),
            ("crates/vm/src/a.rs", 1),
        ];
        assert_eq!(found, expected.map(|(path, line)| (path.to_owned(), line)));
    }

    #[test]
    fn long_files_and_functions_are_reported() {
        let long = format!("fn f() {{\n{}}}\n", "    g();\n".repeat(FUNCTION_LINES));
        let (_directory, tree) =
            made_up(&[("crates/x/src/a.rs", &long), ("crates/x/src/b.rs", &"\n".repeat(FILE_LINES + 1))]);
        let problems = lengths(&tree);
        assert_eq!(problems.len(), 2);
        assert!(problems[0].what.starts_with("f has 102 lines"), "{}", problems[0]);
    }
}
