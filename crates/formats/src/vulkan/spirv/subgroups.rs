//! Assumptions of code about the size of subgroups.
//!
//! Compilers write the size that they compile for into the code, as the number that invocations are divided
//! by, or not at all, if a workgroup is one subgroup. SPIR-V does not declare it, so it is inferred. Code
//! that asks for the size, or for the place of an invocation in its subgroup, is taken to work with any.

use std::collections::{BTreeSet, HashMap, HashSet};

use spirv::{BuiltIn, Capability, Decoration, GroupOperation, Op, Scope};

use super::instructions::{Instruction, Instructions};
use super::{Shader, WorkgroupSize};

/// The sizes of subgroups with which an entry point computes what its author meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubgroupSizes {
    /// One of these, in order.
    pub one_of: Vec<u32>,
    /// Or this many invocations and more.
    pub at_least: Option<u32>,
}

impl SubgroupSizes {
    /// Whether the code works with subgroups of `size` invocations.
    pub fn contains(&self, size: u32) -> bool {
        self.one_of.contains(&size) || self.at_least.is_some_and(|least| size >= least)
    }
}

impl std::fmt::Display for SubgroupSizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sizes = self.one_of.iter().map(u32::to_string);
        let all: Vec<_> = sizes.chain(self.at_least.map(|least| format!("at least {least}"))).collect();
        f.write_str(&all.join(" or "))
    }
}

/// A function's use of subgroups.
#[derive(Default)]
struct Use {
    /// Whether it combines values of all invocations of a subgroup.
    combines: bool,
    /// Whether it asks for the size of subgroups, or for places in them.
    adapts: bool,
    /// Whether the invocations of a workgroup wait for one another.
    synchronizes: bool,
    /// The size that its operations need at least.
    least: u32,
    /// Powers of two that ids of invocations are divided by.
    quotients: BTreeSet<u32>,
    /// The same for remainders.
    remainders: BTreeSet<u32>,
    calls: Vec<u32>,
}

/// Facts known of ids while a module is read.
#[derive(Default)]
struct Reader {
    built_ins: HashMap<u32, u32>,
    constants: HashMap<u32, u32>,
    /// Vectors with the id of an invocation in its workgroup, and pointers to them.
    vectors: HashSet<u32>,
    /// The first component of such a vector, or the index of an invocation, and pointers to them.
    invocations: HashSet<u32>,
    functions: HashMap<u32, Use>,
    current: u32,
}

/// The sizes of subgroups with which the entry point called `name` works; `None` if it works with any, as far
/// as is known.
pub(super) fn sizes(
    shader: &Shader,
    name: &str,
    workgroup_size: &WorkgroupSize,
    constants: &[u32],
) -> Option<SubgroupSizes> {
    const OPERATIONS: [Capability; 6] = [
        Capability::GroupNonUniformArithmetic,
        Capability::GroupNonUniformBallot,
        Capability::GroupNonUniformClustered,
        Capability::GroupNonUniformQuad,
        Capability::GroupNonUniformShuffle,
        Capability::GroupNonUniformShuffleRelative,
    ];
    if !OPERATIONS.iter().any(|capability| shader.declares(*capability)) {
        return None;
    }
    let (mut reader, mut entry) = (Reader::default(), None);
    for instruction in Instructions::new(shader.words(), 0) {
        // The module has been read before, without an error.
        let instruction = instruction.ok()?;
        if instruction.is(Op::EntryPoint) && instruction.text(2).is_ok_and(|(found, _)| found == name) {
            entry = instruction.operands.get(1).copied();
        }
        reader.visit(&instruction);
    }
    reader.used_by(entry?).sizes(workgroup_size.value(constants))
}

impl Reader {
    fn visit(&mut self, instruction: &Instruction<'_>) {
        let operands = instruction.operands;
        let at = |index: usize| operands.get(index).copied().unwrap_or_default();
        let Some(op) = Op::from_u32(instruction.opcode.into()) else { return };
        match op {
            Op::Decorate if at(1) == Decoration::BuiltIn as u32 => {
                self.built_ins.insert(at(0), at(2));
            }
            Op::Constant => {
                self.constants.insert(at(1), at(2));
            }
            Op::Function => {
                self.current = at(1);
            }
            Op::FunctionCall => self.function().calls.push(at(2)),
            Op::ControlBarrier => self.function().synchronizes = true,
            Op::Load | Op::CopyObject => self.load(at(1), at(2)),
            Op::AccessChain | Op::InBoundsAccessChain => {
                if self.is_vector(at(2)) && self.constants.get(&at(3)) == Some(&0) {
                    self.invocations.insert(at(1));
                }
            }
            Op::CompositeExtract => {
                if self.vectors.contains(&at(2)) && operands.get(3) == Some(&0) {
                    self.invocations.insert(at(1));
                }
            }
            Op::UConvert | Op::SConvert | Op::Bitcast => {
                if self.invocations.contains(&at(2)) {
                    self.invocations.insert(at(1));
                }
            }
            Op::UDiv
            | Op::SDiv
            | Op::ShiftRightLogical
            | Op::ShiftRightArithmetic
            | Op::UMod
            | Op::SRem
            | Op::SMod
            | Op::BitwiseAnd => self.divide(op, at(2), at(3)),
            _ => self.operate(op, operands),
        }
    }

    fn function(&mut self) -> &mut Use {
        self.functions.entry(self.current).or_default()
    }

    fn is_vector(&self, pointer: u32) -> bool {
        self.built_ins.get(&pointer) == Some(&(BuiltIn::LocalInvocationId as u32))
    }

