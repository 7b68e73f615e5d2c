//! The file that a tool writes a result to, with the flag that names it. It is complete or left as it was: a
//! result is written to a temporary file, which then replaces it. Standard output, pipes and devices are
//! written directly.

use std::cell::Cell;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use parking_lot::Mutex;
use rehal_base::platform::{borrowed, check_writable};
use rehal_base::{Context, Error, HostMemory, Range, Result, StatusCode};
use rehal_crash::{Removal, Stays, change};
use tempfile::{Builder, NamedTempFile};

use crate::files::{directory_of, links};
use crate::flags::{Flag, Flags, written};
use crate::interrupts;
use crate::output::{self, Stdout, Stream};
use crate::platform;

/// The flag that names the file.
pub(crate) const OUTPUT: Flag<Option<PathBuf>> =
    Flag::path("output", "The file to write, once it is complete; - is standard output.")
        .short('o')
        .files(written);

/// Memory for what is not yet written to the file.
const BUFFER_BYTES: usize = 1 << 18;

/// Where a tool writes a result.
#[derive(Clone)]
pub(crate) struct OutputFile {
    /// The flag that names it.
    flag: &'static str,
    path: PathBuf,
    /// The same from the root: a kernel may change the working directory.
    absolute: PathBuf,
    /// Whether the result follows what the file has.
    appends: bool,
}

/// Outputs whose files are known, or opened, before code is confined. A confined copy of the process writes
/// those that replace others when they are complete, and leaves it to this process to give them names.
static PREPARED: Mutex<Vec<Prepared>> = Mutex::new(Vec::new());

/// The outputs that a confined copy has completed; `None` in a process that completes its files itself.
static FINISHED: Mutex<Option<Vec<usize>>> = Mutex::new(None);

struct Prepared {
    /// The flag and its value, for errors.
    place: String,
    /// The paths that name it.
    paths: Vec<PathBuf>,
    /// `None` while it is written aside.
    target: Option<PreparedTarget>,
}

enum PreparedTarget {
    Direct(Destination),
    Aside(Aside),
}

impl PreparedTarget {
    fn replaces(&self, file: &Path) -> bool {
        matches!(self, Self::Aside(aside) if aside.target == file)
    }
}

/// A file that replaces another when it is complete.
struct Aside {
    temporary: Temporary,
    target: PathBuf,
    /// Whether it is appended to the target instead.
    appends: bool,
    /// Whether a result is in it: another one may follow.
    is_written: bool,
    /// Its index in [`PREPARED`], if it is from there.
    index: Option<usize>,
}

impl Aside {
    fn complete(mut self) -> Result<()> {
        if !self.appends {
            return self.temporary.persist(&self.target);
        }
        let from = self.temporary.file()?;
        from.rewind().map_err(|error| writing(&error))?;
        append(&self.target, from)
    }
}

/// Appends a result. Another process that appends waits, so that results do not mix; the file is as it was if
/// that fails.
fn append(target: &Path, result: &mut File) -> Result<()> {
    let mut file = File::options().append(true).create(true).open(target).map_err(creating)?;
    // Some file systems have no locks.
    let _ = file.lock();
    let length = file.metadata().map_err(creating)?.len();
    let appended = io::copy(result, &mut file).map(drop);
    appended.or_else(|error| file.set_len(length).and(Err(error))).map_err(|error| writing(&error))?;
    file.sync_data().map_err(|error| writing(&error))
}

/// From now on, this process, a copy, completes no files: its parent does.
pub(crate) fn leave_to_parent() {
    *FINISHED.lock() = Some(Vec::new());
}

/// The outputs that this process has left to its parent.
pub(crate) fn finished() -> Vec<usize> {
    FINISHED.lock().take().unwrap_or_default()
}

/// Gives files their names that a copy of this process has completed: all that it can. Fails with the first
/// error.
pub(crate) fn persist(finished: &[usize]) -> Result<()> {
    let completed = finished.iter().map(|index| {
        let prepared =
            PREPARED.lock().get_mut(*index).and_then(|it| Some((it.place.clone(), it.target.take()?)));
        match prepared {
            Some((place, PreparedTarget::Aside(aside))) => aside.complete().context(|| place),
            _ => Ok(()),
        }
    });
    completed.fold(Ok(()), Result::and)
}

