//! Required documents exist and stay short, their links resolve, and the commands in them exist.

use super::text::{COLUMNS, is_ours};
use super::{Problem, tree::Tree};

/// The contents of the book, which has only the pages that it names.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Required documents.
const WANTED: [&str; 11] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "LICENSE",
    ".ci/run",
    "docs/formats.md",
    SUMMARY,
    "docs/unsafe.md",
    "docs/testing.md",
    "docs/performance.md",
    "fixtures/MANIFEST.toml",
];

/// The maximum bytes of a document, or of each document in a directory: one must be able to hold them in
/// mind.
const SIZES: [(&str, usize); 6] = [
    ("ARCHITECTURE.md", 14_000),
    ("CHANGELOG.md", 12_000),
    ("CONTRIBUTING.md", 6_000),
    ("docs/decisions/", 3_000),
    ("docs/testing.md", 10_000),
    ("docs/unsafe.md", 10_000),
];
/// Documents with longer lines: the contents of the book, which has a line for each page, and documents of
/// the tools that users read at their own width.
const WIDE: [&str; 4] = [SUMMARY, "docs/formats.md", "docs/replay.md", "crates/cli/src/guides/"];

/// Flags of Cargo and third-party tools in the documents' commands.
const OTHERS: &str = "--resources --exclusive --constraint --requeue --release --bin --package --lib --test \
     --all-targets --workspace --check --profile --exact --doc --iree-hal-link-executables \
     --iree-llvmcpu-loop-unrolling --iree-llvmcpu-target-cpu --iree-opt-level --iree-rocm-target \
     --stress-count --locked --path";

/// Checks that documents exist, and the files, tools and flags that they name.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems: Vec<Problem> = WANTED
        .iter()
        .filter(|path| !tree.has(path))
        .map(|path| Problem::new(path, 0, "the required document is missing"))
        .collect();
    problems.extend(pages_outside_the_book(tree));
    let known = Known::read(tree);
    for path in tree.ending(&[".md"]).filter(|path| !path.starts_with("fixtures/expected/")) {
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        let mut fenced = false;
        for (number, line) in tree.text(path).lines().enumerate() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
                continue;
            }
            let mut wrong = broken_links(tree, directory, line);
            for code in if fenced { vec![line] } else { inline_code(line) } {
                wrong.extend(known.unknown_words(code));
            }
            problems.extend(wrong.into_iter().map(|what| Problem::new(path, number + 1, what)));
        }
    }
    problems
}

/// The pages of `docs` that the book does not name.
fn pages_outside_the_book(tree: &Tree) -> Vec<Problem> {
    let summary = tree.text(SUMMARY);
    let pages = tree.ending(&[".md"]).filter_map(|path| Some((path, path.strip_prefix("docs/")?)));
    let missing = pages.filter(|(path, page)| *path != SUMMARY && !summary.contains(&format!("]({page})")));
    missing.map(|(path, _)| Problem::new(path, 0, format!("the page is missing in {SUMMARY}"))).collect()
}

/// Checks the bytes of documents, and the columns of their lines.
pub fn sizes(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in tree.ending(&[".md"]).filter(|path| is_ours(path)) {
        let text = tree.text(path);
        let is_in = |place: &str| path == place || (place.ends_with('/') && path.starts_with(place));
        if let Some((_, limit)) = SIZES.iter().find(|(place, limit)| is_in(place) && text.len() > *limit) {
            let what = format!("{} bytes, more than the limit of {limit}: shorten the document", text.len());
            problems.push(Problem::new(path, 0, what));
        }
        if !WIDE.iter().any(|place| is_in(place)) {
            problems.extend(long_lines(&text).map(|line| {
                Problem::new(path, line, format!("the line has more than {COLUMNS} characters"))
            }));
        }
    }
    problems
}

/// The numbers of the lines that are too long.
fn long_lines(text: &str) -> impl Iterator<Item = usize> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        fenced ^= line.trim_start().starts_with("```");
        let is_exempt = fenced || line.starts_with('|');
        (!is_exempt && line.chars().count() > COLUMNS).then_some(number + 1)
    })
}

/// The targets of `](…)` that are paths and do not exist. `text::addresses` checks network addresses.
fn broken_links(tree: &Tree, directory: &str, line: &str) -> Vec<String> {
    line.match_indices("](")
        .filter_map(|(at, _)| line[at + 2..].split_once(')'))
        .map(|(target, _)| target.split('#').next().unwrap_or(target))
        .filter(|target| !target.is_empty() && !target.contains(concat!(":", "//")))
        .filter(|target| !tree.root.join(directory).join(target).exists())
        .map(|target| format!("broken link: {target}"))
        .collect()
}

