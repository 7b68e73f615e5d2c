use ash::vk::{self, MemoryPropertyFlags as Flags};
use rehal_base::{Error, Result};
use rehal_hal::{BufferParams, BufferUsage, MemoryAccess, MemoryType};
use smallvec::SmallVec;

/// The bit of [`MemoryType::DEVICE_LOCAL`] alone, without visibility.
const DEVICE_LOCAL: MemoryType = MemoryType::DEVICE_LOCAL.difference(MemoryType::DEVICE_VISIBLE);
const ALL_ACCESS: MemoryAccess = MemoryAccess::READ.union(MemoryAccess::WRITE).union(MemoryAccess::DISCARD);
const MAPPING: BufferUsage = BufferUsage::MAPPING_SCOPED
    .union(BufferUsage::MAPPING_PERSISTENT)
    .union(BufferUsage::MAPPING_ACCESS_RANDOM);

/// A memory type of a device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Its index.
    pub(crate) index: u32,
    /// Its heap.
    pub(crate) heap: u32,
    /// Its properties.
    pub(crate) flags: Flags,
}

impl Kind {
    /// Whether the host can map it.
    pub(crate) fn is_host_visible(self) -> bool {
        self.flags.contains(Flags::HOST_VISIBLE)
    }

    /// Whether writes have to be flushed and reads invalidated.
    pub(crate) fn needs_flushes(self) -> bool {
        self.is_host_visible() && !self.flags.contains(Flags::HOST_COHERENT)
    }
}

/// Memory types, the best first; at least one.
pub(crate) type Kinds = SmallVec<[Kind; 4]>;

/// The memory types for buffers with these parameters, of those in `mask`: the best first, and behind it
/// those that are used when it is exhausted. Fails if none is suitable for `size` bytes.
pub(crate) fn choose(
    memory: &vk::PhysicalDeviceMemoryProperties,
    params: &BufferParams,
    mask: u32,
    size: u64,
) -> Result<Kinds> {
    let must_be_visible = params.memory_type.contains(MemoryType::HOST_VISIBLE) && !is_optional(params);
    let unusable = Flags::PROTECTED | Flags::LAZILY_ALLOCATED | Flags::DEVICE_COHERENT_AMD;
    let kinds = (0..).zip(memory.memory_types_as_slice()).map(|(index, it)| Kind {
        index,
        heap: it.heap_index,
        flags: it.property_flags,
    });
    let mut found: Kinds = kinds
        .filter(|kind| {
            mask & (1 << kind.index) != 0
                && !kind.flags.intersects(unusable)
                && (!must_be_visible || kind.is_host_visible())
        })
        .collect();
    // Drivers list faster memory first.
    found.sort_by_key(|kind| std::cmp::Reverse(score(*kind, params)));
    let Some(best) = found.first().copied() else {
        let wanted = params.memory_type;
        return Err(Error::invalid_argument(format!("the device has no memory of type {wanted:?}")));
    };
    found.retain(|kind| replaces(*kind, best, params));
    // What is larger than a heap, such as a window of 256 MiB, is not in it. If it is larger than all, the
    // first says so.
    let heap =
        |kind: &Kind| memory.memory_heaps_as_slice().get(kind.heap as usize).map_or(0, |heap| heap.size);
    if found.iter().any(|kind| heap(kind) >= size) {
        found.retain(|kind| heap(kind) >= size);
    }
    Ok(found)
}

/// Whether buffers with these parameters may be in memory of `kind` where that of `best` is exhausted. Memory
/// of the host is slow for the device: it is used only where the host is to see the buffer. And who asks for
/// coherent memory may not flush any.
fn replaces(kind: Kind, best: Kind, params: &BufferParams) -> bool {
    let mut kept = Flags::empty();
    if !params.memory_type.contains(MemoryType::HOST_VISIBLE) {
        kept |= Flags::DEVICE_LOCAL;
    }
    if must_be_coherent(params) {
        kept |= Flags::HOST_COHERENT;
    }
    kind.flags.contains(best.flags & kept)
}

/// Whether the host does without mapping the memory if other memory is better.
fn is_optional(params: &BufferParams) -> bool {
    params.memory_type.contains(MemoryType::OPTIMAL) || params.usage.contains(BufferUsage::MAPPING_OPTIONAL)
}

/// Whether writes must be visible without flushes. Who asks for it may neither flush nor invalidate, and
/// programs ask for persistent mappings of what other devices use, too, which know nothing of flushes.
fn must_be_coherent(params: &BufferParams) -> bool {
    is_shared(params) || (params.memory_type.contains(MemoryType::HOST_COHERENT) && !is_optional(params))
}

