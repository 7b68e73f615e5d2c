//! The ledger of weight, `xtask/weight.txt`: a ceiling for each crate in lines of product code, and one for
//! the pages of `docs` and the guides of the tools together, in bytes.
//!
//! Product code is what is left of `src` without comments, blank lines and tests. A row is `NAME CEILING
//! REASON`; raising a ceiling needs a new reason. A ceiling far above what there is holds nothing, so
//! that a change which removes code lowers it.

use super::{Problem, tree::Tree};

const LEDGER: &str = "xtask/weight.txt";

/// The row of the pages.
const PAGES: &str = "pages";

/// How far a ceiling may be above what there is, in percent.
const SLACK_PERCENT: usize = 3;

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
        let (Some(ceiling), Some(_)) = (ceiling, words.next()) else {
            problem("a row is a name, a ceiling and a reason".into());
            continue;
        };
        let Some(found) = weights.iter().position(|(it, _)| it == name) else {
            problem(format!("the crate {name} is missing, or has two rows"));
            continue;
        };
        let (_, weight) = weights.swap_remove(found);
        if weight > ceiling {
            problem(format!("{name} has {weight}, more than {ceiling}: remove what no user would miss"));
        } else if ceiling > weight + weight * SLACK_PERCENT / 100 + 20 {
            problem(format!("{name} has {weight}: lower its ceiling of {ceiling}"));
        }
    }
    let missing = weights.iter().map(|(name, weight)| format!("{name} has {weight}, and no row"));
    problems.extend(missing.map(|what| Problem::new(LEDGER, 0, what)));
    problems
}

/// What there is, by the names of rows.
fn weights(tree: &Tree) -> Vec<(String, usize)> {
    let bytes = |path: &str| tree.text(path).len();
    let is_page = |path: &&str| path.starts_with("docs/") || path.starts_with("crates/cli/src/guides/");
    let mut weights = vec![(PAGES.to_owned(), tree.ending(&[".md"]).filter(is_page).map(bytes).sum())];
    for path in tree.rust() {
        let name = match path.split('/').collect::<Vec<_>>()[..] {
            ["crates", name, "src", ..] => name,
            ["xtask", "src", ..] => "xtask",
            _ => continue,
        };
        let lines = if is_test(tree, path) { 0 } else { product_lines(&tree.text(path)) };
        match weights.iter_mut().find(|(it, _)| it == name) {
            Some((_, weight)) => *weight += lines,
            None => weights.push((name.to_owned(), lines)),
        }
    }
    weights
}

/// Whether a file is a module that exists only in tests: by its name, or by how its parent declares it.
fn is_test(tree: &Tree, path: &str) -> bool {
    let parts: Vec<_> = path.trim_end_matches(".rs").split('/').collect();
    (3..=parts.len()).any(|end| {
        let (above, name) = (parts[..end - 1].join("/"), parts[end - 1]);
        let is_named = name == "tests" || name.starts_with("tests_");
        let parents = [".rs", "/mod.rs", "/lib.rs", "/main.rs"].map(|it| format!("{above}{it}"));
        let declares = |parent: &String| {
            let text = tree.text(parent);
            let mut lines = text.lines().map(str::trim);
            let mut is_after = false;
            lines.any(|line| {
                let declared = line.rsplit_once("mod ").is_some_and(|(_, it)| it == format!("{name};"));
                let is_it = is_after && declared;
                is_after = is_test_attribute(line) || (is_after && line.starts_with("#["));
                is_it
            })
        };
        is_named || parents.iter().filter(|it| tree.has(it)).any(declares)
    })
}

fn is_test_attribute(line: &str) -> bool {
    line.starts_with("#[cfg(") && line.contains("test") && !line.contains("not(test")
}

/// The lines of a file without comments, blank lines and the items of tests.
fn product_lines(text: &str) -> usize {
    let lines: Vec<_> = text.lines().collect();
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let (mut count, mut at) = (0, 0);
    while let Some(line) = lines.get(at) {
        if is_test_attribute(line.trim()) {
            let is_attribute = |line: &&&str| line.trim().starts_with("#[");
            let item = at + lines[at..].iter().take_while(is_attribute).count();
            let ends = |it: &&str| indentation(it) <= indentation(line) && it.trim().starts_with('}');
            let one_line = lines.get(item).is_some_and(|it| it.ends_with(';') || it.ends_with('}'));
            let rest = lines.get(item..).unwrap_or_default();
            at = item + if one_line { 1 } else { 1 + rest.iter().position(ends).unwrap_or(rest.len()) };
            continue;
        }
        count += usize::from(!line.trim().is_empty() && !line.trim().starts_with("//"));
        at += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    const LIB: &str = "//! Words.\n\n/// A word.\npub mod a;\n#[cfg(test)]\nmod b;\n\nfn f() {\n    g(); // why\n}\n\n\
                       #[cfg(test)]\n#[path = \"x\"]\nmod tests {\n    fn t() {\n    }\n}\n";

    #[test]
    fn comments_blank_lines_and_tests_do_not_count() {
        assert_eq!(product_lines(LIB), 4);
        assert_eq!(product_lines("#[cfg(test)]\nfn f() {\n    {\n    }\n}\nfn g() {}\n"), 1);
        assert_eq!(product_lines("#[cfg(test)]\nuse a::b;\nuse c;\n"), 1);
        assert_eq!(product_lines("#[cfg(not(test))]\nuse a::b;\n"), 2);
        assert_eq!(product_lines("#[cfg(test)]\nmod tests {"), 0);
    }

    #[test]
    fn what_is_above_its_ceiling_is_reported() {
        let files = [
            ("crates/x/src/lib.rs", LIB),
            ("crates/x/src/a.rs", "fn a() {}\n"),
            ("crates/x/src/b.rs", "fn b() {}\n"),
            ("crates/x/src/a/tests.rs", "fn t() {}\n"),
            ("crates/x/tests/t.rs", "fn t() {}\n"),
            ("docs/a.md", "four"),
            ("crates/cli/src/guides/a.md", "four"),
        ];
        let check_with = |ledger: &str| {
            let (_directory, tree) = made_up(&[&files[..], &[("xtask/weight.txt", ledger)]].concat());
            check(&tree).into_iter().map(|it| (it.line, it.what)).collect::<Vec<_>>()
        };
        assert_eq!(check_with("# words\nx 5 why\npages 8 why\n"), []);
        let what = |line, what: &str| (line, what.to_owned());
        assert_eq!(
            check_with("x 4 why\npages 7 why\n"),
            [
                what(1, "x has 5, more than 4: remove what no user would miss"),
                what(2, "pages has 8, more than 7: remove what no user would miss"),
            ]
        );
        assert_eq!(check_with("x 25 why\npages 29 why\n"), [what(2, "pages has 8: lower its ceiling of 29")]);
        assert_eq!(
            check_with("x 5\ny 5 why\npages 8 why\npages 8 why\n"),
            [
                what(1, "a row is a name, a ceiling and a reason"),
                what(2, "the crate y is missing, or has two rows"),
                what(4, "the crate pages is missing, or has two rows"),
                what(0, "x has 5, and no row"),
            ]
        );
    }
}
