use rehal_base::Result;
use rehal_hal::{Buffer, BufferParams, BufferView, Device};
use rehal_modules::READABLE;
use rehal_modules::hal::Handle;
use rehal_vm::Value;

use super::tensors::MAPPING;

/// Replaces the buffers among `values` that the host cannot read as they are by copies that it can, and waits
/// for the copies.
pub(crate) fn to_host(values: &mut [Value], device: &Device) -> Result<()> {
    let wanted = BufferParams { usage: READABLE.usage | MAPPING, ..READABLE };
    let buffers: Vec<Buffer> = values.iter().filter_map(buffer_of).cloned().collect();
    let mut readable = rehal_modules::to_host(device, &buffers, &wanted)?.into_iter();
    for value in values {
        let Some(source) = buffer_of(value) else { continue };
        let Some(target) = readable.next() else { break };
        if !target.is_same(source) {
            *value = over(value, target)?;
        }
    }
    Ok(())
}

/// The buffer that a value is, or is a view of.
fn buffer_of(value: &Value) -> Option<&Buffer> {
    let Value::Ref(reference) = value else { return None };
    match reference.downcast_ref::<Handle<BufferView>>() {
        Some(view) => Some(view.0.buffer()),
        None => reference.downcast_ref::<Handle<Buffer>>().map(|buffer| &buffer.0),
    }
}

/// The same value over another buffer.
fn over(value: &Value, buffer: Buffer) -> Result<Value> {
    let view = match value {
        Value::Ref(reference) => reference.downcast_ref::<Handle<BufferView>>(),
        _ => None,
    };
    Ok(match view {
        Some(Handle(view)) => {
            let view = BufferView::new(buffer, view.shape(), view.element_type(), view.encoding())?;
            Handle::reference(view).into()
        }
        None => Handle::reference(buffer).into(),
    })
}
