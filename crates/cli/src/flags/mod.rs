//! Flags as IREE's users type them, from one table per tool.
//!
//! An entry of a table says the name, the type and the default of a flag, what it is for, and whether it
//! has an effect in this build. Parsing, errors, warnings and help follow from it: a tool reads typed
//! values and parses no text. The syntax is that of the reference release, and wider where it says so:
//! - A flag is `--name=value`; a boolean is also `--name`. There is no `--name value`.
//! - `-` and `_` in names are the same (wider). `-h` is `--help` (wider).
//! - `--flagfile=PATH` stands for the flags in that file, in place.
//! - Every value is checked. If a flag is given twice, the last one counts, unless it may be repeated.
//! - Whitespace around a value is dropped, and one pair of double quotes, except in flags that may be
//!   repeated: their values may be paths that have such quotes.
//! - Values may be any bytes if they are paths (wider).
//! - Operands may stand anywhere; after `--` everything is one (wider).
//! - Any other argument with one dash is an error, unless it is the name of a file.
//! - A query, such as `--help`, is answered once everything before it is checked.

mod catalog;
mod expand;
mod flag;
mod help;
mod kind;
mod parse;

pub(crate) use catalog::{AGENTS_MD, DEVICE, EXECUTABLE_PLUGIN};
pub use catalog::{DEVICES, GENERAL, LOCAL, OTHER_DRIVERS, PROFILING, TASK};
pub use flag::{Effect, Entry, Flag, Group, List, Query, Role, Spec};
pub use help::{comment, help, help_all};
pub use kind::{Origin, Refusal, Words};
pub(crate) use kind::{split_once, text};
pub use parse::Flags;
pub(crate) use parse::invalid;
