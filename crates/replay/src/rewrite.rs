//! Copies a capture record by record, with other data and names in its operations.

use std::collections::HashMap;
use std::io::{Seek, Write};

use bumpalo::Bump;
use rehal_base::{Context, Error, MappedFile, Remedy, Result};
use rehal_capture::{
    Capture, FileReferenceType, OpenOptions, Payload, PayloadType, Record, RecordFields, RecordType, Writer,
    layout, payload,
};
use rehal_hal::{
    Binding, BufferRef, Command, CreateOp, FileContents, FileIdentity, FileSource, HostOp, ImportFile, Op,
    PrepareExecutable, QueueOp, Submission, WHOLE_BUFFER,
};
use serde::Serialize;
use zerocopy::FromBytes;
use zerocopy::little_endian::{U16, U32, U64};

use crate::decode::decode;
use crate::effects::Footprints;
use crate::files::resolve_path;
use crate::ids::ThreadNumbers;
use crate::{FileRemap, Ids, Plan, encode};

/// Where the data of a record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum DataKind {
    /// Host writes to a mapped buffer.
    #[serde(rename = "host_writes")]
    HostWrite,
    /// An update of a buffer, by a queue or a command.
    #[serde(rename = "updates")]
    Update,
    /// Host memory imported as a buffer.
    #[serde(rename = "imports")]
    Import,
    /// The contents of a file in the capture.
    #[serde(rename = "files")]
    File,
    /// Bytes that a queue read from a file.
    #[serde(rename = "reads")]
    Read,
    /// The pattern of a fill.
    #[serde(rename = "fill_patterns")]
    Pattern,
}

/// Data of an operation.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DataPlace {
    /// Ordinal of its record.
    pub record: u64,
    /// Its kind.
    pub kind: DataKind,
    /// The id of the buffer that it is written to, and where, unless it is a file or the buffer is only known
    /// when a command buffer is executed.
    pub target: Option<(u64, u64)>,
}

/// A name that a program gave to something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum NameKind {
    /// A scope.
    #[serde(rename = "scopes")]
    Scope,
    /// The path of a file.
    #[serde(rename = "paths")]
    Path,
    /// The identifier of an executable cache.
    #[serde(rename = "executable_caches")]
    Cache,
}

/// Chooses what a rewritten capture has in place of data and names. Code, arguments and sizes stay.
pub trait Rewriter {
    /// The new name.
    fn name(&mut self, kind: NameKind, name: &[u8]) -> Vec<u8>;

    /// Called with the data of an operation, before [`Rewriter::fill`].
    fn begin(&mut self, place: &DataPlace, data: &[u8]);

    /// Writes the bytes from `at` on that are there instead of `data`. Called for one piece after another,
    /// from the first to the last.
    fn fill(&mut self, data: &[u8], at: u64, target: &mut [u8]);
}

/// Options of [`rewrite`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RewriteOptions {
    /// Where external files are, whose bytes become part of the capture.
    pub file_remaps: Vec<FileRemap>,
    /// Numbers threads in the order of their first record, in place of the ids of the system.
    pub renumber_threads: bool,
}

/// Counts of records and bytes that [`rewrite`] read, left out and added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rewritten {
    /// Number of records that were read.
    pub record_count: u64,
    /// Digests of host reads, which are left out.
    pub digest_count: u64,
    /// Optional records of unknown types, which are left out.
    pub unknown_count: u64,
    /// The bytes of their payloads.
    pub unknown_bytes: u64,
    /// Calls that failed when they were captured, of which the arguments are left out.
    pub failed_count: u64,
    /// External files whose bytes are part of the capture now.
    pub embedded_count: u64,
}

/// Pages of a mapping are released after this many bytes.
const FORGOTTEN_BYTES: u64 = 4 << 20;

/// Writes the capture of `plan` to `sink`, with the same records except for data and names, which `rewriter`
/// chooses.
///
/// The bytes that are read from external files are stored in the capture; a file that is also written is
/// stored whole. Identities and digests of files, digests of host reads, payloads of unknown types and the
/// arguments of failed calls are left out. A capture that was never closed or is truncated is written up to
/// there, and not closed either.
///
/// Memory does not grow with the data. Fails if an external file is missing or is not the captured one.
pub fn rewrite<W: Write + Seek>(
    plan: &Plan,
    sink: W,
    options: &RewriteOptions,
    rewriter: &mut dyn Rewriter,
) -> Result<Rewritten> {
    let capture = plan.capture().open(OpenOptions { recover: true })?;
    let externals = externals(plan, &options.file_remaps)?;
    let is_whole = capture.is_closed() && capture.tear().is_none();
    let mut writer = Writer::for_version(sink, capture.version())?;
    if is_whole {
        writer.begin_checksummed(&RecordFields::default())?;
    }
    let mut copy = Copying {
        plan,
        writer,
        rewriter,
        externals: &externals,
        sizes: sizes(plan),
        threads: options.renumber_threads.then(ThreadNumbers::default),
        outcome: Rewritten { embedded_count: externals.len() as u64, ..Rewritten::default() },
    };
    copy.all(&capture)?;
    let Copying { writer, outcome, .. } = copy;
    match is_whole {
        true => writer.close()?,
        false => writer.close_unsealed()?,
    }
    Ok(outcome)
}