    /// `result` is what `source` is, or what it points to.
    fn load(&mut self, result: u32, source: u32) {
        if self.is_vector(source) || self.vectors.contains(&source) {
            self.vectors.insert(result);
        }
        if self.invocations.contains(&source) {
            self.invocations.insert(result);
        }
        match self.built_ins.get(&source).and_then(|built_in| BuiltIn::from_u32(*built_in)) {
            Some(BuiltIn::LocalInvocationIndex) => {
                self.invocations.insert(result);
            }
            Some(
                BuiltIn::SubgroupSize
                | BuiltIn::NumSubgroups
                | BuiltIn::SubgroupId
                | BuiltIn::SubgroupLocalInvocationId
                | BuiltIn::SubgroupEqMask
                | BuiltIn::SubgroupGeMask
                | BuiltIn::SubgroupGtMask
                | BuiltIn::SubgroupLeMask
                | BuiltIn::SubgroupLtMask,
            ) => self.function().adapts = true,
            _ => {}
        }
    }

    fn divide(&mut self, op: Op, dividend: u32, divisor: u32) {
        let Some(value) = self.constants.get(&divisor).copied() else { return };
        if !self.invocations.contains(&dividend) {
            return;
        }
        let (divisor, is_remainder) = match op {
            Op::ShiftRightLogical | Op::ShiftRightArithmetic => (1_u32.checked_shl(value), false),
            Op::BitwiseAnd => (value.checked_add(1), true),
            Op::UDiv | Op::SDiv => (Some(value), false),
            _ => (Some(value), true),
        };
        if let Some(divisor) = divisor.filter(|it| it.is_power_of_two()) {
            let function = self.function();
            let divisors = if is_remainder { &mut function.remainders } else { &mut function.quotients };
            divisors.insert(divisor);
        }
    }

    /// An operation of a subgroup.
    fn operate(&mut self, op: Op, operands: &[u32]) {
        let of_subgroup = |index: usize| {
            operands.get(index).and_then(|id| self.constants.get(id)) == Some(&(Scope::Subgroup as u32))
        };
        let constant = |index: usize| operands.get(index).and_then(|id| self.constants.get(id)).copied();
        if !of_subgroup(2) {
            return;
        }
        let mut least = 0;
        let (mut combines, mut adapts) = (false, false);
        match op {
            Op::GroupNonUniformElect => adapts = true,
            Op::GroupNonUniformIAdd
            | Op::GroupNonUniformFAdd
            | Op::GroupNonUniformIMul
            | Op::GroupNonUniformFMul
            | Op::GroupNonUniformSMin
            | Op::GroupNonUniformUMin
            | Op::GroupNonUniformFMin
            | Op::GroupNonUniformSMax
            | Op::GroupNonUniformUMax
            | Op::GroupNonUniformFMax
            | Op::GroupNonUniformBitwiseAnd
            | Op::GroupNonUniformBitwiseOr
            | Op::GroupNonUniformBitwiseXor
            | Op::GroupNonUniformLogicalAnd
            | Op::GroupNonUniformLogicalOr
            | Op::GroupNonUniformLogicalXor => match operands.get(3) {
                Some(kind) if *kind == GroupOperation::ClusteredReduce as u32 => {
                    least = constant(5).unwrap_or(0);
                }
                _ => combines = true,
            },
            Op::GroupNonUniformShuffleXor => {
                least = constant(4).map_or(0, |mask| {
                    mask.checked_add(1).and_then(u32::checked_next_power_of_two).unwrap_or(u32::MAX)
                });
            }
            Op::GroupNonUniformShuffle
            | Op::GroupNonUniformShuffleUp
            | Op::GroupNonUniformShuffleDown
            | Op::GroupNonUniformBroadcast => {
                least = constant(4).map_or(0, |lane| lane.saturating_add(1));
            }
            Op::GroupNonUniformQuadBroadcast | Op::GroupNonUniformQuadSwap => least = 4,
            _ => return,
        }
        let function = self.function();
        function.combines |= combines;
        function.adapts |= adapts;
        function.least = function.least.max(least);
    }

    /// The combined use of a function and those that it calls.
    fn used_by(&self, function: u32) -> Use {
        let mut all = Use::default();
        let (mut seen, mut left) = (HashSet::from([function]), vec![function]);
        while let Some(function) = left.pop() {
            let Some(it) = self.functions.get(&function) else { continue };
            all.combines |= it.combines;
            all.adapts |= it.adapts;
            all.synchronizes |= it.synchronizes;
            all.least = all.least.max(it.least);
            all.quotients.extend(&it.quotients);
            all.remainders.extend(&it.remainders);
            left.extend(it.calls.iter().filter(|callee| seen.insert(**callee)));
        }
        all
    }
}

impl Use {
    fn sizes(&self, workgroup: [u32; 3]) -> Option<SubgroupSizes> {
        let least = if self.combines { self.least.max(workgroup[0]) } else { self.least };
        if self.adapts || least <= 1 {
            return None;
        }
        // Or several subgroups, if the code computes in which one an invocation is, and where.
        let invocations =
            workgroup.iter().fold(1, |product: u32, size| product.saturating_mul((*size).max(1)));
        let is_size = |size: &&u32| self.combines && **size >= self.least.max(2) && **size < invocations;
        let both = self.quotients.intersection(&self.remainders).filter(is_size).copied().collect::<Vec<_>>();
        let is_divided = !both.is_empty();
        let one_of = match is_divided {
            true => both,
            false => self.quotients.union(&self.remainders).filter(is_size).copied().collect(),
        };
        // Several subgroups combine their values in shared memory.
        let at_least = (!(is_divided && self.synchronizes)).then_some(least);
        Some(SubgroupSizes { one_of, at_least })
    }
}