/// The code spans of a line.
pub fn inline_code(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// Names that exist: tools, verbs of `xtask`, and the text that contains every known flag.
struct Known {
    tools: Vec<String>,
    verbs: String,
    flags: String,
}

impl Known {
    fn read(tree: &Tree) -> Self {
        let tools = tree
            .paths
            .iter()
            .filter_map(|path| path.strip_prefix("crates/cli/src/bin/")?.strip_suffix(".rs"))
            .map(ToOwned::to_owned)
            .collect();
        let has_flags = |path: &&str| {
            let is_driver = path.starts_with("crates/") && path.ends_with("/src/parameters.rs");
            path.starts_with("crates/cli/") || path.starts_with("xtask/") || is_driver
        };
        let sources = tree.rust().filter(has_flags);
        let sources: String = sources.map(|path| tree.text(path)).collect();
        // Flags of the reference's other tools occur in the recipe, which runs them.
        let flags = (sources + &tree.text("fixtures/recipe.toml")).replace('-', "_");
        Self { tools, verbs: tree.text("xtask/src/main.rs"), flags }
    }

    /// The names in a piece of code that do not exist.
    fn unknown_words(&self, code: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        let words: Vec<&str> = code.split_whitespace().collect();
        for (at, word) in words.iter().enumerate() {
            if words.get(at.wrapping_sub(1)) == Some(&"xtask")
                && words.get(at.wrapping_sub(2)) == Some(&"cargo")
            {
                let verb = word.trim_matches(|c: char| !c.is_ascii_alphabetic());
                if verb != "VERB" && !self.verbs.contains(&format!("\"{verb}\"")) {
                    wrong.push(format!("unknown xtask verb {word}"));
                }
            }
            if let Some(flag) = word.trim_start_matches('[').strip_prefix("--") {
                let name: String = flag
                    .chars()
                    .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
                    .collect();
                let own = self.flags.contains(&name.replace('-', "_"));
                if !name.is_empty() && !own && !OTHERS.split(' ').any(|it| it == format!("--{name}")) {
                    wrong.push(format!("unknown flag --{name}"));
                }
            }
            if words.get(at.wrapping_sub(1)) == Some(&"--bin") && !self.tools.iter().any(|tool| tool == word)
            {
                wrong.push(format!("unknown tool {word}"));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    fn problems_of(readme: &str) -> Vec<String> {
        let (_directory, tree) = made_up(&[
            ("README.md", readme),
            ("docs/testing.md", ""),
            ("xtask/src/main.rs", "match verb { \"test\" => {} }"),
            ("crates/cli/src/bin/rehal.rs", "flag(\"replay_scope\")"),
        ]);
        check(&tree).into_iter().filter(|problem| problem.line > 0).map(|problem| problem.what).collect()
    }

    #[test]
    fn existing_names_pass() {
        let text = "[t](docs/testing.md)\n```\ncargo xtask test\ncargo run --release --bin rehal -- --replay-scope=x\n```\n";
        assert_eq!(problems_of(text), Vec::<String>::new());
    }

    #[test]
    fn unknown_names_are_reported() {
        assert_eq!(problems_of("[t](docs/nothing.md)"), ["broken link: docs/nothing.md"]);
        assert_eq!(problems_of("run `cargo xtask fly`"), ["unknown xtask verb fly"]);
        assert_eq!(problems_of("pass `--nonsense=1`"), ["unknown flag --nonsense"]);
        assert_eq!(problems_of("`cargo run --bin nothing`"), ["unknown tool nothing"]);
    }

    #[test]
    fn long_documents_and_lines_are_reported() {
        let (full, wide) = ("x\n".repeat(7_000), format!("{}\n", "ä".repeat(110)));
        let (_directory, tree) = made_up(&[
            ("ARCHITECTURE.md", &full),
            ("CHANGELOG.md", &full),
            ("README.md", &format!("{wide}| x{wide}```\nx{wide}```\nx{wide}")),
            ("docs/decisions/001-x.md", &"x\n".repeat(1_501)),
            ("docs/replay.md", &format!("x{wide}")),
        ]);
        let problems: Vec<_> = sizes(&tree).into_iter().map(|it| (it.path, it.line)).collect();
        let expected = [("CHANGELOG.md", 0), ("README.md", 6), ("docs/decisions/001-x.md", 0)];
        assert_eq!(problems, expected.map(|(path, line)| (path.to_owned(), line)));
    }

    #[test]
    fn the_book_has_every_page() {
        let (_directory, tree) = made_up(&[
            ("docs/SUMMARY.md", "- [A](a.md)\n- [B](decisions/b.md)\n"),
            ("docs/a.md", ""),
            ("docs/b.md", ""),
            ("docs/decisions/b.md", ""),
        ]);
        let problems: Vec<_> = pages_outside_the_book(&tree).into_iter().map(|it| it.path).collect();
        assert_eq!(problems, ["docs/b.md"]);
    }

    #[test]
    fn missing_documents_are_reported() {
        let (_directory, tree) = made_up(&[("README.md", "")]);
        assert!(check(&tree).iter().any(|problem| problem.path == "LICENSE"));
    }
}
