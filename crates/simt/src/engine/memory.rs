use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::regions::{Placed, Shared};
use super::shadow::{Actor, BlockShadow};
use super::windows::{ARGUMENT_WINDOW, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES};
use crate::finding::{FindingKind, Found, FoundList, Target};
use crate::ptx::Place;

/// Held by atomic operations on global memory, by the offset: of all launches, since several may share
/// memory.
static LOCKS: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];

/// Memory as the threads of a block see it.
pub(crate) struct BlockMemory<'a> {
    pub shared: &'a Shared<'a>,
    /// Of the block.
    block_bytes: Vec<u8>,
    /// Of the threads, one after the other.
    local: Vec<u8>,
    local_bytes: usize,
    /// Whether something was written to the memory of the threads since it was zeroed.
    is_local_used: bool,
    pub block: u64,
    lanes: u32,
    first_thread: u32,
    /// The region of the last access: the next one is likely in it.
    last: usize,
    /// Thread instructions executed by this thread of the host, in this launch.
    pub instructions: u64,
    pub found: FoundList,
    shadow: BlockShadow,
    local_shadow: BlockShadow,
    phase: u32,
    steps: Vec<u32>,
}

/// An access, for findings.
#[derive(Clone, Copy)]
pub(crate) struct Site {
    /// The offset of the instruction in the text.
    pub at: u32,
    pub lane: u32,
}

impl<'a> BlockMemory<'a> {
    pub(crate) fn new(
        shared: &'a Shared<'a>,
        lanes: u32,
        threads: u32,
        block_bytes: u32,
        local_bytes: u32,
    ) -> Self {
        Self {
            shared,
            block_bytes: vec![0; block_bytes as usize],
            local: vec![0; local_bytes as usize * threads as usize],
            local_bytes: local_bytes as usize,
            is_local_used: false,
            block: 0,
            lanes,
            first_thread: 0,
            last: 0,
            instructions: 0,
            found: FoundList::default(),
            shadow: BlockShadow::default(),
            local_shadow: BlockShadow::default(),
            phase: 0,
            steps: vec![0; threads.div_ceil(lanes) as usize],
        }
    }

    /// Starts a block, whose memory is zero.
    pub(crate) fn start(&mut self, block: u64) {
        self.block = block;
        self.block_bytes.fill(0);
        if std::mem::take(&mut self.is_local_used) {
            self.local.fill(0);
        }
        let checks = self.shared.checks;
        self.shadow.start(self.block_bytes.len(), checks.races, checks.uninitialized);
        self.local_shadow.start(self.local.len(), false, checks.uninitialized);
        self.phase = 0;
        self.steps.fill(0);
    }

    pub(crate) fn set_warp(&mut self, index: u32) {
        self.first_thread = index * self.lanes;
    }

    /// Instructions that may be executed before the budget is looked at.
    pub(crate) fn turn(&self) -> u64 {
        (self.shared.budget - self.shared.spent.load(Ordering::Relaxed).min(self.shared.budget)).max(1)
    }

    /// All threads of the block passed a barrier.
    pub(crate) fn end_phase(&mut self) {
        self.phase += 1;
    }

    /// The lanes of the warp are synchronized.
    pub(crate) fn end_step(&mut self) {
        if self.shared.checks.races {
            self.steps[(self.first_thread / self.lanes) as usize] += 1;
        }
    }

    /// The bytes of the arguments at an offset.
    pub(crate) fn argument<const N: usize>(&mut self, offset: u64, site: Site) -> [u8; N] {
        let bytes =
            usize::try_from(offset).ok().and_then(|it| self.shared.arguments.get(it..it.checked_add(N)?));
        match bytes.and_then(|it| it.try_into().ok()) {
            Some(bytes) => bytes,
            None => {
                self.find(FindingKind::ReadOutOfBounds, Target::Arguments, offset as i64, N, site);
                [0; N]
            }
        }
    }

