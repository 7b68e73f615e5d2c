//! A directory with a slice of each kernel, the files that its command line needs, and an index.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal_base::{Context, Error, Result};
use rehal_hal::DeviceGroup;
use rehal_jobs::TemporaryDirectory;
use rehal_judge::Clock;
use rehal_kernels::{DispatchFile, DispatchFiles, Kernel, KernelOptions, Kernels, Roofs};
use rehal_replay::{Replay, ReplayOptions, Slice, SliceOptions, SliceSet, SlicedRead};
use serde::Serialize;

use super::commands::{Command, Commands, Place};
use super::print::{Row, samples};
use crate::interrupts;
use crate::output_file::refuse_stdout;
use crate::report::{Header, write_json};

/// Length of the function's name in the name of a file.
const MAX_NAME: usize = 80;

/// The inputs of an export.
pub(super) struct Export<'a> {
    pub replay: &'a Replay,
    pub options: &'a KernelOptions,
    pub slicing: &'a SliceOptions,
    /// Where the commands run; `None` for no commands.
    pub place: Option<Place>,
    /// That of the index.
    pub header: Header<'a>,
}

/// A directory that gets its name when it is complete.
pub(super) struct Unnamed {
    /// It is in a private directory until then, and has the mode of any other.
    _private: TemporaryDirectory,
    path: PathBuf,
    name: PathBuf,
}

/// Lists the kernels, and writes the directory.
pub(super) fn export(export: &Export<'_>, directory: &Unnamed) -> Result<(Kernels, Commands)> {
    let Export { replay, options, slicing, .. } = *export;
    let shown = || directory.shown();
    let mut exported = Exported { directory: directory.path.clone(), entries: BTreeMap::new() };
    let kernels = Kernels::from_replay_with_slices(replay, options, slicing, &mut exported).context(shown)?;
    if kernels.kernels.is_empty() {
        let advice = "name a capture with dispatches; `rehal info` counts them";
        return Err(Error::not_found("no kernel to export").advise(advice)).context(shown);
    }
    let commands = match &export.place {
        Some(place) => exported.write_commands(export, &kernels, place).context(shown)?,
        None => Commands::new(),
    };
    exported.write_index(export, &kernels, &commands).context(shown)?;
    Ok((kernels, commands))
}

impl Unnamed {
    /// Creates it.
    pub(super) fn create(name: &Path) -> Result<Self> {
        let created = create(name).context(|| format!("--export={}", name.display()));
        created.map(|(private, path)| Self { _private: private, path, name: name.to_owned() })
    }

    /// Where it is until it is complete.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn shown(&self) -> String {
        format!("--export={}", self.name.display())
    }

    /// Gives it its name.
    pub(super) fn complete(self) -> Result<()> {
        let Self { path, name, .. } = &self;
        std::fs::rename(path, name)
            .map_err(|error| creating(&format!("renaming '{}'", path.display()), &error))
            .context(|| self.shown())?;
        Ok(())
    }
}

fn create(directory: &Path) -> Result<(TemporaryDirectory, PathBuf)> {
    refuse_stdout("export", directory, "a directory")?;
    if directory.symlink_metadata().is_ok() {
        return Err(Error::new(rehal_base::StatusCode::AlreadyExists, "the directory exists")
            .advise("name another directory, or remove it"));
    }
    let parent = directory.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    interrupts::handle();
    let temporary = TemporaryDirectory::create(parent, ".rehal-").advise(|| CREATE)?;
    let exported = temporary.path().join("exported");
    std::fs::create_dir(&exported)
        .map_err(|error| creating(&format!("creating '{}'", exported.display()), &error))?;
    Ok((temporary, exported))
}

const CREATE: &str = "create the directory that contains it, or name one that can be written";

fn creating(what: &str, error: &std::io::Error) -> Error {
    Error::io(what, error).advise(CREATE)
}

/// The slices of a directory.
struct Exported {
    directory: PathBuf,
    /// Their files and what they write, by the index of the kernel.
    entries: BTreeMap<usize, Entry>,
}

struct Entry {
    file: String,
    content_bytes: u64,
    reads: Vec<Read>,
}

/// A result, as a replay of the kernel reads it.
#[derive(Serialize)]
struct Read {
    buffer_id: u64,
    offset: u64,
    length: usize,
    blake3: String,
}

