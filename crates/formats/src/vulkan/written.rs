//! Which bindings the functions of an executable may write.

use super::{Dispatch, Image, Pipeline};

/// Which bindings the functions of an executable may write. Nothing is known of malformed executables, and of
/// kernels that may use addresses of buffers.
pub fn written_bindings(format: &str, data: &[u8]) -> Vec<Option<Vec<bool>>> {
    Image::read(format, data).map_or_else(
        |_| Vec::new(),
        |image| image.pipelines.iter().map(|pipeline| written_by(&image, pipeline)).collect(),
    )
}

/// Which functions of an executable get the addresses of their bindings. Empty for malformed executables.
pub fn binds_addresses(format: &str, data: &[u8]) -> Vec<bool> {
    let binds = |it: &Pipeline| !matches!(it.dispatch, Dispatch::Descriptors(_));
    Image::read(format, data).map_or_else(|_| Vec::new(), |image| image.pipelines.iter().map(binds).collect())
}

/// Which bindings a pipeline may write; `None` if it may use addresses of buffers.
pub(super) fn written_by(image: &Image, pipeline: &Pipeline) -> Option<Vec<bool>> {
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
