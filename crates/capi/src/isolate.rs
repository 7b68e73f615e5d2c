//! Work that runs captured code in a process of the program `rehal`.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use std::time::Duration;

use rehal::device::DeviceSettings;
use rehal::replay::Plan;
use rehal::work::{Isolation, ReplaySetup, WorkOptions};
use rehal::{Error, Result};

use crate::fork::threads_start;
use crate::structs::{options, rehal_string_t, sized_struct};

pub type rehal_isolation_t = u32;
pub const REHAL_ISOLATION_PROCESS: rehal_isolation_t = 0;
pub const REHAL_ISOLATION_NONE: rehal_isolation_t = 1;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_isolation_options_t {
    pub size: usize,
    pub isolation: rehal_isolation_t,
    pub program: rehal_string_t,
    pub max_time_ns: u64,
    pub progress_time_ns: u64,
}

sized_struct!(rehal_isolation_options_t);

/// # Safety
/// As the header says of the options.
pub unsafe fn work_options(given: *const rehal_isolation_options_t) -> Result<WorkOptions> {
    let mut made = WorkOptions::default();
    // SAFETY: the caller guarantees it.
    unsafe {
        let given = options(given)?;
        made.isolation = match given.isolation {
            REHAL_ISOLATION_PROCESS => Isolation::Process,
            REHAL_ISOLATION_NONE => Isolation::None,
            other => return Err(Error::invalid_argument(format!("{other} is not an isolation"))),
        };
        made.program = given.program.given().map(|it| it.path()).transpose()?;
        made.time = (given.max_time_ns != 0).then(|| Duration::from_nanos(given.max_time_ns));
        made.progress_time = match given.progress_time_ns {
            0 => None,
            u64::MAX => Some(Duration::ZERO),
            given => Some(Duration::from_nanos(given)),
        };
    }
    if made.isolation == Isolation::None {
        threads_start();
    }
    Ok(made)
}

/// A replay of a plan on devices with this URI, as data.
///
/// # Safety
/// As the header says of strings.
pub unsafe fn setup_of(plan: &Plan, device: rehal_string_t) -> Result<ReplaySetup> {
    // SAFETY: the caller guarantees it.
    let uri = device.given().map(|uri| unsafe { uri.text() }).transpose()?;
    let mut setup = ReplaySetup::of_plan(plan)?;
    setup.devices = DeviceSettings::for_plan(plan, uri);
    Ok(setup)
}
