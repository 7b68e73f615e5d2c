//! How much of a difference rounding explains.
//!
//! Two right kernels may add in another order, fuse multiplications with additions, or approximate functions
//! in another way. How much that changes a result depends on the result: on how many terms it has, and how
//! much of them cancels. It is measured. The captured kernel runs again in pairs of runs, on inputs of which
//! each number is moved a little, up or down, and the other way in the second run of the pair. The scale of
//! an element of the results is the larger of two numbers, at most of all pairs:
//! - half the difference of both runs, for inputs moved by one unit in the last place: what the rounding of
//!   the inputs amounts to. Those of 16 bits are not rounded where kernels compute with f32;
//! - by how much the mean of both runs differs from the captured result. The inputs' effects cancel in it,
//!   and what remains is what the kernel itself rounds, which it rounds again in each run.
//!
//! Of long inputs that the dispatch does not change, such as weights, pieces are moved if there are short
//! ones too: a product of both depends on each alike. What is moved then counts twice. All of them are moved
//! before a difference is called an error that pieces do not explain.
//!
//! An element is right up to rounding if it differs by no more than a small multiple of the scale. An element
//! that no run changes is not computed here, and one of a binding in which nothing moves is copied, selected
//! or constant: both are exact. Others have a least scale, since functions are approximated. Zeros are often
//! what a negative number became, and a little more of it would have been positive: their scale is at least
//! that of their neighbors. Where a result has a kink, the mean of both runs says nothing: it counts up to a
//! multiple of that of the neighbors.

use std::borrow::Cow;

use rehal_base::{ElementType, Error, Range, Result, StatusCode, number_or_nan};
use rehal_hal::{Buffer, transfer};
use rehal_replay::{ChangeTracker, Operation, TrackedBinding, without};
use rehal_values::Floats;
use serde::{Deserialize, Serialize};

use crate::{
    bytes::{part, read},
    float_format::{Format, Nudge},
};

/// Elements that are neighbors.
const BLOCK: usize = 64;
/// By how much more than its neighbors, or than its last place, what a kernel rounds may move an element.
const KINK: f64 = 16.0;
/// Maximum number of bytes of all bindings: they are copied.
const MOST_BYTES: u64 = 1 << 30;
/// Inputs are long from here on: of those of a file, what is written is memory of this process from then on.
pub(crate) const LONG_BYTES: u64 = 8 << 20;
/// The length of the pieces that are moved of them, and how many there are.
const PIECE_BYTES: u64 = 16 << 10;
const PIECE_COUNT: u64 = 128;

/// How the largest difference of results compares with what rounding explains.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RoundingError {
    /// The difference as a multiple of the scale of rounding of its element; `None` if there is none that
    /// rounding explains, such as of NaN, or of elements that do not depend on inputs.
    pub multiple: Option<f64>,
    /// The multiple up to which rounding explains a difference.
    #[serde(deserialize_with = "number_or_nan")]
    pub limit: f64,
    /// The scale of that element in units in the last place.
    #[serde(deserialize_with = "number_or_nan")]
    pub scale_ulps: f64,
    /// The scales of all results, relative to them (root of the sum of squares).
    #[serde(deserialize_with = "number_or_nan")]
    pub relative_scale: f64,
    /// Whether that is far more than the inputs were moved by: the kernel is ill-conditioned.
    pub is_ill_conditioned: bool,
}

impl RoundingError {
    /// The one of two with the larger difference.
    pub(crate) fn larger(self, other: Self) -> Self {
        let of = |it: &Self| it.multiple.unwrap_or(f64::INFINITY);
        let mut larger = if of(&other) > of(&self) { other } else { self };
        if other.relative_scale > self.relative_scale {
            (larger.relative_scale, larger.is_ill_conditioned) =
                (other.relative_scale, other.is_ill_conditioned);
        }
        larger
    }
}

