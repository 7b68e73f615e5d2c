//! ARCHITECTURE.md, the map of the code, names files that exist and names that are in them.
//!
//! A path is a code span with a `/` or the ending of a file. It is below the root, or below `crates/` with or
//! without the `src/` of its crate, and ends with `/` if it is a directory. In the sections of [`NAMED`],
//! every other code span is a name: of a function, a type or a variant. It is followed by the file that has
//! it, in the same item, row or paragraph.

use super::docs::inline_code;
use super::source::code_only;
use super::{Problem, tree::Tree};

const MAP: &str = "ARCHITECTURE.md";

/// The sections whose names are checked, by the begin of their headings.
const NAMED: [&str; 2] = ["## From ", "## To add "];

/// Endings of the paths that have no `/`.
const ENDINGS: [&str; 3] = [".rs", ".md", ".toml"];

/// Checks every path of the map, and the names in its walks and instructions.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut is_named = false;
    let mut names: Vec<(usize, String)> = Vec::new();
    for (number, line) in tree.text(MAP).lines().enumerate() {
        let begins = line.trim().is_empty() || line.starts_with(['#', '|', '-']) || is_numbered(line);
        if begins {
            problems.extend(names.drain(..).map(|(at, name)| without_file(at, &name)));
        }
        if line.starts_with("## ") {
            is_named = NAMED.iter().any(|begin| line.starts_with(begin));
        }
        // An indented block, such as the table of operations, has paths without marks.
        let is_block = line.starts_with("    ") && !line.contains('`');
        let marked = if is_block {
            line.split_whitespace().filter(|it| it.ends_with(".rs") && it.contains('/')).collect()
        } else {
            inline_code(line)
        };
        for code in marked {
            if !is_path(code) {
                names.extend(is_named.then(|| (number + 1, code.to_owned())));
                continue;
            }
            let files = files_of(tree, code);
            if files.is_empty() {
                problems.push(Problem::new(MAP, number + 1, format!("{code} does not exist")));
            }
            for (at, name) in names.drain(..).filter(|_| !files.is_empty()) {
                problems.extend(
                    missing_words(tree, &files, &name)
                        .map(|word| Problem::new(MAP, at, format!("{code} has no `{word}`"))),
                );
            }
        }
    }
    problems.extend(names.drain(..).map(|(at, name)| without_file(at, &name)));
    problems
}

fn without_file(line: usize, name: &str) -> Problem {
    Problem::new(MAP, line, format!("`{name}` is not followed by the file that has it"))
}

fn is_numbered(line: &str) -> bool {
    line.split_once(". ")
        .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit()))
}

fn is_path(code: &str) -> bool {
    let is_word = !code.contains(char::is_whitespace) && !code.starts_with('-') && !code.contains("::");
    is_word && (code.contains('/') || ENDINGS.iter().any(|ending| code.ends_with(ending)))
}

/// The files of a path in the map: one file, the files below a directory, or none.
fn files_of<'a>(tree: &'a Tree, path: &str) -> Vec<&'a str> {
    let in_src = path.split_once('/').map(|(name, rest)| format!("crates/{name}/src/{rest}"));
    let places = [Some(path.to_owned()), Some(format!("crates/{path}")), in_src];
    let is_below =
        |known: &str, place: &str| known == place || (place.ends_with('/') && known.starts_with(place));
    let found = places.into_iter().flatten().map(|place| {
        tree.paths.iter().map(String::as_str).filter(|known| is_below(known, &place)).collect::<Vec<_>>()
    });
    found.into_iter().find(|files| !files.is_empty()).unwrap_or_default()
}

/// The identifiers of `name` that occur in none of the files, comments of Rust files excluded.
fn missing_words(tree: &Tree, files: &[&str], name: &str) -> impl Iterator<Item = String> {
    let texts: Vec<String> = files
        .iter()
        .map(|file| if file.ends_with(".rs") { code_only(&tree.text(file)) } else { tree.text(file) })
        .collect();
    let words: Vec<String> = words(name).map(ToOwned::to_owned).collect();
    words.into_iter().filter(move |word| !texts.iter().any(|text| words_have(text, word)))
}

fn words_have(text: &str, word: &str) -> bool {
    words(text).any(|known| known == word)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    fn problems_of(map: &str) -> Vec<String> {
        let (_directory, tree) = made_up(&[
            (MAP, map),
            ("Cargo.toml", ""),
            ("crates/hal/src/op.rs", "// Gone\nenum Op { Queue }\nfn as_queue_op() {}\n"),
            ("crates/hal/src/models/a.rs", "struct Model;"),
        ]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn paths_exist_from_the_root_or_a_crate() {
        let map = "`crates/hal/src/op.rs`, `hal/src/op.rs`, `hal/op.rs`, `hal/models/`, `Cargo.toml`, `cargo check`\n";
        assert_eq!(problems_of(map), Vec::<String>::new());
        assert_eq!(problems_of("a\n`hal/none.rs`\n"), ["ARCHITECTURE.md:2: hal/none.rs does not exist"]);
        assert_eq!(problems_of("    Op  hal/no.rs  a.rs\n"), ["ARCHITECTURE.md:1: hal/no.rs does not exist"]);
        assert_eq!(problems_of("`hal/models`\n"), ["ARCHITECTURE.md:1: hal/models does not exist"]);
    }

    #[test]
    fn names_are_in_the_file_beside_them() {
        let named = |text: &str| problems_of(&format!("## To add X\n\n{text}\n"));
        assert_eq!(
            named("- `Op::Queue` and `as_queue_op` (`hal/op.rs`), `Model`\n  (`hal/models/`)"),
            [""; 0]
        );
        assert_eq!(named("- `Op::Host` (`hal/op.rs`)"), ["ARCHITECTURE.md:3: hal/op.rs has no `Host`"]);
        assert_eq!(named("- `Gone` (`hal/op.rs`)"), ["ARCHITECTURE.md:3: hal/op.rs has no `Gone`"]);
        assert_eq!(
            named("1. `Op`\n2. `hal/op.rs`"),
            ["ARCHITECTURE.md:3: `Op` is not followed by the file that has it"]
        );
        assert_eq!(problems_of("## The picture\n\n`Anything`\n"), [""; 0]);
    }
}
