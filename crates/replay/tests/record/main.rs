//! What a recorder writes: files, mappings, order, and what goes wrong.

mod counting;
mod discrete;
mod failures;
mod files;
mod forwarding;
mod mappings;
mod memory;
mod order;
mod processes;
mod program;
mod trim;
mod trouble;
