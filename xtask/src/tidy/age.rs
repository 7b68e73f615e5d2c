//! The figures of `docs/performance.md` are of a recent commit.

use super::Problem;
use std::path::Path;

/// The page, which `cargo xtask bench --write` generates.
const PAGE: &str = "docs/performance.md";
/// Number of commits after which the figures are too old.
const MAX_COMMITS: u64 = 150;

/// Where a commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// So many commits before the checkout.
    Before(u64),
    /// Not in the history.
    Absent,
    /// The history is missing or incomplete.
    Unknown,
}

/// The problems that the check found, and a note if the age cannot be determined.
pub fn check(root: &Path) -> (Vec<Problem>, Option<String>) {
    let page = std::fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    judge(&page, |commit| place(root, commit))
}

fn judge(page: &str, place: impl Fn(&str) -> Place) -> (Vec<Problem>, Option<String>) {
    let problem = |what: String| (vec![Problem::new(PAGE, 0, what)], None);
    let places: Vec<_> = commits(page).map(|commit| (place(commit), commit)).collect();
    if places.is_empty() {
        return problem("it names no commit: run `cargo xtask bench --write`".to_owned());
    }
    let ages = places.iter().filter_map(|(place, commit)| match place {
        Place::Before(count) => Some((*count, *commit)),
        Place::Absent | Place::Unknown => None,
    });
    match ages.min() {
        Some((count, commit)) if count > MAX_COMMITS => problem(format!(
            "its figures are of commit {commit}, {count} commits ago (at most {MAX_COMMITS}): run `cargo xtask bench --write`"
        )),
        Some(_) => (Vec::new(), None),
        None if places.iter().all(|(place, _)| *place == Place::Absent) => {
            problem(format!("commit {} is not in the history", places[0].1))
        }
        None => {
            let note = "the history is not here, so the age of the figures is unknown";
            (Vec::new(), Some(note.to_owned()))
        }
    }
}

/// The commits that the page names above the table.
fn commits(page: &str) -> impl Iterator<Item = &str> {
    let above = page.split("\n| row |").next().unwrap_or_default();
    let rows = above.split("\n## Rows\n").nth(1).unwrap_or_default();
    let words = rows.split(|it: char| !it.is_ascii_alphanumeric());
    words.filter(|word| {
        let is_hex = word.bytes().all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(&it));
        (7..=40).contains(&word.len()) && is_hex && word.bytes().any(|it| it.is_ascii_digit())
    })
}

fn place(root: &Path, commit: &str) -> Place {
    let git = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let ended = crate::run::collect(Path::new("git"), &arguments, root).ok()?;
        let text = String::from_utf8(ended.stdout).ok()?;
        (ended.how == "status 0").then(|| text.trim_end().to_owned())
    };
    let count = git(&["rev-list", "--count", &format!("{commit}..HEAD")]);
    match count.and_then(|text| text.parse().ok()) {
        Some(count) => Place::Before(count),
        None => match git(&["rev-parse", "--is-shallow-repository"]).as_deref() {
            Some("false") => Place::Absent,
            _ => Place::Unknown,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(line: &str) -> String {
        format!(
            "# Performance\n\ncafe000 before\n\n## Rows\n\n{line}\n\n| row | x |\n| --- | --- |\n| 1234567 | 1 |\n"
        )
    }

    fn found(line: &str, place: impl Fn(&str) -> Place) -> (usize, bool) {
        let (problems, note) = judge(&page(line), place);
        (problems.len(), note.is_some())
    }

    #[test]
    fn old_figures_are_a_problem() {
        const LINE: &str = "Measured on 2026-01-02 at commit 0123456789, on CPU with 2 processors, 6 rounds.";
        assert_eq!(commits(&page(LINE)).collect::<Vec<_>>(), ["0123456789"]);
        assert_eq!(found(LINE, |_| Place::Before(MAX_COMMITS)), (0, false));
        assert_eq!(found(LINE, |_| Place::Before(MAX_COMMITS + 1)), (1, false));
        assert_eq!(found(LINE, |_| Place::Absent), (1, false));
        assert_eq!(found(LINE, |_| Place::Unknown), (0, true));
        assert_eq!(found("Measured some day.", |_| Place::Before(0)), (1, false));
        // The newest of several counts.
        let of = |commit: &str| if commit == "1234abc" { Place::Before(3) } else { Place::Before(900) };
        assert_eq!(found("- f98a839: some; 1234abc: others", of), (0, false));
    }

    #[test]
    fn commits_of_this_repository_have_places() {
        let root = crate::root();
        assert_ne!(place(&root, "HEAD"), Place::Absent);
        assert!(matches!(
            place(&root, "0000000000000000000000000000000000000000"),
            Place::Absent | Place::Unknown
        ));
        assert_eq!(place(Path::new("/"), "HEAD"), Place::Unknown);
    }
}
