//! The kernels of captures, and slices.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use std::fs::File;

use rehal::kernel::{Cut, KernelOptions, Kernels, SliceOptions};
use rehal::replay::Replay;
use rehal::{Error, Result};

use crate::capture::rehal_plan_t;
use crate::error::{guard, quietly, rehal_error_t};
use crate::handle::{self, handle};
use crate::replay::rehal_replay_t;
use crate::structs::{fill, options, out, put, rehal_string_t, sized_struct};

handle!(rehal_kernels_t, Kernels, "kernels", b"kernels\0");

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_kernel_options_t {
    pub size: usize,
    pub function: rehal_string_t,
    pub repetitions: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_kernel_info_t {
    pub size: usize,
    pub name: rehal_string_t,
    pub executable_id: u64,
    pub function: u32,
    pub has_workgroup_count: bool,
    pub workgroup_count: [u32; 3],
    pub workgroup_size: [u32; 3],
    pub binding_count: usize,
    pub constant_count: usize,
    pub count: u64,
    pub record: u64,
    pub occurrence: u64,
    pub has_time: bool,
    pub time_ns: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_slice_info_t {
    pub size: usize,
    pub content_bytes: u64,
    pub record: u64,
    pub occurrence: u64,
    pub read_count: usize,
    pub is_checked: bool,
}

sized_struct!(rehal_kernel_options_t, rehal_kernel_info_t, rehal_slice_info_t);

/// # Safety
/// As the header says of the options.
unsafe fn kernel_options(given: *const rehal_kernel_options_t) -> Result<KernelOptions> {
    let mut made = KernelOptions::default();
    // SAFETY: the caller guarantees it.
    unsafe {
        let given = options(given)?;
        made.function = given.function.given().map(|it| it.text()).transpose()?.map(ToOwned::to_owned);
        made.repetitions = (given.repetitions > 0).then_some(given.repetitions);
    }
    Ok(made)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_kernels_list(
    plan: *const rehal_plan_t,
    options: *const rehal_kernel_options_t,
    kernels: *mut *mut rehal_kernels_t,
) -> *mut rehal_error_t {
    // SAFETY: what the caller gives is valid, as the header says.
    guard(|| unsafe {
        let out = out(kernels)?;
        *out = handle::new(Kernels::from_plan(handle::get(plan)?, &kernel_options(options)?)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_kernels_measure(
    replay: *const rehal_replay_t,
    options: *const rehal_kernel_options_t,
    kernels: *mut *mut rehal_kernels_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let out = out(kernels)?;
        *out = handle::new(Kernels::timed(handle::get(replay)?, &kernel_options(options)?)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_kernels_count(
    kernels: *const rehal_kernels_t,
    count: *mut usize,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { put(count, handle::get(kernels)?.kernels.len()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_kernels_get(
    kernels: *const rehal_kernels_t,
    index: usize,
    info: *mut rehal_kernel_info_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let kernels = &handle::get(kernels)?.kernels;
        let kernel = kernels.get(index).ok_or_else(|| {
            Error::out_of_range(format!("kernel {index} does not exist: there are {}", kernels.len()))
        })?;
        let filled = rehal_kernel_info_t {
            size: 0,
            name: rehal_string_t::lend(kernel.name.as_bytes()),
            executable_id: kernel.executable_id,
            function: kernel.function,
            has_workgroup_count: kernel.workgroup_count.is_some(),
            workgroup_count: kernel.workgroup_count.unwrap_or_default(),
            workgroup_size: kernel.workgroup_size,
            binding_count: kernel.bindings.len(),
            constant_count: kernel.constants.len(),
            count: kernel.count,
            record: kernel.location.ordinal.into(),
            occurrence: kernel.occurrence,
            has_time: kernel.time_ns.is_some(),
            time_ns: kernel.time_ns.unwrap_or_default(),
        };
        fill(info, &filled)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_kernels_free(kernels: *mut rehal_kernels_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(kernels) });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_slice_dispatch(
    replay: *const rehal_replay_t,
    record: u64,
    occurrence: u64,
    path: rehal_string_t,
    info: *mut rehal_slice_info_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let record = u32::try_from(record)
            .map_err(|_| Error::out_of_range(format!("record {record} does not exist")))?;
        slice(handle::get(replay)?, &Cut::Dispatch { record, occurrence }, path, info)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_slice_scope(
    replay: *const rehal_replay_t,
    name: rehal_string_t,
    occurrence: u64,
    path: rehal_string_t,
    info: *mut rehal_slice_info_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let cut = Cut::Scope { name: name.bytes()?.to_vec(), occurrence };
        slice(handle::get(replay)?, &cut, path, info)
    })
}

/// # Safety
/// As the header says of the path and the place for the result, which may be null.
unsafe fn slice(
    replay: &Replay,
    cut: &Cut,
    path: rehal_string_t,
    info: *mut rehal_slice_info_t,
) -> Result<()> {
    // SAFETY: the caller guarantees it.
    let path = unsafe { path.path() }?;
    let creating = |error: std::io::Error| Error::io(format!("creating '{}'", path.display()), &error);
    let file = File::create_new(&path).map_err(creating)?;
    let slice = replay.slice(cut, &SliceOptions::default(), file, &mut []).inspect_err(|_| {
        // It is not complete, and it was created here.
        let _ = std::fs::remove_file(&path);
    })?;
    if info.is_null() {
        return Ok(());
    }
    let filled = rehal_slice_info_t {
        size: 0,
        content_bytes: slice.content_bytes,
        record: slice.location.ordinal.into(),
        occurrence: slice.occurrence,
        read_count: slice.reads.len(),
        is_checked: slice.is_checked,
    };
    // SAFETY: as above.
    unsafe { fill(info, &filled) }
}
