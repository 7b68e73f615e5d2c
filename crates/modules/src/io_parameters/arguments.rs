use rehal_base::{Error, Range, Result};
use rehal_vm::{Buffer, Call};

use super::Span;

/// Bytes of a key table entry: offset and length in the key data, 32 bits each.
const KEY_BYTES: u64 = 8;

/// Bytes of a span: offset in the parameter, offset in the buffer and length, 64 bits each.
const SPAN_BYTES: u64 = 24;

/// The spans in the three byte buffers from argument `first` on: key table, key data, spans.
pub(super) fn spans(call: &Call<'_>, first: usize) -> Result<Vec<Span>> {
    let (table, data) = (call.object::<Buffer>(first)?, call.object::<Buffer>(first + 1)?);
    let spans = call.object::<Buffer>(first + 2)?;
    if !spans.length().is_multiple_of(SPAN_BYTES) {
        return Err(Error::invalid_argument(format!(
            "the size of the span table, {} bytes, is not a multiple of {SPAN_BYTES}",
            spans.length()
        )));
    }
    let count = spans.length() / SPAN_BYTES;
    // Cannot overflow: the spans take three times as much.
    if table.length() < count * KEY_BYTES {
        return Err(Error::invalid_argument(format!(
            "key table of {} bytes does not match {count} spans",
            table.length()
        )));
    }
    (0..count).map(|index| span(table, data, spans, index)).collect()
}

fn span(table: &Buffer, data: &Buffer, spans: &Buffer, index: u64) -> Result<Span> {
    let word = |at: u64| spans.memory().load(index * SPAN_BYTES + at).map(u64::from_le_bytes);
    let half = |at: u64| table.memory().load(index * KEY_BYTES + at).map(u32::from_le_bytes);
    Ok(Span {
        name: text(data, half(0)?.into(), half(4)?.into())?,
        parameter_offset: word(0)?,
        buffer_offset: word(8)?,
        length: word(16)?,
    })
}

/// The scope in the byte buffer at `index`; null is the unnamed scope.
pub(super) fn scope(call: &Call<'_>, index: usize) -> Result<String> {
    match call.optional::<Buffer>(index)? {
        Some(buffer) => text(buffer, 0, buffer.length()),
        None => Ok(String::new()),
    }
}

fn text(buffer: &Buffer, offset: u64, length: u64) -> Result<String> {
    match std::str::from_utf8(&buffer.memory().bytes(Range { offset, length })?) {
        Ok(text) => Ok(text.to_string()),
        Err(_) => Err(Error::invalid_argument("parameter key or scope: invalid UTF-8")),
    }
}
