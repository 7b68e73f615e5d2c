//! Fresh values for inputs, so that a kernel cannot gain by remembering results: each timed pair of
//! dispatches has values that no dispatch had before, and in some pairs, what both kernels leave is compared.
//!
//! An input gets fresh values if its element type is known and its bytes look like it. Each number keeps its
//! sign, and its exponent but for a power of two that all inputs share, so that sums are conditioned as those
//! of the captured inputs are. Zeros, infinities and NaN stay, since masks and indices consist of them; but
//! not zeros that the captured kernel overwrites, so that it shows who writes them. A tolerance for the
//! captured inputs may not fit others. Therefore results only differ by more than rounding explains.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rehal_base::{ElementType, Numerical, Result};
use rehal_replay::{FastForward, Observer, PlannedBinding, VariedBytes, VariedPiece, distinct_bytes};
use rehal_values::Floats;

use super::bound::Bound;
use crate::Tolerance;

/// Granularity in which bytes are known as output: that in which repetitions restore them.
const BLOCK_BYTES: usize = 4 << 10;

/// Maximum bytes of all bindings. Beyond it, inputs stay as captured, since copies of them are kept.
const MOST_BYTES: u64 = 256 << 20;

/// The binary format of a floating-point type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Format {
    element_type: ElementType,
    bytes: usize,
    mantissa_bits: u32,
    exponent_bits: u32,
}

impl Format {
    fn for_type(element_type: ElementType) -> Option<Self> {
        let (mantissa_bits, exponent_bits) = match (element_type.numerical(), element_type.bits()) {
            (Numerical::FLOAT_IEEE, 16) => (10, 5),
            (Numerical::FLOAT_IEEE, 32) => (23, 8),
            (Numerical::FLOAT_IEEE, 64) => (52, 11),
            (Numerical::FLOAT_BRAIN, 16) => (7, 8),
            _ => return None,
        };
        Some(Self { element_type, bytes: (element_type.bits() / 8) as usize, mantissa_bits, exponent_bits })
    }

    fn highest_exponent(self) -> u64 {
        (1 << self.exponent_bits) - 1
    }

    fn bias(self) -> u64 {
        self.highest_exponent() / 2
    }

    fn mantissa_mask(self) -> u64 {
        (1 << self.mantissa_bits) - 1
    }

    fn exponent(self, bits: u64) -> u64 {
        bits >> self.mantissa_bits & self.highest_exponent()
    }

    fn is_zero(self, bits: u64) -> bool {
        bits & ((1 << (self.mantissa_bits + self.exponent_bits)) - 1) == 0
    }

    /// Whether floating-point data often has such a number. Small integers are subnormal, and small negative
    /// ones NaN.
    fn is_usual(self, bits: u64) -> bool {
        const MOST: u64 = 64;
        let exponent = self.exponent(bits);
        let is_infinite = exponent == self.highest_exponent() && bits & self.mantissa_mask() == 0;
        self.is_zero(bits)
            || is_infinite
            || exponent != 0 && exponent != self.highest_exponent() && exponent.abs_diff(self.bias()) <= MOST
    }

    fn read(self, element: &[u8]) -> u64 {
        let mut bits = [0; 8];
        bits[..element.len()].copy_from_slice(element);
        u64::from_le_bytes(bits)
    }

    /// Gives numbers fresh values.
    fn freshen(self, bytes: &mut [u8], random: &mut fastrand::Rng, is_larger: bool, with_zeros: bool) {
        match self.bytes {
            2 => self.freshen_words::<2>(bytes, random, is_larger, with_zeros),
            4 => self.freshen_words::<4>(bytes, random, is_larger, with_zeros),
            _ => self.freshen_words::<8>(bytes, random, is_larger, with_zeros),
        }
    }

    /// The same for numbers of `N` bytes. All inputs of each pair get values, which would take longer than
    /// their kernels if each number was a call of `memcpy`.
    fn freshen_words<const N: usize>(
        self,
        bytes: &mut [u8],
        random: &mut fastrand::Rng,
        is_larger: bool,
        with_zeros: bool,
    ) {
        let (highest, mask) = (self.highest_exponent(), self.mantissa_mask());
        for element in bytes.as_chunks_mut::<N>().0 {
            let mut word = [0; 8];
            word[..N].copy_from_slice(element);
            let bits = u64::from_le_bytes(word);
            let exponent = match self.exponent(bits) {
                _ if self.is_zero(bits) && with_zeros => self.bias(),
                it if it == 0 || it == highest => continue,
                it if is_larger => (it + 1).min(highest - 1),
                it => (it - 1).max(1),
            };
            let sign = bits >> (self.mantissa_bits + self.exponent_bits);
            let value = (sign << self.exponent_bits | exponent) << self.mantissa_bits | random.u64(..) & mask;
            element.copy_from_slice(&value.to_le_bytes()[..N]);
        }
    }
}

