//! Writes dispatches of a replay to a directory.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use rehal_base::{Context, Error, FileId, Remedy, Result, StatusCode, parallel};
use rehal_hal::transfer;
use rehal_jobs::{PartialResult, TemporaryDirectory, remove_abandoned};
use rehal_replay::{AccessKind, DispatchOperation, Operation};

use super::descriptor::{
    DescribedBinding, DescribedFiles, DescribedSource, IMAGE, INPUT, KernelDescriptor, OUTPUT, REPLAYED,
    VERSION, product, words,
};
use super::layout::Layout;

/// Options of a [`KernelRecorder`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KernelRecordOptions {
    /// Whether the memory after dispatches is recorded. Default: true.
    pub has_output: bool,
    /// Maximum size of a device allocation in bytes. Default: 8 GiB.
    pub memory_limit_bytes: u64,
    /// Whether records that exist are replaced. Default: false.
    pub force: bool,
}

impl KernelRecordOptions {
    /// The name of [`KernelRecordOptions::memory_limit_bytes`] in a [`Remedy::SetOption`].
    pub const MEMORY_LIMIT: &'static str = "memory_limit_bytes";
}

impl Default for KernelRecordOptions {
    fn default() -> Self {
        Self { has_output: true, memory_limit_bytes: 8 << 30, force: false }
    }
}

/// Length of the function's name in the names of files.
const MAX_NAME: usize = 80;
/// Hexadecimal digits of the digest in the names of files.
const DIGITS: usize = 16;

/// Writes dispatches to a directory, each as a descriptor with the files that it names. The input is written
/// before a dispatch, so that one that crashes is recorded, and the output after it. A descriptor is written
/// last, so that each one in the directory is complete whenever the process ends. A signal that ends the
/// process removes what is recorded while this exists.
pub struct KernelRecorder {
    directory: PathBuf,
    /// A signal removes what is recorded.
    result: PartialResult,
    /// Held until the end: others that record into the directory wait.
    _lock: File,
    options: KernelRecordOptions,
    /// The names that kernels of this replay have, and those of all replays.
    stems: HashSet<String>,
    recorded: HashSet<String>,
    pending: Option<Pending>,
}

/// A dispatch whose output is not recorded.
struct Pending {
    stem: String,
    descriptor: KernelDescriptor,
    layout: Layout,
}

