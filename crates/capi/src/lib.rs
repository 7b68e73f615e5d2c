//! The C API, which `include/rehal.h` documents for its users: this crate only says how it is done.
//!
//! It must not depend on more than the crate `rehal`. Programs in C and C++ use it. Each function catches
//! panics ([`error::guard`]), checks the handles that it is given ([`handle`]), and reports failure by an
//! error object. Options and results are structs that begin with their size, so that a program and a
//! library of different releases work together ([`structs`]). A test compares the header with what
//! cbindgen reads from these files.
//!
//! The names of C's types and functions are those of the header.

#![allow(missing_docs, clippy::missing_safety_doc, reason = "the header documents what C sees")]
#![allow(non_camel_case_types, reason = "the types have C's names")]
#![deny(unsafe_code)]

pub mod call;
pub mod capture;
pub mod command;
pub mod device;
pub mod error;
pub mod fast_forward;
pub mod file;
pub mod fork;
pub mod handle;
pub mod isolate;
pub mod judge;
pub mod kernel;
pub mod profile;
pub mod program;
pub mod record;
pub mod records;
pub mod replay;
pub mod report;
pub mod structs;
pub mod value;
pub mod work;
