//! Backend traits of the HAL have no default bodies: with one, a decorator would compile without forwarding
//! the function, and hide the device's.

use super::source::{code_only, functions};
use super::{Problem, tree::Tree};

/// The location of the traits.
const HAL: &str = "crates/hal/src/";

/// Functions with a body in traits named `*Backend`.
pub fn no_default_bodies(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in tree.rust().filter(|path| path.starts_with(HAL)) {
        let code = code_only(&tree.text(path));
        for found in traits(&code).filter(|found| found.name.ends_with("Backend")) {
            problems.extend(functions(found.code).iter().map(|function| {
                let what = format!(
                    "{}::{} has a default body, which lets a decorator forget to forward it; each backend has its own",
                    found.name, function.name
                );
                Problem::new(path, found.line + function.line - 1, what)
            }));
        }
    }
    problems
}

struct Trait<'c> {
    name: &'c str,
    /// The line of the word `trait`, from 1.
    line: usize,
    /// From the word `trait` to the closing brace, which rustfmt puts at the start of a line.
    code: &'c str,
}

/// The top-level traits of a file, from the output of `code_only`.
fn traits(code: &str) -> impl Iterator<Item = Trait<'_>> {
    let starts = code.match_indices("trait ").filter(|(at, _)| {
        let line_start = code[..*at].rfind('\n').map_or(0, |end| end + 1);
        matches!(&code[line_start..*at], "" | "pub " | "pub(crate) " | "unsafe " | "pub unsafe ")
    });
    starts.map(|(at, word)| {
        let rest = &code[at..];
        let name = rest[word.len()..].split(|c: char| !c.is_alphanumeric() && c != '_').next();
        let is_empty = rest.lines().next().is_some_and(|line| line.ends_with("{}"));
        let end = rest.find(if is_empty { "\n" } else { "\n}" }).unwrap_or(rest.len());
        Trait {
            name: name.unwrap_or_default(),
            line: 1 + code[..at].matches('\n').count(),
            code: &rest[..end],
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    const TEXT: &str = "\
pub trait EmptyBackend: Send + Sync {}
/// A trait with fn in its comment { }
pub trait AbacusBackend: Send + Sync {
    /// Declared.
    fn beads(&self, list: [u8; 4]) -> Result<()>;

    #[allow(unsafe_code)]
    unsafe fn slide(&self);

    fn trim(&self) -> Result<()> {
        Ok(())
    }
}

pub trait Names {
    fn allowed(&self) {}
}

impl AbacusBackend for Wood {
    fn beads(&self, list: [u8; 4]) -> Result<()> {
        Ok(())
    }
}

trait OtherBackend {
    fn other() {}
}
";

    #[test]
    fn default_bodies_of_backends_are_reported() {
        let (_directory, tree) = made_up(&[
            ("crates/hal/src/abacus.rs", TEXT),
            ("crates/local/src/abacus.rs", TEXT),
            ("crates/hal/tests/abacus.rs", TEXT),
        ]);
        let found: Vec<_> =
            no_default_bodies(&tree).into_iter().map(|it| (it.path, it.line, it.what)).collect();
        let expected = [(10, "AbacusBackend::trim has"), (26, "OtherBackend::other has")];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((path, line, what), (expected_line, start)) in found.iter().zip(expected) {
            assert_eq!((path.as_str(), *line), ("crates/hal/src/abacus.rs", expected_line));
            assert!(what.starts_with(start), "{what}");
        }
    }
}
