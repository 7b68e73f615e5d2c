//! Values on devices: parsed from text and files, copied back, formatted, and compared with expected ones.

pub mod input_files;
pub mod inputs;
mod results;
pub mod tensors;
mod text;
mod transfer;

pub use results::{
    Expected, MappedValue, format_value, format_view, type_of_value, with_value_bytes, with_value_memory,
};
pub use text::ValueText;
pub use transfer::to_host;
