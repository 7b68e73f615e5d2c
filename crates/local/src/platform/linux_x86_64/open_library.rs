//! Opening shared libraries with the system's dynamic loader.

use std::ffi::OsStr;
use std::sync::Once;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};

/// What executables may call without naming it: the compiler links them without its libraries and leaves
/// functions such as `exp` and `fmodf`, and helpers such as `__extendhfsf2`, to the process that loads
/// them. This process does not link the first of these, nor all of the second.
const HOST_LIBRARIES: [&str; 2] = ["libm.so.6", "libgcc_s.so.1"];

/// Opens the library at `path`, which the system searches for if it has no `/`. Its symbols stay its own.
///
/// Everything that it needs is looked up now: a function that is missing is an error here, where the
/// loader would otherwise end the process at the first call.
///
/// # Safety
/// Runs the library's initializers: the caller trusts its code as it trusts its own.
pub(crate) unsafe fn open_library(path: &OsStr) -> Result<libloading::Library, libloading::Error> {
    provide_host_libraries();
    // SAFETY: the caller trusts the library.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(Into::into)
}

/// Makes the symbols of the host's libraries visible to what is opened after them, for good.
fn provide_host_libraries() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for name in HOST_LIBRARIES {
            // SAFETY: the system's own libraries, of which the reference's programs link the same.
            let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) };
            // One that is not there is noticed by what needs it.
            if let Ok(library) = library {
                std::mem::forget(library);
            }
        }
    });
}
