//! Flags as IREE's users type them, from one table per tool.
//!
//! The rules are those of the reference release, and where they are wider it says so:
//! - A flag is `--name=value`; a switch is also `--name`. There is no `--name value`.
//! - `-` and `_` in names are the same (wider).
//! - `--flagfile=PATH` stands for the flags in that file, in place.
//! - The last one of a flag that is given twice wins, unless it may be repeated.
//! - Positional arguments may stand anywhere; after `--` everything is one (wider).
//! - What begins with one dash is no flag.

mod catalog;
mod expand;
mod flag;
mod help;
mod parse;

pub use catalog::{DEVICES, GENERAL, LOCAL, OTHER_DRIVERS, PROFILING, TASK};
pub(crate) use flag::parse_benchmark_switch;
pub use flag::{Flag, Group, Kind, Support};
pub use help::{comment, help};
pub use parse::Flags;
