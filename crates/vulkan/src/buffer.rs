//! Buffers: ranges of the device's memory.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rehal_base::{Error, HostMemory, Range, Result};
use rehal_hal::profile::ProfiledAllocation;
use rehal_hal::{Buffer, BufferBackend, CountedMemory, MappedRange, MemoryAccess};

use crate::gpu::Gpu;
use crate::memory::Allocation;

/// The memory of a buffer.
pub(crate) struct VulkanBuffer {
    state: Mutex<State>,
    is_queue_ordered: bool,
    /// Whether a queue is to allocate it of memory that other Vulkan devices can import.
    is_shared: bool,
    profiled: OnceLock<ProfiledAllocation>,
    counted: Mutex<Option<CountedMemory>>,
}

enum State {
    /// Its alloca has not been issued yet.
    Awaited,
    Allocated(Arc<Allocation>),
    /// The memory, if the host allocated it: work that precedes the dealloca may still use it.
    Deallocated {
        _retained: Option<Arc<Allocation>>,
    },
}

impl State {
    fn allocation(&self) -> Result<&Arc<Allocation>> {
        match self {
            Self::Allocated(allocation) => Ok(allocation),
            Self::Awaited => Err(Error::failed_precondition("the buffer is used before its alloca")),
            Self::Deallocated { .. } => {
                Err(Error::failed_precondition("the buffer is used after its dealloca"))
            }
        }
    }
}

impl VulkanBuffer {
    /// A buffer that the host allocates.
    pub(crate) fn allocated(allocation: Allocation, counted: CountedMemory) -> Self {
        let state = State::Allocated(Arc::new(allocation));
        let counted = Mutex::new(Some(counted));
        let state = Mutex::new(state);
        Self { state, is_queue_ordered: false, is_shared: false, profiled: OnceLock::new(), counted }
    }

    /// A buffer that a queue is going to allocate, of memory that other Vulkan devices can import if
    /// `is_shared`.
    pub(crate) fn awaited(is_shared: bool) -> Self {
        let (state, counted) = (Mutex::new(State::Awaited), Mutex::default());
        Self { state, is_queue_ordered: true, is_shared, profiled: OnceLock::new(), counted }
    }

    /// The buffer, if it is one of this driver. Fails otherwise.
    pub(crate) fn of(buffer: &Buffer) -> Result<&Self> {
        (buffer.backend() as &dyn Any)
            .downcast_ref()
            .ok_or_else(|| Error::invalid_argument("the buffer belongs to a device of another driver"))
    }

    /// Its memory. Fails before its alloca and after its dealloca.
    pub(crate) fn allocation(&self) -> Result<Arc<Allocation>> {
        self.state.lock().allocation().cloned()
    }

    /// Whether a queue is to allocate it of memory that other Vulkan devices can import.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Whether its memory is not known to be of another device.
    pub(crate) fn is_of(&self, gpu: &Gpu) -> bool {
        self.allocation().map_or(true, |allocation| allocation.block().require(gpu).is_ok())
    }

    /// Gives a buffer that a queue allocates its memory.
    pub(crate) fn allocate(&self, allocation: Arc<Allocation>, counted: CountedMemory) -> Result<()> {
        let mut state = self.state.lock();
        if !matches!(*state, State::Awaited) {
            return Err(Error::failed_precondition("the buffer was already allocated"));
        }
        *state = State::Allocated(allocation);
        *self.counted.lock() = Some(counted);
        Ok(())
    }

    /// Takes the memory of a buffer that is deallocated. If the host allocated it, it lives as long as its
    /// handles, of which work in flight has one.
    pub(crate) fn take(&self) -> Result<Arc<Allocation>> {
        let mut state = self.state.lock();
        let allocation = state.allocation()?.clone();
        *state = State::Deallocated { _retained: (!self.is_queue_ordered).then(|| allocation.clone()) };
        drop(state);
        if self.is_queue_ordered {
            *self.counted.lock() = None;
        }
        if let Some(profiled) = self.profiled.get() {
            profiled.deallocate();
        }
        Ok(allocation)
    }

    /// Its allocation in a profile, if it is in one.
    pub(crate) fn profiled(&self) -> Option<&ProfiledAllocation> {
        self.profiled.get()
    }

    /// Reports the release of its memory to a profile.
    pub(crate) fn set_profiled(&self, allocation: Option<ProfiledAllocation>) {
        if let Some(allocation) = allocation {
            // A buffer is allocated once.
            let _ = self.profiled.set(allocation);
        }
    }
}

impl BufferBackend for VulkanBuffer {
    fn map(&self, mapped: &MappedRange) -> Result<HostMemory> {
        let allocation = self.allocation()?;
        match mapped.access.contains(MemoryAccess::DISCARD) {
            true => allocation.invalidate_edges(mapped.range)?,
            false => allocation.invalidate(mapped.range)?,
        }
        allocation
            .map(mapped.range)
            .ok_or_else(|| Error::failed_precondition("the host cannot map the buffer's memory"))
    }

    fn unmap(&self, mapped: &MappedRange, _memory: &HostMemory) -> Result<()> {
        if !mapped.access.intersects(MemoryAccess::WRITE | MemoryAccess::ANY) {
            return Ok(());
        }
        match self.allocation() {
            Ok(allocation) => allocation.flush(mapped.range),
            // Nothing reads what was written.
            Err(_) => Ok(()),
        }
    }

    fn flush(&self, mapped: &MappedRange, _memory: &HostMemory, range: Range) -> Result<()> {
        let offset = mapped.range.offset + range.offset;
        self.allocation()?.flush(Range { offset, length: range.length })
    }

    fn invalidate(&self, mapped: &MappedRange, _memory: &HostMemory, range: Range) -> Result<()> {
        let offset = mapped.range.offset + range.offset;
        self.allocation()?.invalidate(Range { offset, length: range.length })
    }

    fn is_queue_ordered(&self) -> bool {
        self.is_queue_ordered
    }

    fn deallocate(&self) -> Result<()> {
        self.take().map(drop)
    }
}
