use std::path::PathBuf;

use rehal_formats::Function;
use rehal_formats::vulkan::{DispatchAbi, Image, check, infer};

/// The executables of the fixtures.
pub fn executables() -> Vec<(PathBuf, Vec<u8>)> {
    let directory = testing::fixtures().join("vulkan/executables");
    let mut paths: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 10, "{paths:?}");
    paths.into_iter().map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect()
}

pub fn named(name: &str) -> Vec<u8> {
    std::fs::read(testing::fixtures().join("vulkan/executables").join(name)).unwrap()
}

#[test]
fn every_executable_can_be_read() {
    for (path, bytes) in executables() {
        let format = infer(&bytes).unwrap();
        let image = Image::read(format, &bytes).map_err(|error| error.report());
        assert!(image.is_ok(), "{}: {image:?}", path.display());
        assert!(check::exercise(&bytes) > 0, "{}", path.display());
        let name = path.to_string_lossy();
        let expected = match () {
            () if name.ends_with(".addresses.vk1") => "vulkan-spirv-bda-v1",
            () if name.ends_with(".vk1") => "vulkan-spirv-fb",
            () => "vulkan-spirv-raw",
        };
        assert_eq!(format, expected, "{name}");
    }
}

/// The signatures of functions, which depend neither on the ABI nor on the module that a function is in.
type Signature = (String, Option<[u32; 3]>, Option<u16>, Option<u16>);

fn signatures(image: &Image) -> Vec<Signature> {
    let functions = image.functions().into_iter();
    let signature = |it: Function| {
        let bindings = it.binding_count();
        (it.name, it.workgroup_size, bindings, it.constant_count)
    };
    functions.map(signature).collect()
}

#[test]
fn both_abis_have_the_same_functions() {
    for name in ["affine", "constants", "entry_points", "indirect", "workgroups"] {
        let read = |suffix: &str, format: &str| {
            Image::read(format, &named(&format!("{name}.{suffix}.vk1"))).unwrap()
        };
        let descriptors = read("descriptors", "vulkan-spirv-fb");
        let addresses = read("addresses", "vulkan-spirv-bda-v1");
        assert_eq!(signatures(&descriptors), signatures(&addresses), "{name}");
        assert!(addresses.pipelines.iter().all(|it| it.dispatch.abi() == DispatchAbi::Addresses));
    }
}

#[test]
fn layouts_are_those_of_the_source() {
    let image = Image::read("vulkan-spirv-fb", &named("constants.descriptors.vk1")).unwrap();
    let [pipeline] = &image.pipelines[..] else { panic!("one function") };
    assert_eq!((pipeline.constant_count, pipeline.binding_count), (4, 1));
    let entry = image.entry_point(pipeline).unwrap();
    assert_eq!(entry.push_constant_bytes, 16);
    let [resource] = &entry.resources[..] else { panic!("one binding") };
    assert!(resource.access.writes && !resource.access.reads);
    assert!(pipeline.debug.is_some());
}

#[test]
fn a_bare_module_has_the_signature_of_its_executable() {
    for index in 0..2 {
        let executable =
            Image::read("vulkan-spirv-fb", &named(&format!("add4_swapped.{index}.vk1"))).unwrap();
        let bare = Image::read("vulkan-spirv-raw", &named(&format!("add4_swapped.{index}.spv"))).unwrap();
        assert_eq!(signatures(&bare), signatures(&executable));
    }
}

/// The executables in a compiled module, in order: each has a header with its size.
pub fn embedded(module: &str) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(testing::fixtures().join("vulkan/modules").join(module)).unwrap();
    let mut found = Vec::new();
    let mut rest = &bytes[..];
    while let Some(at) = rest.windows(4).position(|it| it == b"VKE1") {
        let size = u64::from_le_bytes(rest[at + 8..at + 16].try_into().unwrap()) as usize;
        found.push(rest[at..at + 64 + size].to_vec());
        rest = &rest[at + 64 + size..];
    }
    found
}
