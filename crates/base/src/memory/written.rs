//! Which pages of memory were written, as the system tracks it.

use std::fs::File;
use std::ops;

use super::Owner;
use crate::{Error, HostMemory, Range, Result};

/// Tells which pages of host memory were written, by anybody in the process, without a copy of them: the system write-protects pages
/// and lifts that at the first write to each, which costs about a microsecond. The bytes are never changed.
///
/// Each page of the process can be tracked by one tracker at a time. Tracking ends with the tracker.
pub struct WriteTracker {
    faults: File,
    pages: File,
    page_bytes: usize,
}

impl WriteTracker {
    /// Fails if the system cannot track writes: Linux can since 6.7, unless the process is denied its calls.
    pub fn new() -> Result<Self> {
        let (faults, pages, page_bytes) = system::open()?;
        Ok(Self { faults, pages, page_bytes })
    }

    /// Tracks the pages that lie in `memory` as a whole, until the tracker is dropped (freed memory may be used again), and returns their range in it. Fails for memory that is
    /// not an allocation of this process or a part of one, and if another tracker has it.
    pub fn track(&self, memory: &HostMemory) -> Result<Range> {
        if !is_allocation(memory) {
            return Err(Error::unimplemented("writes are tracked in allocations of the process only"));
        }
        let start = memory.as_ptr().addr();
        let first = start.next_multiple_of(self.page_bytes);
        let end = (start + memory.length) & !(self.page_bytes - 1);
        if first >= end {
            return Ok(Range { offset: 0, length: 0 });
        }
        system::track(&self.faults, first..end)?;
        Ok(Range { offset: (first - start) as u64, length: (end - first) as u64 })
    }

    /// Adds the pages of `range` that were written since they were last taken, in order; pages that have not been taken before
    /// count as written. `range` consists of pages that [`WriteTracker::track`] returned for `memory`.
    pub fn take(&self, memory: &HostMemory, range: Range, written: &mut Vec<Range>) -> Result<()> {
        let start = memory.at(range.offset, range.length)?.addr();
        let end = start + range.length as usize;
        if !start.is_multiple_of(self.page_bytes) || !end.is_multiple_of(self.page_bytes) {
            return Err(Error::invalid_argument("a range of tracked memory consists of pages"));
        }
        let base = memory.as_ptr().addr();
        system::take(&self.pages, start..end, |pages| {
            written.push(Range { offset: (pages.start - base) as u64, length: pages.len() as u64 });
        })
    }

    /// Bytes of a page, a power of two.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes as u64
    }
}

/// Whether all writes go through the one mapping of the memory in this process.
fn is_allocation(memory: &HostMemory) -> bool {
    match &memory.owner {
        Owner::Allocation { .. } | Owner::Guarded(_) => true,
        Owner::Part { whole } => is_allocation(whole),
        Owner::File { .. } | Owner::Foreign { .. } => false,
    }
}