impl KernelRecorder {
    /// Records into a directory, which is created if it does not exist. Fails if it has records already,
    /// unless they may be replaced.
    pub fn new(directory: &Path, options: KernelRecordOptions) -> Result<Self> {
        let (result, lock) = Self::prepare(directory, &options)?;
        // A kernel may change the working directory.
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_path_buf());
        let (stems, recorded) = (HashSet::new(), HashSet::new());
        Ok(Self { directory, result, _lock: lock, options, stems, recorded, pending: None })
    }

    /// Creates and locks a directory. Fails if it has records already, unless they may be replaced.
    fn prepare(directory: &Path, options: &KernelRecordOptions) -> Result<(PartialResult, File)> {
        let create = |what: &str, error: &std::io::Error| {
            Error::io(format!("{what} '{}'", directory.display()), error)
                .advise("name a directory that can be created or written")
        };
        // If it fails, the directories that it has created are removed.
        let result = PartialResult::default();
        let lock = Self::lock(directory, &result, create)?;
        Self::check(directory, options)?;
        Ok((result, lock))
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Creates the directory, and waits for others that record into it.
    fn lock(
        directory: &Path,
        result: &PartialResult,
        failed: impl Fn(&str, &std::io::Error) -> Error,
    ) -> Result<File> {
        loop {
            result.create_directory(directory).map_err(|error| failed("creating the directory", &error))?;
            let lock = match File::open(directory) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                opened => opened.map_err(|error| failed("opening the directory", &error))?,
            };
            lock.lock().map_err(|error| failed("locking the directory", &error))?;
            // The one that was waited for may have been interrupted, which removes the directory.
            if is_at(&lock, directory).map_err(|error| failed("reading the directory", &error))? {
                return Ok(lock);
            }
        }
    }

    /// Fails if the directory has records, unless they may be replaced. It need not exist.
    pub fn check(directory: &Path, options: &KernelRecordOptions) -> Result<()> {
        if options.force || directory.symlink_metadata().is_err() {
            return Ok(());
        }
        let failed = |error| {
            Error::io(format!("reading the directory '{}'", directory.display()), &error)
                .advise("name a directory that can be written")
        };
        for entry in fs::read_dir(directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if is_record(&name.to_string_lossy()) {
                return Err(exists(&name.to_string_lossy()));
            }
        }
        Ok(())
    }

    /// Begins another replay: its kernels are those of the replays before if they are the same, and have the
    /// same names.
    pub fn next_replay(&mut self) {
        self.stems.clear();
    }

    /// Records a dispatch that is about to be performed, unless an earlier replay had the same; returns the
    /// name of the descriptor. Fails if it is not a dispatch.
    pub fn begin(&mut self, operation: &Operation<'_>, name: &str) -> Result<String> {
        let place = || format!("recording kernel '{}'", name.escape_debug());
        self.begin_dispatch(operation, name).context(place)
    }

    fn begin_dispatch(&mut self, operation: &Operation<'_>, name: &str) -> Result<String> {
        let Some(dispatch) = &operation.dispatch else {
            return Err(Error::invalid_argument("the operation is not a dispatch"));
        };
        let ranges = operation.bindings().iter().map(|it| (it.buffer_id, it.offset, it.length));
        let layout = Layout::for_bindings(&ranges.collect::<Vec<_>>())?;
        let limit = self.options.memory_limit_bytes;
        if layout.total_bytes > limit {
            let message =
                format!("its bindings have {} bytes, and the memory size is {limit}", layout.total_bytes);
            let value = layout.total_bytes.to_string();
            let remedy = Remedy::SetOption { name: KernelRecordOptions::MEMORY_LIMIT.into(), value };
            return Err(Error::resource_exhausted(message).advise(remedy));
        }
        let mut descriptor = describe(operation, dispatch, name, &layout)?;
        let code = dispatch.running()?.code;
        let stem = self.stem(code.data, &descriptor);
        let named = |extension: &str| format!("{stem}.{extension}");
        if !self.recorded.insert(stem.clone()) {
            return Ok(named("json"));
        }
        descriptor.files =
            DescribedFiles { image: named(IMAGE), record_input: named(INPUT), record_output: None };
        if !self.options.force {
            for extension in ["json", IMAGE, INPUT, OUTPUT] {
                if self.directory.join(named(extension)).symlink_metadata().is_ok() {
                    return Err(exists(&named(extension)));
                }
            }
        }
        // A kernel that crashes leaves none.
        let unfinished = Unfinished::create(&self.directory, &self.result)?;
        unfinished.write(&named(IMAGE), |file| {
            file.write_all(code.data).map_err(|error| Error::io("writing the image", &error))
        })?;
        unfinished.write(&named(INPUT), |file| snapshot(file, operation, &layout))?;
        let descriptor_name = named("json");
        unfinished.write_descriptor(&descriptor_name, &descriptor)?;
        // A replaced record must not be left with files of another one, so the descriptor leaves first.
        for old in ["json", OUTPUT, REPLAYED] {
            remove(&self.directory, &named(old))?;
        }
        for file in [named(IMAGE), named(INPUT), descriptor_name.clone()] {
            unfinished.publish(&file)?;
        }
        self.pending = Some(Pending { stem, descriptor, layout });
        Ok(descriptor_name)
    }

    /// Records the memory after the dispatch.
    pub fn end(&mut self, operation: &Operation<'_>) -> Result<()> {
        let Some(Pending { stem, mut descriptor, layout }) = self.pending.take() else { return Ok(()) };
        if !self.options.has_output {
            return Ok(());
        }
        let mut record = || -> Result<()> {
            let (output, json) = (format!("{stem}.{OUTPUT}"), format!("{stem}.json"));
            let unfinished = Unfinished::create(&self.directory, &self.result)?;
            unfinished.write(&output, |file| snapshot(file, operation, &layout))?;
            descriptor.files.record_output = Some(output.clone());
            unfinished.write_descriptor(&json, &descriptor)?;
            unfinished.publish(&output)?;
            unfinished.publish(&json)
        };
        record().context(|| format!("recording kernel '{}'", descriptor_name(&stem)))
    }

    /// The name of the files without extension: the same for the same kernel in every run.
    fn stem(&mut self, code: &[u8], descriptor: &KernelDescriptor) -> String {
        let mut hasher = blake3::Hasher::new();
        let shape = format!(
            "{:?} {} {} {:?} {:?} {:?} {} {:?} {:?}",
            descriptor.name,
            descriptor.function_ordinal,
            descriptor.executable_format,
            descriptor.specialization_constants,
            descriptor.workgroup_count,
            descriptor.workgroup_size,
            descriptor.shared_memory_size,
            descriptor.constants,
            descriptor.bindings,
        );
        hasher.update(&(shape.len() as u64).to_le_bytes());
        hasher.update(shape.as_bytes());
        parallel::hash(&mut hasher, code);
        let digest = hasher.finalize().to_hex();
        let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
        let name = descriptor.name.chars().take(MAX_NAME).map(|it| if is_plain(it) { it } else { '_' });
        // A name that starts with a dash would be a flag, and one with a dot would be hidden.
        let name: String = name.collect::<String>().trim_start_matches(['-', '.']).to_string();
        let stem = format!("{name}_{}", &digest[..DIGITS]);
        let mut unique = stem.clone();
        let mut number = 2;
        // The capture has the same executable more than once.
        while !self.stems.insert(unique.clone()) {
            unique = format!("{stem}_{number}");
            number += 1;
        }
        unique
    }
}

