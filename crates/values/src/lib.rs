//! Values of programs as people and files hold them: tensors as text (`2x2xf32=[1 2][3 4]`), numbers as C
//! prints them, `.npy` files, and how far two tensors are apart.
//!
//! Bytes, not devices: it must never know a buffer, a program or a flag. The tools read inputs and print
//! results with it, and the `check` and `hal` modules print and compare what programs hold.
//!
//! The text is that of the reference release, where it prints or takes any; where this is wider it says so.

#![forbid(unsafe_code)]

pub mod check;
mod compare;
mod contents;
mod element;
mod float;
mod input;
mod kind;
mod narrow_float;
pub mod npy;
mod number;
mod packed;
mod scalar;
mod tensor_type;
mod text;

pub use compare::{Equality, is_close};
pub use contents::Contents;
pub use float::Floats;
pub use input::{Input, Source, Start, Take};
pub use number::general_lower;
pub use scalar::{Scalar, ScalarType};
pub use tensor_type::{MAX_RANK, TensorType};
pub use text::{format_elements, format_head, format_tensor, parse_elements, parse_tensor, shown_bytes};
