//! The decoded form of instructions: a code over types and modifiers, and dense indices of registers.

use super::types::Type;
use crate::numbers::Rounding;

/// The index of a register in the bank that its operation names.
pub(crate) type Reg = u32;

/// An instruction. One of the text may become several, of which one counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inst {
    pub op: Op,
    /// A predicate; 0 is the one that is always true.
    pub guard: Reg,
    pub is_negated: bool,
    pub counts: bool,
    pub d: Reg,
    pub a: Reg,
    pub b: Reg,
    pub c: Reg,
    /// An offset in bytes, a jump target, a table of bits, or the start of a list of registers.
    pub imm: i64,
    /// The offset of the instruction in the text.
    pub at: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    W16,
    W32,
    W64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntOp {
    Add,
    Sub,
    AddSat,
    SubSat,
    Mul,
    MulHiS,
    MulHiU,
    DivS,
    DivU,
    RemS,
    RemU,
    MinS,
    MinU,
    MaxS,
    MaxU,
    And,
    Or,
    Xor,
    Shl,
    ShrS,
    ShrU,
    AbsDiffS,
    AbsDiffU,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntUnary {
    Not,
    Cnot,
    Neg,
    Abs,
    Brev,
}

/// Counts of bits, into 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BitCount {
    Popc,
    Clz,
    FindS { shift: bool },
    FindU { shift: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatFn {
    Add,
    Sub,
    Mul,
    Div,
    Fma,
    Min,
    Max,
    Abs,
    Neg,
    Rcp,
    Sqrt,
    Rsqrt,
    Sin,
    Cos,
    Ex2,
    Lg2,
    Tanh,
}

/// A float instruction with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Float {
    pub f: FloatFn,
    pub kind: Type,
    pub rounding: Rounding,
    pub ftz: bool,
    pub sat: bool,
    /// Of `min` and `max`: NaN if an operand is.
    pub nan: bool,
    /// Of `min` and `max`: of magnitudes, with the product of the signs.
    pub xorsign: bool,
    /// Of `fma`: at least zero.
    pub relu: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// The same, true if an operand is NaN.
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Convert {
    pub from: Type,
    pub to: Type,
    pub rounding: Rounding,
    /// To an integer, even if the type is a float.
    pub integer: bool,
    pub ftz: bool,
    pub sat: bool,
    pub relu: bool,
    /// The rounding to nearest takes ties away from zero.
    pub ties_away: bool,
}

/// Where an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Generic,
    Global,
    Const,
    Shared,
    Local,
    /// The arguments of the kernel.
    Argument,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub place: Place,
    /// Of an element: 1, 2, 4 or 8.
    pub bytes: u8,
    pub signed: bool,
    /// Elements: 1, 2, 4 or 8. If it is 1, the register is `d` or `b`, else they are in the list.
    pub count: u8,
    /// The bank of the registers.
    pub long: bool,
    /// The bank of the address.
    pub short_address: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicFn {
    Add,
    Min,
    Max,
    Inc,
    Dec,
    And,
    Or,
    Xor,
    Exch,
    Cas,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Atomic {
    pub f: AtomicFn,
    pub kind: Type,
    pub place: Place,
    pub short_address: bool,
    pub returns: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Bfly,
    Idx,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    All,
    Any,
    Uni,
    Ballot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduce {
    Add,
    MinS,
    MinU,
    MaxS,
    MaxU,
    And,
    Or,
    Xor,
}

/// The action or the result of a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierKind {
    Sync,
    Arrive,
    And,
    Or,
    Popc,
}

/// The types of matrices ("Warp-Level Matrix Instructions").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    pub m: u8,
    pub n: u8,
    pub k: u8,
    pub a: Type,
    pub b: Type,
    /// Of the accumulators.
    pub c: Type,
    pub d: Type,
    pub sat: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Mov,
    MovLong,
    Int(IntOp, Width),
    IntUnary(IntUnary, Width),
    BitCount(BitCount, Width),
    /// Twice as wide as its operands of 16 or 32 bits.
    MulWide {
        signed: bool,
        width: Width,
    },
    /// The carry of an addition of `a`, `b` and the predicate `c`, or the borrow of a subtraction.
    Carry {
        borrow: bool,
        width: Width,
    },
    Mul24 {
        signed: bool,
        high: bool,
    },
    Fma32,
    Add32,
    Sub32,
    Mul32,
    Float(Float),
    Copysign {
        long: bool,
    },
    Testp {
        long: bool,
        test: Test,
    },
    Cmp(Cmp, Type, bool),
    Select,
    SelectLong,
    Convert(Convert),
    /// Zero or sign extension, and truncation.
    Extend,
    ExtendSigned,
    Truncate,
    /// Low bits, extended to 32 bits, of which `to` are kept.
    Narrow {
        bits: u8,
        signed: bool,
        to: u8,
    },
    /// Elements of equal size from `list` to `d`, or from `a` to `list`.
    Pack {
        bits: u8,
        count: u8,
    },
    Unpack {
        bits: u8,
        count: u8,
    },
    Bfe {
        signed: bool,
        long: bool,
    },
    Bfi {
        long: bool,
    },
    Bmsk {
        clamp: bool,
    },
    Prmt(Prmt),
    Shf {
        left: bool,
        wrap: bool,
    },
    Lop3,
    Dp4a {
        a: bool,
        b: bool,
    },
    Dp2a {
        a: bool,
        b: bool,
        high: bool,
    },
    Fns,
    Load(Access),
    Store(Access),
    /// From global to shared memory, with the bytes in `c` of the source if `c` is a register.
    CopyAsync {
        bytes: u8,
        short_address: bool,
        sized: bool,
    },
    Atomic(Atomic),
    /// Whether an address is in a space.
    IsSpace(Place),
    /// An address of a space to or from a generic one.
    ToGeneric(Place),
    FromGeneric(Place),
    Shuffle(Shuffle),
    Vote(Vote),
    MatchAny {
        long: bool,
    },
    MatchAll {
        long: bool,
    },
    Redux(Reduce),
    ActiveMask,
    SyncWarp,
    Clock,
    ClockLong,
    Mma(Matrix),
    LoadMatrix {
        count: u8,
        transposed: bool,
    },
    StoreMatrix {
        count: u8,
        transposed: bool,
    },
    MoveMatrix,
    /// Barrier `a` for `b` threads, or for all if `imm` is 0. The predicate is `c`, the result `d`.
    Barrier(BarrierKind),
    Branch,
    /// To one of a list of targets, whose number is in `d`, by the index `a`.
    BranchIndexed,
    Call,
    Return,
    Exit,
    Trap,
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prmt {
    Bytes,
    F4e,
    B4e,
    Rc8,
    Ecl,
    Ecr,
    Rc16,
}
