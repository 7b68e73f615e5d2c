//! Intervals of times are computed in one place, so that a difference is judged in one way, whatever measured
//! it.

use super::source::{code_only, word_lines};
use super::{Problem, tree::Tree};

/// The crate of the judge and of its statistics.
const JUDGE: &str = "crates/judge/";

/// Refuses intervals that other crates compute; those of tests are examples.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let is_product = |path: &&str| path.contains("/src/") && path.starts_with("crates/");
    let mut problems = Vec::new();
    for path in tree.rust().filter(is_product).filter(|path| !path.starts_with(JUDGE)) {
        let code = code_only(&tree.text(path));
        let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines: Vec<_> = code.lines().collect();
        for line in word_lines(code, "Interval") {
            if lines[line - 1].contains("Interval { low:") {
                let what = "computes an interval: use rehal_judge, or rehal_judge::stats";
                problems.push(Problem::new(path, line, what));
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
    fn only_the_judge_computes_intervals() {
        let bad = "fn f() -> Interval {\n    Interval { low: 1.0, high: 2.0 }\n}\n";
        let good = "fn f(Interval { low, high }: Interval) {}\n#[cfg(test)]\nmod tests {\n    fn f() { Interval { low: 1.0 } }\n}\n";
        let (_directory, tree) = made_up(&[
            ("crates/x/src/a.rs", bad),
            ("crates/x/src/b.rs", good),
            ("crates/x/tests/a.rs", bad),
            ("crates/judge/src/stats.rs", bad),
        ]);
        let found: Vec<_> = check(&tree).into_iter().map(|it| (it.path, it.line)).collect();
        assert_eq!(found, [("crates/x/src/a.rs".to_owned(), 2)]);
    }
}