/// A run with other inputs: what a binding contained before it, and after it.
pub(crate) struct NudgedRun {
    pub before: Vec<u8>,
    pub after: Vec<u8>,
}

/// By how much the elements that a dispatch writes move.
pub struct Rounding {
    format: Format,
    floats: Floats,
    /// By element.
    scales: Vec<Scale>,
    /// By block: the median of the scales that are not 0, and of all in units in the last place.
    typical: Vec<[f64; 2]>,
    relative_scale: f64,
    /// Whether not all of long inputs is moved.
    moves_pieces: bool,
}

/// By how much an element moves at most.
#[derive(Clone, Copy)]
struct Scale {
    /// With inputs moved by one unit in the last place; NaN if no run writes it.
    inputs: f64,
    /// By what the kernel rounds.
    kernel: f64,
}

impl Scale {
    fn is_written(self) -> bool {
        !self.inputs.is_nan()
    }

    fn larger(self) -> f64 {
        self.inputs.max(self.kernel)
    }
}

impl Rounding {
    /// Without runs; `None` for types without a format.
    pub(crate) fn new(element_type: ElementType, bytes: usize) -> Option<Self> {
        let (format, floats) = (Format::for_type(element_type)?, Floats::for_type(element_type)?);
        let scales = vec![Scale { inputs: f64::NAN, kernel: 0.0 }; bytes / format.bytes];
        Some(Self { format, floats, scales, typical: Vec::new(), relative_scale: 0.0, moves_pieces: false })
    }

    /// Adds both runs of a pair. With the inputs as they are, the dispatch left `expected`.
    pub(crate) fn add(&mut self, pair: u64, expected: &[u8], [up, down]: &[NudgedRun; 2]) {
        let size = self.format.bytes;
        // Numbers of 16 bits are exact where kernels compute with f32.
        let ulps = Nudge { pair, is_opposite: false }.ulps(self.format);
        let of_one_ulp = match (size, self.moves_pieces) {
            (2, _) => 0.0,
            (_, false) => 0.5 / ulps as f64,
            (_, true) => 1.0 / ulps as f64,
        };
        for (index, scale) in self.scales.iter_mut().enumerate() {
            let at = index * size..(index + 1) * size;
            let is_written = |run: &NudgedRun| run.before[at.clone()] != run.after[at.clone()];
            if !is_written(up) && !is_written(down) {
                continue;
            }
            let of = |bytes| self.floats.at(bytes, index).unwrap_or(f64::NAN);
            let known = of(expected);
            let (up, down) = (of(&up.after) - known, of(&down.after) - known);
            let finite = |it: f64| if it.is_finite() { it.abs() } else { 0.0 };
            scale.inputs = scale.inputs.max(finite(up - down) * of_one_ulp);
            scale.kernel = scale.kernel.max(finite(up + down) / 2.0);
        }
    }

    /// After all pairs: `None` if nothing moved, or if what is written does not look like numbers.
    pub(crate) fn finish(mut self, expected: &[u8]) -> Option<Self> {
        let elements = self.format.elements(expected).zip(&self.scales);
        let written = elements.filter(|(_, scale)| scale.is_written()).map(|(bits, _)| bits);
        if !self.format.is_like(written) {
            return None;
        }
        let number = |index| self.floats.at(expected, index).filter(|it| it.is_finite()).unwrap_or(0.0);
        let (mut squares, mut of_scales) = (0.0, 0.0);
        let most_ulps = self.most_ulps();
        for (block, scales) in self.scales.chunks_mut(BLOCK).enumerate() {
            let kernel = median(scales.iter().map(|it| it.kernel).filter(|it| *it > 0.0));
            let largest =
                (block * BLOCK..).zip(&*scales).map(|(index, _)| number(index).abs()).fold(0.0, f64::max);
            let most = most_ulps.map(|it| it * self.format.ulp(largest));
            for (index, scale) in (block * BLOCK..).zip(&mut *scales) {
                let number = number(index);
                scale.kernel = scale.kernel.min(KINK * kernel.max(self.format.ulp(number)));
                if scale.is_written() {
                    (squares, of_scales) = (squares + number * number, of_scales + scale.larger().powi(2));
                    (scale.kernel, scale.inputs) = (scale.kernel.min(most[0]), scale.inputs.min(most[1]));
                }
            }
            let numbered = || (block * BLOCK..).zip(&*scales);
            let in_ulps = |(at, it): (usize, &Scale)| it.larger() / self.format.ulp(number(at));
            let typical = median(numbered().map(|(_, it)| it.larger()).filter(|it| *it > 0.0));
            let written = numbered().filter(|(at, it)| it.is_written() && number(*at) != 0.0);
            self.typical.push([typical, median(written.map(in_ulps))]);
        }
        self.relative_scale = if squares > 0.0 { (of_scales / squares).sqrt() } else { 0.0 };
        (of_scales > 0.0).then_some(self)
    }

