//! Standard output and error. For what a tool prints, a closed pipe is not an error; other lost output is.
//! Output of native code through C's stdio is flushed before the tools print. Names from files cannot control
//! a terminal: what is printed is escaped if standard output is one, and always on standard error.

use std::cell::Cell;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::rc::Rc;

pub(crate) use rehal_base::escaped;
use rehal_base::platform::{BorrowedFile, borrowed, is_closed_pipe, write};
use rehal_base::{Error, FileId, Result, TextWriter, escaped_lines};
use rehal_crash::flush_c_streams;

use crate::platform::stdout_was_closed;

/// Standard output without the standard library's line buffer.
pub(crate) struct Stdout {
    stream: io::Stdout,
    reader_left: ReaderLeft,
}

/// Set once a write to standard output has failed with `BrokenPipe`.
pub(crate) type ReaderLeft = Rc<Cell<bool>>;

/// Standard output as a writer.
pub(crate) fn stdout() -> Result<TextWriter<'static>> {
    stdout_for(&ReaderLeft::default())
}

/// As [`stdout`], for callers that end early once `reader_left` is set.
pub(crate) fn stdout_for(reader_left: &ReaderLeft) -> Result<TextWriter<'static>> {
    let stdout = Stdout { reader_left: reader_left.clone(), ..stdout_bytes() };
    let is_terminal = stdout.stream.is_terminal();
    Ok(TextWriter::new(stdout, is_terminal))
}

/// Standard output for the bytes of a file, which are written as they are.
pub(crate) fn stdout_bytes() -> Stdout {
    Stdout { stream: io::stdout(), reader_left: ReaderLeft::default() }
}

impl Stdout {
    /// The file, for one write at its position. A process that is confined cannot copy the descriptor.
    pub(crate) fn file(&self) -> io::Result<BorrowedFile<'_>> {
        if stdout_was_closed() {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        flush_c_streams();
        Ok(borrowed(&self.stream))
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file().and_then(|file| write(file, bytes));
        if written.as_ref().is_err_and(is_closed_pipe) {
            self.reader_left.set(true);
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints text; a closed pipe is not an error.
pub(crate) fn print(text: &str) -> Result<()> {
    written(stdout()?.write_all(text.as_bytes()))
}

/// The stream that a tool prints to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// The stream that is redirected to `path`, if it is a regular file: terminals and /dev/null cannot be
/// overwritten.
pub(crate) fn printed_to(path: &Path) -> Option<Stream> {
    let file = fs::metadata(path).ok().filter(fs::Metadata::is_file).and_then(|_| FileId::at(path))?;
    let is_it = |stream: io::Result<FileId>| stream.is_ok_and(|it| it == file);
    match (is_it(FileId::of(&io::stdout())), is_it(FileId::of(&io::stderr()))) {
        (true, _) => Some(Stream::Stdout),
        (false, true) => Some(Stream::Stderr),
        (false, false) => None,
    }
}

/// Maps the outcome of writing to standard output; a closed pipe is not an error.
pub(crate) fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if !is_closed_pipe(&error) => Err(Error::io("writing to standard output", &error)),
        _ => Ok(()),
    }
}

/// Prints lines on standard error. Failures are ignored: there is nowhere to report them.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", escaped_lines(text));
}
