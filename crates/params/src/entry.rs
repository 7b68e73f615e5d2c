use std::io::Write;
use std::sync::Arc;

use rehal_base::{Error, Result};

use crate::{ParameterFile, Pattern};

/// One parameter: its name, its length, and where its bytes are.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name, by which programs ask for it.
    pub name: Arc<str>,
    /// What its file adds to it; the meaning is between who wrote it and who reads it.
    pub metadata: Arc<[u8]>,
    /// Length in bytes.
    pub length: u64,
    /// What the file asks for as alignment of the data in bytes; 0 where it says nothing.
    pub minimum_alignment: u64,
    /// Where its bytes are.
    pub storage: Storage,
}

/// Where a parameter's bytes are.
#[derive(Clone, Debug)]
pub enum Storage {
    /// Nowhere: a pattern that repeats. It can be read only.
    Splat(Pattern),
    /// In a file: the archive itself, or another one that the archive names.
    File {
        /// The file.
        file: Arc<ParameterFile>,
        /// Byte offset in the file.
        offset: u64,
    },
}

/// How many bytes are moved at once.
const CHUNK_BYTES: usize = 1 << 20;

impl Entry {
    /// Fills `target` with the bytes at `offset` of the parameter.
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

    /// Writes all of the parameter's bytes to `output`, a mebibyte at a time.
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
