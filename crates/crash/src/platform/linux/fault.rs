//! Signal handlers for faults of kernels, on a stack of their own: sigaltstack(2)
//! (<https://man7.org/linux/man-pages/man2/sigaltstack.2.html>).

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use rehal_base::page_bytes;

use super::{interrupt, processor};
use crate::platform::{EXIT, Fault, announce};
use crate::status_of_signal;

pub(super) const SIGNALS: [(c_int, &str); 6] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGABRT, ABORT),
    (libc::SIGTRAP, "SIGTRAP"),
];

/// Size of the handlers' stack, with a signal frame of 11 KiB, that of AVX-512 and AMX.
const STACK_BYTES: usize = 64 << 10;
/// `si_code` of a general protection fault, which has no address.
const SI_KERNEL: c_int = 0x80;
/// The signal of abort(3), which a thread sends to itself.
const ABORT: &str = "SIGABRT";
/// How often the handler of exit(3) is registered: not more than every C library allows.
const EXIT_HANDLERS: usize = 16;

/// Handles a fault; returns if it is not ours, and whether something was said about it.
type Report = fn(&Fault<'_>) -> bool;

/// The previous action per signal, and the reporting function.
struct Installed(UnsafeCell<MaybeUninit<([libc::sigaction; SIGNALS.len()], Report)>>);

// SAFETY: written once under `ONCE` before any handler that reads it is installed.
unsafe impl Sync for Installed {}

static INSTALLED: Installed = Installed(UnsafeCell::new(MaybeUninit::uninit()));
static ONCE: Once = Once::new();

/// Installs the handlers for the process, once: of faults, and of signals that ask a thread what it runs.
pub(crate) fn install_handlers(report: Report, interrupted: fn(usize)) {
    ONCE.call_once(|| {
        // SAFETY: a zeroed `sigaction` is a valid value of the struct; each call only fills it in.
        let mut previous: [libc::sigaction; SIGNALS.len()] = unsafe { std::mem::zeroed() };
        for (slot, (signal, _)) in previous.iter_mut().zip(SIGNALS) {
            // SAFETY: queries the current action without changing it.
            unsafe { libc::sigaction(signal, std::ptr::null(), slot) };
        }
        // SAFETY: no handler reads it yet, and `Once` admits only one thread.
        unsafe { (*INSTALLED.0.get()).write((previous, report)) };
        for (signal, _) in SIGNALS {
            // SAFETY: the handler only makes async-signal-safe calls, and runs on its own stack.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handle as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigemptyset(&mut action.sa_mask);
                libc::sigaction(signal, &action, std::ptr::null_mut());
            }
        }
        // SAFETY: the handler reads what was written above. If it cannot be registered, a kernel that calls
        // exit(3) ends the process with its own status.
        unsafe {
            // Threads that call it at the same time each take one.
            for _ in 0..EXIT_HANDLERS {
                libc::atexit(handle_exit);
            }
        }
        interrupt::install(interrupted);
    });
}

/// The handler of a fault of an access to an address; true if the access is now allowed, and to be repeated.
static ALLOW: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Sets what is asked about each access to memory that is protected, before it is a fault.
///
/// # Safety
/// The function is called in a signal handler: it only makes async-signal-safe calls.
pub(crate) unsafe fn allow_accesses(allow: fn(usize) -> bool) {
    ALLOW.store(allow as *mut (), Ordering::Release);
}

fn is_allowed(address: usize) -> bool {
    let allow = ALLOW.load(Ordering::Acquire);
    // SAFETY: a pointer that is not null is to a function of this type.
    !allow.is_null() && unsafe { std::mem::transmute::<*mut (), fn(usize) -> bool>(allow) }(address)
}

/// Whether the handler of SIGSEGV is that of [`install_handlers`].
pub(crate) fn handles_faults() -> bool {
    // SAFETY: a zeroed `sigaction` is a valid value of the struct; the call only fills it in.
    unsafe {
        let mut current: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut current);
        current.sa_sigaction == handle as *const () as usize
    }
}

/// Installs a signal stack for the calling thread, until the thread ends.
pub(crate) fn arm_thread() {
    STACK.with(|_| {});
}

thread_local! {
    static STACK: AlternateStack = AlternateStack::install();
}

struct AlternateStack {
    memory: *mut c_void,
    length: usize,
    previous: libc::stack_t,
}

