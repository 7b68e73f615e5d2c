//! The files of a replay: those that its runs share, and those of which each run has a private copy.

use std::collections::{HashMap, HashSet};
use std::fs::File as OpenFile;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rehal_base::{Context, Error, FileId, HostMemory, MappedFile, Range, Remedy, Result};
use rehal_hal::{
    CreateOp, Device, File, FileContents, HostFile, HostOp, ImportFile, Indexed, MemoryAccess, QueueOp,
};

use crate::files::{self, ExternalFile, FileRemap, FileWrites, Opening};
use crate::{FileRecord, Plan};

/// The files of a plan, by index.
pub(crate) struct ReplayFiles(Vec<Source>);

/// The source of a file that a run imports.
enum Source {
    /// One that all runs share.
    Shared(File),
    /// The private copy that a run has of an external file.
    Copied(Arc<Original>),
    /// One with the bytes that the capture has of it, which the run may change; or none, if reads of it are
    /// updates in the plan.
    Own,
}

/// An external file that is only read, and whose copies are written.
struct Original {
    /// Which of the copies of a run is its.
    index: usize,
    file: OpenFile,
    path: PathBuf,
}

/// The private copies of files that a run has, by the index of their original. Made on demand.
pub(crate) struct Copies(Vec<OnceLock<Arc<HostMemory>>>);

impl Copies {
    /// None yet, for a plan of `count` files.
    pub(super) fn new(count: usize) -> Self {
        Self(std::iter::repeat_with(OnceLock::new).take(count).collect())
    }

    /// The copy of a file, which begins with its bytes.
    fn of(&self, original: &Original) -> Result<&Arc<HostMemory>> {
        let copy = &self.0[original.index];
        if copy.get().is_none() {
            let _ = copy.set(Arc::new(original.copy()?));
        }
        copy.get().ok_or_else(|| Error::data_loss("a file of the capture has no copy"))
    }
}

impl Original {
    fn from_file(file: &ExternalFile, index: usize) -> Result<Self> {
        Ok(Self { index, file: same(&file.file, &file.path)?, path: file.path.clone() })
    }

    /// Memory with its bytes, of which the pages that are written become private.
    fn copy(&self) -> Result<HostMemory> {
        let map = Arc::new(MappedFile::from_file(same(&self.file, &self.path)?, &self.path)?);
        let whole = Range { offset: 0, length: map.bytes().len() as u64 };
        HostMemory::over_file(map, whole)?.private()
    }
}

