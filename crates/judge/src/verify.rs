//! Verification: a replay compared with a ledger, or with another replay.
//!
//! - `against_ledger.rs` compares with a ledger. A first run screens: after each dispatch, it compares what
//!   should have changed, and the rest once for each submission. If it suspects something, a second run
//!   compares everything after each dispatch, so that a false alarm costs time only. `verify_elements`
//!   compares in lockstep if a ledger has only digests of what differs.
//! - `lockstep.rs` runs two replays of one plan on two threads. The expected side sends what a dispatch wrote
//!   and waits for the answer, so neither side is ahead by more than one dispatch. `matching.rs` pairs the
//!   dispatches of two captures of one program, which are then compared in the same way.
//! - `judge.rs` has the verdict on a range for both: elements if the expected bytes are known, else digests
//!   of pieces. Bytes that only the verified side changed are compared with their contents before.
//! - `watch.rs` is lockstep with itself: the sides fill new memory differently, by buffer and offset, so that
//!   any difference results from unwritten bytes. Redzones around buffers (`ReplayOptions::redzone_bytes`)
//!   are compared before and after each dispatch.
//! - `rounding.rs` measures what rounding explains where a dispatch of lockstep differs and no tolerance
//!   applies: the expected side waits for the verdict, and runs the dispatch again with other inputs.
//!
//! Tolerated differences are replaced by the expected bytes: each dispatch is judged on the expected inputs,
//! otherwise tolerated errors would add up. Both sides fill new memory with bytes that are not zero, since a
//! wrong kernel most often writes zeros. A tolerance without expected bytes, a truncated capture and a replay
//! with nothing to compare are inconclusive, never the same.

mod against_ledger;
mod judge;
mod lockstep;
mod matching;
mod poison;
mod rounding;
mod watch;

pub(crate) use judge::{Evidence, Judge, Known, Target, Verdict};

pub use against_ledger::{verify_against, verify_elements};
pub(crate) use lockstep::{NewMemory, run as run_lockstep};
pub use lockstep::{verify_captures, verify_lockstep};
pub use rounding::RoundingError;
pub(crate) use rounding::{LONG_BYTES, NudgedRun, Rounding, pieces};
pub use watch::{OutOfBoundsWrite, REDZONE_BYTES, watch_memory};

use rehal_base::{ElementType, Range, Remedy};
use rehal_replay::{HostRead, ObservedReplay, Observer, Operation};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::tolerance::{element_type_of, type_in_tolerances};
use crate::{ElementDifferences, ElementTypeRule, NumberSummary, Pulse, Tolerance, type_in_name};

/// Options of a verification.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// How much numbers may differ; the last one that matches counts.
    pub tolerances: Vec<Tolerance>,
    /// The element types of what functions write and the program reads; the last rule that matches counts. A
    /// ledger has types of its own, which count if no rule matches. Elements without a type are shown with
    /// the only type in the name of the function, if whole ones fit into the binding; tolerances do not apply
    /// to them.
    pub element_types: Vec<ElementTypeRule>,
    /// Whether it is measured what rounding explains, if floating-point results of a dispatch differ that no
    /// tolerance applies to. Otherwise they must be the same, as must those of host reads, and of a ledger.
    pub measures_rounding: bool,
    /// Whether to go on after a difference.
    pub keep_going: bool,
    /// Maximum number of elements in a [`Difference`].
    pub max_elements: usize,
    /// Maximum number of differences in a [`Verification`].
    pub max_differences: usize,
    /// Called after each dispatch and host read. If it ends the verification, the outcome is of what was
    /// compared, and says so.
    #[doc(hidden)]
    #[serde(skip)]
    pub pulse: Pulse,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            tolerances: Vec::new(),
            element_types: Vec::new(),
            measures_rounding: true,
            keep_going: false,
            max_elements: 8,
            max_differences: 100,
            pulse: Pulse::default(),
        }
    }
}

impl VerifyOptions {
    /// The element type of what is bound to a function, if all that is known says the same: the last rule
    /// that matches it, else its name, else the tolerances that name it.
    pub(crate) fn element_type_of(&self, function: &str) -> Option<ElementType> {
        element_type_of(&self.element_types, Some(function.as_bytes()))
            .or_else(|| type_in_name(function))
            .or_else(|| type_in_tolerances(&self.tolerances, function))
    }
}

