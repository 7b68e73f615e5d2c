//! The addresses of mapped files, for a signal handler that names the file behind a fault.

use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// Maximum number of concurrent maps in the table; a fault in others is reported without a file name.
const SLOTS: usize = 64;

/// Bytes of a path that are kept, from its end.
const PATH_BYTES: usize = 255;

/// A slot whose map starts here is being filled.
const TAKEN: usize = 1;

/// One map. Everything is atomic, because a signal may come at any time, on any thread.
struct Slot {
    /// Address of the first byte; 0 if the slot is free.
    start: AtomicUsize,
    end: AtomicUsize,
    path: [AtomicU8; PATH_BYTES],
    path_bytes: AtomicUsize,
}

static MAPPED_FILES: [Slot; SLOTS] = [const { Slot::free() }; SLOTS];

/// The entry of a map in the table, until this is dropped.
pub(super) struct TableEntry(Option<&'static Slot>);

impl TableEntry {
    /// Adds the map of the file at `path` at `start`; without effect if the table is full.
    pub fn for_range(path: &Path, start: usize, length: usize) -> Self {
        let take = |slot: &&Slot| {
            slot.start.compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let Some(slot) = MAPPED_FILES.iter().find(take) else { return Self(None) };
        let path = path.as_os_str().as_encoded_bytes();
        let kept = &path[path.len().saturating_sub(PATH_BYTES)..];
        slot.path.iter().zip(kept).for_each(|(byte, kept)| byte.store(*kept, Ordering::Relaxed));
        slot.path_bytes.store(kept.len(), Ordering::Relaxed);
        slot.end.store(start.saturating_add(length), Ordering::Relaxed);
        slot.start.store(start, Ordering::Release);
        Self(Some(slot))
    }
}

impl Drop for TableEntry {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            slot.start.store(0, Ordering::Release);
        }
    }
}

impl Slot {
    const fn free() -> Self {
        Self {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            path: [const { AtomicU8::new(0) }; PATH_BYTES],
            path_bytes: AtomicUsize::new(0),
        }
    }
}

/// The path of the mapped file that `address` is in, as far as it is kept, and where in the file. It is
/// async-signal-safe: it allocates nothing and takes no lock.
pub fn mapped_file_at<R>(address: usize, tell: impl FnOnce(&[u8], usize) -> R) -> Option<R> {
    for slot in &MAPPED_FILES {
        let start = slot.start.load(Ordering::Acquire);
        if start > TAKEN && start <= address && address < slot.end.load(Ordering::Relaxed) {
            let mut path = [0; PATH_BYTES];
            path.iter_mut().zip(&slot.path).for_each(|(kept, byte)| *kept = byte.load(Ordering::Relaxed));
            let length = slot.path_bytes.load(Ordering::Relaxed);
            return Some(tell(path.get(..length).unwrap_or_default(), address - start));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_while_its_file_is_mapped() {
        let found = |address| mapped_file_at(address, |path, offset| (path.to_vec(), offset));
        let entry = TableEntry::for_range(Path::new("/a/file"), 0x10_0000, 0x2000);
        assert_eq!(found(0x10_0000), Some((b"/a/file".to_vec(), 0)));
        assert_eq!(found(0x10_1FFF), Some((b"/a/file".to_vec(), 0x1FFF)));
        assert_eq!((found(0x10_2000), found(0xF_FFFF)), (None, None));
        drop(entry);
        assert_eq!(found(0x10_0000), None);
        let long = "/d".repeat(400);
        let entry = TableEntry::for_range(Path::new(&long), 0x20_0000, 1);
        assert_eq!(found(0x20_0000), Some((long.as_bytes()[800 - PATH_BYTES..].to_vec(), 0)));
        drop(entry);
        // More maps than slots: the last ones have no name.
        let entries: Vec<_> =
            (0..2 * SLOTS).map(|at| TableEntry::for_range(Path::new("f"), 0x4000_0000 + at, 1)).collect();
        assert!(mapped_file_at(0x4000_0000 + 2 * SLOTS - 1, |_, _| ()).is_none());
        drop(entries);
        let _entry = TableEntry::for_range(Path::new("g"), 0x4000_0000, 1);
        assert!(mapped_file_at(0x4000_0000, |_, _| ()).is_some());
    }
}