/// The holder of a file's bytes.
pub(crate) enum FileBytes<'f> {
    /// A file of the device.
    File(&'f File),
    /// A private copy.
    Memory(&'f HostMemory),
}

impl ReplayFiles {
    /// Opens and validates the files of a plan.
    pub(super) fn open(
        plan: &Plan,
        devices: &[Device],
        remaps: &[FileRemap],
        writes: FileWrites,
    ) -> Result<Self> {
        let written = written_files(plan);
        let mut opened = Vec::with_capacity(plan.files.len());
        let (mut originals, mut in_place) = (HashMap::new(), HashSet::new());
        for (stored, is_written) in plan.files.iter().zip(written) {
            let record = &stored.record(plan.bytes());
            let open = || match (is_written, writes, record.source.contents) {
                (true, FileWrites::Fail, FileContents::External { path, .. }) => Err(refused(path, remaps)),
                (true, FileWrites::InPlace, _) => files::open(record, remaps, Opening::ToWrite),
                _ => files::open(record, remaps, Opening::ToRead),
            };
            let file = open().map_err(|error| plan.locate(error, record.location))?;
            if let (true, FileWrites::Copy, Some(file)) = (is_written, writes, &file) {
                let original = || Original::from_file(file, originals.len());
                let original = original().map_err(|error| plan.locate(error, record.location))?;
                originals.entry(file.id).or_insert_with(|| Arc::new(original));
            }
            in_place.extend(file.iter().filter(|_| is_written).map(|file| file.id));
            opened.push(file);
        }
        let mut sources = Vec::with_capacity(opened.len());
        for op in &plan.host_ops {
            let HostOp::Create(CreateOp::File(op)) = op else { continue };
            let file = opened[op.created as usize].take();
            let source = match file.as_ref().and_then(|file| originals.get(&file.id)) {
                Some(original) => Source::Copied(original.clone()),
                None => Source::from_import(plan, devices, op, file, &in_place)
                    .map_err(|error| plan.locate(error, plan.files[op.created as usize].location))?,
            };
            sources.push(source);
        }
        Ok(Self(sources))
    }

    /// The file of a run that an operation imports.
    pub(super) fn import(
        &self,
        op: &ImportFile<Indexed>,
        record: &FileRecord<&[u8]>,
        device: &Device,
        copies: &Copies,
    ) -> Result<Option<File>> {
        let file = match (&self.0[op.created as usize], record.source.contents) {
            (Source::Shared(file), _) => return Ok(Some(file.clone())),
            (Source::Copied(original), _) => {
                let copy = copies.of(original)?;
                HostFile::Memory(HostMemory::part(copy, copy.whole())?)
            }
            (Source::Own, FileContents::Inline(bytes)) => HostFile::from_bytes(bytes)?,
            (Source::Own, _) => return Ok(None),
        };
        device.import_file(op.affinity, record.access, file).map(Some)
    }

    /// Fails if memory of a run was a file's that has been changed since it was opened.
    pub(super) fn check_unchanged(&self, plan: &Plan, remaps: &[FileRemap]) -> Result<()> {
        plan.capture().check_unchanged().map_err(|error| plan.in_file(error))?;
        for (stored, source) in plan.files.iter().zip(&self.0) {
            let Source::Shared(file) = source else { continue };
            let FileContents::External { path, .. } = stored.record(plan.bytes()).source.contents else {
                continue;
            };
            file.backend()
                .check_unchanged()
                .context(|| format!("external file '{}'", files::resolve_path(path, remaps).display()))
                .map_err(|error| plan.locate(error, stored.location))?;
        }
        Ok(())
    }

    /// The bytes of a file, whether a run has imported it or not; `None` if only the run has it.
    pub(crate) fn bytes<'f>(&'f self, index: usize, copies: &'f Copies) -> Result<Option<FileBytes<'f>>> {
        Ok(match &self.0[index] {
            Source::Shared(file) => Some(FileBytes::File(file)),
            Source::Copied(original) => Some(FileBytes::Memory(copies.of(original)?)),
            Source::Own => None,
        })
    }
}

impl Source {
    /// A file that no run writes to, or only in place.
    fn from_import(
        plan: &Plan,
        devices: &[Device],
        op: &ImportFile<Indexed>,
        opened: Option<ExternalFile>,
        in_place: &HashSet<FileId>,
    ) -> Result<Self> {
        let stored = &plan.files[op.created as usize];
        // Memory must not be a file's that the run writes by another name.
        let is_written = opened.as_ref().is_some_and(|file| in_place.contains(&file.id));
        let mut access = if is_written { stored.access | MemoryAccess::WRITE } else { stored.access };
        let file = match (opened, stored.source.contents) {
            (Some(opened), _) => HostFile::Disk(opened.file),
            // Borrowed from the capture: a copy would double the memory.
            (None, FileContents::Inline(bytes)) if !stored.access.contains(MemoryAccess::WRITE) => {
                let range = Range { offset: bytes.start, length: bytes.count };
                HostFile::Memory(plan.capture().memory(range)?)
            }
            // The plan has the offsets of the bytes in the capture.
            (None, FileContents::Ranges { .. }) if plan.capture().path().is_some() => {
                access = MemoryAccess::READ;
                let bytes = plan.capture().as_slice();
                HostFile::Memory(plan.capture().memory(Range { offset: 0, length: bytes.len() as u64 })?)
            }
            (None, _) => return Ok(Self::Own),
        };
        devices[op.device as usize].import_file(op.affinity, access, file).map(Self::Shared)
    }
}

fn same(file: &OpenFile, path: &Path) -> Result<OpenFile> {
    let shown = path.display();
    file.try_clone()
        .map_err(|error| Error::io(format_args!("duplicating the descriptor of '{shown}'"), &error))
}

/// Which files a queue writes to.
fn written_files(plan: &Plan) -> Vec<bool> {
    let mut written = vec![false; plan.files.len()];
    for submission in &plan.submissions {
        if let QueueOp::Write { file, .. } = submission.op {
            // Others are refused when they are issued.
            written[file as usize] = plan.files[file as usize].access.contains(MemoryAccess::WRITE);
        }
    }
    written
}

fn refused(captured: &[u8], remaps: &[FileRemap]) -> Error {
    let path = files::resolve_path(captured, remaps);
    let error = format!("the capture writes to the file '{}'", path.display());
    Error::failed_precondition(error).advise(Remedy::CopyFileWrites)
}
