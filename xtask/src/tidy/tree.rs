//! The files of the repository, read once.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Excluded directories: build output, environments, version control.
const SKIPPED: [&str; 7] = ["target", ".git", ".venv", "corpus", "artifacts", "node_modules", "shared"];

/// The repository's files, sorted by path.
pub struct Tree {
    /// The root of the repository.
    pub root: PathBuf,
    /// Paths below the root, with `/`.
    pub paths: Vec<String>,
}

impl Tree {
    /// Lists the files under `root`.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut paths = Vec::new();
        list(root, "", &mut paths)?;
        paths.sort();
        Ok(Self { root: root.to_path_buf(), paths })
    }

    /// Whether `path` is a file of the repository.
    pub fn has(&self, path: &str) -> bool {
        self.paths.binary_search_by(|known| known.as_str().cmp(path)).is_ok()
    }

    /// Paths with one of these suffixes.
    pub fn ending<'a>(&'a self, endings: &'a [&str]) -> impl Iterator<Item = &'a str> {
        self.paths
            .iter()
            .map(String::as_str)
            .filter(move |path| endings.iter().any(|ending| path.ends_with(ending)))
    }

    /// The Rust files of the workspace.
    pub fn rust(&self) -> impl Iterator<Item = &str> {
        self.ending(&[".rs"])
    }

    /// The text of a listed file; files that are not UTF-8 read as empty.
    pub fn text(&self, path: &str) -> String {
        fs::read(self.root.join(path))
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .unwrap_or_default()
    }
}

fn list(directory: &Path, prefix: &str, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                list(&entry.path(), &format!("{path}/"), paths)?;
            }
        } else {
            paths.push(path);
        }
    }
    Ok(())
}

/// A synthetic tree for the tests of the checks.
#[cfg(test)]
pub fn made_up(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let tree = Tree::read(directory.path()).unwrap();
    (directory, tree)
}

#[cfg(test)]
mod tests {
    use super::made_up;

    #[test]
    fn build_output_is_excluded() {
        let (_directory, tree) = made_up(&[("a/b.rs", ""), ("target/debug/c.rs", ""), (".ci/run", "")]);
        assert_eq!(tree.paths, [".ci/run", "a/b.rs"]);
        assert!(tree.has("a/b.rs") && !tree.has("a"));
    }
}