    /// Up to how many times the scale rounding explains a difference. Of the kernels that a compiler makes of
    /// one program for other processors, with and without fused multiplications, it takes up to 13 times.
    /// Those of 16 bits mostly compute with f32, and round once.
    fn limit(&self) -> f64 {
        if self.format.bytes == 2 { 8.0 } else { 16.0 }
    }

    /// The most that the kernel rounds, and that inputs moved by one unit in the last place move, in units in
    /// the last place of the largest number nearby. More is a jump, such as that of a comparison or of
    /// `floor`: it says nothing about rounding.
    fn most_ulps(&self) -> [f64; 2] {
        if self.format.bytes == 2 { [4.0, 4.0] } else { [64.0, 1024.0] }
    }

    /// The least scale of an element. In few runs, it may be rounded the same each time, unlike its
    /// neighbors; the captured kernel may round less than others, which are right too: naive sums of a
    /// thousand positive numbers are off by up to 20 units in the last place, and functions such as `exp` by
    /// 2.
    fn least(&self, index: usize, expected: f64, ulp: f64) -> f64 {
        /// Of neighbors, in case they are not computed alike.
        const PART: f64 = 0.25;
        let [typical, typical_ulps] = self.typical.get(index / BLOCK).copied().unwrap_or_default();
        match (expected, typical_ulps) {
            (0.0, _) => typical,
            (_, 0.0) => 2.0 / self.limit() * ulp,
            _ if self.format.bytes == 2 => ulp * (PART * typical_ulps).max(0.5),
            _ => ulp * (PART * typical_ulps).max(2.0),
        }
    }

    /// Whether moving all of long inputs, too, would explain no more of a difference at `offset`: pieces of
    /// them do, or all were moved.
    pub(super) fn is_enough(&self, offset: u64, expected: &[u8], actual: &[u8]) -> bool {
        !self.moves_pieces || self.unexplained(offset, expected, actual).is_none()
    }

    /// The first element from `offset` on whose difference rounding does not explain.
    pub(crate) fn unexplained(&self, offset: u64, expected: &[u8], actual: &[u8]) -> Option<usize> {
        let size = self.format.bytes;
        let first = offset as usize / size;
        let is_explained = |index: usize| {
            let (expected, actual) = (self.floats.at(expected, index)?, self.floats.at(actual, index)?);
            let found = self.error((first + index) as u64, expected, actual);
            Some(found.multiple.is_some_and(|it| it <= found.limit))
        };
        let pairs = expected.chunks_exact(size).zip(actual.chunks_exact(size));
        let mut differing = pairs.enumerate().filter(|(_, (one, other))| one != other);
        differing.find(|(index, _)| is_explained(*index) != Some(true)).map(|(index, _)| index)
    }

