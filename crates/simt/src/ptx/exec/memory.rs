use super::super::op::{Access, Atomic, AtomicFn, Place};
use super::super::types::Type;
use super::lanes::{LANES, Long, Step, Warp, lanes_of, truth};
use crate::engine::{BlockMemory, LOCAL_WINDOW, SHARED_WINDOW, Site, WINDOW_BYTES};
use crate::numbers::{BF16, F16, Rounding, from_bf16, from_f16, odd_sum};

/// Calls a function for the bytes of an element, and of all elements.
macro_rules! by_size {
    ($access:ident, $warp:ident.$f:ident($($argument:expr),+)) => {
        match ($access.bytes, $access.count) {
            (1, 1) => $warp.$f::<1, 1>($($argument),+),
            (1, 2) => $warp.$f::<1, 2>($($argument),+),
            (1, _) => $warp.$f::<1, 4>($($argument),+),
            (2, 1) => $warp.$f::<2, 2>($($argument),+),
            (2, 2) => $warp.$f::<2, 4>($($argument),+),
            (2, _) => $warp.$f::<2, 8>($($argument),+),
            (4, 1) => $warp.$f::<4, 4>($($argument),+),
            (4, 2) => $warp.$f::<4, 8>($($argument),+),
            (4, 4) => $warp.$f::<4, 16>($($argument),+),
            (4, _) => $warp.$f::<4, 32>($($argument),+),
            (_, 1) => $warp.$f::<8, 8>($($argument),+),
            (_, 2) => $warp.$f::<8, 16>($($argument),+),
            _ => $warp.$f::<8, 32>($($argument),+),
        }
    };
}

impl Warp {
    /// The address of each lane.
    #[inline(always)]
    fn addresses(&self, base: u32, is_short: bool, offset: i64) -> Long {
        match is_short {
            // Computed in 32 bits.
            true => self.short[base as usize].map(|it| it.wrapping_add(offset as u32).into()),
            false => self.long[base as usize].map(|it| it.wrapping_add(offset as u64)),
        }
    }

    #[inline(always)]
    pub(super) fn load(&mut self, access: &Access, step: Step<'_>, memory: &mut BlockMemory<'_>) {
        by_size!(access, self.load_elements(access, step, memory));
    }

    /// Loads `N` bytes for each lane, which are elements of `B` bytes.
    fn load_elements<const B: usize, const N: usize>(
        &mut self,
        access: &Access,
        step: Step<'_>,
        memory: &mut BlockMemory<'_>,
    ) {
        let addresses = &self.addresses(step.inst.a, access.short_address, step.inst.imm);
        memory.aim(access.place, addresses[0]);
        let is_uniform = addresses.iter().all(|it| *it == addresses[0]);
        if is_uniform && let Some(bytes) = memory.peek::<N>(access.place, addresses[0]) {
            for element in 0..N / B {
                let reg = if N == B { step.inst.d } else { step.lists[step.inst.c as usize + element] };
                let value = extended::<B, N>(access, &bytes, element);
                match access.long {
                    true => self.set_long(reg, step.mask, &[value; LANES]),
                    false => self.set(reg, step.mask, &[value as u32; LANES]),
                }
            }
            return;
        }
        let mut all = [[0; N]; LANES];
        let is_done = step.mask == u32::MAX
            && (memory.load_row(access.place, addresses, &mut all)
                || memory.gather(access.place, addresses, &mut all));
        if !is_done {
            for lane in lanes_of(step.mask) {
                all[lane] = memory.load::<N>(access.place, addresses[lane], step.site(lane));
            }
        }
        for element in 0..N / B {
            let reg = if N == B { step.inst.d } else { step.lists[step.inst.c as usize + element] };
            match access.long {
                true => self.set_long(reg, step.mask, &all.map(|it| extended::<B, N>(access, &it, element))),
                // A signed byte in a register of 16 bits is narrowed by the next instruction.
                false if B == 4 => self.set(reg, step.mask, &all.map(|it| word(&it, element))),
                false => {
                    self.set(reg, step.mask, &all.map(|it| extended::<B, N>(access, &it, element) as u32))
                }
            }
        }
    }

