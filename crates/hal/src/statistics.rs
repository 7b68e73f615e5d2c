use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::MemoryType;

/// Allocation statistics of a device, by heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStatistics {
    /// Host-local memory.
    pub host: HeapStatistics,
    /// All other memory.
    pub device: HeapStatistics,
}

/// Statistics of one heap, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapStatistics {
    /// The peak of live bytes.
    pub peak_bytes: u64,
    /// Total bytes allocated.
    pub allocated_bytes: u64,
    /// Total bytes freed.
    pub freed_bytes: u64,
}

/// Counts a device's allocations, for [`MemoryStatistics`]. Usable from any thread; peaks are exact unless
/// threads allocate concurrently.
#[derive(Default)]
pub struct MemoryCounters {
    host: HeapCounters,
    device: HeapCounters,
}

#[derive(Default)]
struct HeapCounters {
    peak: AtomicU64,
    allocated: AtomicU64,
    freed: AtomicU64,
}

/// A counted allocation, counted as freed on drop.
pub struct CountedMemory {
    counters: Arc<MemoryCounters>,
    is_host: bool,
    size: u64,
}

impl MemoryCounters {
    /// The statistics so far.
    pub fn statistics(&self) -> MemoryStatistics {
        MemoryStatistics { host: self.host.statistics(), device: self.device.statistics() }
    }

    /// Counts an allocation of `size` bytes until the result is dropped.
    #[inline]
    pub fn count(self: &Arc<Self>, memory_type: MemoryType, size: u64) -> CountedMemory {
        let is_host = memory_type.contains(MemoryType::HOST_LOCAL);
        let heap = self.heap(is_host);
        let allocated = heap.allocated.fetch_add(size, Ordering::Relaxed) + size;
        let live = allocated.saturating_sub(heap.freed.load(Ordering::Relaxed));
        if live > heap.peak.load(Ordering::Relaxed) {
            heap.peak.fetch_max(live, Ordering::Relaxed);
        }
        CountedMemory { counters: self.clone(), is_host, size }
    }

    fn heap(&self, is_host: bool) -> &HeapCounters {
        if is_host { &self.host } else { &self.device }
    }
}

impl HeapCounters {
    fn statistics(&self) -> HeapStatistics {
        HeapStatistics {
            peak_bytes: self.peak.load(Ordering::Relaxed),
            allocated_bytes: self.allocated.load(Ordering::Relaxed),
            freed_bytes: self.freed.load(Ordering::Relaxed),
        }
    }
}

impl Drop for CountedMemory {
    fn drop(&mut self) {
        self.counters.heap(self.is_host).freed.fetch_add(self.size, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_counted_per_heap() {
        let counters = Arc::new(MemoryCounters::default());
        let first = counters.count(MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE, 100);
        drop(counters.count(MemoryType::DEVICE_LOCAL, 50));
        let _host = counters.count(MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE, 7);
        drop(first);
        drop(counters.count(MemoryType::DEVICE_LOCAL, 20));
        let statistics = counters.statistics();
        assert_eq!(
            statistics.device,
            HeapStatistics { peak_bytes: 150, allocated_bytes: 170, freed_bytes: 170 }
        );
        assert_eq!(statistics.host, HeapStatistics { peak_bytes: 7, allocated_bytes: 7, freed_bytes: 0 });
    }
}
