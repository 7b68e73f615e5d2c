//! Captures without the data of the program: weights and inputs become random numbers of the same type and
//! within the same range.
//!
//! `Redactor` is a `Rewriter` (`replay/src/rewrite.rs`): an operation is decoded, its names and data are
//! replaced, and it is encoded again. The matches are exhaustive, so that an operation with new data does not
//! slip through. What has no operation is left out unless it consists of numbers. External files are stored
//! as captured ranges, or whole if they are written.
//!
//! `uses.rs` divides the data of each record by the functions that use it, also after copies. The decision
//! about a part follows from rules of the user (`rules.rs`) or from the element type that the names of all
//! these functions have. The bytes tell no type: a part without a decision is listed. `values.rs` draws
//! elements between the minimum and the maximum. `counts.rs` compares the workgroup counts of two replays.

mod counts;
mod rules;
mod uses;
mod values;

use std::collections::{BTreeMap, HashMap};
use std::io::{Seek, Write};
use std::ops::Range as Part;

use rehal_base::{ElementType, Error, Range, Result, StatusCode, escaped};
use rehal_judge::digest;
use rehal_replay::{
    DataKind, DataPlace, FileRemap, NameKind, Plan, RewriteOptions, Rewriter, Rewritten, rewrite,
};
use serde::{Serialize, Serializer};

use self::uses::{Segment, Store, Uses};
use self::values::Elements;

pub use self::counts::{ChangedCount, WorkgroupCounts, workgroup_count_functions};
pub use self::rules::{DataRange, DataSelector, RedactDecision, RedactRule};

/// The treatment of names.
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
    /// The treatment of the names of scopes, files and executable caches.
    pub names: RedactedNames,
    /// The treatment of data. A rule for a range precedes one for functions, which precedes the types in
    /// names, which precede one for all data. Two rules of the same precedence must not say different things.
    pub rules: Vec<RedactRule>,
    /// Where external files are.
    pub file_remaps: Vec<FileRemap>,
}

/// The data that [`redact`] replaced, kept and left out.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Redaction {
    /// Records with data, and its bytes.
    #[serde(rename = "replaced")]
    pub data: BTreeMap<DataKind, RedactedData>,
    /// The parts of the data, in order.
    pub ranges: Vec<RedactedRange>,
    /// Bytes of data that were replaced by others, or by zero.
    pub replaced_bytes: u64,
    /// Bytes of numbers other than zero that are unchanged: infinite or NaN, the only number of their range,
    /// or the same by chance. Kept data is not counted.
    #[serde(skip)]
    pub unchanged_bytes: u64,
    /// Distinct names that were hashed.
    pub hashed_names: BTreeMap<NameKind, u64>,
    /// The parts that were left out, and external files that are part of the capture now.
    #[serde(skip)]
    pub rewritten: Rewritten,
    /// The data that was kept.
    #[serde(skip)]
    pub kept: KeptData,
    /// Number of dispatches that read their workgroup count from a buffer, each performed one.
    #[serde(skip)]
    pub indirect_dispatch_count: u64,
    /// The record of the first of them.
    #[serde(skip)]
    pub first_indirect: Option<u32>,
    /// Whether their counts may depend on data that was replaced, since kernels may write them or they are
    /// read from a file: [`WorkgroupCounts`] tells by replays.
    #[serde(skip)]
    pub counts_may_change: bool,
}

impl Redaction {
    /// The ranges without a decision. If there are any, the written capture has zeros in their place.
    pub fn undecided(&self) -> impl Iterator<Item = (&RedactedRange, &UnknownType)> {
        self.ranges.iter().filter_map(|it| match &it.content {
            RedactedContent::Undecided(reason) => Some((it, reason)),
            _ => None,
        })
    }

    /// The bytes of replaced elements, by their type.
    pub fn types(&self) -> BTreeMap<String, u64> {
        let mut types = BTreeMap::new();
        for it in &self.ranges {
            if let RedactedContent::Elements(element_type) = it.content {
                *types.entry(element_type.to_string()).or_default() += it.place.range.length;
            }
        }
        types
    }

    fn total(&self, content: &RedactedContent) -> u64 {
        let ranges = self.ranges.iter().filter(|it| it.content == *content);
        ranges.map(|it| it.place.range.length).sum()
    }
}

