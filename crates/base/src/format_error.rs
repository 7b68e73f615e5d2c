use std::fmt;

use crate::{Advice, StatusCode};

/// Why a file is unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file is shorter than it declares: truncated, or its writer was killed.
    Truncated,
    /// The contents are inconsistent or violate the format.
    Corrupt,
    /// The contents are well-formed, but of an unsupported kind or version.
    Unsupported,
}

impl Fault {
    /// The corresponding status code.
    pub fn code(self) -> StatusCode {
        match self {
            Self::Truncated | Self::Corrupt => StatusCode::DataLoss,
            Self::Unsupported => StatusCode::Unimplemented,
        }
    }
}

/// Why a file or a part of it cannot be read. Used by every reader of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError {
    /// The name of the format: `capture`, `ELF`.
    pub format: &'static str,
    /// The kind of error.
    pub fault: Fault,
    /// Byte offset of the error in the file (or in the bytes given to the reader).
    pub offset: u64,
    /// The record's ordinal, for formats that consist of records.
    pub record: Option<u64>,
    /// The field in error, named as in the format's definition.
    pub field: &'static str,
    /// The expected value.
    pub expected: String,
    /// The value found.
    pub found: String,
    /// Advice for the user, if any.
    pub advice: Option<Advice>,
}

/// A part of a file of some format: errors in it have offsets in the file.
#[derive(Clone, Copy, Debug)]
pub struct FormatPart {
    /// The name of the format.
    pub format: &'static str,
    /// The offset of the part.
    pub origin: u64,
}

impl FormatPart {
    /// An error about `field` at an offset of the part.
    pub fn error(
        &self,
        fault: Fault,
        at: usize,
        field: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> FormatError {
        FormatError::new(self.format, fault, self.origin.saturating_add(at as u64), field, expected, found)
    }
}

impl FormatError {
    /// An error about `field` at `offset`; see the fields with these names.
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

    /// Adds the record's ordinal.
    pub fn in_record(mut self, ordinal: u64) -> Self {
        self.record.get_or_insert(ordinal);
        self
    }

    /// Adds advice for the user.
    pub fn advise(mut self, advice: impl Into<Advice>) -> Self {
        self.advice.get_or_insert_with(|| advice.into());
        self
    }

    /// The location as text: the offset and the record, if any.
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
