//! Replays of a recorded kernel: one dispatch with its memory, without the program.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rehal_base::{Context, ElementType, Error, FileKind, Result};
use rehal_hal::{Buffer, Device, MemoryAccess, transfer};

use crate::{
    KernelDescriptor, SnapshotDifference, compare_snapshot,
    loaded_executable::{
        EntryPoint, ExecutableSource, LaunchArguments, LaunchBinding, Launches, LoadOptions, LoadedExecutable,
    },
};

/// Advice about files that are missing or have been changed.
const RECORD_AGAIN: &str = "record the kernel again: a descriptor needs the files that were recorded with it";

/// A recorded kernel in files: its descriptor, and what is beside it.
#[derive(Clone, Debug)]
pub struct KernelFiles {
    path: PathBuf,
    descriptor: KernelDescriptor,
}

/// Options of [`KernelReplay::prepare`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelReplayOptions {
    /// Number of workgroups in place of the recorded: of x, y and z as far as given, or one number for a
    /// dispatch with workgroups in one dimension. Default: none.
    pub teams: Option<Vec<u32>>,
    /// Workgroup size in place of the recorded, in the same form. Default: none.
    pub threads: Option<Vec<u32>>,
}

/// A recorded kernel on a device. Its memory is allocated once, and used by every run.
pub struct KernelReplay {
    files: KernelFiles,
    input: File,
    memory: Buffer,
    launches: Launches,
    workgroup_count: [u32; 3],
}

impl KernelFiles {
    /// Reads a descriptor, and checks that the image and the input are there, and have its sizes. The output
    /// is opened when it is asked for.
    pub fn open(path: &Path) -> Result<Self> {
        let place = || format!("'{}'", path.display());
        let mut text = Vec::new();
        let opened = match path.is_dir() {
            true => Err(Error::invalid_argument("it is a directory, not the descriptor of a kernel")),
            false => open_regular(path),
        };
        let file = opened.advise(|| name_descriptor(path)).context(place)?;
        let read = file.take(MAX_READ_BYTES).read_to_end(&mut text);
        read.map_err(|error| Error::io("reading the descriptor", &error)).context(place)?;
        let descriptor = KernelDescriptor::parse(&text).map_err(|error| {
            let other = FileKind::from_head(&text).filter(|kind| !matches!(kind, FileKind::Text));
            other.map_or(error, |kind| kind.refuse_as("it", "a descriptor of a kernel"))
        });
        let this = Self { path: path.to_path_buf(), descriptor: descriptor.context(place)? };
        open_file(&this.beside(&this.descriptor.files.image)).context(|| this.named("image"))?;
        this.snapshot(&this.descriptor.files.record_input, "input")?;
        Ok(this)
    }

    /// The descriptor.
    pub fn descriptor(&self) -> &KernelDescriptor {
        &self.descriptor
    }

    /// The files that the descriptor names, beside it.
    pub fn paths(&self) -> Vec<PathBuf> {
        let files = &self.descriptor.files;
        let names = [&files.image, &files.record_input].into_iter().chain(&files.record_output);
        names.map(|name| self.beside(name)).collect()
    }

    /// The file for the memory after a replay: beside the descriptor.
    pub fn replay_output(&self) -> PathBuf {
        self.path.with_extension(KernelDescriptor::REPLAY_OUTPUT)
    }

    /// The recorded memory after the dispatch. Fails if there is none, or if its size is not that of the
    /// descriptor.
    pub fn output(&self) -> Result<File> {
        match &self.descriptor.files.record_output {
            Some(name) => self.snapshot(name, "output"),
            None => Err(Error::failed_precondition(
                "the record has no output: the dispatch did not end, or it was left out",
            )
            .context(format!("'{}'", self.path.display()))),
        }
    }

