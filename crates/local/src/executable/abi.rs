//! The CPU library ABI, version 6: what a compiled executable and its host share in memory.
//!
//! Source of the facts: `iree/hal/local/executable_library.h` of the pinned release. Every struct
//! asserts its size and offsets for 64-bit machines at compile time. Pointers are as the library
//! gives them: possibly null where the field says so, valid while the library is loaded.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

/// The version of the ABI that is read here.
pub const VERSION: u32 = 6;
/// The symbol that a library exports ([`QueryFn`]).
pub const QUERY_SYMBOL: &str = "iree_hal_executable_library_query";
/// Most 32-bit constants of a dispatch.
pub const MAX_CONSTANT_COUNT: usize = 64;
/// Most bindings of a dispatch.
pub const MAX_BINDING_COUNT: usize = 64;
/// Bytes of a page of workgroup local memory.
pub const LOCAL_MEMORY_PAGE_BYTES: usize = 4096;
/// Words of processor data.
pub const PROCESSOR_DATA_WORDS: usize = 8;

/// Gives the library's table, or null where it has none of `max_version` or below.
pub type QueryFn =
    unsafe extern "C" fn(max_version: u32, environment: *const Environment) -> *const LibraryTable;
/// An imported function; returns 0 on success.
pub type ImportFn =
    unsafe extern "C" fn(params: *mut c_void, context: *mut c_void, reserved: *mut c_void) -> c_int;
/// Calls an imported function on behalf of the library.
pub type ImportThunk = unsafe extern "C" fn(
    function: Option<ImportFn>,
    params: *mut c_void,
    context: *mut c_void,
    reserved: *mut c_void,
) -> c_int;
/// A dispatch function; returns 0 on success.
pub type DispatchFn = unsafe extern "C" fn(
    environment: *const Environment,
    dispatch: *const DispatchState,
    workgroup: *const WorkgroupState,
) -> c_int;

/// At the top of every version of the ABI.
#[repr(C)]
pub struct LibraryHeader {
    /// Version of the ABI that the library was built for.
    pub version: u32,
    /// Name for diagnostics, or null.
    pub name: *const c_char,
    /// Feature bits; none are defined.
    pub features: u32,
    /// Sanitizer that the library was built with; 0 for none.
    pub sanitizer: u32,
}

/// Functions that the library imports, sorted by name.
#[repr(C)]
pub struct ImportTable {
    /// Number of imports.
    pub count: u32,
    /// `count` names; a leading `?` marks an import that may stay null.
    pub symbols: *const *const c_char,
}

/// What the library may know of where it runs.
#[repr(C)]
pub struct Environment {
    /// Specialization constants, as many as the library declares.
    pub constants: *const u32,
    /// Calls an import.
    pub import_thunk: Option<ImportThunk>,
    /// One function per import, null where optional and missing.
    pub import_funcs: *const Option<ImportFn>,
    /// One context per import.
    pub import_contexts: *const *mut c_void,
    /// Processor features (`iree/schemas/cpu_data.h`).
    pub processor: [u64; PROCESSOR_DATA_WORDS],
}

/// What all workgroups of a dispatch share.
#[repr(C)]
pub struct DispatchState {
    /// Workgroup size in x.
    pub workgroup_size_x: u32,
    /// Workgroup size in y.
    pub workgroup_size_y: u32,
    /// Workgroup size in z.
    pub workgroup_size_z: u16,
    /// Number of 32-bit constants.
    pub constant_count: u16,
    /// Workgroup count in x.
    pub workgroup_count_x: u32,
    /// Workgroup count in y.
    pub workgroup_count_y: u32,
    /// Workgroup count in z.
    pub workgroup_count_z: u16,
    /// Workgroups that may run at the same time, at most.
    pub max_concurrency: u8,
    /// Number of bindings.
    pub binding_count: u8,
    /// `constant_count` values.
    pub constants: *const u32,
    /// `binding_count` base pointers.
    pub binding_ptrs: *const *mut c_void,
    /// `binding_count` lengths in bytes.
    pub binding_lengths: *const usize,
}

/// What is of one workgroup alone.
#[repr(C)]
pub struct WorkgroupState {
    /// Workgroup id in x.
    pub workgroup_id_x: u32,
    /// Workgroup id in y.
    pub workgroup_id_y: u32,
    /// Workgroup id in z.
    pub workgroup_id_z: u16,
    /// Zero.
    pub reserved: u16,
    /// Logical processor that the workgroup runs on.
    pub processor_id: u32,
    /// Scratch memory, or null.
    pub local_memory: *mut c_void,
    /// Bytes of scratch memory.
    pub local_memory_size: u32,
}

/// How an exported function is executed.
#[repr(C)]
pub struct DispatchAttrs {
    /// Behaviour: bit 0 sequential, bit 1 dynamic workgroup size.
    pub flags: u64,
    /// Pages of scratch memory, each [`LOCAL_MEMORY_PAGE_BYTES`].
    pub local_memory_pages: u16,
    /// Number of 32-bit constants.
    pub constant_count: u8,
    /// Number of bindings.
    pub binding_count: u8,
    /// Workgroup size in x, 0 where unknown.
    pub workgroup_size_x: u32,
    /// Workgroup size in y.
    pub workgroup_size_y: u32,
    /// Workgroup size in z.
    pub workgroup_size_z: u16,
    /// Number of reflected parameters.
    pub parameter_count: u16,
    /// Zero.
    pub reserved: [u64; 5],
}