/// Removes those that were not completed.
pub(crate) fn forget() {
    PREPARED.lock().clear();
}

/// The destination of a path.
#[derive(Clone)]
enum Destination {
    Stdout,
    /// A pipe, a device or a descriptor of this process, which cannot be replaced.
    InPlace(PathBuf),
    /// A regular file, or one that does not exist: the file that is replaced once another is complete.
    Aside {
        target: PathBuf,
        existing: Option<Metadata>,
    },
}

impl OutputFile {
    /// The file that [`OUTPUT`] names; `example` is a name for it, such as `trace.pftrace`. Fails as
    /// [`OutputFile::new`] does.
    pub(crate) fn from_flags(flags: &Flags, example: &str) -> Result<Self> {
        let Some(path) = flags.get(&OUTPUT) else {
            let advice = format!("name the file to write: -o {example}");
            return Err(Error::invalid_argument("--output is missing").advise(advice));
        };
        Self::new(OUTPUT.name(), path)
    }

    /// The file that another flag names; `-` is standard output. Fails if it cannot be written, before a tool
    /// works for it in vain.
    pub(crate) fn new(flag: &'static str, path: PathBuf) -> Result<Self> {
        Self::at(flag, path).checked()
    }

    /// The same, with the result behind what the file has.
    pub(crate) fn appending(flag: &'static str, path: PathBuf) -> Result<Self> {
        Self { appends: true, ..Self::at(flag, path) }.checked()
    }

    fn checked(self) -> Result<Self> {
        let this = self;
        if this.prepared().is_none() {
            this.made().context(|| this.place())?;
        }
        Ok(this)
    }

    /// Opens the file that another flag names before code is confined, unless that fails: the tool says so
    /// when it writes it. What `appends` follows what the file has, which the copy then cannot change.
    pub(crate) fn prepare(flag: &'static str, path: PathBuf, appends: bool) {
        let this = Self { appends, ..Self::at(flag, path) };
        if this.prepared().is_some() {
            return;
        }
        if let Ok(mut target) = this.made() {
            let mut all = PREPARED.lock();
            if let PreparedTarget::Aside(aside) = &mut target {
                let same =
                    all.iter_mut().find(|it| it.target.as_ref().is_some_and(|it| it.replaces(&aside.target)));
                if let Some(same) = same {
                    same.paths.push(this.path);
                    return;
                }
                aside.index = Some(all.len());
            }
            all.push(Prepared { place: this.place(), paths: vec![this.path], target: Some(target) });
        }
    }

    fn at(flag: &'static str, path: PathBuf) -> Self {
        let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        Self { flag, path, absolute, appends: false }
    }

    /// Whether it is standard output.
    pub(crate) fn is_stdout(&self) -> bool {
        is_stdout(&self.path)
    }

    /// Its path, as the flag has it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The flag and its value, for errors.
    fn place(&self) -> String {
        format!("--{}={}", self.flag, self.path.display())
    }

    /// Writes the file: `write` passes its contents to the sink. If that fails, an existing file is
    /// unchanged.
    pub(crate) fn write(&self, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
        let output = self.begin()?;
        let mut sink = BufWriter::with_capacity(BUFFER_BYTES, output.sink()?);
        let outcome = write(&mut sink);
        let flushed = sink.flush().map_err(|error| writing(&error));
        drop(sink);
        output.finish(outcome.and(flushed))
    }

    /// Begins to write the file, which [`Output::finish`] completes. Until then, an existing file is
    /// unchanged.
    pub(crate) fn begin(&self) -> Result<Output> {
        self.open().context(|| self.place())
    }

    fn open(&self) -> Result<Output> {
        let (target, aside) = match self.take_prepared().map_or_else(|| self.made(), Ok)? {
            PreparedTarget::Direct(Destination::InPlace(path)) => {
                // A directory cannot be opened. What a descriptor has is not overwritten.
                let file = File::options().append(true).open(path).map_err(creating)?;
                (Target::File(file), None)
            }
            PreparedTarget::Direct(_) => (Target::Stdout(output::stdout_bytes()), None),
            PreparedTarget::Aside(mut aside) => {
                let file = aside.temporary.file()?;
                if !self.appends && aside.is_written {
                    // Only the last result is of interest.
                    let emptied = file.set_len(0).and_then(|()| file.rewind());
                    emptied.map_err(|error| writing(&error))?;
                }
                let file = file.try_clone().map_err(creating)?;
                (Target::File(file), Some(aside))
            }
        };
        Ok(Output { place: self.place(), target, aside, is_lost: Rc::default() })
    }