/// Data of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RedactedData {
    /// Number of records.
    #[serde(rename = "records")]
    pub record_count: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// A part of the data of a record.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RedactedRange {
    /// Where it is.
    pub place: DataRange,
    /// How the capture has it.
    pub kind: DataKind,
    /// The name of a function that uses it.
    pub function: Option<String>,
    /// Number of functions that use it.
    pub function_count: usize,
    /// Its new content.
    pub content: RedactedContent,
}

impl RedactedRange {
    /// Why its type is unknown; `None` unless it is undecided.
    pub fn reason(&self) -> Option<String> {
        let RedactedContent::Undecided(unknown) = &self.content else { return None };
        let function = escaped(self.function.as_deref().unwrap_or_default());
        let users = match self.function_count {
            0 | 1 => format!("used by '{function}'"),
            count => format!("used by '{function}' and {} more", count - 1),
        };
        Some(match unknown {
            UnknownType::Unused => "used by no function".into(),
            UnknownType::Unnamed => format!("{users}: a name has no type, or several"),
            UnknownType::Different(types) => {
                let types: Vec<_> = types.iter().map(ToString::to_string).collect();
                format!("{users}: names have {}", types.join(", "))
            }
            UnknownType::NotMultiple(element_type) => {
                format!("{users}: the size is not a multiple of that of {element_type}")
            }
        })
    }
}

impl Serialize for RedactedRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            range: String,
            data: DataKind,
            content: &'static str,
            element_type: Option<ElementType>,
            reason: Option<String>,
            function: Option<&'a str>,
            functions: usize,
        }
        let (content, element_type) = match self.content {
            RedactedContent::Elements(element_type) => ("elements", Some(element_type)),
            RedactedContent::Zeros => ("zeros", None),
            RedactedContent::Zeroed => ("zeroed", None),
            RedactedContent::Kept => ("kept", None),
            RedactedContent::WorkgroupCounts => ("workgroup_counts", None),
            RedactedContent::Pattern => ("pattern", None),
            RedactedContent::Undecided(_) => ("undecided", None),
        };
        let row = Row {
            range: self.place.to_string(),
            data: self.kind,
            content,
            element_type,
            reason: self.reason(),
            function: self.function.as_deref(),
            functions: self.function_count,
        };
        row.serialize(serializer)
    }
}

/// The new content of a part of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedactedContent {
    /// Elements of this type were replaced.
    Elements(ElementType),
    /// All bytes are zero, so that no decision is needed.
    Zeros,
    /// A rule made it zero.
    Zeroed,
    /// A rule kept it.
    Kept,
    /// It has workgroup counts, which stay.
    WorkgroupCounts,
    /// The pattern of a fill, which stays: it is one element.
    Pattern,
    /// Its type is unknown.
    Undecided(UnknownType),
}

/// Why the type of data is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnknownType {
    /// No function uses it.
    Unused,
    /// The name of a function has no element type, or several.
    Unnamed,
    /// The names of functions have different types.
    Different(Vec<ElementType>),
    /// Its size is not a multiple of that of elements of this type, which the names of all functions have.
    NotMultiple(ElementType),
}

/// The data that a redacted capture has as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct KeptData {
    /// Number of executables.
    #[serde(rename = "executables")]
    pub executable_count: u64,
    /// The bytes of their code, with the constants and names in it.
    pub code_bytes: u64,
    /// The bytes of their specialization constants.
    pub specialization_bytes: u64,
    /// Number of dispatches, each performed one.
    #[serde(rename = "dispatches")]
    pub dispatch_count: u64,
    /// The bytes of the constants that are passed to dispatches.
    pub constant_bytes: u64,
    /// The bytes of data that dispatches read workgroup counts from, also after copies.
    pub workgroup_count_bytes: u64,
    /// The bytes of the patterns of fills.
    pub pattern_bytes: u64,
    /// The bytes of data that rules keep.
    pub stated_bytes: u64,
    /// Distinct names of scopes, files and executable caches, unless they are hashed.
    #[serde(rename = "names")]
    pub name_count: u64,
}

