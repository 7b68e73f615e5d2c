//! One address for each question: `xtask/one_of_each.toml` names the files that may answer it, each with a
//! reason. A new way to answer it elsewhere is a problem, and so is a named file that does not answer it.

use super::product::{self, Product};
use super::source::code_only;
use super::{Problem, tree::Tree};
use regex_lite::Regex;
use serde::Deserialize;

const TABLE: &str = "xtask/one_of_each.toml";

/// Crates for tests, which ask as tests do.
const FOR_TESTS: [&str; 2] = ["cts", "interleave"];

/// The table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    question: Vec<Question>,
}

/// A question to the system or to a format.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    name: String,
    /// A line of code that matches this expression asks it.
    pattern: String,
    /// Whether the expression looks into strings.
    #[serde(default)]
    in_strings: bool,
    /// The function that others use.
    instead: String,
    #[serde(default)]
    places: Vec<Places>,
}

/// Places that may ask it, for the same reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Places {
    #[serde(rename = "reason")]
    _reason: String,
    /// Files below `crates`; with a `/` at the end, directories.
    files: Vec<String>,
}

/// Checks that each question is asked where the table says, and nowhere else.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let table: Table = match toml::from_str(&tree.text(TABLE)) {
        Ok(table) => table,
        Err(error) => return vec![Problem::new(TABLE, 0, error.to_string())],
    };
    let is_asked = |file: &Product| file.name != "xtask" && !FOR_TESTS.contains(&file.name.as_str());
    let files = product::files(tree).into_iter().filter(is_asked);
    let files: Vec<_> = files.map(|file| (code_only(&file.text), file)).collect();
    table.question.iter().flat_map(|question| question.check(&files)).collect()
}

