//! Puts functions of other ELF images into a linked executable: the segments of the other images are added to
//! the file, and entries of the table of functions point into them. Everything else stays byte for byte,
//! except the headers and tables of the format itself.
//!
//! Reads files of both 64-bit architectures, and runs nothing: an executable for another machine is rewritten
//! as well.

mod adapter;
mod image;
mod place;
mod rewrite;
mod same;
mod table;
mod tables;
mod versions;
mod view;

pub use rewrite::{OtherFunction, OtherImage, loads_alike, replace_functions};
pub use same::is_same_code;
pub use table::{ElfLibrary, ReplacedBy};

#[cfg(test)]
mod tests;