    fn snapshot(&self, name: &str, what: &str) -> Result<File> {
        let check = || {
            let file = open_file(&self.beside(name))?;
            let metadata = file.metadata().map_err(|error| Error::io("reading its length", &error))?;
            let (length, expected) = (metadata.len(), self.descriptor.allocation_bytes);
            match length == expected {
                true => Ok(file),
                false => Err(Error::data_loss(format!(
                    "it has {length} bytes, and the device allocation has {expected}"
                ))
                .advise(RECORD_AGAIN)),
            }
        };
        check().context(|| self.named(what))
    }

    fn named(&self, what: &str) -> String {
        let files = &self.descriptor.files;
        let name = match what {
            "image" => &files.image,
            "input" => &files.record_input,
            _ => files.record_output.as_ref().unwrap_or(&files.image),
        };
        format!("the {what} '{}' of '{}'", self.beside(name).display(), self.path.display())
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.path.with_file_name(name)
    }
}

/// Larger files are not descriptors.
const MAX_READ_BYTES: u64 = 64 << 20;

/// Opens a file of a descriptor.
fn open_file(path: &Path) -> Result<File> {
    let is_followed = match path.is_symlink() {
        true => Err(Error::failed_precondition("it is a symbolic link, which records do not follow")),
        false => Ok(()),
    };
    is_followed.and_then(|()| open_regular(path)).advise(|| RECORD_AGAIN)
}

/// Opens a regular file: others may have no end, or block.
fn open_regular(path: &Path) -> Result<File> {
    let opening = |error: std::io::Error| Error::io("opening the file", &error);
    match std::fs::metadata(path).map_err(opening)?.is_file() {
        true => File::open(path).map_err(opening),
        false => Err(Error::invalid_argument("it is not a regular file")),
    }
}

/// Advice about a path that is not a descriptor: those in the directory, which is the path or has it.
fn name_descriptor(path: &Path) -> String {
    /// More are counted.
    const MAX_SHOWN: usize = 3;
    let directory = match path.is_dir() {
        true => path,
        false => path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new(".")),
    };
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|it| it.path());
    // Other files in JSON have no image beside them.
    let is_descriptor = |it: &PathBuf| {
        it.extension().is_some_and(|it| it == "json") && it.with_extension(KernelDescriptor::IMAGE).is_file()
    };
    let mut descriptors: Vec<PathBuf> = entries.filter(is_descriptor).collect();
    descriptors.sort();
    let shown =
        |it: &PathBuf| it.strip_prefix("./").unwrap_or(it).display().to_string().escape_debug().to_string();
    let names: Vec<_> = descriptors.iter().take(MAX_SHOWN).map(shown).collect();
    match descriptors.len() {
        0 => "name a descriptor (.json), as a recording of kernels writes it, with its other files beside it"
            .into(),
        1 => format!("name a descriptor: {}", names.join("")),
        count @ 2..=MAX_SHOWN => format!("name one of the {count} descriptors: {}", names.join(", ")),
        count => format!("name one of the {count} descriptors: {}, ...", names.join(", ")),
    }
}

impl KernelReplay {
    /// Prepares the executable of a kernel on a device, and allocates its memory. The executable is native
    /// code, which runs with the privileges of the process.
    pub fn prepare(files: KernelFiles, device: &Device, options: &KernelReplayOptions) -> Result<Self> {
        let place = format!("'{}'", files.path.display());
        Self::prepare_in(files, device, options).context(|| place)
    }