    /// The target that is prepared for it, unless that is being written.
    fn take_prepared(&self) -> Option<PreparedTarget> {
        let index = self.prepared()?;
        let prepared = &mut PREPARED.lock()[index].target;
        match prepared {
            Some(PreparedTarget::Direct(destination)) => Some(PreparedTarget::Direct(destination.clone())),
            _ => prepared.take(),
        }
    }

    /// Finds its target, and opens a file that replaces another; an existing file is unchanged. Fails if it
    /// cannot be written.
    fn made(&self) -> Result<PreparedTarget> {
        let destination = self.destination();
        match &destination {
            Destination::Stdout => {
                output::stdout_bytes().file().map(drop).map_err(|error| writing(&error))?
            }
            // Opening a pipe waits for its reader.
            Destination::InPlace(path) if path.is_dir() => {
                File::options().append(true).open(path).map(drop).map_err(creating)?;
            }
            Destination::InPlace(path) => {
                check_writable(path).map_err(creating)?;
            }
            Destination::Aside { target, existing } => {
                let existing = existing.as_ref();
                let temporary = match existing {
                    Some(_) if self.appends => {
                        check_target(target, existing, true).and_then(|()| Temporary::apart())?
                    }
                    _ => Temporary::beside(target, existing)?,
                };
                return Ok(PreparedTarget::Aside(Aside {
                    temporary,
                    target: target.clone(),
                    appends: self.appends,
                    is_written: false,
                    index: None,
                }));
            }
        }
        Ok(PreparedTarget::Direct(destination))
    }

    /// Its index in [`PREPARED`].
    fn prepared(&self) -> Option<usize> {
        PREPARED.lock().iter().position(|prepared| prepared.paths.contains(&self.path))
    }

    fn destination(&self) -> Destination {
        if self.is_stdout() {
            return Destination::Stdout;
        }
        let path = &self.absolute;
        let existing = fs::metadata(path);
        let is_in_place = is_in_place(path);
        match output::printed_to(path) {
            Some(Stream::Stdout) => Destination::Stdout,
            Some(Stream::Stderr) => Destination::InPlace(path.clone()),
            None if is_in_place => Destination::InPlace(path.clone()),
            // What a link names is replaced, not the link.
            None => Destination::Aside {
                target: fs::canonicalize(path)
                    .unwrap_or_else(|_| links(path).last().unwrap_or_else(|| path.clone())),
                existing: existing.ok(),
            },
        }
    }
}

/// Whether a path names what cannot be replaced: a pipe, a device, a directory, or a descriptor of this
/// process.
pub(crate) fn is_in_place(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| !it.is_file()) || descriptor(path).is_some()
}

/// Whether a path is standard output: `-`, and the names that the system has for it.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-" || descriptor(path) == Some(1)
}

/// Refuses standard output for what is written at several places of a file, or is not one file; `what` says
/// what that is, such as `a capture that is being recorded`.
pub(crate) fn refuse_stdout(flag: &str, path: &Path, what: &str) -> Result<()> {
    if path.as_os_str() != "-" {
        return Ok(());
    }
    let message = format!("--{flag}=-: {what} cannot be written to standard output");
    Err(Error::invalid_argument(message).advise("name a file; ./- is one of this name"))
}

/// The descriptor of this process that a path such as `/dev/stdout` or `/dev/fd/3` names.
fn descriptor(path: &Path) -> Option<i32> {
    let own = fs::canonicalize("/proc/self/fd").ok()?;
    let is_own = |path: &PathBuf| fs::canonicalize(directory_of(path)).is_ok_and(|it| it == own);
    links(path).find(is_own)?.file_name()?.to_str()?.parse().ok()
}

