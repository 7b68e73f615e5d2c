//! Finds the functions of an image that does not list them, by the flow of control from what is known to be called: the exported
//! functions, and what they call.
//!
//! A function is what its first instruction leads to, up to the next function. One of which that is not certain is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

use super::image::{Image, file_offset};
use super::strip::word;

/// Maximum number of bytes of an instruction.
const MAX_INSTRUCTION_BYTES: u64 = 15;
/// Maximum number of steps for each byte of code: a function is followed again when one is found that begins before its end.
const STEPS_PER_BYTE: u64 = 8;
/// Steps for the tables of jumps of a small image.
const BASE_STEPS: u64 = 1 << 20;
/// Maximum number of steps for an image: 16 Mi instructions.
const MAX_STEPS: u64 = 1 << 24;
/// The zeros that are compared in a step.
const ZEROS_PER_STEP: usize = 64;

/// The functions of an image.
pub(super) struct Recovered {
    /// Where they begin.
    pub starts: BTreeSet<u64>,
    /// Their ends by their starts, of those of which all code is known.
    pub functions: BTreeMap<u64, u64>,
}

/// Follows the code of an image from those of `roots` that are addresses of code. `None` if that takes too many steps, or the file
/// does not contain the code.
pub(super) fn recover(image: &Image<'_>, roots: impl Iterator<Item = u64>) -> Option<Recovered> {
    let mut starts: BTreeSet<u64> = roots.filter(|it| is_code(image, *it)).collect();
    let mut pending = starts.clone();
    let mut functions = BTreeMap::new();
    let mut steps = Steps::of(image);
    while let Some(start) = pending.pop_first() {
        let mut flow = Flow::new(image, start, after(&starts, start))?;
        let is_followed = flow.follow(&mut steps)?;
        let end = if is_followed { flow.end(&mut steps)? } else { None };
        match end {
            Some(end) => drop(functions.insert(start, end)),
            None => drop(functions.remove(&start)),
        }
        for called in flow.called {
            if starts.insert(called) {
                pending.insert(called);
                // The function before ends earlier now.
                pending.extend(starts.range(..called).next_back());
            }
        }
    }
    Some(Recovered { starts, functions })
}

/// The least of the addresses that is greater.
pub(super) fn after(addresses: &BTreeSet<u64>, address: u64) -> Option<u64> {
    addresses.range((Bound::Excluded(address), Bound::Unbounded)).next().copied()
}

/// How much work is left: instructions to decode, entries of tables to read, and zeros to compare. Images are untrusted.
struct Steps {
    left: u64,
}

impl Steps {
    fn of(image: &Image<'_>) -> Self {
        let code = image.segments().iter().filter(|it| it.is_executable());
        let bytes = code.fold(0_u64, |bytes, it| bytes.saturating_add(it.file_size));
        let left = bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(BASE_STEPS).min(MAX_STEPS);
        Self { left }
    }

    /// `None` if fewer are left.
    fn take(&mut self, count: u64) -> Option<()> {
        self.left = self.left.checked_sub(count)?;
        Some(())
    }
}

fn is_code(image: &Image<'_>, address: u64) -> bool {
    image.segments().iter().any(|it| it.is_executable() && it.holds(address, 1))
}

/// The code that a function leads to.
struct Flow<'i, 'a> {
    image: &'i Image<'a>,
    start: u64,
    /// The next function begins here, or the code ends.
    limit: u64,
    /// The bytes from `start` to `limit`.
    code: &'a [u8],
    /// The instructions that are reached: their ends by their addresses.
    reached: BTreeMap<u64, u64>,
    /// Functions that it calls or jumps to, or whose address it takes.
    called: BTreeSet<u64>,
    /// The data that it refers to.
    data: BTreeSet<u64>,
    /// Whether it jumps to an address that it computes.
    has_indirect_jump: bool,
}

impl<'i, 'a> Flow<'i, 'a> {
    fn new(image: &'i Image<'a>, start: u64, next: Option<u64>) -> Option<Self> {
        let segment = image.segments().iter().find(|it| it.is_executable() && it.holds(start, 1))?;
        let end = segment.vaddr.checked_add(segment.file_size)?;
        let limit = next.map_or(end, |next| next.min(end));
        let offset = file_offset(image.segments(), start, limit.checked_sub(start)?)?;
        let code = image.file.take(offset, limit - start, "code").ok()?;
        Some(Self {
            image,
            start,
            limit,
            code,
            reached: BTreeMap::new(),
            called: BTreeSet::new(),
            data: BTreeSet::new(),
            has_indirect_jump: false,
        })
    }

