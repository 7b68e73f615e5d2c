//! Profiles of devices.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use std::sync::{Mutex, PoisonError};

use rehal::profile::{ProfileData, Profiling, ProfilingOptions};
use rehal::replay::Observer;
use rehal::{Error, Result};

use crate::device::rehal_devices_t;
use crate::error::{guard, quietly, rehal_error_t};
use crate::fork::threads_start;
use crate::handle::{self, handle};
use crate::structs::{options, out, rehal_string_t, sized_struct};

/// A session, until it is ended.
pub struct Session(Mutex<Option<Profiling>>);

handle!(rehal_profiling_t, Session, "profiling", b"profile\0");

pub type rehal_profile_data_t = u32;
pub const REHAL_PROFILE_QUEUE_EVENTS: rehal_profile_data_t = 1;
pub const REHAL_PROFILE_HOST_EXECUTION: rehal_profile_data_t = 2;
pub const REHAL_PROFILE_DEVICE_QUEUE_EVENTS: rehal_profile_data_t = 4;
pub const REHAL_PROFILE_DISPATCH_EVENTS: rehal_profile_data_t = 8;
pub const REHAL_PROFILE_EXECUTABLE_METADATA: rehal_profile_data_t = 32;
pub const REHAL_PROFILE_MEMORY_EVENTS: rehal_profile_data_t = 128;
pub const REHAL_PROFILE_COMMAND_REGIONS: rehal_profile_data_t = 512;
pub const REHAL_PROFILE_PROCESSOR_TIME: rehal_profile_data_t = 2048;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_profiling_options_t {
    pub size: usize,
    pub path: rehal_string_t,
    pub data: rehal_profile_data_t,
}

sized_struct!(rehal_profiling_options_t);

impl Session {
    /// Calls `body` with an observer that relates what the devices report to the records of a replay.
    pub fn with_records<T>(&self, body: impl FnOnce(&mut dyn Observer) -> Result<T>) -> Result<T> {
        let session = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut records = session.as_ref().ok_or_else(ended)?.records();
        drop(session);
        body(&mut records)
    }
}

fn ended() -> Error {
    Error::failed_precondition("the profile has ended")
}

/// # Safety
/// As the header says of the options.
unsafe fn profiling_options(given: *const rehal_profiling_options_t) -> Result<ProfilingOptions> {
    // SAFETY: the caller guarantees it.
    let given = unsafe { options(given) }?;
    let path =
        given.path.given().ok_or_else(|| Error::invalid_argument("the path of the profile is empty"))?;
    // SAFETY: as above.
    let path = unsafe { path.path() }?;
    let data = match given.data {
        0 => None,
        data => Some(ProfileData::from_bits(data).ok_or_else(|| {
            Error::invalid_argument(format!("{data:#x} has a bit that is not a kind of data"))
        })?),
    };
    let mut made = ProfilingOptions::statistics(data);
    made.output = Some(path.into());
    Ok(made)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_profiling_begin(
    devices: *const rehal_devices_t,
    options: *const rehal_profiling_options_t,
    profiling: *mut *mut rehal_profiling_t,
) -> *mut rehal_error_t {
    // SAFETY: what the caller gives is valid, as the header says.
    guard(|| unsafe {
        let out = out(profiling)?;
        threads_start();
        let begun = Profiling::begin(handle::get(devices)?, &profiling_options(options)?)?;
        *out = handle::new(Session(Mutex::new(Some(begun))));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_profiling_end(profiling: *const rehal_profiling_t) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let mut session = handle::get(profiling)?.0.lock().unwrap_or_else(PoisonError::into_inner);
        session.take().ok_or_else(ended)?.end()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_profiling_free(profiling: *mut rehal_profiling_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(profiling) });
}
