//! Which contents of a slice are bytes of external files.

use std::fs::File;

use rehal_base::platform::FileExt;
use rehal_base::{Error, Result};

use super::collect::Content;
use super::references::References;
use super::shared::Shared;

/// A part of a content.
pub(super) struct Piece<'c> {
    pub buffer: u32,
    pub offset: u64,
    pub length: u64,
    pub source: Source<'c>,
}

/// Where the bytes of a piece are.
pub(super) enum Source<'c> {
    Bytes(&'c [u8]),
    /// In an external file, by index.
    File {
        file: u32,
        offset: u64,
    },
}

impl Shared<'_> {
    /// The files that slices may refer to, opened on the first call.
    pub(super) fn references(&self) -> Result<&References> {
        if self.references.get().is_none() {
            let _ = self.references.set(References::open(self.replay)?);
        }
        self.references.get().ok_or_else(|| Error::data_loss("the files of the capture are not open"))
    }

    /// Appends the parts of a content: what files contain, if references to them are kept, and bytes.
    pub(super) fn pieces<'c>(&self, content: &'c Content, pieces: &mut Vec<Piece<'c>>) -> Result<()> {
        let (buffer, bytes) = (content.buffer, &content.bytes[..]);
        let end = content.offset + bytes.len() as u64;
        let part =
            |from: u64, to: u64| &bytes[(from - content.offset) as usize..(to - content.offset) as usize];
        let mut at = content.offset;
        if self.options.keep_references {
            let references = self.references()?;
            for read in references.reads.get(&buffer).into_iter().flatten() {
                let (from, to) = (at.max(read.offset), end.min(read.offset.saturating_add(read.length)));
                if from >= to {
                    continue;
                }
                let offset = read.file_offset + (from - read.offset);
                if !contains(&references.files[&read.file], offset, part(from, to))? {
                    continue;
                }
                if at < from {
                    let source = Source::Bytes(part(at, from));
                    pieces.push(Piece { buffer, offset: at, length: from - at, source });
                }
                let source = Source::File { file: read.file, offset };
                pieces.push(Piece { buffer, offset: from, length: to - from, source });
                at = to;
            }
        }
        if at < end {
            let source = Source::Bytes(part(at, end));
            pieces.push(Piece { buffer, offset: at, length: end - at, source });
        }
        Ok(())
    }
}

/// Whether a file has these bytes at an offset: the work may have changed what was read from there.
fn contains(file: &File, mut offset: u64, mut bytes: &[u8]) -> Result<bool> {
    let mut chunk = vec![0; bytes.len().min(1 << 20)];
    while !bytes.is_empty() {
        let (part, rest) = bytes.split_at(bytes.len().min(chunk.len()));
        let read = &mut chunk[..part.len()];
        file.read_exact_at(read, offset)
            .map_err(|error| Error::io("reading a file of the capture", &error))?;
        if read != part {
            return Ok(false);
        }
        offset += part.len() as u64;
        bytes = rest;
    }
    Ok(true)
}