    /// Reaches all instructions. False if one is invalid, or what is reached leaves the function by falling into the next; `None`
    /// if there are too many.
    fn follow(&mut self, steps: &mut Steps) -> Option<bool> {
        let mut pending = vec![self.start];
        let mut is_followed = true;
        loop {
            while let Some(at) = pending.pop() {
                // Other paths still tell what is called.
                is_followed &= self.block(at, &mut pending, steps)?;
            }
            if !self.has_indirect_jump {
                break;
            }
            pending = self.jump_targets(steps)?;
            pending.retain(|it| !self.reached.contains_key(it));
            if pending.is_empty() {
                break;
            }
        }
        Some(is_followed)
    }

    /// Reaches the instructions from an address to the next jump. False if that fails, `None` if there are too many.
    fn block(&mut self, mut at: u64, pending: &mut Vec<u64>, steps: &mut Steps) -> Option<bool> {
        let mut instruction = Instruction::default();
        while !self.reached.contains_key(&at) {
            steps.take(1)?;
            let rest = self.code.get((at - self.start) as usize..).filter(|it| !it.is_empty());
            let Some(rest) = rest else { return Some(false) };
            let rest = &rest[..rest.len().min(MAX_INSTRUCTION_BYTES as usize)];
            Decoder::with_ip(64, rest, at, DecoderOptions::NONE).decode_out(&mut instruction);
            if instruction.is_invalid() {
                return Some(false);
            }
            self.reached.insert(at, instruction.next_ip());
            if instruction.is_ip_rel_memory_operand() {
                self.refer_to(instruction.ip_rel_memory_address());
            }
            let is_branch = (0..instruction.op_count())
                .any(|operand| instruction.op_kind(operand) == OpKind::NearBranch64);
            if is_branch && !self.branch(&instruction, pending) {
                return Some(false);
            }
            match instruction.flow_control() {
                FlowControl::UnconditionalBranch | FlowControl::Return | FlowControl::Exception => {
                    return Some(true);
                }
                FlowControl::IndirectBranch => {
                    self.has_indirect_jump = true;
                    return Some(true);
                }
                FlowControl::XbeginXabortXend => return Some(false),
                _ => at = instruction.next_ip(),
            }
        }
        Some(true)
    }

    /// Follows a branch in the function; what is elsewhere is another function. False if it is not code.
    fn branch(&mut self, instruction: &Instruction, pending: &mut Vec<u64>) -> bool {
        let target = instruction.near_branch_target();
        let is_call = instruction.flow_control() == FlowControl::Call;
        if !is_call && (self.start..self.limit).contains(&target) {
            pending.push(target);
            return true;
        }
        if !is_code(self.image, target) {
            return false;
        }
        if target != self.start {
            self.called.insert(target);
        }
        true
    }

    fn refer_to(&mut self, address: u64) {
        match is_code(self.image, address) {
            true => drop(self.called.insert(address)),
            false => drop(self.data.insert(address)),
        }
    }

    /// Where the tables of distances from their start to the function lead to. `None` if there are too many.
    fn jump_targets(&self, steps: &mut Steps) -> Option<Vec<u64>> {
        let mut targets = Vec::new();
        for table in &self.data {
            // The next data that it refers to is not part of it.
            let end = after(&self.data, *table).unwrap_or(u64::MAX);
            steps.take(1)?;
            let mut at = *table;
            while let Some(next) = at.checked_add(4).filter(|it| *it <= end) {
                let Some(distance) = word(self.image, at) else { break };
                let target = table.wrapping_add_signed(i64::from(distance.cast_signed()));
                if !(self.start..self.limit).contains(&target) {
                    break;
                }
                targets.push(target);
                steps.take(1)?;
                at = next;
            }
        }
        Some(targets)
    }

