use rehal_base::{ElementType, Error, Result};
use rehal_hal::{Buffer, BufferView, Encoding};
use rehal_vm::Call;
use smallvec::SmallVec;

use super::HalState;
use super::arguments::{handle, text, tuple_handle};
use super::buffer::part_of;
use super::handle::Handle;

/// Limit on the dimensions of a shape (source: the stack limit of `iree/modules/hal/module.c`).
const RANK_LIMIT: usize = 128;

/// Limit on the values of one trace.
const TRACE_LIMIT: usize = 128;

/// A shape of a few dimensions.
pub(super) type Shape = SmallVec<[u64; 8]>;

/// The dimensions in the span at `index`.
pub(super) fn shape(call: &Call<'_>, index: usize) -> Result<Shape> {
    let span = call.span(index)?;
    if span.len() > RANK_LIMIT {
        let rank = span.len();
        return Err(Error::resource_exhausted(format!(
            "shape of {rank} dimensions exceeds the limit of {RANK_LIMIT}"
        )));
    }
    span.tuples().map(|tuple| tuple.u64(0)).collect()
}

/// `(buffer, offset, length, element type, encoding, [dim]) -> view`
pub(super) fn create(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let buffer: &Buffer = handle(call, 0)?;
    let (offset, length) = (call.u64(1)?, call.u64(2)?);
    let buffer = if offset == 0 && length == buffer.size() {
        buffer.clone()
    } else {
        part_of(buffer, offset, length)?
    };
    let element_type = ElementType(call.u32(3)?);
    let view = BufferView::new(buffer, &shape(call, 5)?, element_type, Encoding(call.u32(4)?))?;
    call.push(Handle::reference(view));
    Ok(())
}

/// `(view) -> buffer`
pub(super) fn buffer(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let buffer = view(call)?.buffer().clone();
    call.push(Handle::reference(buffer));
    Ok(())
}

/// `(view, index) -> dim`: 0 if the view has no such dimension.
pub(super) fn dim(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let index = call.u32(1)? as usize;
    let dim = view(call)?.shape().get(index).copied().unwrap_or(0);
    call.push(dim as i64);
    Ok(())
}

/// `(view) -> element type`
pub(super) fn element_type(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let ElementType(element_type) = view(call)?.element_type();
    call.push(element_type as i32);
    Ok(())
}

/// `(view) -> encoding`
pub(super) fn encoding_type(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let Encoding(encoding) = view(call)?.encoding();
    call.push(encoding as i32);
    Ok(())
}

/// `(view) -> rank`
pub(super) fn rank(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let rank = view(call)?.shape().len();
    call.push(rank as i32);
    Ok(())
}

/// `(key, [view])`: sends values to the trace sink.
pub(super) fn trace(state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let Some(sink) = &state.trace else { return Ok(()) };
    let key = text(call, 0)?;
    let span = call.span(1)?;
    if span.len() > TRACE_LIMIT {
        return Err(Error::resource_exhausted("too many buffer views for a single trace call"));
    }
    let views = span.tuples().map(|tuple| tuple_handle(tuple, 0)).collect::<Result<Vec<_>>>()?;
    sink(&key, &views)
}

fn view<'c>(call: &'c Call<'_>) -> Result<&'c BufferView> {
    handle(call, 0)
}
