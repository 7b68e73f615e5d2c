//! The fixtures match their manifest, and are small.

use super::{Problem, tree::Tree};
use crate::fixtures::manifest::{self, Manifest, sha256_hex};
use std::collections::BTreeMap;

/// Maximum total size of the fixtures.
const TOTAL_BYTES: u64 = 10_000_000;

/// Compares `fixtures/` with its manifest in both directions.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let directory = tree.root.join("fixtures");
    let manifest = match Manifest::read(&directory) {
        Ok(manifest) => manifest,
        Err(error) => return vec![Problem::new("fixtures/MANIFEST.toml", 0, error)],
    };
    let mut problems = Vec::new();
    let mut listed: BTreeMap<String, _> =
        manifest.file.iter().map(|entry| (format!("fixtures/{}", entry.path), entry)).collect();
    let own = format!("fixtures/{}", manifest::NAME);
    for path in tree.paths.iter().filter(|path| path.starts_with("fixtures/") && **path != own) {
        let Some(entry) = listed.remove(path) else {
            problems.push(Problem::new(path, 0, "is not in the manifest; run `cargo xtask fixtures`"));
            continue;
        };
        let content = std::fs::read(tree.root.join(path)).unwrap_or_default();
        if content.len() as u64 != entry.size_bytes || sha256_hex(&content) != entry.sha256 {
            problems.push(Problem::new(path, 0, "differs from the manifest; run `cargo xtask fixtures`"));
        }
    }
    problems.extend(listed.keys().map(|path| Problem::new(path, 0, "is in the manifest but missing")));
    let total: u64 = manifest.file.iter().map(|entry| entry.size_bytes).sum();
    if total > TOTAL_BYTES {
        problems.push(Problem::new(
            "fixtures",
            0,
            format!("{total} bytes in total, more than the limit of {TOTAL_BYTES}"),
        ));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    fn manifest(path: &str, content: &[u8], size_bytes: usize) -> String {
        let sha256 = sha256_hex(content);
        format!(
            "reference = \"1\"\n[[file]]\npath = \"{path}\"\nsize_bytes = {size_bytes}\nsha256 = \"{sha256}\"\nmade_by = \"\"\n"
        )
    }

    #[test]
    fn a_matching_manifest_passes() {
        let (_directory, tree) =
            made_up(&[("fixtures/a", "x"), ("fixtures/MANIFEST.toml", &manifest("a", b"x", 1))]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn every_difference_is_reported() {
        let (_directory, tree) =
            made_up(&[("fixtures/a", "y"), ("fixtures/MANIFEST.toml", &manifest("a", b"x", 1))]);
        assert!(check(&tree)[0].what.contains("differs"));
        let (_directory, tree) =
            made_up(&[("fixtures/b", "y"), ("fixtures/MANIFEST.toml", &manifest("a", b"x", 1))]);
        let found: Vec<_> = check(&tree).iter().map(ToString::to_string).collect();
        assert!(found[0].contains("not in the manifest") && found[1].contains("but missing"), "{found:?}");
        let big = manifest("a", b"x", 20_000_000);
        let (_directory, tree) = made_up(&[("fixtures/a", "x"), ("fixtures/MANIFEST.toml", &big)]);
        assert!(check(&tree).iter().any(|problem| problem.what.contains("in total")));
    }
}
