//! Programs: bytecode modules, the verifier and interpreter that run them, and what native modules offer them.
//!
//! Used by `local` for VMVX executables, by `modules` for what programs import, and by the tools. It must never know
//! devices, captures or flags.
#![forbid(unsafe_code)]
