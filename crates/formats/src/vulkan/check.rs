//! The entry point for fuzzing: all code that reads untrusted bytes.

use std::ops::RangeInclusive;

use super::spirv::{Feature, ShaderSupport};
use super::{Dispatch, Image, VulkanFormat, infer};

/// A device that supports everything, or nothing.
struct Device(bool);

impl ShaderSupport for Device {
    fn supports(&self, _feature: Feature) -> bool {
        self.0
    }

    fn spirv_version(&self) -> (u8, u8) {
        (1, 5)
    }

    fn subgroup_sizes(&self) -> Option<RangeInclusive<u32>> {
        self.0.then_some(1..=128)
    }
}

/// Reads `bytes` as an executable of each format, and checks that the parts of an image are consistent.
/// Returns the number of formats as which they can be read.
pub fn exercise(bytes: &[u8]) -> usize {
    let inferred = infer(bytes);
    let images = VulkanFormat::ALL.into_iter().filter_map(|format| Image::read(format.name(), bytes).ok());
    let mut count = 0;
    for image in images {
        count += 1;
        assert!(inferred.is_some(), "an executable that can be read has a format");
        check(&image);
    }
    count
}

fn check(image: &Image) {
    let functions = image.functions();
    assert_eq!(functions.len(), image.pipelines.len());
    for (function, pipeline) in functions.iter().zip(&image.pipelines) {
        let entry = image.entry_point(pipeline).expect("a pipeline's entry point exists");
        let layout = &image.pipeline_layouts[pipeline.layout];
        assert_eq!(function.name, entry.name);
        assert_eq!(function.binding_count(), Some(pipeline.binding_count));
        assert_eq!(pipeline.dispatch.abi(), image.format.dispatch_abi());
        assert!(u64::from(entry.push_constant_bytes) <= layout.push_constant_bytes());
        match &pipeline.dispatch {
            Dispatch::Descriptors(slots) => {
                assert_eq!(slots.len(), usize::from(pipeline.binding_count));
                assert_eq!(layout.push_constant_bytes() / 4, u64::from(pipeline.constant_count));
                for slot in slots.iter() {
                    let set = &image.set_layouts[layout.sets[slot.set as usize]];
                    assert!(set.bindings.iter().any(|b| b.binding == slot.binding && slot.element < b.count));
                }
                for resource in &entry.resources {
                    let at = |slot: &&super::DescriptorSlot| (slot.set, slot.binding);
                    assert!(slots.iter().any(|slot| at(&slot) == (resource.set, resource.binding)));
                }
            }
            Dispatch::Addresses(addresses) => {
                assert!(layout.sets.is_empty());
                assert!(addresses.end() <= layout.push_constant_bytes());
                assert!(entry.resources.is_empty());
            }
        }
    }
    assert!(image.check_device(&Device(true)).is_ok() || image.check_device(&Device(false)).is_err());
    let _ = image.check_constants(&[1, 2, 3]);
}