/// Files that are not complete, in a directory of their own.
struct Unfinished<'d> {
    directory: &'d Path,
    result: &'d PartialResult,
    temporary: TemporaryDirectory,
}

impl<'d> Unfinished<'d> {
    fn create(directory: &'d Path, result: &'d PartialResult) -> Result<Self> {
        Ok(Self { directory, result, temporary: TemporaryDirectory::create(directory, ".rehal-")? })
    }

    fn write_descriptor(&self, name: &str, descriptor: &KernelDescriptor) -> Result<()> {
        let text = descriptor.text()?;
        self.write(name, |file| {
            file.write_all(text.as_bytes()).map_err(|error| Error::io("writing the descriptor", &error))
        })
    }

    /// Writes a file that [`Unfinished::publish`] makes visible.
    fn write(&self, name: &str, write: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
        let created = File::create(self.temporary.path().join(name));
        let mut file = created.map_err(|error| Error::io(format!("creating '{name}'"), &error))?;
        write(&mut file).context(|| format!("'{name}'"))
    }

    fn publish(&self, name: &str) -> Result<()> {
        let renamed = self.result.publish(&self.temporary.path().join(name), self.directory.join(name));
        renamed.map_err(|error| Error::io(format!("creating '{name}'"), &error))
    }
}

/// A directory of records, for a process that has another one record into a directory of its own: complete
/// records then move. Others that record into it wait until this is dropped.
pub struct StagedKernelRecords {
    directory: PathBuf,
    staging: TemporaryDirectory,
    result: PartialResult,
    _lock: File,
    force: bool,
}

impl StagedKernelRecords {
    /// The start of the names of directories in which others record.
    pub const PREFIX: &str = ".rehal-";

    /// Begins: the other process records into [`StagedKernelRecords::staging`] with the same name, a
    /// [`temporary_name`](rehal_jobs::temporary_name). Fails as [`KernelRecorder::new`] does.
    pub fn begin(directory: &Path, name: &str, options: &KernelRecordOptions) -> Result<Self> {
        let (result, lock) = KernelRecorder::prepare(directory, options)?;
        remove_abandoned(directory, Self::PREFIX);
        let staging = TemporaryDirectory::named(directory, name)?;
        let directory = directory.to_path_buf();
        result
            .create_directory(&Self::staging(&directory, name))
            .map_err(|error| Error::io("creating a directory for records", &error))?;
        Ok(Self { directory, staging, result, _lock: lock, force: options.force })
    }

