use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::{ProfiledCommand, ProfiledCommandKind};

thread_local! {
    static REPLAYED_RECORD: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Notes the record of a capture that this thread replays from now on: profiles then relate it to the
/// submissions and the commands that the thread makes.
pub fn set_replayed_record(record: Option<u64>) {
    REPLAYED_RECORD.set(record);
}

/// The record that this thread replays.
#[inline]
pub(super) fn replayed_record() -> Option<u64> {
    REPLAYED_RECORD.get()
}

/// The records that the commands of a command buffer replay.
#[derive(Default)]
pub(crate) struct ReplayedCommands {
    /// Commands so far, without barriers.
    count: AtomicU32,
    /// The number of a command, and its record.
    records: Mutex<Vec<(u32, u64)>>,
}

/// An id that is drawn when it is first asked for: few are, and threads draw from the same counter.
#[derive(Default)]
pub(crate) struct LazyId(AtomicU64);

/// The identity of an object in profiles.
pub(crate) struct Identity {
    id: u64,
    /// The last session that received its description.
    described_in: AtomicU64,
}

impl ReplayedCommands {
    /// A command that is not a barrier is recorded.
    pub(crate) fn add(&self) {
        // Only one thread at a time records.
        let number = self.count.load(Ordering::Relaxed);
        self.count.store(number.saturating_add(1), Ordering::Relaxed);
        if let Some(record) = replayed_record() {
            self.records.lock().push((number, record));
        }
    }

    /// The index in `commands` and the record of each command that replays one.
    pub(super) fn of(&self, commands: &[ProfiledCommand]) -> Vec<(u32, u64)> {
        let mut rest = (0_u32..).zip(commands).filter(|(_, it)| it.kind != ProfiledCommandKind::Barrier);
        let mut next = 0;
        let mut find = |(number, record): &(u32, u64)| {
            let (index, _) = rest.nth((number - next) as usize)?;
            next = number + 1;
            Some((index, *record))
        };
        self.records.lock().iter().map_while(&mut find).collect()
    }
}

impl LazyId {
    /// This id, which is not 0.
    pub(crate) fn from_id(id: u64) -> Self {
        Self(AtomicU64::new(id))
    }

    /// The id, which is that of `draw` if no thread has asked for it before.
    pub(crate) fn get(&self, draw: impl FnOnce() -> u64) -> u64 {
        match self.0.load(Ordering::Relaxed) {
            0 => {
                let drawn = draw();
                let first = self.0.compare_exchange(0, drawn, Ordering::Relaxed, Ordering::Relaxed);
                first.err().unwrap_or(drawn)
            }
            id => id,
        }
    }
}

impl Identity {
    /// The identity of a new object, whose ids `last` counts.
    pub(crate) fn new(last: &AtomicU64) -> Self {
        Self::from_id(last.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Another identity with the same id: of a decorator.
    pub(crate) fn from_id(id: u64) -> Self {
        Self { id, described_in: AtomicU64::new(0) }
    }

    /// The id: never 0.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whether a session has received the description.
    #[inline]
    pub(super) fn is_described_in(&self, session: u64) -> bool {
        self.described_in.load(Ordering::Acquire) == session
    }

    /// A session has received the description.
    pub(super) fn set_described_in(&self, session: u64) {
        self.described_in.store(session, Ordering::Release);
    }
}