    /// The end of the function, if all its code is known: instructions do not overlap, and what is between them is padding. If it jumps
    /// to addresses that it computes, so is what follows. `None` if that takes too many steps.
    fn end(&self, steps: &mut Steps) -> Option<Option<u64>> {
        let mut at = self.start;
        for (start, end) in &self.reached {
            if *start < at || !self.is_padding(at, *start, steps)? {
                return Some(None);
            }
            at = *end;
        }
        let is_known =
            at <= self.limit && (!self.has_indirect_jump || self.is_padding(at, self.limit, steps)?);
        Some(is_known.then_some(at))
    }

    /// Whether the bytes do nothing, as those between functions and before loops, or are zeros up to the end of a segment.
    fn is_padding(&self, start: u64, end: u64, steps: &mut Steps) -> Option<bool> {
        let range = (start - self.start) as usize..(end - self.start) as usize;
        let Some(bytes) = self.code.get(range) else { return Some(false) };
        let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
        while decoder.can_decode() {
            steps.take(1)?;
            let instruction = decoder.decode();
            let is_nothing = instruction.mnemonic() == iced_x86::Mnemonic::Nop
                || instruction.code() == iced_x86::Code::Int3;
            if !is_nothing {
                let rest = &bytes[(instruction.ip() - start) as usize..];
                let zeros = rest.iter().position(|byte| *byte != 0);
                steps.take((zeros.unwrap_or(rest.len()) / ZEROS_PER_STEP) as u64)?;
                return Some(zeros.is_none());
            }
        }
        Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::strip::Code;
    use super::super::strip::tests::captured;
    use super::*;

    const LENGTH: usize = 8 << 20;

    fn flow<'i, 'a>(image: &'i Image<'a>, code: &'a [u8]) -> Flow<'i, 'a> {
        Flow {
            image,
            start: 0,
            limit: code.len() as u64,
            code,
            reached: BTreeMap::new(),
            called: BTreeSet::new(),
            data: BTreeSet::new(),
            has_indirect_jump: true,
        }
    }

    #[test]
    fn a_gap_is_read_once() {
        let bytes = captured("mlp.mlp.local-sync.ireereplay");
        let image = Image::parse(&bytes).unwrap();
        let mut code = vec![0; LENGTH];
        code[..4].fill(0x90);
        let zeros = code.clone();
        code[LENGTH - 1] = 1;
        for (code, is_padding) in [(&zeros, true), (&code, false)] {
            let mut steps = Steps { left: 10 + (LENGTH / ZEROS_PER_STEP) as u64 };
            let found = flow(&image, code).is_padding(0, LENGTH as u64, &mut steps);
            assert_eq!((found, steps.left < 10), (Some(is_padding), true));
            assert_eq!(flow(&image, code).is_padding(0, LENGTH as u64, &mut Steps { left: 100 }), None);
        }
    }

    #[test]
    fn tables_without_entries_are_counted() {
        let bytes = captured("mlp.mlp.local-sync.ireereplay");
        let image = Image::parse(&bytes).unwrap();
        let mut flow = flow(&image, &[]);
        // Outside the image, and the last one at the greatest address.
        flow.data.extend(u64::MAX - 99..=u64::MAX);
        let mut steps = Steps { left: 150 };
        assert_eq!(flow.jump_targets(&mut steps), Some(Vec::new()));
        assert_eq!(steps.left, 50);
        assert_eq!(flow.jump_targets(&mut steps), None);
    }

    #[test]
    fn a_long_chain_of_calls_is_followed() {
        const LINKS: u64 = 40;
        let mut bytes = captured("mlp.mlp.local-sync.ireereplay");
        let image = Image::parse(&bytes).unwrap();
        let start = Code::read(&image).unwrap().exports[0];
        let offset = file_offset(image.segments(), start, 16 * (LINKS + 1)).unwrap() as usize;
        for link in 0..=LINKS as usize {
            let code = &mut bytes[offset + 16 * link..][..16];
            // A call of the next, but for the last one, and a return.
            code.fill(0xCC);
            let end = if link == LINKS as usize { 0 } else { 5 };
            code[..end].copy_from_slice(&[0xE8, 11, 0, 0, 0][..end]);
            code[end] = 0xC3;
        }
        let image = Image::parse(&bytes).unwrap();
        let found = recover(&image, [start].into_iter()).unwrap();
        let starts: Vec<u64> = (0..=LINKS).map(|link| start + 16 * link).collect();
        assert!(found.starts.iter().eq(&starts), "{:?}", found.starts);
        assert!(found.functions.keys().eq(&starts), "{:?}", found.functions);
    }
}
