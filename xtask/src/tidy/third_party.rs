//! Third-party code: under which licences, in how many versions, and from where. `deny.toml` says what is allowed, in the
//! words of `cargo deny`, which takes too long to install on a fresh machine.

use super::{Problem, tree::Tree};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const POLICY: &str = "deny.toml";
/// The workspaces, by their manifests.
const WORKSPACES: [&str; 2] = ["Cargo.toml", "fuzz/Cargo.toml"];

/// The part of `deny.toml` that is checked here.
#[derive(Deserialize)]
struct Policy {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    skip: Vec<Skipped>,
}

#[derive(Deserialize)]
struct Skipped {
    #[serde(rename = "crate")]
    name: String,
}

/// What `cargo metadata` says of the packages of a workspace.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// Nothing for packages of the repository.
    source: Option<String>,
}

/// Checks every package of both workspaces.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let policy = match toml::from_str::<Policy>(&tree.text(POLICY)) {
        Ok(policy) => policy,
        Err(error) => return vec![Problem::new(POLICY, 0, error.to_string())],
    };
    let mut problems = Vec::new();
    let mut used_skips = Vec::new();
    for manifest in WORKSPACES {
        match metadata(&tree.root, manifest) {
            Ok(metadata) => {
                let found = judge(&policy, &metadata.packages, &mut used_skips);
                problems.extend(found.into_iter().map(|what| Problem::new(manifest, 0, what)));
            }
            Err(error) => problems.push(Problem::new(manifest, 0, error)),
        }
    }
    let stale = policy.bans.skip.iter().filter(|skip| !used_skips.contains(&skip.name));
    problems
        .extend(stale.map(|skip| Problem::new(POLICY, 0, format!("{} is skipped for nothing", skip.name))));
    problems
}

fn metadata(root: &Path, manifest: &str) -> Result<Metadata, String> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--locked", "--manifest-path", manifest])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

fn judge(policy: &Policy, packages: &[Package], used_skips: &mut Vec<String>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let Package { name, version, license, source } = package;
        match license.as_deref().map(|license| is_allowed(license, &policy.licenses.allow)) {
            Some(Ok(true)) => {}
            Some(Ok(false)) => {
                let license = license.as_deref().unwrap_or_default();
                problems.push(format!("{name} {version} is under {license}, which {POLICY} does not allow"));
            }
            Some(Err(what)) => problems.push(format!("{name} {version}: {what}")),
            None => problems.push(format!("{name} {version} names no licence")),
        }
        if source.as_deref().is_some_and(|source| !is_registry(source)) {
            problems.push(format!("{name} {version} is not from the package registry"));
        }
        let id = format!("{name}@{version}");
        if policy.bans.skip.iter().any(|skip| skip.name == id) {
            used_skips.push(id);
        } else {
            versions.entry(name).or_default().push(version);
        }
    }
    let several = versions.iter().filter(|(_, versions)| versions.len() > 1);
    problems.extend(several.map(|(name, versions)| {
        format!(
            "{name} is there in several versions ({}); use one, or skip one in {POLICY}",
            versions.join(", ")
        )
    }));
    problems
}

fn is_registry(source: &str) -> bool {
    source.starts_with("registry+") && source.ends_with("/crates.io-index")
}

/// Whether an SPDX expression leaves a choice that is allowed. `/` is how old manifests write `OR`.
fn is_allowed(expression: &str, allowed: &[String]) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let is_allowed = any(&mut words, allowed);
    match (is_allowed, words.next()) {
        (Some(is_allowed), None) => Ok(is_allowed),
        _ => Err(format!("the licence {expression:?} cannot be read")),
    }
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, allowed: &[String]) -> Option<bool> {
    let mut result = all(words, allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        result |= all(words, allowed)?;
    }
    Some(result)
}

fn all(words: &mut Words<'_>, allowed: &[String]) -> Option<bool> {
    let mut result = one(words, allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        result &= one(words, allowed)?;
    }
    Some(result)
}

fn one(words: &mut Words<'_>, allowed: &[String]) -> Option<bool> {
    let word = words.next()?;
    if word == "(" {
        let result = any(words, allowed)?;
        return words.next_if_eq(&")").map(|_| result);
    }
    if ["AND", "OR", "WITH", ")"].contains(&word) {
        return None;
    }
    let license = match words.next_if_eq(&"WITH") {
        Some(_) => format!("{word} WITH {}", words.next()?),
        None => word.to_owned(),
    };
    Some(allowed.contains(&license))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        toml::from_str("[licenses]\nallow = [\"MIT\", \"ISC\"]\n[bans]\nskip = [{ crate = \"s@1.0.0\" }]")
            .unwrap()
    }

    fn package(name: &str, version: &str, license: &str, source: &str) -> Package {
        let or_none = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            license: or_none(license),
            source: or_none(source),
        }
    }

    #[test]
    fn expressions_are_read() {
        let allowed = policy().licenses.allow;
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("MIT OR GPL-3.0", true),
            ("GPL-3.0/MIT", true),
            ("MIT AND GPL-3.0", false),
            ("GPL-3.0 OR MIT AND ISC", true),
            ("(GPL-3.0 OR MIT) AND ISC", true),
            ("(GPL-3.0 OR MIT) AND BSL-1.0", false),
            ("MIT WITH some-exception", false),
        ] {
            assert_eq!(is_allowed(expression, &allowed), Ok(expected), "{expression}");
        }
        for wrong in ["", "MIT OR", "(MIT", "MIT ISC", "AND", "MIT)"] {
            assert!(is_allowed(wrong, &allowed).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_rule_is_held() {
        let registry = "registry+somewhere/crates.io-index";
        let packages = [
            package("ours", "0.1.0", "MIT", ""),
            package("fine", "1.0.0", "MIT", registry),
            package("copyleft", "1.0.0", "GPL-3.0", registry),
            package("silent", "1.0.0", "", registry),
            package("elsewhere", "1.0.0", "MIT", "git+somewhere"),
            package("twice", "1.0.0", "MIT", registry),
            package("twice", "2.0.0", "MIT", registry),
            package("s", "1.0.0", "MIT", registry),
            package("s", "2.0.0", "MIT", registry),
        ];
        let mut used = Vec::new();
        let problems = judge(&policy(), &packages, &mut used);
        let expected =
            ["copyleft 1.0.0 is under", "silent 1.0.0 names no", "elsewhere 1.0.0 is not", "twice is there"];
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.starts_with(expected), "{problem}");
        }
        assert_eq!(used, ["s@1.0.0"]);
    }
}
