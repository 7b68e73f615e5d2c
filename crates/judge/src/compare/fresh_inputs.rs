//! Fresh values for inputs, so that a kernel cannot gain by remembering results: each timed pair of
//! dispatches has values that no dispatch had before, and in some pairs, what both kernels leave is compared.
//!
//! An input gets fresh values if its element type is known and its bytes look like it. Each number keeps its
//! sign, and its exponent but for a power of two that all inputs share, so that sums are conditioned as those
//! of the captured inputs are. Zeros, infinities and NaN stay, since masks and indices consist of them; but
//! not zeros that the captured kernel overwrites, so that it shows who writes them. What rounding explains is
//! measured once for each batch, as `verify/rounding.rs` does. In the other pairs, and with a tolerance,
//! which may not fit these inputs, a large part of the largest number of a block is allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use rehal_base::{ElementType, Result, StatusCode};
use rehal_hal::transfer;
use rehal_replay::{
    FastForward, Observer, Operation, PlannedBinding, VariedBytes, VariedPiece, distinct_bytes,
};
use rehal_values::Floats;

use super::bound_buffers::Bound;
use crate::{
    Tolerance, VerifyOptions,
    float_format::{Format, Nudge},
    verify::{LONG_BYTES, NudgedRun, Rounding, pieces},
};

/// Granularity in which bytes are known as output: that in which repetitions restore them.
const BLOCK_BYTES: usize = 4 << 10;

/// Maximum bytes of all bindings. Beyond it, inputs stay as captured, since copies of them are kept.
const MOST_BYTES: u64 = 256 << 20;

