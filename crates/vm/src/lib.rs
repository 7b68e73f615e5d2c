//! The virtual machine: bytecode modules, their verifier, lowering and interpreter, and native modules.
//!
//! Used by `local` for VMVX executables, by `modules` for the modules that programs import, and by the tools.
//! It must not depend on devices, captures or flags.
//!
//! Bytecode is decoded and verified once, then lowered to code that the dispatch loop executes without
//! checks. Everything else is generated from two tables:
//!
//! - `isa.rs` has the instructions. To add a computation, add its row with its body. To add any other
//!   operation on registers and types, add its row and write the function that it names in `interpret/`. To
//!   add one with other operands or control flow, add its row and write the method of `Lowering` that it
//!   names, and if no lowered instruction can do its work, a variant of `code::Insn` with its arm in
//!   `interpret/dispatch.rs` or `interpret/out_of_line.rs`.
//! - `superinstructions.rs` has the instructions that are fused from two. To add one, add its row with its
//!   parts and their pattern (`superinstructions/table.rs`); a new pattern is a type in the former, or in
//!   `superinstructions/elements.rs` if it accesses buffers. The differential test fails if random programs
//!   never execute it.
//!
//! A native function receives a `Call` and returns a `Flow`: return, yield or wait. Called by a program, it
//! reads its arguments in place, from the registers of its caller. A suspended `Invocation` is a value, whose
//! owner decides whether to block a thread. `Budget` and tracing are meters; the loop is monomorphized for
//! each, so that programs without them have no overhead. Threads share contexts: globals are atomics, and
//! registers and stacks are pooled. `module_file/` presents a file as checked tables, and constant data is
//! used in place.
#![forbid(unsafe_code)]
#![allow(clippy::result_large_err, reason = "errors of a format carry what was expected and found")]

mod access;
mod budget;
mod buffer;
mod call;
mod coalesce;
mod code;
mod compute;
mod context;
mod convention;
pub mod dump;
pub mod fuzzing;
mod globals;
mod instruction;
mod interpret;
mod invocation;
mod isa;
mod link;
mod list;
mod liveness;
mod lower;
mod module;
pub mod module_file;
mod native;
mod object;
mod operation;
mod platform;
mod program;
mod registers;
mod special;
mod superinstructions;
mod tables;
pub mod test_programs;
mod trace;
mod value;
mod verify;
mod wait;

#[cfg(test)]
mod tests_lowering;
#[cfg(test)]
mod tests_native;

pub use budget::Budget;
pub use buffer::Buffer;
pub use call::{Call, Resumed, Span, Tuple};
pub use context::{Context, Function};
pub use convention::{Argument, Convention, ExportedFunction};
pub use invocation::{Invocation, Step};
pub use list::{ElementKind, List};
pub use module::Module;
pub use module_file::ModuleFile;
pub use native::{Export, NativeModule, Signal, State};
pub use object::{NamedObject, Object, Ref};
pub use rehal_base::Result;
pub use trace::TraceSink;
pub use value::{Value, ValueKind};
pub use wait::{Flow, Notification, Wait, WaitSource};
