//! Stacks of kernels: each thread runs kernels on one of its own, so that all have the same limit, whatever
//! calls them.
//!
//! Kernels do not probe their stack as code for Windows does, so all of it is committed. The system does not
//! know of it: the limits in the thread's block stay those of the thread.

use std::cell::Cell;
use std::io;
use std::ptr::NonNull;

use rehal_base::page_bytes;
use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_NOACCESS, PAGE_READWRITE, VirtualAlloc, VirtualFree,
};

use crate::platform::call_on;

/// Reserved below a stack: a function with large arrays may access memory far below it first.
const GUARD_BYTES: usize = 64 << 20;

thread_local! {
    /// The stack that the thread used last, while it is not in use.
    static SPARE: Cell<Option<KernelStack>> = const { Cell::new(None) };
}

/// A stack of a thread for its kernels.
pub(crate) struct KernelStack {
    base: NonNull<u8>,
    length: usize,
}

impl KernelStack {
    /// A stack of this many bytes of the calling thread; [`KernelStack::give_back`] keeps it for the next
    /// call. Fails if memory is short.
    pub(crate) fn take(bytes: usize) -> io::Result<Self> {
        let length = bytes.next_multiple_of(page_bytes());
        if let Some(stack) = SPARE.take().filter(|it| it.length == length) {
            return Ok(stack);
        }
        let total = length.checked_add(GUARD_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: fresh pages at an address chosen by the system affect no other memory.
        let base = unsafe { VirtualAlloc(std::ptr::null(), total, MEM_RESERVE, PAGE_NOACCESS) };
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(io::Error::last_os_error)?;
        let stack = Self { base, length };
        // SAFETY: the range is the upper part of the pages, which this value owns.
        let low = unsafe {
            VirtualAlloc(base.add(GUARD_BYTES).as_ptr().cast(), length, MEM_COMMIT, PAGE_READWRITE)
        };
        if low.is_null() { Err(io::Error::last_os_error()) } else { Ok(stack) }
    }

    /// Keeps the stack for the next kernel of this thread.
    pub(crate) fn give_back(self) {
        SPARE.set(Some(self));
    }

    /// Calls `work` on this stack. `work` must not panic: that ends the process.
    #[inline]
    pub(crate) fn run<F: FnOnce()>(&mut self, work: F) {
        // SAFETY: the end of the stack is aligned to a page, nothing else is on it, and it is mapped until
        // this returns.
        unsafe { call_on(self.base.as_ptr().add(GUARD_BYTES + self.length), work) };
    }
}

/// No fault is handled here.
pub(crate) fn is_overflow(_address: usize, _stack_pointer: usize) -> bool {
    false
}

impl Drop for KernelStack {
    fn drop(&mut self) {
        // SAFETY: `take` allocated the pages, only this drop frees them, and nothing runs on them: `run`
        // borrows the value.
        unsafe { VirtualFree(self.base.as_ptr().cast(), 0, MEM_RELEASE) };
    }
}
