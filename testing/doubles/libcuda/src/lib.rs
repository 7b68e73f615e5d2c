//! A double of NVIDIA's `libcuda.so`: one GPU of compute capability 9.0. `rehal-simt` interprets its kernels.
//!
//! Drivers that open `libcuda.so` run on it without a GPU if `LD_LIBRARY_PATH` names its directory. It is a
//! double for tests and never ships. It has the functions that the reference's driver asks for by
//! `cuGetProcAddress` for version 11.3. It must not depend on the HAL or on captures.
//!
//! Work runs in the call that submits it, so that streams are in order and recorded events are complete. Only
//! functions of the host (`cuLaunchHostFunc`) run on a thread of their own, as the interface demands.
//! The double is as strict as the GPU: memory of the device is at addresses that the host cannot access, and
//! an access out of bounds is an error that stays, returned by all later calls. `cuGetErrorString` then names
//! kernel, thread and instruction. It cannot load machine code (cubin, fatbin).
//!
//! If `LIBCUDA_DOUBLE_FREED` names a file, the bytes of each allocation are appended to it when it is freed:
//! a line of hexadecimal digits each. Tests compare them with what other devices computed.

#![deny(unsafe_code)]
#![allow(non_snake_case, reason = "functions have the names of the interface")]

mod device;
mod graph;
mod interface;
mod kernel;
mod memory;
mod state;
mod stream;
mod table;
#[cfg(test)]
mod tests;
