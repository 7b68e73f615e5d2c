//! `.npy` files: a header that tells shape and type, then the elements; several may follow each other.
//!
//! Source: NumPy's "NPY format", versions 1.0, 2.0 and 3.0. Arrays whose elements are not little-endian or
//! not in row-major order, and those of records, text, dates or objects are refused.

mod dtype;
mod header;
mod literal;

pub use header::{MAX_HEADER_BYTES, header, read_header};
