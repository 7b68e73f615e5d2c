use std::collections::HashMap;
use std::ops::Range;

use super::ast::{FunctionText, Number, Variable};
use super::op::{Inst, Reg};
use super::types::Type;
use crate::Limits;

/// The code of a kernel and of the functions that it calls.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(super) code: Vec<Inst>,
    /// Registers of instructions that have more than four, and jump targets.
    pub(super) lists: Vec<u32>,
    /// Registers of each bank.
    pub(super) shorts: u32,
    pub(super) longs: u32,
    /// Registers that never change.
    pub(super) short_constants: Vec<(Reg, u32)>,
    pub(super) long_constants: Vec<(Reg, u64)>,
    /// With their dimension.
    pub(super) specials: Vec<((Special, usize), Reg)>,
    /// The registers that do change, and are zero at the start of a block.
    pub(super) short_variables: Vec<Range<usize>>,
    pub(super) long_variables: Vec<Range<usize>>,
    pub(super) local_bytes: u32,
    pub(super) shared_bytes: u32,
}

/// The names that functions can use.
pub(super) struct Names<'a> {
    pub(super) text: &'a str,
    pub(super) limits: Limits,
    /// Variables of the module, with their offset if they are in `.global` or `.const`.
    pub(super) variables: HashMap<&'a str, (&'a Variable<'a>, u32)>,
    pub(super) functions: HashMap<&'a str, &'a FunctionText<'a>>,
}

words! {
    /// A register whose value follows from the place of its warp ("Special Registers"). The first four have
    /// dimensions.
    Special {
        Thread = "%tid", Threads = "%ntid", Block = "%ctaid", Blocks = "%nctaid",
        Lane = "%laneid", Warp = "%warpid", Warps = "%nwarpid",
        MaskEq = "%lanemask_eq", MaskLt = "%lanemask_lt", MaskLe = "%lanemask_le",
        MaskGt = "%lanemask_gt", MaskGe = "%lanemask_ge",
        DynamicShared = "%dynamic_smem_size", TotalShared = "%total_smem_size",
    }
}

/// The bits of a constant of a type; `None` if it does not fit the type.
pub(super) fn bits_of(number: Number, kind: Type) -> Option<u64> {
    match (number, kind) {
        (Number::Single(bits), Type::F32 | Type::B32 | Type::Tf32) => Some(bits.into()),
        (Number::Double(bits), Type::F64 | Type::B64) => Some(bits),
        (Number::Double(bits), Type::F32) => Some((f64::from_bits(bits) as f32).to_bits().into()),
        (Number::Single(bits), Type::F64) => Some(f64::from(f32::from_bits(bits)).to_bits()),
        (Number::Integer(value), Type::F32) => Some((value as f32).to_bits().into()),
        (Number::Integer(value), Type::F64) => Some((value as f64).to_bits()),
        (Number::Integer(value), Type::Pred) if (-1..2).contains(&value) => Some(u64::from(value != 0)),
        (Number::Integer(value), _) if kind != Type::Pred => {
            let is_fitting = (-(1_i128 << 63)..1 << 64).contains(&value);
            let mask = if kind.bits() == 64 { u64::MAX } else { (1 << kind.bits()) - 1 };
            is_fitting.then_some(value as u64 & mask)
        }
        _ => None,
    }
}
