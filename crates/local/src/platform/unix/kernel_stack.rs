//! Stacks of kernels: each thread runs kernels on one of its own, so that all have the same limit, whatever
//! calls them.

use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

use rehal_base::page_bytes;
use rehal_crash::{arm_thread, handles_faults};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::platform::call_on;
use crate::platform::system::{STACK, keep_small};

/// Reserved below a stack: a function with large arrays may access memory far below it first. Reserved pages
/// take no memory.
const GUARD_BYTES: usize = 256 << 20;
/// The same if address space is limited.
const LEAST_GUARD_BYTES: usize = 64 << 10;

thread_local! {
    /// The stack that the thread used last, while it is not in use.
    static SPARE: Cell<Option<KernelStack>> = const { Cell::new(None) };
    /// The lowest address of the stack that the thread runs on, and the size of what is reserved below.
    static IN_USE: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// A stack of a thread for its kernels.
pub(crate) struct KernelStack {
    mapping: NonNull<u8>,
    guard: usize,
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
        // A handler of an overflow needs a stack as well.
        if handles_faults() {
            arm_thread();
        }
        Self::map(length, GUARD_BYTES).or_else(|_| Self::map(length, LEAST_GUARD_BYTES))
    }

    fn map(length: usize, guard: usize) -> io::Result<Self> {
        let total = length.checked_add(guard).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | STACK;
        // SAFETY: a fresh anonymous mapping at an address chosen by the system affects no other memory.
        let mapping = unsafe { mmap_anonymous(std::ptr::null_mut(), total, ProtFlags::empty(), flags)? };
        let mapping = NonNull::new(mapping.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let stack = Self { mapping, guard, length };
        // SAFETY: the range is the upper part of the mapping, which this value owns.
        unsafe {
            let low = mapping.add(guard).as_ptr().cast::<c_void>();
            mprotect(low, length, MprotectFlags::READ | MprotectFlags::WRITE)?;
            keep_small(low, length);
        }
        Ok(stack)
    }

    /// Keeps the stack for the next kernel of this thread.
    pub(crate) fn give_back(self) {
        SPARE.set(Some(self));
    }

    /// Calls `work` on this stack. `work` must not panic: that ends the process.
    #[inline]
    pub(crate) fn run<F: FnOnce()>(&mut self, work: F) {
        let low = self.mapping.as_ptr().addr() + self.guard;
        let previous = IN_USE.replace((low, self.guard));
        // SAFETY: the end of the stack is aligned to a page, nothing else is on it, and it is mapped until
        // this returns.
        unsafe { call_on(self.mapping.as_ptr().add(self.guard + self.length), work) };
        IN_USE.set(previous);
    }
}

/// Whether the calling thread runs on a stack of kernels, and a fault at `address`, with this stack pointer,
/// is below it. Async-signal-safe.
pub(crate) fn is_overflow(address: usize, stack_pointer: usize) -> bool {
    let (low, guard) = IN_USE.get();
    let is_below = |it: usize| it < low && it >= low - guard;
    // A frame that is larger than what is reserved begins below that.
    low != 0 && (is_below(address) || (is_below(stack_pointer) && address < low))
}

impl Drop for KernelStack {
    fn drop(&mut self) {
        // SAFETY: `map` created this mapping, only this drop unmaps it, and nothing runs on it: `run` borrows
        // it.
        let _ = unsafe { munmap(self.mapping.as_ptr().cast::<c_void>(), self.guard + self.length) };
    }
}
