//! `cuGetProcAddress`, by which drivers find all other functions.
#![allow(unsafe_code, reason = "reads strings of C, and exports a symbol")]

use std::ffi::{CStr, c_char, c_void};

use crate::interface::{Code, Out, answer, put};

macro_rules! table {
    ($($module:ident: $($name:ident)*;)*) => {
        /// The names of all functions but `cuGetProcAddress`.
        #[cfg(test)]
        pub const NAMES: &[&str] = &[$($(stringify!($name),)*)*];

        fn address(name: &str) -> Option<*const c_void> {
            match name {
                $($(stringify!($name) => Some(crate::$module::$name as *const c_void),)*)*
                "cuGetProcAddress" => Some(cuGetProcAddress as *const c_void),
                _ => None,
            }
        }
    };
}

table! {
    device: cuCtxCreate cuCtxDestroy cuCtxPopCurrent cuCtxPushCurrent cuCtxSetCurrent cuDeviceGet
        cuDeviceGetAttribute cuDeviceGetCount cuDeviceGetName cuDeviceGetUuid cuDevicePrimaryCtxRelease
        cuDevicePrimaryCtxRetain cuDriverGetVersion cuInit;
    graph: cuGraphAddEmptyNode cuGraphAddEventRecordNode cuGraphAddKernelNode cuGraphAddMemcpyNode
        cuGraphAddMemsetNode cuGraphCreate cuGraphDestroy cuGraphExecDestroy cuGraphGetNodes
        cuGraphInstantiate cuGraphLaunch;
    interface: cuGetErrorName cuGetErrorString;
    kernel: cuFuncSetAttribute cuLaunchKernel cuModuleGetFunction cuModuleGetGlobal cuModuleLoadDataEx
        cuModuleUnload;
    memory: cuMemAlloc cuMemAllocFromPoolAsync cuMemAllocManaged cuMemFree cuMemFreeAsync cuMemFreeHost
        cuMemHostAlloc cuMemHostGetDevicePointer cuMemHostRegister cuMemHostUnregister cuMemPoolCreate
        cuMemPoolDestroy cuMemPoolGetAttribute cuMemPoolSetAccess cuMemPoolSetAttribute cuMemPoolTrimTo
        cuMemPrefetchAsync;
    stream: cuEventCreate cuEventDestroy cuEventElapsedTime cuEventQuery cuEventRecord cuEventSynchronize
        cuLaunchHostFunc cuMemcpyAsync cuMemcpyHtoDAsync cuMemsetD16Async cuMemsetD32Async cuMemsetD8Async
        cuStreamCreate cuStreamDestroy cuStreamSynchronize cuStreamWaitEvent;
}

/// Finds a function by its name without a version.
///
/// # Safety
/// `name` is null, or a string that ends with NUL.
// SAFETY: no other library of a process has this name but the one that this replaces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress(
    name: *const c_char,
    function: Out<'_, *const c_void>,
    _version: i32,
    _flags: u64,
) -> u32 {
    if name.is_null() {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: it is not null, and the caller passes a string.
    let name = unsafe { CStr::from_ptr(name) };
    let found = name.to_str().ok().and_then(address);
    let outcome = put(function, found.unwrap_or(std::ptr::null()));
    answer(outcome.and(found.map(|_| ()).ok_or(Code::NOT_FOUND)))
}
