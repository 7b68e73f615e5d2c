//! A module as text that `iree-as-module` assembles: `--output=disassembly`.

use std::io::Write;

use super::aliases::Aliases;
use super::convention::{halves, type_name};
use super::instruction::{InstructionText, source_name};
use super::{Error, shown};
use crate::instruction::Instruction;
use crate::module_file::Signature;
use crate::operation::Op;
use crate::{Module, ModuleFile};

/// Options of the disassembly.
#[derive(Clone, Copy, Debug, Default)]
pub struct AssemblyOptions<'a> {
    /// Only the function with this name or ordinal.
    pub function: Option<&'a str>,
    /// Prefix each instruction with its offset in the function.
    pub bytecode_offsets: bool,
}

/// Writes a module's types, imports, rodata and functions as assembly. Accepts a module from
/// [`ModuleFile::inspect`]: this function checks it.
pub fn assembly(file: &ModuleFile, options: AssemblyOptions<'_>, out: &mut impl Write) -> Result<(), Error> {
    // Instructions that the interpreter would reject have no text form.
    let checked = ModuleFile::read(file.memory().clone()).map_err(|error| Error::Module(error.into()))?;
    Module::bytecode(checked).map_err(Error::Module)?;
    writeln!(out, "vm.module @{} version {}", shown(file.name()), file.version())?;
    let directives = directives(file, out)?;
    if directives {
        writeln!(out)?;
    }
    let mut blank = directives;
    let aliases = Aliases::from_file(file);
    for ordinal in 0..file.function_count() {
        let name = function_name(file, &aliases, ordinal);
        if options.function.is_some_and(|wanted| !is_wanted(wanted, ordinal, &name)) {
            continue;
        }
        if !std::mem::replace(&mut blank, false) {
            writeln!(out)?;
        }
        for alias in aliases.names(ordinal) {
            match shown(alias) {
                local if local == name => writeln!(out, "vm.export @{local}")?,
                local => writeln!(out, "vm.export @{local} = @{name}")?,
            }
        }
        function(file, ordinal, &name, options, out)?;
    }
    Ok(())
}

/// Writes types, imports and rodata; returns whether there were any.
fn directives(file: &ModuleFile, out: &mut impl Write) -> Result<bool, Error> {
    for name in file.types() {
        writeln!(out, "vm.type {}", shown(name))?;
    }
    for import in file.imports() {
        let optional = if import.optional { "optional " } else { "" };
        let convention = import.signature.calling_convention.unwrap_or_default();
        writeln!(out, "vm.import {optional}@{} cconv \"{}\"", shown(import.full_name), shown(convention))?;
    }
    for (index, segment) in file.rodata_segments().enumerate() {
        write!(out, "vm.rodata[{index}] = ")?;
        hexadecimal(out, file.bytes().get(segment.range).unwrap_or(&[]))?;
        writeln!(out)?;
    }
    Ok(file.types().len() + file.imports().len() + file.rodata_count() > 0)
}

fn hexadecimal(out: &mut impl Write, bytes: &[u8]) -> Result<(), Error> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    const CHUNK_BYTES: usize = 512;
    let mut text = [0; 2 * CHUNK_BYTES];
    for chunk in bytes.chunks(CHUNK_BYTES) {
        for (pair, byte) in text.chunks_exact_mut(2).zip(chunk) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        out.write_all(&text[..2 * chunk.len()])?;
    }
    Ok(())
}

/// The name of the first export, else the source name, else a name made from the ordinal.
fn function_name(file: &ModuleFile, aliases: &Aliases<'_>, ordinal: usize) -> String {
    if let Some(name) = aliases.names(ordinal).next() {
        return shown(name).into();
    }
    source_name(file, ordinal).map_or_else(|| format!("fn{ordinal}"), String::from)
}

/// Ordinals use C syntax: decimal, octal after `0`, hexadecimal after `0x`.
fn is_wanted(wanted: &str, ordinal: usize, name: &str) -> bool {
    match parse_ordinal(wanted) {
        Some(number) => number == ordinal as u64,
        None => wanted == name,
    }
}

fn parse_ordinal(text: &str) -> Option<u64> {
    let digits = |text: &str, radix| u64::from_str_radix(text, radix).ok();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hexadecimal) => digits(hexadecimal, 16),
        None if text.len() > 1 && text.starts_with('0') => digits(&text[1..], 8),
        None => digits(text, 10),
    }
}

fn function(
    file: &ModuleFile,
    ordinal: usize,
    name: &str,
    options: AssemblyOptions<'_>,
    out: &mut impl Write,
) -> Result<(), Error> {
    write!(out, "vm.func @{name}")?;
    signature(file.signature(ordinal), out)?;
    writeln!(out, " {{")?;
    instructions(file, ordinal, options, out)?;
    Ok(writeln!(out, "}}")?)
}

fn instructions(
    file: &ModuleFile,
    ordinal: usize,
    options: AssemblyOptions<'_>,
    out: &mut impl Write,
) -> Result<(), Error> {
    let bytecode = file.function_bytecode(ordinal).unwrap_or(&[]);
    let mut blocks = Vec::new();
    let mut offset = 0;
    while offset < bytecode.len() {
        let instruction = Instruction::read(bytecode, offset).map_err(Error::Module)?;
        if instruction.operation.op == Op::Block {
            blocks.push(offset as u32);
        }
        offset = instruction.end;
    }
    let mut offset = 0;
    while offset < bytecode.len() {
        let instruction = Instruction::read(bytecode, offset).map_err(Error::Module)?;
        if options.bytecode_offsets {
            write!(out, "[{offset:08X}]")?;
        }
        let indent = if instruction.operation.op == Op::Block { "" } else { "  " };
        let text = InstructionText { file, blocks: Some(&blocks), instruction: &instruction };
        writeln!(out, "{indent}{text}")?;
        offset = instruction.end;
    }
    Ok(())
}

/// `(%i0: i32, %i2:3: i64, %r0: !vm.ref<?>) -> (i32)`.
fn signature(signature: Option<Signature<'_>>, out: &mut impl Write) -> Result<(), Error> {
    let convention = signature.and_then(|signature| signature.calling_convention).unwrap_or_default();
    let (arguments, results) = halves(shown(convention))?;
    let (mut i32_register, mut ref_register) = (0, 0);
    write!(out, "(")?;
    let mut separator = "";
    for kind in arguments.chars().filter(|kind| *kind != 'v') {
        let name = type_name(kind, convention)?;
        write!(out, "{separator}")?;
        separator = ", ";
        match kind {
            'i' | 'f' => {
                write!(out, "%i{i32_register}: {name}")?;
                i32_register += 1;
            }
            'I' | 'F' => {
                write!(out, "%i{i32_register}:{}: {name}", i32_register + 1)?;
                i32_register += 2;
            }
            _ => {
                write!(out, "%r{ref_register}: {name}")?;
                ref_register += 1;
            }
        }
    }
    write!(out, ") -> (")?;
    separator = "";
    for kind in results.chars().filter(|kind| *kind != 'v') {
        write!(out, "{separator}{}", type_name(kind, convention)?)?;
        separator = ", ";
    }
    Ok(write!(out, ")")?)
}
