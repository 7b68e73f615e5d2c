//! `cargo xtask api`: the public API of the crate `rehal`, compared with the list that is checked in.
//!
//! The crate re-exports what other crates define, so the list has the items of these under the names of the
//! face. Everything that they mention is one of them, so that a program can name what it is given and find
//! its page. They come from rustdoc's JSON, which the stable toolchain writes with RUSTC_BOOTSTRAP: only
//! rustdoc has it, so that nothing is built twice.

use crate::run::{self, cargo, succeed};
use crate::{Outcome, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The list, below the root.
const LIST: &str = "crates/rehal/api.txt";

/// An item that the face re-exports: its name there, the crate that defines it, and its own name.
struct Export {
    name: String,
    origin: String,
    leaf: String,
}

/// Compares the API with the list; with `--accept`, writes the list.
pub fn main(arguments: &[String]) -> Outcome {
    let accepts = match arguments {
        [] => false,
        [only] if only == "--accept" => true,
        _ => return Err("unknown argument (expected --accept)".into()),
    };
    let found = list()?;
    let path = root().join(LIST);
    if accepts {
        fs::write(path, found)?;
        return Ok(());
    }
    let kept = fs::read_to_string(path)?;
    let changes = changes(&kept, &found);
    if changes.is_empty() {
        return Ok(());
    }
    println!("{}", changes.join("\n"));
    Err(format!("the public API has changed: `cargo xtask api --accept` writes {LIST}").into())
}

/// The lines that only one of two lists has.
fn changes(kept: &str, found: &str) -> Vec<String> {
    let [before, after] = [kept, found].map(|text| text.lines().collect::<BTreeSet<_>>());
    let removed = before.difference(&after).map(|line| format!("- {line}"));
    let added = after.difference(&before).map(|line| format!("+ {line}"));
    removed.chain(added).collect()
}

/// The API as text.
fn list() -> Result<String> {
    let documents = document()?;
    let path = |name: &str| documents.join(format!("{name}.json"));
    let face = serde_json::from_str(&fs::read_to_string(path("rehal"))?)?;
    let exports = exports(&face)?;
    let mut items: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for name in exports.iter().map(|export| export.origin.as_str()).chain(["rehal"]) {
        if !items.contains_key(name) {
            items.insert(name, items_of(&path(name))?);
        }
    }
    let mut text = String::new();
    let mut unnamed = BTreeMap::new();
    // First what it defines itself, whose names there are those of the face.
    let own = items["rehal"].iter().filter(|line| !line.starts_with("pub use ")).cloned().collect();
    let mut groups: Vec<Vec<String>> = vec![own];
    for export in exports.iter().filter(|export| export.origin != "rehal") {
        let lines = lines_of(export, &items[export.origin.as_str()]);
        if lines.is_empty() {
            return Err(format!("{} has no public item {}", export.origin, export.leaf).into());
        }
        groups.push(lines);
    }
    for lines in groups {
        // An `impl` says which traits it has, also those of other crates of the workspace.
        for line in lines.iter().filter(|line| !line.starts_with("impl")) {
            for path in mentioned(line).filter(|path| is_type(path) && !is_exported(path, &exports)) {
                unnamed.entry(path.to_owned()).or_insert_with(|| line.clone());
            }
        }
        text += &format!("{}{}\n", if text.is_empty() { "" } else { "\n" }, lines.join("\n"));
    }
    if unnamed.is_empty() {
        return Ok(text);
    }
    let unnamed: Vec<_> = unnamed.iter().map(|(path, line)| format!("{path}\n  in {line}")).collect();
    Err(format!(
        "{}\n{} types of the API cannot be named: export them, or hide the functions that only drivers need",
        unnamed.join("\n"),
        unnamed.len()
    )
    .into())
}

/// The paths of items of other crates in a line.
fn mentioned(line: &str) -> impl Iterator<Item = &str> {
    let is_path = |it: char| it.is_alphanumeric() || it == '_' || it == ':';
    line.split(move |it| !is_path(it))
        .filter(|it| it.starts_with("rehal_"))
        .map(|it| it.trim_end_matches(':'))
}

/// Whether a path is that of a type, not of a function or a module.
fn is_type(path: &str) -> bool {
    last(path).starts_with(char::is_uppercase)
}

/// Whether the face has the item, under any name.
fn is_exported(path: &str, exports: &[Export]) -> bool {
    let (origin, _) = path.split_once("::").unwrap_or((path, ""));
    exports.iter().any(|it| it.origin == origin && it.leaf == last(path))
}

/// Writes the JSON of the documentation of all crates. Returns its directory.
fn document() -> Result<PathBuf> {
    let target = run::target();
    let script = target.join("rustdoc-json");
    fs::create_dir_all(&target)?;
    fs::write(&script, "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n")?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    // The whole workspace at once: crates that are documented one by one have dependencies with other
    // features, which are checked again.
    let doc =
        ["doc", "--quiet", "--no-deps", "--lib", "--workspace", "--features", "rehal/vulkan,rehal/tune"];
    let mut cargo = cargo(&doc);
    cargo.env("RUSTDOC", &script);
    succeed(cargo.env("RUSTDOCFLAGS", "-Zunstable-options --output-format=json --cap-lints=allow"))?;
    Ok(target.join("doc"))
}

/// The public items of a crate, a line each.
fn items_of(document: &Path) -> Result<Vec<String>> {
    let api = public_api::Builder::from_rustdoc_json(document)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()?;
    Ok(api.items().map(ToString::to_string).collect())
}

/// The re-exports of the modules of the face, by name.
fn exports(face: &Value) -> Result<Vec<Export>> {
    let index = &face["index"];
    let of = |id: &Value| &index[id.to_string().trim_matches('"')];
    let mut exports = Vec::new();
    let mut modules = vec![("rehal".to_owned(), of(&face["root"]))];
    while let Some((path, module)) = modules.pop() {
        for id in module["inner"]["module"]["items"].as_array().ok_or("a module has no items")? {
            let item = of(id);
            let inner = &item["inner"];
            if inner.get("module").is_some() {
                let name = item["name"].as_str().ok_or("a module has no name")?;
                modules.push((format!("{path}::{name}"), item));
            } else if let Some(import) = inner.get("use") {
                let name = import["name"].as_str().ok_or("an export has no name")?;
                let summary = &face["paths"][import["id"].to_string().trim_matches('"')];
                let defined = summary["path"].as_array().ok_or(format!("{name} has no path"))?;
                let word = |at: Option<&Value>| at.and_then(Value::as_str).unwrap_or_default().to_owned();
                exports.push(Export {
                    name: format!("{path}::{name}"),
                    origin: word(defined.first()),
                    leaf: word(defined.last()),
                });
            }
        }
    }
    exports.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(exports)
}

/// The item itself and what belongs to it, under the name of the face.
fn lines_of(export: &Export, items: &[String]) -> Vec<String> {
    let declares = |line: &&String| path_of(line).is_some_and(|path| last(path) == export.leaf);
    // The shortest name: others are of the same item in other modules, or of other items.
    let Some(path) = items.iter().filter(declares).filter_map(|line| path_of(line)).min_by_key(|it| it.len())
    else {
        return Vec::new();
    };
    let belongs = |line: &&String| match line.strip_prefix("impl") {
        Some(rest) => rest.ends_with(&format!(" {path}")) || rest.contains(&format!(" {path}<")),
        None => name_of(line).is_some_and(|name| {
            name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        }),
    };
    // Of flags, only the names are ours.
    let is_flags = items.iter().any(|line| *line == format!("impl bitflags::traits::Flags for {path}"));
    let matters = |line: &&String| !is_flags || line.ends_with(": Self") || line.starts_with("pub struct ");
    let renamed =
        items.iter().filter(belongs).filter(matters).map(|line| line.replacen(path, &export.name, 1));
    renamed.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The path of an item that is not a method.
fn path_of(line: &str) -> Option<&str> {
    const KINDS: [&str; 7] = ["struct ", "enum ", "trait ", "type ", "mod ", "const ", "fn "];
    let kinds = KINDS.iter().any(|kind| line.contains(kind)) && !line.starts_with("impl");
    let name = name_of(line).filter(|_| kinds)?;
    Some(name)
}

/// The name in a line, without what precedes it and what follows it.
fn name_of(line: &str) -> Option<&str> {
    let at = line.find("rehal_")?;
    let end = line[at..]
        .find(|it: char| !(it.is_alphanumeric() || it == '_' || it == ':'))
        .unwrap_or(line.len() - at);
    Some(line[at..at + end].trim_end_matches(':'))
}

fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::{Export, changes, is_exported, lines_of, mentioned};

    #[test]
    fn items_are_listed_under_the_name_of_the_face() {
        let items = [
            "pub struct rehal_a::Plan",
            "pub fn rehal_a::Plan::run(&self, other: &rehal_a::Planner) -> rehal_a::Result<()>",
            "impl core::fmt::Debug for rehal_a::Plan",
            "pub struct rehal_a::Planner",
            "pub rehal_a::Plan::count: u64",
            "pub struct rehal_a::inner::deep::Plan",
        ]
        .map(ToOwned::to_owned);
        let export =
            Export { name: "rehal::replay::Plan".into(), origin: "rehal_a".into(), leaf: "Plan".into() };
        let expected = [
            "impl core::fmt::Debug for rehal::replay::Plan",
            "pub fn rehal::replay::Plan::run(&self, other: &rehal_a::Planner) -> rehal_a::Result<()>",
            "pub rehal::replay::Plan::count: u64",
            "pub struct rehal::replay::Plan",
        ];
        assert_eq!(lines_of(&export, &items), expected);
        let missing = Export { leaf: "None".into(), ..export };
        assert!(lines_of(&missing, &items).is_empty());
    }

    #[test]
    fn types_that_cannot_be_named_are_found() {
        let line = "pub fn rehal::Plan::run(&self, &rehal_a::one::Plan, rehal_b::Plan) -> rehal_a::Result<rehal_a::Live<'_>>";
        let export = |leaf: &str| Export {
            name: format!("rehal::{leaf}"),
            origin: "rehal_a".into(),
            leaf: leaf.into(),
        };
        let exports = [export("Plan"), export("Result")];
        let unnamed: Vec<_> = mentioned(line).filter(|path| !is_exported(path, &exports)).collect();
        assert_eq!(unnamed, ["rehal_b::Plan", "rehal_a::Live"]);
    }

    #[test]
    fn changes_name_lines() {
        assert_eq!(changes("a\nb\n", "b\nc\n"), ["- a", "+ c"]);
        assert!(changes("a\n", "a\n").is_empty());
    }
}
