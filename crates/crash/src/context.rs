//! The context of the calling thread: the record of a capture, and a device that aborts on failure.

use std::cell::Cell;

const NO_RECORD: u64 = u64::MAX;

thread_local! {
    static ABORTS: Cell<bool> = const { Cell::new(false) };
    static RECORD: Cell<u64> = const { Cell::new(NO_RECORD) };
    static OFFSET: Cell<u64> = const { Cell::new(0) };
}

/// Sets the capture record that the calling thread is replaying: its ordinal, and its offset in the file in
/// bytes. Two stores; valid until the next call or [`clear_context`].
#[inline]
pub fn set_context(record_ordinal: u64, file_offset: u64) {
    RECORD.set(record_ordinal);
    OFFSET.set(file_offset);
}

/// Clears the record of the calling thread.
#[inline]
pub fn clear_context() {
    RECORD.set(NO_RECORD);
}

/// The record that the calling thread is replaying, for the thread that runs its work later:
/// [`RecordScope::enter`].
#[inline]
pub fn record() -> [u64; 2] {
    [RECORD.get(), OFFSET.get()]
}

/// A record as errors name it; `None` if there is none.
pub fn describe_record(record: [u64; 2]) -> Option<String> {
    let [ordinal, offset] = known(record)?;
    Some(format!("record #{ordinal}, offset {offset}"))
}

/// The ordinal and the offset of the record of this thread; `None` if there is none.
pub(crate) fn known_record() -> Option<[u64; 2]> {
    known(record())
}

fn known(record: [u64; 2]) -> Option<[u64; 2]> {
    (record[0] != NO_RECORD).then_some(record)
}

/// Whether a crash of the work of this thread aborts the process: see [`AbortScope`].
pub(crate) fn aborts() -> bool {
    ABORTS.get()
}

/// While it lives, the calling thread runs work of another record: that of the submission. Faults name it.
pub struct RecordScope {
    previous: [u64; 2],
}

impl RecordScope {
    /// Sets what [`record`] returned when the work was submitted.
    #[inline]
    pub fn enter(record: [u64; 2]) -> Self {
        let previous = self::record();
        set_context(record[0], record[1]);
        Self { previous }
    }
}

impl Drop for RecordScope {
    #[inline]
    fn drop(&mut self) {
        set_context(self.previous[0], self.previous[1]);
    }
}

/// While it lives, it says whether a kernel that crashes on this thread aborts the process after the report,
/// instead of ending it with [`EXIT_STATUS`](crate::EXIT_STATUS): an option of the device whose work the
/// thread executes. That work may make work of another device ready, on the same thread.
pub struct AbortScope {
    previous: bool,
}

impl AbortScope {
    /// For work of a device that aborts on failure, or does not.
    #[inline]
    pub fn enter(aborts: bool) -> Self {
        Self { previous: ABORTS.replace(aborts) }
    }
}

impl Drop for AbortScope {
    #[inline]
    fn drop(&mut self) {
        ABORTS.set(self.previous);
    }
}
