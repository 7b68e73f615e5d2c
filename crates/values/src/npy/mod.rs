//! `.npy` files: a header with shape and type, then the elements; a file may contain several arrays.
//!
//! Source: [NumPy's NPY format], versions 1.0, 2.0 and 3.0. Rejects arrays that are big-endian or not
//! row-major, and arrays of records, text, dates or objects.
//!
//! [NumPy's NPY format]: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

mod dtype;
mod header;
mod literal;

pub use header::{MAX_HEADER_BYTES, header, read_header};
