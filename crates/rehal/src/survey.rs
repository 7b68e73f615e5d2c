use std::collections::{HashMap, HashSet};

use rehal_base::{Result, StatusCode};
use rehal_capture::payload::{Dispatch, ExecutablePrepare, FileObject};
use rehal_capture::{
    FileReferenceType, FileValidationType, ObjectType, OperationCode, Payload, Record, RecordType,
};
use rehal_hal::DispatchFlags;
use serde::{Serialize, Serializer};

/// A summary of a capture, from one pass over its records.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Survey {
    /// Number of records.
    pub record_count: u64,
    /// Number of captured API calls.
    pub operation_count: u64,
    /// Number of objects that the program created, including devices.
    pub object_count: u64,
    /// Number of operations that had failed at capture; a replay skips them.
    pub failed_count: u64,
    /// The first [`MAX_FAILED`] failed operations.
    pub failed: Vec<FailedOperation>,
    /// Number of operations that could not be captured.
    pub unsupported_count: u64,
    /// Number of devices that the program used.
    pub device_count: u64,
    /// Number of dispatches of a replay: direct ones, and those of executed command buffers.
    pub dispatch_count: u64,
    /// Number of submissions: executions of command buffers and other queue operations.
    pub submission_count: u64,
    /// The records by kind, in order of first appearance.
    pub record_kinds: Vec<RecordKind>,
    /// The scopes by name, in order of first appearance.
    pub scopes: Vec<ScopeSurvey>,
    /// The executables, in the order in which they are prepared.
    pub executables: Vec<ExecutableSurvey>,
    /// Files that are not in the capture.
    pub external_files: Vec<ExternalFile>,
    /// Bytes of the file by kind.
    pub bytes: SurveyedBytes,
}

/// A kind of records.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RecordKind {
    /// The type of the record, such as `operation`.
    #[serde(rename = "type")]
    pub record_type: &'static str,
    /// The operation, such as `device.queue_execute`, or the type of the object; `none` for other records.
    pub name: &'static str,
    /// Number of records.
    pub count: u64,
    /// Bytes of the records.
    #[serde(rename = "size_bytes")]
    pub bytes: u64,
}

/// Maximum number of failed operations in a [`Survey`].
pub const MAX_FAILED: usize = 1000;

/// An operation that had failed at capture.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FailedOperation {
    /// The ordinal of its record.
    pub ordinal: u64,
    /// The operation, such as `allocator.import_buffer`.
    pub operation: &'static str,
    /// The name of the captured status, such as `OUT_OF_RANGE`.
    pub status: &'static str,
}

/// A scope, by name.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ScopeSurvey {
    /// Its name; UTF-8 by contract, but not validated.
    #[serde(serialize_with = "text")]
    pub name: Vec<u8>,
    /// Number of times it is entered.
    pub count: u64,
}

/// A prepared executable.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ExecutableSurvey {
    /// Its id in the capture.
    pub id: u64,
    /// Its format, such as `embedded-elf-x86_64`.
    #[serde(serialize_with = "text")]
    pub format: Vec<u8>,
    /// Size of its code in bytes.
    #[serde(rename = "size_bytes")]
    pub code_bytes: u64,
    /// Its functions, by ordinal.
    pub functions: Vec<FunctionSurvey>,
}

/// A function of an executable.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FunctionSurvey {
    /// Its ordinal.
    pub ordinal: u32,
    /// Its name; empty in captures of version 1.0.
    #[serde(serialize_with = "text")]
    pub name: Vec<u8>,
    /// Number of 32-bit constants of a dispatch.
    #[serde(rename = "constants")]
    pub constant_count: u16,
    /// Number of bindings of a dispatch.
    #[serde(rename = "bindings")]
    pub binding_count: u16,
    /// Number of its dispatches: direct ones, and one per execution of a command buffer that contains it.
    #[serde(rename = "dispatches")]
    pub dispatch_count: u64,
    /// The first [`MAX_WORKGROUP_COUNTS`] different workgroup counts of its dispatches, in capture order,
    /// whether executed or not; `None` for an indirect count.
    pub workgroup_counts: Vec<Option<[u32; 3]>>,
}

