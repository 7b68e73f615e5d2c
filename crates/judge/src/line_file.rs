//! Files of lines that several processes append to.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use rehal_base::platform::{FileExt, check_writable};
use rehal_base::{Error, Result};

/// A file to which lines are appended. One that does not exist is created with the first line, so that an
/// error before leaves nothing.
pub struct LineFile {
    /// From the root: kernels may change the working directory.
    path: PathBuf,
    /// Open if it existed.
    file: Option<File>,
}

impl LineFile {
    /// Opens the file. Fails if it cannot be written, before something is measured in vain.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |error| Error::io("opening it to append", &error);
        let path = std::path::absolute(path).map_err(failed)?;
        match OpenOptions::new().append(true).open(&path) {
            Ok(file) => Ok(Self { path, file: Some(file) }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let directory = path.parent().unwrap_or(&path);
                check_writable(directory).map_err(failed)?;
                Ok(Self { path, file: None })
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Whether it existed when it was opened.
    pub fn exists(&self) -> bool {
        self.file.is_some()
    }

    /// The first bytes of a regular file, at most `limit`; `None` of others, and if it did not exist.
    pub fn contents(&self, limit: u64) -> Result<Option<Vec<u8>>> {
        let is_regular = |file: &File| file.metadata().is_ok_and(|it| it.is_file());
        if !self.file.as_ref().is_some_and(is_regular) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let read = File::open(&self.path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
        read.map_err(|error| Error::io("reading it", &error))?;
        Ok(Some(bytes))
    }

    /// Appends a line; the file may end within one.
    pub fn append(&self, line: &str) -> Result<()> {
        let failed = |error| Error::io("appending to it", &error);
        let created;
        let mut file = match &self.file {
            Some(file) => file,
            None => {
                let opened = OpenOptions::new().append(true).create(true).open(&self.path);
                created = opened.map_err(failed)?;
                &created
            }
        };
        // In one call, so that lines of several processes do not mix.
        file.write_all(format!("{}{line}", self.separator()).as_bytes()).map_err(failed)
    }

    /// The text before the next line: a line feed if the last line has none, such as one that was truncated.
    pub fn separator(&self) -> &'static str {
        if ends_within_a_line(&self.path) { "\n" } else { "" }
    }
}

/// Whether the last line of the file has no line feed, such as one that was truncated. Unknown if the file
/// cannot be read.
fn ends_within_a_line(path: &Path) -> bool {
    let length = fs::metadata(path).ok().filter(|it| it.is_file()).map_or(0, |it| it.len());
    let mut last = [b'\n'];
    length > 0
        && File::open(path).and_then(|file| file.read_exact_at(&mut last, length - 1)).is_ok()
        && last != *b"\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this test, a line may be appended to one that was truncated, or a file appear before its first
    /// line.
    #[test]
    fn lines_are_appended_to_whole_lines() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lines");
        let contents = || fs::read_to_string(&path).unwrap();
        let new = LineFile::open(&path).unwrap();
        assert!(!new.exists() && !path.exists() && new.contents(9).unwrap().is_none());
        new.append("one\n").unwrap();
        assert_eq!(contents(), "one\n");
        let file = LineFile::open(&path).unwrap();
        assert!(file.exists());
        let start = |limit| file.contents(limit).unwrap().unwrap();
        assert_eq!((start(9), start(2)), (b"one\n".to_vec(), b"on".to_vec()));
        file.append("two").unwrap();
        file.append("three\n").unwrap();
        assert_eq!(contents(), "one\ntwo\nthree\n");
        // Others have no last line.
        let null = LineFile::open(Path::new("/dev/null")).unwrap();
        null.append("line\n").unwrap();
        assert!(null.exists() && null.contents(9).unwrap().is_none());
        assert!(LineFile::open(&directory.path().join("none/lines")).is_err());
    }
}
