//! Threads are started by functions that fail if there are none: a limit of the machine on threads is an
//! error, not a panic.

use super::source::code_only;
use super::{Problem, tree::Tree};

/// The file that uses rayon's pool, after it has created it.
const POOL: &str = "crates/base/src/parallel.rs";
/// Crates for tests.
const FOR_TESTS: [&str; 2] = ["crates/cts/", "crates/interleave/"];

/// Refuses what panics if the system gives no thread, outside of tests.
pub fn fallible_threads(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in tree.rust().filter(|path| is_product(path)) {
        let code = code_only(&tree.text(path));
        let lines: Vec<_> = code.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let next = lines.get(index + 1).copied().unwrap_or_default();
            if line.trim() == "#[cfg(test)]" && next.trim_end().ends_with('{') {
                break;
            }
            if let Some(what) = problem_of(line, path) {
                problems.push(Problem::new(path, index + 1, what));
            }
        }
    }
    problems
}

fn is_product(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    path.starts_with("crates/")
        && path.contains("/src/")
        && !FOR_TESTS.iter().any(|it| path.starts_with(it))
        && !["tests", "models"].iter().any(|it| file.contains(it) || path.contains(&format!("/{it}/")))
}

fn problem_of(line: &str, path: &str) -> Option<&'static str> {
    if line.contains("thread::spawn(") || line.contains("scope.spawn(") {
        return Some("panics without a thread: use std::thread::Builder, with spawn or spawn_scoped");
    }
    // Otherwise, the rule above would not see it.
    let (_, argument) = line.split_once("thread::scope(|").unwrap_or_default();
    if !argument.is_empty() && !argument.starts_with("scope|") {
        return Some("name the argument of the closure `scope`");
    }
    let uses_pool = line.contains("rayon") && path != POOL;
    uses_pool.then_some(
        "rayon panics if its pool cannot be created: use the functions of crates/base/src/parallel.rs",
    )
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    #[test]
    fn what_panics_is_refused_outside_of_tests() {
        let bad = "fn f() { std::thread::spawn(g); }\nfn h() { thread::scope(|s| s.spawn(g)); }\n\
                   fn i() { thread::scope(|scope| scope.spawn(g)); }\nuse rayon::prelude::*;\n";
        let good = "// thread::spawn(g)\nfn f() { thread::Builder::new().spawn(g); command.spawn(); }\n\
                    #[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod tests {\n    fn f() { thread::spawn(g); }\n}\n";
        let (_directory, tree) = made_up(&[
            ("crates/x/src/a.rs", bad),
            ("crates/x/src/b.rs", good),
            ("crates/x/src/tests.rs", bad),
            ("crates/x/tests/a.rs", bad),
            ("crates/cts/src/a.rs", bad),
            (POOL, "use rayon::prelude::*;\n"),
        ]);
        let found: Vec<_> = fallible_threads(&tree).into_iter().map(|it| (it.path, it.line)).collect();
        assert_eq!(found, [1, 2, 3, 4].map(|line| ("crates/x/src/a.rs".to_string(), line)));
    }
}
