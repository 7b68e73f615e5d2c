//! Elements in place of others: drawn between their minimum and maximum, except for zeros, infinities and
//! NaN, which stay where they are.

use fastrand::Rng;
use rehal_base::{ElementType, Numerical};
use rehal_values::Floats;

/// The elements of a range, of which only the limits are kept.
pub(super) struct Elements {
    /// Bytes of a number: half an element if it is complex.
    size: usize,
    limits: Limits,
}

/// The minimum and maximum of the numbers that are neither zero nor infinite nor NaN. Without any, the
/// minimum is greater than the maximum.
#[derive(Clone, Copy)]
enum Limits {
    Floats(Floats, f64, f64),
    Integers { is_signed: bool, low: i128, high: i128 },
}

impl Elements {
    /// Finds the limits of `source`, which has a multiple of the size of an element.
    pub(super) fn from_bytes(element_type: ElementType, source: &[u8]) -> Self {
        let numerical = element_type.numerical();
        let whole = element_type.whole_bytes().unwrap_or(1) as usize;
        let (numbers, size) = match numerical {
            Numerical::FLOAT_COMPLEX => {
                (ElementType::from_parts(Numerical::FLOAT_IEEE, element_type.bits() as u8 / 2), whole / 2)
            }
            _ => (element_type, whole.min(8)),
        };
        let limits = match Floats::for_type(numbers) {
            Some(floats) => {
                let values = source.chunks_exact(size).filter_map(|it| floats.at(it, 0));
                let (low, high) = values
                    .filter(|value| value.is_finite() && *value != 0.0)
                    .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                        (low.min(value), high.max(value))
                    });
                Limits::Floats(floats, low, high)
            }
            None => {
                let is_signed = matches!(numerical, Numerical::INTEGER | Numerical::SIGNED);
                let values = source.chunks_exact(size).map(|it| integer(it, is_signed));
                let (low, high) = values
                    .filter(|value| *value != 0)
                    .fold((i128::MAX, i128::MIN), |(low, high), value| (low.min(value), high.max(value)));
                Limits::Integers { is_signed, low, high }
            }
        };
        Self { size, limits }
    }

    /// Writes the bytes from `at` on that replace `source`. What a number becomes depends on `key`, on its
    /// index and on the limits. Returns how many of the bytes changed.
    pub(super) fn fill(&self, key: u64, source: &[u8], at: usize, target: &mut [u8]) -> Filled {
        let (mut filled, mut done) = (Filled::default(), 0);
        while done < target.len() {
            let (index, first) = ((at + done) / self.size, (at + done) % self.size);
            let old = &source[index * self.size..][..self.size];
            let mut new = [0; 8];
            let new = &mut new[..self.size];
            let random = Rng::with_seed(key ^ (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)).u64(..);
            self.draw(random, old, new);
            let length = (self.size - first).min(target.len() - done);
            target[done..][..length].copy_from_slice(&new[first..][..length]);
            match *old == *new {
                false => filled.changed_bytes += length as u64,
                true if old.iter().any(|byte| *byte != 0) => filled.unchanged_bytes += length as u64,
                true => {}
            }
            done += length;
        }
        filled
    }

    fn draw(&self, random: u64, old: &[u8], new: &mut [u8]) {
        match self.limits {
            Limits::Floats(floats, low, high) => match floats.at(old, 0) {
                // The payload of a NaN is data.
                Some(value) if value.is_nan() => floats.put(f64::NAN, new),
                Some(value) if value.is_finite() && value != 0.0 => {
                    let part = (random >> 11) as f64 / (1_u64 << 53) as f64;
                    floats.put((low * (1.0 - part) + high * part).clamp(low, high), new);
                    if floats.at(new, 0) == Some(0.0) {
                        floats.put(if high > 0.0 { high } else { low }, new);
                    }
                }
                _ => new.copy_from_slice(old),
            },
            Limits::Integers { is_signed, low, high } => {
                if integer(old, is_signed) == 0 {
                    return new.copy_from_slice(old);
                }
                // Zero is not among the numbers.
                let has_zero = low < 0 && high > 0;
                let count = (high - low) as u128 + u128::from(!has_zero);
                let value = low + ((u128::from(random) * count) >> 64) as i128;
                let value = value + i128::from(has_zero && value >= 0);
                new.copy_from_slice(&value.to_le_bytes()[..new.len()]);
            }
        }
    }
}

/// The bytes that [`Elements::fill`] wrote.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filled {
    /// Bytes of numbers that were replaced by another number.
    pub changed_bytes: u64,
    /// Bytes of numbers other than zero that are the same as before.
    pub unchanged_bytes: u64,
}

