//! Rules for every text file.

use super::{Problem, tree::Tree};

/// File name suffixes of text.
pub const TEXT: [&str; 12] =
    [".rs", ".toml", ".md", ".mlir", ".vmasm", ".c", ".h", ".py", ".pyi", ".txt", ".yml", ".ci/run"];

/// Output of other programs is exempt.
pub fn is_ours(path: &str) -> bool {
    let is_printed_by_a_tool = path.starts_with("fixtures/expected/")
        || path.starts_with("fixtures/profiles/")
        || (path.starts_with("fixtures/vm/") && path.contains(".dump."))
        || path.contains("/tests/snapshots/")
        || path.contains("/tests/golden/");
    !is_printed_by_a_tool
}

/// No tabs, no trailing whitespace, and notes for later name an issue: a note is the word in capitals,
/// followed by `(#N)`.
pub fn whitespace_and_notes(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in tree.ending(&TEXT).filter(|path| is_ours(path)) {
        for (number, line) in tree.text(path).lines().enumerate() {
            let mut say = |what: &str| problems.push(Problem::new(path, number + 1, what));
            if line.contains('\t') {
                say("a tab");
            }
            if line.ends_with([' ', '\r']) {
                say("trailing whitespace");
            }
            if has_loose_note(line) {
                say("a note for later must name its issue, as (#N) right after the word");
            }
        }
    }
    problems
}

/// Maximum characters of a line that is a comment, and of a line of a document.
pub const COLUMNS: usize = 110;

/// Comments in code are wrapped, which rustfmt leaves to their authors, and so is all of Python. Tables, and
/// a word that is too long by itself, such as an address, cannot be.
pub fn wide_comments(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    let rules: [(_, &[_]); 4] =
        [(".rs", &["///", "//!", "//"]), (".toml", &["#"]), (".py", &[""]), (".pyi", &[""])];
    for (suffix, marks) in rules {
        for path in tree.ending(&[suffix]) {
            for (number, line) in tree.text(path).lines().enumerate() {
                let comment =
                    marks.iter().find_map(|mark| line.trim_start().strip_prefix(mark)).map(str::trim);
                let can_wrap = comment.is_some_and(|text| text.contains(' ') && !text.starts_with('|'));
                if can_wrap && line.chars().count() > COLUMNS {
                    let what = format!("a comment, or a line of Python, of over {COLUMNS} columns");
                    problems.push(Problem::new(path, number + 1, what));
                }
            }
        }
    }
    problems
}

fn has_loose_note(line: &str) -> bool {
    // Concatenated, so that this file passes its own check.
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")].iter().any(|word| {
        line.match_indices(word).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = &line[at + word.len()..];
            let whole =
                !before.is_some_and(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric);
            whole && !names_issue(after)
        })
    })
}

