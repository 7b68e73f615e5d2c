//! Reports conflicts between operations of a plan that nothing orders.
//!
//! It walks the steps as `schedule.rs` does, with larger bounds. Captures lack the host's waits, so it
//! assumes by default that the host has waited where a scope begins or ends, and, when it issues a submission
//! without waits, for what it issued before its last access to any buffer. Strict reports assume neither. The
//! caller says which bindings a kernel writes (`Plan::races_with`).

use std::collections::HashMap;

use rehal_hal::{Timepoint, WrittenBindings};
use serde::{Deserialize, Serialize, Serializer};

use crate::effects::{Access, Effect};
use crate::hazards::{Conflict, InFlight, Slots, Tracker};
use crate::plan::StepOp;
use crate::schedule::{ConflictPolicy, HostWait, Moment, Walk};
use crate::{ExecutableRecord, Plan, RecordLocation};

/// Words of a set of submissions: up to 64 per word are compared with each other.
const WORDS: usize = 16;

/// Maximum number of ranges of a command buffer's accesses; more are approximated.
const MAX_RANGES: usize = 4096;

/// Maximum number of ranges of one buffer with different accesses; more are approximated.
const MAX_FRAGMENTS: usize = 1024;

/// Work for each step after which the search ends.
const WORK_PER_STEP: u64 = 1 << 14;

/// Options of [`Plan::races`].
#[derive(Clone, Copy, Debug, Default)]
pub struct RaceOptions {
    /// Assume that the host waits for nothing except before it accesses bytes itself. By default, it is
    /// assumed to have waited where a scope begins or ends; and if it accesses any buffer between two
    /// submissions, the second of which waits for no timepoint, for the first. Captures do not contain these
    /// waits.
    pub strict: bool,
}

/// Unordered operations of a capture: see [`Plan::races`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Races {
    /// The first [`MAX_RACES`] pairs, by their second operation.
    pub pairs: Vec<Race>,
    /// Number of pairs.
    pub count: u64,
    /// Submissions that are only ordered if the host waited before it issued them.
    pub assumed_wait_count: u64,
    /// Possible conflicts in ranges that were merged, so that the bytes of each access are unknown. They are
    /// not in `pairs`.
    pub inexact_count: u64,
    /// Why pairs may be missing, if so.
    pub incomplete: Option<Incomplete>,
}

/// Maximum number of pairs in [`Races`].
pub const MAX_RACES: usize = 1000;

/// Maximum number of ranges of a [`Race`].
const MAX_OVERLAPS: usize = 16;

/// Why a search may have missed races.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incomplete {
    /// So many submissions are in flight that the first were forgotten.
    TooManyInFlight,
    /// The search would have taken too long.
    TooMuchWork,
}

/// Two unordered operations that access the same bytes, at least one of which may write them.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Race {
    /// The one that can run first in the order of the records.
    pub first: RaceOperation,
    /// The other.
    pub second: RaceOperation,
    /// The bytes: the first 16 ranges.
    pub overlaps: Vec<Overlap>,
    /// Whether a wait of the host may order them, which a capture does not contain.
    pub may_be_host_ordered: bool,
    /// The last record between them in which the host accesses a buffer: it may have waited there for the
    /// first.
    #[serde(serialize_with = "ordinal")]
    pub host_access: Option<RecordLocation>,
}

/// An operation of a [`Race`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RaceOperation {
    /// Its record.
    #[serde(flatten)]
    pub location: RecordLocation,
    /// Its name, such as `queue_copy`.
    pub name: &'static str,
}

/// Bytes that two operations access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Overlap {
    /// The id of the buffer or file.
    #[serde(rename = "id")]
    pub object_id: u64,
    /// Whether it is a file.
    #[serde(rename = "object", serialize_with = "object")]
    pub is_file: bool,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// The access of the first operation.
    pub first: AccessKind,
    /// The access of the second operation.
    pub second: AccessKind,
}

fn object<S: Serializer>(is_file: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if *is_file { "file" } else { "buffer" })
}

fn ordinal<S: Serializer>(location: &Option<RecordLocation>, serializer: S) -> Result<S::Ok, S::Error> {
    location.map(|it| it.ordinal).serialize(serializer)
}

/// How an operation accesses bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessKind {
    /// It reads them.
    Reads,
    /// It writes them.
    Writes,
    /// It binds them to a kernel, which may read and write them, or has too many accesses to be tracked
    /// apart.
    Binds,
}

impl AccessKind {
    /// `reads`, `writes` or `binds`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::Binds => "binds",
        }
    }
}

impl From<Effect> for AccessKind {
    fn from(effect: Effect) -> Self {
        match effect {
            Effect::Read => Self::Reads,
            Effect::Write => Self::Writes,
            Effect::Bind | Effect::Any => Self::Binds,
        }
    }
}

