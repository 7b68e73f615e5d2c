use std::sync::Arc;

use ash::vk;
use rehal_base::{Error, Remedy, Result};

use crate::gpu::Gpu;
use rehal_formats::vulkan::{AddressLayout, ROOT_BYTES, Root, SubgroupSizes};

/// Advice about code for other subgroups.
const FOR_THIS_DEVICE: &str = "compile it for a target with the subgroup size of this device";

/// A compute pipeline, which an executable owns.
pub(crate) struct Pipeline {
    pub(super) handle: vk::Pipeline,
    pub(super) layout: Arc<Layout>,
    pub(super) slots: Slots,
    pub(super) workgroup_size: [u32; 3],
    pub(super) name: String,
    /// The sizes of subgroups that its code is made for, if the device runs it with another.
    pub(super) mismatch: Option<SubgroupSizes>,
}

/// The layout of pipelines, which share it.
pub(crate) struct Layout {
    pub(super) handle: vk::PipelineLayout,
    /// The layouts of its descriptor sets, by set.
    pub(super) set_layouts: Vec<vk::DescriptorSetLayout>,
    /// The set whose descriptors are pushed, if they are.
    pub(super) pushed_set: Option<u32>,
    /// Its descriptors, in the order of the bindings of a dispatch.
    pub(super) slots: Vec<Slot>,
}

/// Where a pipeline expects its bindings.
pub(crate) enum Slots {
    /// A descriptor for each binding: those of the layout.
    Descriptors,
    /// A table of addresses.
    Addresses(Addresses),
}

/// The descriptor of a binding.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) set: u32,
    pub(crate) binding: u32,
    pub(crate) element: u32,
    pub(crate) kind: vk::DescriptorType,
    /// Required alignment of its buffer's offset, in bytes.
    pub(crate) alignment: u64,
    /// The most bytes that it can have.
    pub(crate) largest_range: u64,
}

/// Where a pipeline expects addresses.
pub(crate) struct Addresses(pub(super) AddressLayout);

impl Pipeline {
    /// The pipeline.
    pub(crate) fn handle(&self) -> vk::Pipeline {
        self.handle
    }

    /// Its layout.
    pub(crate) fn layout(&self) -> vk::PipelineLayout {
        self.layout.handle
    }

    /// Where it expects its bindings.
    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Its descriptors, in the order of the bindings of a dispatch.
    pub(crate) fn descriptors(&self) -> &[Slot] {
        &self.layout.slots
    }

    /// The layouts of its descriptor sets.
    pub(crate) fn set_layouts(&self) -> &[vk::DescriptorSetLayout] {
        &self.layout.set_layouts
    }

    /// The set whose descriptors are pushed into command buffers, if they are.
    pub(crate) fn pushed_set(&self) -> Option<u32> {
        self.layout.pushed_set
    }

    /// The workgroup size, with specialization constants.
    pub(crate) fn workgroup_size(&self) -> [u32; 3] {
        self.workgroup_size
    }

    /// The offset of the first constant in push constants.
    pub(crate) fn constant_offset(&self) -> u32 {
        match &self.slots {
            Slots::Descriptors => 0,
            Slots::Addresses(addresses) => addresses.0.constant_offset,
        }
    }

    /// The number of descriptors of a kind.
    pub(crate) fn descriptor_count(&self, kind: vk::DescriptorType) -> u32 {
        self.descriptors().iter().filter(|slot| slot.kind == kind).count() as u32
    }

    /// Says that the results are likely wrong, or fails, as the device's options say, if the code is made for
    /// other subgroups than the device has.
    pub(crate) fn check_subgroups(&self, gpu: &Gpu) -> Result<()> {
        let Some(sizes) = &self.mismatch else { return Ok(()) };
        let message = format!(
            "function '{}' was compiled for subgroups of {sizes} invocations, and its results are wrong on '{}', whose subgroups have {}",
            self.name.escape_debug(),
            gpu.physical().name(),
            gpu.physical().subgroup.size
        );
        gpu.mismatched(message, FOR_THIS_DEVICE)
    }

    /// Fails if a dispatch asks for local memory of a size that the kernel does not know.
    pub(crate) fn check_local_memory(&self, bytes: u32) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        Err(Error::unimplemented(format!(
            "function '{}' was dispatched with {bytes} bytes of dynamic local memory, which Vulkan does not have",
            self.name.escape_debug()
        )))
    }
}