impl SliceSet for Exported {
    type Sink = File;

    fn sink(&mut self, index: usize, name: &str) -> Result<File> {
        let file = file_name(index, name);
        let path = self.directory.join(&file);
        self.entries.insert(index, Entry { file, content_bytes: 0, reads: Vec::new() });
        let created = File::options().read(true).write(true).create_new(true).open(path);
        created.map_err(|error| Error::io("creating a slice", &error))
    }

    fn finished(&mut self, index: usize, slice: Slice) -> Result<()> {
        let read = |it: &SlicedRead| Read {
            buffer_id: it.buffer_id,
            offset: it.offset,
            length: it.bytes.len(),
            blake3: it.blake3(),
        };
        if let Some(entry) = self.entries.get_mut(&index) {
            entry.content_bytes = slice.content_bytes;
            entry.reads = slice.reads.iter().map(read).collect();
        }
        Ok(())
    }
}

impl Exported {
    /// Writes the executable of each kernel and what is bound to it, as its slice has them.
    fn write_commands(&self, export: &Export<'_>, kernels: &Kernels, place: &Place) -> Result<Commands> {
        let files = DispatchFiles::new(&self.directory);
        let command = |(index, entry): (&usize, &Entry)| {
            let kernel = &kernels.kernels[*index];
            let dispatch = self.write_dispatch(&files, export, kernel, entry);
            let dispatch = dispatch.context(|| format!("slice '{}'", entry.file))?;
            Ok((*index, Command::for_dispatch(kernel, &dispatch, place)))
        };
        self.entries.iter().map(command).collect()
    }

    fn write_dispatch(
        &self,
        files: &DispatchFiles,
        export: &Export<'_>,
        kernel: &Kernel,
        entry: &Entry,
    ) -> Result<DispatchFile> {
        let slice = CaptureFile::open(&self.directory.join(&entry.file), &CaptureOptions::default())?;
        let plan = slice.plan()?;
        // A slice has only the devices that its work uses.
        let all = export.replay.devices();
        let devices = match (plan.device_count(), kernel.device.and_then(|index| all.devices().get(index))) {
            (count, Some(device)) if count != all.devices().len() => {
                DeviceGroup::new(vec![device.clone(); count])?
            }
            _ => all.clone(),
        };
        // References to files have the paths that were opened, which no remap applies to.
        files.write(&Replay::new(plan, &devices, &ReplayOptions::default())?)
    }

    /// Each kernel as `--format=json` has it, its file, and what it writes.
    fn write_index(&self, export: &Export<'_>, kernels: &Kernels, commands: &Commands) -> Result<()> {
        let roofs = Roofs::kept(export.replay.devices());
        let rows = self.entries.iter().map(|(index, entry)| IndexRow {
            kernel: Row::new(kernels, &kernels.kernels[*index], &roofs, commands.get(index)),
            file: &entry.file,
            content_bytes: entry.content_bytes,
            reads: &entry.reads,
        });
        let index = Index {
            header: &export.header,
            dispatch_count: kernels.dispatch_count,
            total_ns: kernels.total_ns,
            samples: samples(kernels),
            timed_by: kernels.times,
            kernels: rows.collect(),
        };
        File::create(self.directory.join("index.json"))
            .and_then(|file| write_json(&index, false, file))
            .map_err(|error| Error::io("writing 'index.json'", &error))
    }
}

/// The index of the directory.
#[derive(Serialize)]
struct Index<'a> {
    header: &'a Header<'a>,
    dispatch_count: u64,
    total_ns: Option<u64>,
    samples: Option<u64>,
    timed_by: Option<Clock>,
    kernels: Vec<IndexRow<'a>>,
}

#[derive(Serialize)]
struct IndexRow<'a> {
    #[serde(flatten)]
    kernel: Row<'a>,
    file: &'a str,
    content_bytes: u64,
    reads: &'a [Read],
}

/// Its number and its function, of characters that every file system and shell takes.
fn file_name(index: usize, name: &str) -> String {
    let name = name.chars().take(MAX_NAME);
    let name: String =
        name.map(|it| if it.is_ascii_alphanumeric() || "-_.".contains(it) { it } else { '_' }).collect();
    format!("{index:04}-{name}.ireereplay")
}
