//! The `.ireereplay` capture format: its layout, a zero-copy reader, typed views of payloads, and a streaming
//! writer.
//!
//! It handles bytes only, and must not depend on devices, tools or the semantics of operations. `replay`
//! plans, dumps and records with it.
//!
//! Versions 1.0 and 2.0 are read, 2.0 is written (1.0 only if its records are copied). The only difference:
//! in 1.0 the functions of an executable have no names (the two fields that hold their lengths were
//! reserved).
//!
//! A [`Capture`] has a checked envelope, a [`Record`] is a location in the file, and a payload is a typed
//! view of its bytes. The writer and the reader share the tables of `payload.rs`. Records with checksums
//! (`checksums.rs`) are verified before they are returned; `Capture::damage` lists the blocks that differ.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a FormatError is made once per file at most; boxing it would cost its users more"
)]

mod bytes;
mod checksums;
mod codes;
mod reader;
mod record;
mod rules;
mod sink;
mod writer;

pub mod fuzzing;
pub mod layout;
pub mod payload;

pub use bytes::CaptureBytes;
pub use checksums::{ChecksumState, Damage};
pub use codes::{
    DigestType, FileReferenceType, FileValidationType, ObjectType, OperationCode, PayloadType, RecordType,
};
pub use payload::Payload;
pub use reader::{Capture, OpenOptions, Records, Tear};
pub use record::{Record, Version};
pub use sink::{Sink, WriteBuffer};
pub use writer::{RecordFields, Writer};
