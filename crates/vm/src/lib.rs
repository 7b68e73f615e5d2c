//! Programs: bytecode modules, the verifier and interpreter that run them, and what native modules offer them.
//!
//! Used by `local` for VMVX executables, by `modules` for what programs import, and by the tools. It must never know
//! devices, captures or flags.
#![forbid(unsafe_code)]
#![allow(clippy::result_large_err, reason = "errors of a format carry what was expected and found")]

mod access;
mod budget;
mod buffer;
mod call;
pub mod check;
mod coalesce;
mod code;
mod compute;
mod context;
mod convention;
pub mod dump;
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
mod program;
mod registers;
mod special;
mod superinstructions;
mod tables;
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
pub use convention::{Argument, Convention};
pub use invocation::{Invocation, Step};
pub use list::{ElementKind, List};
pub use module::{ExportedFunction, Module};
pub use module_file::ModuleFile;
pub use native::{Export, NativeModule, Signal, State};
pub use object::{NamedObject, Object, Ref};
pub use rehal_base::Result;
pub use trace::TraceSink;
pub use value::{Value, ValueKind};
pub use wait::{Flow, Wait, WaitSource};
