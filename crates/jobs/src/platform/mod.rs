//! Code that depends on the operating system, and on its numbers for a processor.

#![allow(unsafe_code, reason = "asks the system; see docs/unsafe.md")]

use std::ffi::OsString;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::shared_file;
#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub use macos::shared_file;
#[cfg(target_os = "macos")]
pub(crate) use macos::*;
#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::*;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::*;

/// The files that confined code reaches.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "nothing is confined there"))]
pub(crate) struct Reach<'a> {
    pub(crate) reads: &'a [OsString],
    pub(crate) writes: &'a [OsString],
    pub(crate) controls: &'a [OsString],
    pub(crate) is_complete: bool,
}
