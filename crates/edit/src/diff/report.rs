use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use rehal_base::{ElementType, Range};
use rehal_capture::{Tear, Version};
use rehal_judge::{ElementDifference, ElementDifferences};
use serde::{Serialize, Serializer};

use super::fields::{Name, ObjectKind};

/// Options for comparing captures.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DiffOptions {
    /// The type of the elements of data that the host writes or uploads; bytes if unknown. Default: unknown.
    pub element_type: Option<ElementType>,
    /// Maximum number of elements to keep of each difference of data. Default: 8.
    pub max_elements: usize,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self { element_type: None, max_elements: 8 }
    }
}

/// The differences between two captures.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CaptureDiff {
    /// The first capture.
    #[serde(skip)]
    pub before: DiffedCapture,
    /// The second capture.
    #[serde(skip)]
    pub after: DiffedCapture,
    /// Scopes that are not entered as often in both, by path.
    pub scopes: Vec<ScopeChange>,
    /// Executables that differ, in the order in which they are prepared.
    pub executables: Vec<ExecutableChange>,
    /// Other operations that differ: the same changes are folded into one, in the order of the first of each.
    pub operations: Vec<OperationChange>,
    /// Number of operations that are the same at the same place.
    #[serde(skip)]
    pub same_count: u64,
    /// The parts that could not be compared, as sentences; not a difference.
    pub undetermined: Vec<String>,
    /// Number of differences of which only the count is kept, to bound the memory.
    pub omitted_count: u64,
}

/// One of two captures.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct DiffedCapture {
    /// The format version.
    pub version: Version,
    /// Number of records.
    #[serde(rename = "records")]
    pub record_count: u64,
    /// Number of operations that are compared.
    #[serde(rename = "operations")]
    pub operation_count: u64,
    /// Number of operations that cannot be replayed, which are compared by name only.
    #[serde(rename = "not_replayable")]
    pub opaque_count: u64,
    /// Whether it was closed.
    #[serde(rename = "closed")]
    pub is_closed: bool,
    /// Where it is truncated: it is compared up to there.
    pub tear: Option<Tear>,
    /// Number of objects that are created, by kind.
    #[serde(serialize_with = "objects")]
    pub objects: Vec<(ObjectKind, u64)>,
    /// Bytes of the buffers that are created.
    pub buffer_bytes: u64,
}

/// The names of nested scopes. Paths share what they have in common: captures may have hundreds of thousands
/// of nested scopes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ScopePath(pub(super) Option<Arc<ScopeName>>);

/// A scope within others.
#[derive(PartialEq, Eq)]
pub(super) struct ScopeName {
    pub outer: ScopePath,
    name: Box<[u8]>,
}

impl ScopePath {
    /// The names, outermost first.
    pub fn names(&self) -> Vec<&[u8]> {
        let mut names: Vec<_> = self.scopes().map(|it| &*it.name).collect();
        names.reverse();
        names
    }

    /// Whether it is outside of all scopes.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// A scope in this one.
    pub(super) fn inner(&self, name: &[u8]) -> Self {
        Self(Some(Arc::new(ScopeName { outer: self.clone(), name: name.into() })))
    }

    /// The scopes, innermost first.
    pub(super) fn scopes(&self) -> impl Iterator<Item = &Arc<ScopeName>> {
        std::iter::successors(self.0.as_ref(), |it| it.outer.0.as_ref())
    }
}

impl Serialize for ScopePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        texts(&self.names(), serializer)
    }
}

impl Debug for ScopePath {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.names().iter().map(|name| name.escape_ascii().to_string())).finish()
    }
}

/// A scope that is not entered as often in both captures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScopeChange {
    /// The enclosing scopes and the scope itself.
    pub path: ScopePath,
    /// Number of times that the first capture enters it.
    pub before: u64,
    /// Number of times that the second capture enters it.
    pub after: u64,
}

/// Whether something is in the first capture only, in the second only, or in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// In the first capture only.
    Removed,
    /// In the second capture only.
    Inserted,
    /// In both, with differences.
    Changed,
    /// In both, at different places.
    Moved,
}

