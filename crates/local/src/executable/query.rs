//! Reads and checks the table that a library's query function returns.

use std::ffi::{CStr, c_char};

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{FunctionInfo, FunctionParameter};

use super::abi::{self, DispatchAttrs, ExportTable, LibraryTable};

/// More functions than any valid executable has; a larger count is a corrupt table.
const MAX_COUNT: u32 = 1 << 20;
/// The name index of an unnamed parameter.
const NO_NAME: u16 = u16::MAX;

/// The contents of a table, copied.
pub(super) struct Contents {
    /// Name for diagnostics; may be empty.
    pub(super) name: String,
    pub(super) functions: Box<[FunctionInfo]>,
    /// Bytes of workgroup local memory that each function needs.
    pub(super) local_memory_bytes: Box<[u32]>,
    /// Names of the imports, in the library's memory; none is null.
    pub(super) imports: Vec<*const c_char>,
}

/// Checks and reads the table; `constant_count` constants are passed to the executable.
///
/// # Safety
/// `table` is null or was returned by a library's query function, and the library stays loaded.
pub(super) unsafe fn read(table: *const LibraryTable, constant_count: usize) -> Result<Contents> {
    // SAFETY: per the ABI, the pointers of a table are null or valid for their counts while the library is
    // loaded, and the caller vouches for the library; nulls are checked here.
    unsafe {
        let Some(table) = table.as_ref() else {
            return Err(Error::failed_precondition(format!(
                "no library of ABI version {} or below in the executable",
                abi::VERSION
            ))
            .advise("compile it with the release that this one is paired with"));
        };
        let name = check_header(table)?;
        if table.constants.count as usize != constant_count {
            return Err(Error::failed_precondition(format!(
                "the executable requires {} constants, {constant_count} were provided",
                table.constants.count
            )));
        }
        let imports = read_imports(table)?;
        let exports = &table.exports;
        check_exports(exports)?;
        let mut functions = Vec::with_capacity(exports.count as usize);
        for ordinal in 0..exports.count as usize {
            functions.push(function(exports, ordinal)?);
        }
        let local_memory_bytes = (0..exports.count as usize)
            .map(|ordinal| u32::from((*exports.attrs.add(ordinal)).local_memory_pages))
            .map(|pages| pages * abi::LOCAL_MEMORY_PAGE_BYTES as u32)
            .collect();
        Ok(Contents { name, functions: functions.into(), local_memory_bytes, imports })
    }
}

/// Checks version and sanitizer and returns the library's name.
///
/// # Safety
/// As for [`read`].
unsafe fn check_header(table: &LibraryTable) -> Result<String> {
    // SAFETY: null or valid, per the caller.
    let Some(header) = (unsafe { table.header.as_ref() }) else {
        return Err(Error::failed_precondition("the executable's library has no header"));
    };
    if header.version != abi::VERSION {
        return Err(Error::incompatible(format!(
            "the executable's library has ABI version {}, supported is {}",
            header.version,
            abi::VERSION
        )));
    }
    if header.sanitizer != 0 {
        let name = match header.sanitizer {
            1 => "AddressSanitizer",
            2 => "MemorySanitizer",
            3 => "ThreadSanitizer",
            4 => "UndefinedBehaviorSanitizer",
            _ => "an unknown sanitizer",
        };
        return Err(Error::new(
            StatusCode::Unavailable,
            format!("the executable is built with {name}, this process is not"),
        )
        .advise("compile it without a sanitizer"));
    }
    // SAFETY: null or NUL-terminated, per the caller.
    Ok(unsafe { text(header.name) }.unwrap_or_default())
}

/// # Safety
/// As for [`read`].
unsafe fn read_imports(table: &LibraryTable) -> Result<Vec<*const c_char>> {
    let imports = &table.imports;
    check_count("imports", imports.count, imports.symbols.is_null())?;
    // SAFETY: non-null with `count` entries, if there are any.
    let symbols: Vec<_> = unsafe { (0..imports.count as usize).map(|i| *imports.symbols.add(i)).collect() };
    match symbols.iter().position(|symbol| symbol.is_null()) {
        Some(index) => {
            Err(Error::failed_precondition(format!("the executable's import {index} has no name")))
        }
        None => Ok(symbols),
    }
}