    /// Loads bytes, or zeros if the access is wrong.
    #[inline(always)]
    pub(crate) fn load<const N: usize>(&mut self, place: Place, address: u64, site: Site) -> [u8; N] {
        match place {
            Place::Global | Place::Const => self.load_global(address, site),
            Place::Shared => self.load_shared(shared_offset(address), site),
            Place::Local => self.load_local(local_offset(address), site),
            Place::Param => self.argument(address, site),
            Place::Generic => match window(address) {
                SHARED_WINDOW => self.load_shared(shared_offset(address), site),
                LOCAL_WINDOW => self.load_local(local_offset(address), site),
                ARGUMENT_WINDOW => self.argument(address - ARGUMENT_WINDOW, site),
                _ => self.load_global(address, site),
            },
        }
    }

    /// Stores bytes, unless the access is wrong.
    #[inline(always)]
    pub(crate) fn store<const N: usize>(&mut self, place: Place, address: u64, value: [u8; N], site: Site) {
        match place {
            Place::Global | Place::Const => self.store_global(address, value, site),
            Place::Shared => self.store_shared(shared_offset(address), value, site),
            Place::Local => self.store_local(local_offset(address), value, site),
            Place::Param => self.find(FindingKind::ReadOnly, Target::Arguments, address as i64, N, site),
            Place::Generic => match window(address) {
                SHARED_WINDOW => self.store_shared(shared_offset(address), value, site),
                LOCAL_WINDOW => self.store_local(local_offset(address), value, site),
                _ => self.store_global(address, value, site),
            },
        }
    }

    /// The bytes at an address that all lanes share, if nothing about the access has to be looked at.
    #[inline(always)]
    pub(crate) fn peek<const N: usize>(&self, place: Place, address: u64) -> Option<[u8; N]> {
        match place {
            Place::Param => self.shared.arguments.get(address as usize..)?.first_chunk().copied(),
            Place::Global | Place::Const => {
                let (placed, offset) = self.within::<N>(address, N as u64)?;
                placed.memory().load(offset).ok()
            }
            _ => None,
        }
    }

    /// Loads the bytes of all lanes whose addresses follow each other, if nothing about the accesses has to
    /// be looked at. Returns whether it did.
    #[inline(always)]
    pub(crate) fn load_row<const N: usize, const L: usize>(
        &self,
        place: Place,
        addresses: &[u64; L],
        all: &mut [[u8; N]; L],
    ) -> bool {
        if !are_consecutive::<N, L>(addresses) {
            return false;
        }
        let target = all.as_flattened_mut();
        match place {
            Place::Global | Place::Const => match self.within::<N>(addresses[0], (N * L) as u64) {
                Some((placed, offset)) => placed.memory().read(offset, target).is_ok(),
                None => false,
            },
            Place::Shared if !self.shared.checks.has_shadow() => {
                let offset = shared_offset(addresses[0]) as usize;
                let bytes = self.block_bytes.get(offset..).and_then(|it| it.get(..N * L));
                match bytes.filter(|_| offset.is_multiple_of(N)) {
                    Some(bytes) => target.copy_from_slice(bytes),
                    None => return false,
                }
                true
            }
            _ => false,
        }
    }

    /// Loads the bytes of all lanes from anywhere in one region, if nothing about the accesses has to be
    /// looked at. Returns whether it did.
    #[inline(always)]
    pub(crate) fn gather<const N: usize, const L: usize>(
        &self,
        place: Place,
        addresses: &[u64; L],
        all: &mut [[u8; N]; L],
    ) -> bool {
        if !matches!(place, Place::Global | Place::Const) {
            return false;
        }
        let (mut least, mut most, mut bits) = (addresses[0], addresses[0], 0);
        for address in addresses {
            (least, most, bits) = (least.min(*address), most.max(*address), bits | *address);
        }
        let length = (most - least).saturating_add(N as u64);
        match self.within::<N>(least, length).filter(|_| bits.is_multiple_of(N as u64)) {
            Some((placed, offset)) => {
                let memory = placed.memory();
                for lane in 0..L {
                    // In range: so are the first and the last of them.
                    all[lane] = memory.load(offset + (addresses[lane] - least)).unwrap_or([0; N]);
                }
                true
            }
            None => false,
        }
    }

