use super::Command;

/// The files whose commands fail with the release's own tools, and words of what is said. All but one are written for
/// another version of the compiler than the release; that one for a tool with a module of its own. The list holds for the
/// reference's tag `iree-3.12.0rc20260822`, of 21 August 2026.
const KNOWN: [(&str, &str); 5] = [
    (
        "samples/custom_dispatch/cpu/mlp_plugin/mlp_tosa.mlir",
        "custom op 'tosa.const_shape' expected 'values'",
    ),
    ("samples/custom_module/static/test/example.mlir", "no type registered with name '!custom.string'"),
    ("tests/e2e/parameters/export_parameters.mlir", "custom op 'linalg.add' is unknown"),
    ("tests/e2e/parameters/generate_splat_archive.mlir", "custom op 'linalg.add' is unknown"),
    ("tests/e2e/stablehlo_models/mnist_fake_weights.mlir", "attribute 'inlining_policy' cannot be parsed"),
];

/// The files whose patterns are sentences of the reference's own help texts, which ours are no copies of, and what FileCheck
/// misses in ours. What comes before in the same patterns has to match.
const OTHER_WORDS: [(&str, &str); 1] = [("tools/test/iree-replay-tools.txt", "IREE HAL replay file\".")];

/// What is said when a command fails with the release's tools, if it is known to.
pub fn known_failure(command: &Command) -> Option<&'static str> {
    find(&KNOWN, command)
}

/// What FileCheck says when a command fails with our tools because their help has other words, if it is known to.
pub fn other_words(command: &Command) -> Option<&'static str> {
    find(&OTHER_WORDS, command)
}

fn find(list: &[(&str, &'static str)], command: &Command) -> Option<&'static str> {
    let (file, _) = command.name.rsplit_once(':')?;
    list.iter().find(|known| known.0 == file).map(|known| known.1)
}
