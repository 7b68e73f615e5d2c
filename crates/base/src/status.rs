use std::fmt;

use serde::{Deserialize, Serialize};

/// An IREE status code, as captures store it in `status_code` (source: `iree/base/status.h`).
///
/// The numbers are those of the absl/gRPC canonical codes plus two of IREE's own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names are the standard ones")]
pub enum StatusCode {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
    Deferred = 17,
    Incompatible = 18,
}

const NAMES: [&str; 19] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
    "DEFERRED",
    "INCOMPATIBLE",
];

const ALL: [StatusCode; 19] = {
    use StatusCode::*;
    [
        Ok,
        Cancelled,
        Unknown,
        InvalidArgument,
        DeadlineExceeded,
        NotFound,
        AlreadyExists,
        PermissionDenied,
        ResourceExhausted,
        FailedPrecondition,
        Aborted,
        OutOfRange,
        Unimplemented,
        Internal,
        Unavailable,
        DataLoss,
        Unauthenticated,
        Deferred,
        Incompatible,
    ]
};

impl StatusCode {
    /// The code with this number, or `None` if it is unknown.
    pub fn from_u32(value: u32) -> Option<Self> {
        ALL.get(value as usize).copied()
    }

    /// The code with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        ALL.iter().copied().find(|code| code.name() == name)
    }

    /// The name that IREE's tools print, such as `INVALID_ARGUMENT`.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

impl fmt::Debug for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_agree() {
        for (number, code) in ALL.iter().enumerate() {
            assert_eq!(*code as usize, number);
            assert_eq!(StatusCode::from_u32(number as u32), Some(*code));
        }
        assert_eq!(StatusCode::from_u32(19), None);
        assert_eq!(StatusCode::from_u32(15).map(StatusCode::name), Some("DATA_LOSS"));
    }
}
