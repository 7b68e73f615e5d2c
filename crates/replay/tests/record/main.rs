//! What a recorder writes: captures recorded again, file policies, mappings, order, and what goes wrong.

mod again;
mod memory;
mod said;
