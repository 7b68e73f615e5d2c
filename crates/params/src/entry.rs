use std::io::Write;
use std::sync::Arc;

use rehal_base::{Error, Result};

use crate::{ParameterFile, Pattern};

/// A parameter as described by its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The name.
    pub name: String,
    /// Its metadata; empty if the format has none.
    pub metadata: Vec<u8>,
    /// Length in bytes.
    pub length: u64,
    /// Requested alignment in bytes; 0 if unspecified.
    pub minimum_alignment: u64,
    /// The location of its bytes.
    pub location: Location,
}

/// The location of a parameter's bytes, as described by its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A splat.
    Splat(Pattern),
    /// At this offset of the same file.
    Here(u64),
    /// In another file.
    External {
        /// Its path: absolute, or relative to the archive's directory.
        path: String,
        /// Offset in it.
        offset: u64,
    },
}

/// A parameter: name, length, and location.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name by which programs request it.
    pub name: Arc<str>,
    /// Opaque metadata, interpreted by the writer and the reader.
    pub metadata: Arc<[u8]>,
    /// Length in bytes.
    pub length: u64,
    /// Requested alignment of the data in bytes; 0 if unspecified.
    pub minimum_alignment: u64,
    /// The location of its bytes.
    pub storage: Storage,
}

/// The location of a parameter's bytes.
#[derive(Clone, Debug)]
pub enum Storage {
    /// None: a splat, which is read-only.
    Splat(Pattern),
    /// A file: the archive itself, or an external one.
    File {
        /// The file.
        file: Arc<ParameterFile>,
        /// Byte offset in the file.
        offset: u64,
    },
}

/// Bytes copied at a time.
const CHUNK_BYTES: usize = 1 << 20;

impl Entry {
    /// Reads the bytes at `offset` of the parameter into `target`.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        match offset.checked_add(target.len() as u64) {
            Some(end) if end <= self.length => {}
            _ => {
                return Err(Error::out_of_range(format!(
                    "{} bytes at offset {offset} exceed parameter '{}' of {} bytes",
                    target.len(),
                    self.name,
                    self.length
                )));
            }
        }
        match &self.storage {
            Storage::Splat(pattern) => {
                pattern.read(offset, target);
                Ok(())
            }
            Storage::File { file, offset: start } => file.read(start + offset, target),
        }
    }

    /// Writes all of the parameter's bytes to `output`, 1 MiB at a time.
    pub fn write_to(&self, output: &mut dyn Write) -> Result<()> {
        let mut chunk = vec![0; CHUNK_BYTES.min(usize::try_from(self.length).unwrap_or(CHUNK_BYTES))];
        let mut offset = 0;
        while offset < self.length {
            let length = (self.length - offset).min(chunk.len() as u64);
            let part = &mut chunk[..length as usize];
            self.read(offset, part)?;
            output
                .write_all(part)
                .map_err(|error| Error::io(format_args!("writing parameter '{}'", self.name), &error))?;
            offset += length;
        }
        Ok(())
    }
}
