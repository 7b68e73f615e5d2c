//! Which bindings the functions of executables write, if the format of the executable tells.

use rehal_replay::{ExecutableRecord, WrittenBindings};

use crate::devices::find_format;
use crate::drivers;

/// Which bindings the functions of an executable may write, as its format tells: nothing is known of most
/// formats, and of malformed executables.
///
/// Takes time in proportion to the bytes of the executable.
pub fn written_bindings(executable: &ExecutableRecord<'_>) -> WrittenBindings {
    let Ok(name) = std::str::from_utf8(executable.format) else { return WrittenBindings::new() };
    match find_format(&drivers(), name).and_then(|format| format.written_bindings) {
        Some(written_bindings) => written_bindings(name, executable.data),
        None => WrittenBindings::new(),
    }
}