/// The bindings of a dispatch that get fresh values.
#[derive(Clone, Debug, Default)]
pub(super) struct FreshBindings {
    format: Option<Format>,
    /// By ordinal.
    varied: Vec<(u32, PlannedBinding)>,
    /// All, to name what differs.
    bindings: Vec<PlannedBinding>,
}

impl FreshBindings {
    /// Selects the bindings whose bytes before the dispatch, which `bound` has, look like the element type.
    pub(super) fn for_dispatch(
        element_type: Option<ElementType>,
        bindings: &[PlannedBinding],
        bound: &[Bound],
    ) -> Self {
        let format = element_type.and_then(Format::for_type);
        let is_varied = |ordinal| {
            let Some(format) = format else { return false };
            bound.iter().find(|it| it.is_bound_by(ordinal)).is_some_and(|Bound { before, .. }| {
                before.len().is_multiple_of(format.bytes)
                    && before.chunks_exact(format.bytes).all(|it| format.is_usual(format.read(it)))
            })
        };
        let is_too_much = distinct_bytes(bound.iter().map(|it| (it.buffer_id, it.range))) > MOST_BYTES;
        let varied = (0..).zip(bindings).filter(|(ordinal, _)| !is_too_much && is_varied(*ordinal));
        let varied = varied.map(|(ordinal, it)| (ordinal, *it)).collect();
        Self { format, varied, bindings: bindings.to_vec() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.varied.is_empty()
    }

    /// Their ordinals.
    pub(super) fn ordinals(&self) -> Vec<u32> {
        self.varied.iter().map(|(ordinal, _)| *ordinal).collect()
    }

    /// Gives the numbers in a piece fresh values, the same for the same seed. Returns whether it has some.
    fn freshen(&self, piece: VariedPiece, bytes: &mut [u8], seed: u64, outputs: &BTreeSet<Place>) -> bool {
        let Some(format) = self.format else { return false };
        let mut is_changed = false;
        for (start, block) in (piece.offset..).step_by(BLOCK_BYTES).zip(bytes.chunks_mut(BLOCK_BYTES)) {
            let place = (piece.buffer_id, start);
            let end = start + block.len() as u64;
            for (_, it) in self.varied.iter().filter(|(_, it)| it.buffer_id == piece.buffer_id) {
                let (from, to) = (it.offset.max(start), (it.offset + it.length).min(end));
                // An element at the border of two blocks stays.
                let from = it.offset + (from - it.offset.min(from)).next_multiple_of(format.bytes as u64);
                if from >= to {
                    continue;
                }
                let mut random = fastrand::Rng::with_seed(mixed(seed ^ mixed(place.0) ^ start));
                let numbers = &mut block[(from - start) as usize..(to - start) as usize];
                format.freshen(numbers, &mut random, seed & 1 == 0, outputs.contains(&place));
                is_changed = true;
            }
        }
        is_changed
    }

    /// The first element in which results differ by more than rounding explains.
    fn difference(
        &self,
        expected: &BTreeMap<Place, Vec<u8>>,
        actual: &BTreeMap<Place, Vec<u8>>,
        tolerance: Option<&Tolerance>,
    ) -> Option<String> {
        let format = self.format?;
        expected.iter().find_map(|(place, expected)| {
            let actual = actual.get(place).filter(|it| it != &expected)?;
            let index = different(format, expected, actual, tolerance)?;
            let at = place.1 + (index * format.bytes) as u64;
            let is_in = |it: &&PlannedBinding| {
                it.buffer_id == place.0 && (it.offset..it.offset + it.length).contains(&at)
            };
            let place = match (0..).zip(&self.bindings).find(|(_, it)| is_in(it)) {
                Some((ordinal, it)) => {
                    let element = (at - it.offset) / format.bytes as u64;
                    format!("element {element} of binding {ordinal}")
                }
                None => format!("offset {at} of a buffer"),
            };
            let shown = |bytes| Floats::for_type(format.element_type)?.at(bytes, index);
            let (expected, actual) = (shown(expected)?, shown(actual)?);
            Some(format!("{place} is {actual:e} instead of {expected:e}"))
        })
    }
}

/// The first element of a block that differs by more than rounding explains, and than the tolerance allows.
fn different(format: Format, expected: &[u8], actual: &[u8], tolerance: Option<&Tolerance>) -> Option<usize> {
    let floats = Floats::for_type(format.element_type)?;
    let count = expected.len() / format.bytes;
    let is_usual = |it: &[u8]| format.is_usual(format.read(it));
    if !expected.chunks_exact(format.bytes).all(is_usual) {
        // Integers, of which rounding changes a few.
        let words = || expected.chunks_exact(format.bytes).zip(actual.chunks_exact(format.bytes));
        let differ = words().filter(|(one, other)| one != other).count();
        return (2 * differ > count).then(|| words().position(|(one, other)| one != other)).flatten();
    }
    let of = |bytes, index| floats.at(bytes, index).unwrap_or(f64::NAN);
    let largest =
        (0..count).map(|index| of(expected, index).abs()).filter(|it| it.is_finite()).fold(0.0, f64::max);
    let rounding = if format.mantissa_bits > 10 { 0.01 } else { 0.06 };
    let absolute = tolerance.and_then(|it| it.absolute).unwrap_or(0.0).max(rounding * largest);
    let ulps = tolerance.and_then(|it| it.ulps).unwrap_or(0) as f64 / format.mantissa_mask() as f64;
    let relative = tolerance.and_then(|it| it.relative).unwrap_or(0.0).max(ulps);
    (0..count).find(|index| {
        let (expected, actual) = (of(expected, *index), of(actual, *index));
        let is_same = expected == actual || expected.is_nan() && actual.is_nan();
        let error = (expected - actual).abs();
        // NaN is not within either.
        !(is_same || error <= absolute || error <= relative * expected.abs())
    })
}

/// The id of a buffer and the offset in it of a block.
type Place = (u64, u64);

/// One side of a comparison. The same seed gives both sides the same values.
pub(super) struct FreshSide {
    pub side: FastForward,
    bindings: Arc<FreshBindings>,
    /// Blocks that the captured kernel changes.
    outputs: BTreeSet<Place>,
    /// What repetitions do not restore, as it was captured, in the order in which it is passed.
    captured: Vec<Vec<u8>>,
    /// Of the last repetition: `None` for the captured values.
    seed: Option<u64>,
}

impl FreshSide {
    /// Both sides: first that of the captured kernel.
    pub(super) fn pair(sides: [FastForward; 2], bindings: Arc<FreshBindings>) -> Result<[Self; 2]> {
        let [mut captured, replaced] = sides;
        let mut outputs = BTreeSet::new();
        if !bindings.is_empty() {
            captured.vary(VariedBytes::Restored, &mut |piece, bytes| {
                let starts = (piece.offset..piece.offset + bytes.len() as u64).step_by(BLOCK_BYTES);
                outputs.extend(starts.map(|start| (piece.buffer_id, start)));
                false
            })?;
        }
        let side = |mut side: FastForward, outputs: BTreeSet<Place>| {
            let mut captured = Vec::new();
            if !bindings.is_empty() {
                side.vary(VariedBytes::All, &mut |piece, bytes| {
                    if !piece.is_restored {
                        captured.push(bytes.to_vec());
                    }
                    false
                })?;
            }
            Ok::<_, rehal_base::Error>(Self {
                side,
                bindings: bindings.clone(),
                outputs,
                captured,
                seed: None,
            })
        };
        Ok([side(captured, outputs.clone())?, side(replaced, outputs)?])
    }