    /// Stores the bytes of all lanes as `load_row` loads them.
    #[inline(always)]
    pub(crate) fn store_row<const N: usize, const L: usize>(
        &mut self,
        place: Place,
        addresses: &[u64; L],
        all: &[[u8; N]; L],
    ) -> bool {
        if !are_consecutive::<N, L>(addresses) {
            return false;
        }
        let source = all.as_flattened();
        match place {
            Place::Global => match self.within::<N>(addresses[0], (N * L) as u64) {
                Some((placed, offset)) if placed.region.is_writable => {
                    placed.memory().write(offset, source).is_ok()
                }
                _ => false,
            },
            Place::Shared if !self.shared.checks.has_shadow() => {
                let offset = shared_offset(addresses[0]) as usize;
                let bytes = self.block_bytes.get_mut(offset..).and_then(|it| it.get_mut(..N * L));
                match bytes.filter(|_| offset.is_multiple_of(N)) {
                    Some(bytes) => bytes.copy_from_slice(source),
                    None => return false,
                }
                true
            }
            _ => false,
        }
    }

    /// The region of the last access and an offset in its memory, if `bytes` from an address are in it and
    /// nothing is checked but bounds and alignment.
    #[inline(always)]
    fn within<const N: usize>(&self, address: u64, bytes: u64) -> Option<(&Placed<'a>, u64)> {
        let placed = self.shared.regions.get(self.last)?;
        let offset = address.wrapping_sub(placed.region.address);
        let is_inside = offset < placed.region.length && placed.region.length - offset >= bytes;
        let is_plain = is_inside
            && address.is_multiple_of(N as u64)
            && (self.shared.shadow.is_none() || !placed.region.is_writable);
        is_plain.then(|| (placed, placed.region.offset + offset))
    }

    /// Replaces bytes by those that `f` makes of them, and returns the former ones.
    pub(crate) fn update<const N: usize>(
        &mut self,
        place: Place,
        address: u64,
        site: Site,
        f: impl FnOnce([u8; N]) -> [u8; N],
    ) -> [u8; N] {
        let is_global = place == Place::Global
            || (place == Place::Generic && !matches!(window(address), SHARED_WINDOW | LOCAL_WINDOW));
        if !is_global {
            // Only this thread of the host accesses the memory of a block.
            let before = self.load(place, address, site);
            self.store(place, address, f(before), site);
            return before;
        }
        let Some((index, offset)) = self.resolve(address, N, true, site) else { return [0; N] };
        let shared = self.shared;
        let Some(placed) = shared.regions.get(index) else { return [0; N] };
        let at = placed.region.offset + offset;
        let _guard = LOCKS[(at / 8) as usize % LOCKS.len()].lock();
        let Ok(before) = placed.memory().load::<N>(at) else { return [0; N] };
        // In range and writable: `resolve` checked.
        let _ = placed.memory().store(at, f(before));
        before
    }
}

