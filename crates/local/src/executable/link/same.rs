//! Whether functions of two images are the same code.

use std::collections::HashMap;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

use super::view::View;
use crate::executable::elf::{self, X86_64};

use super::ElfLibrary;

/// More instructions are not compared.
const MAX_INSTRUCTIONS: usize = 1 << 18;
/// The longest instruction of x86-64, in bytes.
const LONGEST: u64 = 15;

/// Whether a function of an image has the same code as one of another image, byte for byte, wherever both
/// are: each instruction, and each constant that one of them loads. `false` if that cannot be told, such as
/// of a jump through a table, and for other processors than x86-64.
pub fn is_same_code(one: (&[u8], u32), other: (&[u8], u32)) -> bool {
    let view = |bytes| View::read(elf::own_image(bytes).ok()?).ok();
    let (Some(one_view), Some(other_view)) = (view(one.0), view(other.0)) else { return false };
    let libraries = (ElfLibrary::of(&one_view), ElfLibrary::of(&other_view));
    let (Ok(one_library), Ok(other_library)) = libraries else { return false };
    let address = |library: &ElfLibrary, function: u32| library.addresses.get(function as usize).copied();
    let are_known = one_view.machine == X86_64 && other_view.machine == X86_64;
    match (address(&one_library, one.1), address(&other_library, other.1)) {
        (Some(one), Some(other)) if are_known => {
            let has_same_imports = one_library.imports == other_library.imports;
            let views = [&one_view, &other_view];
            let mut walk = Walk { views, has_same_imports, visited: HashMap::new(), left: Vec::new() };
            walk.is_same([one, other])
        }
        _ => false,
    }
}

/// Both functions, instruction by instruction, along all branches.
struct Walk<'v, 'a> {
    views: [&'v View<'a>; 2],
    /// Whether both call the same functions of the host, by the same indices.
    has_same_imports: bool,
    /// The address in the other image of each instruction.
    visited: HashMap<u64, u64>,
    /// Where both are still to be compared.
    left: Vec<[u64; 2]>,
}

impl<'v, 'a> Walk<'v, 'a> {
    fn is_same(&mut self, entries: [u64; 2]) -> bool {
        self.left.push(entries);
        while let Some(mut at) = self.left.pop() {
            loop {
                match self.visited.insert(at[0], at[1]) {
                    Some(before) if before == at[1] => break,
                    Some(_) => return false,
                    None if self.visited.len() > MAX_INSTRUCTIONS => return false,
                    None => {}
                }
                let Some(next) = self.step(at) else { return false };
                let Some(next) = next else { break };
                at = next;
            }
        }
        true
    }

    /// Compares an instruction. Returns where both continue, if they do; `None` if they differ, or if that
    /// cannot be told.
    fn step(&mut self, at: [u64; 2]) -> Option<Option<[u64; 2]>> {
        let [one, other] = [self.decoded(0, at[0])?, self.decoded(1, at[1])?];
        let is_relative = one.is_ip_rel_memory_operand() || has_near_target(&one);
        let bytes = |side: usize| self.views[side].memory(at[side], one.len() as u64);
        if one.code() != other.code() || one.len() != other.len() || !is_relative && bytes(0) != bytes(1) {
            return None;
        }
        if one.is_ip_rel_memory_operand() {
            self.has_same_constant([&one, &other])?;
        }
        let targets = [one.near_branch_target(), other.near_branch_target()];
        let next = [one.next_ip(), other.next_ip()];
        match one.flow_control() {
            FlowControl::Next => Some(Some(next)),
            FlowControl::Return | FlowControl::Exception => Some(None),
            // Through a pointer that the caller passes, such as that of an import: an address in the image
            // has been refused before.
            FlowControl::IndirectCall if self.has_same_imports => Some(Some(next)),
            FlowControl::UnconditionalBranch if has_near_target(&one) => Some(Some(targets)),
            // A call of what follows computes its own address.
            FlowControl::Call if targets[0] == next[0] || targets[1] == next[1] => None,
            FlowControl::ConditionalBranch | FlowControl::Call if has_near_target(&one) => {
                self.left.push(targets);
                Some(Some(next))
            }
            _ => None,
        }
    }

    fn decoded(&self, side: usize, at: u64) -> Option<Instruction> {
        let view = self.views[side];
        // A function may end with its segment.
        let bytes = (1..=LONGEST).rev().find_map(|length| view.memory(at, length))?;
        let instruction = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode();
        let is_fixed = view.is_code(at) && view.is_constant(at, instruction.len() as u64);
        (is_fixed && instruction.code() != Code::INVALID).then_some(instruction)
    }

    /// Whether both read the same bytes of their images, which nothing changes. An instruction that computes
    /// an address reads nothing, so that it is not known what is read there.
    fn has_same_constant(&self, instructions: [&Instruction; 2]) -> Option<()> {
        let [one, other] = [0, 1].map(|side| {
            let (view, instruction) = (self.views[side], instructions[side]);
            let size = instruction.memory_size().size() as u64;
            let address = instruction.ip_rel_memory_address();
            view.memory(address, size).filter(|_| size > 0 && view.is_constant(address, size))
        });
        let is_read = instructions[0].op_count() > 1 && instructions[0].op0_kind() != OpKind::Memory;
        // The rest of the bytes is the same but for the displacement.
        let same = |it: &Instruction| {
            let mut it = *it;
            it.set_ip(0);
            it.set_next_ip(0);
            it.set_memory_displacement64(0);
            it
        };
        (is_read && one.is_some() && one == other && same(instructions[0]) == same(instructions[1]))
            .then_some(())
    }
}

/// Whether an instruction states where it continues.
fn has_near_target(instruction: &Instruction) -> bool {
    matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64)
        && instruction.op_count() > 0
}
