//! The records of a capture as rows and as columns.

use std::collections::HashMap;

use rehal_base::{Error, Result};
use rehal_capture::payload::Dispatch;
use rehal_capture::{Capture, OperationCode, Payload, Record, RecordType};
use rehal_hal::DispatchFlags;
use rehal_replay::dump::Progress;

use crate::CaptureFile;

/// A record of a capture: its header, its scope, and what it dispatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordRow<'a> {
    /// Its index among the records of the file, from zero.
    pub ordinal: u64,
    /// The file offset of its header in bytes.
    pub offset: u64,
    /// Its size in bytes, with the header.
    pub size_bytes: u64,
    /// Its type, such as `operation`.
    pub record_type: &'static str,
    /// The operation, such as `device.queue_execute`, or the type of the object; `none` for other records.
    pub name: &'static str,
    /// The thread that made the call.
    pub thread_id: u64,
    /// The id of the device; 0 for none.
    pub device_id: u64,
    /// The id of the object that the call is made on, or that is described; 0 for none.
    pub object_id: u64,
    /// The id of another object, such as the one that the call creates; 0 for none.
    pub related_id: u64,
    /// The status code that the call returned; 0 is OK.
    pub status: u32,
    /// The name of the innermost scope that is open; a record that begins or ends a scope is in it.
    pub scope: Option<&'a [u8]>,
    /// What it dispatches, if it is a dispatch.
    pub dispatch: Option<DispatchRow<'a>>,
}

/// The dispatch of a [`RecordRow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DispatchRow<'a> {
    /// The id of the executable.
    pub executable_id: u64,
    /// The ordinal of the function.
    pub function: u32,
    /// The name of the function; empty in captures of version 1.0.
    pub function_name: &'a [u8],
    /// Number of workgroups in x, y and z; `None` if it is read from a buffer.
    pub workgroup_count: Option<[u32; 3]>,
}

/// The records of a capture in file order; made by [`CaptureFile::records`]. It ends after the first error.
pub struct Records<'a> {
    file: &'a CaptureFile,
    records: rehal_capture::Records<'a>,
    open_scopes: Vec<&'a [u8]>,
    /// The names of the functions of each executable.
    functions: HashMap<u64, Vec<&'a [u8]>>,
}

/// The records of a capture, one list per field of a [`RecordRow`], all of one length. The ordinal of a
/// record is its index.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RecordColumns {
    /// File offsets in bytes.
    pub offset: Vec<u64>,
    /// Sizes in bytes, with headers.
    pub size_bytes: Vec<u64>,
    /// Indices into [`RecordColumns::kinds`].
    pub kind: Vec<u16>,
    /// Threads.
    pub thread_id: Vec<u64>,
    /// Devices.
    pub device_id: Vec<u64>,
    /// Objects.
    pub object_id: Vec<u64>,
    /// Related objects.
    pub related_id: Vec<u64>,
    /// Status codes.
    pub status: Vec<u32>,
    /// Indices into [`RecordColumns::scopes`]; [`RecordColumns::NONE`] outside of scopes.
    pub scope: Vec<u32>,
    /// Indices into [`RecordColumns::functions`]; [`RecordColumns::NONE`] for records that dispatch nothing.
    pub function: Vec<u32>,
    /// Numbers of workgroups in x, y and z; zeros for indirect counts and for records that dispatch nothing.
    pub workgroup_count: Vec<[u32; 3]>,
    /// The distinct pairs of [`RecordRow::record_type`] and [`RecordRow::name`].
    pub kinds: Vec<(&'static str, &'static str)>,
    /// The distinct names of scopes.
    pub scopes: Vec<Vec<u8>>,
    /// The distinct functions: executable, ordinal, name.
    pub functions: Vec<(u64, u32, Vec<u8>)>,
}

/// Number of bytes after which pages that have been read are released, and progress is reported.
const STEP_BYTES: u64 = 4 << 20;

impl CaptureFile {
    /// Its records in file order. Verifies the checksums of what it reads, which is everything except the
    /// data of the program.
    ///
    /// ```
    /// # fn main() -> rehal_session::Result<()> {
    /// # let path =
    /// #     concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/captures/add4.add.local-sync.ireereplay");
    /// use rehal_session::{CaptureFile, CaptureOptions};
    ///
    /// let capture = CaptureFile::open(path.as_ref(), &CaptureOptions::default())?;
    /// for record in capture.records()? {
    ///     let record = record?;
    ///     if let Some(dispatch) = record.dispatch {
    ///         println!("#{} {}", record.ordinal, dispatch.function_name.escape_ascii());
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn records(&self) -> Result<Records<'_>> {
        let capture: Capture<'_> = self.capture()?;
        Ok(Records {
            file: self,
            records: capture.records_without_data(),
            open_scopes: Vec::new(),
            functions: HashMap::new(),
        })
    }

    /// Its records as columns; see [`CaptureFile::records`]. `progress` is called every few megabytes.
    pub fn record_columns(&self, progress: &mut dyn FnMut(Progress)) -> Result<RecordColumns> {
        let total_bytes = self.length_bytes();
        let mut columns = RecordColumns::default();
        let mut indices = Indices::default();
        let mut behind = 0;
        for row in self.records()? {
            let row = row?;
            columns.push(&row, &mut indices);
            if row.offset - behind >= STEP_BYTES {
                self.bytes().forget(behind, row.offset - behind);
                behind = row.offset;
                progress(Progress { done_bytes: behind, total_bytes });
            }
        }
        Ok(columns)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordRow<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.records.next()?.map_err(Error::from);
        Some(record.and_then(|record| self.row(&record)).map_err(|error| self.file.explain(error)))
    }
}

