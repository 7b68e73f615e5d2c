//! The `io_parameters` module: loads parameter files for programs.
//!
//! [`IoParameters`] is the module that programs import, over a [`Provider`], which turns each request into
//! queue operations: files are read by queues, splats are filled, and files already in memory are used
//! zero-copy. A request allocates memory only for the buffers that the program receives (source:
//! `iree/modules/io/parameters/exports.inl` and `iree/io/parameter_index_provider.c` of release 3.13.0;
//! version 0).

mod arguments;
mod batch;
mod files;
mod module;
mod provider;

pub use module::IoParameters;
pub use provider::{Provider, Request, Span};