    #[inline(always)]
    pub(super) fn store(&mut self, access: &Access, step: Step<'_>, memory: &mut BlockMemory<'_>) {
        by_size!(access, self.store_elements(access, step, memory));
    }

    fn store_elements<const B: usize, const N: usize>(
        &mut self,
        access: &Access,
        step: Step<'_>,
        memory: &mut BlockMemory<'_>,
    ) {
        let addresses = &self.addresses(step.inst.a, access.short_address, step.inst.imm);
        memory.aim(access.place, addresses[0]);
        let mut all = [[0; N]; LANES];
        for element in 0..N / B {
            let reg = if N == B { step.inst.b } else { step.lists[step.inst.c as usize + element] };
            for lane in 0..LANES {
                let value = self.get(access.long, reg, lane);
                all[lane][element * B..][..B].copy_from_slice(&value.to_le_bytes()[..B]);
            }
        }
        if step.mask == u32::MAX && memory.store_row(access.place, addresses, &all) {
            return;
        }
        for lane in lanes_of(step.mask) {
            memory.store(access.place, addresses[lane], all[lane], step.site(lane));
        }
    }

    pub(super) fn copy_async(
        &mut self,
        bytes: u8,
        is_short: bool,
        sized: bool,
        step: Step<'_>,
        memory: &mut BlockMemory<'_>,
    ) {
        let list = step.list(4);
        let offset = |low: usize| (u64::from(list[low]) | u64::from(list[low + 1]) << 32) as i64;
        let (from, to) =
            (self.addresses(step.inst.b, false, offset(0)), self.addresses(step.inst.a, is_short, offset(2)));
        for lane in lanes_of(step.mask) {
            let site = step.site(lane);
            let size = if sized { self.short[step.inst.c as usize][lane] as usize } else { 16 };
            match bytes {
                4 => copy_sized::<4>(from[lane], to[lane], size, site, memory),
                8 => copy_sized::<8>(from[lane], to[lane], size, site, memory),
                _ => copy_sized::<16>(from[lane], to[lane], size, site, memory),
            }
        }
    }

    pub(super) fn atomic(&mut self, atomic: &Atomic, step: Step<'_>, memory: &mut BlockMemory<'_>) {
        let addresses = self.addresses(step.inst.a, atomic.short_address, step.inst.imm);
        let long = atomic.kind.bits() == 64;
        for lane in lanes_of(step.mask) {
            let sources = [step.inst.b, step.inst.c].map(|it| self.get(long, it, lane));
            let (address, site) = (addresses[lane], step.site(lane));
            let before = match atomic.kind.bits() {
                64 => update::<8>(atomic, address, sources, site, memory),
                16 => update::<2>(atomic, address, sources, site, memory),
                _ => update::<4>(atomic, address, sources, site, memory),
            };
            if atomic.returns {
                self.put(long, step.inst.d, 1 << lane, &[before; LANES]);
            }
        }
    }

    pub(super) fn is_space(&mut self, place: Place, step: Step<'_>) {
        let window = |address: u64| address & !(WINDOW_BYTES - 1);
        self.narrow(step, |a| {
            let is_there = match place {
                Place::Shared => window(a) == SHARED_WINDOW,
                Place::Local => window(a) == LOCAL_WINDOW,
                Place::Param | Place::Const => false,
                _ => !matches!(window(a), SHARED_WINDOW | LOCAL_WINDOW),
            };
            truth(is_there)
        });
    }

    pub(super) fn space_to_generic(&mut self, place: Place, step: Step<'_>) {
        let window = window_of(place);
        self.one_long(step, |a| if a < WINDOW_BYTES { a + window } else { a });
    }

    pub(super) fn generic_to_space(&mut self, place: Place, step: Step<'_>) {
        let window = window_of(place);
        let is_there = |a: u64| window != 0 && a & !(WINDOW_BYTES - 1) == window;
        self.one_long(step, |a| if is_there(a) { a - window } else { a });
    }
}

/// An element of `B` bytes, extended to 64 bits.
#[inline(always)]
fn extended<const B: usize, const N: usize>(access: &Access, bytes: &[u8; N], element: usize) -> u64 {
    let mut wide = [0; 8];
    wide[..B].copy_from_slice(&bytes[element * B..][..B]);
    let (value, shift) = (u64::from_le_bytes(wide), 64 - 8 * B as u32);
    if access.signed { ((value << shift) as i64 >> shift) as u64 } else { value }
}