/// A file outside of a capture, by id.
struct External {
    file: MappedFile,
    /// Whether its contents are stored whole rather than with each read.
    is_whole: bool,
}

/// The external files of a plan.
fn externals(plan: &Plan, remaps: &[FileRemap]) -> Result<HashMap<u64, External>> {
    let mut externals = HashMap::new();
    for record in plan.files() {
        let FileContents::External { path, .. } = record.source.contents else { continue };
        let open = || {
            record.check(remaps)?;
            let here = resolve_path(path, remaps);
            MappedFile::open(&here)
                .context(|| format!("external file '{}'", here.display()))
                .advise(|| Remedy::RemapFile)
        };
        let file = open().map_err(|error| plan.locate(error, record.location))?;
        externals.insert(record.id, External { file, is_whole: false });
    }
    for submission in &plan.submissions {
        let needs_whole = match submission.op {
            QueueOp::Write { file, .. } => Some(file),
            // There would be no bytes by which a replay tells that the capture has them.
            QueueOp::Read { file, target, .. } if target.length == 0 => Some(file),
            _ => None,
        };
        if let Some(external) = needs_whole.and_then(|file| externals.get_mut(&plan.files[file as usize].id))
        {
            external.is_whole = true;
        }
    }
    Ok(externals)
}

/// The sizes of the buffers of a plan, by id.
fn sizes(plan: &Plan) -> HashMap<u64, u64> {
    let footprints = Footprints::new(plan, 0);
    let sizes = footprints.buffers().map(|(index, size)| (plan.buffer_ids[index as usize], size));
    sizes.collect()
}

/// A capture that is copied.
struct Copying<'c, W: Write + Seek> {
    plan: &'c Plan,
    writer: Writer<W>,
    rewriter: &'c mut dyn Rewriter,
    externals: &'c HashMap<u64, External>,
    sizes: HashMap<u64, u64>,
    threads: Option<ThreadNumbers>,
    outcome: Rewritten,
}

/// Inputs to the rewriting of a record's operation.
#[derive(Clone, Copy)]
struct Inputs<'n> {
    /// Ordinal of the record.
    record: u64,
    externals: &'n HashMap<u64, External>,
    /// Where new names are.
    names: &'n Bump,
}

