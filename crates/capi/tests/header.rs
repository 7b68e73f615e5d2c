//! The header declares what the library defines: it is compared with what cbindgen reads from the sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rehal::StatusCode;

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn sources() -> Vec<PathBuf> {
    let mut sources: Vec<_> = fs::read_dir(at("src")).unwrap().map(|entry| entry.unwrap().path()).collect();
    sources.sort();
    sources
}

/// The header that cbindgen generates.
fn generated() -> String {
    let config = cbindgen::Config {
        language: cbindgen::Language::C,
        documentation: false,
        no_includes: true,
        usize_is_size_t: true,
        ..cbindgen::Config::default()
    };
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in sources() {
        builder = builder.with_src(source);
    }
    let mut header = Vec::new();
    builder.generate().unwrap().write(&mut header);
    String::from_utf8(header).unwrap()
}

/// The declarations of a header, each without comments and needless spaces.
fn declarations(header: &str) -> BTreeSet<String> {
    let mut text = String::new();
    let mut rest = header;
    while let Some((before, after)) = rest.split_once("/*") {
        text.push_str(before);
        rest = after.split_once("*/").unwrap().1;
    }
    text.push_str(rest);
    let mut found = BTreeSet::new();
    let mut code = String::new();
    for line in text.lines() {
        match line.trim_start().strip_prefix("#define REHAL_") {
            Some(constant) => {
                if let Some((name, value)) = constant.split_once(' ') {
                    found.insert(format!("{name} = {}", number(value.trim())));
                }
            }
            None if line.trim_start().starts_with('#') => {}
            None => code.extend([line, "\n"]),
        }
    }
    for declaration in split(&code) {
        // Those of handles are in macros, which cbindgen does not see.
        let words: Vec<_> = declaration.trim_end_matches(';').split(' ').collect();
        let is_opaque = matches!(words[..], ["typedef", name, same] if name == same);
        if !is_opaque && !declaration.starts_with("enum{") {
            found.insert(declaration);
        }
    }
    found
}

/// The value of a constant, in one notation.
fn number(value: &str) -> String {
    match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap().to_string(),
        None => value.to_owned(),
    }
}

/// Splits code into declarations, without inline functions and the linkage of C++.
fn split(code: &str) -> Vec<String> {
    let code = code.replace("extern \"C\" {", "");
    let (mut all, mut one, mut depth) = (Vec::new(), String::new(), 0);
    for part in code.split_inclusive([';', '{', '}']) {
        one.push_str(part);
        depth += part.matches('{').count();
        depth = depth.saturating_sub(part.matches('}').count());
        if depth == 0 && part.ends_with('}') && one.contains("static inline") {
            one.clear();
        } else if depth == 0 && part.ends_with(';') {
            all.push(tight(&std::mem::take(&mut one)));
        }
    }
    all
}

fn tight(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let mut text = words.join(" ");
    for mark in ["*", "(", ")", "{", "}", ",", ";", "["] {
        text = text.replace(&format!(" {mark}"), mark).replace(&format!("{mark} "), mark);
    }
    // cbindgen names the parameters of functions without any.
    text.replace("struct rehal_", "rehal_").trim_start_matches('}').to_owned()
}

#[test]
fn the_header_declares_what_the_library_defines() {
    let header = declarations(&fs::read_to_string(at("include/rehal.h")).unwrap());
    let library = declarations(&generated());
    assert!(library.len() > 120, "{} declarations", library.len());
    let missing: Vec<_> = library.difference(&header).collect();
    let extra: Vec<_> = header.difference(&library).collect();
    assert!(missing.is_empty() && extra.is_empty(), "missing in the header: {missing:#?}\nextra: {extra:#?}");
}

#[test]
fn every_handle_is_declared_and_freed() {
    let header = fs::read_to_string(at("include/rehal.h")).unwrap();
    let mut handles = BTreeSet::new();
    for source in sources() {
        let text = fs::read_to_string(source).unwrap();
        for call in text.split("\nhandle!(").skip(1) {
            handles.insert(call.split(',').next().unwrap().to_owned());
        }
    }
    assert_eq!(handles.len(), 21, "{handles:?}");
    for handle in handles {
        assert!(header.contains(&format!("typedef struct {handle} {handle};")), "{handle}");
        let free = handle.trim_end_matches("_t");
        assert!(header.contains(&format!("void {free}_free({handle}* ")), "{handle}");
    }
}

/// A panic must not reach C: each function runs its body in one of two places that catch it.
#[test]
fn every_function_catches_panics() {
    let mut count = 0;
    for source in sources() {
        let text = fs::read_to_string(source).unwrap();
        for function in text.split("#[unsafe(no_mangle)]\n").skip(1) {
            let (declaration, body) = function.split_once(" {\n").unwrap();
            let name = declaration.split_once(" fn ").unwrap().1.split('(').next().unwrap();
            let mut lines = body.lines().map(str::trim_start);
            let first = lines.find(|line| !line.starts_with("//")).unwrap();
            let catches = first.starts_with("guard(") || first.starts_with("quietly(");
            // These read memory only, or make an error.
            let cannot = name.starts_with("rehal_error_") || name == "rehal_version";
            assert!(catches || cannot, "{name}: {first}");
            count += 1;
        }
    }
    assert!(count > 100, "{count} functions");
}

#[test]
fn status_codes_have_their_names() {
    let header = fs::read_to_string(at("include/rehal.h")).unwrap();
    let mut count = 0;
    for line in header.lines().filter_map(|line| line.trim().strip_prefix("REHAL_STATUS_")) {
        let Some((name, code)) = line.trim_end_matches(',').split_once(" = ") else { continue };
        let code: u32 = code.parse().unwrap();
        assert_eq!(StatusCode::from_u32(code).unwrap().name(), name);
        count += 1;
    }
    assert_eq!(count, 19);
}
