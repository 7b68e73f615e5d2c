//! Programs: bytecode modules, the verifier and interpreter that run them, and what native modules offer them.
//!
//! Used by `local` for VMVX executables, by `modules` for what programs import, and by the tools. It must never know
//! devices, captures or flags.
#![forbid(unsafe_code)]
#![allow(clippy::result_large_err, reason = "errors of a format carry what was expected and found")]

pub mod dump;
pub mod module_file;

pub use module_file::ModuleFile;
