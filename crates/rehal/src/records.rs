//! The records of a capture as rows.

use std::borrow::Cow;
use std::collections::HashMap;

use rehal_base::{Error, Result, glob};
use rehal_capture::payload::Dispatch;
use rehal_capture::{OperationCode, Payload, PayloadType, Record, RecordType};
use rehal_hal::DispatchFlags;

use crate::capture::CaptureFile;

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
    pub kind: &'static str,
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
    /// The number of bindings of a dispatch, or in the table of an execution; 0 for other records.
    pub binding_count: u32,
    /// The function that it dispatches, if it is a dispatch.
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

/// Which records [`CaptureFile::records`] and [`CaptureFile::table`] contain: those that all of these select.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RecordFilter {
    /// A pattern, with `*` and `?`, of the type of the record or of its [kind](RecordRow::kind).
    pub kind: Option<String>,
    /// A pattern of the function that is dispatched: of its name, or of its ordinal, such as `#0`, if the
    /// capture does not have names.
    pub function: Option<String>,
    /// A pattern of a scope that is open; of those that begin and end it, too.
    pub scope: Option<String>,
}

/// The records of a capture in file order; made by [`CaptureFile::records`]. It ends after the first error.
pub struct Records<'a> {
    file: &'a CaptureFile,
    records: rehal_capture::Records<'a>,
    filter: RecordFilter,
    /// The open scopes, and whether the filter selects them.
    open_scopes: Vec<(&'a [u8], bool)>,
    /// The names of the functions of each executable.
    functions: HashMap<u64, Vec<&'a [u8]>>,
    /// The offset before which pages have been released.
    released_bytes: u64,
    has_failed: bool,
    /// Asked between records whether to continue.
    check: Option<RecordCheck>,
    /// The records since it was asked.
    unchecked_count: u32,
}

/// Fails to end what iterates over records.
pub type RecordCheck = Box<dyn FnMut() -> Result<()> + Send>;

/// Number of records after which a check is asked again.
const CHECK_RECORDS: u32 = 1024;

/// Number of bytes after which pages that have been read are released.
const STEP_BYTES: u64 = 4 << 20;

impl CaptureFile {
    /// Its records in file order, or those that the filter selects. Executes nothing. Verifies the checksums
    /// of what it reads, which is everything except the data of the program.
    ///
    /// ```
    /// # fn main() -> rehal_base::Result<()> {
    /// # let path =
    /// #     concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/captures/add4.add.local-sync.ireereplay");
    /// use rehal::capture::{CaptureFile, CaptureOptions, RecordFilter};
    ///
    /// let capture = CaptureFile::open(path.as_ref(), &CaptureOptions::default())?;
    /// for record in capture.records(&RecordFilter::default())? {
    ///     let record = record?;
    ///     if let Some(dispatch) = record.dispatch {
    ///         println!("#{} {}", record.ordinal, dispatch.function_name.escape_ascii());
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn records(&self, filter: &RecordFilter) -> Result<Records<'_>> {
        let capture = self.capture().map_err(|error| self.blame_damage(error))?;
        Ok(Records {
            file: self,
            records: capture.records_without_data(),
            filter: filter.clone(),
            open_scopes: Vec::new(),
            functions: HashMap::new(),
            released_bytes: 0,
            has_failed: false,
            check: None,
            unchecked_count: 0,
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordRow<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.has_failed {
            let record = self.records.next()?.map_err(Error::from);
            match self.check().and(record).and_then(|record| self.row(&record)) {
                Ok(Some(row)) => return Some(Ok(row)),
                Ok(None) => {}
                Err(error) => {
                    self.has_failed = true;
                    return Some(Err(self.file.blame_damage(error)));
                }
            }
        }
        None
    }
}

impl<'a> Records<'a> {
    /// Asks `check` every now and then, also while no record is selected.
    pub(crate) fn checked_by(self, check: RecordCheck) -> Self {
        Self { check: Some(check), ..self }
    }

