//! The records of a capture as columns.

use std::collections::HashMap;
use std::hash::Hash;

use rehal_base::{Result, StatusCode};

use crate::capture::{CaptureFile, RecordCheck, RecordFilter, RecordRow, Records};

/// The records of a capture as columns, all of one length: see [`CaptureFile::table`].
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
    pub thread_id: Vec<u64>,
    /// The id of the device.
    pub device_id: Vec<u64>,
    /// The id of the object.
    pub object_id: Vec<u64>,
    /// The id of the object that the call also names, such as the one that it creates.
    pub related_id: Vec<u64>,
    /// The innermost open scope; empty without one.
    pub scope: TextColumn,
    /// The executable of a dispatch; 0 for other records.
    pub executable_id: Vec<u64>,
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
    pub binding_count: Vec<u32>,
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

/// The codes of texts by what they are made from.
struct Texts<K> {
    codes: HashMap<K, u32>,
    /// Two keys may have the same text.
    by_text: HashMap<String, u32>,
    values: Vec<String>,
    /// The last one, since neighbours are often alike.
    last: Option<(K, u32)>,
}

impl<K: Copy + Eq + Hash> Texts<K> {
    fn new() -> Self {
        Self { codes: HashMap::new(), by_text: HashMap::new(), values: Vec::new(), last: None }
    }

    fn code(&mut self, key: K, text: impl FnOnce() -> String) -> u32 {
        if let Some((last, code)) = self.last
            && last == key
        {
            return code;
        }
        let code = *self.codes.entry(key).or_insert_with(|| {
            *self.by_text.entry(text()).or_insert_with_key(|text| {
                self.values.push(text.clone());
                self.values.len() as u32 - 1
            })
        });
        self.last = Some((key, code));
        code
    }
}

impl CaptureFile {
    /// Its records as columns, or those that the filter selects; see [`CaptureFile::records`].
    pub fn table(&self, filter: &RecordFilter) -> Result<RecordTable> {
        RecordTable::from_rows(self.records(filter)?)
    }
}

/// As [`CaptureFile::table`], which `check` can end with an error: it is asked every thousand records.
pub fn record_table(capture: &CaptureFile, filter: &RecordFilter, check: RecordCheck) -> Result<RecordTable> {
    RecordTable::from_rows(capture.records(filter)?.checked_by(check))
}

impl RecordTable {
    /// Fails at the first error of the rows.
    fn from_rows(rows: Records<'_>) -> Result<Self> {
        let mut columns = Self::default();
        let (mut types, mut kinds, mut statuses) = (Texts::new(), Texts::new(), Texts::new());
        let (mut scopes, mut functions) = (Texts::new(), Texts::new());
        for row in rows {
            let row = row?;
            columns.push_numbers(&row);
            columns.record_type.codes.push(types.code(row.record_type, || row.record_type.to_owned()));
            columns.kind.codes.push(kinds.code(row.kind, || row.kind.to_owned()));
            let status = || StatusCode::from_u32(row.status).map_or("UNKNOWN", StatusCode::name).to_owned();
            columns.status.codes.push(statuses.code(row.status, status));
            let scope = row.scope.unwrap_or_default();
            let text = || String::from_utf8_lossy(scope).into_owned();
            columns.scope.codes.push(scopes.code(scope, text));
            let function = row.dispatch.map(|it| (it.executable_id, it.function));
            let text = || row.dispatch.map_or_else(String::new, |it| it.function_text().into_owned());
            columns.function.codes.push(functions.code(function, text));
        }
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

    fn push_numbers(&mut self, row: &RecordRow<'_>) {
        let workgroups = row.dispatch.and_then(|it| it.workgroup_count).unwrap_or_default();
        self.ordinal.push(row.ordinal);
        self.offset.push(row.offset);
        self.size_bytes.push(row.size_bytes);
        self.thread_id.push(row.thread_id);
        self.device_id.push(row.device_id);
        self.object_id.push(row.object_id);
        self.related_id.push(row.related_id);
        self.executable_id.push(row.dispatch.map_or(0, |it| it.executable_id));
        self.workgroups_x.push(workgroups[0]);
        self.workgroups_y.push(workgroups[1]);
        self.workgroups_z.push(workgroups[2]);
        self.binding_count.push(row.binding_count);
    }
}
