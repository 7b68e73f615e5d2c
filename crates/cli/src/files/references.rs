//! The files that the contents of an input name, which the tool may read as well.

use std::fs::File;
use std::path::{Path, PathBuf};

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal_base::FileKind;
use rehal_base::platform::FileExt;
use rehal_kernels::KernelFiles;
use rehal_params::{FileMode, Index, Storage};
use rehal_replay::{FileRemap, resolve_path};

/// The files that the one at `path` names: the external files of a capture, as captured and where `remaps`
/// say that they are; those of a parameter archive; those of the record of a kernel. As many as can be found:
/// if a file is damaged, the tool says so when it reads it.
pub(crate) fn of(path: &Path, remaps: &[FileRemap]) -> Vec<PathBuf> {
    match kind(path) {
        Some(FileKind::Capture) => {
            let mut options = CaptureOptions::default();
            options.recover = true;
            let Ok(capture) = CaptureFile::open(path, &options) else { return Vec::new() };
            let captured = capture.external_paths();
            captured.iter().flat_map(|it| [resolve_path(it, remaps), resolve_path(it, &[])]).collect()
        }
        Some(FileKind::Irpa) => {
            let mut index = Index::new();
            let _ = index.add_file(path, FileMode::File);
            let files = index.entries().iter().filter_map(|entry| match &entry.storage {
                Storage::File { file, .. } if file.is_external() => Some(file.path().to_owned()),
                Storage::File { .. } | Storage::Splat(_) => None,
            });
            files.collect()
        }
        _ if path.extension().is_some_and(|it| it == "json") => {
            KernelFiles::open(path).map_or_else(|_| Vec::new(), |files| files.paths())
        }
        _ => Vec::new(),
    }
}

fn kind(path: &Path) -> Option<FileKind> {
    // Opening a pipe blocks until it has a writer.
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let file = is_file.then(|| File::open(path).ok())??;
    let mut head = [0; FileKind::HEAD_BYTES];
    let length = file.read_at(&mut head, 0).ok()?;
    FileKind::from_head(&head[..length])
}
