use std::fmt;

use rehal_base::{Fault, FormatError};
use serde::{Serialize, Serializer};

use crate::layout::RecordHeader;
use crate::{ObjectType, OperationCode, PayloadType, RecordType};

/// The name of the format in errors.
pub(crate) const FORMAT: &str = "capture";

/// Format version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 1 or 2.
    pub major: u16,
    /// 0 in all released versions; ignored, like the reference does.
    pub minor: u16,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Version {
    /// The releases that wrote it, in words, if it is an earlier one. Captures of it do not name functions.
    /// This library replays it, and so do the tools of these releases; those of later ones do not.
    pub fn earlier_releases(self) -> Option<&'static str> {
        (self.major == 1).then_some("3.12.0rc20260429 to 3.12.0rc20260519")
    }
}

/// One record, zero-copy.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// File offset of the record's header.
    pub offset: u64,
    /// The header.
    pub header: &'a RecordHeader,
    /// The payload's bytes.
    pub payload: &'a [u8],
    /// The format version of its file.
    pub version: Version,
}

impl<'a> Record<'a> {
    /// Its index among the records of the file, from zero.
    pub fn ordinal(&self) -> u64 {
        self.header.sequence_ordinal.get()
    }

    /// The record type.
    pub fn record_type(&self) -> RecordType {
        RecordType(self.header.record_type.get())
    }

    /// Type of its object.
    pub fn object_type(&self) -> ObjectType {
        ObjectType(self.header.object_type.get())
    }

    /// The recorded operation, or `NONE`.
    pub fn operation(&self) -> OperationCode {
        OperationCode(self.header.operation_code.get())
    }

    /// The payload type.
    pub fn payload_type(&self) -> PayloadType {
        PayloadType(self.header.payload_type.get())
    }

    /// Whether its type is unknown and it may be skipped.
    pub fn is_skippable(&self) -> bool {
        !self.record_type().is_known()
    }

    /// File offset of the payload's first byte.
    pub fn payload_offset(&self) -> u64 {
        self.offset + u64::from(self.header.header_length.get())
    }

    /// An error in this record; `field_offset` is relative to its payload.
    #[cold]
    pub fn payload_error(
        &self,
        fault: Fault,
        field_offset: usize,
        field: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> FormatError {
        let offset = self.payload_offset() + field_offset as u64;
        FormatError::new(FORMAT, fault, offset, field, expected, found).in_record(self.ordinal())
    }

    /// An error in this record's header; `field_offset` is relative to the record.
    #[cold]
    pub fn header_error(
        &self,
        field_offset: usize,
        field: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> FormatError {
        let offset = self.offset + field_offset as u64;
        FormatError::new(FORMAT, Fault::Corrupt, offset, field, expected, found).in_record(self.ordinal())
    }
}
