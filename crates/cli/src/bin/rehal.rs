//! All tools as verbs of one program: `rehal run`, `rehal dump`, `rehal benchmark`, `rehal info`, and so on.
//! Called by a name of IREE's tools, it is that tool.
//!
//! On Linux with glibc (`build.rs`), the C library calls it without Rust's runtime, which looks for the guard
//! page of the main stack in `/proc/self/maps`: that takes a tenth of the time of a short tool.

#![cfg_attr(without_runtime, no_main)]
#![deny(unsafe_code)]

#[cfg(without_runtime)]
#[allow(unsafe_code, reason = "is the program's `main`; see docs/unsafe.md")]
// SAFETY: the C library calls the one symbol of this name, and nothing else defines it.
#[unsafe(no_mangle)]
extern "C" fn main() -> std::ffi::c_int {
    rehal_cli::main_without_runtime()
}

#[cfg(not(without_runtime))]
fn main() -> std::process::ExitCode {
    rehal_cli::main().into()
}
