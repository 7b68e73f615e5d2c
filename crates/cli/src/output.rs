//! Standard output and error. A closed pipe is not an error; lost output is. Output of native code through C's stdio
//! is flushed before the tools print.

mod at_start;

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::rc::Rc;

use rehal_base::{Error, FileId, Result};
use rehal_session::flush_c_streams;

/// Standard output without the standard library's line buffer.
pub(crate) struct Stdout {
    file: File,
    reader_left: ReaderLeft,
}

/// Set once a write to standard output has failed with `BrokenPipe`.
pub(crate) type ReaderLeft = Rc<Cell<bool>>;

/// Standard output as a writer.
pub(crate) fn stdout() -> Result<Stdout> {
    stdout_for(&ReaderLeft::default())
}

/// As [`stdout`], for callers that end early once `reader_left` is set.
pub(crate) fn stdout_for(reader_left: &ReaderLeft) -> Result<Stdout> {
    let owned = io::stdout().as_fd().try_clone_to_owned();
    let file = owned.map(File::from).map_err(|error| Error::io("opening standard output", &error))?;
    Ok(Stdout { file, reader_left: reader_left.clone() })
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if at_start::stdout_was_closed() {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        flush_c_streams();
        let written = self.file.write(bytes);
        if matches!(&written, Err(error) if error.kind() == io::ErrorKind::BrokenPipe) {
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

/// Whether standard output or standard error is redirected to `path`.
pub(crate) fn is_printed_to(path: &Path) -> bool {
    let Ok(file) = fs::metadata(path) else { return false };
    let is_it = |stream: BorrowedFd<'_>| {
        let stream = stream.try_clone_to_owned().map(File::from).and_then(|it| it.metadata());
        stream.is_ok_and(|it| FileId::from(&it) == FileId::from(&file))
    };
    // Only regular files can be overwritten: terminals and /dev/null are not affected.
    file.is_file() && (is_it(io::stdout().as_fd()) || is_it(io::stderr().as_fd()))
}

/// Maps the outcome of writing to standard output; a closed pipe is not an error.
pub(crate) fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::io("writing to standard output", &error))
        }
        _ => Ok(()),
    }
}

/// Prints a line on standard error. Failures are ignored: there is nowhere to report them.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// A name without characters that would break a line, control a terminal, or make text look like other text.
pub(crate) fn escaped(name: &str) -> String {
    name.chars().flat_map(|it| if is_shown(it) { vec![it] } else { it.escape_default().collect() }).collect()
}

/// Whether a character is shown as itself, and does not change how others are: no control character, no separator of lines, and none
/// that Unicode calls a format character or that text is shown without (`Default_Ignorable_Code_Point`), such as those that order text
/// from right to left (Unicode Standard Annex 9) and variation selectors. Combining marks, which scripts need, are shown.
fn is_shown(character: char) -> bool {
    !(character.is_control()
        || matches!(
            character,
            '\u{AD}'
                | '\u{34F}'
                | '\u{61C}'
                | '\u{17B4}'..='\u{17B5}'
                | '\u{180B}'..='\u{180F}'
                | '\u{200B}'..='\u{200F}'
                | '\u{2028}'..='\u{202E}'
                | '\u{2060}'..='\u{206F}'
                | '\u{FE00}'..='\u{FE0F}'
                | '\u{FEFF}'
                | '\u{FFF9}'..='\u{FFFB}'
                | '\u{E0000}'..='\u{E0FFF}'
        ))
}

/// A number of things, such as `2 dispatches`.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    match (count, noun.ends_with("ch")) {
        (1, _) => format!("1 {noun}"),
        (_, true) => format!("{count} {noun}es"),
        (_, false) => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_control_a_terminal_or_reorder_text() {
        let name = "a\n\u{1b}[31m\u{202e}b\u{2066}c\u{200b}\u{feff}\u{2028}";
        assert_eq!(escaped(name), "a\\n\\u{1b}[31m\\u{202e}b\\u{2066}c\\u{200b}\\u{feff}\\u{2028}");
        let hidden = "a\u{34f}\u{17b4}\u{17b5}\u{180b}\u{fe0f}\u{e0100}";
        assert_eq!(escaped(hidden), "a\\u{34f}\\u{17b4}\\u{17b5}\\u{180b}\\u{fe0f}\\u{e0100}");
        // A combining mark, as in a name that is written in two characters.
        assert_eq!(escaped("o\u{308}"), "o\u{308}");
        assert_eq!(escaped("größe_0_\u{5d0}'\\\""), "größe_0_\u{5d0}'\\\"");
    }

    #[test]
    fn nouns_follow_their_number() {
        assert_eq!(
            [0, 1, 2].map(|it| plural(it, "dispatch")),
            ["0 dispatches", "1 dispatch", "2 dispatches"]
        );
        assert_eq!([1, 3].map(|it| plural(it, "byte")), ["1 byte", "3 bytes"]);
    }
}
