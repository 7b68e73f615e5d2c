//! HSACO: ELF files with machine code for AMD GPUs, which describe their kernels in a note.
//!
//! Source: LLVM's `AMDGPUUsage`, "Code Object V3 Metadata" and later versions. Older versions describe
//! kernels in YAML, and are refused.

use std::collections::HashMap;

use object::elf::EM_AMDGPU;
use rehal_base::{Fault, FormatError};

use crate::elf::{self, Elf};
use crate::message_pack::Reader;
use crate::target;
use crate::{Function, MAX_FUNCTIONS, MAX_NAME_BYTES, MAX_PARAMETERS, Parameter, ParameterKind, Registers};

const FORMAT: &str = "HSACO";
/// `NT_AMDGPU_METADATA`, in MessagePack.
const METADATA: (&[u8], u32) = (b"AMDGPU\0", 32);
/// `NT_AMD_HSA_METADATA`, in YAML.
const OLD_METADATA: (&[u8], u32) = (b"AMD\0", 10);

/// An image.
pub(crate) struct Hsaco {
    pub target: Option<String>,
    pub kernels: Vec<Kernel>,
}

/// A kernel of an image.
pub(crate) struct Kernel {
    /// The symbol of its descriptor, such as `add.kd`.
    pub symbol: String,
    pub function: Function,
}

/// Reads an image that begins at `origin` of a file.
pub(crate) fn read(bytes: &[u8], origin: usize) -> Result<Hsaco, FormatError> {
    let file = elf::Reader { bytes, origin: origin as u64 };
    let elf = Elf::read(file, EM_AMDGPU)?;
    let Some(note) = elf.note(METADATA.0, METADATA.1)? else {
        if let Some(old) = elf.note(OLD_METADATA.0, OLD_METADATA.1)? {
            return Err(file.unsupported(old.at, "metadata", "code objects from version 3", "version 2"));
        }
        return Err(file.corrupt(0, "NT_AMDGPU_METADATA", "a note that describes the kernels", "none"));
    };
    let mut reader = Reader::new(FORMAT, note.bytes, file.origin + note.at);
    let (mut stated, mut kernels) = (None, Vec::new());
    reader.map("metadata", |reader, key| match key {
        b"amdhsa.target" => {
            // Architecture, vendor, system, environment, and the target, which may have a '-'.
            stated = reader.text("amdhsa.target")?.splitn(5, '-').nth(4).map(str::to_owned);
            Ok(())
        }
        b"amdhsa.kernels" => reader.array("amdhsa.kernels", |reader| {
            if kernels.len() == MAX_FUNCTIONS {
                let expected = format!("at most {MAX_FUNCTIONS}");
                return Err(reader.error(Fault::Unsupported, "amdhsa.kernels", expected, "more"));
            }
            kernels.push((reader.at(), kernel(reader)?));
            Ok(())
        }),
        _ => reader.skip("metadata"),
    })?;
    let mut names = HashMap::new();
    for (at, kernel) in &kernels {
        if names.insert(&kernel.function.name, ()).is_some() {
            let found = format!("a second '{}'", kernel.function.name);
            return Err(FormatError::new(FORMAT, Fault::Corrupt, *at, ".name", "a name of its own", found));
        }
    }
    let target = target::amd(elf.flags(), elf.abi_version()).or(stated);
    Ok(Hsaco { target, kernels: kernels.into_iter().map(|(_, kernel)| kernel).collect() })
}

fn kernel(reader: &mut Reader<'_>) -> Result<Kernel, FormatError> {
    let at = reader.at();
    let mut function = Function::default();
    let (mut symbol, mut registers) = (None, Registers::default());
    reader.map("amdhsa.kernels", |reader, key| {
        match key {
            b".name" => function.name = name(reader, ".name")?,
            b".symbol" => symbol = Some(name(reader, ".symbol")?),
            b".args" => {
                let mut parameters = Vec::new();
                reader.array(".args", |reader| {
                    if parameters.len() == MAX_PARAMETERS {
                        let expected = format!("at most {MAX_PARAMETERS}");
                        return Err(reader.error(Fault::Unsupported, ".args", expected, "more"));
                    }
                    parameters.push(parameter(reader)?);
                    Ok(())
                })?;
                function.parameters = Some(parameters.into());
            }
            b".group_segment_fixed_size" => {
                function.static_memory_bytes = Some(reader.u32(".group_segment_fixed_size")?);
            }
            b".reqd_workgroup_size" => function.workgroup_size = Some(workgroup_size(reader)?),
            b".vgpr_count" => registers.vector = reader.u32(".vgpr_count")?,
            b".sgpr_count" => registers.scalar = reader.u32(".sgpr_count")?,
            b".agpr_count" => registers.accumulation = reader.u32(".agpr_count")?,
            _ => reader.skip("amdhsa.kernels")?,
        }
        Ok(())
    })?;
    if function.name.is_empty() {
        let expected = "the name of a kernel";
        return Err(FormatError::new(FORMAT, Fault::Corrupt, at, ".name", expected, "none"));
    }
    function.registers = (registers != Registers::default()).then_some(registers);
    function.derive_from_parameters();
    Ok(Kernel { symbol: symbol.unwrap_or_else(|| format!("{}.kd", function.name)), function })
}

fn name(reader: &mut Reader<'_>, field: &'static str) -> Result<String, FormatError> {
    let name = reader.text(field)?;
    if name.len() > MAX_NAME_BYTES {
        let expected = format!("at most {MAX_NAME_BYTES} bytes");
        return Err(reader.error(Fault::Unsupported, field, expected, format!("{} bytes", name.len())));
    }
    Ok(name.to_owned())
}

fn workgroup_size(reader: &mut Reader<'_>) -> Result<[u32; 3], FormatError> {
    let (mut sizes, mut count) = ([1; 3], 0);
    reader.array(".reqd_workgroup_size", |reader| {
        let size = reader.u32(".reqd_workgroup_size")?;
        if let Some(slot) = sizes.get_mut(count) {
            *slot = size;
        }
        count += 1;
        Ok(())
    })?;
    if count == 3 && !sizes.contains(&0) {
        return Ok(sizes);
    }
    let found = format!("{count} numbers: {sizes:?}");
    Err(reader.error(Fault::Corrupt, ".reqd_workgroup_size", "three numbers from 1", found))
}

fn parameter(reader: &mut Reader<'_>) -> Result<Parameter, FormatError> {
    let (mut offset, mut size, mut kind, mut access) = (0, 0, "", "");
    reader.map(".args", |reader, key| {
        match key {
            b".offset" => offset = reader.u32(".offset")?,
            b".size" => size = reader.u32(".size")?,
            b".value_kind" => kind = reader.text(".value_kind")?,
            // What the compiler found is more than what the program declares.
            b".actual_access" => access = reader.text(".actual_access")?,
            b".access" if access.is_empty() => access = reader.text(".access")?,
            _ => reader.skip(".args")?,
        }
        Ok(())
    })?;
    let kind = match kind {
        "global_buffer" if access == "read_only" => ParameterKind::ReadOnlyBuffer,
        "global_buffer" => ParameterKind::Buffer,
        "by_value" => ParameterKind::Value,
        hidden if hidden.starts_with("hidden_") => ParameterKind::Hidden(hidden.to_owned()),
        other => ParameterKind::Other(other.to_owned()),
    };
    Ok(Parameter { kind, offset, size })
}
