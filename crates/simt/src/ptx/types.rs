words! {
    /// A type of the PTX ISA ("Fundamental Types" and "Alternate Floating-Point Data Formats").
    Type {
        Pred = "pred", B8 = "b8", B16 = "b16", B32 = "b32", B64 = "b64",
        U8 = "u8", U16 = "u16", U32 = "u32", U64 = "u64", S8 = "s8", S16 = "s16", S32 = "s32", S64 = "s64",
        F16 = "f16", F16x2 = "f16x2", Bf16 = "bf16", Bf16x2 = "bf16x2",
        Tf32 = "tf32", F32 = "f32", F64 = "f64",
    }
}

/// The bank of registers that holds values of a type: lanes of 32 or of 64 bits. A predicate is 0 or all ones
/// in 32 bits; shorter integers are in 32 bits, of which the others are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bank {
    Short,
    Long,
}

impl Type {
    /// The number of bits; 1 for a predicate.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::Pred => 1,
            Self::B8 | Self::U8 | Self::S8 => 8,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 16,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 64,
            _ => 32,
        }
    }

    pub(crate) fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    pub(crate) fn bank(self) -> Bank {
        if self.bits() == 64 { Bank::Long } else { Bank::Short }
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    pub(crate) fn is_bits(self) -> bool {
        matches!(self, Self::B8 | Self::B16 | Self::B32 | Self::B64)
    }

    pub(crate) fn is_integer(self) -> bool {
        self.is_signed() || matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64)
    }

    pub(crate) fn is_float(self) -> bool {
        !self.is_integer() && !self.is_bits() && self != Self::Pred
    }

    /// Whether an operand declared as `register` can be one of this type of the same size ("Operand Size
    /// Exceeding Instruction-Type Size" has the rules): bits agree with all, integers with each other.
    pub(crate) fn agrees(self, register: Self) -> bool {
        let packed = |it: Self| matches!(it, Self::F16x2 | Self::Bf16x2 | Self::Tf32 | Self::Bf16);
        self.is_bits()
            || register.is_bits()
            || packed(self)
            || (self.is_integer() && register.is_integer())
            || self == register
    }
}
