//! The ledgers that captures have: records that the recorder added.

use std::collections::{HashMap, HashSet};

use rehal_base::{Error, Result};
use rehal_capture::layout::ReadDigest;
use rehal_capture::{Capture, OpenOptions, OperationCode, PayloadType, Record, RecordType};
use rehal_replay::{Plan, PlannedResult};
use zerocopy::FromBytes;
use zerocopy::little_endian::{U32, U64};

use super::layout::{self, EntryHeader};
use super::reader::checksum;
use super::writer::Assembled;
use super::{Ledger, LedgerContents};

/// The digests of a capture.
#[derive(Default)]
struct Recorded<'c> {
    /// The digest of each map for reading, by the ordinal of its record, in order.
    reads: Vec<(u32, ReadDigest)>,
    /// The entries of dispatches, by the ordinals of the submission and of the dispatch.
    dispatches: HashMap<(u32, u32), (EntryHeader, &'c [u8])>,
}

impl Ledger {
    /// The ledger that the recorder of a capture added to it; `None` if it has none.
    ///
    /// Dispatches are recorded in the order in which the program's devices completed them, which differs from
    /// that of a replay if its submissions ran concurrently; the ledger has the order of a replay of `plan`.
    pub fn from_plan(plan: &Plan) -> Result<Option<Self>> {
        let capture = Capture::open(plan.capture().as_slice(), OpenOptions { recover: true })?;
        let recorded = Recorded::from_capture(&capture)?;
        // A capture that was never closed may lack the digests of its last results.
        let is_complete = capture.is_closed();
        let bytes = match (recorded.reads.is_empty(), recorded.dispatches.is_empty()) {
            (true, true) => return Ok(None),
            (false, true) => {
                let mut ledger = Assembled::new(plan, LedgerContents::Reads);
                recorded.reads.iter().for_each(|(record, digest)| ledger.read(*record, digest));
                ledger.finish(is_complete)
            }
            (_, false) => recorded.in_run_order(plan, is_complete)?,
        };
        Self::from_bytes(bytes).map(Some)
    }
}

impl<'c> Recorded<'c> {
    fn from_capture(capture: &Capture<'c>) -> Result<Self> {
        let mut this = Self::default();
        let mut last = None;
        // The plan was made from verified records.
        for record in capture.records_unverified() {
            let record = record?;
            let ordinal = record.ordinal();
            if record.record_type() == RecordType::SESSION {
                match record.payload_type() {
                    PayloadType::READ_DIGEST => {
                        let mapped = last.ok_or_else(|| {
                            Error::data_loss(format!(
                                "record #{ordinal} has the digest of a host read, but does not follow one"
                            ))
                        })?;
                        this.reads.push((mapped, *read_digest(&record, mapped)?));
                    }
                    PayloadType::DISPATCH_DIGESTS => this.add_dispatch(&record)?,
                    _ => {}
                }
            }
            let is_map = record.operation() == OperationCode::BUFFER_MAP_RANGE;
            last = u32::try_from(ordinal).ok().filter(|_| is_map);
        }
        Ok(this)
    }

    fn add_dispatch(&mut self, record: &Record<'c>) -> Result<()> {
        let ordinal = record.ordinal();
        let malformed =
            |what: &str| Error::data_loss(format!("the digests of a dispatch in record #{ordinal} {what}"));
        let payload = record.payload;
        let Ok((header, ranges)) = EntryHeader::read_from_prefix(payload) else {
            return Err(malformed(&format!("have {} bytes", payload.len())));
        };
        if header.length.get() != payload.len() as u64 || header.kind.get() != layout::ENTRY_DISPATCH {
            return Err(malformed("are not the entry of a dispatch"));
        }
        if header.checksum.get() != checksum(payload) {
            return Err(malformed("do not match their checksum"));
        }
        let key = (header.submission.get(), header.record.get());
        match self.dispatches.insert(key, (header, ranges)) {
            None => Ok(()),
            Some(_) => Err(malformed(&format!("are the second of record #{}", key.1))),
        }
    }

    /// The ledger, in the order of a run. It ends where digests are missing.
    fn in_run_order(mut self, plan: &Plan, mut is_complete: bool) -> Result<Vec<u8>> {
        let mut ledger = Assembled::new(plan, LedgerContents::Dispatches);
        let mut reads = self.reads.iter().peekable();
        let mut submissions = HashSet::new();
        let mut is_missing = false;
        plan.results(|result| match result {
            PlannedResult::Dispatch { record, submission, occurrence } => {
                submissions.insert(submission);
                match self.dispatches.remove(&(submission, record)) {
                    Some((header, ranges)) if !is_missing => {
                        ledger.dispatch(
                            EntryHeader { occurrence: U64::new(occurrence), checksum: U32::ZERO, ..header },
                            ranges,
                        );
                    }
                    Some(_) => {}
                    None => is_missing = true,
                }
            }
            PlannedResult::Read { record } => match reads.next_if(|(own, _)| *own == record) {
                Some((_, digest)) if !is_missing => ledger.read(record, digest),
                Some(_) => {}
                None => is_missing = true,
            },
        });
        is_complete &= !is_missing;
        if let Some((record, _)) = reads.next() {
            let message =
                format!("the digest of the host read of record #{record} is of none that a replay performs");
            return Err(Error::data_loss(message));
        }
        // What a submission did before it failed is not replayed.
        match self.dispatches.keys().filter(|(submission, _)| submissions.contains(submission)).min() {
            None => Ok(ledger.finish(is_complete)),
            Some((submission, record)) => Err(Error::data_loss(format!(
                "the capture has digests of a dispatch of record #{record}, which submission #{submission} does not perform"
            ))),
        }
    }
}

/// The payload of the record behind the map with ordinal `mapped`.
fn read_digest<'c>(record: &Record<'c>, mapped: u32) -> Result<&'c ReadDigest> {
    let payload = record.payload;
    ReadDigest::ref_from_bytes(payload).map_err(|_| {
        let length = payload.len();
        Error::data_loss(format!("the digest of the host read of record #{mapped} has {length} bytes"))
    })
}
