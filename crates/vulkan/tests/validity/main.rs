//! Modules of compilers and of our own assembler, held against the validator of SPIR-V.

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../formats/tests/vulkan/assembler.rs"]
mod assembler;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../formats/tests/vulkan/fixtures.rs"]
mod fixtures;
mod validity;