/// The two sides of [`verify_lockstep`] or [`verify_captures`], of which the first is expected.
pub struct VerifySides<'r, 'o, 'd> {
    /// The replay that is trusted.
    pub expected: &'r dyn ObservedReplay,
    /// The replay that is verified.
    pub actual: &'r dyn ObservedReplay,
    /// More observers of the trusted replay, on a thread of its own.
    pub expected_observers: &'o mut [&'o mut (dyn Observer + Send)],
    /// More observers of the verified replay, such as progress, on the calling thread.
    pub observers: &'o mut [&'d mut dyn Observer],
}

/// The findings of a verification.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[non_exhaustive]
pub struct Verification {
    /// Number of dispatches that were compared.
    pub dispatch_count: u64,
    /// Number of host reads that were compared.
    pub read_count: u64,
    /// Number of dispatches and host reads that differ within their tolerance.
    pub tolerated_count: u64,
    /// Number of dispatches that differ by no more than rounding explains.
    pub rounded_count: u64,
    /// The functions of these dispatches, each once.
    pub rounding: Vec<RoundedFunction>,
    /// Number of dispatches and host reads that differ.
    pub different_count: u64,
    /// The first differences, in the order of the replay: one for each binding or host read that differs.
    pub differences: Vec<Difference>,
    /// Number of differences that are not among the first.
    pub omitted_differences: u64,
    /// A second run of the replay, to find all that differs, did not show the differences: they are not
    /// deterministic.
    pub is_unreproduced: bool,
    /// The verified replay ran workgroups in reverse order ([`WorkgroupSchedule::Reversed`]), and one in the
    /// usual order is the same: workgroups of what differs first race. Set by the caller, which has both
    /// replays.
    ///
    /// [`WorkgroupSchedule::Reversed`]: rehal_hal::WorkgroupSchedule::Reversed
    pub depends_on_order: bool,
    /// [`VerifyOptions::pulse`] has ended it.
    pub is_interrupted: bool,
    /// Two replays of the verified code, with the same contents of new memory, differ, and these are the
    /// differences: its workgroups race, or it uses a clock or the like. Set by the caller.
    pub is_race: bool,
    /// The functions of the verified code that change static variables. Set by the caller, who can look at
    /// code.
    pub static_writes: Vec<StaticWrite>,
    /// The expected bytes are those of a replay with the captured executables, which agrees with the ledger.
    pub is_with_captured: bool,
    /// Length of the longest range that differs and of which only digests of the expected bytes are known; 0
    /// without one.
    pub digested_bytes: u64,
    /// Number of dispatches that wrote outside of their bindings.
    pub out_of_bounds_write_count: u64,
    /// The first writes outside of bindings, in the order of the replay.
    pub out_of_bounds_writes: Vec<OutOfBoundsWrite>,
    /// Number of writes outside of bindings that are not among the first.
    pub omitted_out_of_bounds_writes: u64,
    /// Number of bytes of host reads that were never written, if memory is watched: padding that the program
    /// ignores, or results that no dispatch computed.
    pub unwritten_read_bytes: u64,
    /// The first host read with such bytes.
    #[serde(serialize_with = "record", deserialize_with = "from_record")]
    pub first_unwritten_read: Option<Place>,
    /// The dispatches and host reads of two captures that have no counterpart in the other one.
    pub unmatched: Vec<Unmatched>,
    /// Why it cannot be told whether the rest is the same.
    pub inconclusive: Vec<String>,
    /// Number of reasons that are not in [`Verification::inconclusive`].
    pub omitted_reasons: u64,
    /// The tolerances that nothing was compared with: no function of the capture matches, or those that were
    /// compared, and host reads, have elements of other types, or of unknown ones.
    pub unused_tolerances: Vec<Tolerance>,
    /// The functions that something was tolerated of by an element type that is not stated, each once.
    pub inferred_types: Vec<InferredType>,
}

/// A function that changes static variables of its code, which its workgroups share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticWrite {
    /// The name of the function.
    pub function: String,
    /// The record of the first dispatch that did.
    pub record: u32,
    /// Number of bytes that were others after it.
    pub changed_bytes: u64,
}

/// Dispatches of a function, or host reads, that only one of two captures has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Unmatched {
    /// The name of the function; `None` for host reads.
    pub function: Option<String>,
    /// Whether they are those of the capture that is trusted.
    pub is_expected: bool,
    /// How many there are.
    pub count: u64,
}

