//! The kinds of numbers that data may consist of, and how likely bytes are to be numbers of a kind.

use rehal_base::{ElementType, Numerical};

/// A kind of number, of 1, 2, 4 or 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub element_type: ElementType,
    /// Bytes of a number.
    pub size: usize,
    pub form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Integer,
    Float(Float),
}

/// A floating-point format: a sign, an exponent, and a mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Float {
    pub exponent_bits: u32,
    pub mantissa_bits: u32,
    pub specials: Specials,
}

/// Which words are NaN and infinities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Specials {
    /// Those with the largest exponent.
    Ieee,
    /// NaN is the largest magnitude; there are no infinities.
    LargestIsNan,
    /// NaN is the negative zero; there are no infinities.
    NegativeZeroIsNan,
}

/// What a word of a floating-point format is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Zero,
    Nan,
    Infinity,
    /// A number other than 0, by its magnitude: the word without its sign.
    Finite(u64),
}

/// Costs are in sixteenths of a bit.
const BIT: u32 = 16;

/// The kinds that data is tried as: the first of those that explain it equally well is taken.
pub(crate) const CANDIDATES: [Kind; 8] = [
    float(32, Numerical::FLOAT_IEEE, 8),
    float(16, Numerical::FLOAT_IEEE, 5),
    float(16, Numerical::FLOAT_BRAIN, 8),
    float(64, Numerical::FLOAT_IEEE, 11),
    integer(64),
    integer(32),
    integer(16),
    integer(8),
];

const fn float(bits: u8, numerical: Numerical, exponent_bits: u32) -> Kind {
    let mantissa_bits = bits as u32 - 1 - exponent_bits;
    let form = Form::Float(Float { exponent_bits, mantissa_bits, specials: Specials::Ieee });
    Kind { element_type: ElementType::of(numerical, bits), size: bits as usize / 8, form }
}

const fn integer(bits: u8) -> Kind {
    let element_type = ElementType::of(Numerical::INTEGER, bits);
    Kind { element_type, size: bits as usize / 8, form: Form::Integer }
}

impl Kind {
    /// The kind of the numbers in elements of a type; `None` unless they occupy whole words.
    pub(crate) fn of(element_type: ElementType) -> Option<Self> {
        let numerical = element_type.numerical();
        let bits = element_type.bits() as u8;
        let small = |exponent_bits, specials| {
            let float = Float { exponent_bits, mantissa_bits: 7 - exponent_bits, specials };
            Some(Self { element_type, size: 1, form: Form::Float(float) })
        };
        match (numerical, bits) {
            (Numerical::FLOAT_IEEE, 16) => Some(Self { element_type, ..CANDIDATES[1] }),
            (Numerical::FLOAT_IEEE, 32) => Some(Self { element_type, ..CANDIDATES[0] }),
            (Numerical::FLOAT_IEEE, 64) => Some(Self { element_type, ..CANDIDATES[3] }),
            (Numerical::FLOAT_COMPLEX, 64) => Some(Self { element_type, ..CANDIDATES[0] }),
            (Numerical::FLOAT_COMPLEX, 128) => Some(Self { element_type, ..CANDIDATES[3] }),
            (Numerical::FLOAT_BRAIN, 16) => Some(Self { element_type, ..CANDIDATES[2] }),
            (Numerical::FLOAT_8_E5M2, 8) => small(5, Specials::Ieee),
            (Numerical::FLOAT_8_E4M3FN, 8) => small(4, Specials::LargestIsNan),
            (Numerical::FLOAT_8_E5M2_FNUZ, 8) => small(5, Specials::NegativeZeroIsNan),
            (Numerical::FLOAT_8_E4M3_FNUZ, 8) => small(4, Specials::NegativeZeroIsNan),
            (_, 8 | 16 | 32 | 64) => Some(Self { element_type, ..integer(bits) }),
            (_, 128) => Some(Self { element_type, ..integer(64) }),
            _ => None,
        }
    }