fn names_issue(after: &str) -> bool {
    after
        .strip_prefix("(#")
        .and_then(|rest| rest.split_once(')'))
        .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Where specifications, standards and reference manuals are published: a host, and a directory if the host
/// has more.
const SPECIFICATIONS: &str = "datatracker.ietf.org/doc/ docs.kernel.org/ en.cppreference.com/w/ flatbuffers.dev/ \
     gabi.xinuos.com/ github.com/ggml-org/ggml/blob/master/docs/ gitlab.com/x86-psABIs/ \
     google.github.io/benchmark/ google.github.io/googletest/ huggingface.co/docs/ llvm.org/docs/ \
     man7.org/linux/man-pages/ numpy.org/doc/ numpy.org/neps/ www.rfc-editor.org/rfc/ www.w3.org/TR/";

/// The only network addresses are links to specifications, in comments and documents: downloads go through
/// package managers and their settings. The licence cites its own address, and lock files are Cargo's.
pub fn addresses(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in tree.ending(&TEXT).filter(|path| is_ours(path)) {
        for (number, line) in tree.text(path).lines().enumerate() {
            let may_link =
                path.ends_with(".md") || ["//", "#", ";"].iter().any(|it| line.trim_start().starts_with(it));
            if addresses_in(line).any(|address| !may_link || !is_specification(address)) {
                problems.push(Problem::new(
                    path,
                    number + 1,
                    "a network address that is not a link to a specification",
                ));
            }
        }
    }
    problems
}

/// The addresses in a line, with their schemes.
fn addresses_in(line: &str) -> impl Iterator<Item = &str> {
    const SCHEMES: [&str; 5] = ["http", "https", "ftp", "git", "ssh"];
    line.match_indices(concat!(":", "//")).filter_map(|(colon, _)| {
        let start = line[..colon].rfind(|c: char| !c.is_ascii_alphanumeric()).map_or(0, |before| before + 1);
        SCHEMES.contains(&&line[start..colon]).then_some(&line[start..])
    })
}

fn is_specification(address: &str) -> bool {
    address
        .strip_prefix(concat!("https:", "//"))
        .is_some_and(|rest| SPECIFICATIONS.split(' ').any(|place| rest.starts_with(place)))
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    #[test]
    fn trailing_whitespace_and_tabs_are_found() {
        let (_directory, tree) =
            made_up(&[("a.md", "fine\n\tno\nno \n"), ("fixtures/expected/a.txt", "theirs \n")]);
        let lines: Vec<_> = whitespace_and_notes(&tree).iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [2, 3]);
    }

    #[test]
    fn long_comments_are_found() {
        let (wide, word) = (format!("a {}", "é".repeat(COLUMNS - 5)), "a".repeat(COLUMNS));
        let text =
            format!("// {wide}a\n    /// {wide}\n//! {word}\n// | {word} |\nlet a = \"{wide} {wide}\";\n");
        let python = format!("x = 1\n{wide} = {wide}\n");
        let (_directory, tree) =
            made_up(&[("a.rs", &text), ("a.toml", &format!("# {wide}\n# {wide}aa\n")), ("a.py", &python)]);
        let found = wide_comments(&tree);
        let places: Vec<_> = found.iter().map(|problem| (problem.path.as_str(), problem.line)).collect();
        assert_eq!(places, [("a.rs", 1), ("a.rs", 2), ("a.toml", 2), ("a.py", 2)]);
    }

    #[test]
    fn notes_carry_an_issue() {
        let word = concat!("TO", "DO");
        assert!(has_loose_note(&format!("// {word}: later")));
        assert!(has_loose_note(&format!("// {word}(me) later")));
        assert!(!has_loose_note(&format!("// {word}(#12): later")));
        assert!(!has_loose_note(&format!("let {word}S = 1;")));
    }

    #[test]
    fn only_links_to_specifications_are_allowed() {
        let https = concat!("https:", "//");
        let problems = |path: &str, line: &str| {
            let (_directory, tree) = made_up(&[(path, &format!("{line}\n"))]);
            addresses(&tree).len()
        };
        for link in
            [format!("{https}man7.org/linux/man-pages/man5/elf.5.html"), format!("{https}gabi.xinuos.com/")]
        {
            assert_eq!(problems("a.rs", &format!("    /// See <{link}>.")), 0, "{link}");
            assert_eq!(problems("a.md", &format!("as in [the page]({link}), and `x`")), 0, "{link}");
            assert_eq!(problems("a.rs", &format!("let link = \"{link}\";")), 1, "{link}");
            assert_eq!(problems("a.rs", &format!("// {link} and {https}example.org/x")), 1, "{link}");
        }
        for address in [
            format!("{https}example.org/x"),
            format!("{https}man7.org.example.org/linux/man-pages/"),
            format!("{https}github.com/owner/name"),
            format!("{https}huggingface.co/owner/model"),
            concat!("http:", "//man7.org/linux/man-pages/").to_owned(),
            concat!("git:", "//man7.org/linux/man-pages/").to_owned(),
            concat!("ftp:", "//example.org").to_owned(),
        ] {
            assert_eq!(problems("a.rs", &format!("// see {address}")), 1, "{address}");
            assert_eq!(problems("LICENSE", &format!("see {address}")), 0, "{address}");
        }
        assert_eq!(problems("a.rs", concat!("// local-sync:", "//0 and capture:", "//")), 0);
    }
}
