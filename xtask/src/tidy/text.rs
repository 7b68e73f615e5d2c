//! Rules for every text file.

use super::{Problem, tree::Tree};

/// File name suffixes of text.
pub const TEXT: [&str; 10] =
    [".rs", ".toml", ".md", ".mlir", ".vmasm", ".c", ".h", ".txt", ".yml", ".ci/run"];

/// Output of other programs is exempt.
pub fn is_ours(path: &str) -> bool {
    let is_printed_by_a_tool = path.starts_with("fixtures/expected/")
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

/// No file names a network address: downloads go through package managers and their settings. The licence
/// cites its own address, and lock files are Cargo's.
pub fn addresses(tree: &Tree) -> Vec<Problem> {
    let scheme = concat!(":", "//");
    let mut problems = Vec::new();
    for path in tree.ending(&TEXT).filter(|path| is_ours(path)) {
        for (number, line) in tree.text(path).lines().enumerate() {
            if ["http", "https", "ftp", "git", "ssh"]
                .iter()
                .any(|word| line.contains(&format!("{word}{scheme}")))
            {
                problems.push(Problem::new(path, number + 1, "a network address"));
            }
        }
    }
    problems
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
    fn notes_carry_an_issue() {
        let word = concat!("TO", "DO");
        assert!(has_loose_note(&format!("// {word}: later")));
        assert!(has_loose_note(&format!("// {word}(me) later")));
        assert!(!has_loose_note(&format!("// {word}(#12): later")));
        assert!(!has_loose_note(&format!("let {word}S = 1;")));
    }

    #[test]
    fn addresses_are_found() {
        let line = format!("see https{}example.org/x\n", concat!(":", "//"));
        let (_directory, tree) = made_up(&[("a.rs", &line), ("LICENSE", &line)]);
        assert_eq!(addresses(&tree).len(), 1);
    }
}