    /// The words of bytes; the part of a word at the end is left out.
    pub(crate) fn words(self, bytes: &[u8]) -> impl Iterator<Item = u64> {
        bytes.chunks_exact(self.size).map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        })
    }

    /// Writes a word.
    pub(crate) fn put(self, word: u64, target: &mut [u8]) {
        target.copy_from_slice(&word.to_le_bytes()[..self.size]);
    }

    /// A word of an integer, with its sign.
    pub(crate) fn signed(self, word: u64) -> i64 {
        let unused = 64 - 8 * self.size as u32;
        ((word << unused) as i64) >> unused
    }

    /// How unlikely bytes are to be numbers of this kind, by the length of a code for the numbers that programs have: floats
    /// near 1 with full or short mantissas, and small integers.
    pub(crate) fn cost(self, bytes: &[u8]) -> u32 {
        let words: u32 = match self.form {
            Form::Integer => self.words(bytes).map(|word| self.integer_cost(word)).sum(),
            Form::Float(float) => self.words(bytes).map(|word| float.cost(word)).sum(),
        };
        // The part of a number at the end is an argument against the kind.
        words + (bytes.len() % self.size) as u32 * 9 * BIT
    }

    fn integer_cost(self, word: u64) -> u32 {
        let value = self.signed(word);
        // The sign of a negative one, and the number of bits.
        let used = 64 - (if value < 0 { !value } else { value }).leading_zeros();
        match value {
            0 => 2 * BIT,
            _ => ((used + 3) * BIT).min((8 * self.size as u32) * BIT + BIT / 2),
        }
    }
}

impl Float {
    /// The sign bit.
    pub(crate) fn sign(self) -> u64 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    /// What the exponent of 1 is stored as.
    pub(crate) fn bias(self) -> i64 {
        let bias = (1 << (self.exponent_bits - 1)) - 1;
        // These formats have one more.
        if self.specials == Specials::NegativeZeroIsNan { bias + 1 } else { bias }
    }

    /// The largest exponent as stored.
    fn largest_exponent(self) -> u64 {
        (1 << self.exponent_bits) - 1
    }

    /// Infinity.
    pub(crate) fn infinity(self) -> u64 {
        self.largest_exponent() << self.mantissa_bits
    }

    /// A NaN without a payload.
    pub(crate) fn nan(self) -> u64 {
        match self.specials {
            Specials::Ieee => self.infinity() | 1 << (self.mantissa_bits - 1),
            Specials::LargestIsNan => self.sign() - 1,
            Specials::NegativeZeroIsNan => self.sign(),
        }
    }

    pub(crate) fn value(self, word: u64) -> Value {
        let magnitude = word & (self.sign() - 1);
        match self.specials {
            Specials::Ieee if magnitude == self.infinity() => Value::Infinity,
            Specials::Ieee if magnitude > self.infinity() => Value::Nan,
            Specials::LargestIsNan if magnitude == self.sign() - 1 => Value::Nan,
            Specials::NegativeZeroIsNan if word == self.sign() => Value::Nan,
            _ if magnitude == 0 => Value::Zero,
            _ => Value::Finite(magnitude),
        }
    }

    /// The exponent as stored, 0 for subnormal numbers, and the mantissa with the leading bit.
    pub(crate) fn parts(self, magnitude: u64) -> (u64, u64) {
        let exponent = magnitude >> self.mantissa_bits;
        let mantissa = magnitude & ((1 << self.mantissa_bits) - 1);
        let leading = u64::from(exponent != 0) << self.mantissa_bits;
        (exponent, mantissa | leading)
    }

    fn cost(self, word: u64) -> u32 {
        let bits = 1 + self.exponent_bits + self.mantissa_bits;
        let magnitude = match self.value(word) {
            Value::Zero => return 3 * BIT,
            Value::Infinity => return 12 * BIT,
            Value::Nan => return (bits + 8) * BIT,
            Value::Finite(magnitude) => magnitude,
        };
        let (exponent, mantissa) = self.parts(magnitude);
        if exponent == 0 {
            // Rather a small integer.
            return (bits + 8) * BIT;
        }
        // Weights are around an eighth.
        let distance = (exponent as i64 - self.bias() + 3).unsigned_abs() as u32;
        let trailing = mantissa.trailing_zeros().min(self.mantissa_bits);
        let mantissa_cost = (self.mantissa_bits - trailing + 3).min(self.mantissa_bits);
        (4 + mantissa_cost) * BIT + distance * BIT / 4
    }
}