impl Question {
    fn check(&self, files: &[(String, Product)]) -> Vec<Problem> {
        let pattern = match Regex::new(&self.pattern) {
            Ok(pattern) => pattern,
            Err(error) => return vec![Problem::new(TABLE, 0, format!("{}: {error}", self.name))],
        };
        let mut unused: Vec<_> = self.places.iter().flat_map(|it| &it.files).collect();
        let mut problems = Vec::new();
        for (code, file) in files {
            let path = file.path.trim_start_matches("crates/");
            let texts = file.text.lines().zip(code.lines());
            let lines = texts.enumerate().filter_map(|(at, (text, code))| {
                // A line of comments has no code.
                let text = if self.in_strings && !code.trim().is_empty() { text } else { code };
                pattern.is_match(text).then_some(at + 1)
            });
            let covers =
                |place: &&String| *place == path || (place.ends_with('/') && path.starts_with(*place));
            let is_listed = self.places.iter().flat_map(|it| &it.files).any(|place| covers(&place));
            let lines: Vec<_> = lines.collect();
            if is_listed && !lines.is_empty() {
                unused.retain(|place| !covers(place));
            } else {
                let what = format!("{}: use {}, or give a reason in {TABLE}", self.name, self.instead);
                problems.extend(lines.into_iter().map(|line| Problem::new(&file.path, line, what.clone())));
            }
        }
        let unused = unused.into_iter().map(|place| format!("{}: {place} does not ask it", self.name));
        problems.extend(unused.map(|what| Problem::new(TABLE, 0, what)));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    /// The problems of files, by the table of the repository without its places, as question and line.
    fn found(path: &str, text: &str) -> Vec<(String, usize)> {
        let table = std::fs::read_to_string(crate::root().join(TABLE)).unwrap();
        let rows = table.split("\n\n").filter(|it| !it.contains("[[question.places]]"));
        let table = rows.map(|row| row.split("places =").next().unwrap()).collect::<Vec<_>>().join("\n\n");
        let (_directory, tree) = made_up(&[(path, text), (TABLE, &table)]);
        let name = |it: Problem| (it.what.split(':').next().unwrap().to_owned(), it.line);
        check(&tree).into_iter().map(name).collect()
    }

    #[test]
    fn each_question_of_the_repository_is_recognized() {
        for (question, asked) in [
            ("reading a clock", "let now = Instant::now();"),
            ("reading a clock", "clock_gettime(ClockId::Monotonic)"),
            ("starting a process", "let mut it = Command::new(\"cc\");"),
            ("starting a process", "match libc::fork() {"),
            ("reading an ELF file", "let header = elf::FileHeader64::parse(data)?;"),
            ("reading an ELF file", "use object::read::SymbolIndex;"),
            ("reading a FlatBuffer", "use rehal_base::flatbuffer::{Table, Vector};"),
            ("reading the framing of records", "let (header, rest) = RecordHeader::ref_from_prefix(bytes)?;"),
            ("computing an interval", "    Interval { low: 1.0, high: 2.0 }"),
            ("the text of a duration", "it if it < 999.5e3 => (ns / 1e3, \"us\"),"),
            ("the text of a duration", "write!(f, \"{}.{:03} ms\", ns / 1_000_000, rest)"),
            ("the name of a driver or a format", "if driver == \"local-task\" {"),
            ("the name of a driver or a format", "Some(\"vulkan\") => 1,"),
            ("the name of a driver or a format", "\"vulkan\" | \"cuda\" => 1,"),
            ("the name of a driver or a format", "format.starts_with(\"embedded-elf-\")"),
            ("a thread that panics if there is none", "std::thread::spawn(g);"),
            ("a thread that panics if there is none", "thread::scope(|s| s.spawn(g));"),
            ("a thread that panics if there is none", "thread::scope(|scope| scope.spawn(g));"),
            ("a thread that panics if there is none", "use rayon::prelude::*;"),
            ("the name of a flag", "let a = \"use --recover\";"),
            ("the name of a flag", "let a = \"--x=1\";"),
        ] {
            let text = format!("// {asked}\n{asked}\n#[cfg(test)]\nmod tests {{\n    {asked}\n}}\n");
            assert_eq!(found("crates/x/src/a.rs", &text), [(question.to_owned(), 2)], "{asked}");
            assert_eq!(found("crates/x/tests/a.rs", &text), []);
            assert_eq!(found("crates/cts/src/a.rs", &text), []);
        }
        for spec in ["width$", ">width$", "<1$", "*^w$", ">0$", "+w$.2", "#w$x", "-<width$?", "é>w$e"] {
            let line = format!("    format!(\"a {{cell:{spec}}} b\");\n");
            assert_eq!(found("crates/x/src/a.rs", &line), [("a width from data".to_owned(), 1)], "{spec}");
        }
        for text in [
            "fn f(Interval { low, high }: Interval) {}",
            "thread::Builder::new().spawn(g); command.spawn();",
            "macro ($($name:ident: $bits:ty { $($flag:ident = $value:expr;)* })*) => { $a: $b }",
            "device(\"local-task\"); const UNITS: [&str; 2] = [\"a b\", \"s\"];",
            "call(\"--iree-opt-level=1\"); let b = \"a -- b\";",
            "format!(\"{:>10}{:0digits$X}{:.digits$}{:.digits$e}{:?}{:#x}{:<4}{:>10.3}{:04}\")",
        ] {
            assert_eq!(found("crates/x/src/a.rs", text), [], "{text}");
        }
    }

    #[test]
    fn places_may_ask_and_must() {
        let table = "[[question]]\nname = \"q\"\npattern = 'ask\\(\\)'\ninstead = \"x\"\n\
                     places = [{ reason = \"why\", files = [\"a/src/b.rs\", \"a/src/c/\", \"a/src/gone.rs\"] }]\n";
        let (_directory, tree) = made_up(&[
            (TABLE, table),
            ("crates/a/src/b.rs", "ask();"),
            ("crates/a/src/c/d.rs", "ask();"),
            ("crates/a/src/e.rs", "\nask();"),
            ("crates/a/src/gone.rs", "// ask()"),
        ]);
        let found: Vec<_> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "crates/a/src/e.rs:2: q: use x, or give a reason in xtask/one_of_each.toml",
                "xtask/one_of_each.toml: q: a/src/gone.rs does not ask it",
            ]
        );
        let (_directory, tree) = made_up(&[(TABLE, "question = 1\n")]);
        assert_eq!(check(&tree).len(), 1);
    }
}