    /// The seed of the last repetition.
    pub(super) fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// Puts back the inputs, with fresh values if there is a seed, and dispatches the kernel.
    pub(super) fn repeat(&mut self, seed: Option<u64>, observers: &mut [&mut dyn Observer]) -> Result<()> {
        self.side.restore()?;
        let before = std::mem::replace(&mut self.seed, seed);
        let bytes = match seed == before {
            true => VariedBytes::Restored,
            false => VariedBytes::All,
        };
        if seed.or(before).is_some() {
            let (bindings, outputs, mut captured) = (&self.bindings, &self.outputs, self.captured.iter());
            self.side.vary(bytes, &mut |piece, bytes| {
                let mut is_changed = false;
                if !piece.is_restored
                    && let Some(captured) = captured.next()
                {
                    is_changed = *bytes != captured[..];
                    bytes.copy_from_slice(captured);
                }
                is_changed | seed.is_some_and(|seed| bindings.freshen(piece, bytes, seed, outputs))
            })?;
        }
        match seed {
            None => self.side.repeat(observers),
            Some(_) => self.side.repeat_varied(observers),
        }
    }

    /// What is in all that the dispatch may access.
    fn contents(&mut self) -> Result<BTreeMap<Place, Vec<u8>>> {
        let mut all = BTreeMap::new();
        self.side.vary(VariedBytes::All, &mut |piece, bytes| {
            let starts = (piece.offset..).step_by(BLOCK_BYTES);
            let blocks = starts.zip(bytes.chunks(BLOCK_BYTES));
            all.extend(blocks.map(|(start, block)| ((piece.buffer_id, start), block.to_vec())));
            false
        })?;
        Ok(all)
    }
}

/// Where two sides differ after repetitions with the same seed, if by more than rounding explains.
pub(super) fn difference(
    [captured, replaced]: &mut [FreshSide; 2],
    tolerance: Option<&Tolerance>,
) -> Result<Option<String>> {
    let (expected, actual) = (captured.contents()?, replaced.contents()?);
    Ok(captured.bindings.difference(&expected, &actual, tolerance))
}

/// A bijection in which each bit depends on all of `value`.
fn mixed(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(name: &str) -> Format {
        Format::for_type(name.parse().unwrap()).unwrap()
    }

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|it| it.to_le_bytes()).collect()
    }

    #[test]
    fn numbers_get_fresh_values_of_their_magnitude() {
        let values = [1.5, -3.0, 1e-9, 0.0, -0.0, f32::INFINITY, f32::MAX];
        for (is_larger, factors) in [(true, 1.0..4.0), (false, 0.25..1.0)] {
            let mut fresh = bytes(&values);
            format("f32").freshen(&mut fresh, &mut fastrand::Rng::with_seed(1), is_larger, false);
            let fresh: Vec<f32> = fresh.as_chunks().0.iter().map(|it| f32::from_le_bytes(*it)).collect();
            for (old, new) in values.iter().zip(&fresh).take(3) {
                assert!(factors.contains(&(new / old)) && new != old, "{old} {new}");
            }
            assert_eq!(fresh[3..6], values[3..6]);
            assert!(fresh[6].is_finite());
        }
        let mut zeros = bytes(&[0.0; 4]);
        format("f32").freshen(&mut zeros, &mut fastrand::Rng::with_seed(1), true, true);
        assert!(zeros.as_chunks().0.iter().all(|it| (1.0..2.0).contains(&f32::from_le_bytes(*it))));
    }

    #[test]
    fn integers_do_not_look_like_numbers() {
        for name in ["f16", "bf16", "f32", "f64"] {
            let format = format(name);
            let mut fresh = vec![0; format.bytes];
            format.freshen(&mut fresh, &mut fastrand::Rng::with_seed(1), true, true);
            let value = Floats::for_type(format.element_type).unwrap().at(&fresh, 0).unwrap();
            assert!((1.0..2.0).contains(&value) && format.is_usual(format.read(&fresh)), "{name}");
            for integer in [1_u64, 17, (1 << format.mantissa_bits) - 1, !0] {
                let bits = integer & !0 >> (64 - 8 * format.bytes);
                assert!(!format.is_usual(bits), "{name} {integer}");
            }
        }
        assert!(Format::for_type("i32".parse().unwrap()).is_none());
    }

    #[test]
    fn results_differ_by_more_than_rounding() {
        let expected: Vec<f32> = (1..=8).map(|it| it as f32).collect();
        let of = |change: fn(&mut [f32]), tolerance: Option<&str>| {
            let mut actual = expected.clone();
            change(&mut actual);
            let tolerance = tolerance.map(|it| Tolerance::parse(it).unwrap());
            different(format("f32"), &bytes(&expected), &bytes(&actual), tolerance.as_ref())
        };
        assert_eq!(of(|it| it[3] += 0.05, None), None);
        assert_eq!(of(|it| it[3] *= 1.5, None), Some(3));
        assert_eq!(of(|it| it[3] = f32::NAN, None), Some(3));
        assert_eq!(of(|it| it[3] *= 1.5, Some("*:f32:rel=0.5")), None);
        assert_eq!(of(|it| it[3] *= 1.5, Some("*:f32:abs=3")), None);
    }
}
