//! Numbers in place of others: of the same kind, within the same range, with as many of each special value, and of similar magnitudes.

use fastrand::Rng;

use super::kinds::{Float, Form, Kind, Value};

/// Bins of special values; the bins of other numbers follow, by exponent or number of bits and by sign.
const ZERO: usize = 0;
const NEGATIVE_ZERO: usize = 1;
const INFINITY: usize = 2;
const NAN: usize = 4;
const FIRST: usize = 6;
/// The first bins, whose counts are kept: special values and, of floats, subnormals. Others are only likely to have as many, as an exact
/// histogram would tell more of the source than its magnitudes.
const EXACT: usize = FIRST + 2;

/// What is kept of numbers.
pub(crate) struct Numbers {
    kind: Kind,
    /// How many there are in each bin.
    bins: Vec<u32>,
    count: u32,
    /// The smallest and the largest magnitude of positive and of negative numbers, and of subnormals.
    magnitudes: [Option<(u64, u64)>; 4],
    /// Trailing zeros that the mantissas of all floats have.
    trailing: u32,
    /// The exponent of the lowest bit of all floats.
    quantum: i64,
    /// Integers that do not decrease.
    is_sorted: bool,
}

/// Fills `target` with numbers in place of `source`, of the same length. Returns how many bytes of numbers other than zero are what
/// they were, since the range has no other, or by chance.
pub(crate) fn replace(kind: Kind, source: &[u8], random: &mut Rng, target: &mut [u8]) -> u64 {
    let whole = source.len() / kind.size * kind.size;
    let numbers = Numbers::of(kind, &source[..whole]);
    numbers.fill(random, &mut target[..whole]);
    let words = kind.words(&source[..whole]).zip(kind.words(&target[..whole]));
    let same = words.filter(|(old, new)| old == new && *old != 0).count() * kind.size;
    // The part of a number at the end.
    let rest = match Kind::of(rehal_base::ElementType::of(rehal_base::Numerical::INTEGER, 8)) {
        Some(byte) if whole < source.len() => replace(byte, &source[whole..], random, &mut target[whole..]),
        _ => 0,
    };
    same as u64 + rest
}

impl Numbers {
    fn of(kind: Kind, source: &[u8]) -> Self {
        let exponents = match kind.form {
            Form::Integer => 65,
            Form::Float(float) => 1 << float.exponent_bits,
        };
        let mut this = Self {
            kind,
            bins: vec![0; FIRST + 2 * exponents],
            count: 0,
            magnitudes: [None; 4],
            trailing: u32::MAX,
            quantum: i64::MAX,
            is_sorted: kind.form == Form::Integer,
        };
        let mut last = i64::MIN;
        for word in kind.words(source) {
            this.add(word);
            let value = kind.signed(word);
            this.is_sorted &= last <= value;
            last = value;
        }
        this.is_sorted &= this.count > 2;
        this
    }

    fn add(&mut self, word: u64) {
        let (is_negative, magnitude, exponent) = match self.kind.form {
            Form::Integer => {
                let value = self.kind.signed(word);
                let magnitude = value.unsigned_abs();
                (value < 0, magnitude, u64::from(64 - magnitude.leading_zeros()))
            }
            Form::Float(float) => {
                let is_negative = word & float.sign() != 0;
                let special = match float.value(word) {
                    Value::Zero if is_negative => Some(NEGATIVE_ZERO),
                    Value::Zero => Some(ZERO),
                    Value::Infinity => Some(INFINITY + usize::from(is_negative)),
                    Value::Nan => Some(NAN + usize::from(is_negative)),
                    Value::Finite(_) => None,
                };
                if let Some(bin) = special {
                    return self.count(bin);
                }
                let magnitude = word & (float.sign() - 1);
                let (exponent, mantissa) = float.parts(magnitude);
                let trailing = mantissa.trailing_zeros();
                self.trailing = self.trailing.min(trailing);
                self.quantum = self.quantum.min(float.lowest(exponent) + i64::from(trailing));
                (is_negative, magnitude, exponent)
            }
        };
        if magnitude == 0 {
            return self.count(ZERO);
        }
        let bin = FIRST + 2 * exponent as usize + usize::from(is_negative);
        let range = &mut self.magnitudes[range_of(bin)];
        let (low, high) = range.unwrap_or((magnitude, magnitude));
        *range = Some((low.min(magnitude), high.max(magnitude)));
        self.count(bin);
    }

    fn count(&mut self, bin: usize) {
        self.bins[bin] += 1;
        self.count += 1;
    }

