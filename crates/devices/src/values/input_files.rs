//! The files that inputs are read from.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use rehal_base::platform::OsStrExt;
use rehal_base::{Context, Error, HostMemory, Range, Result};
use rehal_values::Start;

/// Reads of at least this size bypass the buffer.
const DIRECT_FROM_BYTES: u64 = 64 << 10;

/// The files that inputs are read from, each open until all inputs are read: an input can continue where the
/// previous one ended.
#[derive(Default)]
pub struct InputFiles(BTreeMap<PathBuf, InputFile>);

/// An input file.
pub struct InputFile {
    path: PathBuf,
    reader: BufReader<File>,
    /// Length of a regular file; unknown for others.
    length: Option<u64>,
}

impl InputFiles {
    /// The file at `path`, rewound or at its current position.
    pub fn open(&mut self, path: &Path, start: Start) -> Result<&mut InputFile> {
        if !self.0.contains_key(path) {
            let is_like_number = start == Start::Continue
                && path.as_os_str().as_bytes().first().is_some_and(u8::is_ascii_digit);
            let file = InputFile::open(path).map_err(|error| match is_like_number {
                true => error.advise("a leading '+' names a file; write the first number without it"),
                false => error,
            })?;
            self.0.insert(path.to_path_buf(), file);
        } else if start == Start::Beginning {
            self.0.get_mut(path).map_or(Ok(()), InputFile::rewind)?;
        }
        self.0.get_mut(path).ok_or_else(|| Error::not_found(format!("'{}'", path.display())))
    }
}

impl InputFile {
    fn open(path: &Path) -> Result<Self> {
        let failed = |error| Error::io(format_args!("opening '{}'", path.display()), &error);
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(Error::invalid_argument(format!("'{}' is a directory", path.display())));
        }
        let length = metadata.is_file().then_some(metadata.len());
        Ok(Self { path: path.to_path_buf(), reader: BufReader::new(file), length })
    }

    fn rewind(&mut self) -> Result<()> {
        match self.reader.seek(SeekFrom::Start(0)) {
            Ok(_) => Ok(()),
            Err(error) => {
                Err(Error::io(format_args!("reading '{}' from the start again", self.path.display()), &error))
            }
        }
    }

    /// Whether it is at end of file.
    pub fn is_at_end(&mut self) -> Result<bool> {
        let rest = self
            .reader
            .fill_buf()
            .map_err(|error| Error::io(format_args!("reading '{}'", self.path.display()), &error))?;
        Ok(rest.is_empty())
    }

    /// The buffered reader, for headers.
    pub fn reader(&mut self) -> &mut impl Read {
        &mut self.reader
    }

    /// The path in errors.
    pub fn place(&self) -> String {
        format!("'{}'", self.path.display())
    }

    /// Fails if fewer than `size_bytes` are left; called before memory is allocated for them.
    pub fn require(&mut self, size_bytes: u64) -> Result<()> {
        let Some(length) = self.length else { return Ok(()) };
        let position = self.reader.stream_position();
        let position =
            position.map_err(|error| Error::io(format_args!("reading '{}'", self.path.display()), &error))?;
        let left = length.saturating_sub(position);
        if size_bytes > left {
            return Err(Error::out_of_range(format!("{size_bytes} bytes are needed and {left} are left"))
                .context(format!("offset {position}"))
                .context(self.place()));
        }
        Ok(())
    }

    /// Reads the next bytes. Memory grows with what is read, since the length of a pipe is unknown.
    pub fn read(&mut self, size_bytes: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = match (&mut self.reader).take(size_bytes).read_to_end(&mut bytes) {
            Ok(_) if (bytes.len() as u64) < size_bytes => Err(ErrorKind::UnexpectedEof.into()),
            read => read,
        };
        match read {
            Ok(_) => Ok(bytes),
            Err(error) => {
                Err(Error::io(format_args!("reading {size_bytes} bytes"), &error).context(self.place()))
            }
        }
    }

    /// Reads the next bytes into a range of `memory`.
    pub fn fill(&mut self, memory: &HostMemory, range: Range) -> Result<()> {
        let failed = |error| Error::io(format_args!("reading {} bytes", range.length), &error);
        let outcome = match self.length {
            Some(_) if range.length >= DIRECT_FROM_BYTES => self.fill_directly(memory, range),
            _ => memory.read_from(&mut self.reader, range),
        };
        outcome.and_then(|read| read.map_err(failed)).context(|| self.place())
    }

    /// [`InputFile::fill`] of a regular file, bypassing the buffer.
    fn fill_directly(&mut self, memory: &HostMemory, range: Range) -> Result<std::io::Result<()>> {
        let position = match self.reader.stream_position() {
            Ok(position) => position,
            Err(error) => return Ok(Err(error)),
        };
        let read = memory.read_file_at(self.reader.get_ref(), position, range)?;
        Ok(read.and_then(|()| self.reader.seek(SeekFrom::Start(position + range.length)).map(drop)))
    }
}
