//! Files that queues read and write.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use std::fs::OpenOptions;

use rehal::Error;
use rehal::device::{File, MemoryAccess, QUEUE_AFFINITY_ANY};

use crate::device::{device, rehal_devices_t};
use crate::error::{guard, quietly, rehal_error_t};
use crate::handle::{self, handle};
use crate::structs::{out, put, rehal_string_t};

handle!(rehal_file_t, File, "file", b"file\0\0\0\0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_file_open(
    devices: *const rehal_devices_t,
    index: usize,
    path: rehal_string_t,
    is_writable: bool,
    file: *mut *mut rehal_file_t,
) -> *mut rehal_error_t {
    // SAFETY: what the caller gives is valid, as the header says.
    guard(|| unsafe {
        let out = out(file)?;
        let (device, path) = (device(devices, index)?, path.path()?);
        let mut access = MemoryAccess::READ;
        access.set(MemoryAccess::WRITE, is_writable);
        let opened = OpenOptions::new().read(true).write(is_writable).open(&path);
        let opened = opened.map_err(|error| Error::io(format!("opening '{}'", path.display()), &error))?;
        *out = handle::new(device.import_file(QUEUE_AFFINITY_ANY, access, opened)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_file_length(
    file: *const rehal_file_t,
    length_bytes: *mut u64,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { put(length_bytes, handle::get(file)?.length()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_file_free(file: *mut rehal_file_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(file) });
}
