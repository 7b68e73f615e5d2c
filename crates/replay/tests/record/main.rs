//! What a recorder writes: captures recorded again, files, mappings, order, and what goes wrong.

mod again;
mod counting;
mod files;
mod forwarding;
mod mappings;
mod memory;
mod order;
mod program;
mod said;
mod trim;
mod trouble;