/// Maximum number of different workgroup counts of a function in a [`Survey`].
pub const MAX_WORKGROUP_COUNTS: usize = 16;

/// An external file.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ExternalFile {
    /// Its id in the capture.
    pub id: u64,
    /// Its path, as the program named it.
    #[serde(serialize_with = "text")]
    pub path: Vec<u8>,
    /// Its length in bytes.
    #[serde(rename = "size_bytes")]
    pub length_bytes: u64,
    /// How a replay verifies it: `none` (by its length), `identity` or `digest`, as the format names them.
    pub validation: &'static str,
    /// Whether the capture writes to it.
    #[serde(rename = "writes")]
    pub is_written: bool,
}

/// Bytes of the file by kind.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct SurveyedBytes {
    /// Executable code.
    pub executables: u64,
    /// Data written to mapped buffers.
    pub mapped_writes: u64,
    /// Data of update operations, on queues and in command buffers.
    pub updates: u64,
    /// Host memory imported as buffers.
    pub imported_buffers: u64,
    /// Constants of dispatches and executables.
    pub constants: u64,
    /// Complete files.
    pub inline_files: u64,
    /// Ranges read from files.
    #[serde(rename = "captured_file_reads")]
    pub captured_reads: u64,
}

/// Bytes as text; what is not UTF-8 is replaced.
fn text<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}

impl SurveyedBytes {
    /// The sizes of all kinds of data, with their names.
    pub fn rows(&self) -> [(&'static str, u64); 7] {
        [
            ("executables", self.executables),
            ("mapped writes", self.mapped_writes),
            ("updates", self.updates),
            ("imported buffers", self.imported_buffers),
            ("constants", self.constants),
            ("inline files", self.inline_files),
            ("captured file reads", self.captured_reads),
        ]
    }

    /// The total.
    pub fn total(&self) -> u64 {
        self.rows().iter().map(|(_, bytes)| bytes).sum()
    }
}

/// The dispatches of a command buffer per executable and function. They are added to the functions' counts
/// once, after the last execution, so that the time does not depend on the number of executions.
#[derive(Default)]
struct DispatchCounts {
    one_shot: bool,
    execution_count: u64,
    dispatches: Vec<(u64, u32, u64)>,
}

/// The one-shot bit of a command buffer's mode (`iree/hal/command_buffer.h`).
const MODE_ONE_SHOT: u32 = 1;

/// The state of a survey.
#[derive(Default)]
pub(crate) struct Surveyor<'a> {
    survey: Survey,
    kind_index: HashMap<(&'static str, &'static str), usize>,
    scope_index: HashMap<&'a [u8], usize>,
    executable_index: HashMap<u64, usize>,
    command_buffers: HashMap<u64, DispatchCounts>,
    /// The ids of the files that queues write to.
    written_files: HashSet<u64>,
}

impl<'a> Surveyor<'a> {
    /// Adds the next record. Fails if it is corrupt.
    pub(crate) fn add(&mut self, record: &Record<'a>) -> Result<()> {
        let payload = &record.payload()?;
        self.survey.record_count += 1;
        self.add_bytes(payload);
        self.add_kind(record);
        match record.record_type() {
            RecordType::OBJECT => self.add_object(record, payload),
            RecordType::OPERATION => {
                self.survey.operation_count += 1;
                match record.header.status_code.get() {
                    0 => self.add_operation(record, payload),
                    status => self.add_failed(record, status),
                }
            }
            RecordType::UNSUPPORTED => self.survey.unsupported_count += 1,
            _ => {}
        }
        Ok(())
    }

    /// The summary of the records.
    pub(crate) fn finish(mut self) -> Survey {
        for (_, counts) in std::mem::take(&mut self.command_buffers) {
            self.count(&counts);
        }
        for file in &mut self.survey.external_files {
            file.is_written = self.written_files.contains(&file.id);
        }
        self.survey
    }

