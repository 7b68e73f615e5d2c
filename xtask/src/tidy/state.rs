//! All process-wide mutable state is listed on the first page of the crate `crash`.
//!
//! A row of its table has the path of a file below `crates/`, with or without the `src/` of its crate, and
//! the names of the statics and thread-locals in it. Every static counts but those of types that are known to
//! be constant: a new type is not.

use super::source::{code_only, word_lines};
use super::{Problem, product, tree::Tree};

const PAGE: &str = "crates/crash/src/lib.rs";

/// Types of constants, by how they begin without the brackets of arrays.
const CONSTANTS: [&str; 14] = [
    "&",
    "u8;",
    "u16;",
    "u32;",
    "u64;",
    "str",
    "extern     fn",
    "Envelope",
    "FlagNames",
    "Function;",
    "Ref ",
    "StructSchema",
    "UnionSchema",
    "$crate::flatbuffer::TableSchema",
];

/// Checks that the page lists each piece of state, and nothing else.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let listed = listed(&tree.text(PAGE));
    let mut problems = Vec::new();
    let mut found = Vec::new();
    for file in product::files(tree).into_iter().filter(|file| file.name != "xtask") {
        for (line, name) in state_of(&file.text) {
            let place = file.path.trim_start_matches("crates/").replacen("/src/", "/", 1);
            if !listed.iter().any(|(_, at, it)| *at == place && *it == name) {
                let what = format!("{name} is process-wide state that the table of {PAGE} does not list");
                problems.push(Problem::new(&file.path, line, what));
            }
            found.push((place, name));
        }
    }
    for (line, place, name) in &listed {
        if !found.iter().any(|(at, it)| at == place && it == name) {
            problems.push(Problem::new(PAGE, *line, format!("{place} has no state {name}")));
        }
    }
    problems
}

/// The rows of the page: line, place and name.
fn listed(page: &str) -> Vec<(usize, String, String)> {
    let rows =
        page.lines().enumerate().filter_map(|(at, line)| Some((at + 1, line.strip_prefix("//! | `")?)));
    let names = rows.flat_map(|(at, row)| {
        let mut cells = row.split(" | ");
        let place = cells.next().unwrap_or_default().trim_end_matches('`').to_owned();
        let names = cells.next().unwrap_or_default().split('`').skip(1).step_by(2);
        names.map(move |name| (at, place.clone(), name.to_owned())).collect::<Vec<_>>()
    });
    names.collect()
}

/// The statics and thread-locals of product code that may change, with their lines.
fn state_of(text: &str) -> Vec<(usize, String)> {
    let code = code_only(text);
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for line in word_lines(&code, "static") {
        let Some((before, declared)) = lines[line - 1].split_once("static ") else { continue };
        let begins = before.trim();
        if !(begins.is_empty() || begins.starts_with("pub")) || before.contains('\'') {
            continue;
        }
        let declared = declared.trim_start_matches("mut ");
        let Some((name, kind)) = declared.split_once(':') else { continue };
        let kind = kind.trim_start_matches([' ', '[']);
        let is_constant =
            !lines[line - 1].contains("static mut ") && CONSTANTS.iter().any(|it| kind.starts_with(it));
        if !is_constant && !name.starts_with('$') {
            found.push((line, name.to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    #[test]
    fn state_that_is_not_listed_and_rows_without_state_are_found() {
        let page = "//! | place | state | why |\n//! | --- | --- | --- |\n//! | `hal/a.rs` | `A`, `B` | ids |\n//! | `hal/b.rs` | `GONE` | - |\n";
        let code = "static A: AtomicU8 = AtomicU8::new(0);\nthread_local! {\n    static B: Cell<u8> = const { Cell::new(0) };\n}\n\
                    fn f() {\n    static C: [Slot; 2] = [NEW; 2];\n}\nstatic NAME: &str = \"x\";\npub static TABLE: [[u8; 2]; 2] = X;\n\
                    fn g(it: &'static Mutex<u8>) {}\npub(crate) static mut D: u8 = 0;\n\
                    #[cfg(test)]\nmod tests {\n    static E: Once = Once::new();\n}\n";
        let (_directory, tree) = made_up(&[
            (PAGE, page),
            ("crates/hal/src/a.rs", code),
            ("crates/hal/src/tests.rs", "static F: Once = Once::new();\n"),
            ("crates/hal/tests/g.rs", "static G: Once = Once::new();\n"),
        ]);
        let problems: Vec<_> =
            check(&tree).iter().map(|it| format!("{}:{} {}", it.path, it.line, it.what)).collect();
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].starts_with("crates/hal/src/a.rs:6 C is"), "{problems:?}");
        assert!(problems[1].starts_with("crates/hal/src/a.rs:11 D is"), "{problems:?}");
        assert_eq!(problems[2], "crates/crash/src/lib.rs:4 hal/b.rs has no state GONE");
    }
}
