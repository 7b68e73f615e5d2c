use crate::access::{Access, accesses};
use crate::instruction::{FieldValue, Instruction};
use crate::liveness::Liveness;
use crate::operation::{Field, Op};
use crate::registers::REF_BIT;
use crate::tables::{Function, Tables};

/// Limit on the instructions searched backwards for the definition of a value, and on the moves considered:
/// keeps long blocks from taking quadratic time.
const REACH: usize = 32;

/// Copy coalescing: block arguments of a branch whose values are computed directly in the target register,
/// which makes the move redundant.
#[derive(Debug, Default)]
pub(crate) struct Coalesced {
    /// Bit n is whether move n remains.
    left: u64,
    /// Offset of a call, the register of a result, and the register it is renamed to.
    results: Vec<(usize, u16, u16)>,
}

impl Coalesced {
    /// No argument is coalesced.
    pub(crate) fn none() -> Self {
        Self { left: u64::MAX, results: Vec::new() }
    }

    /// Coalesces the block arguments of the branch that ends `block`, a block of a verified function: renames
    /// the results of its instructions to the targets of the moves.
    pub(crate) fn from_block(
        tables: &Tables,
        function: &Function,
        liveness: &Liveness,
        block: &mut [Instruction<'_>],
    ) -> Self {
        let mut this = Self::none();
        let Some((branch, body)) = block.split_last_mut() else { return this };
        if branch.operation.op != Op::Branch || body.is_empty() {
            return this;
        }
        let target = branch.ordinal(0);
        let moves: Vec<_> = branch.list(1).pairs().take(REACH + 1).collect();
        if moves.len() > REACH {
            return this;
        }
        for at in 0..moves.len() {
            if this.left >> at & 1 == 0 || moves[at].0 & REF_BIT != 0 {
                continue;
            }
            let Some((index, count)) = source_of(tables, function, body, &moves, at) else { continue };
            let (from, to) = moves[at];
            let is_live = (from..from + count).any(|register| {
                let is_written = moves[at..].iter().any(|(_, target)| *target == register);
                !is_written && liveness.is_live(target, register)
            });
            if !is_live && this.rename(&mut body[index], from, to) {
                this.left &= !(((1 << count) - 1) << at);
            }
        }
        this
    }

    /// Whether a move of the branch is coalesced and need not be executed.
    pub(crate) fn contains(&self, index: usize) -> bool {
        index < 64 && self.left >> index & 1 == 0
    }

    /// The register that a result of the call at `offset` is renamed to.
    pub(crate) fn result(&self, offset: usize, register: u16) -> u16 {
        let renamed = self.results.iter().find(|(call, from, _)| (*call, *from) == (offset, register));
        renamed.map_or(register, |(_, _, to)| *to)
    }

    /// Renames a result of an instruction.
    fn rename(&mut self, instruction: &mut Instruction<'_>, from: u16, to: u16) -> bool {
        let fields = instruction.operation.fields.iter().zip(&mut instruction.values);
        for (field, value) in fields {
            match (field, value) {
                (Field::Write(_), FieldValue::Register(register)) if *register == from => {
                    *register = to;
                    return true;
                }
                (Field::Results, FieldValue::List(list)) if list.iter().any(|result| result == from) => {
                    self.results.push((instruction.offset, from, to));
                    return true;
                }
                _ => {}
            }
        }
        false
    }
}

/// The instruction that defines the value of move `at`, and its number of registers, if the value has no
/// other use in its register and the target register is free from the definition to the move.
fn source_of(
    tables: &Tables,
    function: &Function,
    body: &[Instruction<'_>],
    moves: &[(u16, u16)],
    at: usize,
) -> Option<(usize, u16)> {
    let (from, to) = moves[at];
    let mut count = 1;
    let mut found = None;
    for (index, instruction) in body.iter().enumerate().rev().take(REACH) {
        let mut writes = None;
        let mut writes_more = false;
        accesses(tables, function, instruction, |access, register, words| {
            if access == Access::Write && (register..register + words).contains(&from) {
                writes_more |= writes.is_some();
                writes = Some((register, words));
            }
        });
        if let Some((register, words)) = writes {
            count = words;
            found = (register == from && !writes_more).then_some(index);
            break;
        }
    }
    let index = found?;
    let (sources, targets) = (from..from + count, to..to + count);
    if count == 2 && (moves.get(at + 1) != Some(&(from + 1, to + 1)) || to % 2 != 0) {
        return None;
    }
    let others = moves.iter().enumerate().filter(|(other, _)| !(at..at + usize::from(count)).contains(other));
    for (other, (source, target)) in others {
        let is_used = sources.contains(source) || targets.contains(source) || targets.contains(target);
        if is_used || (other < at && sources.contains(target)) {
            return None;
        }
    }
    let mut is_free = true;
    for (place, instruction) in body.iter().enumerate().skip(index) {
        accesses(tables, function, instruction, |access, register, words| {
            let touches =
                |range: &std::ops::Range<u16>| register < range.end && range.start < register + words;
            let computes = place == index && (access == Access::Read || register == from);
            is_free &= computes || !(touches(&targets) || touches(&sources));
        });
    }
    is_free.then_some((index, count))
}
