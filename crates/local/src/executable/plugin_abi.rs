//! The plugin ABI, version 1: the structures that a plugin shares with its host.
//!
//! Defined in `iree/hal/local/executable_plugin.h` of the pinned release.

use std::ffi::{c_char, c_void};
use std::mem::offset_of;

use super::abi::layout;

/// The supported version of the ABI.
pub const VERSION: u32 = 1;
/// The symbol that a plugin exports ([`QueryFn`]).
pub const QUERY_SYMBOL: &str = "iree_hal_executable_plugin_query";
/// The bits of a status that hold its code; the rest may be a pointer to details.
pub const STATUS_CODE_MASK: usize = 0x1F;

/// A status: its code in the low bits, 0 for success.
pub type Status = usize;
/// Returns the plugin's table, or null if it has none of `max_version` or below.
pub type QueryFn = unsafe extern "C" fn(max_version: u32, reserved: *mut c_void) -> *const PluginTable;
/// Allocates and frees; see [`AllocatorCommand`].
pub type AllocatorFn = unsafe extern "C" fn(
    this: *mut c_void,
    command: u32,
    params: *const c_void,
    inout_ptr: *mut *mut c_void,
) -> Status;
/// Loads the plugin; the instance stored in `out_self` is passed to later calls.
pub type LoadFn = unsafe extern "C" fn(
    environment: *const PluginEnvironment,
    param_count: usize,
    params: *const c_void,
    out_self: *mut *mut c_void,
) -> Status;
/// Unloads the plugin.
pub type UnloadFn = unsafe extern "C" fn(this: *mut c_void);
/// Resolves imports; those already resolved are left unchanged.
pub type ResolveFn =
    unsafe extern "C" fn(this: *mut c_void, params: *const ResolveParams, out_resolution: *mut u32) -> Status;

/// Commands of an [`AllocatorFn`]; any other number is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum AllocatorCommand {
    /// Allocate uninitialized memory.
    Malloc = 0,
    /// Allocate zeroed memory.
    Calloc = 1,
    /// Grow or shrink memory.
    Realloc = 2,
    /// Free memory.
    Free = 3,
}

/// Parameters of an allocation.
#[repr(C)]
pub struct AllocatorParams {
    /// Size in bytes.
    pub byte_length: usize,
}

/// An allocator that a plugin uses.
#[repr(C)]
pub struct Allocator {
    /// Passed to every call.
    pub this: *mut c_void,
    /// The function.
    pub ctl: Option<AllocatorFn>,
}

/// The start of the table in every version of the plugin ABI.
#[repr(C)]
pub struct PluginHeader {
    /// Version of the ABI that the plugin was built for.
    pub version: u32,
    /// Name for diagnostics, or null.
    pub name: *const c_char,
    /// Human-readable description, or null.
    pub description: *const c_char,
    /// Feature bits: 0 standalone, 1 full status objects.
    pub features: u32,
    /// Sanitizer that the plugin was built with; 0 for none.
    pub sanitizer: u32,
    /// Zero.
    pub reserved: [u64; 8],
}

/// Parameters of a plugin's load function.
#[repr(C)]
pub struct PluginEnvironment {
    /// For all memory of the plugin, valid until it is unloaded.
    pub host_allocator: Allocator,
}

/// Parameters of a plugin's resolve function.
#[repr(C)]
pub struct ResolveParams {
    /// Number of imports.
    pub count: usize,
    /// `count` names, sorted; a leading `?` marks one that may stay null.
    pub symbol_names: *const *const c_char,
    /// `count` functions, which the plugin sets if still null.
    pub out_fn_ptrs: *mut *mut c_void,
    /// `count` contexts.
    pub out_fn_contexts: *mut *mut c_void,
}

/// The table that the query function returns.
#[repr(C)]
pub struct PluginTable {
    /// The header.
    pub header: *const PluginHeader,
    /// Loads.
    pub load: Option<LoadFn>,
    /// Unloads; optional.
    pub unload: Option<UnloadFn>,
    /// Resolves.
    pub resolve: Option<ResolveFn>,
}

layout!(AllocatorParams, 8, byte_length: 0);
layout!(Allocator, 16, this: 0, ctl: 8);
layout!(
    PluginHeader, 96,
    version: 0, name: 8, description: 16, features: 24, sanitizer: 28, reserved: 32,
);
layout!(PluginEnvironment, 16, host_allocator: 0);
layout!(ResolveParams, 32, count: 0, symbol_names: 8, out_fn_ptrs: 16, out_fn_contexts: 24);
layout!(PluginTable, 32, header: 0, load: 8, unload: 16, resolve: 24);