fn check_exports(exports: &ExportTable) -> Result<()> {
    check_count("functions", exports.count, exports.ptrs.is_null())?;
    check_count("function attributes", exports.count, exports.attrs.is_null())?;
    check_count("function names", exports.count, exports.names.is_null())
}

fn check_count(what: &str, count: u32, is_null: bool) -> Result<()> {
    if count > MAX_COUNT {
        return Err(Error::failed_precondition(format!("the executable claims {count} {what}")));
    }
    if count > 0 && is_null {
        return Err(Error::failed_precondition(format!("the executable provides no {what}")));
    }
    Ok(())
}

/// Reads one function of a table that passed [`check_exports`].
///
/// # Safety
/// As for [`read`], and `ordinal` is below the count.
unsafe fn function(exports: &ExportTable, ordinal: usize) -> Result<FunctionInfo> {
    // SAFETY: the required arrays are non-null and have `count` entries; the optional ones are null or have
    // as many.
    unsafe {
        let attrs = &*exports.attrs.add(ordinal);
        let limits = [
            ("constants", usize::from(attrs.constant_count), abi::MAX_CONSTANT_COUNT),
            ("bindings", usize::from(attrs.binding_count), abi::MAX_BINDING_COUNT),
        ];
        for (what, count, limit) in limits {
            if count > limit {
                return Err(Error::out_of_range(format!(
                    "function {ordinal} of the executable requires {count} {what}, the limit is {limit}"
                )));
            }
        }
        let name = text(*exports.names.add(ordinal)).unwrap_or_default();
        if name.is_empty() {
            return Err(Error::failed_precondition(format!(
                "function {ordinal} of the executable has no name"
            )));
        }
        if (*exports.ptrs.add(ordinal)).is_none() {
            return Err(Error::failed_precondition(format!(
                "function '{}' of the executable has no code",
                name.escape_debug()
            )));
        }
        Ok(FunctionInfo {
            name,
            // The two defined bits have the same meaning in the HAL's flags.
            flags: attrs.flags & 0b11,
            workgroup_size: [
                attrs.workgroup_size_x,
                attrs.workgroup_size_y,
                u32::from(attrs.workgroup_size_z),
            ],
            constant_count: u16::from(attrs.constant_count),
            binding_count: u16::from(attrs.binding_count),
            parameter_count: attrs.parameter_count,
            parameters: parameters(exports, attrs, ordinal),
        })
    }
}

/// Reflected parameters, or none if the library has no reflection.
///
/// # Safety
/// As for [`function`].
unsafe fn parameters(exports: &ExportTable, attrs: &DispatchAttrs, ordinal: usize) -> Vec<FunctionParameter> {
    // SAFETY: null or with `count` entries, each null or with the number of parameters in the attributes;
    // names are null or a table in which the parameters' indices are in bounds.
    unsafe {
        if exports.params.is_null() || (*exports.params.add(ordinal)).is_null() {
            return Vec::new();
        }
        let parameters = *exports.params.add(ordinal);
        let read = |index: u16| {
            let parameter = &*parameters.add(usize::from(index));
            let named = !exports.parameter_names.is_null() && parameter.name != NO_NAME;
            let name = if named {
                text(*exports.parameter_names.add(usize::from(parameter.name))).unwrap_or_default()
            } else {
                String::new()
            };
            FunctionParameter {
                // The reference treats unknown kinds as constants.
                kind: if parameter.kind <= 2 { parameter.kind } else { 0 },
                size: parameter.size,
                flags: parameter.flags,
                offset: parameter.offset,
                name,
            }
        };
        (0..attrs.parameter_count).map(read).collect()
    }
}

/// # Safety
/// `string` is null or NUL-terminated.
pub(super) unsafe fn text(string: *const c_char) -> Option<String> {
    if string.is_null() {
        return None;
    }
    // SAFETY: non-null, and NUL-terminated per the caller.
    Some(unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned())
}
