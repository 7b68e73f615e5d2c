//! IREE's parameter archive, `.irpa`: names, metadata and a table of entries in front of their data.
//!
//! A file holds one archive or several that are linked; each has its own segments. Version 0.0 is
//! the only one there is.

mod archive;
mod layout;
mod reader;

pub use archive::{Archive, DATA_ALIGNMENT, FILE_ALIGNMENT, Slot};
pub(crate) use reader::parse;
