//! The binary formats of floating-point types, whose inputs can be changed.

use rehal_base::{ElementType, Numerical};

/// The binary format of a floating-point type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub element_type: ElementType,
    pub bytes: usize,
    pub mantissa_bits: u32,
    pub exponent_bits: u32,
}

/// How numbers are moved: a pair of runs moves them by the same distance in opposite directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nudge {
    /// The number of the pair.
    pub pair: u64,
    pub is_opposite: bool,
}

impl Nudge {
    /// Number of pairs.
    pub(crate) const PAIRS: u64 = 4;

    /// The distance in units in the last place: so far that sums of thousands of numbers are rounded again,
    /// and not so far that twice the distance has more than twice the effect. No distance is a power of two,
    /// which may be a multiple of what results are rounded to, and so change nothing of it.
    pub(crate) fn ulps(self, format: Format) -> u64 {
        const PARTS: [u64; Nudge::PAIRS as usize] = [79, 111, 141, 167];
        let ulps = PARTS[(self.pair % Self::PAIRS) as usize] << (format.mantissa_bits / 2 - 1) >> 7;
        ulps | 1
    }
}

impl Format {
    pub(crate) fn for_type(element_type: ElementType) -> Option<Self> {
        let (mantissa_bits, exponent_bits) = match (element_type.numerical(), element_type.bits()) {
            (Numerical::FLOAT_IEEE, 16) => (10, 5),
            (Numerical::FLOAT_IEEE, 32) => (23, 8),
            (Numerical::FLOAT_IEEE, 64) => (52, 11),
            (Numerical::FLOAT_BRAIN, 16) => (7, 8),
            _ => return None,
        };
        Some(Self { element_type, bytes: (element_type.bits() / 8) as usize, mantissa_bits, exponent_bits })
    }

    pub(crate) fn highest_exponent(self) -> u64 {
        (1 << self.exponent_bits) - 1
    }

    pub(crate) fn bias(self) -> u64 {
        self.highest_exponent() / 2
    }

    pub(crate) fn mantissa_mask(self) -> u64 {
        (1 << self.mantissa_bits) - 1
    }

    pub(crate) fn exponent(self, bits: u64) -> u64 {
        bits >> self.mantissa_bits & self.highest_exponent()
    }

    pub(crate) fn is_zero(self, bits: u64) -> bool {
        bits & ((1 << (self.mantissa_bits + self.exponent_bits)) - 1) == 0
    }

    /// Whether floating-point data often has such a number. Small integers are subnormal, and small negative
    /// ones NaN.
    pub(crate) fn is_usual(self, bits: u64) -> bool {
        const MOST: u64 = 64;
        let exponent = self.exponent(bits);
        let is_infinite = exponent == self.highest_exponent() && bits & self.mantissa_mask() == 0;
        self.is_zero(bits)
            || is_infinite
            || exponent != 0 && exponent != self.highest_exponent() && exponent.abs_diff(self.bias()) <= MOST
    }

    pub(crate) fn read(self, element: &[u8]) -> u64 {
        let mut bits = [0; 8];
        bits[..element.len()].copy_from_slice(element);
        u64::from_le_bytes(bits)
    }

    /// Whether bytes are numbers of the format, rather than integers or others: three in four of those that
    /// are not zero are usual.
    pub(crate) fn is_like(self, elements: impl Iterator<Item = u64>) -> bool {
        let (mut usual, mut others) = (0_u64, 0_u64);
        for bits in elements.filter(|bits| !self.is_zero(*bits)) {
            match self.is_usual(bits) {
                true => usual += 1,
                false => others += 1,
            }
        }
        usual >= 3 * others
    }

    /// The elements of bytes, as bits.
    pub(crate) fn elements(self, bytes: &[u8]) -> impl Iterator<Item = u64> {
        bytes.chunks_exact(self.bytes).map(move |it| self.read(it))
    }

    /// Moves each usual number, up or down at random.
    pub(crate) fn nudge(self, bytes: &mut [u8], nudge: Nudge, random: &mut fastrand::Rng) {
        match self.bytes {
            2 => self.nudge_words::<2>(bytes, nudge, random),
            4 => self.nudge_words::<4>(bytes, nudge, random),
            _ => self.nudge_words::<8>(bytes, nudge, random),
        }
    }

    fn nudge_words<const N: usize>(self, bytes: &mut [u8], nudge: Nudge, random: &mut fastrand::Rng) {
        let (ulps, infinity) = (nudge.ulps(self), self.highest_exponent() << self.mantissa_bits);
        for group in bytes.as_chunks_mut::<N>().0.chunks_mut(64) {
            let mut directions = random.u64(..);
            for element in group {
                let mut word = [0; 8];
                word[..N].copy_from_slice(element);
                let bits = u64::from_le_bytes(word);
                let is_up = (directions & 1 != 0) != nudge.is_opposite;
                directions >>= 1;
                let magnitude = bits & !(1 << (8 * N - 1));
                if self.is_usual(bits) && (ulps + 1..infinity - ulps).contains(&magnitude) {
                    let moved = if is_up { bits + ulps } else { bits - ulps };
                    element.copy_from_slice(&moved.to_le_bytes()[..N]);
                }
            }
        }
    }

    /// The distance from the magnitude of a finite number to the next representable one.
    pub(crate) fn ulp(self, number: f64) -> f64 {
        let lowest = 1 - self.bias() as i32;
        let exponent = match number.abs() {
            it if it < f64::MIN_POSITIVE => lowest,
            it => (it.to_bits() >> 52) as i32 - 1023,
        };
        f64::from(exponent.max(lowest) - self.mantissa_bits as i32).exp2()
    }
}
