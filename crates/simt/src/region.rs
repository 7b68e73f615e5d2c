use rehal_base::HostMemory;

/// Memory that a kernel may access, at an address that the caller chooses.
///
/// The address space is the launch's own: no address has to be one of the host. Two regions may show the
/// same memory at two addresses, which lets findings name the binding that a kernel went beyond. Addresses
/// below 2^48 are free for use. 0 should remain unused.
#[derive(Clone, Copy)]
pub struct Region<'a> {
    /// The address of the first byte.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Bytes after these that belong to the granule of the allocation. A read of them is noted, and yields
    /// the bytes of `memory`, or zeros beyond its end.
    pub slack: u64,
    /// The memory that contains the region.
    pub memory: &'a HostMemory,
    /// The offset of the region in `memory`, in bytes.
    pub offset: u64,
    /// Whether it may be written.
    pub is_writable: bool,
}

/// Optional checks. Those of bounds, alignment and read-only memory are always done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Reads of memory of the block or the thread that nothing wrote.
    pub uninitialized: bool,
    /// Data races, within a block and between blocks. To get the same findings in each run, let one thread
    /// run all blocks.
    ///
    /// Writes that do not change the value do not count. Atomic operations race with other accesses, not with
    /// each other, and order nothing. Threads are ordered by barriers and by instructions with a mask of
    /// lanes, among those that take part.
    pub races: bool,
    /// Barriers that threads reach at different instructions, or that threads which ended do not reach.
    pub barriers: bool,
    /// Limit on the memory of the check of races, in bytes: it takes 8 for each byte that the launch
    /// accesses, and 32 if it accesses single bytes or halves there. A launch that needs more ends with
    /// [`Cause::ShadowMemory`](crate::Cause).
    pub shadow_bytes: u64,
}

impl Default for Checks {
    fn default() -> Self {
        Self { uninitialized: false, races: false, barriers: false, shadow_bytes: 4 << 30 }
    }
}

impl Checks {
    /// All of them.
    pub fn all() -> Self {
        Self { uninitialized: true, races: true, barriers: true, ..Self::default() }
    }

    #[inline(always)]
    pub(crate) fn has_shadow(self) -> bool {
        self.uninitialized | self.races
    }
}
