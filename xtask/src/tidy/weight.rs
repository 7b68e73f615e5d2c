//! The ledger of weight, `xtask/weight.txt`: a ceiling for each crate in lines of product code, and one for
//! all crates together (`total`); one for the circles of imports of each crate that has some
//! (`circles/CRATE`), and one for the files of the largest (`largest_circle`); one for the pages of `docs`
//! and the guides of the tools together, in bytes.
//!
//! A row is `NAME CEILING REASON`; raising a ceiling needs a new reason, and that of `total` names the issue
//! that grants it. A ceiling far above what there is holds nothing, so that a change which removes code
//! lowers it.

use super::circles::circles;
use super::product;
use super::{Problem, tree::Tree};
use std::collections::BTreeMap;

const LEDGER: &str = "xtask/weight.txt";

/// The row of the pages.
const PAGES: &str = "pages";
/// The row of all crates, those of tests included.
const TOTAL: &str = "total";
/// The row of the largest circle, and how those begin that count the circles of a crate.
const LARGEST_CIRCLE: &str = "largest_circle";
const CIRCLES: &str = "circles/";

/// How far a ceiling may be above what there is: of circles, not at all.
fn slack(name: &str, weight: usize) -> usize {
    match name {
        TOTAL => weight / 200,
        _ if name == LARGEST_CIRCLE || name.starts_with(CIRCLES) => 0,
        _ => weight * 3 / 100 + 20,
    }
}

/// Checks that nothing is above its ceiling, and that each crate has one.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let mut weights = weights(tree);
    let mut problems = Vec::new();
    let ledger = tree.text(LEDGER);
    let rows = ledger.lines().enumerate().filter(|(_, row)| !row.is_empty() && !row.starts_with('#'));
    for (at, row) in rows {
        let mut problem = |what: String| problems.push(Problem::new(LEDGER, at + 1, what));
        let mut words = row.split_whitespace();
        let (name, ceiling) = (words.next().unwrap_or_default(), words.next().and_then(|it| it.parse().ok()));
        let reason = words.collect::<Vec<_>>().join(" ");
        let (Some(ceiling), false) = (ceiling, reason.is_empty()) else {
            problem("a row is a name, a ceiling and a reason".into());
            continue;
        };
        let Some(weight) = weights.remove(name) else {
            problem(format!("{name} weighs nothing, is missing, or has two rows"));
            continue;
        };
        if name == TOTAL && !reason.contains("issue ") {
            problem(format!("the reason of {name} names the issue that grants it"));
        }
        if weight > ceiling {
            problem(format!("{name} has {weight}, more than {ceiling}: remove what no user would miss"));
        } else if ceiling > weight + slack(name, weight) {
            problem(format!("{name} has {weight}: lower its ceiling of {ceiling}"));
        }
    }
    let missing = weights.iter().map(|(name, weight)| format!("{name} has {weight}, and no row"));
    problems.extend(missing.map(|what| Problem::new(LEDGER, 0, what)));
    problems
}

/// The weights by the names of rows.
fn weights(tree: &Tree) -> BTreeMap<String, usize> {
    let bytes = |path: &str| tree.text(path).len();
    let is_page = |path: &&str| path.starts_with("docs/") || path.starts_with("crates/cli/src/guides/");
    let product = product::files(tree);
    let mut weights: BTreeMap<String, usize> = BTreeMap::new();
    for file in &product {
        *weights.entry(file.name.clone()).or_default() += product::lines(&file.text);
    }
    let total = weights.iter().filter(|(name, _)| *name != "xtask").map(|(_, weight)| weight).sum();
    let mut largest = 0;
    for name in weights.keys().cloned().collect::<Vec<_>>() {
        let found = circles(product.iter().filter(|file| file.name == name));
        if !found.is_empty() {
            weights.insert(format!("{CIRCLES}{name}"), found.len());
        }
        largest = found.iter().map(|circle| circle.len()).max().unwrap_or_default().max(largest);
    }
    weights.insert(TOTAL.to_owned(), total);
    weights.insert(PAGES.to_owned(), tree.ending(&[".md"]).filter(is_page).map(bytes).sum());
    if largest > 0 {
        weights.insert(LARGEST_CIRCLE.to_owned(), largest);
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    #[test]
    fn what_is_above_its_ceiling_is_reported() {
        let lib = "//! Words.\n\npub mod a;\n#[cfg(test)]\nmod b;\n\nfn f() {\n    g();\n}\n";
        let files = [
            ("crates/x/src/lib.rs", lib),
            ("crates/x/src/a.rs", "fn a() {}\n"),
            ("crates/x/src/b.rs", "fn b() {}\n"),
            ("crates/x/src/a/tests.rs", "fn t() {}\n"),
            ("crates/x/tests/t.rs", "fn t() {}\n"),
            ("xtask/src/main.rs", "fn main() {}\n"),
            ("docs/a.md", "four"),
            ("crates/cli/src/guides/a.md", "four"),
        ];
        let check_with = |more: &[(&str, &str)], ledger: &str| {
            let (_directory, tree) = made_up(&[&files[..], more, &[(LEDGER, ledger)]].concat());
            check(&tree).into_iter().map(|it| (it.line, it.what)).collect::<Vec<_>>()
        };
        const REST: &str = "total 5 issue 41\nxtask 1 why\n";
        assert_eq!(check_with(&[], &format!("{REST}# words\nx 5 why\npages 8 why\n")), []);
        let what = |line, what: &str| (line, what.to_owned());
        assert_eq!(
            check_with(&[], "x 4 why\npages 7 why\ntotal 4 issue 41\nxtask 1 why\n"),
            [
                what(1, "x has 5, more than 4: remove what no user would miss"),
                what(2, "pages has 8, more than 7: remove what no user would miss"),
                what(3, "total has 5, more than 4: remove what no user would miss"),
            ]
        );
        assert_eq!(
            check_with(&[], "x 25 why\npages 29 why\ntotal 6 why\nxtask 1 why\n"),
            [
                what(2, "pages has 8: lower its ceiling of 29"),
                what(3, "the reason of total names the issue that grants it"),
                what(3, "total has 5: lower its ceiling of 6"),
            ]
        );
        assert_eq!(
            check_with(&[], &format!("{REST}x 5\ny 5 why\npages 8 why\npages 8 why\n")),
            [
                what(3, "a row is a name, a ceiling and a reason"),
                what(4, "y weighs nothing, is missing, or has two rows"),
                what(6, "pages weighs nothing, is missing, or has two rows"),
                what(0, "x has 5, and no row"),
            ]
        );
        let circle = [("crates/y/src/c.rs", "use crate::d;\n"), ("crates/y/src/d.rs", "use crate::c;\n")];
        let ledger = "x 5 why\ny 2 why\npages 8 why\ntotal 7 issue 41\nxtask 1 why\n";
        assert_eq!(
            check_with(&circle, &format!("{ledger}circles/y 2 why\n")),
            [what(6, "circles/y has 1: lower its ceiling of 2"), what(0, "largest_circle has 2, and no row"),]
        );
        let ledger = format!("{ledger}circles/y 1 why\nlargest_circle 1 why\n");
        let more = "largest_circle has 2, more than 1: remove what no user would miss";
        assert_eq!(check_with(&circle, &ledger), [what(7, more)]);
    }
}
