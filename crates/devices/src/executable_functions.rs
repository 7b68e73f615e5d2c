//! The functions of executables, read from their bytes.

use rehal_base::{Error, Result};
use rehal_hal::{ExecutableFormat, FunctionInfo};

use crate::drivers;

/// The functions of an executable of a format, by ordinal, as its bytes say: nothing of it runs. Fails if no
/// driver knows the format, and if the bytes do not tell.
pub fn executable_functions(format: &str, bytes: &[u8]) -> Result<Vec<FunctionInfo>> {
    let registry = drivers();
    let mut drivers = registry.drivers().iter();
    match drivers.find_map(|driver| ExecutableFormat::find(driver.backend().formats(), format)) {
        Some(found) => (found.functions)(format, bytes),
        None => Err(Error::unimplemented(format!("no driver is known for format '{format}'"))),
    }
}