/// Writes the capture of `plan` with other data: the same operations, with the same shapes, arguments and
/// code.
///
/// The data of each record is divided by the functions that use it. Elements of a known type are replaced by
/// others of the same type between the minimum and the maximum of their range, so that indices stay valid;
/// zeros, infinities and NaN stay where they are. Ranges that are equal stay equal. Data whose type is
/// unknown needs a rule: see [`Redaction::undecided`].
///
/// The bytes of external files that are read become part of the capture. Workgroup counts that the capture
/// writes to buffers stay, also if they are copied; those that kernels compute from data may change
/// ([`Redaction::counts_may_change`]). Memory does not grow with the data of an operation. Fails if an
/// external file is missing or is not the captured one, if a rule selects nothing, if two rules contradict
/// each other, or if the elements of the type that a rule states do not fill the data.
pub fn redact<W: Write + Seek>(plan: &Plan, sink: W, options: &RedactOptions) -> Result<Redaction> {
    let uses = Uses::from_plan(plan, &options.rules)?;
    for (index, rule) in options.rules.iter().enumerate() {
        if let DataSelector::Functions(pattern) = &rule.selector
            && uses.selects_none(index)
        {
            let error =
                Error::invalid_argument(format!("no function that is dispatched matches '{pattern}'"));
            return Err(error.advise("name a function of the catalog of kernels, or `all`"));
        }
    }
    let mut redactor = Redactor {
        options,
        outcome: Redaction {
            kept: kept(plan)?,
            indirect_dispatch_count: uses.indirect_dispatch_count,
            first_indirect: uses.first_indirect,
            counts_may_change: uses.counts_may_change,
            ..Redaction::default()
        },
        uses,
        contents: HashMap::new(),
        content_count: 0,
        names: HashMap::new(),
        parts: Vec::new(),
        used: vec![false; options.rules.len()],
        failure: None,
    };
    let mut rewriting = RewriteOptions::default();
    rewriting.file_remaps = options.file_remaps.clone();
    rewriting.renumber_threads = options.names == RedactedNames::Hash;
    let rewritten = rewrite(plan, sink, &rewriting, &mut redactor)?;
    if let Some(error) = redactor.failure {
        return Err(error);
    }
    for (rule, _) in options.rules.iter().zip(&redactor.used).filter(|(_, used)| !**used) {
        if let DataSelector::Range(range) = &rule.selector {
            let error = Error::invalid_argument(format!("the capture has no data at {range}"));
            return Err(error.advise("copy the range from the list of ranges"));
        }
    }
    let mut outcome = redactor.outcome;
    outcome.rewritten = rewritten;
    outcome.kept.workgroup_count_bytes = outcome.total(&RedactedContent::WorkgroupCounts);
    outcome.kept.pattern_bytes = outcome.total(&RedactedContent::Pattern);
    outcome.kept.stated_bytes = outcome.total(&RedactedContent::Kept);
    for (kind, _) in redactor.names.keys() {
        match options.names {
            RedactedNames::Keep => outcome.kept.name_count += 1,
            RedactedNames::Hash => *outcome.hashed_names.entry(*kind).or_default() += 1,
        }
    }
    Ok(outcome)
}

/// Fails unless the plans perform the same dispatches: functions, workgroups, constants and bindings, and
/// where workgroup counts are read from. What these counts are, [`WorkgroupCounts`] compares.
pub fn check_redacted(original: &Plan, redacted: &Plan) -> Result<()> {
    match dispatches(original)? == dispatches(redacted)? {
        true => Ok(()),
        false => Err(Error::new(StatusCode::Internal, "the redacted capture performs other dispatches")),
    }
}

