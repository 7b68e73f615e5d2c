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

words! { Width { W16, W32, W64 } }

words! {
    /// Operations of two integers, by opcode, part, and sign where it matters.
    IntOp {
        Add = "add", Sub = "sub", AddSat = "add.sat", SubSat = "sub.sat",
        Mul = "mul.lo", MulHiS = "mul.hi.s", MulHiU = "mul.hi.u",
        DivS = "div.s", DivU = "div.u", RemS = "rem.s", RemU = "rem.u",
        MinS = "min.s", MinU = "min.u", MaxS = "max.s", MaxU = "max.u",
        And = "and", Or = "or", Xor = "xor", Shl = "shl", ShrS = "shr.s", ShrU = "shr.u",
        AbsDiffS = "sad.s", AbsDiffU = "sad.u",
    }
}

words! { IntUnary { Not = "not", Cnot = "cnot", Neg = "neg", Abs = "abs", Brev = "brev" } }

/// Counts of bits, into 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BitCount {
    Popc,
    Clz,
    Find { signed: bool, shift: bool },
}

words! {
    FloatFn {
        Add = "add", Sub = "sub", Mul = "mul", Div = "div", Fma = "fma", Min = "min", Max = "max",
        Abs = "abs", Neg = "neg", Rcp = "rcp", Sqrt = "sqrt", Rsqrt = "rsqrt",
        Sin = "sin", Cos = "cos", Ex2 = "ex2", Lg2 = "lg2", Tanh = "tanh",
    }
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

words! {
    /// Comparisons; `u` and `Nan` are true if an operand is NaN.
    Cmp {
        Eq = "eq", Ne = "ne", Lt = "lt", Le = "le", Gt = "gt", Ge = "ge",
        Equ = "equ", Neu = "neu", Ltu = "ltu", Leu = "leu", Gtu = "gtu", Geu = "geu",
        Num = "num", Nan = "nan",
    }
}

impl Float {
    /// Whether no modifier changes the function: rounded to nearest, without flushing and so on.
    pub(crate) fn is_plain(&self) -> bool {
        self.rounding == Rounding::Nearest && !(self.ftz || self.sat || self.nan || self.xorsign || self.relu)
    }
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

words! {
    /// A state space, or where an access goes ("State Spaces"). Arguments are those of the kernel.
    Place { Generic, Global = "global", Const = "const", Shared = "shared", Local = "local", Param = "param" }
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

words! {
    AtomicFn {
        Add = "add", Min = "min", Max = "max", Inc = "inc", Dec = "dec",
        And = "and", Or = "or", Xor = "xor", Exch = "exch", Cas = "cas",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Atomic {
    pub f: AtomicFn,
    pub kind: Type,
    pub place: Place,
    pub short_address: bool,
    pub returns: bool,
}

words! { Shuffle { Up = "up", Down = "down", Bfly = "bfly", Idx = "idx" } }

words! { Vote { All = "all", Any = "any", Uni = "uni", Ballot = "ballot" } }

words! {
    /// The action or the result of a barrier.
    BarrierKind { Sync, Arrive, And = "and", Or = "or", Popc = "popc" }
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
    // Twice as wide as its operands of 16 or 32 bits.
    MulWide { signed: bool, width: Width },
    // The carry of an addition of `a`, `b` and the predicate `c`, or the borrow of a subtraction.
    Carry { borrow: bool, width: Width },
    Mul24 { signed: bool, high: bool },
    Fma32,
    Add32,
    Sub32,
    Mul32,
    Float(Float),
    Copysign { long: bool },
    Testp { long: bool, test: Test },
    Cmp(Cmp, Type, bool),
    Select,
    SelectLong,
    Convert(Convert),
    // Zero or sign extension, and truncation.
    Extend,
    ExtendSigned,
    Truncate,
    // Low bits, extended to 32 bits, of which `to` are kept.
    Narrow { bits: u8, signed: bool, to: u8 },
    // Elements of equal size from `list` to `d`, or from `a` to `list`.
    Pack { bits: u8, count: u8 },
    Unpack { bits: u8, count: u8 },
    Bfe { signed: bool, long: bool },
    Bfi { long: bool },
    Bmsk { clamp: bool },
    Prmt(Prmt),
    Shf { left: bool, wrap: bool },
    Lop3,
    Dp4a { a: bool, b: bool },
    Dp2a { a: bool, b: bool, high: bool },
    Fns,
    Load(Access),
    Store(Access),
    // From global to shared memory, with the bytes in `c` of the source if `c` is a register.
    CopyAsync { bytes: u8, short_address: bool, sized: bool },
    Atomic(Atomic),
    // Orders the accesses before and after it, as other threads of the host see them.
    Fence,
    // Whether an address is in a space.
    IsSpace(Place),
    // An address of a space to or from a generic one.
    ToGeneric(Place),
    FromGeneric(Place),
    Shuffle(Shuffle),
    Vote(Vote),
    MatchAny { long: bool },
    MatchAll { long: bool },
    Redux(IntOp),
    ActiveMask,
    SyncWarp,
    Clock,
    ClockLong,
    Mma(Matrix),
    LoadMatrix { count: u8, transposed: bool },
    StoreMatrix { count: u8, transposed: bool },
    MoveMatrix,
    // Barrier `a` for `b` threads, or for all if `imm` is 0. The predicate is `c`, the result `d`.
    Barrier(BarrierKind),
    Branch,
    // To one of a list of targets, whose number is in `d`, by the index `a`.
    BranchIndexed,
    Call,
    Return,
    Exit,
    Trap,
    Nothing,
}

words! {
    Test {
        Finite = "finite", Infinite = "infinite", Number = "number", NotANumber = "notanumber",
        Normal = "normal", Subnormal = "subnormal",
    }
}

words! {
    Prmt { Bytes, F4e = "f4e", B4e = "b4e", Rc8 = "rc8", Ecl = "ecl", Ecr = "ecr", Rc16 = "rc16" }
}
