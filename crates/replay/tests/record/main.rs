//! What a recorder writes: captures recorded again, files, mappings, order, and what goes wrong.

mod again;
mod discrete;
mod files;
mod mappings;
mod memory;
mod order;
mod program;
mod said;
mod trouble;