impl<'a> Records<'a> {
    fn row(&mut self, record: &Record<'a>) -> Result<RecordRow<'a>> {
        let header = record.header;
        let record_type = record.record_type();
        let (mut dispatch, mut scope) = (None, self.open_scopes.last().copied());
        if record_type == RecordType::OPERATION {
            match record.operation() {
                OperationCode::REPLAY_SCOPE_BEGIN | OperationCode::REPLAY_SCOPE_END => {
                    if let Payload::Scope(it) = record.payload()? {
                        scope = Some(it.name);
                        self.step(record.operation(), it.name);
                    }
                }
                OperationCode::EXECUTABLE_CACHE_PREPARE_EXECUTABLE => {
                    if let Payload::ExecutablePrepare(it) = record.payload()? {
                        let functions = it.metadata().into_iter().flat_map(|metadata| metadata.functions());
                        let names = functions.map(|function| function.name).collect();
                        self.functions.insert(header.related_object_id.get(), names);
                    }
                }
                OperationCode::COMMAND_BUFFER_DISPATCH | OperationCode::DEVICE_QUEUE_DISPATCH => {
                    if let Payload::Dispatch(it) = record.payload()? {
                        dispatch = Some(self.dispatch(&it));
                    }
                }
                _ => {}
            }
        }
        Ok(RecordRow {
            ordinal: record.ordinal(),
            offset: record.offset,
            size_bytes: header.record_length.get(),
            record_type: record_type.name(),
            name: match record_type {
                RecordType::OPERATION | RecordType::UNSUPPORTED => record.operation().name(),
                RecordType::OBJECT => record.object_type().name(),
                _ => "none",
            },
            thread_id: header.thread_id.get(),
            device_id: header.device_id.get(),
            object_id: header.object_id.get(),
            related_id: header.related_object_id.get(),
            status: header.status_code.get(),
            scope,
            dispatch,
        })
    }

    /// Scopes may overlap instead of nesting, and an end may lack its begin.
    fn step(&mut self, operation: OperationCode, name: &'a [u8]) {
        if operation == OperationCode::REPLAY_SCOPE_BEGIN {
            self.open_scopes.push(name);
        } else if let Some(open) = self.open_scopes.iter().rposition(|open| *open == name) {
            self.open_scopes.remove(open);
        }
    }

    fn dispatch(&self, it: &Dispatch<'a>) -> DispatchRow<'a> {
        let flags = DispatchFlags::from_bits_retain(it.flags.get().into());
        let indirect = DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS | DispatchFlags::STATIC_INDIRECT_PARAMETERS;
        let (executable_id, function) = (it.executable_id.get(), it.function_ordinal.get());
        let names = self.functions.get(&executable_id);
        DispatchRow {
            executable_id,
            function,
            function_name: names.and_then(|names| names.get(function as usize)).copied().unwrap_or_default(),
            workgroup_count: (!flags.intersects(indirect))
                .then(|| it.workgroup_count.map(|count| count.get())),
        }
    }
}

/// Where the distinct values of columns are.
#[derive(Default)]
struct Indices<'a> {
    kinds: HashMap<(&'static str, &'static str), u16>,
    scopes: HashMap<&'a [u8], u32>,
    functions: HashMap<(u64, u32), u32>,
}

impl RecordColumns {
    /// The index of no scope and of no function.
    pub const NONE: u32 = u32::MAX;

    /// Number of records.
    pub fn len(&self) -> usize {
        self.offset.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.offset.is_empty()
    }

    fn push<'a>(&mut self, row: &RecordRow<'a>, indices: &mut Indices<'a>) {
        self.offset.push(row.offset);
        self.size_bytes.push(row.size_bytes);
        self.thread_id.push(row.thread_id);
        self.device_id.push(row.device_id);
        self.object_id.push(row.object_id);
        self.related_id.push(row.related_id);
        self.status.push(row.status);
        let kind = (row.record_type, row.name);
        self.kind.push(*indices.kinds.entry(kind).or_insert_with(|| {
            self.kinds.push(kind);
            // The tables of the format have fewer names.
            (self.kinds.len() - 1) as u16
        }));
        self.scope.push(row.scope.map_or(Self::NONE, |name| {
            *indices.scopes.entry(name).or_insert_with(|| {
                self.scopes.push(name.to_vec());
                (self.scopes.len() - 1) as u32
            })
        }));
        self.function.push(row.dispatch.map_or(Self::NONE, |it| {
            *indices.functions.entry((it.executable_id, it.function)).or_insert_with(|| {
                self.functions.push((it.executable_id, it.function, it.function_name.to_vec()));
                (self.functions.len() - 1) as u32
            })
        }));
        let workgroup_count = row.dispatch.and_then(|it| it.workgroup_count);
        self.workgroup_count.push(workgroup_count.unwrap_or_default());
    }
}
