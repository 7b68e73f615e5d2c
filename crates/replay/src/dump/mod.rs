//! Prints a capture as human-readable text or as JSON lines, byte-identical to `iree-dump-replay` of release
//! 3.13.0.
//!
//! Dumps are streamed: a first pass checks everything and counts for the summary, a second one prints. Both
//! release the pages of a mapped file behind them, so that the working set does not grow with the file.

mod fields;
mod jsonl;
mod output;
mod sink;
mod summary;
mod text;

use std::io::{self, Write};

use rehal_base::{FormatError, MappedFile};
use rehal_capture::{Capture, OpenOptions, Payload, Record, Records, Tear};

pub use summary::Summary;

use output::Output;

/// The output format of a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A header with a summary, then one line per record.
    #[default]
    Text,
    /// One JSON object per line: the file, the summary, then each record.
    Jsonl,
}

/// Options of a dump.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The output format.
    pub format: Format,
    /// Dump the intact records of a capture that was not closed or was truncated; see [`OpenOptions`].
    pub recover: bool,
}

/// The location of a capture's bytes.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    bytes: &'a [u8],
    map: Option<&'a MappedFile>,
}

/// The reason why a dump ended early.
#[derive(Debug)]
pub enum Error {
    /// The capture cannot be read. Nothing has been written.
    Format(Box<FormatError>),
    /// The writer failed; [`io::ErrorKind::BrokenPipe`] means that the reader closed the pipe.
    Write(io::Error),
}

/// The progress of a dump in bytes read; each byte is read twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read so far.
    pub done_bytes: u64,
    /// Total number of bytes to read.
    pub total_bytes: u64,
}

/// Dumps the capture in `input` to `writer` in pieces of about 100 KiB, and returns where the capture is torn
/// (only with `recover`).
///
/// Everything is validated before the first byte is written, also against the capture's checksums. `progress`
/// is called every few megabytes.
pub fn dump(
    input: Input<'_>,
    options: Options,
    writer: &mut dyn Write,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Tear>, Error> {
    let how = OpenOptions { recover: options.recover };
    let capture = match input.map {
        Some(map) => Capture::open_mapped(map, how)?,
        None => Capture::open(input.bytes, how)?,
    };
    let mut walk = Walk::new(input, &capture, progress);
    let mut summary = Summary::default();
    // Only the location of data is printed, so data is not read.
    walk.records(capture.records_without_data(), |record, payload| {
        summary.add(record, payload);
        Ok(())
    })?;
    let mut output = Output::new(writer);
    match options.format {
        Format::Text => {
            text::write_file(&mut output, &capture, &summary);
            walk.records(capture.records_unverified(), |record, payload| {
                text::write_record(&mut output, record, payload)
            })?;
        }
        Format::Jsonl => {
            jsonl::write_file(&mut output, &capture, &summary);
            walk.records(capture.records_unverified(), |record, payload| {
                jsonl::write_record(&mut output, record, payload)
            })?;
        }
    }
    output.finish()?;
    Ok(capture.tear())
}

/// Iterates over the records, releasing the pages behind it.
struct Walk<'a> {
    map: Option<&'a MappedFile>,
    progress: &'a mut dyn FnMut(Progress),
    walked_bytes: u64,
    length_bytes: u64,
}

impl<'a> Walk<'a> {
    /// Number of bytes after which pages are released and progress is reported.
    const STEP_BYTES: u64 = 4 << 20;

    fn new(input: Input<'a>, capture: &Capture<'_>, progress: &'a mut dyn FnMut(Progress)) -> Self {
        Self { map: input.map, progress, walked_bytes: 0, length_bytes: capture.length_bytes() }
    }

    fn records<'c>(
        &mut self,
        records: Records<'c>,
        mut visit: impl FnMut(&Record<'c>, &Payload<'c>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut behind = 0;
        for record in records {
            let record = record?;
            visit(&record, &record.payload()?)?;
            if record.offset - behind >= Self::STEP_BYTES {
                self.forget(behind, record.offset);
                behind = record.offset;
            }
        }
        // For a small capture, the system call costs more than it saves.
        if behind > 0 {
            self.forget(behind, self.length_bytes);
        }
        self.walked_bytes += self.length_bytes;
        Ok(())
    }

    #[cold]
    fn forget(&mut self, from: u64, to: u64) {
        if let Some(map) = self.map {
            map.forget(from as usize, (to - from) as usize);
        }
        let done_bytes = self.walked_bytes + to;
        (self.progress)(Progress { done_bytes, total_bytes: 2 * self.length_bytes });
    }
}

impl<'a> From<&'a [u8]> for Input<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, map: None }
    }
}

impl<'a> From<&'a MappedFile> for Input<'a> {
    fn from(map: &'a MappedFile) -> Self {
        Self { bytes: map.bytes(), map: Some(map) }
    }
}

impl From<FormatError> for Error {
    fn from(error: FormatError) -> Self {
        Self::Format(Box::new(error))
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl From<Error> for rehal_base::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Format(error) => (*error).into(),
            Error::Write(error) => Self::io("writing the dump", &error),
        }
    }
}

#[cfg(test)]
mod tests;
