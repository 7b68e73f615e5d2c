//! Reduces a capture to what a check needs: delta debugging over scopes, submissions, commands, calls of the
//! host, and bytes.
//!
//! `program.rs` takes a capture apart into parts, records that are kept or left out together: a creation with
//! the description of its object, a mapping with its end, the begin and end of a scope. A `Choice` says which
//! parts are wanted and which bytes are zeros; `closure.rs` adds what they name, and makes them consistent:
//! waits for signals that are left out, slots, barriers. So a candidate is valid by construction as far as
//! objects go, and its plan decides the rest before a check runs. `emit.rs` writes records as they are, and
//! changed ones through `decode` and `encode_payload`.
//!
//! `passes.rs` orders the parts from coarse to fine, `delta.rs` is the algorithm, and `search.rs` runs
//! several checks at a time, of which the first in order that passes counts, so that the result does not
//! depend on their number. Candidates are known by a digest of what differs from their program, and none is
//! checked twice. A slice of a dispatch is made without performing it (`SliceOptions::unperformed`), since
//! that may crash. The library starts no process: `ReduceHost` does.

mod bytes;
mod closure;
mod delta;
mod emit;
mod passes;
mod program;
mod search;
mod visit;
mod wrong;

use std::path::Path;
use std::time::Duration;

use rehal_base::Result;
use rehal_replay::CaptureBytes;
use serde::{Deserialize, Serialize};

pub use self::wrong::{WrongDispatch, WrongResult, has_wrong_result, wrong_result};

/// The services that a reduction asks of the program that runs it. The checks run concurrently.
pub trait ReduceHost: Sync {
    /// Whether a capture still shows what is looked for. An error ends the reduction.
    fn is_interesting(&self, capture: &Path) -> Result<bool>;

    /// Writes a slice of one dispatch of a capture to a file, without performing the dispatch. Returns
    /// whether that was possible.
    fn slice(&self, capture: &Path, dispatch: SlicedDispatch, output: &Path) -> Result<bool>;

    /// Whether to stop.
    fn is_interrupted(&self) -> bool;

    /// Called when a stage ends, and whenever the capture has become smaller.
    fn progress(&self, progress: &ReduceProgress);
}

/// A dispatch of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlicedDispatch {
    /// The ordinal of its record.
    pub record: u32,
    /// How often the record has been performed before.
    pub occurrence: u64,
}

/// Options of [`reduce`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ReduceOptions {
    /// Uses the complete records of a capture that is truncated.
    pub recover: bool,
    /// Number of checks that run at the same time. The result does not depend on it.
    pub jobs: usize,
    /// Maximum number of checks.
    pub max_checks: Option<u64>,
    /// Maximum time.
    pub max_time: Option<Duration>,
    /// Bytes are tried in ranges that become shorter, down to single bytes, as long as no more ranges than
    /// these are needed.
    pub max_byte_ranges: usize,
    /// The dispatch that probably shows what is looked for: a slice of it is tried first.
    pub suspect: Option<SlicedDispatch>,
}

impl Default for ReduceOptions {
    fn default() -> Self {
        Self {
            recover: false,
            jobs: 1,
            max_checks: None,
            max_time: None,
            max_byte_ranges: 256,
            suspect: None,
        }
    }
}

/// How large a capture is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReduceSize {
    /// Bytes of the file.
    pub bytes: u64,
    /// Records.
    pub records: u64,
    /// Scopes that are entered.
    pub scopes: u64,
    /// Submissions, with allocations.
    pub submissions: u64,
    /// Commands.
    pub commands: u64,
    /// Dispatches, of commands and of submissions.
    pub dispatches: u64,
    /// Calls of the host that access memory.
    pub host_accesses: u64,
    /// Objects that are created.
    pub objects: u64,
    /// Bytes of data, besides code, that are not zero.
    #[serde(rename = "nonzero_data_bytes")]
    pub data_bytes: u64,
}

/// How far a reduction is.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ReduceProgress {
    /// The stage that is tried.
    pub stage: &'static str,
    /// Whether the stage has ended.
    pub has_ended: bool,
    /// Number of checks.
    pub check_count: u64,
    /// The size of the smallest capture so far.
    pub size: ReduceSize,
}

/// Why a reduction stopped before the result was minimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceStop {
    /// [`ReduceOptions::max_checks`].
    Checks,
    /// [`ReduceOptions::max_time`].
    Time,
    /// [`ReduceHost::is_interrupted`].
    Interrupted,
    /// The check passed for a capture, and then failed for the same one.
    Unstable,
}

/// The result of [`reduce`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reduction {
    /// The size of the capture.
    pub before: ReduceSize,
    /// The size of the result.
    pub after: ReduceSize,
    /// Number of checks, with those that ran at the same time as one that passed.
    pub check_count: u64,
    /// Number of candidates that could not be replayed, and were not checked.
    pub rejected_count: u64,
    /// Whether the result is a slice of a dispatch.
    pub is_slice: bool,
    /// `None` if the result is minimal: in a last round, no scope, submission, command, call of the host,
    /// unused object or range of bytes could be left out by itself.
    pub stop: Option<ReduceStop>,
    /// The length of the ranges of bytes of which none can be left out by itself.
    pub byte_range: usize,
}

/// Reduces a capture that a host finds interesting, and writes the result to `output`. Candidates are written
/// to `directory`.
///
/// Fails if the capture cannot be planned, or is not interesting; if what is written for all of its records
/// is not; and if the host fails. Then nothing is written to `output`.
pub fn reduce(
    capture: &CaptureBytes,
    options: &ReduceOptions,
    host: &dyn ReduceHost,
    directory: &Path,
    output: &Path,
) -> Result<Reduction> {
    search::Search::new(*options, passes::reduce, host, directory).run(capture, output)
}
