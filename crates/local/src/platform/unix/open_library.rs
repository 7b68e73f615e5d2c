//! Opens shared libraries with the system's dynamic loader.

use std::ffi::OsStr;
use std::sync::Once;

use crate::platform::system::HOST_LIBRARIES;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};

/// Opens the library at `path`, which the system searches for if it has no `/`, with local symbols.
///
/// All symbols are bound now: a missing function is an error here, instead of ending the process at its first
/// call.
///
/// # Safety
/// Runs the library's initializers: the caller trusts its code as it trusts its own.
pub(crate) unsafe fn open_library(path: &OsStr) -> Result<libloading::Library, libloading::Error> {
    provide_host_libraries();
    // SAFETY: the caller trusts the library.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(Into::into)
}

/// Makes the symbols of the host libraries visible to libraries opened later, permanently.
fn provide_host_libraries() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for name in HOST_LIBRARIES.iter().copied() {
            // SAFETY: the system's own libraries, which the reference's programs link too.
            let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) };
            // If one is missing, the executables that need it fail to load.
            if let Ok(library) = library {
                std::mem::forget(library);
            }
        }
    });
}
