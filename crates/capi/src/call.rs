//! Calls of functions.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rehal::program::{PendingCall, Program, Value};
use rehal::{Error, Result};

use crate::error::{guard, quietly, rehal_error_t};
use crate::handle::{self, handle};
use crate::program::rehal_function_t;
use crate::structs::{list, out, put};
use crate::value::{self, rehal_value_t};

/// A call, until its results are taken. Its program is dropped after it.
pub struct Calling {
    call: Mutex<Option<PendingCall>>,
    program: Arc<Program>,
    result_count: usize,
}

handle!(rehal_call_t, Calling, "call", b"call\0\0\0\0");

pub const REHAL_WAIT_FOREVER: u64 = u64::MAX;

/// The duration of a timeout in nanoseconds; `None` for one that never ends.
pub fn timeout(timeout_ns: u64) -> Option<Duration> {
    (timeout_ns != REHAL_WAIT_FOREVER).then(|| Duration::from_nanos(timeout_ns))
}

/// # Safety
/// As the header says of inputs.
unsafe fn values(inputs: *const *const rehal_value_t, count: usize) -> Result<Vec<Value>> {
    // SAFETY: the caller guarantees it.
    unsafe {
        list(inputs, count, "inputs")?.iter().map(|input| Ok(handle::get(*input)?.value.clone())).collect()
    }
}

/// Sets the places to NULL and tells the number of results, before anything runs or is taken.
///
/// # Safety
/// As the header says of results.
unsafe fn prepare_places(
    found: usize,
    places: *mut *mut rehal_value_t,
    capacity: usize,
    count: *mut usize,
) -> Result<()> {
    // SAFETY: the caller guarantees it.
    unsafe {
        put(count, found)?;
        if !places.is_null() {
            (0..capacity).for_each(|index| places.add(index).write(std::ptr::null_mut()));
        }
    }
    if found > capacity {
        let message = format!("the function has {found} results, and there are places for {capacity}");
        return Err(Error::out_of_range(message));
    }
    if found > 0 && places.is_null() {
        return Err(Error::invalid_argument("the place for the results is NULL"));
    }
    Ok(())
}

/// # Safety
/// As the header says of results, of which there are places.
unsafe fn give(
    program: &Program,
    mut results: Vec<Value>,
    places: *mut *mut rehal_value_t,
    capacity: usize,
) -> Result<()> {
    // SAFETY: the caller guarantees it.
    unsafe {
        program.to_host(&mut results)?;
        if results.len() > capacity {
            return Err(Error::out_of_range("the function has returned more results than it declares"));
        }
        for (index, result) in results.into_iter().enumerate() {
            places.add(index).write(value::new(result));
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_function_call(
    function: *const rehal_function_t,
    inputs: *const *const rehal_value_t,
    input_count: usize,
    results: *mut *mut rehal_value_t,
    result_capacity: usize,
    result_count: *mut usize,
) -> *mut rehal_error_t {
    // SAFETY: what the caller gives is valid, as the header says.
    guard(|| unsafe {
        put(result_count, 0)?;
        let callable = handle::get(function)?;
        prepare_places(callable.function.result_kinds().len(), results, result_capacity, result_count)?;
        let found = callable.program.call(&callable.function, values(inputs, input_count)?)?;
        give(&callable.program, found, results, result_capacity)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_function_start(
    function: *const rehal_function_t,
    inputs: *const *const rehal_value_t,
    input_count: usize,
    call: *mut *mut rehal_call_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let out = out(call)?;
        let callable = handle::get(function)?;
        let started = callable.program.start(&callable.function, values(inputs, input_count)?)?;
        let call = Mutex::new(Some(started));
        let result_count = callable.function.result_kinds().len();
        *out = handle::new(Calling { call, program: callable.program.clone(), result_count });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_call_wait(
    call: *const rehal_call_t,
    timeout_ns: u64,
    is_done: *mut bool,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        put(is_done, false)?;
        let mut call = handle::get(call)?.call.lock().unwrap_or_else(PoisonError::into_inner);
        let call = call.as_mut().ok_or_else(over)?;
        put(is_done, call.wait(timeout(timeout_ns))?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_call_results(
    call: *const rehal_call_t,
    results: *mut *mut rehal_value_t,
    result_capacity: usize,
    result_count: *mut usize,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        put(result_count, 0)?;
        let calling = handle::get(call)?;
        prepare_places(calling.result_count, results, result_capacity, result_count)?;
        let call = calling.call.lock().unwrap_or_else(PoisonError::into_inner).take();
        let found = call.ok_or_else(over)?.results()?;
        give(&calling.program, found, results, result_capacity)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_call_free(call: *mut rehal_call_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(call) });
}

fn over() -> Error {
    Error::failed_precondition("the results of the call have been taken")
}