/// The calls of Linux: `userfaultfd` in its asynchronous mode, and the scan of a process's page table.
#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    use std::io;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    use super::{Error, File, Result, ops};

    /// `UFFD_USER_MODE_ONLY`: processes without privileges may track their own pages.
    const USER_MODE_ONLY: libc::c_int = 1;
    /// `UFFD_API`.
    const API_VERSION: u64 = 0xaa;
    /// `UFFD_FEATURE_WP_UNPOPULATED` and `UFFD_FEATURE_WP_ASYNC`.
    const FEATURES: u64 = 1 << 13 | 1 << 15;
    /// `UFFDIO_REGISTER_MODE_WP`.
    const WRITE_PROTECT: u64 = 2;
    /// `UFFDIO_API`, `UFFDIO_REGISTER` and `PAGEMAP_SCAN`: both directions, size, group and number.
    const API: libc::c_ulong = 3 << 30 | (size_of::<Api>() as libc::c_ulong) << 16 | 0xaa << 8 | 0x3f;
    const REGISTER: libc::c_ulong = 3 << 30 | (size_of::<Register>() as libc::c_ulong) << 16 | 0xaa << 8;
    const SCAN: libc::c_ulong =
        3 << 30 | (size_of::<Scan>() as libc::c_ulong) << 16 | (b'f' as libc::c_ulong) << 8 | 16;
    /// `PM_SCAN_WP_MATCHING` and `PM_SCAN_CHECK_WPASYNC`: what is found is protected again, and memory that is not tracked an error.
    const SCAN_FLAGS: u64 = 3;
    /// `PAGE_IS_WRITTEN`.
    const IS_WRITTEN: u64 = 2;
    /// Ranges that a scan returns at a time.
    const SCANNED_RANGES: usize = 256;

    /// `struct uffdio_api`.
    #[repr(C)]
    struct Api {
        version: u64,
        features: u64,
        ioctls: u64,
    }

    /// `struct uffdio_register`.
    #[repr(C)]
    struct Register {
        start: u64,
        length: u64,
        mode: u64,
        ioctls: u64,
    }

    /// `struct pm_scan_arg`.
    #[repr(C)]
    #[derive(Default)]
    struct Scan {
        size: u64,
        flags: u64,
        start: u64,
        end: u64,
        walk_end: u64,
        ranges: u64,
        range_count: u64,
        max_pages: u64,
        category_inverted: u64,
        category_mask: u64,
        category_any_mask: u64,
        return_mask: u64,
    }

    /// `struct page_region`.
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Pages {
        start: u64,
        end: u64,
        categories: u64,
    }

    pub fn open() -> Result<(File, File, usize)> {
        // SAFETY: the call has one argument and returns a file descriptor or -1.
        let raw = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | USER_MODE_ONLY) };
        let raw = i32::try_from(raw).ok().filter(|raw| *raw >= 0).ok_or_else(failed)?;
        // SAFETY: the descriptor is new, so nothing else owns it.
        let faults = File::from(unsafe { OwnedFd::from_raw_fd(raw) });
        let mut api = Api { version: API_VERSION, features: FEATURES, ioctls: 0 };
        // SAFETY: the structure is that of the request.
        unsafe { call(&faults, API, &mut api) }?;
        let pages = File::open("/proc/self/pagemap").map_err(|error| untracked(&error))?;
        // SAFETY: has no preconditions.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page_bytes = usize::try_from(page_bytes).ok().filter(|it| it.is_power_of_two());
        Ok((faults, pages, page_bytes.ok_or_else(failed)?))
    }

    pub fn track(faults: &File, pages: ops::Range<usize>) -> Result<()> {
        let (start, length) = (pages.start as u64, pages.len() as u64);
        let mut register = Register { start, length, mode: WRITE_PROTECT, ioctls: 0 };
        // SAFETY: the structure is that of the request, which changes no byte of the pages: write faults are resolved by the system.
        unsafe { call(faults, REGISTER, &mut register) }.map(drop)
    }

    pub fn take(
        file: &File,
        pages: ops::Range<usize>,
        mut found: impl FnMut(ops::Range<usize>),
    ) -> Result<()> {
        let mut ranges = [Pages::default(); SCANNED_RANGES];
        let mut start = pages.start as u64;
        let end = pages.end as u64;
        while start < end {
            let mut scan = Scan {
                size: size_of::<Scan>() as u64,
                flags: SCAN_FLAGS,
                start,
                end,
                ranges: ranges.as_mut_ptr().expose_provenance() as u64,
                range_count: SCANNED_RANGES as u64,
                category_mask: IS_WRITTEN,
                return_mask: IS_WRITTEN,
                ..Scan::default()
            };
            // SAFETY: the structure is that of the request; it has the address and the length of `ranges`, which the system fills.
            let count = unsafe { call(file, SCAN, &mut scan) }?;
            for it in ranges.iter().take(count as usize) {
                found(it.start as usize..it.end as usize);
            }
            if scan.walk_end <= start {
                return Err(untracked(&io::ErrorKind::UnexpectedEof.into()));
            }
            start = scan.walk_end;
        }
        Ok(())
    }

    /// # Safety
    /// `argument` is the structure of `request`, and what it points to is valid for the call.
    unsafe fn call<T>(file: &File, request: libc::c_ulong, argument: &mut T) -> Result<libc::c_int> {
        // SAFETY: the caller's guarantee; the descriptor is open.
        let outcome = unsafe { libc::ioctl(file.as_raw_fd(), request, std::ptr::from_mut(argument)) };
        if outcome < 0 { Err(failed()) } else { Ok(outcome) }
    }

    fn failed() -> Error {
        untracked(&io::Error::last_os_error())
    }

    fn untracked(error: &io::Error) -> Error {
        Error::unimplemented(format!("the system does not track writes to memory: {error}"))
    }
}

#[cfg(any(not(target_os = "linux"), miri))]
mod system {
    use super::{Error, File, Result, ops};

    pub fn open() -> Result<(File, File, usize)> {
        Err(Error::unimplemented("the system does not track writes to memory"))
    }

    pub fn track(_faults: &File, _pages: ops::Range<usize>) -> Result<()> {
        open().map(drop)
    }