impl<W: Write + Seek> Copying<'_, W> {
    fn all(&mut self, capture: &Capture<'_>) -> Result<()> {
        let mut forgotten = 0;
        // The plan was made from verified records.
        for record in capture.records_unverified() {
            let record = record?;
            self.outcome.record_count += 1;
            self.record(&record)?;
            let end = record.offset + record.header.record_length.get();
            if end - forgotten >= FORGOTTEN_BYTES {
                self.plan.capture().forget(forgotten, end - forgotten);
                forgotten = end;
            }
        }
        Ok(())
    }

    fn record(&mut self, record: &Record<'_>) -> Result<()> {
        let fields = self.fields(record);
        match record.record_type() {
            RecordType::SESSION => self.session(record, &fields),
            RecordType::OBJECT => self.object(record, fields),
            RecordType::OPERATION | RecordType::UNSUPPORTED if fields.status_code != 0 => {
                self.outcome.failed_count += 1;
                self.writer.append(&RecordFields { payload_type: PayloadType::NONE, ..fields }, &[])
            }
            _ if record.is_skippable() => {
                self.leave_out(record);
                Ok(())
            }
            _ => {
                let names = Bump::new();
                let inputs = Inputs { record: record.ordinal(), externals: self.externals, names: &names };
                match decode(record)? {
                    Some(op) => self.operation(op, &fields, inputs),
                    None => Ok(()),
                }
            }
        }
    }

    fn fields(&mut self, record: &Record<'_>) -> RecordFields {
        let mut fields = RecordFields::from(record.header);
        if let Some(threads) = &mut self.threads {
            fields.thread_id = threads.number(fields.thread_id);
        }
        fields
    }

    fn leave_out(&mut self, record: &Record<'_>) {
        self.outcome.unknown_count += 1;
        self.outcome.unknown_bytes += record.payload.len() as u64;
    }

    fn session(&mut self, record: &Record<'_>, fields: &RecordFields) -> Result<()> {
        match record.payload_type() {
            // The writer has checksums of its own.
            PayloadType::CHECKSUMMED | PayloadType::CHECKSUMS => {}
            PayloadType::READ_DIGEST | PayloadType::DISPATCH_DIGESTS => self.outcome.digest_count += 1,
            PayloadType::NONE => self.writer.append(fields, &[])?,
            _ => self.leave_out(record),
        }
        Ok(())
    }

    /// An object that exists now. Only files and caches have more than numbers.
    fn object(&mut self, record: &Record<'_>, fields: RecordFields) -> Result<()> {
        let payload = record.payload()?;
        match payload {
            Payload::BufferObject(it) => {
                // What is in padding was in the memory of the program.
                let header = layout::BufferObject { padding: [0; 4], ..*it.header };
                self.writer.append_view(&fields, &payload::BufferObject { header: &header })
            }
            Payload::FileObject(it) => self.file_object(&it, &fields),
            Payload::ExecutableCacheObject(it) => {
                let identifier = self.name(NameKind::Cache, it.identifier);
                let header = layout::ExecutableCacheObject {
                    identifier_length: U64::new(identifier.len() as u64),
                    ..*it.header
                };
                let view = payload::ExecutableCacheObject { header: &header, identifier: &identifier };
                self.writer.append_view(&fields, &view)
            }
            Payload::None
            | Payload::CommandBufferObject(_)
            | Payload::SemaphoreObject(_)
            | Payload::EventObject(_) => payload.with_parts(|parts| self.writer.append(&fields, parts)),
            _ => {
                self.leave_out(record);
                // A payload of a known type cannot be empty, and an object without one of an unknown type may
                // be refused.
                let payload_type = match fields.payload_type.is_known() {
                    true => PayloadType::NONE,
                    false => fields.payload_type,
                };
                self.writer.append(&RecordFields { payload_type, ..fields }, &[])
            }
        }
    }

    fn file_object(&mut self, it: &payload::FileObject<'_>, fields: &RecordFields) -> Result<()> {
        let is_whole = self.externals.get(&fields.object_id).map(|external| external.is_whole);
        let captured = FileReferenceType(it.reference_type.get());
        let reference_type = match (captured, is_whole) {
            (FileReferenceType::EXTERNAL_PATH, Some(true)) => FileReferenceType::INLINE_BYTES,
            (FileReferenceType::EXTERNAL_PATH, _) => FileReferenceType::CAPTURED_RANGES,
            _ => captured,
        };
        let reference = match reference_type {
            FileReferenceType::CAPTURED_RANGES => self.name(NameKind::Path, it.reference),
            // The operation before it has the bytes.
            _ => Vec::new(),
        };
        let header = layout::FileObject {
            file_device: U64::ZERO,
            file_inode: U64::ZERO,
            file_mtime_ns: U64::ZERO,
            reference_length: U64::new(reference.len() as u64),
            reference_type: U32::new(reference_type.0),
            validation_type: U32::ZERO,
            digest_type: U16::ZERO,
            digest: [0; 32],
            padding: [0; 4],
            ..*it.header
        };
        let view = payload::FileObject { header: &header, reference: &reference };
        self.writer.append_view(fields, &view)
    }

    fn operation<'n>(&mut self, op: Op<Ids<'n>>, fields: &RecordFields, inputs: Inputs<'n>) -> Result<()> {
        let op = match op {
            Op::Host(op) => Op::Host(self.host_op(op, inputs)),
            Op::Queue(submission) => Op::Queue(self.submission(submission, inputs)?),
            Op::Info(_) | Op::Command { .. } => op,
        };
        let place = data_of(&op).map(|(kind, target)| DataPlace { record: inputs.record, kind, target });
        let Self { writer, rewriter, plan, .. } = self;
        let mut outcome = Ok(());
        let put: &mut encode::Put<'_> = &mut |call, payload_type, parts| {
            debug_assert_eq!((call.record_type, call.operation), (fields.record_type, fields.operation));
            let fields = RecordFields { payload_type, ..*fields };
            // All data is the last list of its payload.
            outcome = match (&place, parts.split_last()) {
                (Some(place), Some((data, rest))) => {
                    rewriter.begin(place, data);
                    let source = within(plan.capture().as_slice(), data);
                    let mut forgotten = 0;
                    writer.append_with_tail(&fields, rest, data.len() as u64, |at, target| {
                        rewriter.fill(data, at, target);
                        if let Some(source) = source.filter(|_| at - forgotten >= FORGOTTEN_BYTES) {
                            plan.capture().forget(source + forgotten, at - forgotten);
                            forgotten = at;
                        }
                    })
                }
                _ => writer.append(&fields, parts),
            };
        };
        encode::operation(&op, put);
        outcome
    }

    fn host_op<'n>(&mut self, op: HostOp<Ids<'n>>, inputs: Inputs<'n>) -> HostOp<Ids<'n>> {
        match op {
            HostOp::Create(CreateOp::ExecutableCache { device, identifier, created }) => {
                let identifier = self.name_in(NameKind::Cache, identifier, inputs);
                HostOp::Create(CreateOp::ExecutableCache { device, identifier, created })
            }
            HostOp::Create(CreateOp::Executable(it)) => {
                let metadata = without_padding(it.metadata, inputs.names);
                HostOp::Create(CreateOp::Executable(PrepareExecutable { metadata, ..it }))
            }
            HostOp::Create(CreateOp::File(it)) => {
                HostOp::Create(CreateOp::File(ImportFile { source: self.file(&it, inputs), ..it }))
            }
            HostOp::ScopeBegin { name } => {
                HostOp::ScopeBegin { name: self.name_in(NameKind::Scope, name, inputs) }
            }
            HostOp::ScopeEnd { name } => {
                HostOp::ScopeEnd { name: self.name_in(NameKind::Scope, name, inputs) }
            }
            _ => op,
        }
    }

    /// The source of a file, without what identifies the captured one.
    fn file<'n>(&mut self, it: &ImportFile<Ids<'n>>, inputs: Inputs<'n>) -> FileSource<&'n [u8]> {
        let contents = match it.source.contents {
            FileContents::External { .. }
                if inputs.externals.get(&it.created).is_some_and(|it| it.is_whole) =>
            {
                FileContents::Inline(inputs.externals[&it.created].file.bytes())
            }
            FileContents::Ranges { path } | FileContents::External { path, .. } => {
                FileContents::Ranges { path: self.name_in(NameKind::Path, path, inputs) }
            }
            contents => contents,
        };
        FileSource { identity: FileIdentity::default(), contents, ..it.source }
    }

    fn submission<'n>(
        &self,
        mut submission: Submission<Ids<'n>>,
        inputs: Inputs<'n>,
    ) -> Result<Submission<Ids<'n>>> {
        if let QueueOp::Read { file, file_offset, target, captured, .. } = &mut submission.op
            && let Some(external) = inputs.externals.get(file)
            && !external.is_whole
            && captured.is_empty()
        {
            *captured = self.read(external, *file_offset, target)?;
        }
        Ok(submission)
    }

    /// The bytes of a file that a queue reads.
    fn read<'n>(
        &self,
        external: &'n External,
        file_offset: u64,
        target: &BufferRef<u64>,
    ) -> Result<&'n [u8]> {
        let length = match (target.length, target.binding) {
            (WHOLE_BUFFER, Binding::Direct(buffer)) => {
                self.sizes.get(&buffer).map_or(0, |size| size.saturating_sub(target.offset))
            }
            (length, _) => length,
        };
        let bytes = external.file.bytes();
        let range = rehal_base::Range { offset: file_offset, length };
        match range.fits(bytes.len() as u64) {
            true => Ok(&bytes[file_offset as usize..][..length as usize]),
            false => Err(Error::out_of_range(format!(
                "{length} bytes are read at {file_offset} of '{}', which has {}",
                external.file.path().display(),
                bytes.len()
            ))),
        }
    }

    fn name(&mut self, kind: NameKind, name: &[u8]) -> Vec<u8> {
        match name.is_empty() {
            true => Vec::new(),
            false => self.rewriter.name(kind, name),
        }
    }

    fn name_in<'n>(&mut self, kind: NameKind, name: &[u8], inputs: Inputs<'n>) -> &'n [u8] {
        inputs.names.alloc_slice_copy(&self.name(kind, name))
    }
}

