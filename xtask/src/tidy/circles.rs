//! Circles of imports: groups of files of a crate that need each other, through `use` and through paths that
//! begin with `crate` or `super`. No file of a circle can be understood, tested or moved without the others.
//!
//! A re-export leads to where the item comes from, so that a page that lists its modules does not join a
//! circle. Neither does the root of a crate.

use super::product::Product;
use std::collections::{BTreeMap, BTreeSet};

/// The modules of a crate, by path without `crate::`.
struct Modules {
    /// The code of each, without comments.
    texts: BTreeMap<String, String>,
    /// Of each module, where the names come from that it exports again.
    exports: BTreeMap<String, BTreeMap<String, String>>,
}

/// The circles among the files of one crate, as paths of modules.
pub fn circles<'p>(files: impl Iterator<Item = &'p Product>) -> Vec<BTreeSet<String>> {
    let texts = files.map(|file| {
        let code = file.text.lines().map(|line| line.split("//").next().unwrap_or_default());
        (module_of(&file.path), code.collect::<Vec<_>>().join("\n"))
    });
    let texts = texts.collect();
    let needs = Modules { texts, exports: BTreeMap::new() }.needs();
    let mut circles = Vec::new();
    let reached: BTreeMap<_, _> = needs.keys().map(|module| (module, reach(&needs, module))).collect();
    for (module, others) in &reached {
        let meets = |other: &&String| reached.get(other).is_some_and(|it| it.contains(*module));
        let circle: BTreeSet<_> = others.iter().filter(meets).cloned().collect();
        if circle.len() > 1 && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

/// The modules that one needs, and those that they need.
fn reach(needs: &BTreeMap<String, BTreeSet<String>>, module: &str) -> BTreeSet<String> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![module]);
    while let Some(at) = next.pop() {
        for needed in needs.get(at).into_iter().flatten() {
            if reached.insert(needed.clone()) {
                next.push(needed);
            }
        }
    }
    reached
}

fn module_of(path: &str) -> String {
    let path = path.split_once("/src/").map_or(path, |(_, path)| path).trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if ["lib", "main", "mod"].contains(&path) { String::new() } else { path.replace('/', "::") }
}

impl Modules {
    /// The modules that each module needs.
    fn needs(mut self) -> BTreeMap<String, BTreeSet<String>> {
        let mut needed = Vec::new();
        for (module, text) in &self.texts {
            for statement in text.split(';') {
                let import = statement.rsplit_once("use ").and_then(|(body, tree)| {
                    let visibility = body.rsplit('\n').next()?.trim();
                    let is_import = visibility.is_empty() || visibility.starts_with("pub");
                    is_import.then_some((body, tree, !visibility.is_empty()))
                });
                let (body, tree, is_export) = import.unwrap_or((statement, "", false));
                let mut paths = Vec::new();
                expand("", tree, &mut paths);
                let words = body.split(|sign: char| !(sign.is_alphanumeric() || "_:".contains(sign)));
                let used = words.filter(|it| it.starts_with("crate::") || it.starts_with("super::"));
                needed.extend(used.map(|it| (module.clone(), it.trim_end_matches(':').to_owned())));
                if !is_export {
                    needed.extend(paths.into_iter().map(|path| (module.clone(), path)));
                    continue;
                }
                for path in paths {
                    let origin = self.resolve(module, &path).filter(|it| it != module);
                    let name = path.rsplit("::").next().unwrap_or_default().to_owned();
                    self.exports.entry(module.clone()).or_default().extend(origin.map(|it| (name, it)));
                }
            }
        }
        let mut needs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (module, path) in needed {
            let origin = self.resolve(&module, &path).map(|it| self.origin(it, &path));
            let origin = origin.filter(|it| *it != module && !it.is_empty());
            needs.entry(module).or_default().extend(origin);
        }
        needs
    }

    /// The module that a path from another one names, or that has the item that it names.
    fn resolve(&self, module: &str, path: &str) -> Option<String> {
        let mut parts = path.split("::").peekable();
        let mut at: Vec<_> = module.split("::").filter(|it| !it.is_empty()).collect();
        match *parts.peek()? {
            "crate" => at.clear(),
            "self" => {}
            "super" => {
                at.pop();
            }
            child => {
                let child = [&at[..], &[child]].concat().join("::");
                return self.texts.contains_key(&child).then(|| self.innermost(child, parts.skip(1)))?;
            }
        }
        parts.next();
        while parts.next_if_eq(&"super").is_some() {
            at.pop();
        }
        self.innermost(at.join("::"), parts)
    }

    /// The innermost module on a path that begins at `at`.
    fn innermost<'a>(&self, mut at: String, path: impl Iterator<Item = &'a str>) -> Option<String> {
        let mut found = self.texts.contains_key(&at).then(|| at.clone());
        for part in path {
            at = if at.is_empty() { part.to_owned() } else { format!("{at}::{part}") };
            if self.texts.contains_key(&at) {
                found = Some(at.clone());
            }
        }
        found
    }

    /// Where the last name of a path comes from, if the module only exports it again.
    fn origin(&self, mut module: String, path: &str) -> String {
        let name = path.rsplit("::").next().unwrap_or_default();
        let mut seen = BTreeSet::new();
        while let Some(next) = self.exports.get(&module).and_then(|it| it.get(name)) {
            if !seen.insert(module.clone()) {
                break;
            }
            module.clone_from(next);
        }
        module
    }
}

/// The paths of a tree of imports.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let mut depth = 0;
    let parts = tree.split(|sign| {
        depth += i32::from(sign == '{') - i32::from(sign == '}');
        sign == ',' && depth == 0
    });
    for part in parts.map(str::trim).filter(|part| !part.is_empty()) {
        match part.strip_suffix('}').and_then(|it| it.split_once('{')) {
            Some((head, inner)) => expand(&format!("{prefix}{head}"), inner, paths),
            None => paths.push(format!("{prefix}{}", part.split(" as ").next().unwrap_or_default())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let product = |(path, text): &(&str, &str)| Product {
            path: format!("crates/x/src/{path}"),
            name: "x".to_owned(),
            text: (*text).to_owned(),
        };
        let files: Vec<_> = files.iter().map(product).collect();
        circles(files.iter()).into_iter().map(|it| it.into_iter().collect()).collect()
    }

    #[test]
    fn files_that_need_each_other_are_circles() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use a::A;\nuse crate::c::C;"),
            ("a/mod.rs", "pub mod inner;\nuse crate::{b::{self, B}, c};\n"),
            ("a/inner.rs", "fn f() { super::super::c::f() } // crate::b"),
            ("b.rs", "fn f() -> super::a::A {}"),
            ("c.rs", "use std::fs;\n// use crate::a;\nfn f() { crate::LIMIT }"),
            ("d.rs", "use super::e;"),
            ("e.rs", "use super::f::g as it;"),
            ("f.rs", "use super::d::{\n    x,\n};"),
        ];
        assert_eq!(circles_of(&files), [vec!["a", "b"], vec!["d", "e", "f"]]);
    }

    #[test]
    fn re_exports_lead_to_the_origin() {
        // The page `a` needs nothing itself; what `b` takes from it is of `a::c`.
        let files = [("a.rs", "mod b;\nmod c;\npub use c::C;"), ("a/b.rs", "use super::C;"), ("a/c.rs", "")];
        assert!(circles_of(&files).is_empty());
        let back = [files[0], files[1], ("a/c.rs", "use super::b::B;")];
        assert_eq!(circles_of(&back), [["a::b", "a::c"]]);
    }
}
