//! The modules of the fixtures are valid.

use rehal_formats::vulkan::{Image, infer};
use rehal_vulkan::executable::validator::validate;
use spirv::Op;

use crate::assembler::Module;
use crate::fixtures::executables;

#[test]
fn modules_of_compilers_are_valid() {
    for (path, bytes) in executables() {
        let image = Image::read(infer(&bytes).unwrap(), &bytes).unwrap();
        validate(&image).unwrap_or_else(|error| panic!("{}: {}", path.display(), error.report()));
    }
}

#[test]
fn an_invalid_module_is_refused_with_the_words_of_the_validator() {
    let module = Module::for_descriptors()
        .entry(100, "f")
        .types()
        // Nothing defines 999.
        .function(100, |body| body.op(Op::IAdd, &[3, 300, 999, 999]));
    let image = Image::read("vulkan-spirv-raw", &module.bytes()).unwrap();
    let error = validate(&image).unwrap_err();
    assert!(error.to_string().contains("999"), "{error}");
}