/// The data of an operation, and what it is written to. No operation may be missing here: its data would
/// stay.
fn data_of(op: &Op<Ids<'_>>) -> Option<(DataKind, Option<(u64, u64)>)> {
    match op {
        Op::Host(op) => match op {
            HostOp::Unmap(range, Some(_)) | HostOp::Flush(range, Some(_)) => {
                Some((DataKind::HostWrite, Some((range.buffer, range.offset))))
            }
            HostOp::Create(CreateOp::ImportedBuffer { created, .. }) => {
                Some((DataKind::Import, Some((*created, 0))))
            }
            HostOp::Create(CreateOp::File(file)) => match file.source.contents {
                FileContents::Inline(_) => Some((DataKind::File, None)),
                FileContents::Nothing | FileContents::External { .. } | FileContents::Ranges { .. } => None,
            },
            HostOp::Create(
                CreateOp::Device { .. }
                | CreateOp::Allocator { .. }
                | CreateOp::Semaphore { .. }
                | CreateOp::CommandBuffer { .. }
                | CreateOp::Event { .. }
                | CreateOp::ExecutableCache { .. }
                | CreateOp::Executable(_)
                | CreateOp::Buffer { .. },
            )
            | HostOp::BeginCommandBuffer { .. }
            | HostOp::EndCommandBuffer { .. }
            | HostOp::Map(_)
            | HostOp::Unmap(_, None)
            | HostOp::Invalidate(_)
            | HostOp::Flush(_, None)
            | HostOp::FlushQueue { .. }
            | HostOp::ScopeBegin { .. }
            | HostOp::ScopeEnd { .. }
            | HostOp::Trim { .. }
            | HostOp::TrimAllocator { .. } => None,
        },
        Op::Info(_) => None,
        Op::Command { command, .. } => match command {
            Command::Fill { target, .. } => Some((DataKind::Pattern, written_to(target))),
            Command::Update { target, .. } => Some((DataKind::Update, written_to(target))),
            Command::ExecutionBarrier { .. }
            | Command::SignalEvent { .. }
            | Command::ResetEvent { .. }
            | Command::WaitEvents { .. }
            | Command::Advise { .. }
            | Command::Copy { .. }
            | Command::Dispatch(_)
            | Command::BeginDebugGroup { .. }
            | Command::EndDebugGroup => None,
        },
        Op::Queue(submission) => match &submission.op {
            QueueOp::Fill { target, .. } => Some((DataKind::Pattern, written_to(target))),
            QueueOp::Update { target, .. } => Some((DataKind::Update, written_to(target))),
            QueueOp::Read { target, captured, .. } => {
                (!captured.is_empty()).then(|| (DataKind::Read, written_to(target)))
            }
            QueueOp::Alloca { .. }
            | QueueOp::Dealloca { .. }
            | QueueOp::Copy { .. }
            | QueueOp::Write { .. }
            | QueueOp::Dispatch(_)
            | QueueOp::Execute { .. }
            | QueueOp::Barrier { .. }
            | QueueOp::HostCall { .. } => None,
        },
    }
}

