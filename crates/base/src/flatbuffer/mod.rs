//! Reading FlatBuffers in place (<https://flatbuffers.dev/internals/>).
//!
//! A format declares its tables with [`flatbuffer_tables`](crate::flatbuffer_tables), [`verify`] checks a
//! buffer against them once, and [`Table`] then borrows from it. In a verified buffer every field is valid;
//! in an unverified one, or one modified since, reads return the default instead: they cannot panic or leave
//! the buffer.

#![allow(clippy::result_large_err, reason = "an error ends the reading of a file; not a hot path")]

mod schema;
mod table;
mod verify;

pub use schema::{Field, FieldType, FlagNames, StructSchema, TableSchema, UnionSchema};
pub use table::{Table, Tables, Vector};
pub use verify::{Envelope, verify};
