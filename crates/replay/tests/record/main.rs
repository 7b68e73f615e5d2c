//! What a recorder writes: files, mappings, order, and what goes wrong.

mod files;
mod mappings;
mod memory;
mod order;
mod program;
mod trouble;
