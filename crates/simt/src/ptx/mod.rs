//! PTX as an instruction set of the engine.
//!
//! `parser` makes statements of text, `lower` makes [`op::Inst`]s of statements, and `exec` runs these. Each
//! kernel is lowered with the functions that it calls into one piece of code with one numbering of registers,
//! which is possible because functions may not be recursive. An instruction is a code over types and
//! modifiers: each part of a name is understood, or the text is rejected.

mod ast;
mod code;
mod exec;
mod lexer;
mod lower;
mod op;
mod parser;
mod program;
mod types;
mod variables;

pub(crate) use code::{Code, parse};
pub(crate) use lexer::{line_at, statement_at};
pub(crate) use op::{BarrierKind, Place};
pub(crate) use program::Program;
