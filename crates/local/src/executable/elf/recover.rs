//! Finds the functions of an image that does not list them, by the flow of control from what is known to be called: the exported
//! functions, and what they call.
//!
//! A function is what its first instruction leads to, up to the next function. One of which that is not certain is left out.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

use super::image::{Image, file_offset};
use super::strip::word;

/// Maximum number of times that all functions are followed; each finds functions that those of the one before call.
const MAX_ROUNDS: usize = 32;
/// Maximum number of bytes of an instruction.
const MAX_INSTRUCTION_BYTES: u64 = 15;
/// Maximum number of entries of all tables of jumps.
const MAX_ENTRIES: u32 = 1 << 20;

/// The functions of an image.
pub(super) struct Recovered {
    /// Where they begin.
    pub starts: BTreeSet<u64>,
    /// Their ends by their starts, of those of which all code is known.
    pub functions: BTreeMap<u64, u64>,
}

/// Follows the code of an image from `roots`, those of which that are code. `None` if functions overlap, or there are too many.
pub(super) fn recover(image: &Image<'_>, roots: impl Iterator<Item = u64>) -> Option<Recovered> {
    let mut starts: BTreeSet<u64> = roots.filter(|it| is_code(image, *it)).collect();
    let mut entries = MAX_ENTRIES;
    for _ in 0..MAX_ROUNDS {
        let mut functions = BTreeMap::new();
        let mut called = BTreeSet::new();
        for start in &starts {
            let next = starts.range(start + 1..).next().copied();
            let mut flow = Flow::new(image, *start, next)?;
            let is_followed = flow.follow(&mut entries).is_some();
            called.append(&mut flow.called);
            if let Some(end) = flow.end().filter(|_| is_followed) {
                functions.insert(*start, end);
            }
        }
        let before = starts.len();
        starts.append(&mut called);
        if starts.len() == before {
            return Some(Recovered { starts, functions });
        }
    }
    None
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

    /// Reaches all instructions. `None` if one is invalid, or what is reached leaves the function by falling into the next.
    fn follow(&mut self, entries: &mut u32) -> Option<()> {
        let mut pending = vec![self.start];
        let mut is_followed = true;
        loop {
            while let Some(at) = pending.pop() {
                // Other paths still tell what is called.
                is_followed &= self.block(at, &mut pending).is_some();
            }
            if !self.has_indirect_jump {
                break;
            }
            pending = self.jump_targets(entries)?;
            pending.retain(|it| !self.reached.contains_key(it));
            if pending.is_empty() {
                break;
            }
        }
        is_followed.then_some(())
    }

    /// Reaches the instructions from an address to the next jump.
    fn block(&mut self, mut at: u64, pending: &mut Vec<u64>) -> Option<()> {
        let mut instruction = Instruction::default();
        while !self.reached.contains_key(&at) {
            let rest = self.code.get((at - self.start) as usize..).filter(|it| !it.is_empty())?;
            let rest = &rest[..rest.len().min(MAX_INSTRUCTION_BYTES as usize)];
            Decoder::with_ip(64, rest, at, DecoderOptions::NONE).decode_out(&mut instruction);
            if instruction.is_invalid() {
                return None;
            }
            self.reached.insert(at, instruction.next_ip());
            if instruction.is_ip_rel_memory_operand() {
                self.refer_to(instruction.ip_rel_memory_address());
            }
            let is_branch = (0..instruction.op_count())
                .any(|operand| instruction.op_kind(operand) == OpKind::NearBranch64);
            if is_branch {
                self.branch(&instruction, pending)?;
            }
            match instruction.flow_control() {
                FlowControl::UnconditionalBranch | FlowControl::Return | FlowControl::Exception => {
                    return Some(());
                }
                FlowControl::IndirectBranch => {
                    self.has_indirect_jump = true;
                    return Some(());
                }
                FlowControl::XbeginXabortXend => return None,
                _ => at = instruction.next_ip(),
            }
        }
        Some(())
    }

    /// Follows a branch in the function; what is elsewhere is another function.
    fn branch(&mut self, instruction: &Instruction, pending: &mut Vec<u64>) -> Option<()> {
        let target = instruction.near_branch_target();
        let is_call = instruction.flow_control() == FlowControl::Call;
        if !is_call && (self.start..self.limit).contains(&target) {
            pending.push(target);
            return Some(());
        }
        if !is_code(self.image, target) {
            return None;
        }
        if target != self.start {
            self.called.insert(target);
        }
        Some(())
    }

    fn refer_to(&mut self, address: u64) {
        match is_code(self.image, address) {
            true => drop(self.called.insert(address)),
            false => drop(self.data.insert(address)),
        }
    }

    /// Where the tables of distances from their start to the function lead to. `None` if there are too many.
    fn jump_targets(&self, entries: &mut u32) -> Option<Vec<u64>> {
        let mut targets = Vec::new();
        for table in &self.data {
            // The next data that it refers to is not part of it.
            let end = self.data.range(table + 1..).next().copied().unwrap_or(u64::MAX);
            let mut at = *table;
            while let Some(next) = at.checked_add(4).filter(|it| *it <= end) {
                let Some(distance) = word(self.image, at) else { break };
                let target = table.wrapping_add_signed(i64::from(distance.cast_signed()));
                if !(self.start..self.limit).contains(&target) {
                    break;
                }
                targets.push(target);
                *entries = entries.checked_sub(1)?;
                at = next;
            }
        }
        Some(targets)
    }

    /// The end of the function, if all its code is known: instructions do not overlap, and what is between them is padding. If it jumps
    /// to addresses that it computes, so is what follows.
    fn end(&self) -> Option<u64> {
        let mut at = self.start;
        for (start, end) in &self.reached {
            if *start < at || !self.is_padding(at, *start) {
                return None;
            }
            at = *end;
        }
        let is_known = at <= self.limit && (!self.has_indirect_jump || self.is_padding(at, self.limit));
        is_known.then_some(at)
    }

    /// Whether the bytes do nothing, as those between functions and before loops.
    fn is_padding(&self, start: u64, end: u64) -> bool {
        let range = (start - self.start) as usize..(end - self.start) as usize;
        let Some(bytes) = self.code.get(range) else { return false };
        let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
        while decoder.can_decode() {
            let instruction = decoder.decode();
            let is_nothing = instruction.mnemonic() == iced_x86::Mnemonic::Nop
                || instruction.code() == iced_x86::Code::Int3;
            // Zeros up to the end of a segment.
            if !is_nothing && bytes[(instruction.ip() - start) as usize..].iter().any(|byte| *byte != 0) {
                return false;
            }
        }
        true
    }
}
