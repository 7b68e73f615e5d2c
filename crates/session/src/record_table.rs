use std::collections::HashMap;
use std::hash::Hash;

use rehal_base::{Result, StatusCode, glob};
use rehal_capture::{
    Capture, CaptureBytes, ObjectType, OperationCode, Payload, PayloadType, Record, RecordType,
};
use rehal_hal::DispatchFlags;

/// The records of a capture as columns, which all have an entry per record: see
/// [`CaptureFile::table`](crate::CaptureFile::table).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RecordTable {
    /// Its index among all records.
    pub ordinal: Vec<u64>,
    /// The file offset of the record.
    pub offset: Vec<u64>,
    /// The size of the record.
    pub size_bytes: Vec<u64>,
    /// The type of the record, such as `operation`.
    pub record_type: TextColumn,
    /// The operation, such as `device.queue_execute`, or the type of the object; `none` for other records.
    pub kind: TextColumn,
    /// The status of the call, such as `OK`.
    pub status: TextColumn,
    /// The thread of the call.
    pub thread: Vec<u64>,
    /// The id of the device.
    pub device: Vec<u64>,
    /// The id of the object.
    pub object: Vec<u64>,
    /// The id of the object that the call also names, such as the one that it creates.
    pub related_object: Vec<u64>,
    /// The innermost open scope; empty without one.
    pub scope: TextColumn,
    /// The executable of a dispatch; 0 for other records.
    pub executable: Vec<u64>,
    /// The function of a dispatch: its name, or its ordinal, such as `#0`, if the capture does not have
    /// names; empty for other records.
    pub function: TextColumn,
    /// The number of workgroups of a dispatch in x; 0 for other records, and if it is read from a buffer.
    pub workgroups_x: Vec<u32>,
    /// The same in y.
    pub workgroups_y: Vec<u32>,
    /// The same in z.
    pub workgroups_z: Vec<u32>,
    /// The number of bindings of a dispatch, or in the table of an execution; 0 for other records.
    pub bindings: Vec<u32>,
}

/// A column of texts of which there are few: a code per record, and the text of each code.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TextColumn {
    /// An index of `values` per record.
    pub codes: Vec<u32>,
    /// The texts.
    pub values: Vec<String>,
}

/// Which records [`CaptureFile::table`](crate::CaptureFile::table) contain: those that all of these
/// select.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RecordFilter {
    /// A pattern, with `*` and `?`, of the type of the record or of its [kind](RecordTable::kind).
    pub kind: Option<String>,
    /// A pattern of the function that is dispatched.
    pub function: Option<String>,
    /// A pattern of a scope that is open; of those that begin and end it, too.
    pub scope: Option<String>,
}

/// Number of bytes after which pages that have been read are released.
const STEP_BYTES: u64 = 4 << 20;

/// The codes of texts by what they are made from.
struct Texts<K> {
    codes: HashMap<K, (u32, bool)>,
    /// Two keys may have the same text.
    by_text: HashMap<String, u32>,
    values: Vec<String>,
    /// The last one, since neighbours are often alike.
    last: Option<(K, (u32, bool))>,
}

impl<K: Copy + Eq + Hash> Texts<K> {
    fn new() -> Self {
        Self { codes: HashMap::new(), by_text: HashMap::new(), values: Vec::new(), last: None }
    }

    /// The code of a text, and what `is_selected` says of it.
    fn code(
        &mut self,
        key: K,
        text: impl FnOnce() -> String,
        is_selected: impl Fn(&str) -> bool,
    ) -> (u32, bool) {
        if let Some((last, found)) = self.last
            && last == key
        {
            return found;
        }
        let found = *self.codes.entry(key).or_insert_with(|| {
            let text = text();
            let is_selected = is_selected(&text);
            let code = *self.by_text.entry(text).or_insert_with_key(|text| {
                self.values.push(text.clone());
                self.values.len() as u32 - 1
            });
            (code, is_selected)
        });
        self.last = Some((key, found));
        found
    }
}