    /// The directory in which the other process records.
    pub fn staging(directory: &Path, name: &str) -> PathBuf {
        directory.join(name).join("records")
    }

    /// Moves what the other process has recorded, in whatever way it has ended: records that have their
    /// descriptor, and the captures of programs.
    pub fn publish(&self) -> Result<()> {
        let failed = |error| Error::io("reading the directory of records", &error);
        let staging = self.staging.path().join("records");
        let mut names = Vec::new();
        for entry in fs::read_dir(&staging).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Code that is recorded may have created any, and a program may have recorded nothing.
            if entry.metadata().is_ok_and(|it| it.is_file() && it.len() > 0) {
                names.extend(entry.file_name().into_string());
            }
        }
        let named = |stem: &str, extension: &str| format!("{stem}.{extension}");
        // A record that is replaced must not be left with files of another one: descriptors leave first, and
        // come last.
        for name in &names {
            let Some(stem) = name.strip_suffix(".json").filter(|_| is_record(name)) else { continue };
            let own = [IMAGE, INPUT, OUTPUT, "json"].map(|it| named(stem, it));
            let targets = own.each_ref().map(|it| self.directory.join(it));
            match targets.iter().zip(&own).find(|(it, _)| !self.force && it.symlink_metadata().is_ok()) {
                Some((_, name)) => return Err(exists(name)),
                None => ["json", OUTPUT, REPLAYED]
                    .iter()
                    .try_for_each(|old| remove(&self.directory, &named(stem, old)))?,
            }
            for (name, target) in own.iter().zip(targets).filter(|(name, _)| names.contains(name)) {
                self.move_file(&staging.join(name), target)?;
            }
        }
        for name in names.iter().filter(|it| it.ends_with(".ireereplay")) {
            let target = self.directory.join(name);
            if target.symlink_metadata().is_err() {
                self.move_file(&staging.join(name), target)?;
            }
        }
        Ok(())
    }

    fn move_file(&self, from: &Path, to: PathBuf) -> Result<()> {
        let place = format!("creating '{}'", to.display());
        self.result.publish(from, to).map_err(|error| Error::io(place, &error))
    }
}

fn remove(directory: &Path, name: &str) -> Result<()> {
    match fs::remove_file(directory.join(name)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format!("replacing '{name}'"), &error))
        }
        _ => Ok(()),
    }
}

fn descriptor_name(stem: &str) -> String {
    format!("{stem}.json")
}

fn exists(name: &str) -> Error {
    let message = format!("the directory has kernel records: '{}' exists", name.escape_debug());
    Error::new(StatusCode::AlreadyExists, message)
}

/// Whether a path names the file that is open.
fn is_at(file: &File, path: &Path) -> std::io::Result<bool> {
    match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        found => found.map(|_| FileId::at(path)).and_then(|id| Ok(id == Some(FileId::of(file)?))),
    }
}

/// Whether a file has the name of one of a record.
fn is_record(name: &str) -> bool {
    let Some((stem, extension)) = name.rsplit_once('.') else { return false };
    let is_digest = |text: &str| {
        text.len() == DIGITS && text.bytes().all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(&it))
    };
    let ends = |stem: &str| stem.rsplit_once('_').is_some_and(|(_, last)| is_digest(last));
    let numbered = stem.rsplit_once('_').is_some_and(|(rest, number)| {
        !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit()) && ends(rest)
    });
    ["json", IMAGE, INPUT, OUTPUT, REPLAYED].contains(&extension) && (ends(stem) || numbered)
}