impl Format {
    /// Whether bytes are numbers that are usual.
    pub(super) fn is_all_usual(self, bytes: &[u8]) -> bool {
        bytes.len().is_multiple_of(self.bytes)
            && bytes.chunks_exact(self.bytes).all(|it| self.is_usual(self.read(it)))
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
    /// Selects the bindings whose bytes before the dispatch, which `bound` had, look like the element type.
    pub(super) fn for_dispatch(
        element_type: Option<ElementType>,
        bindings: &[PlannedBinding],
        bound: &[Bound],
    ) -> Self {
        let format = element_type.and_then(Format::for_type);
        let is_varied = |ordinal| {
            let Some(format) = format else { return false };
            bound.iter().find(|it| it.is_bound_by(ordinal)).is_some_and(|it| it.was_usual(format))
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
    fn freshen(
        &self,
        piece: VariedPiece,
        bytes: &mut [u8],
        Values { seed, nudge }: Values,
        outputs: &BTreeSet<Place>,
    ) -> bool {
        let Some(format) = self.format else { return false };
        let mut is_changed = false;
        for (start, block) in (piece.offset..).step_by(BLOCK_BYTES).zip(bytes.chunks_mut(BLOCK_BYTES)) {
            let place = (piece.buffer_id, start);
            let end = start + block.len() as u64;
            let mut nudged_to = start;
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
                // Several bindings may have the same bytes.
                if let Some(nudge) = nudge.filter(|_| from >= nudged_to) {
                    let mut random = fastrand::Rng::with_seed(mixed(nudge.pair ^ mixed(place.0) ^ start));
                    format.nudge(numbers, nudge, &mut random);
                    nudged_to = to;
                }
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
        rounding: &BTreeMap<Place, Rounding>,
    ) -> Option<String> {
        let format = self.format?;
        expected.iter().find_map(|(place, expected)| {
            let actual = actual.get(place).filter(|it| it != &expected)?;
            let index = match rounding.get(place) {
                Some(rounding) => rounding.unexplained(0, expected, actual)?,
                None => different(format, expected, actual, tolerance)?,
            };
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
            let why = if tolerance.is_none() { ", more than rounding explains" } else { "" };
            Some(format!("{place} is {actual:e} instead of {expected:e}{why}"))
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

/// Gives the inputs of a function fresh values before each of its dispatches: the same on both sides of a
/// comparison, for the same seed.
#[derive(Clone)]
pub struct FreshInputs {
    function: String,
    format: Format,
    random: fastrand::Rng,
    /// The numbers of every second dispatch become larger, so that those that are used again stay in range.
    is_larger: bool,
}

impl FreshInputs {
    /// The inputs of a function whose element type is known; `None` of others.
    pub fn of_function(function: &str, options: &VerifyOptions, seed: u64) -> Option<Self> {
        let format = options.element_type_of(function).and_then(Format::for_type)?;
        let (function, random) = (function.to_owned(), fastrand::Rng::with_seed(seed));
        Some(Self { function, format, random, is_larger: false })
    }
}

impl Observer for FreshInputs {
    fn wants_operations(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        let bindings = operation.bindings();
        let all = bindings.iter().map(|it| (it.buffer_id, it.range()));
        let is_its = operation.dispatch.is_some_and(|it| it.name == self.function);
        if !is_its || distinct_bytes(all) > MOST_BYTES {
            return Ok(ControlFlow::Continue(()));
        }
        self.is_larger = !self.is_larger;
        for it in bindings {
            // Drawn for each binding, so that both sides get the same, whatever is in one that is written.
            let mut random = self.random.fork();
            // The code cannot know which pieces of long ones, such as weights: what is written is no longer
            // shared with a file.
            let parts = match it.length > LONG_BYTES {
                true => pieces(it.range(), self.format, &mut random),
                false => vec![it.range()],
            };
            for part in parts {
                let mut random = random.fork();
                let mut bytes = transfer::to_vec(it.buffer, part.offset, part.length)?;
                if self.format.is_all_usual(&bytes) {
                    self.format.freshen(&mut bytes, &mut random, self.is_larger, false);
                    match transfer::write(it.buffer, part.offset, &bytes) {
                        // It stays as captured, on both sides.
                        Err(error) if error.code() == StatusCode::PermissionDenied => {}
                        written => written?,
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The id of a buffer and the offset in it of a block.
type Place = (u64, u64);

/// Which values inputs get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Values {
    seed: u64,
    nudge: Option<Nudge>,
}

/// One side of a comparison. The same seed gives both sides the same values.
pub(super) struct FreshSide {
    pub side: FastForward,
    bindings: Arc<FreshBindings>,
    /// Blocks that the captured kernel changes.
    outputs: BTreeSet<Place>,
    /// The bytes that repetitions do not restore, as captured, in the order in which they are passed.
    captured: Vec<Vec<u8>>,
    /// Of the last repetition: `None` for the captured values.
    values: Option<Values>,
    /// Whether it has been measured what rounding explains.
    is_measured: bool,
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
                values: None,
                is_measured: false,
            })
        };
        Ok([side(captured, outputs.clone())?, side(replaced, outputs)?])
    }

    /// The seed of the last repetition.
    pub(super) fn seed(&self) -> Option<u64> {
        self.values.map(|it| it.seed)
    }

    /// Puts back the inputs, with fresh values if there is a seed, and dispatches the kernel.
    pub(super) fn repeat(&mut self, seed: Option<u64>, observers: &mut [&mut dyn Observer]) -> Result<()> {
        self.repeat_with(seed.map(|seed| Values { seed, nudge: None }), observers, &mut |_, _| {})
    }

    /// The same, with what `look` sees of the inputs.
    fn repeat_with(
        &mut self,
        values: Option<Values>,
        observers: &mut [&mut dyn Observer],
        look: &mut dyn FnMut(VariedPiece, &[u8]),
    ) -> Result<()> {
        self.side.restore()?;
        let before = std::mem::replace(&mut self.values, values);
        let bytes = match values == before {
            true => VariedBytes::Restored,
            false => VariedBytes::All,
        };
        if values.or(before).is_some() {
            let (bindings, outputs, mut captured) = (&self.bindings, &self.outputs, self.captured.iter());
            self.side.vary(bytes, &mut |piece, bytes| {
                let mut is_changed = false;
                if !piece.is_restored
                    && let Some(captured) = captured.next()
                {
                    is_changed = *bytes != captured[..];
                    bytes.copy_from_slice(captured);
                }
                is_changed |= values.is_some_and(|it| bindings.freshen(piece, bytes, it, outputs));
                look(piece, bytes);
                is_changed
            })?;
        }
        match values {
            None => self.side.repeat(observers),
            Some(_) => self.side.repeat_varied(observers),
        }
    }

    /// The contents of all that the dispatch may access.
    fn contents(&mut self) -> Result<BTreeMap<Place, Vec<u8>>> {
        let mut all = BTreeMap::new();
        self.side.vary(VariedBytes::All, &mut |piece, bytes| {
            all.extend(blocks(piece, bytes).map(|(place, block)| (place, block.to_vec())));
            false
        })?;
        Ok(all)
    }

    /// Measures what rounding explains in the blocks in which `expected`, what this side has left, is not
    /// `actual`.
    fn rounding(
        &mut self,
        expected: &BTreeMap<Place, Vec<u8>>,
        actual: &BTreeMap<Place, Vec<u8>>,
    ) -> Result<BTreeMap<Place, Rounding>> {
        let (Some(values), Some(format)) = (self.values, self.bindings.format) else {
            return Ok(BTreeMap::new());
        };
        let differs = |place: &Place| expected.get(place) != actual.get(place);
        let differing = expected.iter().filter(|(place, _)| differs(place));
        let mut measured: BTreeMap<Place, Rounding> = differing
            .filter_map(|(place, block)| Some((*place, Rounding::new(format.element_type, block.len())?)))
            .collect();
        for pair in 0..Nudge::PAIRS {
            let mut run = |is_opposite| {
                let mut before: BTreeMap<Place, Vec<u8>> = BTreeMap::new();
                let values = Values { nudge: Some(Nudge { pair, is_opposite }), ..values };
                self.repeat_with(Some(values), &mut [], &mut |piece, bytes| {
                    let all = blocks(piece, bytes).filter(|(place, _)| differs(place));
                    before.extend(all.map(|(place, block)| (place, block.to_vec())));
                })?;
                Ok::<_, rehal_base::Error>((before, self.contents()?))
            };
            let (mut up, mut down) = (run(false)?, run(true)?);
            for (place, rounding) in &mut measured {
                let run = |(before, after): &mut (BTreeMap<Place, Vec<u8>>, BTreeMap<_, _>)| {
                    Some(NudgedRun { before: before.remove(place)?, after: after.remove(place)? })
                };
                if let (Some(up), Some(down)) = (run(&mut up), run(&mut down)) {
                    rounding.add(pair, &expected[place], &[up, down]);
                }
            }
        }
        let finish = |(place, it): (Place, Rounding)| Some((place, it.finish(&expected[&place])?));
        Ok(measured.into_iter().filter_map(finish).collect())
    }
}

/// The blocks of a piece.
fn blocks(piece: VariedPiece, bytes: &[u8]) -> impl Iterator<Item = (Place, &[u8])> {
    let starts = (piece.offset..).step_by(BLOCK_BYTES);
    starts.zip(bytes.chunks(BLOCK_BYTES)).map(move |(start, block)| ((piece.buffer_id, start), block))
}

/// Where two sides differ after repetitions with the same seed, if by more than rounding explains.
pub(super) fn difference(
    [captured, replaced]: &mut [FreshSide; 2],
    tolerance: Option<&Tolerance>,
) -> Result<Option<String>> {
    let (expected, actual) = (captured.contents()?, replaced.contents()?);
    if expected == actual {
        return Ok(None);
    }
    // Once for each batch, since it takes many runs.
    let rounding = match tolerance.is_none() && !std::mem::replace(&mut captured.is_measured, true) {
        true => captured.rounding(&expected, &actual)?,
        false => BTreeMap::new(),
    };
    Ok(captured.bindings.difference(&expected, &actual, tolerance, &rounding))
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
        // A hundredth of the largest, 8, is rounding.
        assert_eq!([of(|it| it[3] += 0.0799, None), of(|it| it[3] += 0.0801, None)], [None, Some(3)]);
        // Of integers, more than half must differ.
        let words = |values: &[u32]| values.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>();
        let integers = |expected, actual| different(format("f32"), &words(expected), &words(actual), None);
        assert_eq!(integers(&[1, 2, 3, 4], &[1, 9, 9, 4]), None);
        assert_eq!(integers(&[1, 2, 3, 4], &[1, 9, 9, 9]), Some(1));
        assert_eq!(integers(&[1, 2], &[1, 9]), None);
    }
}
