use rehal_base::{Fault, FormatError, Range};

use super::schema::id;
use super::views::{RawDescriptor, external_range};
use super::{BytecodeVersion, FORMAT, Features, Location, ModuleFile};

/// Registers that instructions can address; the top bits of a register number are its kind.
const MAX_I32_REGISTERS: i16 = 0x7FFF;
const MAX_REF_REGISTERS: i16 = 0x3FFF;
/// Limit on the bytes of a module's globals, in addition to [`GLOBAL_BYTES_PER_FILE_BYTE`].
const MIN_GLOBAL_BYTES: usize = 1 << 20;
/// Each global is accessed by an instruction of at least 7 bytes, so real modules stay far below.
const GLOBAL_BYTES_PER_FILE_BYTE: usize = 16;
const GLOBAL_REF_BYTES: usize = 16;

/// Checks the contents of a module's tables, which are already well-formed flatbuffer tables.
pub fn check(file: &ModuleFile) -> Result<(), FormatError> {
    check_version(file)?;
    check_requirements(file, file.requirements(), "BytecodeModuleDef.requirements")?;
    check_names(file)?;
    check_functions(file)?;
    check_exports(file)?;
    check_rodata(file)?;
    check_state(file)?;
    check_debug_database(file)
}

/// An error about the value of `field`. The field's offset is unknown, so the error has the flatbuffer's.
fn error(
    file: &ModuleFile,
    fault: Fault,
    field: &'static str,
    expected: impl Into<String>,
    found: impl Into<String>,
) -> FormatError {
    FormatError::new(FORMAT, fault, file.flatbuffer_range().start as u64, field, expected, found)
}

fn check_version(file: &ModuleFile) -> Result<(), FormatError> {
    let version = file.bytecode_version();
    if version.is_supported() {
        return Ok(());
    }
    let supported = BytecodeVersion::SUPPORTED;
    let expected = format!("bytecode version {supported}");
    let field = "BytecodeModuleDef.bytecode_version";
    let found = format!("bytecode version {version}");
    let (found, advice) = match version.earlier_releases() {
        Some((releases, tools)) => (
            format!("{found}, which {releases} wrote"),
            format!("run the module with {tools}, or compile its program again with release 3.13.0"),
        ),
        None => (
            found,
            format!(
                "compile the module with a compiler whose bytecode version is {supported}, such as \
                 release 3.13.0"
            ),
        ),
    };
    Err(error(file, Fault::Unsupported, field, expected, found).advise(advice))
}

fn check_requirements(file: &ModuleFile, features: Features, field: &'static str) -> Result<(), FormatError> {
    if Features::SUPPORTED.contains(features) {
        return Ok(());
    }
    let lacking = features.without(Features::SUPPORTED);
    Err(error(file, Fault::Unsupported, field, Features::SUPPORTED.to_string(), lacking.to_string()))
}

fn check_names(file: &ModuleFile) -> Result<(), FormatError> {
    let named = |name: &str, field: &'static str, index: Option<usize>| {
        if !name.is_empty() {
            return Ok(());
        }
        let error = error(file, Fault::Corrupt, field, "a name", "none");
        Err(match index {
            Some(index) => error.in_record(index as u64),
            None => error,
        })
    };
    named(file.name(), "BytecodeModuleDef.name", None)?;
    for (index, name) in file.types().enumerate() {
        named(name, "TypeDef.full_name", Some(index))?;
    }
    for (index, dependency) in file.dependencies().enumerate() {
        named(dependency.name, "ModuleDependencyDef.name", Some(index))?;
    }
    for (index, import) in file.imports().enumerate() {
        named(import.full_name, "ImportFunctionDef.full_name", Some(index))?;
    }
    for (index, export) in file.exports().enumerate() {
        named(export.local_name, "ExportFunctionDef.local_name", Some(index))?;
    }
    Ok(())
}

fn check_exports(file: &ModuleFile) -> Result<(), FormatError> {
    let count = file.function_count();
    for (index, table) in file.root().tables(id::MODULE_EXPORTS).iter().enumerate() {
        let ordinal = table.i32(id::EXPORT_INTERNAL_ORDINAL);
        if usize::try_from(ordinal).is_ok_and(|ordinal| ordinal < count) {
            continue;
        }
        let field = "ExportFunctionDef.internal_ordinal";
        let expected = format!("one of the module's {count} functions");
        return Err(error(file, Fault::Corrupt, field, expected, ordinal.to_string()).in_record(index as u64));
    }
    Ok(())
}

fn check_functions(file: &ModuleFile) -> Result<(), FormatError> {
    let Some(descriptors) = file.root().vector(id::MODULE_FUNCTIONS) else { return Ok(()) };
    let signatures = file.root().tables(id::MODULE_SIGNATURES).len();
    if descriptors.len() != signatures {
        let field = "BytecodeModuleDef.function_signatures";
        let expected = format!("one for each of {} functions", descriptors.len());
        return Err(error(file, Fault::Corrupt, field, expected, signatures.to_string()));
    }
    let bytecode_bytes = file.bytecode().len();
    for ordinal in 0..descriptors.len() {
        let raw = RawDescriptor::read(descriptors.element(ordinal).unwrap_or_default());
        check_function(file, &raw, bytecode_bytes).map_err(|error| error.in_record(ordinal as u64))?;
    }
    Ok(())
}