/// Whether other devices may use the buffer: programs then ask for memory that is mapped while it is in use.
pub(super) fn is_shared(params: &BufferParams) -> bool {
    params.memory_type.contains(MemoryType::HOST_VISIBLE | MemoryType::DEVICE_VISIBLE)
        && params.usage.contains(BufferUsage::MAPPING_PERSISTENT)
        && !is_optional(params)
}

fn score(kind: Kind, params: &BufferParams) -> i32 {
    let wanted = params.memory_type;
    let has = |flag| kind.flags.contains(flag);
    // Nothing outweighs it. Vulkan has such a type for every buffer.
    let is_coherent = must_be_coherent(params) && has(Flags::HOST_COHERENT);
    let is_for_host = wanted.intersects(MemoryType::HOST_VISIBLE) && !wanted.intersects(DEVICE_LOCAL);
    let reads = !params.usage.contains(BufferUsage::MAPPING_ACCESS_SEQUENTIAL_WRITE);
    let mut score = if is_coherent { 64 } else { 0 };
    if is_for_host {
        // Memory of the device that the host can see is often small, and slow to read.
        score -= if has(Flags::DEVICE_LOCAL) { 8 } else { 0 };
        score += if has(Flags::HOST_CACHED) && reads { 4 } else { 0 };
    } else {
        score += if has(Flags::DEVICE_LOCAL) { 16 } else { 0 };
        let wants_host = wanted.intersects(MemoryType::HOST_VISIBLE);
        score += if has(Flags::HOST_VISIBLE) == wants_host { 4 } else { 0 };
        score += if has(Flags::HOST_CACHED) && wants_host && reads { 2 } else { 0 };
    }
    score + if has(Flags::HOST_COHERENT) { 1 } else { 0 }
}

/// Fails if memory of the host, which is of `kind`, is not where `params` want a buffer: kernels would read
/// it over the bus again and again. A program that only tries to import its bytes then copies them.
pub(super) fn require_place(kind: Kind, params: &BufferParams) -> Result<()> {
    let wants_device =
        params.memory_type.intersects(DEVICE_LOCAL) && !params.memory_type.contains(MemoryType::OPTIMAL);
    if !wants_device || kind.flags.contains(Flags::DEVICE_LOCAL) {
        return Ok(());
    }
    Err(Error::unimplemented(
        "memory of the host is not in the device's own memory, where the buffer is to be",
    )
    .advise("request memory that is not local to the device, or allocate a buffer and copy"))
}

