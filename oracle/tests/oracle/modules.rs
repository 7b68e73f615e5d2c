//! A dump of a module matches the reference's byte for byte, in every mode. If the reference cannot
//! disassemble an instruction, everything around it is compared.
//!
//! The block after a `vm.switch.ref`, which the reference decodes incorrectly, is compared with a golden
//! text. `vm.cast.ui64.f32`, which the reference cannot disassemble, is compared as `vm.cast.si64.f32`, in
//! the same program assembled with that.

use crate::dumps::same_bytes;
use crate::{Outcome, Pair, ensure};
use libtest_mimic::{Failed, Trial};
use oracle::captures::{corpus, repository};
use oracle::reference::Reference;
use oracle::tool::{self, Ended};
use std::fs;
use std::path::{Path, PathBuf};

const MODES: [(&str, &[&str]); 6] = [
    ("all", &[]),
    ("metadata", &["--output=metadata"]),
    ("disassembly", &["--output=disassembly", "--bytecode_offsets"]),
    ("binary", &["--output=flatbuffer-binary"]),
    ("json", &["--output=flatbuffer-json"]),
    ("pretty", &["--output=flatbuffer-json", "--pretty"]),
];

/// The release's disassembler omits the type operand of this instruction, and decodes it and the rest of the
/// block as other instructions.
const SWITCH_REF: &str = " = vm.switch.ref ";

/// Every module with that instruction, and our disassembly from it to the end of its block: the only lines
/// that are not compared with the reference's.
const SWITCHES: [(&str, &[&str]); 1] = [(
    "chooser.vmfb",
    &[
        "  %r1 = vm.switch.ref %i0[%r0, %r1] else %R2",
        "  %i4:5 = vm.buffer.length %r1",
        "  vm.discard.refs %r1",
        "  %i0 = vm.cmp.ne.i64 %i4:5, %i2:3",
        "  vm.cond_br %i0, ^bb2(), ^bb1()",
    ],
)];

/// An instruction that the release's disassembler lacks, though its assembler and interpreter support it, and
/// a supported one with the same operands.
const UNKNOWN: (&str, &str) = ("vm.cast.ui64.f32", "vm.cast.si64.f32");

pub fn add(trials: &mut Vec<Trial>) {
    for (set, directory) in sets() {
        for path in modules(&directory) {
            let name = path.strip_prefix(&directory).unwrap_or(&path).display().to_string();
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

/// The modules in a directory and its subdirectories.
fn modules(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
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

/// Compares the dumps of a module in every mode. Its source is the VM assembly file next to it, if any.
pub fn same_dumps(module: &Path) -> Outcome {
    same_dumps_of(module, &module.with_extension("vmasm"))
}

/// Compares the dumps of a module compiled from `source` in every mode.
pub fn same_dumps_of(module: &Path, source: &Path) -> Outcome {
    let pair = Pair::find("iree-dump-module")?;
    for (mode, flags) in MODES {
        let dump = |program: &Path, module: &Path| -> Result<Ended, Failed> {
            let module = module.display().to_string();
            let arguments: Vec<&str> = flags.iter().copied().chain([module.as_str()]).collect();
            Ok(tool::run(program, &arguments, &repository())?)
        };
        let (ours, theirs) = (dump(&pair.ours, module)?, dump(&pair.theirs, module)?);
        ensure(ours.succeeded(), || format!("{mode}: ours ends with {}", ours.summary()))?;
        if String::from_utf8_lossy(&theirs.stderr).contains("unhandled ext opcode") {
            let scratch = tempfile::tempdir()?;
            let known = with_known_instructions(source, scratch.path())?;
            let theirs = dump(&pair.theirs, &known)?;
            ensure(theirs.succeeded(), || format!("{mode}: theirs ends with {}", theirs.summary()))?;
            let ours = String::from_utf8_lossy(&ours.stdout).replace(UNKNOWN.0, UNKNOWN.1);
            same_bytes(ours.as_bytes(), &theirs.stdout)?;
            continue;
        }
        ensure(theirs.succeeded(), || format!("{mode}: theirs ends with {}", theirs.summary()))?;
        let name = module.file_name().unwrap_or_default();
        match SWITCHES.iter().find(|(listed, _)| name == *listed) {
            Some((_, stretch)) => same_but_for_switches(&ours.stdout, &theirs.stdout, stretch)?,
            None => same_bytes(&ours.stdout, &theirs.stdout)?,
        }
    }
    Ok(())
}

/// The same program with a supported instruction in place of the unsupported one; both have the same operands
/// and length.
fn with_known_instructions(source: &Path, directory: &Path) -> Result<PathBuf, Failed> {
    let text = fs::read_to_string(source).map_err(|error| format!("{}: {error}", source.display()))?;
    ensure(text.contains(UNKNOWN.0), || format!("{} has no {}", source.display(), UNKNOWN.0))?;
    let (program, module) = (directory.join("known.vmasm"), directory.join("known.vmfb"));
    fs::write(&program, text.replace(UNKNOWN.0, UNKNOWN.1))?;
    let assembler = Reference::find(&repository())?.tool("iree-as-module");
    let arguments = [format!("--output={}", module.display()), program.display().to_string()];
    let assembled = tool::run(&assembler, &arguments, directory)?;
    ensure(assembled.succeeded(), || format!("iree-as-module ends with {}", assembled.summary()))?;
    Ok(module)
}

/// Compares two dumps line by line, except for the lines from each `vm.switch.ref` to the end of its block,
/// which must be `stretch` in ours.
fn same_but_for_switches(ours: &[u8], theirs: &[u8], stretch: &[&str]) -> Outcome {
    let (Ok(ours_text), Ok(theirs_text)) = (str::from_utf8(ours), str::from_utf8(theirs)) else {
        return same_bytes(ours, theirs);
    };
    let (mut ours, mut theirs) = (ours_text.lines(), theirs_text.lines().peekable());
    while let Some(line) = ours.next() {
        if theirs.next_if_eq(&line).is_some() {
            continue;
        }
        let differs = || format!("ours:   {line}\ntheirs: {}", theirs.clone().next().unwrap_or("(end)"));
        ensure(line.contains(SWITCH_REF), differs)?;
        let rest = ours.by_ref().take(stretch.len() - 1);
        let block: Vec<&str> = std::iter::once(line).chain(rest).map(without_offset).collect();
        ensure(block == stretch, || format!("ours decodes the block as\n{}", block.join("\n")))?;
        while theirs.next_if(|line| !starts_block(without_offset(line))).is_some() {}
    }
    let rest = theirs.count();
    ensure(rest == 0, || format!("theirs has {rest} more lines"))
}

/// A line of a disassembly without the `[0000001D]` of `--bytecode_offsets`.
fn without_offset(line: &str) -> &str {
    match line.strip_prefix('[').and_then(|line| line.split_once(']')) {
        Some((offset, rest)) if offset.len() == 8 => rest,
        _ => line,
    }
}

fn starts_block(line: &str) -> bool {
    line.starts_with("^bb") || line == "}"
}
