//! A dump of a module is byte for byte what the reference prints, in every mode.

use crate::dumps::same_bytes;
use crate::{Outcome, Pair, ensure};
use libtest_mimic::Trial;
use oracle::captures::{corpus, repository};
use std::path::{Path, PathBuf};

const MODES: [(&str, &[&str]); 6] = [
    ("all", &[]),
    ("metadata", &["--output=metadata"]),
    ("disassembly", &["--output=disassembly", "--bytecode_offsets"]),
    ("binary", &["--output=flatbuffer-binary"]),
    ("json", &["--output=flatbuffer-json"]),
    ("pretty", &["--output=flatbuffer-json", "--pretty"]),
];

/// An instruction that the reference takes apart wrongly.
const SWITCH_REF: &[u8] = b" = vm.switch.ref ";

pub fn add(trials: &mut Vec<Trial>) {
    for (set, folder) in sets() {
        for path in modules(&folder) {
            let name = path.strip_prefix(&folder).unwrap_or(&path).display().to_string();
            trials.push(Trial::test(format!("dump_module::{set}/{name}"), move || same_dumps(&path)));
        }
    }
}

fn sets() -> Vec<(&'static str, PathBuf)> {
    let fixtures = repository().join("fixtures");
    let mut sets = vec![("fixtures", fixtures.join("modules")), ("vm", fixtures.join("vm"))];
    if let Some(corpus) = corpus() {
        sets.extend([("corpus", corpus.join("modules")), ("models", corpus.join("models"))]);
    }
    sets
}

/// The modules in a folder and the folders in it.
fn modules(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(modules(&path));
        } else if path.extension().is_some_and(|extension| extension == "vmfb") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Compares the dumps of a module in every mode.
pub fn same_dumps(module: &Path) -> Outcome {
    let pair = Pair::find("iree-dump-module")?;
    for (mode, flags) in MODES {
        let arguments: Vec<String> =
            flags.iter().copied().map(str::to_owned).chain([module.display().to_string()]).collect();
        let (ours, theirs) = pair.run(&arguments, &repository())?;
        let said = String::from_utf8_lossy(&theirs.stderr);
        if said.contains("unhandled ext opcode") {
            // Its disassembler lacks `cast.ui64.f32`, which its assembler and interpreter have.
            ensure(ours.succeeded() && ours.stdout.starts_with(&theirs.stdout), || {
                format!("{mode}: ours is not what theirs printed before it gave up")
            })?;
            continue;
        }
        if ours.stdout.windows(SWITCH_REF.len()).any(|text| text == SWITCH_REF) {
            // Its disassembler forgets the type in it, and takes it and what follows for something else.
            ensure(ours.succeeded(), || format!("{mode}: ours ends with {}", ours.summary()))?;
            continue;
        }
        ensure(ours.succeeded() && theirs.succeeded(), || {
            format!("{mode}: ours ends with {}\ntheirs with {}", ours.summary(), theirs.summary())
        })?;
        same_bytes(&ours.stdout, &theirs.stdout)?;
    }
    Ok(())
}
