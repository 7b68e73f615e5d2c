//! The metadata of a module: `--output=metadata`.

use std::io::Write;

use rehal_base::flatbuffer::Table;

use super::aliases::Aliases;
use super::convention::write_types;
use super::{Error, shown};
use crate::ModuleFile;
use crate::module_file::schema::id;
use crate::module_file::{Attribute, Features, Signature};

/// A separator line of the release.
const RULE: &str = "//===--------------------------------------------------------------------------------------------------------------===//";
/// Bytes that the release counts per global reference.
const REF_BYTES: u64 = 16;
/// Limit on the rodata text shown, in bytes.
const SHOWN_BYTES: usize = 32;
/// Minimum width of the column of a function's requirements, in characters.
const REQUIREMENTS_WIDTH: usize = 12;

/// Prints a module, section by section. Accepts a module from [`ModuleFile::inspect`].
pub fn metadata(file: &ModuleFile, out: &mut impl Write) -> Result<(), Error> {
    let root = file.root();
    let version = file.version() as i32;
    section(out, &format!("@{} : version {version}", shown(file.name())))?;
    writeln!(out)?;
    interface(file, out)?;
    section(out, "Sections")?;
    writeln!(out)?;
    sections(file, out)?;
    section(out, &format!("Bytecode : version {version}"))?;
    writeln!(out)?;
    if root.field(id::MODULE_FUNCTIONS).is_some() {
        functions(file, out)?;
    }
    writeln!(out)?;
    if let Some(database) = file.debug_database() {
        section(out, "Debug Information")?;
        writeln!(out, "// NOTE: debug databases are large and should be stripped in deployed artifacts.\n")?;
        writeln!(out, "Locations: {}\n", database.location_count())?;
    }
    Ok(())
}

fn section(out: &mut impl Write, title: &str) -> Result<(), Error> {
    Ok(writeln!(out, "{RULE}\n// {title}\n{RULE}")?)
}

