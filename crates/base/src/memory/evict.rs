//! Eviction of bytes from the caches of all CPUs, to measure with cold caches.

use crate::{HostMemory, Range, Result};

/// Evicts the cache lines of `bytes`, and writes back modified ones. Fails if this CPU has no instruction for
/// that.
pub fn evict(bytes: &[u8]) -> Result<()> {
    // SAFETY: the bytes are borrowed.
    unsafe { evict_lines(bytes.as_ptr(), bytes.len()) }
}

impl HostMemory {
    /// Evicts a range as [`evict`] does.
    pub fn evict(&self, range: Range) -> Result<()> {
        let start = self.at(range.offset, range.length)?;
        // SAFETY: `at` checked the range.
        unsafe { evict_lines(start, range.length as usize) }
    }
}

/// # Safety
/// The bytes are valid for reads. Other threads may access them: eviction changes none.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(clippy::unnecessary_wraps, reason = "fails on other processors")]
unsafe fn evict_lines(start: *const u8, length: usize) -> Result<()> {
    use std::arch::x86_64::{_mm_clflush, _mm_mfence};

    /// All processors with CLFLUSH that are 64-bit evict at least this much.
    const LINE_BYTES: usize = 64;
    if length == 0 {
        return Ok(());
    }
    let end = start.addr() + length;
    let mut line = start.map_addr(|address| address & !(LINE_BYTES - 1));
    // SAFETY: SSE2 is part of x86-64. Each line has a byte of the range, so its page is mapped.
    unsafe {
        _mm_mfence();
        while line.addr() < end {
            _mm_clflush(line);
            line = line.wrapping_add(LINE_BYTES);
        }
        _mm_mfence();
    }
    Ok(())
}

/// # Safety
/// None.
#[cfg(any(not(target_arch = "x86_64"), miri))]
unsafe fn evict_lines(_start: *const u8, _length: usize) -> Result<()> {
    Err(crate::Error::unimplemented("caches can be evicted on x86-64 only"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That it takes effect is a matter of time, which no test measures; what is checked is that it changes
    /// nothing.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no caches")]
    fn eviction_checks_its_range_and_keeps_the_bytes() {
        let memory = HostMemory::allocate(1000).unwrap();
        let bytes: Vec<u8> = (0..1000u32).map(|at| at as u8).collect();
        memory.write(0, &bytes).unwrap();
        for (offset, length) in [(0, 1000), (1, 0), (63, 2), (999, 1), (1000, 0)] {
            memory.evict(Range { offset, length }).unwrap();
        }
        assert!(memory.evict(Range { offset: 999, length: 2 }).is_err());
        evict(&bytes[3..700]).unwrap();
        evict(&[]).unwrap();
        assert_eq!(memory.bytes(memory.whole()).unwrap(), bytes);
    }
}
