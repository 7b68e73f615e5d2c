use std::sync::atomic::Ordering;

use super::order::{Arrival, Order};
use super::regions::{Placed, Shared};
use super::shadow::{Actor, Kind, Shadow, block_bits};
use super::windows::{ARGUMENT_WINDOW, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES};
use crate::finding::{FindingKind, Found, FoundList, Target};
use crate::ptx::Place;
use crate::region::Checks;

/// Memory as the threads of a block see it.
pub(crate) struct BlockMemory<'a> {
    pub shared: &'a Shared<'a>,
    /// Of the block.
    own: Own,
    /// Of the threads, one after the other.
    local: Own,
    local_bytes: usize,
    /// Whether something was written to the memory of the threads since it was zeroed.
    is_local_used: bool,
    pub block: u64,
    /// The same in the shadow.
    block_bits: u64,
    lanes: u32,
    first_thread: u32,
    /// The region of the last access: the next one is likely in it.
    last: usize,
    /// Thread instructions executed by this thread of the host, in this launch.
    pub instructions: u64,
    pub found: FoundList,
    order: Order,
    /// Of the memory of the block, if races are checked.
    races: Option<Shadow>,
}

/// Memory that lives as long as a block.
struct Own {
    bytes: Vec<u8>,
    /// Whether something wrote a byte; empty if that is not checked.
    written: Vec<bool>,
}