    pub fn take(
        _file: &File,
        _pages: ops::Range<usize>,
        _found: impl FnMut(ops::Range<usize>),
    ) -> Result<()> {
        open().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::StatusCode;

    /// `None`, with a message, where the system does not track writes: before Linux 6.7, or where a sandbox denies its calls.
    fn tracked(length: u64) -> Option<(WriteTracker, Arc<HostMemory>, Range)> {
        let tracker = match WriteTracker::new() {
            Ok(tracker) => tracker,
            Err(error) => {
                assert_eq!(error.code(), StatusCode::Unimplemented);
                println!("not tested: {}", error.message());
                return None;
            }
        };
        let memory = Arc::new(HostMemory::allocate(length).unwrap());
        let pages = tracker.track(&memory).unwrap();
        Some((tracker, memory, pages))
    }

    fn taken(tracker: &WriteTracker, memory: &HostMemory, range: Range) -> Vec<(u64, u64)> {
        let mut written = Vec::new();
        tracker.take(memory, range, &mut written).unwrap();
        written.iter().map(|it| (it.offset, it.length)).collect()
    }

    #[test]
    fn writes_are_found_once_and_by_page() {
        let Some((tracker, memory, pages)) = tracked(40 << 20) else { return };
        let page = tracker.page_bytes();
        assert!(pages.length > memory.length() - 2 * page && pages.end() <= memory.length());
        // The first time, whatever may have been written before.
        memory.fill(0, memory.length(), &[1]).unwrap();
        assert_eq!(taken(&tracker, &memory, pages), [(pages.offset, pages.length)]);
        assert_eq!(taken(&tracker, &memory, pages), []);
        let at = |number: u64| pages.offset + number * page;
        memory.write(at(7) + 5, &[2]).unwrap();
        memory.write(at(4000) - 1, &[3, 3]).unwrap();
        assert_eq!(memory.load::<6>(at(7)).unwrap(), [1, 1, 1, 1, 1, 2]);
        // A part is taken by itself, and the rest stays.
        assert_eq!(taken(&tracker, &memory, Range { offset: at(7), length: page }), [(at(7), page)]);
        assert_eq!(taken(&tracker, &memory, pages), [(at(3999), 2 * page)]);
        // More than one scan returns, by another thread.
        std::thread::scope(|scope| {
            scope.spawn(|| (0..1000).for_each(|number| memory.write(at(2 * number), &[4]).unwrap()));
        });
        let every_second: Vec<_> = (0..1000).map(|number| (at(2 * number), page)).collect();
        assert_eq!(taken(&tracker, &memory, pages), every_second);
    }

    #[test]
    fn reads_are_not_writes_and_untouched_pages_read_as_zeros() {
        let Some((tracker, memory, pages)) = tracked(8 << 20) else { return };
        taken(&tracker, &memory, pages);
        assert!(memory.bytes(memory.whole()).unwrap().iter().all(|byte| *byte == 0));
        taken(&tracker, &memory, pages);
        assert!(memory.bytes(memory.whole()).unwrap().iter().all(|byte| *byte == 0));
        assert_eq!(taken(&tracker, &memory, pages), []);
    }

    #[test]
    fn the_system_writes_too() {
        let Some((tracker, memory, pages)) = tracked((1 << 20) + (1 << 14)) else { return };
        taken(&tracker, &memory, pages);
        let file = File::open("/proc/self/exe").unwrap();
        memory.read_file_at(&file, 0, Range { offset: pages.offset, length: 1 }).unwrap().unwrap();
        assert_eq!(taken(&tracker, &memory, pages), [(pages.offset, tracker.page_bytes())]);
    }

    #[test]
    fn what_cannot_be_tracked_is_an_error() {
        let Some((tracker, memory, pages)) = tracked(1 << 20) else { return };
        let part = HostMemory::part(&memory, Range { offset: 100, length: 50_000 }).unwrap();
        let inner = tracker.track(&part).unwrap();
        assert!(inner.length >= 40_000 && inner.end() <= 50_000, "{inner:?}");
        assert_eq!(tracker.track(&HostMemory::allocate(100).unwrap()).unwrap().length, 0);
        // Pages have one tracker.
        assert!(WriteTracker::new().unwrap().track(&memory).is_err());
        let mut written = Vec::new();
        let fresh = HostMemory::allocate(80 << 20).unwrap();
        let length = tracker.page_bytes();
        let offset = (fresh.as_ptr().addr() as u64).wrapping_neg() % length;
        assert!(tracker.take(&fresh, Range { offset, length }, &mut written).is_err());
        for wrong in [Range { offset: pages.offset + 1, length }, Range { offset: 1 << 20, length }] {
            assert!(tracker.take(&memory, wrong, &mut written).is_err());
        }
        // Without a tracker, nothing is left of it.
        drop(tracker);
        memory.fill(0, 1 << 20, &[1]).unwrap();
        WriteTracker::new().unwrap().track(&memory).unwrap();
    }
}
