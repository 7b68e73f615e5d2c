//! The recorder: files, mappings, order of records, and failures.

mod counting;
mod discrete;
mod failures;
mod files;
mod forwarding;
mod large_files;
mod mappings;
mod memory;
mod order;
mod processes;
mod program;
mod ranges;
#[path = "../reads/mod.rs"]
mod reads;
mod trim;
mod trouble;
