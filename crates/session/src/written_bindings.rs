//! Which bindings the functions of executables write, of formats that tell.

use rehal_replay::{ExecutableRecord, WrittenBindings};
use rehal_vulkan::executable::format::{Dispatch, Image, Pipeline};

/// Which bindings the functions of an executable may write. Nothing is known of formats other than those of SPIR-V, of malformed
/// executables, and of kernels that may use addresses of buffers.
///
/// Takes time in proportion to the bytes of the executable.
pub fn written_bindings(executable: &ExecutableRecord<'_>) -> WrittenBindings {
    let image = std::str::from_utf8(executable.format)
        .ok()
        .and_then(|format| Image::read(format, executable.data).ok());
    image.map_or_else(WrittenBindings::new, |image| {
        image.pipelines.iter().map(|pipeline| of_pipeline(&image, pipeline)).collect()
    })
}

fn of_pipeline(image: &Image, pipeline: &Pipeline) -> Option<Vec<bool>> {
    /// `PhysicalStorageBufferAddresses`.
    const ADDRESSES: u32 = 5347;
    let Dispatch::Descriptors(slots) = &pipeline.dispatch else { return None };
    if image.shaders.get(pipeline.shader)?.capabilities().contains(&ADDRESSES) {
        return None;
    }
    let resources = &image.entry_point(pipeline)?.resources;
    let written = slots.iter().map(|slot| {
        let mut at_place = resources.iter().filter(|it| (it.set, it.binding) == (slot.set, slot.binding));
        // The entry point uses no other place.
        at_place.any(|it| it.access.writes)
    });
    Some(written.collect())
}
