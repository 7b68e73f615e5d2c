//! Drivers and devices.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use std::ffi::c_void;

use rehal::device::{Device, DeviceGroup, DeviceOptions, DeviceSpec, drivers};
use rehal::{Error, Result};

use crate::capture::rehal_plan_t;
use crate::error::{from_callback, guard, quietly, rehal_error_t};
use crate::fork::note_threads;
use crate::handle::{self, handle};
use crate::structs::{list, out, put, rehal_string_t};

handle!(rehal_devices_t, DeviceGroup, "devices", b"devices\0");

pub type rehal_driver_visitor_t = Option<
    unsafe extern "C-unwind" fn(
        user: *mut c_void,
        name: rehal_string_t,
        description: rehal_string_t,
        unavailable: rehal_string_t,
    ) -> *mut rehal_error_t,
>;

/// A device of a group.
///
/// # Safety
/// As for [`handle::get`].
pub unsafe fn device<'a>(devices: *const rehal_devices_t, index: usize) -> Result<&'a Device> {
    // SAFETY: the caller guarantees it.
    let devices = unsafe { handle::get(devices) }?.devices();
    devices.get(index).ok_or_else(|| {
        Error::out_of_range(format!("device {index} does not exist: there are {}", devices.len()))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_drivers_visit(
    visitor: rehal_driver_visitor_t,
    user: *mut c_void,
) -> *mut rehal_error_t {
    guard(|| {
        let visitor = visitor.ok_or_else(|| Error::invalid_argument("the visitor is NULL"))?;
        for driver in drivers().drivers() {
            let unavailable = driver.availability().err().map(|error| error.message().to_owned());
            let unavailable = unavailable.unwrap_or_default();
            let [name, description, unavailable] = [driver.name(), driver.description(), &unavailable]
                .map(|it| rehal_string_t::lend(it.as_bytes()));
            // SAFETY: the caller's function takes these; the strings live until it returns.
            unsafe { from_callback(visitor(user, name, description, unavailable)) }?;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_devices_open(
    uris: *const rehal_string_t,
    count: usize,
    devices: *mut *mut rehal_devices_t,
) -> *mut rehal_error_t {
    // SAFETY: what the caller gives is valid, as the header says.
    guard(|| unsafe {
        let out = out(devices)?;
        let specs: Result<Vec<_>> =
            list(uris, count, "uris")?.iter().map(|uri| DeviceSpec::find(uri.text()?)).collect();
        *out = opened(options_of(specs?).open()?);
        Ok(())
    })
}

fn opened(devices: DeviceGroup) -> *mut rehal_devices_t {
    note_threads(&devices);
    handle::new(devices)
}

/// The default device if there are no others.
pub fn options_of(specs: Vec<DeviceSpec>) -> DeviceOptions {
    if specs.is_empty() { DeviceOptions::default() } else { DeviceOptions::for_devices(specs) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_devices_open_for_plan(
    plan: *const rehal_plan_t,
    uri: rehal_string_t,
    devices: *mut *mut rehal_devices_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let out = out(devices)?;
        let spec = match uri.given() {
            Some(uri) => DeviceSpec::find(uri.text()?)?,
            None => DeviceSpec::default(),
        };
        let plan = handle::get(plan)?;
        plan.check_not_empty()?;
        *out = opened(DeviceOptions::for_plan(plan, spec).open()?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_devices_count(
    devices: *const rehal_devices_t,
    count: *mut usize,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { put(count, handle::get(devices)?.devices().len()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_devices_driver(
    devices: *const rehal_devices_t,
    index: usize,
    driver: *mut rehal_string_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { put(driver, rehal_string_t::lend(device(devices, index)?.info().driver.as_bytes())) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_devices_free(devices: *mut rehal_devices_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(devices) });
}
