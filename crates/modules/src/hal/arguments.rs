//! Accessors for the arguments of a call.

use std::borrow::Cow;

use rehal_base::{Error, Range, Result};
use rehal_vm::{Call, Tuple};

use super::handle::{Handle, HandleType};

/// The handle at `index`.
#[inline]
pub(super) fn handle<'c, T: HandleType>(call: &'c Call<'_>, index: usize) -> Result<&'c T> {
    Ok(&call.object::<Handle<T>>(index)?.0)
}

/// The handle at `index`, or `None` for null.
#[inline]
pub(super) fn optional_handle<'c, T: HandleType>(call: &'c Call<'_>, index: usize) -> Result<Option<&'c T>> {
    Ok(call.optional::<Handle<T>>(index)?.map(|handle| &handle.0))
}

/// The handle in `column` of a tuple.
#[inline]
pub(super) fn tuple_handle<'c, T: HandleType>(tuple: Tuple<'c>, column: usize) -> Result<&'c T> {
    Ok(&tuple.object::<Handle<T>>(column)?.0)
}

/// The handle in `column` of a tuple, or `None` for null.
#[inline]
pub(super) fn optional_tuple_handle<'c, T: HandleType>(
    tuple: Tuple<'c>,
    column: usize,
) -> Result<Option<&'c T>> {
    Ok(tuple.optional::<Handle<T>>(column)?.map(|handle| &handle.0))
}

/// All bytes of the byte buffer at `index`: zero-copy if constant, else copied.
pub(super) fn bytes<'c>(call: &'c Call<'_>, index: usize) -> Result<Cow<'c, [u8]>> {
    bytes_of(call.object(index)?)
}

/// Like [`bytes`]; empty for null.
pub(super) fn optional_bytes<'c>(call: &'c Call<'_>, index: usize) -> Result<Cow<'c, [u8]>> {
    call.optional(index)?.map_or(Ok(Cow::Borrowed(&[])), bytes_of)
}

/// The text in the byte buffer at `index`.
pub(super) fn text<'c>(call: &'c Call<'_>, index: usize) -> Result<Cow<'c, str>> {
    let wrong = || Error::invalid_argument(format!("argument {index}: invalid UTF-8"));
    match bytes(call, index)? {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| wrong()),
        Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|_| wrong()),
    }
}

/// A range of a byte buffer: zero-copy if constant, else copied.
pub(super) fn part_of(buffer: &rehal_vm::Buffer, offset: u64, length: u64) -> Result<Cow<'_, [u8]>> {
    // A range whose end overflows exceeds any buffer: the memory reports it.
    buffer.memory().bytes(Range { offset, length })
}

fn bytes_of(buffer: &rehal_vm::Buffer) -> Result<Cow<'_, [u8]>> {
    buffer.memory().bytes(buffer.memory().whole())
}