    /// A difference.
    pub(crate) fn error(&self, index: u64, expected: f64, actual: f64) -> RoundingError {
        let index = index as usize;
        let scale = self.scales.get(index).copied().filter(|it| it.is_written());
        let ulp = self.format.ulp(expected);
        let scale = scale.map_or(0.0, |it| it.larger().max(self.least(index, expected, ulp)));
        let distance = (expected - actual).abs();
        let is_explained = scale > 0.0 && distance.is_finite();
        let multiple = match expected.is_nan() && actual.is_nan() {
            true => Some(0.0),
            false => is_explained.then(|| distance / scale),
        };
        /// In units in the last place of all results.
        const ILL: f64 = 64.0;
        RoundingError {
            multiple,
            limit: self.limit(),
            scale_ulps: scale / ulp,
            relative_scale: self.relative_scale,
            is_ill_conditioned: self.relative_scale > ILL * self.format.ulp(1.0),
        }
    }
}

/// Bytes that are bound to a dispatch, before and after it.
struct Bound<'o> {
    buffer_id: u64,
    buffer: &'o Buffer,
    range: Range,
    /// The copy that the tracker has, if it has all of them.
    after: Cow<'o, [u8]>,
    /// `None` if the dispatch changed nothing.
    before: Option<Vec<u8>>,
    /// The parts that are inputs of the type, in order: they are moved in each run.
    inputs: Vec<Range>,
    /// The other parts that are written before each run.
    others: Vec<Range>,
}

impl Bound<'_> {
    fn before(&self) -> &[u8] {
        self.before.as_deref().unwrap_or(&self.after)
    }

    /// Where a range of the buffer is in the bytes.
    fn place(&self, range: Range) -> Range {
        Range { offset: range.offset - self.range.offset, ..range }
    }

    /// Writes a range of what is bound. What cannot be written is as it was.
    fn put(&self, range: Range, bytes: &[u8]) -> Result<()> {
        match transfer::write(self.buffer, range.offset, bytes) {
            Err(error) if error.code() == StatusCode::PermissionDenied => Ok(()),
            written => written,
        }
    }

    /// Writes the bytes before the dispatch, with inputs that are moved.
    fn nudge(&self, format: Format, nudge: Nudge, random: &mut fastrand::Rng) -> Result<()> {
        for piece in self.others.iter().flat_map(pieces_at_once) {
            self.put(piece, part(self.before(), self.place(piece)))?;
        }
        for piece in self.inputs.iter().flat_map(pieces_at_once) {
            let mut moved = part(self.before(), self.place(piece)).to_vec();
            format.nudge(&mut moved, nudge, random);
            self.put(piece, &moved)?;
        }
        Ok(())
    }

    /// Restores the bytes after it: also those that a dispatch writes and does not change.
    fn restore(&self) -> Result<()> {
        for piece in self.inputs.iter().chain(&self.others).flat_map(pieces_at_once) {
            self.put(piece, part(&self.after, self.place(piece)))?;
        }
        let mut now = Vec::new();
        pieces_at_once(&self.range).try_for_each(|piece| {
            read(self.buffer, piece.offset, piece.length, &mut now)?;
            let after = part(&self.after, self.place(piece));
            if now == after { Ok(()) } else { self.put(piece, after) }
        })
    }
}

/// The parts of a range that are copied at once. Buffers of other processes allocate them each time: more are
/// new memory for each.
fn pieces_at_once(range: &Range) -> impl Iterator<Item = Range> + use<> {
    /// A multiple of the size of every element.
    const AT_ONCE_BYTES: u64 = 1 << 20;
    let (start, end) = (range.offset, range.end());
    let offsets = (start..end).step_by(AT_ONCE_BYTES as usize);
    offsets.map(move |offset| Range { offset, length: AT_ONCE_BYTES.min(end - offset) })
}

