//! Finds out which parts of data are numbers of which kind.

use std::ops::Range;

use super::kinds::Kind;

/// Bytes that are of one kind at least, except at the end: what constants are aligned to, and two numbers of 8 bytes.
pub(crate) const UNIT_BYTES: usize = 16;

/// Cost of another kind than that of the unit before: some bytes, as data is long.
const SWITCH_COST: u32 = 24 * 16;

/// Which kinds a unit may have, as bits by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub allowed: u32,
    /// The others are less likely.
    pub preferred: u32,
}

/// Divides data into segments of one kind: those that explain its bytes with the least cost. Units of which nothing is known have
/// the choice `otherwise`; `choices` has those of the first units.
pub(crate) fn segments(
    data: &[u8],
    kinds: &[Kind],
    choices: &[Choice],
    otherwise: Choice,
) -> Vec<(Range<usize>, Kind)> {
    let mut totals = vec![0_u32; kinds.len()];
    // By unit: which kinds follow another kind with the least cost, and that one.
    let mut steps: Vec<(u32, u8)> = Vec::with_capacity(data.len().div_ceil(UNIT_BYTES));
    for (index, unit) in data.chunks(UNIT_BYTES).enumerate() {
        let choice = choices.get(index).copied().unwrap_or(otherwise);
        let best = least(&totals);
        let switched_total = totals[best] + SWITCH_COST;
        let mut switched = 0;
        for (number, (total, kind)) in totals.iter_mut().zip(kinds).enumerate() {
            if switched_total < *total {
                *total = switched_total;
                switched |= 1 << number;
            }
            *total = total.saturating_add(cost(*kind, number, unit, choice));
        }
        steps.push((switched, best as u8));
        // Only differences count.
        let least = totals.iter().copied().min().unwrap_or_default();
        totals.iter_mut().for_each(|total| *total -= least);
    }
    let mut number = least(&totals);
    let mut segments: Vec<(Range<usize>, Kind)> = Vec::new();
    for (index, (switched, best)) in steps.into_iter().enumerate().rev() {
        let start = index * UNIT_BYTES;
        match segments.last_mut() {
            Some((range, kind)) if *kind == kinds[number] => range.start = start,
            _ => segments.push((start..data.len().min(start + UNIT_BYTES), kinds[number])),
        }
        if switched >> number & 1 != 0 {
            number = usize::from(best);
        }
    }
    segments.reverse();
    segments
}

fn cost(kind: Kind, number: usize, unit: &[u8], choice: Choice) -> u32 {
    /// More than any other cost, but far from the largest number.
    const NEVER: u32 = 1 << 24;
    if choice.allowed >> number & 1 == 0 {
        return NEVER;
    }
    let cost = kind.cost(unit);
    match choice.preferred == 0 || choice.preferred >> number & 1 != 0 {
        true => cost,
        false => cost + cost / 4,
    }
}

fn least(totals: &[u32]) -> usize {
    let index = (0..totals.len()).min_by_key(|index| totals[*index]);
    index.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::kinds::CANDIDATES;
    use super::*;

    const ANY: Choice = Choice { allowed: u32::MAX, preferred: 0 };

    /// The names of the kinds of the segments, with their ends.
    fn found(data: &[u8]) -> Vec<(usize, String)> {
        let segments = segments(data, &CANDIDATES, &[], ANY);
        assert!(segments.windows(2).all(|pair| pair[0].0.end == pair[1].0.start));
        segments.into_iter().map(|(range, kind)| (range.end, kind.element_type.to_string())).collect()
    }

    fn bytes<const N: usize>(words: impl IntoIterator<Item = [u8; N]>) -> Vec<u8> {
        words.into_iter().flatten().collect()
    }

    /// Numbers near a normal distribution.
    fn normal(random: &mut fastrand::Rng, scale: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| random.f64()).sum();
        (sum - 6.0) * scale
    }

    #[test]
    fn every_kind_is_recognized() {
        let random = &mut fastrand::Rng::with_seed(11);
        for scale in [1.0, 0.02, 30.0] {
            let f64s: Vec<f64> = (0..600).map(|_| normal(random, scale)).collect();
            let f32s = bytes(f64s.iter().map(|it| (*it as f32).to_le_bytes()));
            let bf16s =
                bytes(f64s.iter().map(|it| ((*it as f32).to_bits() >> 16) as u16).map(u16::to_le_bytes));
            assert_eq!(found(&bytes(f64s.iter().map(|it| it.to_le_bytes()))), [(4800, "f64".to_owned())]);
            assert_eq!(found(&f32s), [(2400, "f32".to_owned())]);
            assert_eq!(found(&bf16s), [(1200, "bf16".to_owned())]);
        }
        let i8s: Vec<u8> = (0..1000).map(|_| normal(random, 40.0) as i8 as u8).collect();
        assert_eq!(found(&i8s), [(1000, "i8".to_owned())]);
        let i16s = bytes((0..1000).map(|_| (normal(random, 3000.0) as i16).to_le_bytes()));
        assert_eq!(found(&i16s), [(2000, "i16".to_owned())]);
        let i32s = bytes((0..1000).map(|_| random.i32(0..30_000).to_le_bytes()));
        assert_eq!(found(&i32s), [(4000, "i32".to_owned())]);
        let i64s = bytes((0..1000).map(|_| random.i64(0..30_000).to_le_bytes()));
        assert_eq!(found(&i64s), [(8000, "i64".to_owned())]);
        let pixels = bytes((0..1000).map(|_| f32::from(random.u8(..)).to_le_bytes()));
        assert_eq!(found(&pixels), [(4000, "f32".to_owned())]);
    }

    #[test]
    fn halves_are_distinguished_from_words_and_bytes() {
        let random = &mut fastrand::Rng::with_seed(5);
        // Between 2^-10 and 2: as many of each exponent.
        let words =
            (0..800).map(|_| (random.u16(5..16) << 10) | random.u16(..1024) | (random.u16(..2) << 15));
        assert_eq!(found(&bytes(words.map(u16::to_le_bytes))), [(1600, "f16".to_owned())]);
    }

    #[test]
    fn parts_of_different_kinds_are_divided() {
        let random = &mut fastrand::Rng::with_seed(3);
        let mut data = bytes((0..256).map(|_| (normal(random, 0.1) as f32).to_le_bytes()));
        data.extend(bytes((0..64).map(|_| random.i64(0..50_000).to_le_bytes())));
        data.extend(bytes((0..256).map(|_| (normal(random, 0.1) as f32).to_le_bytes())));
        let kinds = [(1024, "f32"), (1536, "i64"), (2560, "f32")].map(|(end, name)| (end, name.to_owned()));
        assert_eq!(found(&data), kinds);
    }

    #[test]
    fn a_choice_is_respected() {
        let data = [7; 64];
        let only = |number: u32| Choice { allowed: 1 << number, preferred: 0 };
        for (number, kind) in (0..).zip(CANDIDATES) {
            assert_eq!(segments(&data, &CANDIDATES, &[], only(number)), [(0..64, kind)]);
        }
        let halves = [only(0), only(0), only(7), only(7)];
        let divided = segments(&data, &CANDIDATES, &halves, ANY);
        assert_eq!(divided, [(0..32, CANDIDATES[0]), (32..64, CANDIDATES[7])]);
        assert!(segments(&[], &CANDIDATES, &[], ANY).is_empty());
    }
}
