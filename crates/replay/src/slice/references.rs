//! The external files that slices may refer to.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;

use rehal_base::Result;
use rehal_hal::{Binding, CreateOp, HostOp, ImportFile, Indexed, MemoryAccess, QueueOp};

use crate::effects::{Footprints, clamp};
use crate::files::Opening;
use crate::{FileContents, FileValidation, Plan, Replay, Validation, files};

/// The external files of a capture that are only read, and what is read from them.
pub(super) struct References {
    /// By index, opened and validated.
    pub files: BTreeMap<u32, File>,
    /// By buffer, in the order of their targets.
    pub reads: HashMap<u32, Vec<FileRead>>,
    validation: FileValidation,
}

/// A read of a file into a buffer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileRead {
    pub offset: u64,
    pub length: u64,
    pub file: u32,
    pub file_offset: u64,
}

impl References {
    pub(super) fn open(replay: &Replay) -> Result<Self> {
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