    fn add_kind(&mut self, record: &Record<'a>) {
        let record_type = record.record_type();
        let name = match record_type {
            RecordType::OPERATION | RecordType::UNSUPPORTED => record.operation().name(),
            RecordType::OBJECT => record.object_type().name(),
            _ => "none",
        };
        let key = (record_type.name(), name);
        let index = *self.kind_index.entry(key).or_insert_with(|| {
            self.survey.record_kinds.push(RecordKind { record_type: key.0, name, count: 0, bytes: 0 });
            self.survey.record_kinds.len() - 1
        });
        let kind = &mut self.survey.record_kinds[index];
        kind.count += 1;
        kind.bytes += record.header.record_length.get();
    }

    fn add_failed(&mut self, record: &Record<'a>, status: u32) {
        self.survey.failed_count += 1;
        if self.survey.failed.len() < MAX_FAILED {
            self.survey.failed.push(FailedOperation {
                ordinal: record.ordinal(),
                operation: record.operation().name(),
                status: StatusCode::from_u32(status).map_or("unknown status", StatusCode::name),
            });
        }
    }

    fn add_object(&mut self, record: &Record<'a>, payload: &Payload<'a>) {
        self.survey.object_count += 1;
        self.survey.device_count += u64::from(record.object_type() == ObjectType::DEVICE);
        let id = record.header.object_id.get();
        match payload {
            Payload::FileObject(file) => self.add_file(id, file),
            Payload::CommandBufferObject(it) => {
                let one_shot = it.mode.get() & MODE_ONE_SHOT != 0;
                self.command_buffers.entry(id).or_default().one_shot = one_shot;
            }
            _ => {}
        }
    }

    fn add_file(&mut self, id: u64, file: &FileObject<'a>) {
        if FileReferenceType(file.reference_type.get()) == FileReferenceType::EXTERNAL_PATH {
            self.survey.external_files.push(ExternalFile {
                id,
                path: file.reference.to_vec(),
                length_bytes: file.file_length.get(),
                validation: FileValidationType(file.validation_type.get()).name(),
                is_written: false,
            });
        }
    }

    fn add_operation(&mut self, record: &Record<'a>, payload: &Payload<'a>) {
        let header = record.header;
        match (record.operation(), payload) {
            (OperationCode::REPLAY_SCOPE_BEGIN, Payload::Scope(scope)) => self.enter(scope.name),
            (OperationCode::EXECUTABLE_CACHE_PREPARE_EXECUTABLE, Payload::ExecutablePrepare(it)) => {
                self.add_executable(header.related_object_id.get(), it);
            }
            (OperationCode::COMMAND_BUFFER_BEGIN, _) => {
                let counts = self.command_buffers.entry(header.object_id.get()).or_default();
                let one_shot = counts.one_shot;
                let before =
                    std::mem::replace(counts, DispatchCounts { one_shot, ..DispatchCounts::default() });
                self.count(&before);
            }
            (OperationCode::COMMAND_BUFFER_DISPATCH, Payload::Dispatch(it)) => {
                self.add_workgroup_count(it);
                self.command_buffers.entry(header.object_id.get()).or_default().add(it);
            }
            (OperationCode::DEVICE_QUEUE_DISPATCH, Payload::Dispatch(it)) => {
                self.survey.submission_count += 1;
                self.add_workgroup_count(it);
                self.dispatch(it.executable_id.get(), it.function_ordinal.get(), 1);
            }
            (OperationCode::DEVICE_QUEUE_EXECUTE, Payload::QueueExecute(it)) => {
                self.survey.submission_count += 1;
                self.execute(it.command_buffer_id.get());
            }
            (_, Payload::QueueWrite(it)) => {
                self.survey.submission_count += 1;
                self.written_files.insert(it.target_file_id.get());
            }
            (
                _,
                Payload::QueueAlloca(_)
                | Payload::QueueDealloca(_)
                | Payload::QueueFill(_)
                | Payload::QueueUpdate(_)
                | Payload::QueueCopy(_)
                | Payload::QueueRead(_),
            ) => self.survey.submission_count += 1,
            _ => {}
        }
    }

    fn enter(&mut self, name: &'a [u8]) {
        let index = *self.scope_index.entry(name).or_insert_with(|| {
            self.survey.scopes.push(ScopeSurvey { name: name.to_vec(), count: 0 });
            self.survey.scopes.len() - 1
        });
        self.survey.scopes[index].count += 1;
    }

