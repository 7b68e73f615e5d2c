use rehal_base::Result;

use super::{Image, VulkanFormat, bare, flatbuffer, spirv};

impl Image {
    /// Reads an executable of the format named `format`. Fails with `NOT_FOUND` if the format is unknown, and
    /// with the error of the reader if the bytes are malformed or use an unsupported feature. Takes time and
    /// memory in proportion to the bytes.
    pub fn read(format: &str, bytes: &[u8]) -> Result<Self> {
        let format = VulkanFormat::from_name(format)?;
        let image = match format.is_bare() {
            true => bare::read(format, bytes),
            false => flatbuffer::read(format, bytes),
        };
        Ok(image?)
    }
}

/// The name of the format of `bytes`, or `None` if they are not a Vulkan executable. Flatbuffers are not
/// verified beyond what tells their formats apart; those of the format `vulkan-spirv-fb-ptr` are inferred to
/// be `vulkan-spirv-fb`, as in the reference.
pub fn infer(bytes: &[u8]) -> Option<&'static str> {
    let format = if bytes.starts_with(flatbuffer::MAGIC) {
        flatbuffer::infer(bytes)?
    } else if spirv::is_module(bytes) {
        match spirv::uses_physical_addressing(bytes) {
            true => VulkanFormat::BareAddresses,
            false => VulkanFormat::BareDescriptors,
        }
    } else {
        return None;
    };
    Some(format.name())
}