#[inline(always)]
fn word<const N: usize>(bytes: &[u8; N], element: usize) -> u32 {
    bytes[4 * element..].first_chunk().map_or(0, |it| u32::from_le_bytes(*it))
}

/// The window of a space whose addresses are not generic ones.
fn window_of(place: Place) -> u64 {
    match place {
        Place::Shared => SHARED_WINDOW,
        Place::Local => LOCAL_WINDOW,
        Place::Param => crate::engine::ARGUMENT_WINDOW,
        _ => 0,
    }
}

/// Copies `size` bytes, and zeros for the rest.
fn copy_sized<const N: usize>(from: u64, to: u64, size: usize, site: Site, memory: &mut BlockMemory<'_>) {
    let mut bytes = [0; N];
    if size >= N {
        bytes = memory.load::<N>(Place::Global, from, site);
    } else {
        for (index, byte) in bytes[..size].iter_mut().enumerate() {
            [*byte] = memory.load::<1>(Place::Global, from.wrapping_add(index as u64), site);
        }
    }
    memory.store(Place::Shared, to, bytes, site);
}

/// Updates `N` bytes of memory, and returns the former ones.
fn update<const N: usize>(
    atomic: &Atomic,
    address: u64,
    [b, c]: [u64; 2],
    site: Site,
    memory: &mut BlockMemory<'_>,
) -> u64 {
    let wide = |bytes: [u8; N]| bytes.iter().rev().fold(0, |all, it| all << 8 | u64::from(*it));
    wide(memory.update(atomic.place, address, site, |it| {
        let after = updated(atomic, wide(it), b, c).to_le_bytes();
        std::array::from_fn(|byte| after[byte])
    }))
}

/// The bits that an atomic operation makes of `a`.
fn updated(atomic: &Atomic, a: u64, b: u64, c: u64) -> u64 {
    let long = atomic.kind.bits() == 64;
    let signed = |it: u64| if long { it as i64 } else { i64::from(it as u32 as i32) };
    match atomic.f {
        AtomicFn::Add => match atomic.kind {
            Type::F32 => (f32::from_bits(a as u32) + f32::from_bits(b as u32)).to_bits().into(),
            Type::F64 => (f64::from_bits(a) + f64::from_bits(b)).to_bits(),
            Type::F16 => add_halves(a as u32, b as u32, true).into(),
            Type::Bf16 => add_halves(a as u32, b as u32, false).into(),
            Type::F16x2 | Type::Bf16x2 => {
                let is_f16 = atomic.kind == Type::F16x2;
                let low = add_halves(a as u32 & 0xffff, b as u32 & 0xffff, is_f16);
                u64::from(low | add_halves(a as u32 >> 16, b as u32 >> 16, is_f16) << 16)
            }
            _ => a.wrapping_add(b),
        },
        AtomicFn::Min if atomic.kind.is_signed() => chosen(signed(a) <= signed(b), a, b),
        AtomicFn::Max if atomic.kind.is_signed() => chosen(signed(a) >= signed(b), a, b),
        AtomicFn::Min => a.min(b),
        AtomicFn::Max => a.max(b),
        AtomicFn::Inc => chosen(a >= b, 0, a.wrapping_add(1)),
        AtomicFn::Dec => chosen(a == 0 || a > b, b, a.wrapping_sub(1)),
        AtomicFn::And => a & b,
        AtomicFn::Or => a | b,
        AtomicFn::Xor => a ^ b,
        AtomicFn::Exch => b,
        AtomicFn::Cas => chosen(a == b, c, a),
    }
}

fn chosen(is_first: bool, first: u64, second: u64) -> u64 {
    if is_first { first } else { second }
}

fn add_halves(a: u32, b: u32, is_f16: bool) -> u32 {
    match is_f16 {
        true => F16.round(f64::from(from_f16(a)) + f64::from(from_f16(b)), Rounding::Nearest),
        false => BF16.round(odd_sum(from_bf16(a).into(), from_bf16(b).into()), Rounding::Nearest),
    }
}