fn written_to(target: &BufferRef<u64>) -> Option<(u64, u64)> {
    match target.binding {
        Binding::Direct(buffer) => Some((buffer, target.offset)),
        Binding::Slot(_) => None,
    }
}

/// The metadata of an executable with zeros in its padding, where the reference has what was in the memory of
/// the program.
fn without_padding<'n>(metadata: &[u8], names: &'n Bump) -> &'n [u8] {
    let metadata = names.alloc_slice_copy(metadata);
    if let Ok((header, rest)) = layout::ExecutableMetadataHeader::ref_from_prefix(&*metadata) {
        let (start, count) = (metadata.len() - rest.len(), header.function_count.get());
        // The record was decoded: the functions are there.
        let count = count.min((rest.len() / size_of::<layout::FunctionMetadata>()) as u64) as usize;
        let functions = &mut metadata[start..][..count * size_of::<layout::FunctionMetadata>()];
        if let Ok(functions) = <[layout::FunctionMetadata]>::mut_from_bytes(functions) {
            functions.iter_mut().for_each(|function| function.padding = [0; 4]);
        }
    }
    metadata
}

/// The offset of `part` in `whole`, if it is a part of it.
fn within(whole: &[u8], part: &[u8]) -> Option<u64> {
    let (start, end) = (whole.as_ptr().addr(), whole.as_ptr().addr() + whole.len());
    let first = part.as_ptr().addr();
    (first >= start && first < end).then(|| (first - start) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without it, memory beside a capture may be forgotten when data that is not in it is copied.
    #[test]
    fn only_parts_of_a_capture_have_an_offset_in_it() {
        let bytes = [0; 9];
        let offsets =
            [&bytes[..3], &bytes[3..], &bytes[5..6], &bytes[6..]].map(|it| within(&bytes[3..6], it));
        assert_eq!(offsets, [None, Some(0), Some(2), None]);
    }
}
