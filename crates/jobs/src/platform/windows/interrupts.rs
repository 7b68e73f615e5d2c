//! Ctrl-C: temporary directories and files are removed first.

use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rehal_base::Result;
use windows_sys::Win32::Foundation::STATUS_CONTROL_C_EXIT;
use windows_sys::Win32::System::Console::SetConsoleCtrlHandler;

/// The numbers of SIGINT, SIGTERM and SIGHUP.
pub const SIGNALS: [i32; 3] = [2, 15, 1];

/// Set by the first Ctrl-C, if the tool looks at it.
static FLAG: Mutex<Option<Arc<AtomicBool>>> = Mutex::new(None);
static WAITS: AtomicBool = AtomicBool::new(false);

/// When Ctrl-C or the end of the session ends the process, says which kernels run, and removes temporary
/// directories and files.
pub fn handle() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function is one of this type, and stays.
        unsafe { SetConsoleCtrlHandler(Some(ended), 1) };
    });
}

/// Called on a thread of its own.
unsafe extern "system" fn ended(_event: u32) -> i32 {
    if WAITS.load(Ordering::Relaxed) {
        return 1;
    }
    let flag = FLAG.lock().clone();
    if flag.is_some_and(|flag| !flag.swap(true, Ordering::Relaxed)) {
        return 1;
    }
    rehal_crash::describe_running();
    rehal_crash::remove_all();
    std::process::exit(STATUS_CONTROL_C_EXIT)
}

/// While it lives, Ctrl-C does not end this process, which waits for another one.
pub(super) fn wait_for_child() -> impl Drop {
    struct Waiting;
    impl Drop for Waiting {
        fn drop(&mut self) {
            WAITS.store(false, Ordering::Relaxed);
        }
    }
    WAITS.store(true, Ordering::Relaxed);
    handle();
    Waiting
}

/// Has no effect: the system has no limit of the size of files.
pub fn fail_large_writes() {}

/// A flag that is set by the first Ctrl-C. A second one ends the process at once, as [`handle`] says.
pub fn flag() -> Result<Arc<AtomicBool>> {
    let interrupted = FLAG.lock().get_or_insert_default().clone();
    handle();
    Ok(interrupted)
}

/// Whether the first Ctrl-C has set the [`flag`] of this process, if it has one.
pub fn is_interrupted() -> bool {
    FLAG.lock().as_ref().is_some_and(|it| it.load(Ordering::Relaxed))
}
