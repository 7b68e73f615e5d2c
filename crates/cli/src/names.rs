//! The names of IREE's tools: `rehal` acts as one of them if it is called by its name. The build script,
//! which links them, and the tests against IREE's tools read this file too, because they cannot depend on the
//! crate.

/// The names, sorted.
pub const IREE_NAMES: [&str; 12] = [
    "iree-benchmark-executable",
    "iree-benchmark-module",
    "iree-benchmark-replay",
    "iree-check-module",
    "iree-convert-parameters",
    "iree-create-parameters",
    "iree-dump-module",
    "iree-dump-parameters",
    "iree-dump-replay",
    "iree-profile",
    "iree-run-module",
    "iree-run-replay",
];