/// The bytes of a descriptor for `length` bytes: kernels access whole words, which allocations have, and a
/// range of nothing is not allowed.
pub(crate) fn descriptor_range(length: u64) -> u64 {
    length.max(4).next_multiple_of(4)
}

impl Slot {
    /// Fails if a descriptor cannot have `length` bytes from `offset` of a buffer on. `beyond_limits` decides
    /// if the device only states that it cannot.
    pub(crate) fn check(
        &self,
        offset: u64,
        length: u64,
        beyond_limits: impl FnOnce(String, Remedy) -> Result<()>,
    ) -> Result<()> {
        if length != 0 && !offset.is_multiple_of(self.alignment) {
            return Err(Error::invalid_argument(format!(
                "binding {} of set {} begins at {offset}, which is not a multiple of {} bytes, as the device requires",
                self.binding, self.set, self.alignment
            )));
        }
        if descriptor_range(length) <= self.largest_range {
            return Ok(());
        }
        let message = format!(
            "binding {} of set {} has {length} bytes; the device states a limit of {} for descriptors",
            self.binding, self.set, self.largest_range
        );
        let advice = Remedy::CompileWith {
            purpose: "addresses of buffers, which have no such limit".into(),
            flags: "--iree-hal-target-device=vulkan --iree-vulkan-dispatch-abi=bda".into(),
        };
        // Uniform buffers are bounded by their limit, and so is what 32 bits do not address.
        if self.kind != vk::DescriptorType::STORAGE_BUFFER || length > u64::from(u32::MAX) {
            return Err(Error::out_of_range(message).advise(advice));
        }
        beyond_limits(message, advice)
    }
}

impl Addresses {
    /// The offset of the root in push constants.
    pub(crate) fn root_offset(&self) -> u32 {
        self.0.root_offset
    }

    /// The root for a table of bindings.
    pub(crate) fn root(&self, bindings: u64) -> [u8; ROOT_BYTES as usize] {
        Root { bindings, ..Root::default() }.to_bytes()
    }

    /// Fails if the kernel does not accept this range for a binding.
    pub(crate) fn check(&self, ordinal: usize, address: u64, length: u64) -> Result<()> {
        let Some(requirement) = self.0.requirements.get(ordinal) else { return Ok(()) };
        if !address.is_multiple_of(requirement.alignment.into()) {
            return Err(Error::invalid_argument(format!(
                "the address 0x{address:x} is not a multiple of {} bytes, as the kernel requires",
                requirement.alignment
            )));
        }
        if length < requirement.length {
            return Err(Error::out_of_range(format!(
                "{length} bytes are bound; the kernel requires {}",
                requirement.length
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_have_whole_words_within_the_limit() {
        let slot = |largest_range| Slot {
            set: 0,
            binding: 0,
            element: 0,
            kind: vk::DescriptorType::STORAGE_BUFFER,
            alignment: 16,
            largest_range,
        };
        let refused = |message: String, _: Remedy| Err(Error::out_of_range(message));
        // Of GPUs with 32-bit ranges, where it is not a multiple of a word.
        let limit = u64::from(u32::MAX);
        slot(limit).check(0, limit - 3, refused).unwrap();
        for length in limit - 2..limit + 2 {
            let error = slot(limit).check(0, length, refused).unwrap_err();
            assert_eq!(error.code(), rehal_base::StatusCode::OutOfRange, "{length}");
        }
        slot(1 << 27).check(0, (1 << 27) - 1, refused).unwrap();
        assert!(slot(1 << 27).check(16, (1 << 27) + 1, refused).is_err());
        assert!(slot(limit).check(8, 4, refused).is_err());
        let served = |_, _| Ok(());
        slot(1 << 27).check(16, (1 << 27) + 1, served).unwrap();
        assert!(slot(1 << 27).check(0, limit + 1, served).is_err());
        let uniform = Slot { kind: vk::DescriptorType::UNIFORM_BUFFER, ..slot(1 << 16) };
        assert!(uniform.check(0, (1 << 16) + 1, served).is_err());
        assert_eq!([0, 1, 4, 5].map(descriptor_range), [4, 4, 4, 8]);
    }
}
