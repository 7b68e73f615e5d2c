use super::Command;

/// Files whose commands fail with the release's own tools, and part of the error. `custom_module/static`
/// needs a tool with another module linked in; the others are written for another version of the compiler.
/// The list is for the reference's tag `iree-3.12.0rc20260822` (21 August 2026).
const KNOWN: [(&str, &str); 8] = [
    (
        "samples/custom_dispatch/cpu/mlp_plugin/mlp_tosa.mlir",
        "custom op 'tosa.const_shape' expected 'values'",
    ),
    ("samples/custom_dispatch/vulkan/shaders/example.mlir", "attribute 'objects' cannot be parsed"),
    (
        "samples/custom_dispatch/vulkan/shaders/example_transform.mlir",
        "attribute 'parallel' cannot be parsed",
    ),
    ("samples/custom_module/static/test/example.mlir", "no type registered with name '!custom.string'"),
    ("tests/e2e/parameters/export_parameters.mlir", "custom op 'linalg.add' is unknown"),
    ("tests/e2e/parameters/generate_splat_archive.mlir", "custom op 'linalg.add' is unknown"),
    ("tests/e2e/stablehlo_models/mnist_fake_weights.mlir", "attribute 'inlining_policy' cannot be parsed"),
    ("tools/test/iree-benchmark-executable.mlir", "attribute 'workgroup_size' cannot be parsed"),
];

/// Part of the error of a command that is known to fail with the release's tools.
pub fn known_failure(command: &Command) -> Option<&'static str> {
    let (file, _) = command.name.rsplit_once(':')?;
    KNOWN.iter().find(|known| known.0 == file).map(|known| known.1)
}
