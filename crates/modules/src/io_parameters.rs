//! The `io_parameters` module: what programs load from parameter files.
//!
//! [`IoParameters`] is what a program imports, over [`Provider`], which turns each request into work for a
//! device's queues: files are read by queues, patterns are filled, and files that are in memory already
//! are used where they are. A request takes memory only for the buffers that the program gets
//! (source: `iree/modules/io/parameters/exports.inl` and `iree/io/parameter_index_provider.c` of
//! release 3.13.0; version 0).

mod arguments;
mod batch;
mod files;
mod module;
mod provider;

pub use module::IoParameters;
pub use provider::{Provider, Request, Span};