/// Measures by how much what a dispatch has written to a binding moves. What is bound to it is afterwards as
/// it was. `None` if nothing moves, or if that cannot be measured. Of long inputs, pieces are moved, unless
/// these are not [enough](Rounding::is_enough).
pub(super) fn measure(
    operation: &Operation<'_>,
    changes: &ChangeTracker,
    binding: u32,
    element_type: ElementType,
    moves_all: bool,
) -> Result<Option<Rounding>> {
    let Some(format) = Format::for_type(element_type) else { return Ok(None) };
    let Some(written) = changes.binding(binding) else { return Ok(None) };
    let Some(mut rounding) = Rounding::new(element_type, written.after.len()) else { return Ok(None) };
    let mut all = bound(operation, changes)?;
    find_inputs(operation, format, &mut all);
    rounding.moves_pieces = !moves_all && choose_pieces(format, &mut all);
    if all.iter().all(|it| it.inputs.is_empty()) {
        return Ok(None);
    }
    let moves_pieces = rounding.moves_pieces;
    match measure_by(operation, &written, format, &all, rounding)? {
        // The results depend on other parts, such as the rows that indices choose.
        None if moves_pieces => measure(operation, changes, binding, element_type, true),
        measured => Ok(measured),
    }
}

/// The same with the inputs that are chosen.
fn measure_by(
    operation: &Operation<'_>,
    written: &TrackedBinding<'_>,
    format: Format,
    all: &[Bound<'_>],
    mut rounding: Rounding,
) -> Result<Option<Rounding>> {
    let is_in = |it: &&Bound<'_>| it.buffer_id == written.buffer_id && it.range.covers(written.range);
    let Some(buffer) = all.iter().find(is_in).map(|it| it.buffer) else { return Ok(None) };
    let bytes = || transfer::to_vec(buffer, written.range.offset, written.range.length);
    let measured: Result<()> = (0..Nudge::PAIRS).try_for_each(|pair| {
        let run = |is_opposite| {
            for (number, it) in (0..).zip(all) {
                let mut random = fastrand::Rng::with_seed(pair << 32 | number);
                it.nudge(format, Nudge { pair, is_opposite }, &mut random)?;
            }
            let before = bytes()?;
            operation.dispatch_again()?;
            Ok::<_, Error>(NudgedRun { before, after: bytes()? })
        };
        rounding.add(pair, written.after, &[run(false)?, run(true)?]);
        Ok(())
    });
    // All is restored, also after one that fails.
    let restored = all.iter().map(Bound::restore).fold(Ok(()), Result::and);
    restored?;
    match measured {
        // The device has no such command buffers, or no memory for the copies.
        Err(error) if matches!(error.code(), StatusCode::Unimplemented | StatusCode::ResourceExhausted) => {
            Ok(None)
        }
        measured => measured.map(|()| rounding.finish(written.after)),
    }
}

/// The median; 0 of nothing.
fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut some: Vec<f64> = numbers.collect();
    let middle = some.len() / 2;
    match some.is_empty() {
        true => 0.0,
        false => *some.select_nth_unstable_by(middle, f64::total_cmp).1,
    }
}

/// The ranges bound to a dispatch that has completed; empty if too long. Ranges that overlap are one.
fn bound<'o>(operation: &Operation<'o>, changes: &'o ChangeTracker) -> Result<Vec<Bound<'o>>> {
    let mut all: Vec<(u64, &Buffer, Range)> = Vec::new();
    for it in operation.bindings().iter().filter(|it| it.length != 0) {
        let mut range = it.range();
        while let Some(index) =
            all.iter().position(|(id, _, other)| *id == it.buffer_id && other.overlaps(range))
        {
            let other = all.swap_remove(index).2;
            let offset = other.offset.min(range.offset);
            range = Range { offset, length: other.end().max(range.end()) - offset };
        }
        all.push((it.buffer_id, it.buffer, range));
    }
    if all.iter().map(|(_, _, range)| range.length).sum::<u64>() > MOST_BYTES {
        return Ok(Vec::new());
    }
    let bound = |(buffer_id, buffer, range): (u64, &'o Buffer, Range)| {
        let own = || changes.bindings().filter(|it| it.buffer_id == buffer_id && range.covers(it.range));
        let after = match own().find(|it| it.range == range) {
            Some(tracked) => Cow::Borrowed(tracked.after),
            None => Cow::Owned(transfer::to_vec(buffer, range.offset, range.length)?),
        };
        let mut before = None;
        for it in own().filter(|it| !it.changes.is_empty()) {
            let (at, whole) = (it.range.offset - range.offset, Range { offset: 0, ..it.range });
            let before = before.get_or_insert_with(|| after.to_vec());
            before[at as usize..][..whole.length as usize].copy_from_slice(&it.before(whole));
        }
        Ok(Bound { buffer_id, buffer, range, after, before, inputs: Vec::new(), others: Vec::new() })
    };
    all.into_iter().map(bound).collect()
}

