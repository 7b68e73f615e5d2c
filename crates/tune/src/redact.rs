//! Captures without the data of the program: weights and inputs become random numbers of the same type, within the same range and with
//! as many special values.
//!
//! `Redactor` is a `Rewriter` (`replay/src/rewrite.rs`): an operation is decoded, its names and data are
//! replaced, and it is encoded again. The matches are exhaustive, so that an operation with new data does not
//! slip through. What has no operation is left out unless it consists of numbers. External files are stored
//! as captured ranges, or whole if they are written.
//!
//! `segments.rs` divides data into segments of one type with a dynamic program over units of 16 bytes, whose
//! costs (`kinds.rs`) are the lengths of a code for the numbers that programs have; `hints.rs` has the types
//! in names of functions. `kept.rs` has what stays: where workgroup counts are read from, what is copied
//! there, and the data of functions that the user names. `counts.rs` compares the counts of two replays, and
//! follows one that differs back to its kernel by replays up to it. `values.rs` draws numbers from a
//! histogram of signs and exponents within the range; of special values and subnormals there are exactly as
//! many.

mod counts;
mod hints;
mod kept;
mod kinds;
mod segments;
mod values;

use std::collections::{BTreeMap, HashMap};
use std::io::{Seek, Write};
use std::ops::Range;

use fastrand::Rng;
use rehal_base::{Error, Result, StatusCode};
use rehal_replay::{
    DataKind, DataPlace, FileRemap, NameKind, Plan, RewriteOptions, Rewriter, Rewritten, rewrite,
};

use self::hints::Hints;
use self::kept::{Kept, Places};
use self::kinds::Kind;
use crate::ElementTypeRule;
use crate::ledger::digest;

pub use self::counts::{ChangedCount, CountSource, WorkgroupCounts};

/// What becomes of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedactedNames {
    /// They stay.
    #[default]
    Keep,
    /// They become a digest that depends on the seed. Threads are numbered.
    Hash,
}

/// Options of [`redact`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RedactOptions {
    /// From which all random numbers are derived: a capture and a seed have one result.
    pub seed: u64,
    /// What becomes of the names of scopes, files and executable caches.
    pub names: RedactedNames,
    /// The types of what functions access, and of all data; the last rule that matches counts. The type of other
    /// data is inferred from the names of functions and from its bytes.
    pub element_types: Vec<ElementTypeRule>,
    /// Functions whose data stays, by patterns with `*` and `?`: what the capture writes to the bindings of their dispatches, such as
    /// the numbers from which a kernel computes workgroup counts.
    pub keep: Vec<String>,
    /// Where external files are.
    pub file_remaps: Vec<FileRemap>,
}

/// What [`redact`] replaced, kept and left out.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Redaction {
    /// Records with data, and its bytes, which were replaced unless they are among the [kept](KeptData) ones.
    pub replaced: BTreeMap<DataKind, RedactedData>,
    /// The bytes of all data, by the name of the type that they were taken for.
    pub types: BTreeMap<String, u64>,
    /// Bytes of numbers other than zero that are what they were, since their range has no other number, or by chance. Kept ones are
    /// not counted.
    pub unchanged_bytes: u64,
    /// Distinct names that were hashed.
    pub hashed_names: BTreeMap<NameKind, u64>,
    /// What was left out, and external files that are part of the capture now.
    pub rewritten: Rewritten,
    /// What was kept.
    pub kept: KeptData,
    /// Number of dispatches that read their workgroup count from a buffer, each performed one.
    pub indirect_dispatch_count: u64,
    /// Whether their counts may depend on data that was replaced, since kernels may write them or they are read from a file:
    /// [`WorkgroupCounts`] tells by replays.
    pub counts_may_change: bool,
}

impl Redaction {
    /// Bytes of data that were replaced. Zeros are replaced by zeros at other places.
    pub fn replaced_bytes(&self) -> u64 {
        let total: u64 = self.replaced.values().map(|data| data.bytes).sum();
        let kept = self.kept.workgroup_count_bytes + self.kept.stated_bytes;
        total.saturating_sub(kept + self.unchanged_bytes)
    }
}

/// Data of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedactedData {
    /// Number of records.
    pub record_count: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// What a redacted capture has as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptData {
    /// Number of executables.
    pub executable_count: u64,
    /// The bytes of their code, with the constants and names in it.
    pub code_bytes: u64,
    /// The bytes of their specialization constants.
    pub specialization_bytes: u64,
    /// Number of dispatches, each performed one.
    pub dispatch_count: u64,
    /// The bytes of the constants that are passed to dispatches.
    pub constant_bytes: u64,
    /// The bytes of data that dispatches read workgroup counts from, also after copies.
    pub workgroup_count_bytes: u64,
    /// The other bytes of data of the functions of [`RedactOptions::keep`].
    pub stated_bytes: u64,
    /// Distinct names of scopes, files and executable caches, unless they are hashed.
    pub name_count: u64,
}