/// From where an element type is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TypeSource {
    /// A rule or the ledger states it; or there is none.
    Stated,
    /// The name of the function has it.
    Name,
    /// A tolerance that names the function has it.
    Tolerance,
}

/// The element type of what a function writes, which is not stated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InferredType {
    /// The name of the function.
    pub function: String,
    /// The type.
    pub element_type: ElementType,
    /// From where it is known.
    pub source: TypeSource,
}

/// A function whose results differ by no more than rounding explains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RoundedFunction {
    /// Its name.
    pub function: String,
    /// The type of the elements.
    pub element_type: ElementType,
    /// The largest difference, of all of its dispatches.
    #[serde(flatten)]
    pub error: RoundingError,
}

/// The outcome of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Everything is the same, within the tolerances and up to rounding.
    Same,
    /// Something differs.
    Different,
    /// No difference was found, but not everything could be compared.
    Inconclusive,
}

impl<'d> Deserialize<'d> for Verification {
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Self, D::Error> {
        Verification::deserialize(from)
    }
}

impl Serialize for Verification {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            outcome: Outcome,
            #[serde(flatten, serialize_with = "fields")]
            of: &'a Verification,
        }
        fn fields<S: Serializer>(of: &&Verification, serializer: S) -> Result<S::Ok, S::Error> {
            Verification::serialize(of, serializer)
        }
        Row { outcome: self.outcome(), of: self }.serialize(serializer)
    }
}

impl Verification {
    /// Name and version of its JSON.
    pub const SCHEMA: &'static str = "rehal.verify/1";

    /// Whether everything is the same.
    pub fn outcome(&self) -> Outcome {
        match (self.different_count + self.out_of_bounds_write_count, self.inconclusive.is_empty()) {
            (0, true) => Outcome::Same,
            (0, false) => Outcome::Inconclusive,
            _ => Outcome::Different,
        }
    }

    /// The remedy that shows the user more.
    pub fn remedy(&self) -> Option<Remedy> {
        match self.digested_bytes {
            0 => None,
            bytes => Some(Remedy::KeepExpectedBytes { bytes }),
        }
    }

    /// Adds the counts of another one in which everything is the same.
    pub(crate) fn add_same(&mut self, other: &Self) {
        self.dispatch_count += other.dispatch_count;
        self.read_count += other.read_count;
        self.tolerated_count += other.tolerated_count;
        self.rounded_count += other.rounded_count;
        other.rounding.iter().for_each(|it| self.add_rounding(it.clone()));
    }

    /// Adds a difference that rounding explains, if it is larger than what is known of the function.
    pub(crate) fn add_rounding(&mut self, it: RoundedFunction) {
        match self.rounding.iter_mut().find(|known| known.function == it.function) {
            Some(known) => known.error = known.error.larger(it.error),
            None => self.rounding.push(it),
        }
    }

    /// Number of dispatches and host reads that were compared.
    pub fn compared_count(&self) -> u64 {
        self.dispatch_count + self.read_count
    }
}

/// A binding of a dispatch, or a host read, that differs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[non_exhaustive]
pub struct Difference {
    /// The dispatch or host read.
    #[serde(flatten)]
    pub place: Place,
    /// The ordinal of the binding; `None` for a host read.
    pub binding: Option<u32>,
    /// Other bindings of the same range.
    pub aliases: Vec<u32>,
    /// The buffer's id in the capture.
    pub buffer_id: u64,
    /// The range of the buffer that is bound or read.
    #[serde(flatten)]
    pub range: Range,
    /// From the first to the last byte that is known to differ, in `range`; with digests alone, the pieces
    /// that differ.
    #[serde(flatten, serialize_with = "different", deserialize_with = "from_different")]
    pub different: Range,
    /// From the first to the last of the pieces of which only digests are known, which differ; `None` without
    /// such pieces.
    #[serde(flatten, serialize_with = "digest_bytes", deserialize_with = "from_digest_bytes")]
    pub digest_bytes: Option<Range>,
    /// The element type, if it is known.
    pub element_type: Option<ElementType>,
    /// From where the element type is known.
    #[serde(skip_serializing, deserialize_with = "from_type_source")]
    pub type_source: TypeSource,
    /// The elements; `None` if none is known to differ, only digests of pieces.
    pub elements: Option<ElementDifferences>,
    /// Number of bytes that were written and should not have been: in elements that the expected dispatch
    /// does not change, or in units of 16 bytes if their type or the expected changes are not known. Their
    /// expected contents are those before the dispatch.
    pub unexpected_bytes: u64,
    /// The expected numbers that the dispatch changed, or should have, if they are known. Of a ledger, those
    /// in the units of 16 bytes that it changed, and in less than 64 bytes between them.
    pub expected: Option<NumberSummary>,
    /// The actual numbers in the same place.
    pub actual: Option<NumberSummary>,
}