impl ChangeKind {
    /// Its name, such as `removed`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Inserted => "inserted",
            Self::Changed => "changed",
            Self::Moved => "moved",
        }
    }
}

/// The same change of one or more operations.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct OperationChange {
    /// The kind of change.
    pub kind: ChangeKind,
    /// The operation's name in captures, such as `command_buffer.dispatch`; `scope` for a whole scope that
    /// was removed or inserted.
    pub operation: &'static str,
    /// The function, the scope or the path that it names; empty if it names none.
    #[serde(serialize_with = "text")]
    pub subject: Vec<u8>,
    /// The scopes that it is in.
    pub scope: ScopePath,
    /// The fields that differ, in the order of the operation; empty unless it is changed or moved.
    pub fields: Vec<FieldName>,
    /// Number of operations with these fields changed; of scopes that were removed or inserted.
    pub count: u64,
    /// The operations; fewer than `count` if differences were omitted.
    pub occurrences: Vec<Occurrence>,
}

/// An operation that differs.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Occurrence {
    /// The ordinal of its record in the first capture.
    pub before: Option<u64>,
    /// The ordinal of its record in the second capture.
    pub after: Option<u64>,
    /// Number of operations: more than 1 for a scope.
    #[serde(rename = "operations")]
    pub operation_count: u64,
    /// The differences, in the order of [`OperationChange::fields`].
    pub changes: Box<[FieldChange]>,
}

/// The name of a field, such as `binding 1 offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldName(pub(super) Name);

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Name { base, index, part } = self.0;
        f.write_str(base)?;
        if let Some(index) = index {
            write!(f, " {index}")?;
        }
        if part.is_empty() { Ok(()) } else { write!(f, " {part}") }
    }
}

impl Serialize for FieldName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A field that differs.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FieldChange {
    /// Its name.
    #[serde(rename = "field")]
    pub name: FieldName,
    /// Its value in the first capture; `None` if it is missing there.
    pub before: Option<FieldValue>,
    /// Its value in the second capture; `None` if it is missing there.
    pub after: Option<FieldValue>,
    /// How the data differs, for data.
    pub data: Option<Box<DataDifference>>,
}

/// A value of a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum FieldValue {
    /// A number.
    Number(u64),
    /// Three numbers: x, y and z.
    Triple([u32; 3]),
    /// A name, or the names of flags.
    Text(Box<str>),
    /// An object, by its id in its capture, and the record that creates it.
    Object {
        /// The kind of the object.
        #[serde(rename = "object")]
        kind: ObjectKind,
        /// Its id.
        id: u64,
        /// The ordinal of the record that creates it.
        record: Option<u64>,
    },
    /// Data, by its length in bytes and the first 16 bytes of its BLAKE3.
    Data {
        /// Number of bytes.
        #[serde(rename = "size_bytes")]
        length: u64,
        /// The digest.
        #[serde(rename = "blake3", serialize_with = "hex::serialize")]
        digest: [u8; 16],
    },
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(u64::MAX) => f.write_str("all"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Triple([x, y, z]) => write!(f, "{x}x{y}x{z}"),
            Self::Text(text) => f.write_str(text),
            Self::Object { kind, id, .. } => write!(f, "{} {id}", kind.name()),
            Self::Data { length, .. } => write!(f, "{length} bytes"),
        }
    }
}

/// How two byte strings differ.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct DataDifference {
    /// Number of bytes that differ, among those that both have.
    pub different_bytes: u64,
    /// Number of ranges of consecutive bytes that differ.
    pub range_count: u64,
    /// The first of these ranges.
    #[serde(serialize_with = "pairs")]
    pub ranges: Vec<Range>,
    /// The elements that differ; `None` if their type is unknown.
    #[serde(serialize_with = "elements")]
    pub elements: Option<ElementDifferences>,
}