fn describe(
    operation: &Operation<'_>,
    dispatch: &DispatchOperation<'_>,
    name: &str,
    layout: &Layout,
) -> Result<KernelDescriptor> {
    let running = dispatch.running()?;
    let constants = words(dispatch.constants);
    let bindings: Vec<_> = operation.bindings().iter().zip(&layout.offsets).collect();
    let described = bindings.iter().enumerate().map(|(ordinal, (it, offset))| {
        let overlaps = |(other, at): &&(&rehal_replay::AccessedRange<'_>, &u64)| {
            **at < **offset + it.length && **offset < **at + other.length
        };
        let alias_of = bindings[..ordinal].iter().position(|other| overlaps(&other));
        DescribedBinding {
            offset: **offset,
            length: it.length,
            read_only: it.access == AccessKind::Reads,
            alias_of: alias_of.map(|other| other as u32),
        }
    });
    let described: Vec<_> = described.collect();
    // A size of zero is left to the driver, which takes the executable's.
    let size = std::array::from_fn(|axis| match dispatch.workgroup_size[axis] {
        0 => running.info.workgroup_size[axis].max(1),
        size => size,
    });
    let (teams, threads) = (product(dispatch.workgroup_count), product(size));
    let values = described.iter().map(|_| 0).chain(constants.iter().map(|it| u64::from(*it)));
    let offsets = layout.offsets.iter().copied().chain(constants.iter().map(|_| 0));
    let format = str::from_utf8(running.code.format)
        .map_err(|_| Error::data_loss("the format of the executable is not UTF-8"))?;
    Ok(KernelDescriptor {
        name: name.to_string(),
        num_args: (described.len() + constants.len()) as u64,
        num_teams: teams,
        num_threads: threads,
        shared_memory_size: dispatch.dynamic_local_memory,
        loop_trip_count: 0,
        device_id: operation.device as u32,
        allocation_address: 0,
        allocation_bytes: layout.total_bytes,
        teams_limits: [1, teams.max(1)],
        // The size is compiled into executables.
        threads_limits: [threads; 2],
        arg_ptrs: values.collect(),
        arg_offsets: offsets.collect(),
        format_version: VERSION,
        function_ordinal: running.ordinal,
        executable_format: format.to_string(),
        specialization_constants: words(dispatch.executable.constants),
        workgroup_count: dispatch.workgroup_count,
        workgroup_size: dispatch.workgroup_size,
        constants,
        bindings: described,
        files: DescribedFiles { image: String::new(), record_input: String::new(), record_output: None },
        source: DescribedSource {
            record: operation.location.ordinal,
            occurrence: operation.occurrence,
            executable_id: dispatch.executable.id,
        },
    })
}

/// Writes what is bound to a dispatch. What is between is zero.
fn snapshot(file: &mut File, operation: &Operation<'_>, layout: &Layout) -> Result<()> {
    let writing = |error: std::io::Error| Error::io("writing a snapshot", &error);
    file.set_len(layout.total_bytes).map_err(writing)?;
    for region in &layout.regions {
        let buffer = operation.bindings()[region.binding].buffer;
        let mut at = region.offset;
        transfer::read_with(buffer, region.range.offset, region.range.length, |memory, range| {
            memory.write_file_at(file, at, range)?.map_err(writing)?;
            at += range.length;
            Ok(())
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_was_removed_is_not_at_its_path() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("kernels");
        fs::create_dir(&path).unwrap();
        let opened = File::open(&path).unwrap();
        assert!(is_at(&opened, &path).unwrap());
        fs::remove_dir(&path).unwrap();
        assert!(!is_at(&opened, &path).unwrap());
        fs::create_dir(&path).unwrap();
        assert!(!is_at(&opened, &path).unwrap());
    }

    #[test]
    fn files_of_records_are_known_by_their_names() {
        for name in
            ["f_0123456789abcdef.json", "f_0123456789abcdef_2.image", "_00000000ffffffff.record_output"]
        {
            assert!(is_record(name), "{name}");
        }
        for name in
            ["package.json", "f_0123456789abcdeg.json", "f_0123456789abcdef.txt", "f_0123456789abcdef", ""]
        {
            assert!(!is_record(name), "{name}");
        }
    }
}