    fn fill(&self, random: &mut Rng, target: &mut [u8]) {
        if self.count == 0 {
            return;
        }
        let used: Vec<usize> = (EXACT..self.bins.len()).filter(|bin| self.bins[*bin] != 0).collect();
        let ends: Vec<u32> = used
            .iter()
            .scan(0, |end, bin| {
                *end += self.bins[*bin];
                Some(*end)
            })
            .collect();
        let (mut exact, mut left) = (self.bins[..EXACT].to_vec(), self.count);
        let mut draw = || {
            // As from an urn without replacement: each arrangement of the special values is as likely.
            let mut number = random.u32(..left);
            left -= 1;
            for (bin, count) in exact.iter_mut().enumerate() {
                if number < *count {
                    *count -= 1;
                    return self.draw(bin, random);
                }
                number -= *count;
            }
            let number = random.u32(..ends.last().copied().unwrap_or(1));
            self.draw(used[ends.partition_point(|end| *end <= number)], random)
        };
        let size = self.kind.size;
        if self.is_sorted {
            let mut values: Vec<i64> = (0..self.count).map(|_| self.kind.signed(draw())).collect();
            values.sort_unstable();
            let targets = target.chunks_exact_mut(size);
            targets.zip(values).for_each(|(target, value)| self.kind.put(value as u64, target));
            return;
        }
        target.chunks_exact_mut(size).for_each(|target| self.kind.put(draw(), target));
    }

    /// A number of a bin.
    fn draw(&self, bin: usize, random: &mut Rng) -> u64 {
        let is_negative = bin % 2 == 1;
        let exponent = bin.saturating_sub(FIRST) as u64 / 2;
        let (low, high) = self.magnitudes[range_of(bin)].unwrap_or_default();
        match self.kind.form {
            Form::Integer if bin == ZERO => 0,
            Form::Integer => {
                let least = 1 << (exponent - 1);
                let largest = least | (least - 1);
                let magnitude = random.u64(low.max(least)..=high.min(largest));
                if is_negative { magnitude.wrapping_neg() } else { magnitude }
            }
            Form::Float(float) => {
                let sign = if is_negative { float.sign() } else { 0 };
                let magnitude = match bin {
                    ZERO | NEGATIVE_ZERO => 0,
                    INFINITY.. if bin < NAN => float.infinity(),
                    NAN.. if bin < FIRST => float.nan(),
                    _ => self.draw_float(float, exponent, low, high, random),
                };
                sign | magnitude
            }
        }
    }

    /// A number with this exponent and a magnitude within `low` and `high`, which themselves occur only if the range has no others.
    fn draw_float(&self, float: Float, exponent: u64, low: u64, high: u64, random: &mut Rng) -> u64 {
        let least = exponent << float.mantissa_bits;
        let largest = least | ((1 << float.mantissa_bits) - 1);
        let by_quantum = (self.quantum - float.lowest(exponent)).clamp(0, i64::from(float.mantissa_bits));
        let step = 1_u64 << self.trailing.max(by_quantum as u32).min(float.mantissa_bits);
        let multiples = |low: u64, high: u64| {
            let (first, last) = (low.max(least).max(1).div_ceil(step), high.min(largest) / step);
            (first <= last).then_some(first..=last)
        };
        // Of integers, the ends are limits rather than data.
        let inside = if self.quantum >= 0 { None } else { multiples(low + 1, high.saturating_sub(1)) };
        match inside.or_else(|| multiples(low, high)) {
            Some(multiples) => random.u64(multiples) * step,
            None => low,
        }
    }
}

/// Which range the numbers of a bin are in.
fn range_of(bin: usize) -> usize {
    bin % 2 + if bin < EXACT { 2 } else { 0 }
}

