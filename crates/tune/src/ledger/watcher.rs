use rehal_base::Result;
use rehal_replay::{AccessedRange, DispatchWatcher, WatchedDispatch};
use zerocopy::little_endian::U32;

use super::changed::ChangeTracker;
use super::encoder::EntryEncoder;
use super::layout::EntryHeader;
use crate::tolerance::ElementTypeRule;

/// Makes the digests of dispatches that a [`Recorder`](rehal_replay::Recorder) adds to its capture: the entries that the ledger of
/// a replay has, from which [`Ledger::of_capture`](crate::Ledger::of_capture) makes one.
#[derive(Default)]
pub struct DispatchDigests {
    changes: ChangeTracker,
    encoder: EntryEncoder,
}

impl DispatchDigests {
    /// With the element types of what functions write; the last rule that matches counts. Numbers of a floating-point type are
    /// summarized.
    pub fn new(element_types: Vec<ElementTypeRule>) -> Self {
        Self { changes: ChangeTracker::default(), encoder: EntryEncoder::new(0, element_types) }
    }
}

impl DispatchWatcher for DispatchDigests {
    fn before_dispatch(&mut self, bindings: &[AccessedRange<'_>]) -> Result<()> {
        let outcome = self.changes.begin(bindings);
        if outcome.is_err() {
            self.changes.release();
        }
        outcome
    }

    fn after_dispatch(&mut self, dispatch: &WatchedDispatch<'_>) -> Result<&[u8]> {
        let ended = self.changes.end();
        let header = EntryHeader {
            record: U32::new(dispatch.record),
            submission: U32::new(dispatch.submission),
            ..EntryHeader::default()
        };
        let entry = ended.map(|()| self.encoder.dispatch(header, dispatch.function, &self.changes));
        // The program may free its buffers now.
        self.changes.release();
        entry
    }
}
