//! Every dependency has its version in one place: the least that will do, so that a program which uses our
//! crates can share later ones. `Cargo.lock` pins what we build and test.

use super::{Problem, tree::Tree};

const ROOT: &str = "Cargo.toml";
const SECTIONS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// Reads every `Cargo.toml`: versions occur only in the workspace's table (and in `fuzz/`, a separate
/// workspace), each as `x.y.z`, or as `=x.y.z` if it is a crate of ours; crates inherit them.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in tree.ending(&["Cargo.toml"]) {
        match tree.text(path).parse::<toml::Table>() {
            Ok(manifest) => check_manifest(path, &manifest, &mut problems),
            Err(error) => problems.push(Problem::new(path, 0, error.to_string())),
        }
    }
    problems.extend(unused(tree));
    problems
}

/// Entries of the workspace's table that no crate inherits; `cargo machete` finds inherited but unused ones.
fn unused(tree: &Tree) -> Vec<Problem> {
    let manifests = tree.ending(&["Cargo.toml"]).filter(|path| *path != ROOT && !path.starts_with("fuzz/"));
    let manifests: Vec<toml::Table> = manifests.filter_map(|path| tree.text(path).parse().ok()).collect();
    let is_inherited = |name: &str| {
        let targets =
            |it: &toml::Table| it.get("target").and_then(|it| it.as_table()).cloned().unwrap_or_default();
        let of_targets = manifests.iter().flat_map(targets).filter_map(|(_, it)| it.as_table().cloned());
        let tables: Vec<_> = manifests.iter().cloned().chain(of_targets).collect();
        let sections = tables.iter().flat_map(|it| SECTIONS.iter().map(|section| it.get(*section)));
        sections.flatten().any(|section| section.get(name).is_some())
    };
    let root = tree.text(ROOT).parse::<toml::Table>().unwrap_or_default();
    let shared = root.get("workspace").and_then(|workspace| workspace.get("dependencies")?.as_table());
    let names = shared.into_iter().flat_map(|table| table.keys()).filter(|name| !is_inherited(name));
    names.map(|name| Problem::new(ROOT, 0, format!("{name}: no crate uses it"))).collect()
}

fn check_manifest(path: &str, manifest: &toml::Table, problems: &mut Vec<Problem>) {
    let shared = manifest.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    let own = SECTIONS.map(|section| manifest.get(section));
    for (table, inherits) in
        std::iter::once((shared, false)).chain(own.map(|table| (table, !path.starts_with("fuzz/"))))
    {
        let Some(table) = table.and_then(toml::Value::as_table) else { continue };
        for (name, dependency) in table {
            if let Some(what) = refuse(dependency, inherits) {
                problems.push(Problem::new(path, 0, format!("{name}: {what}")));
            }
        }
    }
}

fn refuse(dependency: &toml::Value, inherits: bool) -> Option<&'static str> {
    let version = dependency.as_str().or_else(|| dependency.get("version").and_then(toml::Value::as_str));
    let is_true = |key| dependency.get(key).and_then(toml::Value::as_bool) == Some(true);
    if dependency.get("git").is_some() {
        return Some("must come from a package registry, not from a repository");
    }
    if inherits {
        return (!is_true("workspace")).then_some("must inherit its version: `workspace = true`");
    }
    let is_ours = dependency.get("path").is_some();
    match version {
        Some(version) if version.starts_with('=') != is_ours => Some("needs its least version: `x.y.z`"),
        Some(version) if version.matches('.').count() == 2 => None,
        None if is_ours => None,
        _ => Some("needs a whole version: `x.y.z`"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::check;

    #[test]
    fn whole_versions_and_inheritance_are_required() {
        let (_directory, tree) = made_up(&[
            ("Cargo.toml", "[workspace.dependencies]\na = \"1.2.3\"\nb = \"1.2\"\nc = { path = \"c\" }\n"),
            ("crates/x/Cargo.toml", "[dependencies]\na.workspace = true\nd = \"1.0.0\"\n"),
            ("fuzz/Cargo.toml", "[dependencies]\ne = \"=1.0.0\"\ng = \"1.0.0\"\nf = { git = \"x\" }\n"),
        ]);
        let found: Vec<_> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 6, "{found:?}");
        assert!(found[0].contains("b: needs a whole version"));
        assert!(found[1].contains("d: must inherit"));
        assert!(found[2].contains("e: needs its least version") && found[3].contains("f: must come from"));
        assert!(found[4].contains("b: no crate uses it") && found[5].contains("c: no crate uses it"));
    }
}