impl Plan {
    /// Finds pairs of operations that access the same bytes, at least one of which may write, and that
    /// nothing in the capture orders: no timepoint, no access of the host, and no signal of the same
    /// semaphore. Runs nothing.
    ///
    /// `written` tells which bindings the functions of an executable may write, if its format says so; see
    /// [`Plan::races`] for executables of which nothing is known.
    #[doc(hidden)]
    pub fn races_with(
        &self,
        options: RaceOptions,
        written: impl Fn(&ExecutableRecord<'_>) -> WrittenBindings,
    ) -> Races {
        let policy = Pairs { options, ..Pairs::default() };
        let mut walk = Walk::<_, WORDS>::new(self, policy, MAX_RANGES, MAX_FRAGMENTS, WORK_PER_STEP);
        walk.footprints.set_written(self.written_by(written));
        walk.all();
        let Walk { footprints, policy, .. } = walk;
        let locations = self.submission_locations();
        let operation = |submission: u32| RaceOperation {
            location: locations[submission as usize],
            name: self.submissions[submission as usize].op.name(),
        };
        let overlap = |access: &Access, effect: Effect| {
            let file = footprints.file_of(access.resource);
            Overlap {
                object_id: match file {
                    Some(file) => self.files[file].id,
                    None => self.buffer_ids[access.resource as usize],
                },
                is_file: file.is_some(),
                offset: access.start,
                length: access.end - access.start,
                first: effect.into(),
                second: access.effect.into(),
            }
        };
        let pairs = policy.pairs.into_iter().map(|pair| Race {
            first: operation(pair.first),
            second: operation(pair.second),
            overlaps: pair.overlaps.iter().map(|(access, effect)| overlap(access, *effect)).collect(),
            may_be_host_ordered: pair.may_be_host_ordered,
            host_access: pair.host_access.map(|step| self.steps[step as usize].location),
        });
        Races {
            pairs: pairs.collect(),
            count: policy.count,
            assumed_wait_count: policy.assumed_wait_count,
            inexact_count: policy.inexact_count,
            incomplete: policy.incomplete,
        }
    }

    /// Like [`Plan::races_with`]: kernels may write whatever they bind, except read-only memory.
    pub fn races(&self, options: RaceOptions) -> Races {
        self.races_with(options, |_| WrittenBindings::new())
    }

    /// The bindings that `written` returns for each executable. Records of the same bytes are asked for once.
    pub(crate) fn written_by(
        &self,
        written: impl Fn(&ExecutableRecord<'_>) -> WrittenBindings,
    ) -> Vec<WrittenBindings> {
        let mut known: HashMap<_, WrittenBindings> = HashMap::new();
        let of = |record: ExecutableRecord<'_>| {
            let key = (record.format.to_vec(), record.data.as_ptr(), record.data.len());
            known.entry(key).or_insert_with(|| written(&record)).clone()
        };
        self.executables().map(of).collect()
    }

    /// The record of each submission.
    pub(crate) fn submission_locations(&self) -> Vec<RecordLocation> {
        let mut locations = vec![RecordLocation::default(); self.submissions.len()];
        for step in &self.steps {
            if let StepOp::Submission(index) | StepOp::Deferred(index) = step.op {
                locations[index as usize] = step.location;
            }
        }
        locations
    }
}

/// Collects races.
#[derive(Default)]
struct Pairs {
    options: RaceOptions,
    pairs: Vec<Pair>,
    /// The index in `pairs` of the races of the current second operation, by the first.
    of_second: HashMap<u32, Option<usize>>,
    second: Option<u32>,
    count: u64,
    assumed_wait_count: u64,
    inexact_count: u64,
    incomplete: Option<Incomplete>,
}

struct Pair {
    first: u32,
    second: u32,
    overlaps: Vec<(Access, Effect)>,
    may_be_host_ordered: bool,
    host_access: Option<u32>,
}

impl ConflictPolicy<WORDS> for Pairs {
    const WANTS_CONFLICTS: bool = true;

    fn conflict(&mut self, walk: &Tracker<WORDS>, second: u32, moment: Moment, conflict: Conflict) {
        if !conflict.is_exact {
            self.inexact_count += 1;
            return;
        }
        if self.second.replace(second) != Some(second) {
            self.of_second.clear();
        }
        let InFlight { submission: first, step, .. } = *walk.in_flight(conflict.slot);
        // If one signal makes both run, the host cannot have waited for either before.
        let may_be_host_ordered = step < moment.step;
        let host_access = moment.host_access.filter(|access| step < *access);
        let (count, pairs) = (&mut self.count, &mut self.pairs);
        let pair = self.of_second.entry(first).or_insert_with(|| {
            *count += 1;
            (pairs.len() < MAX_RACES).then(|| {
                pairs.push(Pair { first, second, overlaps: Vec::new(), may_be_host_ordered, host_access });
                pairs.len() - 1
            })
        });
        if let Some(pair) = pair
            && pairs[*pair].overlaps.len() < MAX_OVERLAPS
        {
            pairs[*pair].overlaps.push((conflict.access, conflict.effect));
        }
    }

    fn submission(
        &mut self,
        walk: &Tracker<WORDS>,
        waits: &[Timepoint<u32>],
        moment: Moment,
        slots: Slots<WORDS>,
    ) -> Slots<WORDS> {
        let mut waited = Slots::default();
        if waits.is_empty()
            && !self.options.strict
            && let Some(access) = moment.host_access
        {
            let earlier = slots.iter().filter(|slot| walk.in_flight(*slot).step < access);
            waited = earlier.fold(waited, Slots::with);
        }
        self.assumed_wait_count += u64::from(!waited.is_empty());
        waited
    }

    fn waits_at_scopes(&self) -> bool {
        !self.options.strict
    }

    fn host_waits(&mut self, _wait: HostWait) {}

    fn joins(&mut self, _signals: &[Timepoint<u32>]) {}

    fn retires(&mut self, slots: Slots<WORDS>) {
        if !slots.is_empty() {
            self.incomplete.get_or_insert(Incomplete::TooManyInFlight);
        }
    }

    fn stops_tracking(&mut self) {
        self.incomplete = Some(Incomplete::TooMuchWork);
    }
}