/// A digest of the dispatches of a plan.
fn dispatches(plan: &Plan) -> Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    plan.dispatches(|it| {
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
    Ok(hasher.finalize())
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

/// Contents that are remembered, so that equal ones stay equal.
const MAX_CONTENTS: usize = 1 << 20;

struct Redactor<'o> {
    options: &'o RedactOptions,
    uses: Uses,
    /// The numbers of contents, by digest and length.
    contents: HashMap<([u8; 16], u64), u64>,
    content_count: u64,
    names: HashMap<(NameKind, Vec<u8>), Vec<u8>>,
    /// The data of the record that is being written, in order.
    parts: Vec<(Part<usize>, Replacement)>,
    /// Which rules for ranges select data.
    used: Vec<bool>,
    failure: Option<Error>,
    outcome: Redaction,
}

/// The new content of a part of the data of a record.
enum Replacement {
    Copied,
    Zero,
    Elements { elements: Elements, key: u64 },
}

impl Rewriter for Redactor<'_> {
    fn name(&mut self, kind: NameKind, name: &[u8]) -> Vec<u8> {
        let Self { options, names, .. } = self;
        names.entry((kind, name.to_vec())).or_insert_with(|| hashed(options, name)).clone()
    }

    fn begin(&mut self, place: &DataPlace, data: &[u8]) {
        let counted = self.outcome.data.entry(place.kind).or_default();
        counted.record_count += 1;
        counted.bytes += data.len() as u64;
        self.parts.clear();
        if let Err(error) = self.divide(place, data) {
            self.failure.get_or_insert(error);
        }
    }

    fn fill(&mut self, data: &[u8], at: u64, target: &mut [u8]) {
        // An error is returned in the end.
        target.fill(0);
        let piece = at as usize..at as usize + target.len();
        let first = self.parts.partition_point(|(part, _)| part.end <= piece.start);
        for (part, replacement) in &self.parts[first..] {
            let (start, end) = (part.start.max(piece.start), part.end.min(piece.end));
            if start >= end {
                break;
            }
            let target = &mut target[start - piece.start..end - piece.start];
            match replacement {
                Replacement::Copied => target.copy_from_slice(&data[start..end]),
                Replacement::Zero => self.outcome.replaced_bytes += target.len() as u64,
                Replacement::Elements { elements, key } => {
                    let filled = elements.fill(*key, &data[part.clone()], start - part.start, target);
                    self.outcome.replaced_bytes += filled.changed_bytes;
                    self.outcome.unchanged_bytes += filled.unchanged_bytes;
                }
            }
        }
    }
}