fn integer(bytes: &[u8], is_signed: bool) -> i128 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let (word, unused) = (u64::from_le_bytes(word), 64 - 8 * bytes.len() as u32);
    match is_signed {
        true => (((word << unused) as i64) >> unused).into(),
        false => word.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [&str; 19] = [
        "f16",
        "bf16",
        "f32",
        "f64",
        "f8E5M2",
        "f8E4M3FN",
        "f8E5M2FNUZ",
        "f8E4M3FNUZ",
        "f8E8M0FNU",
        "cf64",
        "i1",
        "i8",
        "i16",
        "i32",
        "i64",
        "ui8",
        "ui32",
        "ui64",
        "si16",
    ];

    fn replaced(element_type: &str, source: &[u8], key: u64) -> Vec<u8> {
        let mut target = vec![0xEE; source.len()];
        let elements = Elements::from_bytes(element_type.parse().unwrap(), source);
        elements.fill(key, source, 0, &mut target);
        target
    }

    fn f32s(source: &[f32]) -> Vec<f32> {
        let bytes: Vec<u8> = source.iter().flat_map(|it| it.to_le_bytes()).collect();
        let words = replaced("f32", &bytes, 1);
        words.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
    }

    fn i32s(source: &[i32]) -> Vec<i32> {
        let bytes: Vec<u8> = source.iter().flat_map(|it| it.to_le_bytes()).collect();
        let words = replaced("i32", &bytes, 1);
        words.as_chunks().0.iter().map(|word| i32::from_le_bytes(*word)).collect()
    }

    #[test]
    fn every_type_keeps_its_limits_and_the_places_of_special_values() {
        let random = &mut Rng::with_seed(9);
        for name in TYPES {
            for length in [16, 48, 16 * 500] {
                let mut source: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
                source[..16].fill(0);
                let result = replaced(name, &source, 5);
                let again = Elements::from_bytes(name.parse().unwrap(), &result);
                let before = Elements::from_bytes(name.parse().unwrap(), &source);
                let numbers = source.chunks(before.size).zip(result.chunks(before.size));
                match (before.limits, again.limits) {
                    (Limits::Floats(floats, low, high), Limits::Floats(_, new_low, new_high)) => {
                        assert!(low > high || low <= new_low && new_high <= high, "{name}");
                        for (old, new) in numbers {
                            let (old, new) = (floats.at(old, 0).unwrap(), floats.at(new, 0).unwrap());
                            let is_special = |it: f64| !it.is_finite() || it == 0.0;
                            assert_eq!(is_special(old), is_special(new), "{name} {old} {new}");
                            let is_same = old.is_nan() && new.is_nan() || old == new;
                            assert!(!is_special(old) || is_same, "{name} {old} {new}");
                        }
                    }
                    (
                        Limits::Integers { is_signed, low, high },
                        Limits::Integers { low: new_low, high: new_high, .. },
                    ) => {
                        assert!(low > high || low <= new_low && new_high <= high, "{name}");
                        for (old, new) in numbers {
                            let zero = |it| integer(it, is_signed) == 0;
                            assert_eq!(zero(old), zero(new), "{name}");
                        }
                    }
                    _ => panic!("{name}"),
                }
                assert!(result == replaced(name, &source, 5));
                assert!(length < 1000 || result != replaced(name, &source, 6));
            }
        }
    }

    #[test]
    fn pieces_are_parts_of_the_whole() {
        let source: Vec<u8> = (0..64).collect();
        let elements = Elements::from_bytes("i64".parse().unwrap(), &source);
        let whole = replaced("i64", &source, 3);
        for split in 0..64 {
            let mut target = vec![0; 64];
            let (first, second) = target.split_at_mut(split);
            elements.fill(3, &source, 0, first);
            elements.fill(3, &source, split, second);
            assert_eq!(target, whole);
        }
    }

    #[test]
    fn special_values_stay_and_numbers_do_not() {
        let source = [0.0, 6.7, -0.0, f32::INFINITY, -3.5, f32::from_bits(0x7F80_1234), f32::NEG_INFINITY];
        let result = f32s(&source);
        assert_eq!(result[5].to_bits(), 0x7FC0_0000, "the payload is data");
        for index in [0, 2, 3, 6] {
            assert_eq!(result[index].to_bits(), source[index].to_bits());
        }
        for index in [1, 4] {
            assert!((-3.5..=6.7).contains(&result[index]) && result[index] != source[index]);
        }
        assert_eq!(f32s(&[0.7]), [0.7], "its range has no other");
        assert!(f32s(&[f32::MAX, f32::MIN]).iter().all(|it| it.is_finite()));
    }

    #[test]
    fn indices_stay_in_range() {
        let indices: Vec<i32> = (0..1000).map(|index| (index * 37) % 411 + 5).collect();
        let result = i32s(&indices);
        assert!(result.iter().all(|it| (5..=415).contains(it)) && result != indices);
        let signed = i32s(&[-1, 1, 0, -1, 1, 1, 0, -1]);
        assert!(signed.iter().all(|it| (-1..=1).contains(it)) && signed[2] == 0 && signed[6] == 0);
        assert!(signed.iter().filter(|it| **it == 0).count() == 2);
        assert_eq!(i32s(&[i32::MIN, i32::MIN]), [i32::MIN; 2]);
    }
}
