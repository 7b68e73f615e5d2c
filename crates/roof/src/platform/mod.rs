//! Code that depends on the processor, or on the operating system.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use crate::lines::sum_portable as sum;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::kernels;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{kernels, sum};

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::cycles_per_second;

/// Fails: the system has no counter for programs.
#[cfg(not(target_os = "linux"))]
pub(crate) fn cycles_per_second(_compute: fn()) -> std::io::Result<f64> {
    Err(std::io::Error::other("this system has no counter of cycles for programs"))
}
