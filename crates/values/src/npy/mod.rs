//! `.npy` files: a header with shape and type, then the elements; a file may contain several arrays.
//!
//! Source: [NumPy's NPY format], versions 1.0, 2.0 and 3.0. Extends the reference: arrays may be big-endian
//! or in Fortran order, and types may have names, as those of ml_dtypes do. Rejects arrays of records, text,
//! dates or objects.
//!
//! [NumPy's NPY format]: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

mod dtype;
mod header;
mod layout;
mod literal;

pub use header::{MAX_HEADER_BYTES, header, is_array, read_header};
pub use layout::Layout;
