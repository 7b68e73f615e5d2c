use std::io::Write;

use rehal_base::{Error, Result};
use zerocopy::IntoBytes;

use super::layout::*;
use crate::Pattern;

/// Default alignment of data in bytes.
pub const DATA_ALIGNMENT: u64 = 64;

/// Archive files are padded to a multiple of this many bytes, for mapping.
pub const FILE_ALIGNMENT: u64 = 4096;

const HEADER_BYTES: u64 = (size_of::<Header>() as u64).next_multiple_of(ENTRY_ALIGNMENT);

/// An archive being laid out: declare all parameters first, then write the header, then the data, each
/// parameter's at its offset.
///
/// Files match the reference's byte for byte, for the same parameters in the same order.
#[derive(Debug, Default)]
pub struct Archive {
    entries: Vec<Declared>,
    names: std::collections::HashSet<String>,
    entry_segment_bytes: u64,
    metadata_segment_bytes: u64,
    storage_segment_bytes: u64,
    /// Alignment of the storage segment: that of the first data. 0 without data.
    storage_alignment: u64,
}

#[derive(Debug)]
struct Declared {
    name: String,
    metadata: Vec<u8>,
    length: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Splat(Pattern),
    /// Offset relative to the start of the storage segment.
    Data {
        offset: u64,
    },
    External {
        path: String,
        offset: u64,
    },
}

/// A reference into the storage segment of the [`Archive`] in which the data was declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(usize);

impl Archive {
    /// An empty archive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a splat parameter of `length` bytes, which occupies no storage.
    ///
    /// Fails if the pattern does not divide the length, or the name is a duplicate.
    pub fn add_splat(&mut self, name: &str, metadata: &[u8], pattern: Pattern, length: u64) -> Result<()> {
        if !pattern.divides(length) {
            return Err(Error::invalid_argument(format!(
                "parameter '{name}' of {length} bytes cannot repeat a pattern of {} bytes",
                pattern.as_bytes().len()
            )));
        }
        self.declare(name, metadata, length, What::Splat(pattern), size_of::<SplatEntry>()).map(drop)
    }

    /// Declares a parameter of `length` bytes whose data is in the storage segment, at an offset aligned to
    /// `alignment`, a power of two in bytes.
    pub fn add_data(&mut self, name: &str, metadata: &[u8], alignment: u64, length: u64) -> Result<Slot> {
        if !alignment.is_power_of_two() {
            return Err(Error::invalid_argument(format!(
                "invalid alignment of {alignment} bytes (expected a power of two)"
            )));
        }
        let too_long = || {
            Error::out_of_range(format!("parameter '{name}' of {length} bytes exceeds the maximum file size"))
        };
        let offset = self.storage_segment_bytes.checked_next_multiple_of(alignment).ok_or_else(too_long)?;
        let end = offset.checked_add(length).filter(|end| *end <= i64::MAX as u64).ok_or_else(too_long)?;
        let slot = self.declare(name, metadata, length, What::Data { offset }, size_of::<DataEntry>())?;
        self.storage_segment_bytes = end;
        if self.storage_alignment == 0 {
            self.storage_alignment = alignment;
        }
        Ok(slot)
    }

    /// Declares an external parameter: `length` bytes at `offset` of another file, whose path is absolute or
    /// relative to the archive's directory.
    pub fn add_external(
        &mut self,
        name: &str,
        metadata: &[u8],
        path: &str,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        if path.is_empty() || offset.checked_add(length).is_none() {
            return Err(Error::invalid_argument(format!(
                "invalid external parameter '{name}': {length} bytes at {offset} of file '{path}'"
            )));
        }
        let what = What::External { path: path.to_string(), offset };
        self.declare(name, metadata, length, what, size_of::<ExternalEntry>())?;
        self.metadata_segment_bytes += path.len() as u64;
        Ok(())
    }

    fn declare(
        &mut self,
        name: &str,
        metadata: &[u8],
        length: u64,
        what: What,
        entry_bytes: usize,
    ) -> Result<Slot> {
        if !self.names.insert(name.to_string()) {
            return Err(Error::new(
                rehal_base::StatusCode::AlreadyExists,
                format!("duplicate parameter '{name}'"),
            ));
        }
        self.entry_segment_bytes =
            self.entry_segment_bytes.next_multiple_of(ENTRY_ALIGNMENT) + entry_bytes as u64;
        self.metadata_segment_bytes += (name.len() + metadata.len()) as u64;
        let (name, metadata) = (name.to_string(), metadata.to_vec());
        self.entries.push(Declared { name, metadata, length, what });
        Ok(Slot(self.entries.len() - 1))
    }

    /// Offset in the file of the data of `slot`, for an archive at the start of the file. Final once
    /// everything is declared.
    pub fn data_offset(&self, slot: Slot) -> u64 {
        match self.entries[slot.0].what {
            What::Data { offset } => self.storage_offset() + offset,
            What::Splat(_) | What::External { .. } => unreachable!("slots are handed out for data"),
        }
    }

