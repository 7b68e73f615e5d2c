//! macOS.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use rehal_base::Ability;
use rustix::mm::MapFlags;

/// The symbols that executables use without declaring them are in the library that every process has.
pub(super) const HOST_LIBRARIES: &[&str] = &[];
pub(super) const POPULATED: MapFlags = MapFlags::empty();
pub(super) const STACK: MapFlags = MapFlags::empty();

/// The system has pages of one size.
///
/// # Safety
/// None.
pub(super) unsafe fn keep_small(_start: *mut c_void, _length: usize) {}

/// Fails: libraries are loaded from the disk.
pub(super) fn memory_file(_bytes: &[u8]) -> io::Result<(File, PathBuf)> {
    Err(io::ErrorKind::Unsupported.into())
}

#[derive(Clone, Copy)]
pub(crate) enum Processors {}

impl Processors {
    pub(crate) fn contains(&self, _processor: u32) -> bool {
        match *self {}
    }
}

pub(crate) fn allowed_processors() -> Option<Processors> {
    None
}

pub(crate) fn processor_id() -> u32 {
    0
}

/// Fails.
pub(crate) fn pin_thread(_processors: &[u32]) -> io::Result<()> {
    Ability::Pinning
        .require()
        .map_err(|error| io::Error::new(io::ErrorKind::Unsupported, error.message().to_owned()))
}

/// The features that every such processor has or the standard library detects, as Linux' words.
#[cfg(target_arch = "aarch64")]
pub(super) fn feature_words() -> [u64; 2] {
    use std::arch::is_aarch64_feature_detected as has;
    let word = |features: &[(u32, bool)]| features.iter().map(|(bit, has)| u64::from(*has) << bit).sum();
    [
        word(&[
            (0, has!("neon")),
            (8, has!("lse")),
            (10, has!("fp16")),
            (20, has!("dotprod")),
            (22, has!("sve")),
            (23, has!("fhm")),
        ]),
        word(&[(1, has!("sve2")), (13, has!("i8mm")), (14, has!("bf16"))]),
    ]
}

#[cfg(target_arch = "aarch64")]
pub(super) fn publish_code(code: &[u8]) {
    unsafe extern "C" {
        /// Of `libkern/OSCacheControl.h`.
        fn sys_icache_invalidate(start: *mut c_void, length: usize);
    }
    // SAFETY: the range is that of a slice, and no byte changes.
    unsafe { sys_icache_invalidate(code.as_ptr().cast_mut().cast(), code.len()) };
}