/// Global memory.
impl BlockMemory<'_> {
    #[inline(always)]
    fn load_global<const N: usize>(&mut self, address: u64, site: Site) -> [u8; N] {
        if let Some((placed, offset)) = self.within::<N>(address, N as u64) {
            return placed.memory().load(offset).unwrap_or([0; N]);
        }
        self.load_global_slowly(address, site)
    }

    #[cold]
    #[inline(never)]
    fn load_global_slowly<const N: usize>(&mut self, address: u64, site: Site) -> [u8; N] {
        let Some((index, offset)) = self.resolve(address, N, false, site) else { return [0; N] };
        let shared = self.shared;
        let Some(placed) = shared.regions.get(index) else { return [0; N] };
        // What cannot be written cannot race.
        if let Some(shadow) = shared.shadow.as_ref().filter(|_| placed.region.is_writable)
            && shadow.read(placed.shadow + offset, N, self.actor(site))
        {
            self.find(FindingKind::Race, placed.target, offset as i64, N, site);
        }
        let mut value = [0; N];
        let at = placed.region.offset + offset;
        // Slack may be beyond the end of the memory.
        let present = placed.memory().length().saturating_sub(at).min(N as u64) as usize;
        let _ = placed.memory().read(at, &mut value[..present]);
        value
    }

    #[inline(always)]
    fn store_global<const N: usize>(&mut self, address: u64, value: [u8; N], site: Site) {
        if let Some((placed, offset)) = self.within::<N>(address, N as u64)
            && placed.region.is_writable
        {
            // In range and writable.
            let _ = placed.memory().store(offset, value);
            return;
        }
        self.store_global_slowly(address, value, site);
    }

    #[cold]
    #[inline(never)]
    fn store_global_slowly<const N: usize>(&mut self, address: u64, value: [u8; N], site: Site) {
        let Some((index, offset)) = self.resolve(address, N, true, site) else { return };
        let shared = self.shared;
        let Some(placed) = shared.regions.get(index) else { return };
        let at = placed.region.offset + offset;
        if let Some(shadow) = &shared.shadow {
            let before = placed.memory().load::<N>(at).unwrap_or(value);
            let actor = self.actor(site);
            let changed = (0..N).filter(|it| before[*it] != value[*it]);
            let raced = changed
                .fold(false, |any, byte| any | shadow.write(placed.shadow + offset + byte as u64, actor));
            if raced {
                self.find(FindingKind::Race, placed.target, offset as i64, N, site);
            }
        }
        let _ = placed.memory().store(at, value);
    }

    /// The region of an access and the offset in it; `None`, with a finding, if it may not be done.
    fn resolve(&mut self, address: u64, bytes: usize, writes: bool, site: Site) -> Option<(usize, u64)> {
        let outside = if writes { FindingKind::WriteOutOfBounds } else { FindingKind::ReadOutOfBounds };
        let regions = &self.shared.regions;
        let Some(index) = regions.find(address) else {
            let near = regions.nearest(address).and_then(|it| regions.get(it));
            // A far address has nothing to do with the region before it.
            const FAR: i64 = 1 << 30;
            let (target, offset) = match near.map(|it| (it.target, address.wrapping_sub(it.start()) as i64)) {
                Some((target, offset)) if (-FAR..FAR).contains(&offset) => (target, offset),
                _ => (Target::Nothing, address as i64),
            };
            self.find(outside, target, offset, bytes, site);
            return None;
        };
        let placed = regions.get(index)?;
        let (target, offset) = (placed.target, address - placed.start());
        let end = offset + bytes as u64;
        let kind = if !address.is_multiple_of(bytes as u64) {
            FindingKind::Misaligned
        } else if end > placed.region.length + if writes { 0 } else { placed.region.slack } {
            outside
        } else if writes && !placed.region.is_writable {
            FindingKind::ReadOnly
        } else {
            self.last = index;
            if end > placed.region.length {
                self.find(FindingKind::ReadInSlack, target, offset as i64, bytes, site);
            }
            return Some((index, offset));
        };
        self.find(kind, target, offset as i64, bytes, site);
        None
    }
}

