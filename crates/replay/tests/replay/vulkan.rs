//! The reports of this crate and the Vulkan driver's readers on captures of the pinned release on Vulkan,
//! without a device.

use rehal_formats::vulkan::{Dispatch, Image, infer};
use rehal_hal::FunctionInfo;
use rehal_replay::{Plan, PlanOptions};

/// The plans of the captures of the fixtures, with their names.
fn plans() -> Vec<(String, Plan)> {
    let plan = |path: std::path::PathBuf| {
        let bytes = std::fs::read(&path).unwrap();
        (path.display().to_string(), Plan::compile(bytes, PlanOptions::default()).unwrap())
    };
    testing::vulkan_captures().into_iter().map(plan).collect()
}

#[test]
fn executables_have_the_functions_that_the_release_reflected() {
    let mut count = 0;
    for (name, plan) in plans() {
        for record in plan.executables() {
            let format = str::from_utf8(record.format).unwrap();
            assert_eq!(infer(record.data), Some(format), "{name}");
            let image = Image::read(format, record.data).unwrap();
            let functions = FunctionInfo::of_code(image.functions()).unwrap();
            assert_eq!(functions, record.function_infos(), "{name}");
            let is_addressed = matches!(image.pipelines[0].dispatch, Dispatch::Addresses(_));
            assert_eq!(is_addressed, name.contains(".addresses"), "{name}");
            count += 1;
        }
    }
    assert!(count >= 30, "{count} executables");
}

#[test]
fn captures_of_the_release_are_whole() {
    for (name, plan) in plans() {
        assert_eq!(plan.tear(), None, "{name}");
        assert!(plan.step_count() > 10, "{name}");
    }
}
