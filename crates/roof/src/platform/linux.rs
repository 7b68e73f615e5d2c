//! Counters of the processor, if the system lets this process count (perf_event_open(2)).

#![allow(unsafe_code, reason = "a system call that no crate of ours wraps")]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, RawFd};
use std::time::Instant;

/// Of the kinds of counters (`PERF_TYPE_HARDWARE`).
const HARDWARE: u32 = 0;
/// `PERF_COUNT_HW_CPU_CYCLES`.
const CYCLES: u64 = 0;
/// Neither the kernel (bit 5) nor the hypervisor (bit 6) counts, which unprivileged processes may not see.
const EXCLUDED: u64 = 1 << 5 | 1 << 6;

/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// `perf_event_attr` of the first version (`PERF_ATTR_SIZE_VER0`).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample: [u64; 3],
    flags: u64,
    wakeup: u32,
    breakpoint_kind: u32,
    breakpoint: u64,
}

const _: () = assert!(size_of::<Attributes>() == 64);

/// Counts events of this thread from now on.
struct Counter(File);

impl Counter {
    fn open(kind: u32, config: u64) -> io::Result<Self> {
        let size = size_of::<Attributes>() as u32;
        let attributes = Attributes { kind, size, config, flags: EXCLUDED, ..Attributes::default() };
        let (this_thread, any_processor, no_group): (libc::pid_t, libc::c_int, libc::c_int) = (0, -1, -1);
        // SAFETY: the kernel reads 64 bytes of the attributes, as their size says, and writes none.
        let opened = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                this_thread,
                any_processor,
                no_group,
                CLOSE_ON_EXEC,
            )
        };
        match RawFd::try_from(opened) {
            // SAFETY: the kernel has just made it for this call.
            Ok(fd @ 0..) => Ok(Self(unsafe { File::from_raw_fd(fd) })),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn read(&mut self) -> io::Result<u64> {
        let mut count = [0; 8];
        self.0.read_exact(&mut count)?;
        Ok(u64::from_ne_bytes(count))
    }
}

/// Cycles per second of the processor while it computes; fails if the system has no counter for that.
pub(crate) fn cycles_per_second(compute: fn()) -> io::Result<f64> {
    let mut counter = Counter::open(HARDWARE, CYCLES)?;
    let mut best = 0.0;
    for _ in 0..8 {
        let (begun, before) = (Instant::now(), counter.read()?);
        compute();
        let cycles = counter.read()?.saturating_sub(before);
        best = f64::max(best, cycles as f64 / begun.elapsed().as_secs_f64());
    }
    match best > 0.0 {
        true => Ok(best),
        false => Err(io::Error::other("the counter of cycles does not count")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_count_this_thread() {
        /// `PERF_TYPE_SOFTWARE` and `PERF_COUNT_SW_TASK_CLOCK`, which need no hardware.
        const TASK_CLOCK: (u32, u64) = (1, 1);
        let mut counter = match Counter::open(TASK_CLOCK.0, TASK_CLOCK.1) {
            Ok(counter) => counter,
            // What a sandbox forbids.
            Err(error) => {
                assert!(
                    matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::ENOSYS)),
                    "{error}"
                );
                return;
            }
        };
        let cpu_ns = || crate::threads::cpu_ns();
        let (counted, begun) = (counter.read().unwrap(), cpu_ns());
        while cpu_ns() - begun < 5_000_000 {
            crate::compute::spin();
        }
        let (counted, elapsed) = (counter.read().unwrap() - counted, cpu_ns() - begun);
        let ratio = counted as f64 / elapsed as f64;
        assert!((0.8..1.25).contains(&ratio), "{counted} of {elapsed} ns");
    }

    #[test]
    fn unknown_counters_are_errors() {
        assert!(Counter::open(u32::MAX, u64::MAX).is_err());
        match crate::clock_hz() {
            Ok(hz) => assert!((5e8..1e10).contains(&hz), "{hz}"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