fn check_function(file: &ModuleFile, raw: &RawDescriptor, bytecode_bytes: usize) -> Result<(), FormatError> {
    let corrupt = |field, expected: String, found: i32| {
        Err(error(file, Fault::Corrupt, field, expected, found.to_string()))
    };
    check_requirements(file, Features(raw.requirements), "FunctionDescriptor.requirements")?;
    let range = match (u64::try_from(raw.bytecode_offset), u64::try_from(raw.bytecode_length)) {
        (Ok(offset), Ok(length)) => Range::new(offset, length),
        _ => None,
    };
    if range.is_none_or(|range| !range.fits(bytecode_bytes as u64)) {
        let expected =
            format!("an offset with {} bytes within the bytecode of {bytecode_bytes}", raw.bytecode_length);
        return corrupt("FunctionDescriptor.bytecode_offset", expected, raw.bytecode_offset);
    }
    if raw.bytecode_length == 0 {
        return corrupt("FunctionDescriptor.bytecode_length", "at least one instruction".into(), 0);
    }
    if raw.reserved != 0 {
        return corrupt("FunctionDescriptor.reserved", "0".into(), raw.reserved.into());
    }
    if raw.block_count < 1 {
        return corrupt("FunctionDescriptor.block_count", "at least 1".into(), raw.block_count.into());
    }
    for (field, count, limit) in [
        ("FunctionDescriptor.i32_register_count", raw.i32_register_count, MAX_I32_REGISTERS),
        ("FunctionDescriptor.ref_register_count", raw.ref_register_count, MAX_REF_REGISTERS),
    ] {
        if !(0..=limit).contains(&count) {
            return corrupt(field, format!("up to {limit}"), count.into());
        }
    }
    Ok(())
}

/// Embedded segments were verified with the tables; external ones follow them.
fn check_rodata(file: &ModuleFile) -> Result<(), FormatError> {
    let size = file.bytes().len() as u64;
    let start = file.external_rodata_start() as u64;
    for (index, table) in file.root().tables(id::MODULE_RODATA).iter().enumerate() {
        if table.field(id::RODATA_EMBEDDED).is_some() {
            continue;
        }
        let (offset, length) = external_range(table);
        let end = start.checked_add(offset).and_then(|at| at.checked_add(length));
        if end.is_some_and(|end| end <= size) {
            continue;
        }
        let field = "RodataSegmentDef.external_data_offset";
        let expected =
            format!("{length} bytes from byte {offset} of external rodata, which starts at byte {start}");
        // Rodata is last: a segment beyond the end means a truncated file.
        let found = format!("a file of {size} bytes");
        return Err(error(file, Fault::Truncated, field, expected, found).in_record(index as u64));
    }
    for (index, table) in file.root().tables(id::MODULE_RWDATA).iter().enumerate() {
        let bytes = table.i32(id::RWDATA_BYTE_SIZE);
        if bytes < 0 {
            let field = "RwdataSegmentDef.byte_size";
            return Err(
                error(file, Fault::Corrupt, field, "at least 0", bytes.to_string()).in_record(index as u64)
            );
        }
    }
    Ok(())
}

fn check_state(file: &ModuleFile) -> Result<(), FormatError> {
    let Some(state) = file.root().table(id::MODULE_STATE) else { return Ok(()) };
    for (field, id) in [
        ("ModuleStateDef.global_bytes_capacity", id::STATE_GLOBAL_BYTES),
        ("ModuleStateDef.global_ref_count", id::STATE_GLOBAL_REFS),
    ] {
        let value = state.i32(id);
        if value < 0 {
            return Err(error(file, Fault::Corrupt, field, "at least 0", value.to_string()));
        }
    }
    let bytes = file.global_bytes().saturating_add(file.global_ref_count().saturating_mul(GLOBAL_REF_BYTES));
    let flatbuffer_bytes = file.flatbuffer_range().len();
    let limit = flatbuffer_bytes.saturating_mul(GLOBAL_BYTES_PER_FILE_BYTE).saturating_add(MIN_GLOBAL_BYTES);
    if bytes > limit {
        let expected = format!("globals of up to {limit} bytes in a module of {flatbuffer_bytes}");
        return Err(error(
            file,
            Fault::Unsupported,
            "BytecodeModuleDef.module_state",
            expected,
            bytes.to_string(),
        ));
    }
    Ok(())
}

fn check_debug_database(file: &ModuleFile) -> Result<(), FormatError> {
    let Some(database) = file.debug_database() else { return Ok(()) };
    let count = database.location_count();
    let known = |field: &'static str, at: usize, index: usize| {
        if index < count {
            return Ok(());
        }
        let expected = format!("one of {count} locations");
        Err(error(file, Fault::Corrupt, field, expected, (index as i32).to_string()).in_record(at as u64))
    };
    for at in 0..count {
        match database.location(at) {
            None | Some(Location::Unknown | Location::FileLineColumn { .. }) => {}
            Some(Location::CallSite { callee, caller }) => {
                known("CallSiteLocDef.callee", at, callee)?;
                known("CallSiteLocDef.caller", at, caller)?;
            }
            Some(Location::Fused { locations, .. }) => {
                locations.iter().try_for_each(|index| known("FusedLocDef.locations", at, index))?;
            }
            Some(Location::Named { child: None, .. }) => {}
            Some(Location::Named { child: Some(child), .. }) => {
                known("NameLocDef.child_location", at, child)?
            }
        }
    }
    for ordinal in 0..database.function_count() {
        let Some(map) = database.function(ordinal) else { continue };
        let mut last = 0;
        for (offset, location) in (0..map.len()).filter_map(|index| map.entry(index)) {
            known("FunctionSourceMapDef.locations", ordinal, location)?;
            if offset < last {
                let field = "FunctionSourceMapDef.locations";
                let expected = format!("an offset from {last}");
                return Err(error(file, Fault::Corrupt, field, expected, offset.to_string())
                    .in_record(ordinal as u64));
            }
            last = offset;
        }
    }
    Ok(())
}