impl AlternateStack {
    fn install() -> Self {
        // SAFETY: a zeroed `stack_t` is a valid value; mmap returns fresh memory; the lowest page becomes a
        // guard page, so that an overflow of a handler faults instead of corrupting memory. If memory is
        // short, the thread keeps its previous stack.
        unsafe {
            let size = STACK_BYTES + processor::extra_frame_bytes();
            let length = page_bytes() + size;
            let mut previous: libc::stack_t = std::mem::zeroed();
            let memory = libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
                -1,
                0,
            );
            if memory == libc::MAP_FAILED {
                return Self { memory: std::ptr::null_mut(), length, previous };
            }
            libc::mprotect(memory, page_bytes(), libc::PROT_NONE);
            let stack = libc::stack_t { ss_sp: memory.byte_add(page_bytes()), ss_flags: 0, ss_size: size };
            libc::sigaltstack(&stack, &mut previous);
            Self { memory, length, previous }
        }
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        if self.memory.is_null() {
            return;
        }
        // SAFETY: restores the previous stack (or none), then unmaps ours, on which no handler of this thread
        // can be running.
        unsafe {
            libc::sigaltstack(&self.previous, std::ptr::null_mut());
            libc::munmap(self.memory, self.length);
        }
    }
}

/// Runs in exit(3), on the thread that called it.
extern "C" fn handle_exit() {
    // SAFETY: `INSTALLED` was written before this was registered.
    let (_, report) = unsafe { (*INSTALLED.0.get()).assume_init_ref() };
    report(&Fault {
        name: EXIT,
        address: None,
        instruction: None,
        code: &[],
        accessed: None,
        stack_pointer: 0,
    });
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes valid pointers for a handler with SA_SIGINFO, and `INSTALLED` was
    // written before the handler was installed. Everything called is async-signal-safe.
    unsafe {
        let (previous, report) = (*INSTALLED.0.get()).assume_init_ref();
        let position = SIGNALS.iter().position(|(number, _)| *number == signal);
        let Some(index) = position else { return };
        // A positive code is a fault of the processor; others were sent, to itself or by a process.
        let is_fault = (*info).si_code > 0;
        let is_abort = (signal == libc::SIGABRT || signal == libc::SIGTRAP)
            && (*info).si_code == libc::SI_TKILL
            && (*info).si_pid() == libc::getpid();
        if is_fault || is_abort {
            let context = &*context.cast::<libc::ucontext_t>();
            let is_breakpoint = signal == libc::SIGTRAP && (*info).si_code == SI_KERNEL;
            let behind = if is_breakpoint { processor::BREAKPOINT_BYTES } else { 0 };
            let instruction = processor::instruction(context).wrapping_sub(behind);
            let address = (*info).si_addr() as usize;
            // To fetch an instruction from there stays a fault.
            if signal == libc::SIGSEGV && address != instruction && is_allowed(address) {
                return;
            }
            let is_said = report(&Fault {
                name: SIGNALS[index].1,
                address: (is_fault && (*info).si_code != SI_KERNEL).then_some((*info).si_addr() as usize),
                instruction: Some(instruction),
                code: code_at(instruction, signal),
                accessed: is_fault.then_some(address),
                stack_pointer: processor::stack_pointer(context),
            });
            if is_said {
                announce(status_of_signal(signal));
            }
        }
        // Not ours: restore the previous action. A fault recurs on return; a trap does not, since the program
        // continues after its instruction.
        libc::sigaction(signal, &previous[index], std::ptr::null_mut());
        if !is_fault || signal == libc::SIGTRAP {
            libc::raise(signal);
        }
    }
}

/// The bytes of an instruction that was fetched but not decoded, up to the end of its page.
///
/// # Safety
/// `instruction` is the address of a fault with `signal`. Only SIGILL guarantees that the bytes are mapped;
/// for others nothing is read.
unsafe fn code_at(instruction: usize, signal: c_int) -> &'static [u8] {
    if signal != libc::SIGILL {
        return &[];
    }
    let to_page_end = page_bytes() - instruction % page_bytes();
    // SAFETY: the processor has fetched the first byte from this page, so the page is mapped, and
    // executable pages are readable here.
    unsafe {
        std::slice::from_raw_parts(instruction as *const u8, to_page_end.min(processor::INSTRUCTION_BYTES))
    }
}

/// The name of the calling thread, which ends before its first zero byte; async-signal-safe.
pub(crate) fn thread_name() -> ThreadName {
    let mut name = [0_u8; 16];
    // SAFETY: the kernel writes at most 16 bytes.
    let outcome = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    ThreadName { name, length: if outcome == 0 { length } else { 0 } }
}

/// The name of a thread.
pub(crate) struct ThreadName {
    name: [u8; 16],
    length: usize,
}

impl std::ops::Deref for ThreadName {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.name.get(..self.length).unwrap_or_default()
    }
}