    fn prepare_in(files: KernelFiles, device: &Device, options: &KernelReplayOptions) -> Result<Self> {
        let descriptor = &files.descriptor;
        let teams = match &options.teams {
            Some(given) => changed(
                "teams",
                descriptor.workgroup_count,
                descriptor.num_teams,
                given,
                descriptor.teams_limits,
            )?,
            None => descriptor.workgroup_count,
        };
        let threads = match &options.threads {
            // The recorded number leaves the choice to the driver, if the dispatch did.
            Some(given) if given[..] == [descriptor.num_threads as u32] => descriptor.workgroup_size,
            Some(given) => changed(
                "threads",
                descriptor.workgroup_size,
                descriptor.num_threads,
                given,
                descriptor.threads_limits,
            )?,
            None => descriptor.workgroup_size,
        };
        let input = files.snapshot(&descriptor.files.record_input, "input")?;
        let source = ExecutableSource::File(files.beside(&descriptor.files.image));
        let loading = LoadOptions {
            format: Some(descriptor.executable_format.clone()),
            constants: descriptor.specialization_constants.clone(),
        };
        let executable = LoadedExecutable::load(device, &source, &loading)?;
        let function = executable.function(&EntryPoint::Ordinal(descriptor.function_ordinal))?;
        let actual = &executable.functions()[function as usize].name;
        if !actual.is_empty() && *actual != descriptor.name {
            let message = format!(
                "function {function} of the image is '{}', and the descriptor is of '{}'",
                actual.escape_debug(),
                descriptor.name.escape_debug()
            );
            return Err(Error::failed_precondition(message).advise(RECORD_AGAIN));
        }
        // A kernel without memory has no bytes to bind.
        let memory = executable.allocate(descriptor.allocation_bytes.max(1))?;
        let mut arguments = LaunchArguments::for_function(function);
        arguments.workgroup_count = teams;
        arguments.workgroup_size = threads;
        arguments.dynamic_local_memory = descriptor.shared_memory_size;
        arguments.constants.clone_from(&descriptor.constants);
        let binding =
            |it: &crate::DescribedBinding| LaunchBinding::range(memory.clone(), it.offset, it.length);
        arguments.bindings = descriptor.bindings.iter().map(binding).collect();
        let launches = executable.launches(&arguments, 1)?;
        Ok(Self { files, input, memory, launches, workgroup_count: teams })
    }

    /// The number of workgroups that it launches.
    pub fn workgroup_count(&self) -> [u32; 3] {
        self.workgroup_count
    }

    /// The files of the kernel.
    pub fn files(&self) -> &KernelFiles {
        &self.files
    }

    /// Fills the memory with the recorded input.
    pub fn restore(&self) -> Result<()> {
        let length = self.files.descriptor.allocation_bytes;
        if length == 0 {
            return Ok(());
        }
        let mut at = 0;
        let access = MemoryAccess::WRITE | MemoryAccess::DISCARD;
        transfer::write_with(&self.memory, access, 0, length, |memory, range| {
            let read = memory.read_file_at(&self.input, at, range)?;
            at += range.length;
            read.map_err(|error| Error::io("reading the recorded input", &error))
        })
    }

    /// Launches the kernel and waits for it; returns the time of both.
    pub fn run(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        self.launches.run()?;
        Ok(begun.elapsed())
    }

    /// The differences from the recorded output, by the first byte: bindings, and bytes between them.
    pub fn compare(&self, element_type: Option<ElementType>) -> Result<Vec<SnapshotDifference>> {
        compare_snapshot(&self.files.descriptor, &self.memory, &self.files.output()?, element_type)
    }

    /// Writes the memory as it is: all bytes of the device allocation.
    pub fn write_memory(&self, sink: &mut dyn Write) -> Result<()> {
        const PIECE_BYTES: u64 = 1 << 20;
        let length = self.files.descriptor.allocation_bytes;
        if length == 0 {
            return Ok(());
        }
        let mut piece = vec![0; PIECE_BYTES as usize];
        transfer::read_with(&self.memory, 0, length, |memory, range| {
            let mut from = range.offset;
            while from < range.end() {
                let count = (range.end() - from).min(PIECE_BYTES);
                let piece = &mut piece[..count as usize];
                memory.read(from, piece)?;
                sink.write_all(piece).map_err(|error| Error::io("writing the memory", &error))?;
                from += count;
            }
            Ok(())
        })
    }
}

