//! The modules that VM programs import: `hal`, `io_parameters` and `check`.
//!
//! Used by the tools. It must not depend on file formats, flags, or whether it is being recorded.
//!
//! A function of `hal` reads its arguments from the call, makes one HAL call and pushes its results, so that
//! a recorder sees the calls that the reference's recorder sees. Lists of usual length are on the stack, and
//! the program's bytes are read in place. `fence.await` suspends the program; its owner decides whether to
//! block. A buffer is an allocation and a range of it, and a fence is a list of timepoints.
#![deny(unsafe_code)]

pub mod check;
pub mod hal;
pub mod io_parameters;