/// Memory of the block and of its threads.
impl BlockMemory<'_> {
    #[inline(always)]
    fn load_shared<const N: usize>(&mut self, offset: u64, site: Site) -> [u8; N] {
        if !self.shared.checks.has_shadow()
            && offset.is_multiple_of(N as u64)
            && let Some(bytes) = self.block_bytes.get(offset as usize..).and_then(|it| it.first_chunk())
        {
            return *bytes;
        }
        self.load_shared_slowly(offset, site)
    }

    #[cold]
    #[inline(never)]
    fn load_shared_slowly<const N: usize>(&mut self, offset: u64, site: Site) -> [u8; N] {
        if !self.is_inside(self.block_bytes.len(), Target::Shared, offset, N, false, site) {
            return [0; N];
        }
        let at = offset as usize;
        let actor = self.actor(site);
        if (at..at + N).fold(false, |any, byte| any | self.shadow.read(byte, actor)) {
            self.find(FindingKind::Race, Target::Shared, offset as i64, N, site);
        }
        if !self.shadow.is_written(at, N) {
            self.find(FindingKind::Uninitialized, Target::Shared, offset as i64, N, site);
        }
        self.block_bytes[at..].first_chunk().copied().unwrap_or([0; N])
    }

    #[inline(always)]
    fn store_shared<const N: usize>(&mut self, offset: u64, value: [u8; N], site: Site) {
        if !self.shared.checks.has_shadow()
            && offset.is_multiple_of(N as u64)
            && let Some(bytes) =
                self.block_bytes.get_mut(offset as usize..).and_then(|it| it.first_chunk_mut())
        {
            *bytes = value;
            return;
        }
        self.store_shared_slowly(offset, value, site);
    }

    #[cold]
    #[inline(never)]
    fn store_shared_slowly<const N: usize>(&mut self, offset: u64, value: [u8; N], site: Site) {
        if !self.is_inside(self.block_bytes.len(), Target::Shared, offset, N, true, site) {
            return;
        }
        let (at, actor) = (offset as usize, self.actor(site));
        let mut raced = false;
        for (byte, value) in value.iter().enumerate() {
            if self.block_bytes[at + byte] != *value {
                raced |= self.shadow.write(at + byte, actor);
            }
        }
        if raced {
            self.find(FindingKind::Race, Target::Shared, offset as i64, N, site);
        }
        self.shadow.set_written(at, N);
        self.block_bytes[at..at + N].copy_from_slice(&value);
    }

    fn load_local<const N: usize>(&mut self, offset: u64, site: Site) -> [u8; N] {
        if !self.is_inside(self.local_bytes, Target::Local, offset, N, false, site) {
            return [0; N];
        }
        let at = (self.first_thread + site.lane) as usize * self.local_bytes + offset as usize;
        if !self.local_shadow.is_written(at, N) {
            self.find(FindingKind::Uninitialized, Target::Local, offset as i64, N, site);
        }
        self.local[at..].first_chunk().copied().unwrap_or([0; N])
    }

    fn store_local<const N: usize>(&mut self, offset: u64, value: [u8; N], site: Site) {
        if !self.is_inside(self.local_bytes, Target::Local, offset, N, true, site) {
            return;
        }
        let at = (self.first_thread + site.lane) as usize * self.local_bytes + offset as usize;
        self.is_local_used = true;
        self.local_shadow.set_written(at, N);
        self.local[at..at + N].copy_from_slice(&value);
    }

    /// Whether an access is within memory of a size, and aligned; else it is found.
    fn is_inside(
        &mut self,
        size: usize,
        target: Target,
        offset: u64,
        bytes: usize,
        writes: bool,
        site: Site,
    ) -> bool {
        let is_inside = offset.checked_add(bytes as u64).is_some_and(|it| it <= size as u64);
        let kind = match (is_inside, writes) {
            (true, _) if offset.is_multiple_of(bytes as u64) => return true,
            (true, _) => FindingKind::Misaligned,
            (false, true) => FindingKind::WriteOutOfBounds,
            (false, false) => FindingKind::ReadOutOfBounds,
        };
        self.find(kind, target, offset as i64, bytes, site);
        false
    }

    fn actor(&self, site: Site) -> Actor {
        let step = self.steps[(self.first_thread / self.lanes) as usize];
        Actor::new(self.block, self.first_thread + site.lane, self.phase, step)
    }

    /// Finds a barrier that threads do not reach together.
    pub(crate) fn find_barrier(&mut self, thread: u32, at: u32, id: usize) {
        let (kind, target) = (FindingKind::DivergentBarrier, Target::Barrier);
        self.found.add(Found {
            kind,
            at,
            target,
            offset: id as i64,
            bytes: 0,
            block: self.block,
            thread,
            count: 1,
        });
    }

    #[cold]
    pub(crate) fn find(&mut self, kind: FindingKind, target: Target, offset: i64, bytes: usize, site: Site) {
        let thread = self.first_thread + site.lane;
        let (at, bytes, block) = (site.at, bytes as u32, self.block);
        self.found.add(Found { kind, at, target, offset, bytes, block, thread, count: 1 });
    }
}

/// The start of the window that contains a generic address, or another multiple of its size.
#[inline(always)]
fn window(address: u64) -> u64 {
    address & !(WINDOW_BYTES - 1)
}

/// The offset in the memory of a block of an address in `.shared`, which may be a generic one.
#[inline(always)]
fn shared_offset(address: u64) -> u64 {
    if window(address) == SHARED_WINDOW { address - SHARED_WINDOW } else { address }
}

#[inline(always)]
fn local_offset(address: u64) -> u64 {
    if window(address) == LOCAL_WINDOW { address - LOCAL_WINDOW } else { address }
}

/// Whether the bytes of each lane follow those of the one before.
#[inline(always)]
fn are_consecutive<const N: usize, const L: usize>(addresses: &[u64; L]) -> bool {
    let mut differences = 0;
    for lane in 0..L {
        differences |= addresses[lane].wrapping_sub(addresses[0]) ^ (lane * N) as u64;
    }
    differences == 0
}