/// Writes the capture of `plan` with other data: the same operations, with the same shapes, arguments and code.
///
/// Data is divided into segments of numbers of one type. Their replacements are of the same type, with exactly as many zeros,
/// subnormals, infinities and NaN of each sign, at other places, and about as many other numbers of each sign and exponent; negative and
/// positive ones stay between the smallest and the largest of the segment, so that indices stay valid, and integers that do not decrease
/// still do not. Data that is equal stays equal. What numbers
/// are is derived from the names of functions that access them, and from the bytes.
///
/// The bytes of external files that are read become part of the capture. Workgroup counts that the capture writes to buffers stay,
/// also if they are copied; those that kernels compute from data may change ([`Redaction::counts_may_change`]).
/// Memory does not grow with the data of an operation. Fails if an external file is missing or is not the captured one, or if no
/// dispatched function matches a pattern of [`RedactOptions::keep`].
pub fn redact<W: Write + Seek>(plan: &Plan, sink: W, options: &RedactOptions) -> Result<Redaction> {
    let data = Kept::of(plan, &options.keep)?;
    let mut redactor = Redactor {
        options,
        hints: Hints::of(plan, &options.element_types)?,
        contents: HashMap::new(),
        content_count: 0,
        names: HashMap::new(),
        window: Window::default(),
        outcome: Redaction {
            kept: kept(plan)?,
            indirect_dispatch_count: data.indirect_dispatch_count,
            counts_may_change: data.counts_may_change,
            ..Redaction::default()
        },
        data,
    };
    let mut rewriting = RewriteOptions::default();
    rewriting.file_remaps = options.file_remaps.clone();
    rewriting.renumber_threads = options.names == RedactedNames::Hash;
    let rewritten = rewrite(plan, sink, &rewriting, &mut redactor)?;
    let mut outcome = redactor.outcome;
    outcome.rewritten = rewritten;
    for (kind, _) in redactor.names.keys() {
        match options.names {
            RedactedNames::Keep => outcome.kept.name_count += 1,
            RedactedNames::Hash => *outcome.hashed_names.entry(*kind).or_default() += 1,
        }
    }
    Ok(outcome)
}

/// Fails unless the plans perform the same dispatches: functions, workgroups, constants and bindings, and where workgroup counts are
/// read from. What these counts are, [`WorkgroupCounts`] compares.
pub fn check_redacted(original: &Plan, redacted: &Plan) -> Result<()> {
    match dispatches(original)? == dispatches(redacted)? {
        true => Ok(()),
        false => Err(Error::new(StatusCode::Internal, "the redacted capture performs other dispatches")),
    }
}

/// A digest of the dispatches of a plan, and their number.
fn dispatches(plan: &Plan) -> Result<(blake3::Hash, u64)> {
    let mut hasher = blake3::Hasher::new();
    let mut count = 0;
    plan.dispatches(|it| {
        count += 1;
        let mut add = |words: &[u64]| {
            for word in words {
                hasher.update(&word.to_le_bytes());
            }
        };
        add(&[it.executable.id, u64::from(it.function), u64::from(it.dynamic_local_memory)]);
        add(&it.workgroup_count.map_or([u64::MAX; 3], |count| count.map(u64::from)));
        add(&it.workgroup_count_ref.map_or([u64::MAX; 3], |it| [it.buffer_id, it.offset, it.length]));
        add(&it.workgroup_size.map(u64::from));
        add(&[it.constants.len() as u64, it.bindings.len() as u64]);
        it.bindings.iter().for_each(|binding| add(&[binding.buffer_id, binding.offset, binding.length]));
        hasher.update(it.constants);
        Ok(())
    })?;
    Ok((hasher.finalize(), count))
}

fn kept(plan: &Plan) -> Result<KeptData> {
    let mut kept = KeptData::default();
    for executable in plan.executables() {
        kept.executable_count += 1;
        kept.code_bytes += executable.data.len() as u64;
        kept.specialization_bytes += executable.constants.len() as u64;
    }
    plan.distinct_dispatches(|dispatch, count| {
        kept.dispatch_count += count;
        kept.constant_bytes += count * dispatch.constants.len() as u64;
        Ok(())
    })?;
    Ok(kept)
}

/// Bytes that are replaced at once: segments end with it.
const WINDOW_BYTES: usize = 1 << 20;

/// Contents that are remembered, so that equal ones stay equal.
const MAX_CONTENTS: usize = 1 << 20;

struct Redactor<'o> {
    options: &'o RedactOptions,
    hints: Hints,
    data: Kept,
    /// The numbers of contents, by digest and length.
    contents: HashMap<([u8; 16], u64), u64>,
    content_count: u64,
    names: HashMap<(NameKind, Vec<u8>), Vec<u8>>,
    window: Window,
    outcome: Redaction,
}

/// The part of the data of a record that is being written.
#[derive(Default)]
struct Window {
    place: Option<DataPlace>,
    content: u64,
    /// Which window of the data it is.
    index: Option<u64>,
    bytes: Vec<u8>,
}