    fn check(&mut self) -> Result<()> {
        self.unchecked_count += 1;
        match &mut self.check {
            Some(check) if self.unchecked_count >= CHECK_RECORDS => {
                self.unchecked_count = 0;
                check()
            }
            _ => Ok(()),
        }
    }

    /// The row of a record; `None` if the filter does not select it.
    fn row(&mut self, record: &Record<'a>) -> Result<Option<RecordRow<'a>>> {
        let header = record.header;
        if record.offset - self.released_bytes >= STEP_BYTES {
            self.file.bytes().forget(self.released_bytes, record.offset - self.released_bytes);
            self.released_bytes = record.offset;
        }
        // Only these payloads have something for a row, or for those of later records.
        let payload = match record.payload_type() {
            PayloadType::DISPATCH
            | PayloadType::REPLAY_SCOPE
            | PayloadType::EXECUTABLE_PREPARE
            | PayloadType::DEVICE_QUEUE_EXECUTE => record.payload()?,
            _ => Payload::None,
        };
        let (mut dispatch, mut binding_count, mut ended_scope) = (None, 0, None);
        match &payload {
            Payload::Dispatch(it) => {
                dispatch = Some(self.dispatch(it));
                binding_count = it.bindings.len() as u32;
            }
            Payload::QueueExecute(it) => binding_count = it.bindings.len() as u32,
            // A call that failed opened, closed and made nothing.
            _ if header.status_code.get() != 0 => {}
            Payload::Scope(it) if record.operation() == OperationCode::REPLAY_SCOPE_BEGIN => {
                let is_selected = self.filter.scope.as_deref().is_some_and(|wanted| matches(wanted, it.name));
                self.open_scopes.push((it.name, is_selected));
            }
            // Scopes may overlap instead of nesting, and an end may lack its begin.
            Payload::Scope(it) => {
                ended_scope = self.open_scopes.iter().rposition(|(name, _)| *name == it.name);
            }
            Payload::ExecutablePrepare(it) => {
                let functions = it.metadata().into_iter().flat_map(|metadata| metadata.functions());
                let names = functions.map(|function| function.name).collect();
                self.functions.insert(header.related_object_id.get(), names);
            }
            _ => {}
        }
        let record_type = record.record_type();
        let row = RecordRow {
            ordinal: record.ordinal(),
            offset: record.offset,
            size_bytes: header.record_length.get(),
            record_type: record_type.name(),
            kind: match record_type {
                RecordType::OPERATION | RecordType::UNSUPPORTED => record.operation().name(),
                RecordType::OBJECT => record.object_type().name(),
                _ => "none",
            },
            thread_id: header.thread_id.get(),
            device_id: header.device_id.get(),
            object_id: header.object_id.get(),
            related_id: header.related_object_id.get(),
            status: header.status_code.get(),
            scope: match ended_scope {
                Some(at) => self.open_scopes.get(at),
                None => self.open_scopes.last(),
            }
            .map(|(name, _)| *name),
            binding_count,
            dispatch,
        };
        let is_selected = self.selects(&row);
        if let Some(at) = ended_scope {
            self.open_scopes.remove(at);
        }
        Ok(is_selected.then_some(row))
    }

    fn selects(&self, row: &RecordRow<'a>) -> bool {
        let RecordFilter { kind, function, scope } = &self.filter;
        (scope.is_none() || self.open_scopes.iter().any(|(_, is_selected)| *is_selected))
            && kind.as_deref().is_none_or(|wanted| {
                glob::matches(wanted, row.kind) || glob::matches(wanted, row.record_type)
            })
            && function.as_deref().is_none_or(|wanted| {
                row.dispatch.is_some_and(|dispatch| glob::matches(wanted, &dispatch.function_text()))
            })
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

impl<'a> DispatchRow<'a> {
    /// The name of the function, or its ordinal, such as `#0`, without a name.
    pub(crate) fn function_text(&self) -> Cow<'a, str> {
        match self.function_name {
            [] => format!("#{}", self.function).into(),
            name => String::from_utf8_lossy(name),
        }
    }
}

fn matches(wanted: &str, name: &[u8]) -> bool {
    glob::matches(wanted, &String::from_utf8_lossy(name))
}
