//! Parameter files: archives of named tensors as data, read with every offset and size checked, and written.
//!
//! Used by `modules` to answer what programs load, and by the parameter tools. It must never know devices or programs.
#![forbid(unsafe_code)]
