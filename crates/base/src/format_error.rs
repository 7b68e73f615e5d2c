use std::fmt;

use crate::StatusCode;

/// Whose fault an unreadable file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file ends before what it announces: it was cut, or its writer was killed.
    Truncated,
    /// The bytes contradict each other or the format.
    Corrupt,
    /// The bytes are well formed, but of a kind or a version that we do not read.
    Unsupported,
}

impl Fault {
    /// The status code that goes with it.
    pub fn code(self) -> StatusCode {
        match self {
            Self::Truncated | Self::Corrupt => StatusCode::DataLoss,
            Self::Unsupported => StatusCode::Unimplemented,
        }
    }
}

/// Why a file or a part of one cannot be read. Every reader of the workspace reports with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError {
    /// The format, in the words of its users: `capture`, `ELF`.
    pub format: &'static str,
    /// Whose fault it is.
    pub fault: Fault,
    /// Byte offset in the file (or in the bytes given to the reader) of what is wrong.
    pub offset: u64,
    /// The record's ordinal, for formats that are made of records.
    pub record: Option<u64>,
    /// The field that is wrong, named as the format's definition names it.
    pub field: &'static str,
    /// What would have been right.
    pub expected: String,
    /// What is there.
    pub found: String,
    /// What the user can do, where something is known.
    pub advice: Option<String>,
}

impl FormatError {
    /// An error about `field` at `offset`; see the fields of the same names.
    pub fn new(
        format: &'static str,
        fault: Fault,
        offset: u64,
        field: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self {
            format,
            fault,
            offset,
            record: None,
            field,
            expected: expected.into(),
            found: found.into(),
            advice: None,
        }
    }

    /// Names the record it happened in.
    pub fn in_record(mut self, ordinal: u64) -> Self {
        self.record.get_or_insert(ordinal);
        self
    }

    /// Says what the user can do.
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice.get_or_insert_with(|| advice.into());
        self
    }

    /// Where it is, in words: the offset and, where there is one, the record.
    pub fn place(&self) -> String {
        match self.record {
            Some(record) => format!("record #{record}, offset {}", self.offset),
            None => format!("offset {}", self.offset),
        }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.fault {
            Fault::Truncated => "truncated",
            Fault::Corrupt => "corrupt",
            Fault::Unsupported => "unsupported",
        };
        write!(
            f,
            "{verdict} {}: {}: expected {}, found {}",
            self.format, self.field, self.expected, self.found
        )
    }
}

impl std::error::Error for FormatError {}