impl Redactor<'_> {
    /// Divides the data of a record, and decides what becomes of each part.
    fn divide(&mut self, place: &DataPlace, data: &[u8]) -> Result<()> {
        let whole = Range { offset: 0, length: data.len() as u64 };
        let (store, offset) = match (place.kind, place.target) {
            (DataKind::HostWrite | DataKind::Import, Some((buffer, offset))) => {
                (Store::Buffer(buffer), offset)
            }
            _ => (Store::Record(place.record), 0),
        };
        let mut stated = Vec::new();
        for (rule, used) in self.options.rules.iter().zip(&mut self.used) {
            if let Some(it) = rule.range().filter(|it| it.record == place.record) {
                stated.push(it.range);
                *used = true;
            }
        }
        if let Some(range) = stated.iter().find(|range| !whole.covers(**range)) {
            let range = DataRange { record: place.record, range: *range };
            let length = data.len();
            let error =
                format!("the data of record #{} has {length} bytes: {range} is not in it", place.record);
            return Err(Error::invalid_argument(error).advise("copy the range from the list of ranges"));
        }
        let mut divided: Vec<RedactedRange> = Vec::new();
        // Parts are joined within a segment only: numbers of one function do not limit those of another.
        let mut last_segment = None;
        for (part, segment) in self.uses.parts(store, Range { offset, length: whole.length }) {
            let mut cuts: Vec<u64> = stated.iter().flat_map(|it| [it.offset, it.end()]).collect();
            cuts.extend([part.start, part.end]);
            cuts.retain(|cut| part.start <= *cut && *cut <= part.end);
            cuts.sort_unstable();
            cuts.dedup();
            for cut in cuts.windows(2) {
                let range = Range { offset: cut[0], length: cut[1] - cut[0] };
                let place_of = DataRange { record: place.record, range };
                let bytes = &data[cut[0] as usize..cut[1] as usize];
                let content = self.content(place.kind, place_of, segment, bytes)?;
                match divided.last_mut() {
                    Some(last)
                        if last.content == content
                            && last_segment == Some(segment)
                            && !matches!(content, RedactedContent::Undecided(_)) =>
                    {
                        last.place.range.length += range.length;
                    }
                    _ => {
                        let (function, function_count) =
                            segment.map_or((None, 0), |it| self.uses.function(it));
                        let kind = place.kind;
                        divided.push(RedactedRange {
                            place: place_of,
                            kind,
                            function,
                            function_count,
                            content,
                        });
                    }
                }
                last_segment = Some(segment);
            }
        }
        for it in &divided {
            let range = it.place.range;
            let part = range.offset as usize..range.end() as usize;
            let replacement = match it.content {
                RedactedContent::Elements(element_type) => {
                    let bytes = &data[part.clone()];
                    let elements = Elements::from_bytes(element_type, bytes);
                    Replacement::Elements { elements, key: self.key(bytes) }
                }
                RedactedContent::Zeroed => Replacement::Zero,
                RedactedContent::Undecided(_) => continue,
                _ => Replacement::Copied,
            };
            self.parts.push((part, replacement));
        }
        self.outcome.ranges.append(&mut divided);
        Ok(())
    }

    /// Decides what becomes of a part.
    fn content(
        &self,
        kind: DataKind,
        place: DataRange,
        segment: Option<&Segment>,
        bytes: &[u8],
    ) -> Result<RedactedContent> {
        if kind == DataKind::Pattern {
            return Ok(RedactedContent::Pattern);
        }
        if segment.is_some_and(|it| self.uses.is_workgroup_count(it)) {
            return Ok(RedactedContent::WorkgroupCounts);
        }
        let rules = &self.options.rules;
        let covers = |it: &DataRange| it.record == place.record && it.range.covers(place.range);
        let stated = rules.iter().filter(|rule| rule.range().as_ref().is_some_and(covers));
        let of_functions = segment.into_iter().flat_map(|it| self.uses.rules(it)).map(|rule| &rules[rule]);
        let decided = match rules::decision(place, stated)? {
            None => rules::decision(place, of_functions)?,
            decided => decided,
        };
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(RedactedContent::Zeros);
        }
        let unknown = match (decided, self.named_type(segment, place.range)) {
            (Some(decision), _) => return applied(decision, place),
            (None, Ok(element_type)) => return Ok(RedactedContent::Elements(element_type)),
            (None, Err(unknown)) => unknown,
        };
        let of_all = rules.iter().filter(|it| it.selector == DataSelector::All);
        match rules::decision(place, of_all)? {
            Some(decision) => applied(decision, place),
            None => Ok(RedactedContent::Undecided(unknown)),
        }
    }

    /// The element type in the names of all functions that use a part.
    fn named_type(&self, segment: Option<&Segment>, range: Range) -> Result<ElementType, UnknownType> {
        let Some(segment) = segment else { return Err(UnknownType::Unused) };
        let types: Option<Vec<_>> = self.uses.types(segment).collect();
        let mut types = types.ok_or(UnknownType::Unnamed)?;
        types.dedup();
        match types[..] {
            [element_type] if is_multiple(range, element_type) => Ok(element_type),
            [element_type] => Err(UnknownType::NotMultiple(element_type)),
            _ => Err(UnknownType::Different(types)),
        }
    }

    /// The key of the random numbers of a content, beside their place in it: it does not depend on the data.
    fn key(&mut self, data: &[u8]) -> u64 {
        let Self { contents, content_count, options, .. } = self;
        let mut next = || {
            *content_count += 1;
            *content_count
        };
        let found = (digest(data), data.len() as u64);
        let content = match contents.get(&found) {
            Some(content) => *content,
            None if contents.len() == MAX_CONTENTS => next(),
            None => *contents.entry(found).or_insert_with(next),
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update(&options.seed.to_le_bytes()).update(&content.to_le_bytes());
        let mut word = [0; 8];
        hasher.finalize_xof().fill(&mut word);
        u64::from_le_bytes(word)
    }
}

fn applied(decision: RedactDecision, place: DataRange) -> Result<RedactedContent> {
    match decision {
        RedactDecision::Zero => Ok(RedactedContent::Zeroed),
        RedactDecision::Keep => Ok(RedactedContent::Kept),
        RedactDecision::Elements(element_type) if is_multiple(place.range, element_type) => {
            Ok(RedactedContent::Elements(element_type))
        }
        RedactDecision::Elements(element_type) => {
            let length = place.range.length;
            let error =
                format!("{place} has {length} bytes, which is not a multiple of the size of {element_type}");
            Err(Error::invalid_argument(error).advise("state a type for the part that has elements of it"))
        }
    }
}

fn is_multiple(range: Range, element_type: ElementType) -> bool {
    element_type.whole_bytes().is_some_and(|bytes| range.length.is_multiple_of(bytes))
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