struct Collector<'a, 'f> {
    filter: &'f RecordFilter,
    columns: RecordTable,
    types: Texts<u16>,
    kinds: Texts<(u16, u32)>,
    statuses: Texts<u32>,
    scopes: Texts<Option<&'a [u8]>>,
    functions: Texts<Option<(u64, u32)>>,
    names: HashMap<u64, Vec<&'a [u8]>>,
    /// The open scopes: code of the name, and whether the filter selects it.
    open: Vec<(&'a [u8], (u32, bool))>,
    /// The number of open scopes that the filter selects.
    selected_scopes: usize,
}

impl RecordTable {
    /// Reads the records of `capture`, whose bytes are `bytes`. Fails at the first corrupt record; data is
    /// not read.
    pub(crate) fn from_capture(
        bytes: &CaptureBytes,
        capture: &Capture<'_>,
        filter: &RecordFilter,
    ) -> Result<Self> {
        let mut this = Collector {
            filter,
            columns: Self::default(),
            types: Texts::new(),
            kinds: Texts::new(),
            statuses: Texts::new(),
            scopes: Texts::new(),
            functions: Texts::new(),
            names: HashMap::new(),
            open: Vec::new(),
            selected_scopes: 0,
        };
        let mut behind = 0;
        for record in capture.records_without_data() {
            let record = record?;
            this.add(&record)?;
            if record.offset - behind >= STEP_BYTES {
                bytes.forget(behind, record.offset - behind);
                behind = record.offset;
            }
        }
        let Collector { mut columns, types, kinds, statuses, scopes, functions, .. } = this;
        columns.record_type.values = types.values;
        columns.kind.values = kinds.values;
        columns.status.values = statuses.values;
        columns.scope.values = scopes.values;
        columns.function.values = functions.values;
        Ok(columns)
    }

    /// Number of records.
    pub fn row_count(&self) -> usize {
        self.ordinal.len()
    }
}

impl<'a> Collector<'a, '_> {
    fn add(&mut self, record: &Record<'a>) -> Result<()> {
        let header = record.header;
        // Only these payloads have something for a column, or for those of later records.
        let payload = match record.payload_type() {
            PayloadType::DISPATCH
            | PayloadType::REPLAY_SCOPE
            | PayloadType::EXECUTABLE_PREPARE
            | PayloadType::DEVICE_QUEUE_EXECUTE => record.payload()?,
            _ => Payload::None,
        };
        let succeeded = header.status_code.get() == 0;
        let operation = record.operation();
        if let (OperationCode::REPLAY_SCOPE_BEGIN, Payload::Scope(scope), true) =
            (operation, &payload, succeeded)
        {
            let code = self.scope(Some(scope.name));
            self.selected_scopes += usize::from(code.1);
            self.open.push((scope.name, code));
        }
        if let (Payload::ExecutablePrepare(it), true) = (&payload, succeeded) {
            let functions = it.metadata().into_iter().flat_map(|metadata| metadata.functions());
            self.names.insert(header.related_object_id.get(), functions.map(|it| it.name).collect());
        }
        self.add_row(record, &payload);
        if let (OperationCode::REPLAY_SCOPE_END, Payload::Scope(scope), true) =
            (operation, &payload, succeeded)
            && let Some(at) = self.open.iter().rposition(|(name, _)| *name == scope.name)
        {
            let (_, code) = self.open.remove(at);
            self.selected_scopes -= usize::from(code.1);
        }
        Ok(())
    }

    fn scope(&mut self, name: Option<&'a [u8]>) -> (u32, bool) {
        let wanted = self.filter.scope.as_deref();
        let text = || name.map_or_else(String::new, |name| String::from_utf8_lossy(name).into_owned());
        self.scopes.code(name, text, |text| wanted.is_some_and(|it| glob::matches(it, text)))
    }

