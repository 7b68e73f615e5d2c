//! Eviction of bytes from the caches of all CPUs, to measure with cold caches.

use crate::platform::evict_lines;
use crate::{Ability, HostMemory, Range, Result};

/// Evicts the cache lines of `bytes`, and writes back modified ones. Fails if programs
/// may not do that.
pub fn evict(bytes: &[u8]) -> Result<()> {
    Ability::Eviction.require()?;
    // SAFETY: the bytes are borrowed, and lines can be evicted.
    unsafe { evict_lines(bytes.as_ptr(), bytes.len()) };
    Ok(())
}

impl HostMemory {
    /// Evicts a range as [`evict`] does.
    pub fn evict(&self, range: Range) -> Result<()> {
        let start = self.at(range.offset, range.length)?;
        Ability::Eviction.require()?;
        // SAFETY: `at` checked the range, and lines can be evicted.
        unsafe { evict_lines(start, range.length as usize) };
        Ok(())
    }
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
