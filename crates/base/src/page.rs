/// Size of a page of memory in bytes. Async-signal-safe.
#[inline]
pub fn page_bytes() -> usize {
    // The processor has one size; others have several, of which the system chooses.
    if cfg!(target_arch = "x86_64") { 4096 } else { rustix::param::page_size() }
}