    fn add_executable(&mut self, id: u64, it: &ExecutablePrepare<'a>) {
        let functions = it.metadata().into_iter().flat_map(|metadata| metadata.functions());
        let functions = functions.zip(0..).map(|(function, ordinal)| FunctionSurvey {
            ordinal,
            name: function.name.to_vec(),
            constant_count: function.metadata.constant_count.get(),
            binding_count: function.metadata.binding_count.get(),
            dispatch_count: 0,
            workgroup_counts: Vec::new(),
        });
        self.executable_index.insert(id, self.survey.executables.len());
        self.survey.executables.push(ExecutableSurvey {
            id,
            format: it.format.to_vec(),
            code_bytes: it.data.len() as u64,
            functions: functions.collect(),
        });
    }

    fn execute(&mut self, command_buffer: u64) {
        let Some(counts) = self.command_buffers.get_mut(&command_buffer) else { return };
        counts.execution_count += 1;
        if counts.one_shot
            && let Some(counts) = self.command_buffers.remove(&command_buffer)
        {
            self.count(&counts);
        }
    }

    /// Counts the dispatches of a recording, once per execution.
    fn count(&mut self, counts: &DispatchCounts) {
        for (executable, function, count) in &counts.dispatches {
            self.dispatch(*executable, *function, count.saturating_mul(counts.execution_count));
        }
    }

    fn dispatch(&mut self, executable: u64, function: u32, count: u64) {
        self.survey.dispatch_count = self.survey.dispatch_count.saturating_add(count);
        let index = self.executable_index.get(&executable);
        let row =
            index.and_then(|index| self.survey.executables[*index].functions.get_mut(function as usize));
        if let Some(row) = row {
            row.dispatch_count = row.dispatch_count.saturating_add(count);
        }
    }

    fn add_workgroup_count(&mut self, it: &Dispatch<'a>) {
        let flags = DispatchFlags::from_bits_retain(it.flags.get().into());
        let indirect = DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS | DispatchFlags::STATIC_INDIRECT_PARAMETERS;
        let count = (!flags.intersects(indirect)).then(|| it.workgroup_count.map(|count| count.get()));
        let Some(index) = self.executable_index.get(&it.executable_id.get()) else { return };
        let functions = &mut self.survey.executables[*index].functions;
        let Some(row) = functions.get_mut(it.function_ordinal.get() as usize) else { return };
        if row.workgroup_counts.len() < MAX_WORKGROUP_COUNTS && !row.workgroup_counts.contains(&count) {
            row.workgroup_counts.push(count);
        }
    }

    fn add_bytes(&mut self, payload: &Payload<'a>) {
        let bytes = &mut self.survey.bytes;
        let (kind, data) = match payload {
            Payload::ExecutablePrepare(it) => {
                bytes.constants += size_of_val(it.constants) as u64;
                (&mut bytes.executables, it.data)
            }
            Payload::BufferRangeData(it) => (&mut bytes.mapped_writes, it.data),
            Payload::QueueUpdate(it) => (&mut bytes.updates, it.data),
            Payload::CommandUpdate(it) => (&mut bytes.updates, it.data),
            Payload::ImportBuffer(it) => (&mut bytes.imported_buffers, it.data),
            Payload::Dispatch(it) => (&mut bytes.constants, it.constants),
            Payload::QueueRead(it) => (&mut bytes.captured_reads, it.captured_data),
            Payload::FileObject(it)
                if FileReferenceType(it.reference_type.get()) == FileReferenceType::INLINE_BYTES =>
            {
                (&mut bytes.inline_files, it.reference)
            }
            _ => return,
        };
        *kind += data.len() as u64;
    }
}

impl DispatchCounts {
    fn add(&mut self, it: &Dispatch<'_>) {
        let (executable, function) = (it.executable_id.get(), it.function_ordinal.get());
        match self.dispatches.last_mut() {
            Some((last, same, count)) if (*last, *same) == (executable, function) => *count += 1,
            _ => self.dispatches.push((executable, function, 1)),
        }
    }
}