impl<'d> Deserialize<'d> for Difference {
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Self, D::Error> {
        Difference::deserialize(from)
    }
}

impl Serialize for Difference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            #[serde(flatten, serialize_with = "fields")]
            of: &'a Difference,
            is_type_inferred: bool,
            type_source: Option<TypeSource>,
        }
        fn fields<S: Serializer>(of: &&Difference, serializer: S) -> Result<S::Ok, S::Error> {
            Difference::serialize(of, serializer)
        }
        let is_type_inferred = self.type_source != TypeSource::Stated;
        let type_source = self.element_type.map(|_| self.type_source);
        Row { of: self, is_type_inferred, type_source }.serialize(serializer)
    }
}

fn record<S: Serializer>(place: &Option<Place>, serializer: S) -> Result<S::Ok, S::Error> {
    place.as_ref().map(|place| place.record).serialize(serializer)
}

fn different<S: Serializer>(range: &Range, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map([("different_offset", range.offset), ("different_length", range.length)])
}

fn digest_bytes<S: Serializer>(range: &Option<Range>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map([
        ("digest_offset", range.map(|range| range.offset)),
        ("digest_length", range.map(|range| range.length)),
    ])
}

fn from_record<'d, D: Deserializer<'d>>(from: D) -> Result<Option<Place>, D::Error> {
    let record = Option::deserialize(from)?;
    Ok(record.map(|record| Place { record, ..Place::default() }))
}

fn from_different<'d, D: Deserializer<'d>>(from: D) -> Result<Range, D::Error> {
    #[derive(Deserialize)]
    struct Different {
        different_offset: u64,
        different_length: u64,
    }
    let Different { different_offset: offset, different_length: length } = Different::deserialize(from)?;
    Ok(Range { offset, length })
}

fn from_digest_bytes<'d, D: Deserializer<'d>>(from: D) -> Result<Option<Range>, D::Error> {
    #[derive(Deserialize)]
    struct Digest {
        digest_offset: Option<u64>,
        digest_length: Option<u64>,
    }
    let Digest { digest_offset, digest_length } = Digest::deserialize(from)?;
    Ok(digest_offset.zip(digest_length).map(|(offset, length)| Range { offset, length }))
}

fn from_type_source<'d, D: Deserializer<'d>>(from: D) -> Result<TypeSource, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(TypeSource::Stated))
}

/// Where in a replay something differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Place {
    /// Ordinal of the record: of the dispatch, or the call that maps the buffer.
    pub record: u32,
    /// Byte offset of the record in the capture.
    pub record_offset: u64,
    /// Ordinal of the record of the submission.
    pub submission: u32,
    /// How often the record has been performed before.
    pub occurrence: u64,
    /// The name of the innermost scope that is open.
    pub scope: Option<String>,
    /// The dispatch; `None` for a host read.
    pub dispatch: Option<DispatchPlace>,
}

/// The dispatch at a [`Place`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DispatchPlace {
    /// The id of the executable in the capture.
    pub executable_id: u64,
    /// The name of the function.
    pub function: String,
    /// Number of workgroups in x, y and z.
    pub workgroup_count: [u32; 3],
}

impl Place {
    pub(crate) fn from_operation(operation: &Operation<'_>) -> Self {
        Self {
            record: operation.location.ordinal,
            record_offset: operation.location.offset,
            submission: operation.submission.ordinal,
            occurrence: operation.occurrence,
            scope: operation.scope.map(|name| String::from_utf8_lossy(name).into_owned()),
            dispatch: operation.dispatch.as_ref().map(|it| DispatchPlace {
                executable_id: it.executable.id,
                function: it.name.to_owned(),
                workgroup_count: it.workgroup_count,
            }),
        }
    }

    fn from_read(read: &HostRead<'_>) -> Self {
        Self {
            record: read.location.ordinal,
            record_offset: read.location.offset,
            submission: read.location.ordinal,
            occurrence: 0,
            scope: read.scope.map(|name| String::from_utf8_lossy(name).into_owned()),
            dispatch: None,
        }
    }