    fn function(&mut self, executable: u64, ordinal: u32) -> (u32, bool) {
        let (names, wanted) = (&self.names, self.filter.function.as_deref());
        let text = || match names.get(&executable).and_then(|names| names.get(ordinal as usize)) {
            Some(name) if !name.is_empty() => String::from_utf8_lossy(name).into_owned(),
            _ => format!("#{ordinal}"),
        };
        let is_selected = |text: &str| wanted.is_none_or(|it| glob::matches(it, text));
        self.functions.code(Some((executable, ordinal)), text, is_selected)
    }

    fn add_row(&mut self, record: &Record<'a>, payload: &Payload<'a>) {
        let header = record.header;
        let (record_type, operation, object_type) =
            (record.record_type(), record.operation(), record.object_type());
        let wanted = self.filter.kind.as_deref();
        let is_wanted = |text: &str| wanted.is_none_or(|it| glob::matches(it, text));
        let (type_code, type_is_wanted) =
            self.types.code(record_type.0, || record_type.name().to_owned(), is_wanted);
        let key = match record_type {
            RecordType::OPERATION | RecordType::UNSUPPORTED => (record_type.0, operation.0),
            RecordType::OBJECT => (record_type.0, object_type.0),
            _ => (record_type.0, 0),
        };
        let (kind, kind_is_wanted) =
            self.kinds.code(key, || kind_of(record_type, operation, object_type).to_owned(), is_wanted);
        let (function, function_is_wanted) = match payload {
            Payload::Dispatch(it) => self.function(it.executable_id.get(), it.function_ordinal.get()),
            _ => self.functions.code(None, String::new, |_| self.filter.function.is_none()),
        };
        let in_scope = self.filter.scope.is_none() || self.selected_scopes > 0;
        if !(type_is_wanted || kind_is_wanted) || !function_is_wanted || !in_scope {
            return;
        }
        let status = header.status_code.get();
        let name = || StatusCode::from_u32(status).map_or("UNKNOWN", StatusCode::name).to_owned();
        let (status, _) = self.statuses.code(status, name, |_| true);
        let (scope, _) = match self.open.last() {
            Some((_, code)) => *code,
            None => self.scope(None),
        };
        let (executable, workgroups, bindings) = match payload {
            Payload::Dispatch(it) => (it.executable_id.get(), workgroups(it), it.bindings.len()),
            Payload::QueueExecute(it) => (0, [0; 3], it.bindings.len()),
            _ => (0, [0; 3], 0),
        };
        let columns = &mut self.columns;
        columns.ordinal.push(record.ordinal());
        columns.offset.push(record.offset);
        columns.size_bytes.push(header.record_length.get());
        columns.record_type.codes.push(type_code);
        columns.kind.codes.push(kind);
        columns.status.codes.push(status);
        columns.thread.push(header.thread_id.get());
        columns.device.push(header.device_id.get());
        columns.object.push(header.object_id.get());
        columns.related_object.push(header.related_object_id.get());
        columns.scope.codes.push(scope);
        columns.executable.push(executable);
        columns.function.codes.push(function);
        columns.workgroups_x.push(workgroups[0]);
        columns.workgroups_y.push(workgroups[1]);
        columns.workgroups_z.push(workgroups[2]);
        columns.bindings.push(bindings as u32);
    }
}

fn kind_of(record_type: RecordType, operation: OperationCode, object_type: ObjectType) -> &'static str {
    match record_type {
        RecordType::OPERATION | RecordType::UNSUPPORTED => operation.name(),
        RecordType::OBJECT => object_type.name(),
        _ => "none",
    }
}

fn workgroups(it: &rehal_capture::payload::Dispatch<'_>) -> [u32; 3] {
    let indirect = DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS | DispatchFlags::STATIC_INDIRECT_PARAMETERS;
    match DispatchFlags::from_bits_retain(it.flags.get().into()).intersects(indirect) {
        true => [0; 3],
        false => it.workgroup_count.map(|count| count.get()),
    }
}
