//! IREE's parameter archive, `.irpa`: names, metadata and an entry table, followed by the data.
//!
//! A file holds one archive or several linked ones; each has its own segments. The only version is 0.0.

mod archive;
mod layout;
mod reader;

pub use archive::{Archive, DATA_ALIGNMENT, FILE_ALIGNMENT, Slot};
pub(crate) use reader::parse;