/// A region, and an offset in it.
type At<'a> = (&'a Placed<'a>, u64);

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
        let Checks { races, uninitialized, .. } = shared.checks;
        let own = |bytes: usize| Own {
            bytes: vec![0; bytes],
            written: vec![false; if uninitialized { bytes } else { 0 }],
        };
        Self {
            shared,
            own: own(block_bytes as usize),
            local: own(local_bytes as usize * threads as usize),
            local_bytes: local_bytes as usize,
            is_local_used: false,
            block: 0,
            block_bits: 0,
            lanes,
            first_thread: 0,
            last: 0,
            instructions: 0,
            found: FoundList::default(),
            order: Order::new(lanes, threads),
            races: races.then(|| Shadow::new(block_bytes.into(), false, u64::MAX)),
        }
    }

    /// Starts a block, whose memory is zero.
    pub(crate) fn start(&mut self, block: u64) {
        (self.block, self.block_bits) = (block, block_bits(block));
        let is_local_used = std::mem::take(&mut self.is_local_used);
        for own in std::iter::once(&mut self.own).chain(is_local_used.then_some(&mut self.local)) {
            own.bytes.fill(0);
            own.written.fill(false);
        }
        self.order.start();
    }

    pub(crate) fn set_warp(&mut self, index: u32) {
        self.first_thread = index * self.lanes;
    }

    /// Instructions that may be executed before the budget is looked at.
    pub(crate) fn turn(&self) -> u64 {
        (self.shared.budget - self.shared.spent.load(Ordering::Relaxed).min(self.shared.budget)).max(1)
    }

    /// Lanes of a warp arrive at a barrier, and wait for others or not. `None` if nothing asks for the order.
    pub(crate) fn arrive(&mut self, warp: u32, mask: u64, waits: bool) -> Option<Arrival> {
        let has_order = self.shared.checks.races;
        has_order.then(|| Arrival { warp, mask, time: self.order.advance(), waits })
    }

    /// Threads passed a barrier, which are all that have not ended, or not.
    pub(crate) fn end_phase(&mut self, arrivals: &[Arrival], are_all: bool) {
        if are_all {
            self.order.join_block();
        } else {
            self.order.join(arrivals);
        }
    }

    /// Lanes of the warp are synchronized, which are all that have not ended, or not.
    pub(crate) fn end_step(&mut self, mask: u64, are_all: bool) {
        if self.shared.checks.races {
            self.order.join_lanes(self.first_thread / self.lanes, mask, are_all);
        }
    }

    /// The bytes of the arguments at an offset.
    pub(crate) fn argument<const N: usize>(&mut self, offset: u64, site: Site) -> [u8; N] {
        let bytes = self.shared.arguments.get(offset as usize..).and_then(|it| it.first_chunk());
        bytes.copied().unwrap_or_else(|| {
            self.find(FindingKind::ReadOutOfBounds, Target::Arguments, offset as i64, N, site);
            [0; N]
        })
    }

    /// Loads bytes, or zeros if the access is wrong.
    #[inline(always)]
    pub(crate) fn load<const N: usize>(&mut self, place: Place, address: u64, site: Site) -> [u8; N] {
        match located(place, address) {
            (Place::Shared, offset) => self.load_shared(offset, site),
            (Place::Local, offset) => self.load_own(Target::Local, offset, site),
            (Place::Param, offset) => self.argument(offset, site),
            _ => self.load_global(address, site),
        }
    }

    /// Stores bytes, unless the access is wrong.
    #[inline(always)]
    pub(crate) fn store<const N: usize>(&mut self, place: Place, address: u64, value: [u8; N], site: Site) {
        match located(place, address) {
            (Place::Shared, offset) => self.store_shared(offset, value, site),
            (Place::Local, offset) => {
                self.replace_own(Kind::Write, Target::Local, offset, site, |_| value);
            }
            (Place::Param, offset) => {
                self.find(FindingKind::ReadOnly, Target::Arguments, offset as i64, N, site);
            }
            _ => self.store_global(address, value, site),
        }
    }

    /// Makes the region of an address the one that is looked at first.
    #[inline(always)]
    pub(crate) fn aim(&mut self, place: Place, address: u64) {
        if matches!(place, Place::Global | Place::Const) && self.within::<1>(address, 1).is_none() {
            self.last = self.shared.regions.find(address).unwrap_or(self.last);
        }
    }

    /// The bytes at an address that all lanes share, if nothing about the access has to be looked at.
    #[inline(always)]
    pub(crate) fn peek<const N: usize>(&self, place: Place, address: u64) -> Option<[u8; N]> {
        match place {
            Place::Param => self.shared.arguments.get(address as usize..)?.first_chunk().copied(),
            Place::Global | Place::Const => {
                let (placed, offset) = self.within::<N>(address, N as u64)?;
                placed.region.memory.load(offset).ok()
            }
            _ => None,
        }
    }

    /// Loads the bytes of all lanes whose addresses follow each other, if nothing about the accesses has to
    /// be looked at. Returns whether it did.
    #[inline(always)]
    pub(crate) fn load_row<const N: usize, const L: usize>(
        &mut self,
        place: Place,
        addresses: &[u64; L],
        all: &mut [[u8; N]; L],
    ) -> bool {
        if !are_consecutive::<N, L>(addresses) {
            return false;
        }
        let (target, bytes) = (all.as_flattened_mut(), N * L);
        match place {
            Place::Global | Place::Const => self
                .within::<N>(addresses[0], bytes as u64)
                .is_some_and(|(placed, offset)| placed.region.memory.read(offset, target).is_ok()),
            Place::Shared => {
                let row = self.plain_shared::<N>(shared_offset(addresses[0]), bytes);
                row.map(|it| target.copy_from_slice(it)).is_some()
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
                let memory = placed.region.memory;
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
        let (source, bytes) = (all.as_flattened(), N * L);
        match place {
            Place::Global => self
                .within::<N>(addresses[0], bytes as u64)
                .filter(|(placed, _)| placed.region.is_writable)
                .is_some_and(|(placed, offset)| placed.region.memory.write(offset, source).is_ok()),
            Place::Shared => {
                let row = self.plain_shared::<N>(shared_offset(addresses[0]), bytes);
                row.map(|it| it.copy_from_slice(source)).is_some()
            }
            _ => false,
        }
    }

    /// Bytes of the memory of the block, if nothing is checked but bounds and alignment.
    #[inline(always)]
    fn plain_shared<const N: usize>(&mut self, offset: u64, bytes: usize) -> Option<&mut [u8]> {
        let is_plain = !self.shared.checks.has_shadow() && offset.is_multiple_of(N as u64);
        let rest = self.own.bytes.get_mut(offset as usize..).filter(|_| is_plain);
        rest.and_then(|it| it.get_mut(..bytes))
    }

    /// The region of the last access and an offset in its memory, if `bytes` from an address are in it and
    /// nothing is checked but bounds and alignment.
    #[inline(always)]
    fn within<const N: usize>(&self, address: u64, bytes: u64) -> Option<(&Placed<'a>, u64)> {
        let placed = self.shared.regions.get(self.last)?;
        let offset = address.wrapping_sub(placed.region.address);
        let is_inside = offset < placed.region.length && placed.region.length - offset >= bytes;
        let is_plain = is_inside && address.is_multiple_of(N as u64) && self.shared.shadow.is_none();
        is_plain.then(|| (placed, placed.region.offset + offset))
    }

    /// Replaces bytes by those that `f` makes of them, and returns the former ones.
    pub(crate) fn update<const N: usize>(
        &mut self,
        place: Place,
        address: u64,
        site: Site,
        f: impl Fn([u8; N]) -> [u8; N],
    ) -> [u8; N] {
        match located(place, address) {
            (Place::Shared, offset) => {
                return self.replace_own(Kind::Atomic, Target::Shared, offset, site, f);
            }
            (Place::Local, offset) => return self.replace_own(Kind::Atomic, Target::Local, offset, site, f),
            _ => {}
        }
        let Some((placed, offset)) = self.resolve(address, N, true, site) else { return [0; N] };
        self.note_global(Kind::Atomic, (placed, offset), site, [true; N]);
        let (memory, at) = (placed.region.memory, placed.region.offset + offset);
        let mut before = memory.load(at).unwrap_or([0; N]);
        loop {
            match memory.compare_exchange(at, before, f(before)) {
                Ok(found) if found == before => return before,
                Ok(found) => before = found,
                // In range and writable, as `resolve` checked: but not aligned as its address is.
                Err(_) => {
                    self.find(FindingKind::Misaligned, placed.target, offset as i64, N, site);
                    return [0; N];
                }
            }
        }
    }
}

/// Global memory.
impl<'a> BlockMemory<'a> {
    #[inline(always)]
    fn load_global<const N: usize>(&mut self, address: u64, site: Site) -> [u8; N] {
        if let Some((placed, offset)) = self.within::<N>(address, N as u64) {
            return placed.region.memory.load(offset).unwrap_or([0; N]);
        }
        self.load_global_slowly(address, site)
    }

    #[cold]
    #[inline(never)]
    fn load_global_slowly<const N: usize>(&mut self, address: u64, site: Site) -> [u8; N] {
        let Some((placed, offset)) = self.resolve(address, N, false, site) else { return [0; N] };
        self.note_global(Kind::Read, (placed, offset), site, [true; N]);
        let mut value = [0; N];
        let at = placed.region.offset + offset;
        // Slack may be beyond the end of the memory.
        let present = placed.region.memory.length().saturating_sub(at).min(N as u64) as usize;
        let _ = placed.region.memory.read(at, &mut value[..present]);
        value
    }

    #[inline(always)]
    fn store_global<const N: usize>(&mut self, address: u64, value: [u8; N], site: Site) {
        if let Some((placed, offset)) = self.within::<N>(address, N as u64)
            && placed.region.is_writable
        {
            // In range and writable.
            let _ = placed.region.memory.store(offset, value);
            return;
        }
        self.store_global_slowly(address, value, site);
    }

    #[cold]
    #[inline(never)]
    fn store_global_slowly<const N: usize>(&mut self, address: u64, value: [u8; N], site: Site) {
        let Some((placed, offset)) = self.resolve(address, N, true, site) else { return };
        let at = placed.region.offset + offset;
        if self.shared.shadow.is_some() {
            let before = placed.region.memory.load::<N>(at).unwrap_or(value);
            self.note_global(Kind::Write, (placed, offset), site, changed(before, value));
        }
        let _ = placed.region.memory.store(at, value);
    }

    /// Finds a race of an access, or of the bytes of it that count.
    #[inline(always)]
    fn note_global<const N: usize>(&mut self, kind: Kind, at: At<'_>, site: Site, counts: [bool; N]) {
        let (placed, offset) = at;
        if let Some(shadow) = &self.shared.shadow
            && shadow.access(kind, placed.shadow + offset, &counts, self.actor(site), &self.order)
        {
            self.find(FindingKind::Race, placed.target, offset as i64, N, site);
        }
    }

    /// The region of an access and the offset in it; `None`, with a finding, if it may not be done.
    fn resolve(&mut self, address: u64, bytes: usize, writes: bool, site: Site) -> Option<At<'a>> {
        let outside = if writes { FindingKind::WriteOutOfBounds } else { FindingKind::ReadOutOfBounds };
        let shared = self.shared;
        let regions = &shared.regions;
        let is_in_last = |it: &Placed<'_>| address.wrapping_sub(it.region.address) < it.region.length;
        let last = regions.get(self.last).filter(|it| is_in_last(it)).map(|_| self.last);
        let Some(index) = last.or_else(|| regions.find(address)) else {
            let near = regions.nearest(address).and_then(|it| regions.get(it));
            // A far address has nothing to do with the region before it.
            const FAR: i64 = 1 << 30;
            let (target, offset) =
                match near.map(|it| (it.target, address.wrapping_sub(it.region.address) as i64)) {
                    Some((target, offset)) if (-FAR..FAR).contains(&offset) => (target, offset),
                    _ => (Target::Nothing, address as i64),
                };
            self.find(outside, target, offset, bytes, site);
            return None;
        };
        let placed = regions.get(index)?;
        let (target, offset) = (placed.target, address - placed.region.address);
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
            return Some((placed, offset));
        };
        self.find(kind, target, offset as i64, bytes, site);
        None
    }
}

