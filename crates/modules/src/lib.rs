//! The modules that VM programs import: `hal`, `io_parameters` and `check`.
//!
//! Used by the tools. It must not depend on file formats, flags, or whether it is being recorded.
#![deny(unsafe_code)]

pub mod check;
pub mod hal;
pub mod io_parameters;
