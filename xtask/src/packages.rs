//! Checks that the crates can be packaged, without a registry: each with its licence, a README and the
//! versions of those that it depends on. Compiling what is packaged takes minutes, and is not part of it.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Outcome, root, run};

/// Files that each package has.
const FILES: [&str; 4] = ["Cargo.toml", "LICENSE", "README.md", "src/lib.rs"];

/// Packages all crates that are published.
pub fn check() -> Outcome {
    let root = root();
    let mut cargo = Command::new("cargo");
    cargo.args(["package", "--quiet", "--offline", "--no-verify", "--allow-dirty"]);
    let published = published(&root)?;
    cargo.args(published.iter().flat_map(|(name, _)| ["--package", name]));
    let output = cargo.current_dir(&root).stdout(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(
            format!("the crates cannot be packaged: {}", String::from_utf8_lossy(&output.stderr)).into()
        );
    }
    let target = run::target();
    for (name, version) in published {
        let package = target.join(format!("package/{name}-{version}.crate"));
        let listed = Command::new("tar").arg("-tzf").arg(&package).output()?;
        let listed = String::from_utf8_lossy(&listed.stdout);
        for file in FILES {
            let path = format!("{name}-{version}/{file}");
            if !listed.lines().any(|line| line == path) {
                return Err(format!("{} has no {file}", package.display()).into());
            }
        }
    }
    Ok(())
}

/// The version of all crates.
pub fn version(root: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let workspace: toml::Table = std::fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
    let version = workspace["workspace"]["package"]["version"].as_str();
    Ok(version.ok_or("the workspace has no version")?.to_owned())
}

/// The crates that are published, each with its version: those that do not inherit that they are not.
pub fn published(root: &Path) -> Result<Vec<(String, String)>, Box<dyn std::error::Error>> {
    let version = version(root)?;
    let mut published = Vec::new();
    for entry in std::fs::read_dir(root.join("crates"))? {
        let manifest: toml::Table = std::fs::read_to_string(entry?.path().join("Cargo.toml"))?.parse()?;
        let package = &manifest["package"];
        if package.get("publish").is_none() {
            let name = package["name"].as_str().ok_or("a crate has no name")?;
            published.push((name.to_owned(), version.clone()));
        }
    }
    published.sort();
    Ok(published)
}

#[cfg(test)]
mod tests {
    use super::published;

    #[test]
    fn crates_that_only_tests_use_are_not_published() {
        let published = published(&crate::root()).unwrap();
        let is_published = |name: &str| published.iter().any(|(it, _)| it == name);
        assert!(is_published("rehal-cli") && is_published("rehal-devices"), "{published:?}");
        assert!(!is_published("rehal-cts") && !is_published("rehal-interleave"), "{published:?}");
    }
}
