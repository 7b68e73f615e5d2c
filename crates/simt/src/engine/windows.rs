/// The window of the memory of a block in the generic address space. It and the next are beyond the 48 bits
/// that addresses of memory have.
pub(crate) const SHARED_WINDOW: u64 = 1 << 56;
/// The window of the memory of a thread.
pub(crate) const LOCAL_WINDOW: u64 = 2 << 56;
/// The window of the arguments of the kernel.
pub(crate) const ARGUMENT_WINDOW: u64 = 4 << 56;
/// Bytes of a window.
pub(crate) const WINDOW_BYTES: u64 = 1 << 32;