impl Rewriter for Redactor<'_> {
    fn name(&mut self, kind: NameKind, name: &[u8]) -> Vec<u8> {
        let Self { options, names, .. } = self;
        names.entry((kind, name.to_vec())).or_insert_with(|| hashed(options, name)).clone()
    }

    fn begin(&mut self, place: &DataPlace, data: &[u8]) {
        let counted = self.outcome.replaced.entry(place.kind).or_default();
        counted.record_count += 1;
        counted.bytes += data.len() as u64;
        let Self { contents, content_count, window, .. } = self;
        let mut next = || {
            *content_count += 1;
            *content_count
        };
        let key = (digest(data), data.len() as u64);
        window.content = match contents.get(&key) {
            Some(content) => *content,
            None if contents.len() == MAX_CONTENTS => next(),
            None => *contents.entry(key).or_insert_with(next),
        };
        (window.place, window.index) = (Some(*place), None);
    }

    fn fill(&mut self, data: &[u8], at: u64, target: &mut [u8]) {
        let mut done = 0;
        while done < target.len() {
            let at = at as usize + done;
            let index = at / WINDOW_BYTES;
            if self.window.index != Some(index as u64) {
                let source = data.chunks(WINDOW_BYTES).nth(index).unwrap_or_default();
                self.replace(index as u64, source);
            }
            let ready = &self.window.bytes[at % WINDOW_BYTES..];
            let length = ready.len().min(target.len() - done);
            target[done..][..length].copy_from_slice(&ready[..length]);
            done += length;
        }
    }
}

impl Redactor<'_> {
    /// Replaces a window of data.
    fn replace(&mut self, index: u64, source: &[u8]) {
        let Self { options, hints, data, window, outcome, .. } = self;
        window.index = Some(index);
        window.bytes.clear();
        window.bytes.resize(source.len(), 0);
        let mut random = generator(options.seed, window.content, index);
        let at = index * WINDOW_BYTES as u64;
        let target = window.place.and_then(|place| place.target);
        let choices = target
            .map_or_else(Vec::new, |(buffer, offset)| hints.choices((buffer, offset + at), source.len()));
        let kept =
            |it: &Places| window.place.map_or_else(Vec::new, |place| it.parts(&place, at, source.len()));
        let (counts, stated) = (kept(&data.counts), kept(&data.stated));
        let kept = union(&counts, &stated);
        for (range, kind) in segments::segments(source, &hints.kinds, &choices, hints.otherwise) {
            *outcome.types.entry(kind.element_type.to_string()).or_default() += range.len() as u64;
            let target = &mut window.bytes[range.clone()];
            let unchanged = values::replace(kind, &source[range.clone()], &mut random, target);
            let in_kept = unchanged_in(&kept, range, kind, source, &window.bytes);
            outcome.unchanged_bytes += unchanged.saturating_sub(in_kept);
        }
        let counted = bytes_of(&counts);
        outcome.kept.workgroup_count_bytes += counted;
        outcome.kept.stated_bytes += bytes_of(&kept) - counted;
        for range in kept {
            window.bytes[range.clone()].copy_from_slice(&source[range]);
        }
    }
}

/// The ranges that two lists have, in order and without overlap, as each of them.
fn union(first: &[Range<usize>], second: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut all: Vec<_> = first.iter().chain(second).cloned().collect();
    all.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in all {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

fn bytes_of(ranges: &[Range<usize>]) -> u64 {
    ranges.iter().map(|range| range.len() as u64).sum()
}

/// How many of the bytes that are unchanged in a segment of a kind are in some ranges, which are in order.
fn unchanged_in(
    ranges: &[Range<usize>],
    segment: Range<usize>,
    kind: Kind,
    source: &[u8],
    target: &[u8],
) -> u64 {
    let numbers_end = segment.end - segment.len() % kind.size;
    let mut count = 0;
    for range in &ranges[ranges.partition_point(|range| range.end <= segment.start)..] {
        let (mut at, end) = (range.start.max(segment.start), range.end.min(segment.end));
        while at < end {
            // A number may begin before the range, and end after it; the part of one at the end is replaced byte by byte.
            let number = match at < numbers_end {
                true => {
                    let start = at - (at - segment.start) % kind.size;
                    start..start + kind.size
                }
                false => at..at + 1,
            };
            let next = number.end.min(end);
            let is_unchanged = source[number.clone()] == target[number.clone()];
            if is_unchanged && source[number].iter().any(|byte| *byte != 0) {
                count += (next - at) as u64;
            }
            at = next;
        }
    }
    count
}

/// The random numbers of a window of a content. They do not depend on the data.
fn generator(seed: u64, content: u64, window: u64) -> Rng {
    let mut hasher = blake3::Hasher::new();
    for word in [seed, content, window] {
        hasher.update(&word.to_le_bytes());
    }
    let mut word = [0; 8];
    hasher.finalize_xof().fill(&mut word);
    Rng::with_seed(u64::from_le_bytes(word))
}

/// The name in place of another.
fn hashed(options: &RedactOptions, name: &[u8]) -> Vec<u8> {
    match options.names {
        RedactedNames::Keep => name.to_vec(),
        RedactedNames::Hash => {
            let key = blake3::hash(&options.seed.to_le_bytes());
            let digest = blake3::keyed_hash(key.as_bytes(), name).to_hex();
            digest.as_bytes()[..16].to_vec()
        }
    }
}
