//! Rules for every text file.

use super::{Problem, tree::Tree};

const TEXT: [&str; 9] = [".rs", ".toml", ".md", ".mlir", ".c", ".h", ".txt", ".yml", ".ci/run"];

/// What another program wrote is not ours to tidy.
fn is_ours(path: &str) -> bool {
    let is_printed_by_a_tool = path.starts_with("fixtures/expected/")
        || (path.starts_with("fixtures/vm/") && path.contains(".dump."))
        || path.contains("/tests/snapshots/")
        || path.contains("/tests/golden/");
    !is_printed_by_a_tool
}

/// No tabs, no blanks at line ends, and notes for later carry an issue: a note is the word in capitals, then `(#N)`.
pub fn whitespace_and_notes(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in tree.ending(&TEXT).filter(|path| is_ours(path)) {
        for (number, line) in tree.text(path).lines().enumerate() {
            let mut say = |what: &str| problems.push(Problem::new(path, number + 1, what));
            if line.contains('\t') {
                say("a tab");
            }
            if line.ends_with([' ', '\r']) {
                say("a blank at the end of the line");
            }
            if has_loose_note(line) {
                say("a note for later names its issue, as (#N) right after the word");
            }
        }
    }
    problems
}

fn has_loose_note(line: &str) -> bool {
    // Put together here, so that this file passes its own check.
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

/// No file names an address on the network: what is fetched comes through package managers and their settings. The
/// licence cites its own address, and lock files are Cargo's.
pub fn addresses(tree: &Tree) -> Vec<Problem> {
    let scheme = concat!(":", "//");
    let mut problems = Vec::new();
    for path in tree.ending(&TEXT).filter(|path| is_ours(path)) {
        for (number, line) in tree.text(path).lines().enumerate() {
            if ["http", "https", "ftp", "git", "ssh"]
                .iter()
                .any(|word| line.contains(&format!("{word}{scheme}")))
            {
                problems.push(Problem::new(path, number + 1, "an address on the network"));
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
    fn blanks_and_tabs_are_found() {
        let (_folder, tree) =
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
        let (_folder, tree) = made_up(&[("a.rs", &line), ("LICENSE", &line)]);
        assert_eq!(addresses(&tree).len(), 1);
    }
}