impl Float {
    /// The exponent of the lowest bit of the mantissa.
    fn lowest(self, exponent: u64) -> i64 {
        exponent.max(1) as i64 - self.bias() - i64::from(self.mantissa_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::super::kinds::CANDIDATES;
    use super::*;

    fn replaced(kind: Kind, source: &[u64], seed: u64) -> Vec<u64> {
        let mut bytes = vec![0; source.len() * kind.size];
        bytes.chunks_exact_mut(kind.size).zip(source).for_each(|(target, word)| kind.put(*word, target));
        let mut target = vec![0xEE; bytes.len()];
        replace(kind, &bytes, &mut Rng::with_seed(seed), &mut target);
        kind.words(&target).collect()
    }

    fn f32s(source: &[f32]) -> Vec<f32> {
        let words: Vec<u64> = source.iter().map(|it| u64::from(it.to_bits())).collect();
        replaced(CANDIDATES[0], &words, 1).into_iter().map(|word| f32::from_bits(word as u32)).collect()
    }

    fn i32s(source: &[i32]) -> Vec<i32> {
        let words: Vec<u64> = source.iter().map(|it| u64::from(*it as u32)).collect();
        replaced(CANDIDATES[5], &words, 1).into_iter().map(|word| word as u32 as i32).collect()
    }

    fn kind(name: &str) -> Kind {
        Kind::of(name.parse().unwrap()).unwrap()
    }

    const TYPES: [&str; 13] = [
        "f16",
        "bf16",
        "f32",
        "f64",
        "f8E5M2",
        "f8E4M3FN",
        "f8E5M2FNUZ",
        "f8E4M3FNUZ",
        "i8",
        "i16",
        "i32",
        "i64",
        "ui32",
    ];

    /// What a word is, and its sign.
    fn class(kind: Kind, word: u64) -> (u8, bool) {
        match kind.form {
            Form::Integer => (u8::from(word != 0), kind.signed(word) < 0),
            Form::Float(float) => match float.value(word) {
                Value::Zero => (0, word & float.sign() != 0),
                Value::Nan => (2, false),
                Value::Infinity => (3, word & float.sign() != 0),
                Value::Finite(magnitude) => {
                    (if float.parts(magnitude).0 == 0 { 4 } else { 1 }, word & float.sign() != 0)
                }
            },
        }
    }

    #[test]
    fn every_type_keeps_its_classes_and_their_ranges() {
        let random = &mut Rng::with_seed(9);
        for kind in TYPES.map(kind) {
            let bits = 8 * kind.size as u32;
            let of = |random: &mut Rng, count| -> Vec<u64> {
                (0..count).map(|_| random.u64(..) >> (64 - bits)).collect()
            };
            for count in [1, 2, 3, 50, 3000] {
                let mut source = of(random, count);
                source.iter_mut().step_by(7).for_each(|word| *word = 0);
                let result = replaced(kind, &source, 5);
                let magnitude = |word: u64| match kind.form {
                    Form::Integer => kind.signed(word).unsigned_abs(),
                    Form::Float(float) => word & (float.sign() - 1),
                };
                for word in &result {
                    let class = class(kind, *word);
                    let same = || source.iter().filter(|it| self::class(kind, **it) == class);
                    assert!(same().next().is_some(), "{} {word:x} {source:x?}", kind.element_type);
                    let is_number = |class: (u8, bool)| matches!(class.0, 1 | 4);
                    if is_number(class) {
                        let of_sign = source.iter().filter(|it| self::class(kind, **it) == class);
                        let magnitudes = of_sign.map(|it| magnitude(*it));
                        let (low, high) = (magnitudes.clone().min(), magnitudes.max());
                        let range = low.unwrap()..=high.unwrap();
                        assert!(range.contains(&magnitude(*word)), "{} {word:x}", kind.element_type);
                    }
                }
                let specials = |words: &[u64]| {
                    let mut classes: Vec<_> = words.iter().map(|word| class(kind, *word)).collect();
                    // Of normal numbers there are about as many.
                    classes.retain(|class| class.0 != 1);
                    classes.sort_unstable();
                    classes
                };
                assert_eq!(specials(&result), specials(&source), "{}", kind.element_type);
                assert_eq!(result, replaced(kind, &source, 5));
            }
        }
    }

    #[test]
    fn counts_of_special_values_are_kept_and_places_are_not() {
        let source: Vec<f32> = (0..4000)
            .map(|index| match index {
                0..1000 => 0.0,
                1000 => f32::NAN,
                1001..1004 => f32::NEG_INFINITY,
                1004..1006 => f32::INFINITY,
                1006..1200 => -0.0,
                1200..1300 => f32::from_bits(77),
                1300..1303 => -f32::from_bits(5),
                _ if index % 2 == 0 => 0.3 + index as f32 / 1e5,
                _ => -21.5 + index as f32 / 1e5,
            })
            .collect();
        let specials = |numbers: &[f32]| {
            let special = |it: &&f32| !it.is_normal();
            let of = |it: &f32| (it.classify(), it.is_sign_negative());
            let mut counts = std::collections::BTreeMap::new();
            for it in numbers.iter().filter(special).map(of) {
                *counts.entry(format!("{it:?}")).or_insert(0) += 1;
            }
            counts
        };
        let result = f32s(&source);
        assert_eq!(specials(&result), specials(&source));
        assert!(result.iter().all(|it| !it.is_nan() || it.to_bits() == 0x7FC0_0000));
        let is_zero = |it: &f32| it.to_bits() == 0;
        assert!(
            result[1300..].iter().any(is_zero) && !result[..1000].iter().all(is_zero),
            "zeros are elsewhere"
        );
        let ends = |sign: f32| {
            let of_sign =
                source.iter().filter(|it| it.is_normal()).map(|it| it * sign).filter(|it| *it > 0.0);
            of_sign.clone().fold(f32::MAX, f32::min)..=of_sign.fold(0.0, f32::max)
        };
        let (positive, negative) = (ends(1.0), ends(-1.0));
        let normal = || result.iter().filter(|it| it.is_normal());
        assert!(normal().all(|it| positive.contains(it) || negative.contains(&-it)));
        assert!(normal().filter(|it| **it > 0.0).count() > 1000);
    }

    #[test]
    fn nothing_is_beyond_the_smallest_and_the_largest_number() {
        let source: Vec<f32> = (0..3000).map(|index| (index as f32 / 71.0).sin() * 20.9 - 0.68).collect();
        let ends = |numbers: &[f32]| {
            let ends =
                numbers.iter().fold((f32::MAX, f32::MIN), |(low, high), it| (low.min(*it), high.max(*it)));
            let of_sign = |sign: f32| {
                numbers.iter().map(|it| it * sign).filter(|it| *it > 0.0).fold(f32::MAX, f32::min)
            };
            (ends, of_sign(1.0), of_sign(-1.0))
        };
        let ((low, high), positive, negative) = ends(&source);
        for seed in 0..200 {
            let words: Vec<u64> = source.iter().map(|it| u64::from(it.to_bits())).collect();
            let result = replaced(CANDIDATES[0], &words, seed);
            let result: Vec<f32> = result.into_iter().map(|word| f32::from_bits(word as u32)).collect();
            let (range, least_positive, least_negative) = ends(&result);
            assert!(low < range.0 && range.1 < high, "{range:?}");
            assert!(positive < least_positive && negative < least_negative);
        }
    }

    #[test]
    fn numbers_are_not_those_of_the_source() {
        let mut random = Rng::with_seed(2);
        let source: Vec<f32> = (0..20_000).map(|_| random.f32() - 0.5).collect();
        let kept: std::collections::HashSet<u32> = source.iter().map(|it| it.to_bits()).collect();
        let same = f32s(&source).into_iter().filter(|it| kept.contains(&it.to_bits())).count();
        // By chance.
        assert!(same < 200, "{same}");
        assert_eq!(f32s(&[0.7]), [0.7], "its range has no other");
        assert_ne!(f32s(&source)[..100], source[..100]);
    }

    #[test]
    fn integers_stay_in_range_and_sorted() {
        let indices: Vec<i32> = (0..1000).map(|index| (index * 37) % 411 + 5).collect();
        let result = i32s(&indices);
        assert!(result.iter().all(|it| (5..=415).contains(it)) && result != indices);
        let mut sorted = indices.clone();
        sorted.sort_unstable();
        assert!(i32s(&sorted).is_sorted() && i32s(&sorted) != sorted);
        let signed = i32s(&[-7, -9, -8, 3, 4, 3, -9, 4]);
        assert!(signed.iter().all(|it| (-9..=-7).contains(it) || (3..=4).contains(it)));
        assert_eq!(i32s(&[i32::MIN, i32::MIN]), [i32::MIN; 2]);
        assert_eq!(i32s(&[42]), [42], "an index stays valid");
    }

    #[test]
    fn short_mantissas_stay_short() {
        let pixels: Vec<f32> = (0..2000).map(|index| (index * 31 % 256) as f32).collect();
        let result = f32s(&pixels);
        assert!(result.iter().all(|it| it.fract() == 0.0 && (0.0..=255.0).contains(it)) && result != pixels);
        let quarters: Vec<f32> = (1..500).map(|index| index as f32 / 4.0).collect();
        assert!(f32s(&quarters).iter().all(|it| (it * 4.0).fract() == 0.0));
        let brains: Vec<f32> =
            (0..500).map(|it| f32::from_bits((0.01 + it as f32 / 3e4).to_bits() & !0xFFFF)).collect();
        assert!(f32s(&brains).iter().all(|it| it.to_bits() & 0xFFFF == 0));
        assert_eq!(f32s(&[1.0, 0.0, 1.0, 1.0]).iter().filter(|it| **it != 0.0 && **it != 1.0).count(), 0);
    }

    #[test]
    fn the_part_of_a_number_at_the_end_is_replaced() {
        let source: Vec<u8> = (0..4 * 8 + 3).map(|index| 200 - index).collect();
        for kind in CANDIDATES {
            let mut target = vec![0; source.len()];
            replace(kind, &source, &mut Rng::with_seed(3), &mut target);
            assert!(target.iter().filter(|byte| **byte != 0).count() > source.len() / 2);
            assert_ne!(target[..], source[..]);
        }
    }
}
