//! A wrong result, as it is recognized in captures of which other work was left out.
//!
//! What is expected holds for the inputs of the whole capture. A smaller capture may give a kernel other
//! inputs, and what it computes from them cannot be judged. Therefore a smaller capture shows the same fault
//! if the same function still writes the same wrong bytes.

use std::ops::ControlFlow;

use rehal_base::{Range, Result};
use rehal_hal::transfer;
use rehal_judge::{Verification, part};
use rehal_replay::{AccessedRange, ChangeTracker, HostRead, Observer, Operation, Replay};
use serde::{Deserialize, Serialize};

use super::SlicedDispatch;

/// The wrong bytes that a dispatch writes, or that a host read sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WrongResult {
    /// The dispatch; `None` for a host read.
    pub dispatch: Option<WrongDispatch>,
    /// The ranges of the binding, or of the bytes that are read, that have the bytes.
    pub ranges: Vec<Range>,
    /// The length of all that is read; 0 for a dispatch.
    pub read_length: u64,
    /// The BLAKE3 digest of the bytes in these ranges.
    pub digest: [u8; 32],
}

/// A dispatch that writes wrong bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WrongDispatch {
    /// The name of the function.
    pub function: String,
    /// The ordinal of the binding.
    pub binding: u32,
    /// Where it is in the whole capture.
    pub place: SlicedDispatch,
}

impl WrongResult {
    /// The wrong result of a host read.
    pub fn from_read(read_length: u64, digest: [u8; 32]) -> Self {
        let ranges = vec![Range { offset: 0, length: read_length }];
        Self { dispatch: None, ranges, read_length, digest }
    }

    /// The wrong result of a dispatch.
    pub fn from_dispatch(
        function: String,
        binding: u32,
        place: SlicedDispatch,
        ranges: Vec<Range>,
        digest: [u8; 32],
    ) -> Self {
        let dispatch = Some(WrongDispatch { function, binding, place });
        Self { dispatch, ranges, read_length: 0, digest }
    }
}

/// Reads the first wrong result of a replay that a verification found; `None` if it found none.
pub fn wrong_result(
    replay: &Replay,
    found: &Verification,
    observers: &mut [&mut dyn Observer],
) -> Result<Option<WrongResult>> {
    let Some(difference) = found.differences.first() else { return Ok(None) };
    let mut reader = Reader {
        record: difference.place.record,
        occurrence: difference.place.occurrence,
        function: difference.place.function().map(str::to_owned),
        binding: difference.binding.unwrap_or_default(),
        different: difference.different,
        changes: ChangeTracker::default(),
        found: None,
    };
    let mut all: Vec<&mut dyn Observer> = observers.iter_mut().map(|it| &mut **it as _).collect();
    all.push(&mut reader);
    replay.run(&mut all)?;
    drop(all);
    Ok(reader.found)
}

/// Whether a replay has a wrong result.
pub fn has_wrong_result(
    replay: &Replay,
    wrong: &WrongResult,
    observers: &mut [&mut dyn Observer],
) -> Result<bool> {
    let mut finder = Finder { wrong, is_found: false };
    let mut all: Vec<&mut dyn Observer> = observers.iter_mut().map(|it| &mut **it as _).collect();
    all.push(&mut finder);
    replay.run(&mut all)?;
    drop(all);
    Ok(finder.is_found)
}

/// Reads the bytes of a wrong result.
struct Reader {
    record: u32,
    occurrence: u64,
    /// `None` for a host read.
    function: Option<String>,
    binding: u32,
    different: Range,
    changes: ChangeTracker,
    found: Option<WrongResult>,
}

impl Reader {
    fn is_it(&self, operation: &Operation<'_>) -> bool {
        self.function.is_some()
            && operation.dispatch.is_some()
            && (operation.location.ordinal, operation.occurrence) == (self.record, self.occurrence)
    }
}

impl Observer for Reader {
    fn wants_zeroed_memory(&self) -> bool {
        true
    }

    fn wants_operations(&self) -> bool {
        self.function.is_some()
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if self.is_it(operation) {
            self.changes.begin(operation.bindings())?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if !self.is_it(operation) {
            return Ok(ControlFlow::Continue(()));
        }
        self.changes.end()?;
        if let Some(binding) = self.changes.binding(self.binding) {
            let mut ranges = binding.changes.to_vec();
            // Bytes that should have been written and were not are wrong as well.
            ranges.push(self.different);
            let (record, occurrence) = (self.record, self.occurrence);
            let digest = digest(ranges.iter().map(|range| part(binding.after, *range)));
            self.found = Some(WrongResult::from_dispatch(
                self.function.clone().unwrap_or_default(),
                self.binding,
                SlicedDispatch { record, occurrence },
                ranges,
                digest,
            ));
        }
        Ok(ControlFlow::Break(()))
    }

    fn wants_host_reads(&self) -> bool {
        self.function.is_none()
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        if self.function.is_none() && read.location.ordinal == self.record && self.found.is_none() {
            let bytes = read.to_vec();
            self.found = Some(WrongResult::from_read(bytes.len() as u64, digest([&*bytes])));
        }
        Ok(())
    }
}

/// Finds a wrong result.
struct Finder<'w> {
    wrong: &'w WrongResult,
    is_found: bool,
}

impl Finder<'_> {
    fn has(&self, binding: &AccessedRange<'_>) -> Result<bool> {
        let mut hasher = blake3::Hasher::new();
        for range in &self.wrong.ranges {
            if range.end() > binding.length {
                return Ok(false);
            }
            hasher.update(&transfer::to_vec(binding.buffer, binding.offset + range.offset, range.length)?);
        }
        Ok(*hasher.finalize().as_bytes() == self.wrong.digest)
    }
}

impl Observer for Finder<'_> {
    fn wants_zeroed_memory(&self) -> bool {
        true
    }

    fn wants_operations(&self) -> bool {
        self.wrong.dispatch.is_some()
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if let (Some(wrong), Some(dispatch)) = (&self.wrong.dispatch, &operation.dispatch)
            && wrong.function == dispatch.name
            && let Some(binding) = operation.bindings().get(wrong.binding as usize)
            && self.has(binding)?
        {
            self.is_found = true;
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    }

    fn wants_host_reads(&self) -> bool {
        self.wrong.dispatch.is_none()
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        if self.wrong.dispatch.is_none() && read.memory.length() == self.wrong.read_length {
            self.is_found |= digest([&*read.to_vec()]) == self.wrong.digest;
        }
        Ok(())
    }
}

fn digest<'b>(parts: impl IntoIterator<Item = &'b [u8]>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}