    /// Size of the whole file, padded to [`FILE_ALIGNMENT`].
    pub fn file_bytes(&self) -> u64 {
        (self.storage_offset() + self.storage_segment_bytes).next_multiple_of(FILE_ALIGNMENT)
    }

    fn storage_offset(&self) -> u64 {
        (HEADER_BYTES + self.entry_segment_bytes + self.metadata_segment_bytes)
            .next_multiple_of(self.storage_alignment.max(1))
    }

    /// Writes everything before the data: header, table, names and metadata.
    pub fn write_header(&self, output: &mut dyn Write) -> Result<()> {
        self.try_write(output).map_err(|error| Error::io("writing an archive's header", &error))
    }

    fn try_write(&self, output: &mut dyn Write) -> std::io::Result<()> {
        let header = Header {
            prefix: HeaderPrefix {
                magic: MAGIC.into(),
                header_size: (size_of::<Header>() as u64).into(),
                ..HeaderPrefix::default()
            },
            entry_count: (self.entries.len() as u64).into(),
            entry_segment: span(HEADER_BYTES, self.entry_segment_bytes),
            metadata_segment: span(HEADER_BYTES + self.entry_segment_bytes, self.metadata_segment_bytes),
            storage_segment: span(self.storage_offset(), self.storage_segment_bytes),
        };
        output.write_all(header.as_bytes())?;
        let mut written = size_of::<Header>() as u64;
        let mut metadata_offset = 0;
        for entry in &self.entries {
            let padding = written.next_multiple_of(ENTRY_ALIGNMENT) - written;
            output.write_all(&[0; ENTRY_ALIGNMENT as usize][..padding as usize])?;
            written += padding + write_entry(entry, &mut metadata_offset, output)?;
        }
        for entry in &self.entries {
            output.write_all(entry.name.as_bytes())?;
            output.write_all(&entry.metadata)?;
            if let What::External { path, .. } = &entry.what {
                output.write_all(path.as_bytes())?;
            }
        }
        // Without entries, the padding after the header is still missing.
        let padding = HEADER_BYTES.saturating_sub(written);
        output.write_all(&[0; ENTRY_ALIGNMENT as usize][..padding as usize])
    }

    /// Each parameter: name, length, and offset of its data in the file, if any.
    pub fn entries(&self) -> impl Iterator<Item = (&str, u64, Option<u64>)> {
        self.entries.iter().map(|entry| {
            let offset = match entry.what {
                What::Data { offset } => Some(self.storage_offset() + offset),
                What::Splat(_) | What::External { .. } => None,
            };
            (entry.name.as_str(), entry.length, offset)
        })
    }
}

/// Writes a table entry and advances `metadata_offset` past its references.
fn write_entry(entry: &Declared, metadata_offset: &mut u64, output: &mut dyn Write) -> std::io::Result<u64> {
    let mut reserve = |length: usize| {
        let at = *metadata_offset;
        *metadata_offset += length as u64;
        span(at, length as u64)
    };
    let name = reserve(entry.name.len());
    let metadata = match entry.metadata.len() {
        0 => Span::default(),
        length => reserve(length),
    };
    let header = |kind: u32, size: usize, alignment: u64| EntryHeader {
        entry_size: (size as u64).into(),
        kind: kind.into(),
        name,
        metadata,
        minimum_alignment: alignment.into(),
        ..EntryHeader::default()
    };
    let mut write = |bytes: &[u8]| output.write_all(bytes).map(|()| bytes.len() as u64);
    match &entry.what {
        What::Splat(pattern) => {
            let mut bytes = [0; Pattern::MAX_BYTES];
            let given = pattern.as_bytes();
            bytes[..given.len()].copy_from_slice(given);
            write(
                SplatEntry {
                    header: header(ENTRY_SPLAT, size_of::<SplatEntry>(), 0),
                    length: entry.length.into(),
                    pattern: bytes,
                    pattern_length: given.len() as u8,
                }
                .as_bytes(),
            )
        }
        What::Data { offset } => write(
            DataEntry {
                // The reference writes this regardless of the data's alignment.
                header: header(ENTRY_DATA, size_of::<DataEntry>(), DATA_ALIGNMENT),
                storage: span(*offset, entry.length),
            }
            .as_bytes(),
        ),
        What::External { path, offset } => {
            let path = reserve(path.len());
            write(
                ExternalEntry {
                    header: header(ENTRY_EXTERNAL, size_of::<ExternalEntry>(), 0),
                    path,
                    range: span(*offset, entry.length),
                }
                .as_bytes(),
            )
        }
    }
}

fn span(offset: u64, length: u64) -> Span {
    Span { offset: offset.into(), length: length.into() }
}
