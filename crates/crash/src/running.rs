//! The kernels that threads run.

use std::cell::Cell;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::Text;
use crate::black_box::Noted;

/// A kernel that a thread runs, as reports describe it.
///
/// # Safety
/// The functions are called by signal handlers, on the thread that is in [`run`], at any instruction of the
/// kernel: they neither allocate nor lock nor panic, call only functions that are async-signal-safe, and are
/// right whatever the kernel has written to memory that it can reach.
pub unsafe trait Running {
    /// Adds the function and its executable, such as `function 'f' (0) of executable 4`.
    fn describe_function(&self, text: &mut Text);

    /// Adds the workgroup, such as `workgroup [0, 0, 0] of [1, 1, 1]`.
    fn describe_workgroup(&self, text: &mut Text);

    /// The name of the function; empty if it has none.
    fn function(&self) -> &str;

    /// Adds how far an address is from a buffer of the kernel, such as
    /// `, 4 bytes after the end of binding 0 (16 bytes)`, if it is near one.
    fn describe_address(&self, text: &mut Text, address: usize);

    /// The addresses of its code; empty if they are not known.
    fn code(&self) -> Range<usize>;

    /// The size of the stack that it runs on.
    fn stack_bytes(&self) -> usize;

    /// Whether an access to this address, with this stack pointer, is an overflow of that stack.
    fn is_stack_overflow(&self, address: usize, stack_pointer: usize) -> bool;

    /// The feature that this CPU lacks for an instruction, of which these are the first bytes.
    fn missing_feature(&self, code: &[u8]) -> Option<&'static str>;
}

thread_local! {
    /// The kernel that the thread runs, in a frame of [`run`].
    static CURRENT: Cell<*const &'static dyn Running> = const { Cell::new(ptr::null()) };
}

/// Calls `work`, whose faults, and those only, are the kernel's on this thread.
#[inline]
pub fn run<T>(kernel: &dyn Running, work: impl FnOnce() -> T) -> T {
    let current: *const &dyn Running = &raw const kernel;
    // The compiler cannot see the handler's reads. A signal that asks what runs may come between any two
    // instructions.
    compiler_fence(Ordering::SeqCst);
    let _watch = Watch { previous: CURRENT.replace(current.cast()) };
    compiler_fence(Ordering::SeqCst);
    let _noted = Noted::begin(|| kernel.function());
    work()
}

struct Watch {
    previous: *const &'static dyn Running,
}

impl Drop for Watch {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        CURRENT.set(self.previous);
        compiler_fence(Ordering::SeqCst);
    }
}

/// Passes the kernel that the calling thread runs to `visit`. For signal handlers.
pub(crate) fn with_current<T>(visit: impl FnOnce(&dyn Running) -> T) -> Option<T> {
    // SAFETY: a pointer that is not null is to a variable of a call of `run` on this thread, which has not
    // returned: it borrows the kernel until then, and the variable is not changed.
    let current = unsafe { CURRENT.try_with(Cell::get).ok()?.as_ref() }?;
    Some(visit(*current))
}
