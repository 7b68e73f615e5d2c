//! A directory with a slice of each kernel, and an index.

use std::fs::File;
use std::path::Path;

use rehal_base::{Context, Error, Result};
use rehal_session::{Cut, Kernel, Kernels, Replay, Slice, SliceOptions};
use serde_json::{Value, json};

use super::print;

/// Length of the function's name in the name of a file.
const MAX_NAME: usize = 80;

/// Writes the directory, which is complete or absent.
pub(super) fn export(replay: &Replay, kernels: &Kernels, directory: &Path) -> Result<()> {
    write(replay, kernels, directory).context(|| format!("--export={}", directory.display()))
}

fn write(replay: &Replay, kernels: &Kernels, directory: &Path) -> Result<()> {
    if directory.symlink_metadata().is_ok() {
        return Err(Error::new(rehal_base::StatusCode::AlreadyExists, "the directory exists")
            .advise("name another directory, or remove it"));
    }
    let creating = |error: std::io::Error| {
        Error::io("creating the directory", &error)
            .advise("create the directory that contains it, or name one that can be written")
    };
    let parent = directory.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // It gets its name when all files are complete. What contains it until then is private; it has the mode of any other.
    let temporary = tempfile::Builder::new().prefix(".rehal-").tempdir_in(parent).map_err(creating)?;
    let exported = temporary.path().join("exported");
    std::fs::create_dir(&exported).map_err(creating)?;
    let mut entries = Vec::new();
    for (index, kernel) in kernels.kernels.iter().enumerate() {
        let file = file_name(index, kernel);
        let slice = slice(replay, kernel, &exported.join(&file))?;
        entries.push(entry(kernels, kernel, &file, &slice));
    }
    let index = json!({
        "dispatch_count": kernels.dispatch_count,
        "total_ns": kernels.total_ns,
        "kernels": entries,
    });
    let path = exported.join("index.json");
    std::fs::write(&path, format!("{index:#}\n"))
        .map_err(|error| Error::io("writing 'index.json'", &error))?;
    std::fs::rename(&exported, directory).map_err(creating)
}

fn slice(replay: &Replay, kernel: &Kernel, path: &Path) -> Result<Slice> {
    let cut = Cut::Dispatch { record: kernel.location.ordinal, occurrence: kernel.occurrence };
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|error| Error::io("creating a slice", &error))?;
    replay.slice(&cut, &SliceOptions::default(), file)
}

/// An entry of the index: the kernel as `--format=json` has it, its file, and what it writes.
fn entry(kernels: &Kernels, kernel: &Kernel, file: &str, slice: &Slice) -> Value {
    let read = |it: &rehal_session::SlicedRead| json!({ "buffer_id": it.buffer_id, "offset": it.offset, "length": it.bytes.len(), "blake3": it.blake3() });
    let mut entry = print::object(kernels, kernel);
    entry["file"] = json!(file);
    entry["content_bytes"] = json!(slice.content_bytes);
    entry["reads"] = slice.reads.iter().map(read).collect();
    entry
}

/// Its number and its function, of characters that every file system and shell takes.
fn file_name(index: usize, kernel: &Kernel) -> String {
    let name = kernel.name.chars().take(MAX_NAME);
    let name: String =
        name.map(|it| if it.is_ascii_alphanumeric() || "-_.".contains(it) { it } else { '_' }).collect();
    format!("{index:04}-{name}.ireereplay")
}
