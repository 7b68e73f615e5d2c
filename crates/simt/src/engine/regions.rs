use std::sync::atomic::AtomicU64;

use rehal_base::{Error, Result};

use super::shadow::Shadow;
use super::windows::{ARGUMENT_WINDOW, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES};
use crate::finding::Target;
use crate::region::{Checks, Region};

/// State that all threads which run blocks of a launch share.
pub(crate) struct Shared<'a> {
    pub regions: Regions<'a>,
    pub arguments: &'a [u8],
    pub checks: Checks,
    /// Thread instructions that the launch may execute.
    pub budget: u64,
    pub spent: AtomicU64,
    pub shadow: Option<Shadow>,
}

/// Regions by address.
pub(crate) struct Regions<'a> {
    all: Vec<Placed<'a>>,
    /// Bytes of the shadow of all.
    pub shadow_bytes: u64,
}

pub(crate) struct Placed<'a> {
    pub region: Region<'a>,
    pub target: Target,
    /// Where its bytes are in the shadow of the grid, in which each byte of memory has one place.
    pub shadow: u64,
}

impl<'a> Regions<'a> {
    /// Fails if regions overlap each other or a window of the address space, or are not within their memory.
    pub(crate) fn new(regions: &[Region<'a>], variables: Option<Region<'a>>) -> Result<Self> {
        let given = regions.iter().enumerate().map(|(index, it)| (*it, Target::Region(index)));
        let all = given.chain(variables.map(|it| (it, Target::Variables)));
        let mut all: Vec<_> = all
            .map(|(region, target)| Placed { region, target, shadow: 0 })
            .filter(|it| it.end() > it.region.address)
            .collect();
        all.sort_by_key(|it| it.region.address);
        for placed in &all {
            let Region { address, length, offset, memory, .. } = placed.region;
            let is_within = offset.checked_add(length).is_some_and(|it| it <= memory.length());
            if !is_within {
                let size = memory.length();
                return Err(Error::out_of_range(format!(
                    "{length} bytes at offset {offset} exceed memory of {size} bytes"
                )));
            }
            for window in [SHARED_WINDOW, LOCAL_WINDOW, ARGUMENT_WINDOW] {
                if address < window + WINDOW_BYTES && window < placed.end() {
                    return Err(Error::invalid_argument(format!(
                        "address {address:#x} is in the window of another state space"
                    )));
                }
            }
        }
        if let Some(pair) =
            all.windows(2).find(|it| it[0].region.address + it[0].region.length > it[1].region.address)
        {
            let (a, b) = (pair[0].region.address, pair[1].region.address);
            return Err(Error::invalid_argument(format!("regions at {a:#x} and {b:#x} overlap")));
        }
        let shadow_bytes = place_shadows(&mut all);
        Ok(Self { all, shadow_bytes })
    }

    /// The index of the region that contains an address, or whose slack does.
    #[inline]
    pub(crate) fn find(&self, address: u64) -> Option<usize> {
        let index = self.all.partition_point(|it| it.region.address <= address).checked_sub(1)?;
        (address < self.all[index].end()).then_some(index)
    }

    /// The index of the region that starts at or before an address, or of the first.
    pub(crate) fn nearest(&self, address: u64) -> Option<usize> {
        let index = self.all.partition_point(|it| it.region.address <= address).saturating_sub(1);
        (!self.all.is_empty()).then_some(index)
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&Placed<'a>> {
        self.all.get(index)
    }
}

impl Placed<'_> {
    /// The end of its slack.
    pub(crate) fn end(&self) -> u64 {
        self.region.address.saturating_add(self.region.length).saturating_add(self.region.slack)
    }
}

/// Gives each byte of memory, which several regions may show, a place in the shadow. Returns its size.
fn place_shadows(all: &mut [Placed<'_>]) -> u64 {
    let start = |it: &Placed<'_>| it.region.memory.as_ptr().addr() as u64 + it.region.offset;
    let mut by_memory: Vec<_> = all.iter_mut().collect();
    by_memory.sort_by_key(|it| start(it));
    let (mut memory_end, mut end, mut base) = (0, 0_u64, 0);
    for placed in by_memory {
        let (at, size) = (start(placed), placed.end() - placed.region.address);
        if at >= memory_end {
            // Of an access that is aligned, all bytes are in one page of the shadow.
            base = (end.next_multiple_of(64) + at % 64).wrapping_sub(at);
        }
        placed.shadow = at.wrapping_add(base);
        (memory_end, end) =
            (memory_end.max(at.saturating_add(size)), end.max(placed.shadow.saturating_add(size)));
    }
    end
}
