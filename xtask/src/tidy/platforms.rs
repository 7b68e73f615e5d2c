//! Only modules named `platform` ask which system or processor a build is for: see `base/platform/mod.rs`.

use super::source::{code_only, word_lines};
use super::{Problem, product, tree::Tree};

/// The words by which code asks.
const WORDS: [&str; 4] = ["target_os", "target_arch", "target_env", "target_family"];
/// The same, in conditions.
const SYSTEMS: [&str; 2] = ["unix", "windows"];

/// Product code elsewhere that asks.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in product::files(tree) {
        let is_platform = file.path.contains("/platform/") || file.path.ends_with("/platform.rs");
        if is_platform || file.name == "xtask" {
            continue;
        }
        let code = code_only(&file.text);
        let conditions: String = code
            .lines()
            .map(|line| if line.contains("cfg") { format!("{line}\n") } else { "\n".into() })
            .collect();
        let words = WORDS.iter().map(|word| (word, &code));
        let all = words.chain(SYSTEMS.iter().map(|word| (word, &conditions)));
        problems.extend(all.flat_map(|(word, text)| word_lines(text, word)).map(|line| {
            let what = "asks for the system or the processor: what depends on these is in `platform`, and what \
                        a system lacks is an `Ability`";
            Problem::new(&file.path, line, what)
        }));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    #[test]
    fn code_that_asks_elsewhere_is_reported() {
        let asks = "#[cfg(target_os = \"linux\")]\nfn f() {}\nuse std::os::unix::fs;\nfn g() -> bool {\n    \
                    cfg!(windows) && cfg!(not(unix))\n}\n// cfg(target_arch)\n#[cfg(test)]\nmod tests {\n    \
                    fn h() -> bool {\n        cfg!(unix)\n    }\n}\n";
        let (_directory, tree) = made_up(&[
            ("crates/a/src/platform/mod.rs", asks),
            ("crates/b/src/platform.rs", asks),
            ("crates/c/src/lib.rs", asks),
            ("crates/c/tests/all.rs", asks),
        ]);
        let mut lines: Vec<_> = check(&tree).into_iter().map(|it| (it.path, it.line)).collect();
        lines.sort();
        let expected = [1, 5, 5].map(|line| ("crates/c/src/lib.rs".to_owned(), line));
        assert_eq!(lines, expected);
    }
}
