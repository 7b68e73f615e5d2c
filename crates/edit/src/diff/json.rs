//! The differences of two captures as JSON.

use std::collections::BTreeMap;

use rehal_base::Range;
use rehal_judge::{ElementDifference, ElementDifferences, Rows};
use serde::{Serialize, Serializer};

use crate::{
    CaptureDiff, ChangeKind, DataDifference, DiffedCapture, DiffedExecutable, ExecutableChange, FieldChange,
    FieldValue, FunctionChange, Occurrence, OperationChange, ScopeChange,
};

/// The differences of two captures; see the guide of `rehal diff`.
pub struct DiffReport<'r> {
    /// What differs.
    pub diff: &'r CaptureDiff,
    /// The paths of both captures.
    pub paths: [String; 2],
    /// The digests of both captures, if they are known.
    pub digests: Option<[String; 2]>,
}

impl DiffReport<'_> {
    /// Name and version of its JSON.
    pub const SCHEMA: &'static str = "rehal.diff/1";
}

impl Serialize for DiffReport<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'a> {
            same: bool,
            before: Capture<'a>,
            after: Capture<'a>,
            counts: Counts,
            scopes: Rows<'a, ScopeChange, Scope>,
            executables: Rows<'a, ExecutableChange, Executable<'a>>,
            operations: Rows<'a, OperationChange, Operation<'a>>,
            undetermined: &'a [String],
            omitted_count: u64,
        }
        let (diff, digests) = (self.diff, self.digests.as_ref());
        let fields = Fields {
            same: diff.is_same(),
            before: Capture::new(&self.paths[0], digests.map(|it| &*it[0]), &diff.before),
            after: Capture::new(&self.paths[1], digests.map(|it| &*it[1]), &diff.after),
            counts: Counts {
                same: diff.same_count,
                changed: diff.count(ChangeKind::Changed),
                removed: diff.count(ChangeKind::Removed),
                inserted: diff.count(ChangeKind::Inserted),
                moved: diff.count(ChangeKind::Moved),
            },
            scopes: Rows { of: &diff.scopes, row: scope },
            executables: Rows { of: &diff.executables, row: executable },
            operations: Rows { of: &diff.operations, row: operation },
            undetermined: &diff.undetermined,
            omitted_count: diff.omitted_count,
        };
        fields.serialize(serializer)
    }
}

#[derive(Serialize)]
struct Counts {
    same: u64,
    changed: u64,
    removed: u64,
    inserted: u64,
    moved: u64,
}

#[derive(Serialize)]
struct Capture<'a> {
    path: &'a str,
    capture_digest: Option<&'a str>,
    version: String,
    records: u64,
    operations: u64,
    not_replayable: u64,
    closed: bool,
    tear: Option<Tear>,
    objects: BTreeMap<String, u64>,
    buffer_bytes: u64,
}

#[derive(Serialize)]
struct Tear {
    offset: u64,
    record_count: u64,
    lost_bytes: u64,
}

impl<'a> Capture<'a> {
    fn new(path: &'a str, capture_digest: Option<&'a str>, it: &DiffedCapture) -> Self {
        Self {
            path,
            capture_digest,
            version: format!("{}.{}", it.version.major, it.version.minor),
            records: it.record_count,
            operations: it.operation_count,
            not_replayable: it.opaque_count,
            closed: it.is_closed,
            tear: it.tear.map(|tear| Tear {
                offset: tear.offset,
                record_count: tear.record_count,
                lost_bytes: tear.lost_bytes,
            }),
            objects: it.objects.iter().map(|(kind, count)| (kind.name().replace(' ', "_"), *count)).collect(),
            buffer_bytes: it.buffer_bytes,
        }
    }
}

#[derive(Serialize)]
struct Scope {
    path: Vec<String>,
    before: u64,
    after: u64,
}

fn scope(it: &ScopeChange) -> Scope {
    Scope { path: names(it.path.names()), before: it.before, after: it.after }
}

#[derive(Serialize)]
struct Executable<'a> {
    kind: &'static str,
    before: Option<Described>,
    after: Option<Described>,
    /// `None` without one of both.
    same_code: Option<bool>,
    changes: Changes<'a>,
    functions: Rows<'a, FunctionChange, Function<'a>>,
    undetermined: Option<&'static str>,
}

fn executable(it: &ExecutableChange) -> Executable<'_> {
    let is_same = |before: &DiffedExecutable, after: &DiffedExecutable| {
        before.digest == after.digest && before.code_bytes == after.code_bytes
    };
    Executable {
        kind: it.kind.name(),
        before: it.before.as_ref().map(described),
        after: it.after.as_ref().map(described),
        same_code: it.before.as_ref().zip(it.after.as_ref()).map(|(before, after)| is_same(before, after)),
        changes: changes(&it.changes),
        functions: Rows { of: &it.functions, row: function },
        undetermined: it.undetermined,
    }
}