/// Memory of the block and of its threads.
impl BlockMemory<'_> {
    #[inline(always)]
    fn load_shared<const N: usize>(&mut self, offset: u64, site: Site) -> [u8; N] {
        match self.plain_shared::<N>(offset, N).and_then(|it| it.first_chunk()) {
            Some(bytes) => *bytes,
            None => self.load_own(Target::Shared, offset, site),
        }
    }

    #[inline(always)]
    fn store_shared<const N: usize>(&mut self, offset: u64, value: [u8; N], site: Site) {
        match self.plain_shared::<N>(offset, N).and_then(|it| it.first_chunk_mut()) {
            Some(bytes) => *bytes = value,
            None => drop(self.replace_own(Kind::Write, Target::Shared, offset, site, |_| value)),
        }
    }

    /// Loads from memory of the block or of a thread, with all checks.
    #[inline(never)]
    fn load_own<const N: usize>(&mut self, target: Target, offset: u64, site: Site) -> [u8; N] {
        let Some(at) = self.place(target, offset, N, false, site) else { return [0; N] };
        self.note_own(Kind::Read, (target, at), site, [true; N]);
        self.own(target).bytes[at..].first_chunk().copied().unwrap_or([0; N])
    }

    /// Finds what is wrong with an access to memory of the block or of a thread, or to the bytes of it that
    /// count.
    #[inline(always)]
    fn note_own<const N: usize>(&mut self, kind: Kind, own: (Target, usize), site: Site, counts: [bool; N]) {
        let (target, at) = own;
        let offset = if target == Target::Local { at % self.local_bytes } else { at } as i64;
        if target == Target::Shared
            && let Some(shadow) = &self.races
            && shadow.access(kind, at as u64, &counts, self.actor(site), &self.order)
        {
            self.find(FindingKind::Race, target, offset, N, site);
        }
        let Some(written) = self.own(target).written.get_mut(at..at + N) else { return };
        let is_uninitialized = kind != Kind::Write && written.iter().any(|it| !*it);
        if kind != Kind::Read {
            written.fill(true);
        }
        if is_uninitialized {
            self.find(FindingKind::Uninitialized, target, offset, N, site);
        }
    }

    /// Replaces bytes of memory of the block or of a thread, with all checks, and returns the former ones.
    /// Only this thread of the host accesses them.
    #[inline(never)]
    fn replace_own<const N: usize>(
        &mut self,
        kind: Kind,
        target: Target,
        offset: u64,
        site: Site,
        f: impl Fn([u8; N]) -> [u8; N],
    ) -> [u8; N] {
        let Some(at) = self.place(target, offset, N, true, site) else { return [0; N] };
        self.is_local_used |= target == Target::Local;
        let before = self.own(target).bytes[at..].first_chunk().copied().unwrap_or([0; N]);
        let after = f(before);
        let counts = if kind == Kind::Atomic { [true; N] } else { changed(before, after) };
        self.note_own(kind, (target, at), site, counts);
        self.own(target).bytes[at..at + N].copy_from_slice(&after);
        before
    }

    fn own(&mut self, target: Target) -> &mut Own {
        if target == Target::Local { &mut self.local } else { &mut self.own }
    }

    /// The place of an access in the memory of the block or of the threads, if it is within it and aligned;
    /// else it is found.
    fn place(
        &mut self,
        target: Target,
        offset: u64,
        bytes: usize,
        writes: bool,
        site: Site,
    ) -> Option<usize> {
        let (start, size) = match target {
            Target::Local => ((self.first_thread + site.lane) as usize * self.local_bytes, self.local_bytes),
            _ => (0, self.own.bytes.len()),
        };
        let is_inside = offset.checked_add(bytes as u64).is_some_and(|it| it <= size as u64);
        let kind = match (is_inside, writes) {
            (true, _) if offset.is_multiple_of(bytes as u64) => return Some(start + offset as usize),
            (true, _) => FindingKind::Misaligned,
            (false, true) => FindingKind::WriteOutOfBounds,
            (false, false) => FindingKind::ReadOutOfBounds,
        };
        self.find(kind, target, offset as i64, bytes, site);
        None
    }

    #[inline(always)]
    fn actor(&self, site: Site) -> Actor {
        Actor::new(self.block_bits, self.first_thread + site.lane, &self.order)
    }

    /// Finds a barrier that threads do not reach together.
    pub(crate) fn find_barrier(&mut self, thread: u32, at: u32, id: usize) {
        let site = Site { at, lane: thread.wrapping_sub(self.first_thread) };
        self.find(FindingKind::DivergentBarrier, Target::Barrier, id as i64, 0, site);
    }

    #[cold]
    pub(crate) fn find(&mut self, kind: FindingKind, target: Target, offset: i64, bytes: usize, site: Site) {
        let thread = self.first_thread.wrapping_add(site.lane);
        let (at, bytes, block) = (site.at, bytes as u32, self.block);
        self.found.add(Found { kind, at, target, offset, bytes, block, thread, count: 1 });
    }
}

/// Which bytes differ.
#[inline(always)]
fn changed<const N: usize>(before: [u8; N], after: [u8; N]) -> [bool; N] {
    std::array::from_fn(|it| before[it] != after[it])
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

/// The space of an access, and the offset in it if that is not global memory.
#[inline(always)]
fn located(place: Place, address: u64) -> (Place, u64) {
    if matches!(place, Place::Global | Place::Const) {
        return (place, address);
    }
    match (place, window(address)) {
        (Place::Generic | Place::Shared, SHARED_WINDOW) => (Place::Shared, address - SHARED_WINDOW),
        (Place::Generic | Place::Local, LOCAL_WINDOW) => (Place::Local, address - LOCAL_WINDOW),
        (Place::Generic, ARGUMENT_WINDOW) => (Place::Param, address - ARGUMENT_WINDOW),
        _ => (place, address),
    }
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
