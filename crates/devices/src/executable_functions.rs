//! The functions of executables, read from their bytes.

use rehal_base::{Error, Result};
use rehal_hal::FunctionInfo;

use crate::devices::find_format;
use crate::drivers;

/// The functions of an executable of a format, by ordinal, as its bytes say: nothing of it runs. Fails if the
/// format is unknown, and if the bytes do not tell.
pub fn executable_functions(format: &str, bytes: &[u8]) -> Result<Vec<FunctionInfo>> {
    match find_format(&drivers(), format) {
        Some(found) => (found.functions)(format, bytes),
        None => Err(Error::unimplemented(format!("no driver is known for format '{format}'"))),
    }
}
