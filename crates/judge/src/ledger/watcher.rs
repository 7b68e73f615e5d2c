use rehal_base::Result;
use rehal_replay::{ChangeTracker, DispatchWatcher, WatchedDispatch};
use zerocopy::little_endian::U32;

use super::encoder::EntryEncoder;
use super::layout::EntryHeader;
use crate::tolerance::ElementTypeRule;

/// Makes the digests of dispatches that a [`Recorder`](rehal_replay::Recorder) adds to its capture: the
/// entries that the ledger of a replay has, from which [`Ledger::from_plan`](crate::Ledger::from_plan)
/// makes one.
#[derive(Default)]
pub struct DispatchDigests {
    encoder: EntryEncoder,
}

impl DispatchDigests {
    /// With the element types of what functions write; the last rule that matches counts. Numbers of a
    /// floating-point type are summarized.
    pub fn new(element_types: Vec<ElementTypeRule>) -> Self {
        Self { encoder: EntryEncoder::new(0, element_types) }
    }
}

impl DispatchWatcher for DispatchDigests {
    fn dispatched(&mut self, dispatch: &WatchedDispatch<'_>, changes: &ChangeTracker) -> Result<&[u8]> {
        let header = EntryHeader {
            record: U32::new(dispatch.record),
            submission: U32::new(dispatch.submission),
            ..EntryHeader::default()
        };
        Ok(self.encoder.dispatch(header, dispatch.function, changes))
    }
}
