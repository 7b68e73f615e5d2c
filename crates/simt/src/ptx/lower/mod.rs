//! From statements to decoded instructions.

mod control;
mod convert;
mod float;
mod form;
mod integer;
mod lowering;
mod memory;
mod operands;
mod parts;
mod warp;

pub(super) use lowering::lower;