/// A read-only file is an error, although its directory may permit replacing it.
fn check_target(target: &Path, existing: Option<&Metadata>, appends: bool) -> Result<()> {
    let directory = directory_of(target);
    if !directory.is_dir() {
        let message = format!("the directory '{}' does not exist", directory.display());
        return Err(Error::not_found(message).advise("create it first, or name another file to write to"));
    }
    match existing {
        // Some files can only be appended to.
        Some(_) => File::options().write(true).append(appends).open(target).map(drop).map_err(creating),
        None => Ok(()),
    }
}

/// An output that is being written.
pub(crate) struct Output {
    place: String,
    target: Target,
    /// The file that replaces another at the end.
    aside: Option<Aside>,
    /// Whether writing has failed.
    is_lost: Rc<Cell<bool>>,
}

enum Target {
    Stdout(Stdout),
    File(File),
}

impl Output {
    /// A writer without a buffer. All of them write to the same position.
    pub(crate) fn sink(&self) -> Result<Sink> {
        let target = match &self.target {
            Target::Stdout(_) => Target::Stdout(output::stdout_bytes()),
            Target::File(file) => Target::File(file.try_clone().map_err(creating)?),
        };
        Ok(Sink { target, is_lost: self.is_lost.clone(), can_seek: self.aside.is_some() })
    }

    /// Whether writing has failed.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.get()
    }

    /// Completes the file, after work with this outcome: if that failed, or anything was not written, an
    /// existing file stays as it was.
    pub(crate) fn finish(self, outcome: Result<()>) -> Result<()> {
        let Self { place, aside, is_lost, .. } = self;
        let lost = || Err(Error::new(StatusCode::DataLoss, "the file could not be written"));
        let outcome = outcome.and_then(|()| if is_lost.get() { lost() } else { Ok(()) });
        let outcome = outcome.map_err(|error| match error.code() {
            StatusCode::ResourceExhausted if is_lost.get() => {
                error.advise("free space on its disk, or name another file to write to")
            }
            _ => error,
        });
        let finished = outcome.and_then(|()| match aside {
            Some(aside) => match (FINISHED.lock().as_mut(), aside.index) {
                (Some(finished), Some(index)) => {
                    finished.retain(|other| *other != index);
                    finished.push(index);
                    let written = PreparedTarget::Aside(Aside { is_written: true, ..aside });
                    PREPARED.lock()[index].target = Some(written);
                    Ok(())
                }
                _ => aside.complete(),
            },
            None => Ok(()),
        });
        finished.context(|| place)
    }
}

/// Writes to an [`Output`].
pub(crate) struct Sink {
    target: Target,
    is_lost: Rc<Cell<bool>>,
    can_seek: bool,
}

impl Sink {
    /// Writes a range of memory that may be in use.
    pub(crate) fn write_memory(&self, memory: &HostMemory, range: Range) -> Result<()> {
        let file = match &self.target {
            Target::Stdout(stdout) => stdout.file(),
            Target::File(file) => Ok(borrowed(file)),
        };
        let written = match file {
            Ok(file) => memory.write_file(file, range)?,
            Err(error) => Err(error),
        };
        self.noted(written).map_err(|error| writing(&error))
    }

