//! The calls that a driver receives for mappings: each is unmapped once, however it ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rehal_base::{Error, HostMemory, Range, Result, StatusCode};
use rehal_hal::{
    Buffer, BufferBackend, BufferParams, BufferUsage, MappedRange, MemoryAccess, MemoryType, WHOLE_BUFFER,
};

/// Counts of events of the mappings of a buffer, and of the buffer.
#[derive(Default)]
struct Events {
    maps: AtomicU32,
    unmaps: AtomicU32,
    is_released: AtomicU32,
}

impl Events {
    fn counts(&self) -> [u32; 3] {
        [&self.maps, &self.unmaps, &self.is_released].map(|count| count.load(Ordering::Relaxed))
    }
}

/// A buffer whose driver counts, may map less than it is asked for, and may fail to unmap.
struct Counting {
    events: Arc<Events>,
    maps_less: u64,
    fails: bool,
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.events.is_released.fetch_add(1, Ordering::Relaxed);
    }
}

impl BufferBackend for Counting {
    fn map(&self, mapped: &MappedRange) -> Result<HostMemory> {
        self.events.maps.fetch_add(1, Ordering::Relaxed);
        HostMemory::allocate(mapped.range.length - self.maps_less)
    }

    fn unmap(&self, _mapped: &MappedRange, _memory: &HostMemory) -> Result<()> {
        self.events.unmaps.fetch_add(1, Ordering::Relaxed);
        if self.fails { Err(Error::data_loss("not written")) } else { Ok(()) }
    }

    fn flush(&self, _mapped: &MappedRange, _memory: &HostMemory, _range: Range) -> Result<()> {
        Ok(())
    }

    fn invalidate(&self, _mapped: &MappedRange, _memory: &HostMemory, _range: Range) -> Result<()> {
        Ok(())
    }

    fn is_queue_ordered(&self) -> bool {
        false
    }

    fn deallocate(&self) -> Result<()> {
        Ok(())
    }
}

fn buffer(maps_less: u64, fails: bool) -> (Buffer, Arc<Events>) {
    let events = Arc::new(Events::default());
    let params = BufferParams {
        usage: BufferUsage::MAPPING_SCOPED,
        memory_type: MemoryType::HOST_LOCAL,
        ..BufferParams::default()
    };
    (Buffer::new(params, 16, Counting { events: events.clone(), maps_less, fails }), events)
}

const BOTH: MemoryAccess = MemoryAccess::READ.union(MemoryAccess::WRITE);

#[test]
fn a_mapping_is_unmapped_once_however_it_ends() {
    let (buffer, events) = buffer(0, false);
    drop(buffer.map(BOTH, 0, WHOLE_BUFFER).unwrap());
    assert_eq!(events.counts(), [1, 1, 0], "dropped");
    buffer.map(BOTH, 0, WHOLE_BUFFER).unwrap().unmap().unwrap();
    assert_eq!(events.counts(), [2, 2, 0], "unmapped");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _mapping = buffer.map(BOTH, 0, WHOLE_BUFFER).unwrap();
        panic!("while it is mapped");
    }));
    assert!(panicked.is_err());
    assert_eq!(events.counts(), [3, 3, 0], "unwound");
    let (first, second) = (buffer.map(BOTH, 0, 8).unwrap(), buffer.map(BOTH, 4, 8).unwrap());
    drop(first);
    assert_eq!(events.counts(), [5, 4, 0], "one of two");
    drop(buffer);
    assert_eq!(events.counts(), [5, 4, 0], "a mapping keeps its buffer");
    second.write(7, &[1]).unwrap();
    second.unmap().unwrap();
    assert_eq!(events.counts(), [5, 5, 1]);
}

#[test]
fn a_failure_to_unmap_is_reported_once() {
    let (buffer, events) = buffer(0, true);
    assert_eq!(buffer.map(BOTH, 0, 4).unwrap().unmap().unwrap_err().code(), StatusCode::DataLoss);
    drop(buffer.map(BOTH, 0, 4).unwrap());
    assert_eq!(buffer.write(0, &[1]).unwrap_err().code(), StatusCode::DataLoss);
    assert_eq!(events.counts(), [3, 3, 0]);
}

#[test]
fn what_a_driver_maps_wrongly_is_refused_and_unmapped() {
    let (buffer, events) = buffer(1, false);
    let error = buffer.map(BOTH, 4, 8).err().unwrap();
    assert_eq!(error.to_string(), "INTERNAL; the driver mapped 7 bytes instead of 8");
    assert_eq!(events.counts(), [1, 1, 0]);
}