/// The module's dependencies, imports and exports.
fn interface(file: &ModuleFile, out: &mut impl Write) -> Result<(), Error> {
    let root = file.root();
    let has = |id| root.field(id).is_some();
    if has(id::MODULE_REQUIREMENTS) {
        writeln!(out, "Requirements: {}\n", features(file.requirements()).0)?;
    }
    if has(id::MODULE_ATTRS) {
        writeln!(out, "Attributes:")?;
        attributes(out, file.attributes(), 2)?;
        writeln!(out)?;
    }
    if has(id::MODULE_TYPES) {
        writeln!(out, "Required Types:")?;
        for (index, name) in file.types().enumerate() {
            writeln!(out, "  [{index:3}] {}", shown(name))?;
        }
        writeln!(out)?;
    }
    if has(id::MODULE_DEPENDENCIES) {
        writeln!(out, "Module Dependencies:")?;
        for dependency in file.dependencies() {
            let needed = if dependency.optional { "optional" } else { "required" };
            let version = dependency.minimum_version as i32;
            writeln!(out, "  {}, version >= {version}, {needed}", shown(dependency.name))?;
        }
        writeln!(out)?;
    }
    if has(id::MODULE_IMPORTS) {
        writeln!(out, "Imported Functions:")?;
        for (index, import) in file.imports().enumerate() {
            let mark = if import.optional { "?" } else { "" };
            write!(out, "  [{index:3}] {mark}{}", shown(import.full_name))?;
            signature(out, Some(import.signature), 8)?;
        }
        writeln!(out)?;
    }
    if has(id::MODULE_EXPORTS) {
        writeln!(out, "Exported Functions:")?;
        for (index, export) in file.exports().enumerate() {
            write!(out, "  [{index:3}] {}", shown(export.local_name))?;
            signature(out, file.signature(export.function), 8)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The rest of a function's line, and its attributes below.
fn signature(out: &mut impl Write, signature: Option<Signature<'_>>, indent: usize) -> Result<(), Error> {
    if let Some(convention) = signature.and_then(|signature| signature.calling_convention) {
        write_types(out, shown(convention))?;
    }
    writeln!(out)?;
    match signature {
        Some(signature) => attributes(out, signature.attributes(), indent),
        None => Ok(()),
    }
}

fn attributes<'a>(
    out: &mut impl Write,
    attributes: impl Iterator<Item = Attribute<'a>>,
    indent: usize,
) -> Result<(), Error> {
    for Attribute { key, value } in attributes {
        writeln!(out, "{}{}: {}", " ".repeat(indent), shown(key), shown(value))?;
    }
    Ok(())
}

/// Sizes of the module's parts.
fn sections(file: &ModuleFile, out: &mut impl Write) -> Result<(), Error> {
    let root = file.root();
    if let Some(state) = root.table(id::MODULE_STATE) {
        let (bytes, refs) = (state.i32(id::STATE_GLOBAL_BYTES), state.i32(id::STATE_GLOBAL_REFS));
        let total = (i64::from(bytes) as u64).wrapping_add(REF_BYTES.wrapping_mul(i64::from(refs) as u64));
        writeln!(out, "Module State:\n  {bytes} bytes, {refs} refs, ~{total} bytes total\n")?;
    }
    writeln!(out, "FlatBuffer: {} bytes", file.flatbuffer().len())?;
    if root.field(id::MODULE_BYTECODE).is_some() {
        writeln!(out, "  Bytecode: {} bytes", file.bytecode().len())?;
    }
    let mut external_bytes = 0u64;
    for (index, segment) in root.tables(id::MODULE_RODATA).iter().enumerate() {
        external_bytes = external_bytes.wrapping_add(rodata(out, index, segment)?);
    }
    for (index, segment) in root.tables(id::MODULE_RWDATA).iter().enumerate() {
        writeln!(out, "  .rwdata[{index:3}] {} bytes", segment.i32(id::RWDATA_BYTE_SIZE))?;
    }
    writeln!(out)?;
    if external_bytes > 0 {
        writeln!(out, "External .rodata: ~{external_bytes} bytes\n")?;
    }
    Ok(())
}

/// Writes a line about a segment; returns its bytes outside the flatbuffer.
fn rodata(out: &mut impl Write, index: usize, segment: Table<'_>) -> Result<u64, Error> {
    let tag = if segment.u8(id::RODATA_COMPRESSION_TAG) == 1 { "uncompressed " } else { "" };
    write!(out, "  .rodata[{index:3}] {tag}")?;
    let Some(data) = segment.vector(id::RODATA_EMBEDDED) else {
        let (offset, length) =
            (segment.u64(id::RODATA_EXTERNAL_OFFSET), segment.u64(id::RODATA_EXTERNAL_LENGTH));
        let end = offset.wrapping_add(length);
        writeln!(out, "external {length:8} bytes (offset {offset} / {offset:X}h to {end:X}h)")?;
        return Ok(length);
    };
    write!(out, "embedded {:8} bytes", data.len())?;
    if let Some(text) = text_of(data.bytes()) {
        out.write_all(b" `")?;
        out.write_all(&text[..text.len().min(SHOWN_BYTES)])?;
        out.write_all(if text.len() >= SHOWN_BYTES { b"`..." } else { b"`" })?;
    }
    writeln!(out)?;
    Ok(0)
}

/// The bytes up to the first NUL, if all of them are printable.
fn text_of(bytes: &[u8]) -> Option<&[u8]> {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    text.iter().all(|byte| (b' '..=b'~').contains(byte)).then_some(text)
}

fn functions(file: &ModuleFile, out: &mut impl Write) -> Result<(), Error> {
    writeln!(out, "  # | Offset   |   Length | Blocks | i32 # | ref # | Requirements | Aliases")?;
    writeln!(
        out,
        "----+----------+----------+--------+-------+-------+--------------+-----------------------------------------------------"
    )?;
    let Some(descriptors) = file.root().vector(id::MODULE_FUNCTIONS) else { return Ok(()) };
    let aliases = Aliases::from_file(file);
    for ordinal in 0..descriptors.len() {
        let raw = crate::module_file::RawDescriptor::read(descriptors.element(ordinal).unwrap_or_default());
        write!(
            out,
            "{ordinal:3} | {:08X} | {:8} | {:6} | {:5} | {:5} | ",
            raw.bytecode_offset,
            raw.bytecode_length,
            raw.block_count,
            raw.i32_register_count,
            raw.ref_register_count
        )?;
        let (text, width) = features(Features(raw.requirements));
        write!(out, "{text}{} | ", " ".repeat(REQUIREMENTS_WIDTH.saturating_sub(width)))?;
        let mut separator = "";
        for name in aliases.names(ordinal) {
            write!(out, "{separator}{}", shown(name))?;
            separator = ", ";
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Features as the release prints them: it has names for two. Its character count excludes the bars.
fn features(features: Features) -> (String, usize) {
    let mut names: Vec<String> = Vec::new();
    for (bit, name) in [(Features::EXT_F32, "EXT_F32"), (Features::EXT_F64, "EXT_F64")] {
        if features.contains(bit) {
            names.push(name.into());
        }
    }
    let left = features.without(Features::EXT_F32 | Features::EXT_F64);
    if left.0 != 0 {
        names.push(format!("{:08X}", left.0));
    }
    let width = names.iter().map(String::len).sum();
    (names.join(" | "), width)
}