/// Whether bytes of a 16-bit format are rather integers of more bits, such as the indices of a gather: these
/// must not be moved.
fn are_indices(format: Format, bytes: &[u8]) -> bool {
    let mut words = bytes.as_chunks::<4>().0.iter().map(|it| i32::from_le_bytes(*it)).peekable();
    let is_small = |word: i32| (-0x8000..0x1_0000).contains(&word);
    format.bytes == 2 && words.peek().is_some() && words.all(is_small)
}

/// Finds the bindings that have numbers of a format, each byte once.
fn find_inputs(operation: &Operation<'_>, format: Format, all: &mut [Bound<'_>]) {
    for it in operation.bindings() {
        let range = it.range();
        let Some(bound) =
            all.iter_mut().find(|bound| bound.buffer_id == it.buffer_id && bound.range.covers(range))
        else {
            continue;
        };
        let is_known = bound.inputs.iter().any(|known| known.overlaps(range));
        let is_whole = range.length.is_multiple_of(format.bytes as u64);
        let looked_at = match range.length > LONG_BYTES {
            true => pieces(range, format, &mut fastrand::Rng::with_seed(0)),
            false => vec![range],
        };
        let bytes = || looked_at.iter().map(|it| part(bound.before(), bound.place(*it)));
        let is_like = || format.is_like(bytes().flat_map(|it| format.elements(it)));
        if !is_known && is_whole && is_like() && !bytes().all(|it| are_indices(format, it)) {
            bound.inputs.push(range);
        }
    }
    for it in all {
        it.inputs.sort_by_key(|input| input.offset);
        // Long ones that neither change nor move stay as they are.
        if it.before.is_some() || !it.inputs.is_empty() || it.range.length <= LONG_BYTES {
            it.others = without(&[it.range], it.inputs.iter().copied());
        }
    }
}

/// Chooses pieces of long inputs. Returns whether there are any.
fn choose_pieces(format: Format, all: &mut [Bound<'_>]) -> bool {
    let is_long = |it: &Range| it.length > LONG_BYTES;
    if !all.iter().flat_map(|it| &it.inputs).any(|it| !is_long(it)) {
        return false;
    }
    let mut random = fastrand::Rng::with_seed(0);
    let mut has_pieces = false;
    for it in all.iter_mut().filter(|it| !it.inputs.is_empty() && it.inputs.iter().all(is_long)) {
        if it.before.is_some() {
            continue;
        }
        it.inputs = it.inputs.iter().flat_map(|input| pieces(*input, format, &mut random)).collect();
        it.others.clear();
        has_pieces = true;
    }
    has_pieces
}

/// Pieces of a long input, one in each of as many equal parts.
pub(crate) fn pieces(input: Range, format: Format, random: &mut fastrand::Rng) -> Vec<Range> {
    let (share, element) = (input.length / PIECE_COUNT, format.bytes as u64);
    let mut place = |at: u64| (at * share + random.u64(..=share - PIECE_BYTES)) / element * element;
    let offsets = (0..PIECE_COUNT).map(|at| input.offset + place(at));
    offsets.map(|offset| Range { offset, length: PIECE_BYTES }).collect()
}

#[cfg(test)]
mod tests;
