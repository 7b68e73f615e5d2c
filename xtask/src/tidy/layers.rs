//! Dependencies between crates point down only.

use super::{Problem, tree::Tree};

/// The layers, bottom up; a crate may depend on crates of lower layers.
const LAYERS: [&[&str]; 13] = [
    &["base", "interleave"],
    &["crash"],
    &["jobs"],
    &["vm", "simt", "capture", "profile", "params", "values", "roof", "formats"],
    &["hal"],
    &["local", "vulkan", "cuda", "cts"],
    &["replay", "modules"],
    &["judge"],
    &["devices", "edit"],
    &["build"],
    &["kernels"],
    &["rehal"],
    &["cli", "capi", "python"],
];

/// The crate that users name, whose name has no prefix.
const FACE: &str = "rehal";

/// Restricted crates: what each may depend on besides `base`, if fewer than the layers below it.
const THIN: [(&str, &[&str], &str); 1] =
    [("capi", &["rehal"], "the C API is the public face with C's types")];

/// Exceptions to the layers: from, section, to, why.
const ALLOWED: [(&str, &str, &str, &str); 6] = [
    ("local", "dev-dependencies", "cts", "a driver's tests run the conformance suite over it"),
    ("vulkan", "dev-dependencies", "cts", "a driver's tests run the conformance suite over it"),
    ("cts", "dev-dependencies", "local", "the suite's own tests need a driver"),
    ("cli", "dev-dependencies", "capture", "tests print a capture that has a record of every kind"),
    ("cli", "dev-dependencies", "profile", "tests draw profiles with names and numbers that no device makes"),
    ("cli", "dev-dependencies", "cts", "tests run the tools on the suite's discrete device"),
];

/// Reads the manifest of every crate under `crates/`.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in tree.ending(&["Cargo.toml"]) {
        let Some(directory) = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        match tree.text(path).parse::<toml::Table>() {
            Ok(manifest) => check_crate(path, directory, &manifest, &mut problems),
            Err(error) => problems.push(Problem::new(path, 0, error.to_string())),
        }
    }
    problems
}

fn check_crate(path: &str, directory: &str, manifest: &toml::Table, problems: &mut Vec<Problem>) {
    let name = manifest.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
    let expected = if directory == FACE { FACE.to_owned() } else { format!("rehal-{directory}") };
    if name != Some(&expected) {
        problems.push(Problem::new(path, 0, format!("the crate in crates/{directory} is named {expected}")));
    }
    let Some(layer) = layer(directory) else {
        problems.push(Problem::new(
            path,
            0,
            format!("{directory} has no layer: add it in xtask/src/tidy/layers.rs"),
        ));
        return;
    };
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let Some(dependencies) = manifest.get(section).and_then(toml::Value::as_table) else { continue };
        for dependency in dependencies.keys() {
            if let Some(what) = refuse(directory, layer, section, dependency) {
                problems.push(Problem::new(path, 0, what));
            }
        }
    }
}

fn refuse(directory: &str, from: usize, section: &str, dependency: &str) -> Option<String> {
    if dependency == "xtask" || dependency == "oracle" {
        return Some(format!("no crate may depend on {dependency}"));
    }
    if dependency == "testing" && section != "dev-dependencies" {
        return Some("only tests may depend on testing".to_owned());
    }
    let target = if dependency == FACE { FACE } else { dependency.strip_prefix("rehal-")? };
    if ALLOWED.iter().any(|(a, b, c, _)| (*a, *b, *c) == (directory, section, target)) {
        return None;
    }
    if let Some((_, allowed, why)) = THIN.iter().find(|(crate_name, ..)| *crate_name == directory)
        && target != "base"
        && !allowed.contains(&target)
    {
        return Some(format!(
            "{directory} may depend only on {} and base, not on {target}: {why}",
            allowed.join(", ")
        ));
    }
    match layer(target) {
        Some(to) if to < from => None,
        Some(_) => {
            Some(format!("{directory} may not depend on {target} ({section}): arrows point down only"))
        }
        None => Some(format!("{target} has no layer")),
    }
}

fn layer(directory: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&directory))
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::check;

    fn crate_with(directory: &str, dependencies: &str) -> Vec<String> {
        let path = format!("crates/{directory}/Cargo.toml");
        let text = format!("[package]\nname = \"rehal-{directory}\"\n{dependencies}");
        let (_directory, tree) = made_up(&[(&path, &text)]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn downward_dependencies_are_allowed() {
        assert!(
            crate_with("replay", "[dependencies]\nrehal-hal.workspace = true\nserde = \"=1\"").is_empty()
        );
        assert!(crate_with("local", "[dev-dependencies]\nrehal-cts.workspace = true").is_empty());
    }

    #[test]
    fn upward_sideways_and_unknown_dependencies_are_rejected() {
        assert!(crate_with("hal", "[dependencies]\nrehal-replay.workspace = true")[0].contains("point down"));
        assert!(
            crate_with("capture", "[dependencies]\nrehal-hal.workspace = true")[0].contains("point down")
        );
        assert!(crate_with("local", "[dependencies]\nrehal-cts.workspace = true")[0].contains("point down"));
        assert!(crate_with("hal", "[dependencies]\noracle.workspace = true")[0].contains("oracle"));
        assert!(crate_with("hal", "[dependencies]\ntesting.workspace = true")[0].contains("only tests"));
        assert!(crate_with("hal", "[dev-dependencies]\ntesting.workspace = true").is_empty());
        assert!(crate_with("extra", "")[0].contains("no layer"));
    }

    #[test]
    fn thin_crates_depend_on_what_their_rows_allow() {
        let with =
            |target: &str| crate_with("capi", &format!("[dependencies]\nrehal-{target}.workspace = true"));
        assert!(with("base").is_empty());
        for target in ["hal", "replay", "kernels"] {
            assert!(with(target)[0].contains("may depend only on rehal"), "{target}");
        }
        assert!(crate_with("judge", "[dependencies]\nrehal-replay.workspace = true").is_empty());
        assert!(crate_with("replay", "[dependencies]\nrehal-judge.workspace = true")[0].contains("down"));
        assert!(crate_with("kernels", "[dependencies]\nrehal.workspace = true")[0].contains("down"));
    }

    #[test]
    fn names_follow_directories() {
        let (_directory, tree) = made_up(&[("crates/hal/Cargo.toml", "[package]\nname = \"hal\"")]);
        assert_eq!(check(&tree).len(), 1);
    }
}