#[derive(Serialize)]
struct Described {
    id: u64,
    record: u64,
    format: String,
    size_bytes: u64,
    blake3: String,
    functions: Vec<String>,
}

fn described(it: &DiffedExecutable) -> Described {
    Described {
        id: it.id,
        record: it.record,
        format: text(&it.format),
        size_bytes: it.code_bytes,
        blake3: hex::encode(it.digest),
        functions: names(it.functions.iter().map(Vec::as_slice)),
    }
}

#[derive(Serialize)]
struct Function<'a> {
    kind: &'static str,
    name: String,
    ordinal: u32,
    /// `None` if that is unknown.
    same_code: Option<bool>,
    changes: Changes<'a>,
}

fn function(it: &FunctionChange) -> Function<'_> {
    Function {
        kind: it.kind.name(),
        name: text(&it.name),
        ordinal: it.ordinal,
        same_code: it.is_code_changed.map(|differs| !differs),
        changes: changes(&it.changes),
    }
}

#[derive(Serialize)]
struct Operation<'a> {
    kind: &'static str,
    operation: &'static str,
    subject: String,
    scope: Vec<String>,
    fields: Vec<String>,
    count: u64,
    occurrences: Rows<'a, Occurrence, Occurred<'a>>,
}

fn operation(it: &OperationChange) -> Operation<'_> {
    Operation {
        kind: it.kind.name(),
        operation: it.operation,
        subject: text(&it.subject),
        scope: names(it.scope.names()),
        fields: it.fields.iter().map(ToString::to_string).collect(),
        count: it.count,
        occurrences: Rows { of: &it.occurrences, row: occurred },
    }
}

#[derive(Serialize)]
struct Occurred<'a> {
    before: Option<u64>,
    after: Option<u64>,
    operations: u64,
    changes: Changes<'a>,
}

fn occurred(it: &Occurrence) -> Occurred<'_> {
    Occurred {
        before: it.before,
        after: it.after,
        operations: it.operation_count,
        changes: changes(&it.changes),
    }
}

type Changes<'a> = Rows<'a, FieldChange, Change<'a>>;

fn changes(of: &[FieldChange]) -> Changes<'_> {
    Rows { of, row: change }
}

#[derive(Serialize)]
struct Change<'a> {
    field: String,
    before: Option<Value<'a>>,
    after: Option<Value<'a>>,
    /// `None` unless the bytes of data were compared.
    data: Option<Data<'a>>,
}

fn change(it: &FieldChange) -> Change<'_> {
    Change {
        field: it.name.to_string(),
        before: it.before.as_ref().map(value),
        after: it.after.as_ref().map(value),
        data: it.data.as_deref().map(data),
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Value<'a> {
    Number(u64),
    Triple([u32; 3]),
    Text(&'a str),
    Object { object: &'static str, id: u64, record: Option<u64> },
    Data { size_bytes: u64, blake3: String },
}

fn value(it: &FieldValue) -> Value<'_> {
    match it {
        FieldValue::Number(number) => Value::Number(*number),
        FieldValue::Triple(triple) => Value::Triple(*triple),
        FieldValue::Text(text) => Value::Text(text),
        FieldValue::Object { kind, id, record } => {
            Value::Object { object: kind.name(), id: *id, record: *record }
        }
        FieldValue::Data { length, digest } => {
            Value::Data { size_bytes: *length, blake3: hex::encode(digest) }
        }
    }
}

#[derive(Serialize)]
struct Data<'a> {
    different_bytes: u64,
    range_count: u64,
    ranges: Rows<'a, Range, [u64; 2]>,
    elements: Option<Elements<'a>>,
}

fn data(it: &DataDifference) -> Data<'_> {
    Data {
        different_bytes: it.different_bytes,
        range_count: it.range_count,
        ranges: Rows { of: &it.ranges, row: |range| [range.offset, range.length] },
        elements: it.elements.as_ref().map(elements),
    }
}

#[derive(Serialize)]
struct Elements<'a> {
    compared: u64,
    different: u64,
    first: Rows<'a, ElementDifference, Element<'a>>,
}

fn elements(it: &ElementDifferences) -> Elements<'_> {
    Elements {
        compared: it.compared_count,
        different: it.different_count,
        first: Rows { of: &it.first, row: element },
    }
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
    Element {
        index: it.index,
        before: &it.expected,
        after: &it.actual,
        ulps: it.ulps,
        absolute: it.absolute,
        relative: it.relative,
    }
}

fn names<'n>(list: impl IntoIterator<Item = &'n [u8]>) -> Vec<String> {
    list.into_iter().map(text).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
