//! Flags with the syntax of IREE's tools, from one table per tool.
//!
//! An entry of a table has the name, type, default, help text and effect of a flag. Parsing, errors, warnings
//! and help are derived from it: a tool reads typed values and parses no text. The syntax is that of the
//! reference release, with the extensions marked below:
//! - A flag is `--name=value`; a boolean is also `--name`. There is no `--name value`.
//! - `-` and `_` in names are the same (extension). `-h` is `--help=short` (extension). A flag may have a
//!   letter, such as `-o`, for `-o VALUE` or `-oVALUE` (extension).
//! - `--flagfile=PATH` is expanded in place to the flags in that file.
//! - Every value is checked. If a flag is given twice, the last one counts, unless it may be repeated.
//! - Whitespace around a value is trimmed. One pair of double quotes around it is removed, except in flags
//!   that may be repeated: their values may be paths with such quotes.
//! - Paths need not be UTF-8 (extension).
//! - Operands may occur anywhere; all arguments after `--` are operands (extension).
//! - Any other argument that starts with a single dash is an error, unless it names an existing file.
//! - A query, such as `--help`, is answered after all flags before it have been checked.

mod catalog;
mod drivers;
mod expand;
mod files;
mod flag;
mod help;
mod parse;
mod short;
mod value_type;

pub(crate) use catalog::{AGENTS_MD, CRASH_OPTIONS, DEVICE, DEVICE_TIMEOUT, EXECUTABLE_PLUGIN, PERF_MAP};
pub use catalog::{DEVICES, GENERAL, LOCAL, OTHER_DRIVERS};
pub use drivers::DRIVERS;
pub(crate) use drivers::{driver_values, set_options};
pub use files::{Access, FilesOf, NamedFile};
pub(crate) use files::{read, read_if, read_path, recorded, streamed, written};
pub use flag::{Effect, Entry, Flag, Group, List, Query, Role, Spec};
pub use help::{comment, help, help_all};
pub use parse::Flags;
pub(crate) use parse::invalid;
pub use short::help_short;
pub use value_type::{Origin, Refusal, Words};
pub(crate) use value_type::{device_uri, optional_number, short_time, size, split_once, text, time};

/// The groups of a tool that runs kernels: its own, those of devices and of all drivers, its own behind them,
/// and that of the confinement.
macro_rules! with_devices {
    ($($before:expr),* $(; $($after:expr),*)?) => {
        &[
            $($before,)*
            &$crate::flags::DEVICES,
            &$crate::flags::LOCAL,
            &$crate::flags::DRIVERS[0],
            &$crate::flags::DRIVERS[1],
            &$crate::flags::DRIVERS[2],
            &$crate::flags::OTHER_DRIVERS,
            $($($after,)*)?
            &$crate::sandbox::GROUP,
        ]
    };
}
pub(crate) use with_devices;
