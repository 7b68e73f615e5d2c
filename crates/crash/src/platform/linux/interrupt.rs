//! Signals to threads of this process, which then say what they are running.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use super::processor;

/// The signal. It is ignored unless a program handles it, so that one which is sent too late does no harm.
const SIGNAL: c_int = libc::SIGURG;

/// The function of a thread that gets the signal, with the address of the instruction at which it was.
type Report = fn(usize);

static REPORT: OnceLock<Report> = OnceLock::new();

/// Installs the handler of the signal for the process.
pub(super) fn install(report: Report) {
    REPORT.get_or_init(|| report);
    // SAFETY: the handler only makes async-signal-safe calls. It runs on the stack that the thread runs on,
    // as the signal stacks of `std`, which threads have that are not armed, may be too small for it. System
    // calls that it interrupts are restarted.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(SIGNAL, &action, std::ptr::null_mut());
    }
}

extern "C" fn handle(_signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes valid pointers for a handler with SA_SIGINFO.
    let (is_own, instruction, errno) = unsafe {
        let is_own = (*info).si_code == libc::SI_TKILL && (*info).si_pid() == libc::getpid();
        let instruction = processor::instruction(&*context.cast::<libc::ucontext_t>());
        (is_own, instruction, *libc::__errno_location())
    };
    if let (true, Some(report)) = (is_own, REPORT.get()) {
        report(instruction);
    }
    // SAFETY: the location is the calling thread's.
    unsafe { *libc::__errno_location() = errno };
}

/// Sends the signal to a thread of this process; false if there is none with this id.
pub(crate) fn interrupt_thread(thread: i32) -> bool {
    // SAFETY: the call sends a signal whose handler is installed, or which is ignored.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) == 0 }
}

/// The id of the calling thread.
pub(crate) fn thread_id() -> i32 {
    // C libraries before 2.30 do not have the function.
    // SAFETY: has no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}
