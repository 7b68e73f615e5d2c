//! Standard output and error, where a reader that has seen enough is no error.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rehal_base::{Error, FileId, Result};

/// Standard output without the line buffer of the standard library, for writers that bring pieces.
pub(crate) fn stdout() -> Result<File> {
    let owned = io::stdout().as_fd().try_clone_to_owned();
    owned.map(File::from).map_err(|error| Error::io("opening standard output", &error))
}

/// Prints text; a closed pipe is no error.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// Whether `path` is the file that standard output or standard error goes to.
pub(crate) fn is_printed_to(path: &Path) -> bool {
    let Ok(file) = fs::metadata(path) else { return false };
    let is_it = |stream: BorrowedFd<'_>| {
        let stream = stream.try_clone_to_owned().map(File::from).and_then(|it| it.metadata());
        stream.is_ok_and(|it| FileId::from(&it) == FileId::from(&file))
    };
    // Terminals and /dev/null stay what they are, whoever writes to them.
    file.is_file() && (is_it(io::stdout().as_fd()) || is_it(io::stderr().as_fd()))
}

/// Turns what came of writing to standard output into a result; a closed pipe is no error.
pub(crate) fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::io("writing to standard output", &error))
        }
        _ => Ok(()),
    }
}

/// A line on standard error. Nobody can be told when that fails.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