/// The properties that a buffer in memory of `kind` is granted. If `maps_device_memory` is false, the host
/// cannot map memory that was requested for the device alone.
pub(crate) fn grant(kind: Kind, params: BufferParams, maps_device_memory: bool) -> BufferParams {
    let has = |flag| kind.flags.contains(flag);
    let is_hidden = !maps_device_memory && !params.memory_type.intersects(MemoryType::HOST_VISIBLE);
    let mut granted = params.memory_type - MemoryType::OPTIMAL;
    // Where host and device share their memory, what was requested as local to the host is not the device's
    // too.
    let is_device_local = !granted.contains(MemoryType::HOST_LOCAL) || granted.contains(DEVICE_LOCAL);
    granted.set(DEVICE_LOCAL, has(Flags::DEVICE_LOCAL) && is_device_local);
    granted.set(MemoryType::HOST_VISIBLE, has(Flags::HOST_VISIBLE) && !is_hidden);
    granted.set(MemoryType::HOST_COHERENT, has(Flags::HOST_COHERENT) && !is_hidden);
    granted.set(MemoryType::HOST_CACHED, has(Flags::HOST_CACHED) && !is_hidden);
    granted |= MemoryType::DEVICE_VISIBLE;
    let mut usage = params.usage | BufferUsage::TRANSFER_SOURCE | BufferUsage::TRANSFER_TARGET;
    if granted.contains(MemoryType::HOST_VISIBLE | MemoryType::HOST_CACHED) {
        usage |= MAPPING;
    }
    BufferParams {
        memory_type: granted,
        usage,
        access: if params.access.is_empty() { ALL_ACCESS } else { params.access },
        ..params
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 256 << 20;

    /// A discrete GPU: its own memory, memory of the host, cached memory of the host, and a window.
    fn discrete() -> vk::PhysicalDeviceMemoryProperties {
        let mut memory = vk::PhysicalDeviceMemoryProperties { memory_type_count: 4, ..Default::default() };
        let host = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        let flags = [Flags::DEVICE_LOCAL, host, host | Flags::HOST_CACHED, Flags::DEVICE_LOCAL | host];
        for ((it, flags), heap) in memory.memory_types.iter_mut().zip(flags).zip([0, 1, 1, 2]) {
            (it.property_flags, it.heap_index) = (flags, heap);
        }
        memory.memory_heap_count = 3;
        for (heap, size) in memory.memory_heaps.iter_mut().zip([8 << 30, 16 << 30, WINDOW]) {
            heap.size = size;
        }
        memory
    }

    fn params(memory_type: MemoryType, usage: BufferUsage) -> BufferParams {
        BufferParams { memory_type, usage, ..BufferParams::default() }
    }

    fn best(memory: &vk::PhysicalDeviceMemoryProperties, params: &BufferParams) -> Result<Kind> {
        choose(memory, params, u32::MAX, 0).map(|kinds| kinds[0])
    }

    fn chosen(memory_type: MemoryType, usage: BufferUsage) -> u32 {
        best(&discrete(), &params(memory_type, usage)).unwrap().index
    }

    #[test]
    fn memory_is_chosen_as_asked() {
        let none = BufferUsage::empty();
        assert_eq!(chosen(MemoryType::DEVICE_LOCAL, none), 0);
        assert_eq!(chosen(MemoryType::OPTIMAL, none), 0);
        assert_eq!(chosen(MemoryType::OPTIMAL | MemoryType::DEVICE_LOCAL, none), 0);
        assert_eq!(chosen(MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE, none), 2);
        let sequential = BufferUsage::MAPPING_ACCESS_SEQUENTIAL_WRITE;
        assert_eq!(chosen(MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE, sequential), 1);
        assert_eq!(chosen(MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE, none), 3);
    }

    #[test]
    fn what_is_granted_is_true_of_the_memory() {
        let memory = discrete();
        let local = params(MemoryType::DEVICE_LOCAL, BufferUsage::empty());
        let kind = best(&memory, &local).unwrap();
        assert_eq!(grant(kind, local, true).memory_type, MemoryType::DEVICE_LOCAL);
        let staging = params(MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE, BufferUsage::empty());
        let granted = grant(best(&memory, &staging).unwrap(), staging, true);
        assert!(granted.memory_type.contains(staging.memory_type | MemoryType::HOST_CACHED));
        assert!(!granted.memory_type.contains(MemoryType::DEVICE_LOCAL));
        assert!(granted.usage.contains(BufferUsage::MAPPING_SCOPED));
    }

    #[test]
    fn other_types_follow_the_best() {
        let visible = MemoryType::HOST_VISIBLE;
        let sized = |memory_type: MemoryType, usage, size| {
            let kinds = choose(&discrete(), &params(memory_type, usage), u32::MAX, size).unwrap();
            kinds.iter().map(|kind| kind.index).collect::<Vec<_>>()
        };
        let all = |memory_type| sized(memory_type, BufferUsage::empty(), 0);
        // What the host sees may be its own memory, and what it reads is cached.
        assert_eq!(all(MemoryType::DEVICE_LOCAL | visible), [3, 2, 1]);
        assert_eq!(all(MemoryType::DEVICE_LOCAL | visible | MemoryType::HOST_COHERENT), [3, 2, 1]);
        assert_eq!(all(MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE), [2, 1, 3]);
        let sequential = BufferUsage::MAPPING_ACCESS_SEQUENTIAL_WRITE;
        assert_eq!(sized(MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE, sequential, 0), [1, 2, 3]);
        // The rest stays in the memory of the device.
        for device in [MemoryType::DEVICE_LOCAL, MemoryType::OPTIMAL, MemoryType::DEVICE_VISIBLE] {
            assert_eq!(all(device), [0, 3], "{device:?}");
        }
        // What is larger than the window is not in it, and what is larger than all heaps has a type, too.
        let none = BufferUsage::empty();
        assert_eq!(sized(MemoryType::DEVICE_LOCAL | visible, none, WINDOW), [3, 2, 1]);
        assert_eq!(sized(MemoryType::DEVICE_LOCAL | visible, none, WINDOW + 1), [2, 1]);
        assert_eq!(sized(MemoryType::DEVICE_LOCAL | visible, none, u64::MAX), [3, 2, 1]);
    }

    #[test]
    fn coherent_memory_is_not_replaced_by_other() {
        let mut memory = vk::PhysicalDeviceMemoryProperties { memory_type_count: 3, ..Default::default() };
        let visible = Flags::DEVICE_LOCAL | Flags::HOST_VISIBLE;
        let flags = [visible | Flags::HOST_COHERENT, visible | Flags::HOST_CACHED, Flags::DEVICE_LOCAL];
        for (it, flags) in memory.memory_types.iter_mut().zip(flags) {
            it.property_flags = flags;
        }
        let all = |memory_type| {
            let kinds = choose(&memory, &params(memory_type, BufferUsage::empty()), u32::MAX, 0).unwrap();
            kinds.iter().map(|kind| kind.index).collect::<Vec<_>>()
        };
        assert_eq!(all(MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE), [0]);
        assert_eq!(all(MemoryType::HOST_VISIBLE | MemoryType::DEVICE_LOCAL), [1, 0]);
    }

    #[test]
    fn memory_of_the_host_is_not_that_of_a_device() {
        let kind = |index: u32| Kind {
            index,
            heap: 0,
            flags: discrete().memory_types[index as usize].property_flags,
        };
        let none = BufferUsage::empty();
        let local = params(MemoryType::DEVICE_LOCAL, none);
        let error = require_place(kind(2), &local).unwrap_err();
        assert_eq!(error.code(), rehal_base::StatusCode::Unimplemented, "{error}");
        // A GPU that shares the memory of the host.
        require_place(kind(3), &local).unwrap();
        for wanted in [
            MemoryType::DEVICE_VISIBLE,
            MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
            MemoryType::OPTIMAL,
            MemoryType::OPTIMAL | MemoryType::DEVICE_LOCAL,
        ] {
            require_place(kind(2), &params(wanted, none)).unwrap();
        }
    }

    #[test]
    fn a_device_without_suitable_memory_says_so() {
        let mut memory = discrete();
        memory.memory_type_count = 1;
        let wanted = params(MemoryType::HOST_LOCAL, BufferUsage::empty());
        let error = best(&memory, &wanted).err().unwrap();
        assert!(error.message().contains("no memory of type"), "{error}");
        assert!(choose(&memory, &params(MemoryType::DEVICE_LOCAL, BufferUsage::empty()), 0, 0).is_err());
    }

    #[test]
    fn types_that_buffers_cannot_be_in_are_passed_over() {
        let chosen = |memory_type, mask| {
            choose(&discrete(), &params(memory_type, BufferUsage::empty()), mask, 0)
                .map(|kinds| kinds[0].index)
        };
        assert_eq!(chosen(MemoryType::DEVICE_LOCAL, 0b1110).unwrap(), 3);
        assert_eq!(chosen(MemoryType::HOST_LOCAL, 0b1011).unwrap(), 1);
        assert!(chosen(MemoryType::HOST_LOCAL, 0b0001).is_err());
    }

    #[test]
    fn memory_that_is_asked_to_be_coherent_is() {
        let mut memory = vk::PhysicalDeviceMemoryProperties { memory_type_count: 3, ..Default::default() };
        let visible = Flags::DEVICE_LOCAL | Flags::HOST_VISIBLE;
        let flags = [Flags::DEVICE_LOCAL, visible | Flags::HOST_COHERENT, visible | Flags::HOST_CACHED];
        for (it, flags) in memory.memory_types.iter_mut().zip(flags) {
            it.property_flags = flags;
        }
        let coherent = MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE;
        for wanted in [coherent, coherent | DEVICE_LOCAL, coherent | MemoryType::HOST_CACHED] {
            let wanted = params(wanted, BufferUsage::MAPPING_PERSISTENT);
            let kind = best(&memory, &wanted).unwrap();
            assert_eq!(kind.index, 1, "{:?}", wanted.memory_type);
            assert!(grant(kind, wanted, true).memory_type.contains(coherent));
        }
        let optional = params(coherent | MemoryType::OPTIMAL | DEVICE_LOCAL, BufferUsage::empty());
        assert_eq!(choose(&discrete(), &optional, 1, 0).unwrap()[0].index, 0, "the only type is chosen");
        let shared = params(
            MemoryType::HOST_VISIBLE | MemoryType::DEVICE_VISIBLE | DEVICE_LOCAL,
            BufferUsage::MAPPING_PERSISTENT,
        );
        assert_eq!(best(&memory, &shared).unwrap().index, 1);
        let granted = grant(best(&discrete(), &shared).unwrap(), shared, true);
        assert!(granted.memory_type.contains(MemoryType::HOST_VISIBLE | MemoryType::HOST_COHERENT));
        // What does not ask for it may be cached.
        let visible = params(MemoryType::HOST_VISIBLE | MemoryType::DEVICE_VISIBLE, BufferUsage::empty());
        assert_eq!(best(&memory, &visible).unwrap().index, 2);
    }
}
