//! Code for GPUs: that of the pinned release, of other compilers, of our own assembler, and malformed code.

#![allow(clippy::result_large_err, reason = "the error of the crate, in tests")]

mod builder;
mod images;
mod replaced;
mod signatures;
mod wrong_input;

use rehal_base::FormatError;
use rehal_formats::{Executable, read_amdgpu, read_cuda, read_hip};

/// A fixture for GPUs.
fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(testing::fixtures().join("gpu").join(name)).unwrap()
}

/// A cubin for sm_80: `dynamic.cuda.ptx` of the fixtures, compiled by `ptxas` 12.9.86 with `-arch=sm_80`.
const CUBIN: &[u8] = include_bytes!("../data/dynamic.cubin");

/// Reads code for the driver whose container or image it is.
fn read(bytes: &[u8]) -> Result<Executable, FormatError> {
    match bytes {
        [b'A', ..] => read_amdgpu(bytes),
        [b'H', ..] => read_hip(bytes),
        [0x7F, ..] if bytes.get(18) == Some(&224) => read_hip(bytes),
        _ => read_cuda(bytes),
    }
}

fn refused(bytes: &[u8]) -> FormatError {
    read(bytes).expect_err("the bytes are malformed")
}
