//! Copies results to host-readable memory, like the reference's tools.
//!
//! [`rehal_hal::transfer`] needs fewer calls, but calls are recorded, and captures must equal those of the
//! reference. So one command buffer copies all results that are not host-local to new buffers, which the
//! values then own, even if the host could map the originals.

use rehal_base::Result;
use rehal_hal::{
    Binding, Buffer, BufferParams, BufferRef, BufferUsage, BufferView, Command, CommandBufferMode,
    CommandBufferParams, CommandCategories, Device, Fence, MemoryAccess, MemoryType, QUEUE_AFFINITY_ANY,
};
use rehal_modules::hal::Handle;
use rehal_vm::Value;

use super::tensors::MAPPING;

/// The memory type and usage that the reference's tools require of a result.
const READABLE: BufferParams = BufferParams {
    usage: BufferUsage::TRANSFER.union(MAPPING),
    access: MemoryAccess::READ.union(MemoryAccess::WRITE).union(MemoryAccess::DISCARD),
    memory_type: MemoryType::HOST_LOCAL.union(MemoryType::DEVICE_VISIBLE),
    affinity: QUEUE_AFFINITY_ANY,
    min_alignment: 0,
    file_offset: None,
};

/// Replaces the buffers among `values` that are not [`READABLE`] by readable copies, and waits for the
/// copies.
pub fn to_host(values: &mut [Value], device: &Device) -> Result<()> {
    if values.iter().filter_map(buffer_of).all(is_readable) {
        return Ok(());
    }
    let commands = device.create_command_buffer(CommandBufferParams {
        mode: CommandBufferMode::ONE_SHOT | CommandBufferMode::ALLOW_INLINE_EXECUTION,
        categories: CommandCategories::TRANSFER,
        ..CommandBufferParams::default()
    })?;
    commands.begin()?;
    let mut copies = Vec::new();
    for value in values {
        let Some(source) = buffer_of(value).filter(|buffer| !is_readable(buffer)) else { continue };
        let target = device.allocate_buffer(READABLE, source.allocation_size())?;
        let part = |buffer| BufferRef { binding: Binding::Direct(buffer), offset: 0, length: source.size() };
        commands.record(&Command::Copy { source: part(source), target: part(&target), flags: 0 })?;
        let copy = over(value, target)?;
        copies.push((value, copy));
    }
    commands.end()?;
    let done = Fence::create(device)?;
    let signals: Vec<_> = done.live_timepoints().collect();
    device.queue(QUEUE_AFFINITY_ANY).signal(&signals).execute(&commands, &[], 0)?;
    done.wait(None)?;
    for (value, copy) in copies {
        *value = copy;
    }
    Ok(())
}

fn is_readable(buffer: &Buffer) -> bool {
    buffer.params().memory_type.contains(READABLE.memory_type)
        && buffer.params().usage.contains(READABLE.usage)
}

/// The buffer of a value, or of its view.
fn buffer_of(value: &Value) -> Option<&Buffer> {
    let Value::Ref(reference) = value else { return None };
    match reference.downcast_ref::<Handle<BufferView>>() {
        Some(view) => Some(view.0.buffer()),
        None => reference.downcast_ref::<Handle<Buffer>>().map(|buffer| &buffer.0),
    }
}

/// The same value with another buffer.
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

#[cfg(test)]
mod tests {
    use super::*;
    use rehal_base::{ElementType, Numerical};
    use rehal_hal::{Encoding, WHOLE_BUFFER, transfer};
    use rehal_local::LocalSync;

    #[test]
    fn results_that_are_not_host_local_are_copied_and_others_are_kept() {
        let device = LocalSync::create(rehal_local::executable::Plugins::default());
        let buffer = |memory_type, bytes: &[u8]| {
            let params = BufferParams { memory_type, ..READABLE };
            let buffer = device.allocate_buffer(params, bytes.len() as u64).unwrap();
            transfer::write(&buffer, 0, bytes).unwrap();
            buffer
        };
        let view = |buffer| {
            let element_type = ElementType::from_parts(Numerical::SIGNED, 8);
            let view = BufferView::new(buffer, &[4], element_type, Encoding::DENSE_ROW_MAJOR);
            Value::from(Handle::reference(view.unwrap()))
        };
        let kept = buffer(READABLE.memory_type, &[1, 2]);
        let (hidden, viewed) =
            (buffer(MemoryType::DEVICE_LOCAL, &[3, 4, 5]), buffer(MemoryType::DEVICE_LOCAL, &[6, 7, 8, 9]));
        let mut values = [
            Handle::reference(kept.clone()).into(),
            Value::I32(5),
            Handle::reference(hidden.clone()).into(),
            view(viewed),
        ];
        to_host(&mut values, &device).unwrap();
        let bytes = |value| transfer::to_vec(buffer_of(value).unwrap(), 0, WHOLE_BUFFER).unwrap();
        assert!(buffer_of(&values[0]).unwrap().is_same(&kept));
        assert!(matches!(values[1], Value::I32(5)));
        assert_eq!((bytes(&values[2]), bytes(&values[3])), (vec![3, 4, 5], vec![6, 7, 8, 9]));
        assert!(!buffer_of(&values[2]).unwrap().is_same(&hidden));
        assert!(
            values
                .iter()
                .filter_map(buffer_of)
                .all(|it| it.params().memory_type.contains(MemoryType::HOST_LOCAL))
        );
        let Value::Ref(reference) = &values[3] else { panic!("not a reference") };
        assert_eq!(reference.downcast_ref::<Handle<BufferView>>().unwrap().0.shape(), [4]);
    }
}
