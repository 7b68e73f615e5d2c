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

    /// All of them.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let all = [16, 32, 64].map(|bits| (Numerical::FLOAT_IEEE, bits)).into_iter();
        let all = all.chain([(Numerical::FLOAT_BRAIN, 16)]);
        all.filter_map(|(numerical, bits)| Self::for_type(ElementType::from_parts(numerical, bits)))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn format(name: &str) -> Format {
        Format::for_type(name.parse().unwrap()).unwrap()
    }

    /// Without this test, inputs may be moved so little that no sum is rounded again, or so far that results
    /// differ by more than rounding.
    #[test]
    fn formats_have_the_numbers_of_their_definition() {
        for (name, exponents, mantissa_mask, lowest_ulp, distances) in [
            ("f16", (31, 15), 0x3ff, -24, [9, 13, 17, 21]),
            ("bf16", (255, 127), 0x7f, -133, [3, 3, 5, 5]),
            ("f32", (255, 127), 0x7f_ffff, -149, [633, 889, 1129, 1337]),
            ("f64", (2047, 1023), 0xf_ffff_ffff_ffff, -1074, [79, 111, 141, 167].map(|it| it << 18 | 1)),
        ] {
            let it = format(name);
            assert_eq!((it.highest_exponent(), it.bias(), it.mantissa_mask()), {
                let (highest, bias) = exponents;
                (highest, bias, mantissa_mask)
            });
            let ulps = |pair| Nudge { pair, is_opposite: false }.ulps(it);
            assert_eq!([0, 1, 2, 3].map(ulps), distances, "{name}");
            assert_eq!(ulps(4), distances[0], "{name}");
            let one = f64::from(it.mantissa_bits).exp2().recip();
            assert_eq!([1.0, -3.5, 0.75].map(|number| it.ulp(number)), [one, 2.0 * one, one / 2.0], "{name}");
            assert_eq!(
                [0.0, 1e-320].map(|number| it.ulp(number)),
                [f64::from(lowest_ulp).exp2(); 2],
                "{name}"
            );
        }
    }

    /// Without this test, integers may be taken for numbers, which are then moved.
    #[test]
    fn usual_numbers_are_within_64_powers_of_two() {
        let it = format("f32");
        let power = |exponent: f32| exponent.exp2().to_bits().into();
        for bits in [0, 1 << 31, power(0.0), power(64.0), power(-64.0), f32::NEG_INFINITY.to_bits().into()] {
            assert!(it.is_usual(bits), "{bits:#x}");
        }
        for bits in [1, f32::NAN.to_bits().into(), power(65.0), power(-65.0), f32::MAX.to_bits().into()] {
            assert!(!it.is_usual(bits), "{bits:#x}");
        }
        let (usual, other, zero) = (power(3.0), 7, 0);
        let is_like = |elements: &[u64]| it.is_like(elements.iter().copied());
        assert!(is_like(&[usual, other, usual, usual]) && is_like(&[zero]) && is_like(&[]));
        assert!(!is_like(&[usual, other, usual]) && !is_like(&[zero, zero, zero, other]));
    }

    /// Without this test, a pair may move numbers by different distances, or all of them in one direction.
    #[test]
    fn pairs_move_numbers_by_the_same_distance_in_opposite_directions() {
        for (name, one, largest) in
            [("f16", 0x3c00, 0x7bf2), ("f32", 0x3f80_0000, 0x5f80_0000), ("f64", 0x3ff << 52, 0x43f << 52)]
        {
            let it = format(name);
            let unmoved = [0, it.highest_exponent() << it.mantissa_bits, it.mantissa_mask()];
            let numbers: Vec<u64> = [one; 100].into_iter().chain([largest]).chain(unmoved).collect();
            let bytes: Vec<u8> =
                numbers.iter().flat_map(|bits| bits.to_le_bytes()[..it.bytes].to_vec()).collect();
            assert_eq!(it.elements(&bytes).collect::<Vec<_>>(), numbers);
            let ulps = Nudge { pair: 1, is_opposite: false }.ulps(it);
            let [with, against] = [false, true].map(|is_opposite| {
                let mut moved = bytes.clone();
                it.nudge(&mut moved, Nudge { pair: 1, is_opposite }, &mut fastrand::Rng::with_seed(1));
                it.elements(&moved).collect::<Vec<_>>()
            });
            let mut up = 0;
            for ((bits, one), other) in numbers.iter().zip(with).zip(against) {
                match unmoved.contains(bits) {
                    true => assert_eq!((one, other), (*bits, *bits), "{name}"),
                    false => {
                        let both = [bits + ulps, bits - ulps];
                        assert!([one, other] == both || [other, one] == both, "{name} {bits:#x} {one:#x}");
                        up += u32::from(one > *bits);
                    }
                }
            }
            assert!((30..70).contains(&up), "{name}: {up} of 101");
        }
        // So near the largest and the smallest number that it would leave the range.
        let it = format("f16");
        let mut bytes = [0x7bff_u16, 0x7bf3, 0x0400].map(u16::to_le_bytes).concat();
        it.nudge(&mut bytes, Nudge { pair: 1, is_opposite: false }, &mut fastrand::Rng::with_seed(1));
        let moved: Vec<u64> = it.elements(&bytes).collect();
        assert_eq!((&moved[..2], moved[2].abs_diff(0x400)), (&[0x7bff, 0x7bf3][..], 13));
    }
}