/// An executable that differs.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ExecutableChange {
    /// The kind of change.
    pub kind: ChangeKind,
    /// The executable of the first capture.
    pub before: Option<DiffedExecutable>,
    /// The executable of the second capture.
    pub after: Option<DiffedExecutable>,
    /// Whether both have the same code; `None` without one of both.
    #[serde(rename = "same_code")]
    pub is_same_code: Option<bool>,
    /// The differences, except for its code.
    pub changes: Vec<FieldChange>,
    /// The functions that differ, those of the first capture first.
    pub functions: Vec<FunctionChange>,
    /// Why it is unknown whether the code of other functions differs; `None` if it is known.
    pub undetermined: Option<&'static str>,
}

/// An executable of one of two captures.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct DiffedExecutable {
    /// Its id in the capture.
    pub id: u64,
    /// The ordinal of its record.
    pub record: u64,
    /// Its format, such as `embedded-elf-x86_64`.
    #[serde(serialize_with = "text")]
    pub format: Vec<u8>,
    /// Size of its code in bytes.
    #[serde(rename = "size_bytes")]
    pub code_bytes: u64,
    /// The first 16 bytes of the BLAKE3 of its code.
    #[serde(rename = "blake3", serialize_with = "hex::serialize")]
    pub digest: [u8; 16],
    /// The names of its functions; empty names if they are unknown.
    #[serde(serialize_with = "texts")]
    pub functions: Vec<Vec<u8>>,
}

/// A function that differs.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FunctionChange {
    /// The kind of change.
    pub kind: ChangeKind,
    /// Its name; empty if it is unknown.
    #[serde(serialize_with = "text")]
    pub name: Vec<u8>,
    /// Its ordinal, in the first capture if it is there.
    pub ordinal: u32,
    /// Whether its code, and constants and functions that it refers to, are the same; `None` if that is
    /// unknown.
    #[serde(rename = "same_code")]
    pub is_same_code: Option<bool>,
    /// The differences of its signature.
    pub changes: Vec<FieldChange>,
}

impl CaptureDiff {
    /// Whether nothing differs.
    pub fn is_same(&self) -> bool {
        self.scopes.is_empty()
            && self.executables.is_empty()
            && self.operations.is_empty()
            && self.omitted_count == 0
    }

    /// Number of operations with this kind of change, executables included.
    pub fn count(&self, kind: ChangeKind) -> u64 {
        let executables = self.executables.iter().filter(|it| it.kind == kind).count() as u64;
        let operations = self.operations.iter().filter(|it| it.kind == kind);
        let count = |change: &OperationChange| -> u64 {
            let kept: u64 = change.occurrences.iter().map(|it| it.operation_count).sum();
            kept + (change.count - change.occurrences.len() as u64)
        };
        executables + operations.map(count).sum::<u64>()
    }
}

fn objects<S: Serializer>(objects: &[(ObjectKind, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(objects.iter().map(|(kind, count)| (kind.name().replace(' ', "_"), count)))
}

/// Bytes as text; what is not UTF-8 is replaced.
fn text<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}

fn texts<S: Serializer>(list: &[impl AsRef<[u8]>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(list.iter().map(|bytes| String::from_utf8_lossy(bytes.as_ref())))
}

fn pairs<S: Serializer>(ranges: &[Range], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(ranges.iter().map(|range| [range.offset, range.length]))
}

/// The elements of both captures, of which neither is expected.
fn elements<S: Serializer>(elements: &Option<ElementDifferences>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Elements<'a> {
        compared: u64,
        different: u64,
        first: Vec<Element<'a>>,
    }
    #[derive(Serialize)]
    struct Element<'a> {
        index: u64,
        before: &'a str,
        after: &'a str,
        ulps: Option<u64>,
        absolute: Option<f64>,
        relative: Option<f64>,
    }
    fn element(it: &ElementDifference) -> Element<'_> {
        let ElementDifference { index, ref expected, ref actual, ulps, absolute, relative, .. } = *it;
        Element { index, before: expected, after: actual, ulps, absolute, relative }
    }
    let elements = elements.as_ref().map(|it| Elements {
        compared: it.compared_count,
        different: it.different_count,
        first: it.first.iter().map(element).collect(),
    });
    elements.serialize(serializer)
}
