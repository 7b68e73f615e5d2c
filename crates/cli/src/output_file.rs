//! The file that a tool writes its result to, with the flag that names it. It is complete or left as it was: a result
//! is written to a temporary file, which then replaces it.

use std::fs::{self, File, Permissions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rehal_base::{Context, Error, Result};
use rehal_session::RemovedOnCrash;
use tempfile::{Builder, NamedTempFile};

use crate::flags::{Flag, Flags, written};
use crate::{interrupts, output};

/// The flag that names the file.
pub(crate) const OUTPUT: Flag<Option<PathBuf>> =
    Flag::path("output", "The file to write, once it is complete; - is standard output.")
        .short('o')
        .files(written);

/// Memory for what is not yet written to the file.
const BUFFER_BYTES: usize = 1 << 18;

/// Where a tool writes its result.
pub(crate) struct OutputFile {
    /// The flag that names it.
    flag: &'static str,
    path: PathBuf,
}

impl OutputFile {
    /// The file that [`OUTPUT`] names; `example` is a name for it, such as `trace.pftrace`.
    pub(crate) fn from_flags(flags: &Flags, example: &str) -> Result<Self> {
        let Some(path) = flags.get(&OUTPUT) else {
            let advice = format!("name the file to write: -o {example}");
            return Err(Error::invalid_argument("--output is missing").advise(advice));
        };
        Ok(Self::new(OUTPUT.name(), path))
    }

    /// The file that another flag names.
    pub(crate) fn new(flag: &'static str, path: PathBuf) -> Self {
        Self { flag, path }
    }

    /// Whether it is standard output.
    pub(crate) fn is_stdout(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// Writes the file: `write` passes its contents to the sink. If that fails, an existing file is unchanged.
    pub(crate) fn write(&self, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
        if self.is_stdout() {
            let reader_left = output::ReaderLeft::default();
            let written = buffered(output::stdout_for(&reader_left)?, write).map(drop);
            // A closed pipe is not an error.
            return if reader_left.get() { Ok(()) } else { written };
        }
        self.write_file(write).context(|| format!("--{}={}", self.flag, self.path.display()))
    }

    fn write_file(&self, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
        let existing = fs::metadata(&self.path);
        if existing.as_ref().is_ok_and(|it| !it.is_file()) {
            // A pipe or a device cannot be replaced. A directory cannot be opened.
            let file = File::options().write(true).open(&self.path).map_err(creating)?;
            return buffered(file, write).map(drop);
        }
        // What a link names is replaced, not the link.
        let target = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let permissions = match existing {
            Ok(existing) => {
                // A read-only file is an error, although its directory may permit replacing it.
                File::options().write(true).open(&target).map_err(creating)?;
                existing.permissions()
            }
            Err(_) => Permissions::from_mode(0o666),
        };
        let directory = target.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = Builder::new();
        builder.prefix(".rehal-").permissions(permissions);
        let temporary = Temporary::create(|| builder.tempfile_in(directory))?;
        let file = buffered(temporary, write)?;
        file.persist(&target)
    }
}

/// A temporary file that a signal or a crash of a kernel removes as well.
struct Temporary {
    /// Dropped after the file is removed or persistent.
    _removed_on_crash: RemovedOnCrash,
    /// `None` once it is persistent.
    file: Option<NamedTempFile>,
    path: PathBuf,
}

impl Temporary {
    fn create(create: impl FnOnce() -> std::io::Result<NamedTempFile>) -> Result<Self> {
        interrupts::with_temporary_files(|files| {
            let file = create().map_err(creating)?;
            let path = file.path().to_owned();
            files.push(path.clone());
            Ok(Self { _removed_on_crash: RemovedOnCrash::new(&path), file: Some(file), path })
        })
    }

    fn persist(mut self, target: &Path) -> Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let persist = || file.persist(target).map_err(|error| creating(error.error));
        interrupts::with_temporary_files(|_| persist()).map(drop)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        drop(self.file.take());
        interrupts::with_temporary_files(|files| files.retain(|it| *it != self.path));
    }
}

impl Write for Temporary {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.as_mut().map_or(Ok(0), |file| file.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

fn creating(error: std::io::Error) -> Error {
    Error::io("creating the file", &error)
}

fn buffered<W: Write>(sink: W, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<W> {
    let mut sink = BufWriter::with_capacity(BUFFER_BYTES, sink);
    write(&mut sink)?;
    sink.into_inner().map_err(|error| Error::io("writing the file", error.error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(path: &Path) -> OutputFile {
        OutputFile { flag: "output", path: path.to_owned() }
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

    #[test]
    fn pipes_are_written_and_directories_are_not() {
        let directory = tempfile::tempdir().unwrap();
        assert!(output(directory.path()).write(|_| Ok(())).is_err());
        output(Path::new("/dev/null")).write(|sink| put(sink, b"x")).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let missing = directory.path().join("no/such");
        assert!(output(&missing).write(|_| Ok(())).unwrap_err().report().contains("creating the file"));
    }
}
