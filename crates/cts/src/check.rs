//! Assertions of tests. They fail with an error that names their location instead of a panic, so that a test
//! reads as a list of calls with `?`.

use std::fmt::Debug;
use std::panic::Location;

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{Buffer, BufferUsage};

/// The codes for a range, a size or a slot out of bounds.
pub(crate) const RANGE: &[StatusCode] = &[StatusCode::OutOfRange, StatusCode::InvalidArgument];
/// The codes for an invalid argument.
pub(crate) const ARGUMENT: &[StatusCode] = &[StatusCode::InvalidArgument, StatusCode::OutOfRange];
/// The codes for a usage or access that a buffer or a file does not allow.
pub(crate) const PERMISSION: &[StatusCode] = &[StatusCode::PermissionDenied];
/// The codes for a call in the wrong state.
pub(crate) const STATE: &[StatusCode] = &[StatusCode::FailedPrecondition];

/// Asserts that `found` equals `expected`.
#[track_caller]
pub(crate) fn equal<T: PartialEq + Debug>(what: &str, found: T, expected: T) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    wrong(format!("{what}: found {found:?}, expected {expected:?}"))
}

/// Asserts a condition.
#[track_caller]
pub(crate) fn holds(what: &str, is_true: bool) -> Result<()> {
    if is_true {
        return Ok(());
    }
    wrong(format!("not true: {what}"))
}

/// Asserts that two byte strings are equal; the error has the first difference.
#[track_caller]
pub(crate) fn same_bytes(what: &str, found: &[u8], expected: &[u8]) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    if found.len() != expected.len() {
        return wrong(format!("{what}: found {} bytes, expected {}", found.len(), expected.len()));
    }
    let at = found.iter().zip(expected).position(|(a, b)| a != b).unwrap_or_default();
    let count = found.iter().zip(expected).filter(|(a, b)| a != b).count();
    wrong(format!(
        "{what}: byte {at} is {:#04x}, expected {:#04x} ({count} of {} bytes differ)",
        found[at],
        expected[at],
        found.len()
    ))
}

/// Asserts that a call failed with one of `codes`.
#[track_caller]
pub(crate) fn refused<T>(what: &str, result: Result<T>, codes: &[StatusCode]) -> Result<()> {
    match result {
        Err(error) if codes.contains(&error.code()) => Ok(()),
        Err(error) => wrong(format!("{what}: failed with {error}, expected one of {codes:?}")),
        Ok(_) => wrong(format!("{what}: succeeded, expected one of {codes:?}")),
    }
}

/// Asserts that a usage which a buffer was not created with is rejected; if the device grants it to every
/// buffer, it must work.
#[track_caller]
pub(crate) fn enforced<T>(what: &str, buffer: &Buffer, usage: BufferUsage, result: Result<T>) -> Result<()> {
    if buffer.params().usage.contains(usage) {
        return result.map(drop);
    }
    refused(what, result, PERMISSION)
}

/// The failure of a test.
#[track_caller]
pub(crate) fn wrong<T>(message: String) -> Result<T> {
    let place = Location::caller();
    Err(Error::new(StatusCode::Internal, message).context(format!("{}:{}", place.file(), place.line())))
}