    /// Writes zeros, which take no space on the disk if the file allows it.
    pub(crate) fn zeros(&mut self, count: u64) -> io::Result<()> {
        if let (Target::File(file), true) = (&mut self.target, self.can_seek) {
            let position = file.stream_position()?;
            let end = position.checked_add(count).ok_or(io::ErrorKind::FileTooLarge)?;
            let moved = file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end)));
            return self.noted(moved.map(drop));
        }
        io::copy(&mut io::repeat(0).take(count), self).map(drop)
    }

    fn noted<T>(&self, written: io::Result<T>) -> io::Result<T> {
        if matches!(&written, Err(error) if error.kind() != io::ErrorKind::Interrupted) {
            self.is_lost.set(true);
        }
        written
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.target {
            Target::Stdout(stdout) => stdout.write(bytes),
            Target::File(file) => file.write(bytes),
        };
        self.noted(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that is not complete. It has no name where the file system allows that, so that nothing remains of
/// it however the process ends; otherwise it has one beside the file, which a signal or a crash of a kernel
/// removes.
enum Temporary {
    Unnamed(File),
    Named {
        /// `None` once it is persistent.
        file: Option<NamedTempFile>,
        removal: Option<Removal>,
    },
}

impl Temporary {
    /// Creates one in the directory of `target`, with the permissions of an existing file.
    fn beside(target: &Path, existing: Option<&Metadata>) -> Result<Self> {
        check_target(target, existing, false)?;
        match platform::unnamed_file(directory_of(target), existing) {
            Some(file) => Ok(Self::Unnamed(file)),
            None => Self::named(target, platform::permissions(existing)),
        }
    }

    /// Creates one in the directory of temporary files.
    fn apart() -> Result<Self> {
        tempfile::tempfile().map(Self::Unnamed).map_err(|error| {
            Error::io("creating a temporary file", &error)
                .advise("set TMPDIR to a directory that can be written")
        })
    }

    fn named(target: &Path, permissions: Option<Permissions>) -> Result<Self> {
        interrupts::handle();
        let mut builder = Builder::new();
        builder.prefix(PREFIX);
        permissions.map(|it| builder.permissions(it));
        change(|| {
            let file = builder.tempfile_in(directory_of(target)).map_err(creating)?;
            let removal = Some(Removal::file(file.path(), Stays::Never));
            Ok(Self::Named { file: Some(file), removal })
        })
    }

    fn file(&mut self) -> Result<&mut File> {
        let file = match self {
            Self::Unnamed(file) => Some(file),
            Self::Named { file, .. } => file.as_mut().map(NamedTempFile::as_file_mut),
        };
        file.ok_or_else(|| Error::new(StatusCode::Internal, "a temporary file is in its place"))
    }

    fn persist(mut self, target: &Path) -> Result<()> {
        // After a crash of the system, the name is that of the old file or of all of the new one.
        self.file()?.sync_data().map_err(|error| writing(&error))?;
        match &mut self {
            Self::Unnamed(file) => give_name(file, target).map_err(creating),
            Self::Named { file, .. } => match file.take() {
                Some(file) => {
                    change(|| file.persist(target)).map(drop).map_err(|error| creating(error.error))
                }
                None => Ok(()),
            },
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Self::Named { file, removal } = self {
            change(|| {
                drop(file.take());
                *removal = None;
            });
        }
    }
}

/// The start of the names of files that are not complete.
const PREFIX: &str = ".rehal-";

/// Gives a file without a name that of `target`, whose file it replaces.
fn give_name(file: &File, target: &Path) -> io::Result<()> {
    let link = |to: &Path| platform::name_file(file, to);
    match link(target) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        linked => return linked,
    }
    // A link replaces nothing, and a name does; the file has one of its own in between.
    let mut builder = Builder::new();
    change(|| {
        let named = builder.prefix(PREFIX).make_in(directory_of(target), link)?;
        let removal = Removal::file(named.path(), Stays::Never);
        let persisted = named.persist(target).map_err(|error| error.error);
        drop(removal);
        persisted.map(drop)
    })
}

fn creating(error: io::Error) -> Error {
    Error::io("creating the file", &error).advise("name a file in a directory that exists and can be written")
}

fn writing(error: &io::Error) -> Error {
    Error::io("writing the file", error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn output(path: &Path) -> OutputFile {
        OutputFile::at("output", path.to_owned())
    }

    fn put(sink: &mut dyn Write, bytes: &[u8]) -> Result<()> {
        sink.write_all(bytes).unwrap();
        Ok(())
    }

    fn entries(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn a_file_is_replaced_once_it_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("a"), directory.path().join("link"));
        output(&path).write(|sink| put(sink, b"1")).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        output(&link).write(|sink| put(sink, b"2")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"2");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(entries(directory.path()), 2);
    }

    #[test]
    fn a_failure_leaves_files_as_they_were() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let fail = |sink: &mut dyn Write| {
            sink.write_all(&[0; 2 * BUFFER_BYTES]).unwrap();
            Err(Error::data_loss("the reason"))
        };
        let error = output(&path).write(fail).unwrap_err();
        assert!(error.report().contains("the reason") && error.report().contains("--output="));
        assert_eq!(entries(directory.path()), 0);
        fs::write(&path, "kept").unwrap();
        output(&path).write(fail).unwrap_err();
        assert_eq!((fs::read(&path).unwrap(), entries(directory.path())), (b"kept".to_vec(), 1));
    }

    /// Whatever ends the process, nothing remains beside the output.
    #[test]
    fn a_file_that_is_not_complete_has_no_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        for text in ["1", "2"] {
            let before = entries(directory.path());
            output(&path)
                .write(|sink| {
                    put(sink, text.as_bytes())?;
                    assert_eq!(entries(directory.path()), before);
                    Ok(())
                })
                .unwrap();
            assert_eq!((fs::read_to_string(&path).unwrap().as_str(), entries(directory.path())), (text, 1));
        }
        // Where the file system lacks such files.
        for text in ["3", "4"] {
            let mut named = Temporary::named(&path, Some(Permissions::from_mode(0o600))).unwrap();
            named.file().unwrap().write_all(text.as_bytes()).unwrap();
            assert_eq!(entries(directory.path()), 2);
            named.persist(&path).unwrap();
            assert_eq!((fs::read_to_string(&path).unwrap().as_str(), entries(directory.path())), (text, 1));
        }
        drop(Temporary::named(&path, Some(Permissions::from_mode(0o600))).unwrap());
        assert_eq!(entries(directory.path()), 1);
    }

    /// The outputs of a confined process, which is the one that [`leave_to_parent`] calls.
    #[test]
    fn an_output_that_is_prepared_has_the_last_result_by_any_of_its_names() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let other = directory.path().join(".").join("link");
        std::os::unix::fs::symlink(&path, &other).unwrap();
        OutputFile::prepare("output", path.clone(), false);
        OutputFile::prepare("output", other.clone(), false);
        let log = directory.path().join("log");
        fs::write(&log, "before, ").unwrap();
        OutputFile::prepare("history", log.clone(), true);
        leave_to_parent();
        output(&path).write(|sink| put(sink, b"first, and long")).unwrap();
        output(&other).write(|sink| put(sink, b"second")).unwrap();
        OutputFile::appending("output", path.clone()).unwrap().write(|sink| put(sink, b", third")).unwrap();
        for text in ["fourth, ", "fifth"] {
            let log = OutputFile::appending("history", log.clone()).unwrap();
            log.write(|sink| put(sink, text.as_bytes())).unwrap();
        }
        assert!(!path.exists() && fs::read(&log).unwrap() == b"before, ");
        persist(&finished()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second, third");
        assert_eq!(fs::read(&log).unwrap(), b"before, fourth, fifth");
        forget();
    }

    /// Several writers at a time, each with results that one write does not append.
    #[test]
    fn long_results_follow_what_a_file_has_and_do_not_mix() {
        const COUNT: usize = 8;
        const LENGTH: usize = 2 * BUFFER_BYTES + 1;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        fs::write(&path, "before").unwrap();
        let append = &|letter: u8| {
            let log = OutputFile::appending("history", path.clone()).unwrap();
            (0..COUNT).for_each(|_| log.write(|sink| put(sink, &[letter; LENGTH])).unwrap());
        };
        std::thread::scope(|scope| [b'x', b'y'].map(|letter| scope.spawn(move || append(letter))).map(drop));
        let written = fs::read(&path).unwrap();
        let results = written.strip_prefix(b"before").unwrap().chunks(LENGTH);
        assert!(results.clone().all(|it| it.len() == LENGTH && it.iter().all(|byte| *byte == it[0])));
        assert_eq!(results.filter(|it| it[0] == b'x').count(), COUNT);
        assert_eq!((written.len(), entries(directory.path())), (6 + 2 * COUNT * LENGTH, 1));
    }

    #[test]
    fn pipes_are_written_and_directories_are_not() {
        let directory = tempfile::tempdir().unwrap();
        assert!(output(directory.path()).write(|_| Ok(())).is_err());
        output(Path::new("/dev/null")).write(|sink| put(sink, b"x")).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let missing = directory.path().join("no/such");
        assert!(output(&missing).write(|_| Ok(())).unwrap_err().report().contains("does not exist"));
    }
}