/// A number of workgroups or their size in place of the recorded.
fn changed(what: &str, recorded: [u32; 3], total: u64, given: &[u32], limits: [u64; 2]) -> Result<[u32; 3]> {
    let [x, y, z] = recorded;
    let is_wide = |axis: &usize| recorded[*axis] > 1;
    let shown = given.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let chosen = match given {
        [number] if u64::from(*number) == total => recorded,
        [number] => {
            let mut chosen = [1; 3];
            let wide: Vec<usize> = (0..3).filter(is_wide).collect();
            match wide[..] {
                [] => chosen[0] = *number,
                [axis] => chosen[axis] = *number,
                _ => {
                    let message =
                        format!("the number of {what} is {x},{y},{z}, not one number such as {shown}");
                    return Err(
                        Error::invalid_argument(message).advise(format!("give all three: {x},{y},{z}"))
                    );
                }
            }
            chosen
        }
        [x, y] => [*x, *y, 1],
        [x, y, z] => [*x, *y, *z],
        _ => {
            return Err(Error::invalid_argument(format!("'{shown}' is not a number of {what}"))
                .advise("give one number, or three separated by commas: X,Y,Z"));
        }
    };
    let count = KernelDescriptor::teams(chosen);
    let [least, most] = limits;
    let form = match (0..3).filter(is_wide).count() {
        _ if least == most => format!("leave it out, or give {most}"),
        0 | 1 => format!("give one number, from {least} to {most}"),
        _ => format!("give three numbers, from 1,1,1 to {x},{y},{z}"),
    };
    let advice = match what {
        "threads" => format!("{form}: the workgroup size of an executable is fixed when it is compiled"),
        _ => format!("{form}: more workgroups than were recorded access memory outside of their bindings"),
    };
    if least > 0 && !(least..=most).contains(&count) {
        let message =
            format!("number of {what} ({count}) is out of the allowed limits (min,max: {least},{most})");
        return Err(Error::out_of_range(message).advise(advice));
    }
    if least > 0 && (0..3).any(|axis| chosen[axis] > recorded[axis].max(1)) {
        let message = format!("number of {what} ({shown}) exceeds the recorded {x},{y},{z} in one dimension");
        return Err(Error::out_of_range(message).advise(advice));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::changed;

    #[test]
    fn numbers_of_workgroups() {
        let teams = |recorded: [u32; 3], given: &[u32]| {
            let total = recorded.iter().map(|it| u64::from(*it)).product::<u64>();
            changed("teams", recorded, total, given, [1, total.max(1)])
                .map_err(|error| error.message().to_string())
        };
        assert_eq!(teams([1, 4, 1], &[2]), Ok([1, 2, 1]));
        assert_eq!(teams([8, 1, 1], &[2]), Ok([2, 1, 1]));
        assert_eq!(teams([1, 1, 1], &[1]), Ok([1, 1, 1]));
        assert_eq!(teams([2, 3, 4], &[24]), Ok([2, 3, 4]));
        assert_eq!(teams([2, 3, 4], &[1, 3]), Ok([1, 3, 1]));
        assert_eq!(teams([2, 3, 4], &[1, 2, 3]), Ok([1, 2, 3]));
        assert_eq!(teams([0, 1, 1], &[1]), Ok([1, 1, 1]));
        assert!(teams([2, 3, 4], &[6]).unwrap_err().contains("2,3,4"));
        assert!(teams([2, 3, 4], &[1, 1, 6]).unwrap_err().contains("exceeds the recorded 2,3,4"));
        assert!(
            teams([8, 1, 1], &[9]).unwrap_err().contains("(9) is out of the allowed limits (min,max: 1,8)")
        );
        assert!(teams([8, 1, 1], &[0]).unwrap_err().contains("(0) is out of"));
        assert!(teams([8, 1, 1], &[1, 1, 1, 1]).is_err());
        assert_eq!(changed("teams", [8, 1, 1], 8, &[100], [0, 0]).unwrap(), [100, 1, 1]);
    }
}
