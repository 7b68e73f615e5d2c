use serde::Serialize;

/// The memory that the buffers of a replay need on a CPU device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MemoryNeeds {
    /// The most that are, at a time, those of files: they take memory only while there is some.
    pub mapped_bytes: u64,
    /// The most of others at a time.
    pub own_bytes: u64,
    /// The most of both at a time: what a device needs that copies what it reads.
    pub largest_bytes: u64,
}

/// A buffer of a plan.
pub(crate) struct BufferNeeds {
    pub size: u64,
    /// The number of them that are a file's.
    pub mapped: u64,
    /// The offset in a file that its first byte has, modulo the size of a page; `None` if nothing decides it.
    pub place: Option<u64>,
    /// The step that creates it.
    pub created: u32,
}

impl MemoryNeeds {
    /// Of buffers that are released after these steps.
    pub(crate) fn new(buffers: &[BufferNeeds], last_use: &[u32]) -> Self {
        // In a step, what is created exists beside what it uses last.
        let created = buffers.iter().map(|it| (it.created, false, it));
        let released = buffers.iter().zip(last_use).map(|(it, step)| (*step, true, it));
        let mut events: Vec<_> = created.chain(released).collect();
        events.sort_by_key(|(step, is_released, _)| (*step, *is_released));
        let (mut needs, mut mapped, mut own) = (Self::default(), 0_u64, 0_u64);
        for (_, is_released, it) in events {
            let change = |bytes: u64, by| match is_released {
                true => bytes.saturating_sub(by),
                false => bytes.saturating_add(by),
            };
            (mapped, own) = (change(mapped, it.mapped), change(own, it.size - it.mapped));
            needs.mapped_bytes = needs.mapped_bytes.max(mapped);
            needs.own_bytes = needs.own_bytes.max(own);
            needs.largest_bytes = needs.largest_bytes.max(mapped.saturating_add(own));
        }
        needs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_those_of_the_largest_moment() {
        let buffer = |size, mapped, created| BufferNeeds { size, mapped, place: None, created };
        let buffers = [buffer(100, 90, 0), buffer(50, 0, 1), buffer(70, 60, 3), buffer(5, 0, 9)];
        let needs = MemoryNeeds::new(&buffers, &[2, 3, 4, 9]);
        assert_eq!(needs, MemoryNeeds { mapped_bytes: 90, own_bytes: 60, largest_bytes: 150 });
        assert_eq!(MemoryNeeds::new(&[], &[]), MemoryNeeds::default());
        let huge = [buffer(u64::MAX, 0, 0), buffer(u64::MAX, 0, 0)];
        assert_eq!(MemoryNeeds::new(&huge, &[1, 1]).own_bytes, u64::MAX);
    }
}
