use std::sync::Arc;

use parking_lot::Mutex;
use rehal_base::{Context, Error, Range, Result};
use rehal_hal::{Device, File, HostFile, HostMemory, MemoryAccess, QueueAffinity};
use rehal_params::{Contents, FileMode, ParameterFile};

/// The parameter files, each imported into a device once.
#[derive(Default)]
pub(super) struct Files(Mutex<Vec<Imported>>);

/// A file imported into one device.
struct Imported {
    device: Device,
    affinity: QueueAffinity,
    source: Arc<ParameterFile>,
    file: File,
}

/// A range of a file that a queue of the device can read.
pub(super) struct FileRange {
    /// The file.
    pub file: File,
    /// Offset of the bytes in it.
    pub offset: u64,
}

impl Files {
    /// Imports `range` of a parameter file for queues of `device`.
    ///
    /// A file on disk is imported as a whole. Of a file in memory only the range is, so that a recorder does
    /// not mistake bytes that the program never sees for its data.
    pub(super) fn import_range(
        &self,
        device: &Device,
        affinity: QueueAffinity,
        source: &Arc<ParameterFile>,
        range: Range,
    ) -> Result<FileRange> {
        match source.contents()? {
            Contents::Disk { file, .. } | Contents::Mapped { file, .. } => {
                let file = self.imported(device, affinity, source, file)?;
                Ok(FileRange { file, offset: range.offset })
            }
            Contents::Memory { memory, .. } => {
                let part = HostMemory::part(memory, range)?;
                let file = device.import_file(affinity, MemoryAccess::READ, HostFile::Memory(part))?;
                Ok(FileRange { file, offset: 0 })
            }
        }
    }

    /// Fails if memory is a file's that has been changed since it was imported.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        self.0.lock().iter().try_for_each(|it| {
            let path = || format!("'{}'", it.source.path().display());
            it.file.backend().check_unchanged().context(path)
        })
    }

    /// Drops all imported files; they are imported again on demand.
    pub(super) fn forget(&self) {
        self.0.lock().clear();
    }

    fn imported(
        &self,
        device: &Device,
        affinity: QueueAffinity,
        source: &Arc<ParameterFile>,
        opened: &std::fs::File,
    ) -> Result<File> {
        let mut known = self.0.lock();
        let found = known.iter().find(|it| {
            it.device.is_same(device) && it.affinity & affinity == affinity && Arc::ptr_eq(&it.source, source)
        });
        if let Some(found) = found {
            return Ok(found.file.clone());
        }
        let share = opened.try_clone().map_err(|error| {
            Error::io(format_args!("sharing the open file '{}'", source.path().display()), &error)
        })?;
        let shared = match source.mode() {
            FileMode::Map => HostFile::Disk(share),
            _ => HostFile::Copied(share),
        };
        let file = device.import_file(affinity, MemoryAccess::READ, shared)?;
        let (device, source) = (device.clone(), source.clone());
        known.push(Imported { device, affinity, source, file: file.clone() });
        Ok(file)
    }
}