    /// The name of the function; `None` for a host read.
    pub fn function(&self) -> Option<&str> {
        self.dispatch.as_ref().map(|it| it.function.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ElementDifference, Histogram, HistogramBin};

    fn summary() -> NumberSummary {
        NumberSummary {
            minimum: -1.0,
            maximum: 2.0,
            mean: 0.5,
            finite_count: 9,
            nan_count: 10,
            infinity_count: 11,
        }
    }

    fn elements(error: RoundingError) -> ElementDifferences {
        let first = ElementDifference {
            index: 12,
            expected: "1.0".into(),
            actual: "NaN".into(),
            ulps: Some(13),
            absolute: Some(0.5),
            relative: None,
        };
        let histogram = Histogram {
            is_in_ulps: true,
            bins: vec![HistogramBin { up_to: Some(1), count: 14 }, HistogramBin { up_to: None, count: 15 }],
            other_count: 16,
        };
        ElementDifferences {
            compared_count: 17,
            different_count: 18,
            tolerated_count: 19,
            rounding: Some(error),
            first: vec![first],
            histogram,
        }
    }

    /// A worker passes what it found as the JSON of reports: a field that is missing there, or that is read
    /// in another form, would be lost in the tool.
    #[test]
    fn a_verification_is_a_message() {
        let range = |offset, length| Range { offset, length };
        let f32 = ElementType::from_parts(rehal_base::Numerical::FLOAT_IEEE, 32);
        let place = Place {
            record: 1,
            record_offset: 2,
            submission: 3,
            occurrence: 4,
            scope: Some("s".into()),
            dispatch: Some(DispatchPlace {
                executable_id: 5,
                function: "f".into(),
                workgroup_count: [6, 7, 8],
            }),
        };
        let error = RoundingError {
            multiple: Some(1.5),
            limit: 16.0,
            scale_ulps: 2.5,
            relative_scale: 0.25,
            is_ill_conditioned: true,
        };
        let (summary, elements) = (summary(), elements(error));
        let difference = |type_source, digest_bytes| Difference {
            place: place.clone(),
            binding: Some(20),
            aliases: vec![21],
            buffer_id: 22,
            range: range(23, 24),
            different: range(25, 26),
            digest_bytes,
            element_type: Some(f32),
            type_source,
            elements: Some(elements.clone()),
            unexpected_bytes: 27,
            expected: Some(summary),
            actual: None,
        };
        let write = OutOfBoundsWrite {
            place: place.clone(),
            buffer_id: 28,
            buffer_size: 29,
            offset: -30,
            length: 31,
            binding: 32,
            bound: range(33, 34),
            bytes: vec![0, 255],
        };
        let found = Verification {
            dispatch_count: 35,
            read_count: 36,
            tolerated_count: 37,
            rounded_count: 38,
            rounding: vec![RoundedFunction { function: "f".into(), element_type: f32, error }],
            different_count: 39,
            differences: vec![
                difference(TypeSource::Name, Some(range(40, 41))),
                difference(TypeSource::Stated, None),
            ],
            omitted_differences: 42,
            is_unreproduced: true,
            depends_on_order: true,
            is_interrupted: true,
            is_race: true,
            static_writes: vec![StaticWrite { function: "g".into(), record: 43, changed_bytes: 44 }],
            is_with_captured: true,
            digested_bytes: 45,
            out_of_bounds_write_count: 46,
            out_of_bounds_writes: vec![write],
            omitted_out_of_bounds_writes: 47,
            unwritten_read_bytes: 48,
            // Only the record is passed.
            first_unwritten_read: Some(Place { record: 49, ..Place::default() }),
            unmatched: vec![Unmatched { function: None, is_expected: true, count: 50 }],
            inconclusive: vec!["why".into()],
            omitted_reasons: 51,
            unused_tolerances: vec![Tolerance::parse("*:f16:ulp=1,abs=2,rel=3").unwrap()],
            inferred_types: vec![InferredType {
                function: "h".into(),
                element_type: f32,
                source: TypeSource::Tolerance,
            }],
        };
        let text = serde_json::to_string(&found).unwrap();
        let again: Verification = serde_json::from_str(&text).unwrap();
        assert_eq!(format!("{again:?}"), format!("{found:?}"));
    }
}
