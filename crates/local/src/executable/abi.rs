//! The CPU library ABI, version 6: the structures that a compiled executable shares with its host.
//!
//! Defined in `iree/hal/local/executable_library.h` of the pinned release. Every struct asserts its size and
//! offsets for 64-bit machines at compile time. Pointers come from the library: possibly null if the field
//! says so, valid while the library is loaded.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

use crate::platform::executable_fn;

/// The supported version of the ABI.
pub const VERSION: u32 = 6;
/// The symbol that a library exports ([`QueryFn`]).
pub const QUERY_SYMBOL: &str = "iree_hal_executable_library_query";
/// Maximum number of 32-bit constants of a dispatch.
pub const MAX_CONSTANT_COUNT: usize = 64;
/// Maximum number of bindings of a dispatch.
pub const MAX_BINDING_COUNT: usize = 64;
/// Size of a page of workgroup local memory in bytes.
pub const LOCAL_MEMORY_PAGE_BYTES: usize = 4096;
/// Words of processor data.
pub const PROCESSOR_DATA_WORDS: usize = 8;

/// Returns the library's table, or null if it has none of `max_version` or below.
pub type QueryFn =
    executable_fn!(fn(max_version: u32, environment: *const Environment) -> *const LibraryTable);
/// An imported function; returns 0 on success.
pub type ImportFn =
    executable_fn!(fn(params: *mut c_void, context: *mut c_void, reserved: *mut c_void) -> c_int);
/// Calls an imported function on behalf of the library.
pub type ImportThunk = executable_fn!(
    fn(function: Option<ImportFn>, params: *mut c_void, context: *mut c_void, reserved: *mut c_void) -> c_int
);
/// A dispatch function; returns 0 on success.
pub type DispatchFn = executable_fn!(
    fn(
        environment: *const Environment,
        dispatch: *const DispatchState,
        workgroup: *const WorkgroupState,
    ) -> c_int
);

/// The start of the table in every version of the ABI.
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

/// The library's view of its environment.
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

/// State shared by all workgroups of a dispatch.
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
    /// Maximum number of workgroups that run concurrently.
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

/// State of one workgroup.
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

/// Attributes of an exported function.
#[repr(C)]
pub struct DispatchAttrs {
    /// Flags: bit 0 sequential, bit 1 dynamic workgroup size.
    pub flags: u64,
    /// Pages of scratch memory, each [`LOCAL_MEMORY_PAGE_BYTES`].
    pub local_memory_pages: u16,
    /// Number of 32-bit constants.
    pub constant_count: u8,
    /// Number of bindings.
    pub binding_count: u8,
    /// Workgroup size in x, 0 if unknown.
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
    /// Flags; no bits are defined.
    pub flags: u16,
    /// Index into the table of parameter names, 0xFFFF for none.
    pub name: u16,
    /// Offset in bytes, or the binding's ordinal.
    pub offset: u16,
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
    /// Optional; undefined.
    pub occupancy: *const c_int,
    /// `count` names.
    pub names: *const *const c_char,
    /// Optional: a human-readable tag per export, or null.
    pub tags: *const *const c_char,
    /// Optional: names of parameters.
    pub parameter_names: *const *const c_char,
    /// Optional: source location per export. Not read here.
    pub source_locations: *const c_void,
    /// Optional: source locations by compilation stage per export. Not read here.
    pub stage_locations: *const c_void,
}

/// Specialization constants of the library.
#[repr(C)]
pub struct ConstantTable {
    /// Number of 32-bit values.
    pub count: u32,
}

/// Source files embedded for debugging.
#[repr(C)]
pub struct SourceFileTable {
    /// Number of files.
    pub count: u32,
    /// `count` files. Not read here.
    pub files: *const c_void,
}

/// The table that the query function returns.
#[repr(C)]
pub struct LibraryTable {
    /// The header.
    pub header: *const LibraryHeader,
    /// Imports.
    pub imports: ImportTable,
    /// Exports.
    pub exports: ExportTable,
    /// Specialization constants.
    pub constants: ConstantTable,
    /// Embedded sources.
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
layout!(
    ExportTable, 80,
    count: 0, ptrs: 8, attrs: 16, params: 24, occupancy: 32, names: 40, tags: 48, parameter_names: 56,
    source_locations: 64, stage_locations: 72,
);
layout!(ConstantTable, 4, count: 0);
layout!(SourceFileTable, 16, count: 0, files: 8);
layout!(LibraryTable, 128, header: 0, imports: 8, exports: 24, constants: 104, sources: 112);