/// A reflected parameter of an exported function.
#[repr(C)]
pub struct DispatchParameter {
    /// 0 constant, 1 binding, 2 buffer pointer.
    pub kind: u8,
    /// Size in bytes.
    pub size: u8,
    /// Behaviour; no bits are defined.
    pub flags: u16,
    /// Index into the table of parameter names, 0xFFFF for none.
    pub name: u16,
    /// Offset in bytes, or the binding's ordinal.
    pub offset: u16,
}

/// Where a function comes from.
#[repr(C)]
pub struct SourceLocationEntry {
    /// Line of the file.
    pub line: u32,
    /// Bytes of `path`.
    pub path_length: u32,
    /// Path of the file, NUL-terminated.
    pub path: *const c_char,
}

/// Where a function comes from at each stage of its compilation.
#[repr(C)]
pub struct StageLocationTable {
    /// Number of stages.
    pub count: u32,
    /// `count` names, sorted.
    pub names: *const *const c_char,
    /// `count` locations.
    pub locations: *const SourceLocationEntry,
}

/// Exported functions, one array per property; optional arrays are null.
#[repr(C)]
pub struct ExportTable {
    /// Number of exports.
    pub count: u32,
    /// `count` functions.
    pub ptrs: *const Option<DispatchFn>,
    /// `count` attributes.
    pub attrs: *const DispatchAttrs,
    /// Optional: per export its parameters, or null.
    pub params: *const *const DispatchParameter,
    /// Optional; nothing defined.
    pub occupancy: *const c_int,
    /// `count` names.
    pub names: *const *const c_char,
    /// Optional: per export a tag for people, or null.
    pub tags: *const *const c_char,
    /// Optional: names that parameters refer to.
    pub parameter_names: *const *const c_char,
    /// Optional: per export where it comes from.
    pub source_locations: *const SourceLocationEntry,
    /// Optional: per export where it comes from, by stage.
    pub stage_locations: *const StageLocationTable,
}

/// Specialization constants that the library wants.
#[repr(C)]
pub struct ConstantTable {
    /// Number of 32-bit values.
    pub count: u32,
}

/// A source file carried for debugging.
#[repr(C)]
pub struct SourceFile {
    /// Bytes of `path`.
    pub path_length: u32,
    /// Path, NUL-terminated.
    pub path: *const c_char,
    /// Bytes of `content`.
    pub content_length: u32,
    /// The file.
    pub content: *const u8,
}

/// Source files carried for debugging.
#[repr(C)]
pub struct SourceFileTable {
    /// Number of files.
    pub count: u32,
    /// `count` files.
    pub files: *const SourceFile,
}

/// What the query function returns.
#[repr(C)]
pub struct LibraryTable {
    /// The header.
    pub header: *const LibraryHeader,
    /// What it imports.
    pub imports: ImportTable,
    /// What it exports.
    pub exports: ExportTable,
    /// What constants it wants.
    pub constants: ConstantTable,
    /// Sources it carries.
    pub sources: SourceFileTable,
}

macro_rules! layout {
    ($type:ty, $size:literal, $($field:ident: $offset:literal),+ $(,)?) => {
        #[cfg(target_pointer_width = "64")]
        const _: () = {
            assert!(size_of::<$type>() == $size);
            $(assert!(offset_of!($type, $field) == $offset);)+
        };
    };
}
pub(crate) use layout;

layout!(LibraryHeader, 24, version: 0, name: 8, features: 16, sanitizer: 20);
layout!(ImportTable, 16, count: 0, symbols: 8);
layout!(Environment, 96, constants: 0, import_thunk: 8, import_funcs: 16, import_contexts: 24, processor: 32);
layout!(
    DispatchState, 48,
    workgroup_size_x: 0, workgroup_size_y: 4, workgroup_size_z: 8, constant_count: 10,
    workgroup_count_x: 12, workgroup_count_y: 16, workgroup_count_z: 20, max_concurrency: 22,
    binding_count: 23, constants: 24, binding_ptrs: 32, binding_lengths: 40,
);
layout!(
    WorkgroupState, 32,
    workgroup_id_x: 0, workgroup_id_y: 4, workgroup_id_z: 8, reserved: 10, processor_id: 12,
    local_memory: 16, local_memory_size: 24,
);
layout!(
    DispatchAttrs, 64,
    flags: 0, local_memory_pages: 8, constant_count: 10, binding_count: 11, workgroup_size_x: 12,
    workgroup_size_y: 16, workgroup_size_z: 20, parameter_count: 22, reserved: 24,
);
layout!(DispatchParameter, 8, kind: 0, size: 1, flags: 2, name: 4, offset: 6);
layout!(SourceLocationEntry, 16, line: 0, path_length: 4, path: 8);
layout!(StageLocationTable, 24, count: 0, names: 8, locations: 16);
layout!(
    ExportTable, 80,
    count: 0, ptrs: 8, attrs: 16, params: 24, occupancy: 32, names: 40, tags: 48, parameter_names: 56,
    source_locations: 64, stage_locations: 72,
);
layout!(ConstantTable, 4, count: 0);
layout!(SourceFile, 32, path_length: 0, path: 8, content_length: 16, content: 24);
layout!(SourceFileTable, 16, count: 0, files: 8);
layout!(LibraryTable, 128, header: 0, imports: 8, exports: 24, constants: 104, sources: 112);
