//! Errors as objects, and the boundary that panics do not cross.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use rehal::{Error, Result, StatusCode};

use crate::fork::Call;
use crate::handle::{self, handle};
use crate::structs::rehal_string_t;

/// An error, with its texts.
pub struct Report {
    error: Error,
    context: String,
    advice: String,
    report: String,
}

handle!(rehal_error_t, Report, "error", b"error\0\0\0");

/// Runs the body of a function of the API: null for success. A panic becomes an error.
pub fn guard(body: impl FnOnce() -> Result<()>) -> *mut rehal_error_t {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let _call = Call::begin()?;
        body()
    }));
    match outcome.unwrap_or_else(|panic| Err(panicked(&*panic))) {
        Ok(()) => ptr::null_mut(),
        Err(error) => new(error),
    }
}

/// Runs the body of a function that cannot report an error, such as one that frees.
pub fn quietly(body: impl FnOnce()) {
    // The panic has been printed by its hook.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let _call = Call::begin_anywhere();
        body();
    }));
}

/// The outcome of a callback, which returns an error that it has made, or null.
///
/// # Safety
/// Null, or an error of [`rehal_error_create`] or of another function, which the callback gives away.
pub unsafe fn from_callback(error: *mut rehal_error_t) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the caller guarantees it.
    Err(unsafe { handle::take(error) }?.error)
}

fn new(error: Error) -> *mut rehal_error_t {
    let context = error.context_lines().join(", ");
    let advice = error.advice().map(ToString::to_string).unwrap_or_default();
    let report = error.report();
    handle::new(Report { error, context, advice, report })
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    Error::new(StatusCode::Internal, format!("panic: {text}")).advise("report this as a bug of rehal")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_error_create(code: u32, message: rehal_string_t) -> *mut rehal_error_t {
    // SAFETY: the caller's string is valid.
    let message = unsafe { message.bytes() }.unwrap_or_default();
    let code = StatusCode::from_u32(code).filter(|code| *code != StatusCode::Ok);
    new(Error::new(code.unwrap_or(StatusCode::Unknown), String::from_utf8_lossy(message)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_error_code(error: *const rehal_error_t) -> u32 {
    if error.is_null() {
        return StatusCode::Ok as u32;
    }
    // SAFETY: the caller's handle is valid.
    unsafe { handle::get(error) }.map_or(StatusCode::Internal as u32, |it| it.error.code() as u32)
}

/// # Safety
/// As for [`handle::get`].
unsafe fn text<'a>(error: *const rehal_error_t, of: impl FnOnce(&'a Report) -> &'a str) -> rehal_string_t {
    // SAFETY: the caller guarantees it.
    let text = unsafe { handle::get(error) }.map_or("", of);
    rehal_string_t::lend(text.as_bytes())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_error_message(error: *const rehal_error_t) -> rehal_string_t {
    // SAFETY: the caller's handle is valid.
    unsafe { text(error, |it| it.error.message()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_error_context(error: *const rehal_error_t) -> rehal_string_t {
    // SAFETY: the caller's handle is valid.
    unsafe { text(error, |it| &it.context) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_error_advice(error: *const rehal_error_t) -> rehal_string_t {
    // SAFETY: the caller's handle is valid.
    unsafe { text(error, |it| &it.advice) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_error_report(error: *const rehal_error_t) -> rehal_string_t {
    // SAFETY: the caller's handle is valid.
    unsafe { text(error, |it| &it.report) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_error_free(error: *mut rehal_error_t) {
    // SAFETY: the caller's handle is valid.
    quietly(|| unsafe { handle::free(error) });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_version() -> rehal_string_t {
    rehal_string_t::lend(rehal::VERSION.as_bytes())
}
