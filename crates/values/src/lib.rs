//! Values as text and files: tensors (`2x2xf32=[1 2][3 4]`), numbers as C prints them, `.npy` files, and
//! comparison of tensors.
//!
//! Operates on bytes: it must not depend on devices, buffers, programs or flags. The tools parse inputs and
//! print results with it, and the `check` and `hal` modules print and compare values.
//!
//! The syntax is the reference release's; extensions are documented as such.
//!
//! Sizes that a text or a header claims allocate nothing until the bytes are there.

#![forbid(unsafe_code)]

mod compare;
mod contents;
mod element;
mod float;
pub mod fuzzing;
mod input;
mod narrow_float;
pub mod npy;
mod number;
mod packed;
mod representation;
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
