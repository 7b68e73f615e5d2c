//! Which contents of a slice are bytes of external files.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt;

use rehal_base::{Error, Result};
use rehal_hal::{Binding, CreateOp, HostOp, ImportFile, Indexed, MemoryAccess, QueueOp};

use super::collect::Content;
use super::shared::Shared;
use crate::effects::{Footprints, clamp};
use crate::files::Opening;
use crate::{FileContents, FileValidation, Plan, Replay, Validation, files};

/// A part of a content.
pub(super) struct Piece<'c> {
    pub buffer: u32,
    pub offset: u64,
    pub length: u64,
    pub source: Source<'c>,
}

/// Where the bytes of a piece are.
pub(super) enum Source<'c> {
    Bytes(&'c [u8]),
    /// In an external file, by index.
    File {
        file: u32,
        offset: u64,
    },
}

/// The external files of a capture that are only read, and what is read from them.
pub(super) struct References {
    /// By index, opened and validated.
    pub files: BTreeMap<u32, File>,
    /// By buffer, in the order of their targets.
    reads: HashMap<u32, Vec<FileRead>>,
    validation: FileValidation,
}

/// A read of a file into a buffer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FileRead {
    offset: u64,
    length: u64,
    file: u32,
    file_offset: u64,
}

impl References {
    fn open(replay: &Replay) -> Result<Self> {
        let plan = &**replay.plan();
        let mut this =
            Self { files: BTreeMap::new(), reads: HashMap::new(), validation: FileValidation::Identity };
        for op in &plan.host_ops {
            if let HostOp::Create(CreateOp::File(op)) = op {
                this.open_file(replay, op)?;
            }
        }
        let footprints = Footprints::new(plan, 0);
        for submission in &plan.submissions {
            let QueueOp::Read { file, file_offset, target, .. } = submission.op else { continue };
            let Binding::Direct(buffer) = target.binding else { continue };
            let range = clamp(target.offset, target.length, footprints.size(buffer));
            if let Some((offset, end)) = range.filter(|_| this.files.contains_key(&file)) {
                let read = FileRead { offset, length: end - offset, file, file_offset };
                this.reads.entry(buffer).or_default().push(read);
            }
        }
        for reads in this.reads.values_mut() {
            reads.sort_unstable();
            reads.dedup();
        }
        Ok(this)
    }

    fn open_file(&mut self, replay: &Replay, op: &ImportFile<Indexed>) -> Result<()> {
        let plan: &Plan = replay.plan();
        let record = &plan.files[op.created as usize].record(plan.bytes());
        let FileContents::External { validation, .. } = record.source.contents else { return Ok(()) };
        // What is in one that the capture writes is not what it was.
        if record.access.contains(MemoryAccess::WRITE) {
            return Ok(());
        }
        let opened = files::open(record, replay.file_remaps(), Opening::ToRead);
        if let Some(opened) = opened.map_err(|error| plan.locate(error, record.location))? {
            self.files.insert(op.created, opened.file);
            if matches!(validation, Validation::Digest(_)) {
                self.validation = FileValidation::Digest;
            }
        }
        Ok(())
    }

    /// How a slice identifies the files: by digest if the capture does for one of them.
    pub(super) fn validation(&self) -> FileValidation {
        self.validation
    }
}

impl Shared<'_> {
    /// The files that slices may refer to, opened on the first call.
    pub(super) fn references(&self) -> Result<&References> {
        if self.references.get().is_none() {
            let _ = self.references.set(References::open(self.replay)?);
        }
        self.references.get().ok_or_else(|| Error::data_loss("the files of the capture are not open"))
    }

    /// Appends the parts of a content: what files contain, if references to them are kept, and bytes.
    pub(super) fn pieces<'c>(&self, content: &'c Content, pieces: &mut Vec<Piece<'c>>) -> Result<()> {
        let (buffer, bytes) = (content.buffer, content.bytes.as_slice());
        let end = content.offset + bytes.len() as u64;
        let part =
            |from: u64, to: u64| &bytes[(from - content.offset) as usize..(to - content.offset) as usize];
        let mut at = content.offset;
        if self.options.keep_references {
            let references = self.references()?;
            for read in references.reads.get(&buffer).into_iter().flatten() {
                let (from, to) = (at.max(read.offset), end.min(read.offset.saturating_add(read.length)));
                if from >= to {
                    continue;
                }
                let offset = read.file_offset + (from - read.offset);
                if !contains(&references.files[&read.file], offset, part(from, to))? {
                    continue;
                }
                if at < from {
                    let source = Source::Bytes(part(at, from));
                    pieces.push(Piece { buffer, offset: at, length: from - at, source });
                }
                let source = Source::File { file: read.file, offset };
                pieces.push(Piece { buffer, offset: from, length: to - from, source });
                at = to;
            }
        }
        if at < end {
            let source = Source::Bytes(part(at, end));
            pieces.push(Piece { buffer, offset: at, length: end - at, source });
        }
        Ok(())
    }
}

/// Whether a file has these bytes at an offset: the work may have changed what was read from there.
fn contains(file: &File, mut offset: u64, mut bytes: &[u8]) -> Result<bool> {
    let mut chunk = vec![0; bytes.len().min(1 << 20)];
    while !bytes.is_empty() {
        let (part, rest) = bytes.split_at(bytes.len().min(chunk.len()));
        let read = &mut chunk[..part.len()];
        file.read_exact_at(read, offset)
            .map_err(|error| Error::io("reading a file of the capture", &error))?;
        if read != part {
            return Ok(false);
        }
        offset += part.len() as u64;
        bytes = rest;
    }
    Ok(true)
}
