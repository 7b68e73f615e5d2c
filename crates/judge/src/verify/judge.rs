//! The common parts of both kinds of verification: the verdict on a range, and the outcome so far.

use std::collections::BTreeSet;
use std::time::Duration;

use rehal_base::{ElementType, Range, Result, glob};
use rehal_capture::{Capture, OpenOptions};
use rehal_replay::Plan;

use super::rounding::{Rounding, RoundingError};
use super::{Difference, InferredType, Place, RoundedFunction, TypeSource, Verification, VerifyOptions};
use crate::Measuring;
use crate::{
    NumberSummary, Tolerance,
    bytes::part,
    element_types::{type_in_name, types_in_name},
    elements::{Allowed, Comparison},
    float_format::Format,
    number_summary::Summing,
    tolerance::{element_type_of, tolerance_of, type_in_tolerances},
};

/// Decides what is the same, and collects differences.
pub(crate) struct Judge<'o> {
    pub options: &'o VerifyOptions,
    pub outcome: Verification,
    /// No more is compared.
    pub is_stopped: bool,
    /// The use of each tolerance.
    uses: Vec<Use>,
}

/// The use of a tolerance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    /// No function matches.
    Nothing,
    /// Elements of functions that match have other types, or unknown ones.
    OtherTypes,
    Elements,
}

/// A range of a buffer, at a place.
#[derive(Clone, Copy)]
pub(crate) struct Target<'p> {
    pub place: &'p Place,
    pub binding: Option<u32>,
    pub aliases: &'p [u32],
    pub buffer_id: u64,
    pub range: Range,
    /// The element type that a ledger has.
    pub recorded_type: Option<ElementType>,
}

/// Bytes in a range of which the expected ones are known.
pub(crate) struct Known<'b> {
    pub offset: u64,
    pub expected: &'b [u8],
    pub actual: &'b [u8],
}

/// The known facts of a range.
#[derive(Default)]
pub(crate) struct Evidence<'b> {
    /// Bytes to compare by elements, in order.
    pub known: Vec<Known<'b>>,
    /// Pieces whose digests differ and whose expected bytes are not known.
    pub digests: Vec<Range>,
    /// Number of bytes that were written and should not have been.
    pub unexpected_bytes: u64,
    /// The expected numbers, as far as a ledger has them.
    pub expected: Option<NumberSummary>,
    /// All expected bytes of the range, if they are known.
    pub expected_bytes: Option<&'b [u8]>,
    /// The parts of the range that the numbers are in.
    pub summarized: Vec<Range>,
    /// The differences that rounding explains, if they were measured.
    pub rounding: Option<Rounding>,
}

/// The verdict on a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Same,
    /// Rounding explains the difference.
    Rounded,
    Tolerated,
    /// Only digests are known, and there is a tolerance.
    Inconclusive,
    Different,
}

impl<'o> Judge<'o> {
    pub(crate) fn new(options: &'o VerifyOptions) -> Self {
        let uses = vec![Use::Nothing; options.tolerances.len()];
        Self { options, outcome: Verification::default(), is_stopped: false, uses }
    }

    /// The element type that a rule or the ledger states.
    pub(crate) fn element_type(&self, target: &Target<'_>) -> Option<ElementType> {
        let function = target.place.function().map(str::as_bytes);
        element_type_of(&self.options.element_types, function).or(target.recorded_type)
    }

    /// The element type of a range, and from where it is known: one that is not stated only if whole elements
    /// fit.
    pub(super) fn typed(&self, target: &Target<'_>) -> (Option<ElementType>, TypeSource) {
        if let Some(stated) = self.element_type(target) {
            return (Some(stated), TypeSource::Stated);
        }
        let fits = |it: &ElementType| {
            it.whole_bytes().is_some_and(|bytes| target.range.length.is_multiple_of(bytes))
        };
        let function = target.place.function();
        let of_name = || function.and_then(type_in_name).filter(fits);
        let of_tolerance =
            || function.and_then(|it| type_in_tolerances(&self.options.tolerances, it)).filter(fits);
        match (of_name(), of_tolerance()) {
            (Some(it), _) => (Some(it), TypeSource::Name),
            (None, Some(it)) => (Some(it), TypeSource::Tolerance),
            (None, None) => (None, TypeSource::Stated),
        }
    }

    /// The type by which it is measured what rounding explains: that of all numbers of the dispatch, unless a
    /// tolerance says what may differ.
    pub(super) fn measured_type(&self, target: &Target<'_>) -> Option<ElementType> {
        let function = target.place.function().filter(|_| self.options.measures_rounding)?;
        let element_type = self.typed(target).0.filter(|it| Format::for_type(*it).is_some())?;
        // One unit in the last place of a narrower type is far more than what others are rounded by.
        let is_only_one = types_in_name(function).iter().all(|it| *it == element_type);
        let is_stated = tolerance_of(&self.options.tolerances, function.as_bytes(), element_type).is_some();
        (is_only_one && !is_stated).then_some(element_type)
    }

    fn tolerance(&mut self, target: &Target<'_>, element_type: Option<ElementType>) -> Option<&'o Tolerance> {
        // The program reads what functions wrote, so that tolerances of all functions are those of host
        // reads.
        let function = target.place.function().unwrap_or("*");
        for (it, used) in self.options.tolerances.iter().zip(&mut self.uses) {
            if glob::matches_bytes(it.function.as_bytes(), function.as_bytes()) {
                let is_type = element_type == Some(it.element_type);
                *used = (*used).max(if is_type { Use::Elements } else { Use::OtherTypes });
            }
        }
        tolerance_of(&self.options.tolerances, function.as_bytes(), element_type?)
    }

    /// Judges a range; `actual` are all its bytes.
    pub(crate) fn judge(&mut self, target: &Target<'_>, evidence: &Evidence<'_>, actual: &[u8]) -> Verdict {
        let (element_type, type_source) = self.typed(target);
        let tolerance = self.tolerance(target, element_type);
        let is_same = evidence.known.iter().all(|it| it.expected == it.actual);
        if is_same && evidence.digests.is_empty() {
            return Verdict::Same;
        }
        let allowed = match (tolerance, &evidence.rounding) {
            (Some(tolerance), _) => Allowed::Tolerance(tolerance),
            (None, Some(rounding)) => Allowed::Rounding(rounding),
            (None, None) => Allowed::Nothing,
        };
        let mut comparison = Comparison::new(element_type, allowed, self.options.max_elements);
        let (mut different, mut digests) = (Span::default(), Span::default());
        for known in &evidence.known {
            comparison.add(known.offset, known.expected, known.actual);
            different.add_bytes(known);
        }
        for piece in &evidence.digests {
            different.add(*piece);
            digests.add(*piece);
        }
        let elements = comparison.finish();
        if !evidence.digests.is_empty() {
            let digested = &mut self.outcome.digested_bytes;
            *digested = target.range.length.max(*digested);
        }
        if elements.tolerated_count != 0 && tolerance.is_some() {
            self.note_inferred(target, element_type, type_source);
        }
        if elements.different_count == 0 && evidence.digests.is_empty() {
            let Some(rounding) = elements.rounding else { return Verdict::Tolerated };
            self.note_rounding(target, element_type, rounding);
            return Verdict::Rounded;
        }
        if elements.different_count == 0 && tolerance.is_some() {
            return Verdict::Inconclusive;
        }
        if self.outcome.differences.len() >= self.options.max_differences {
            self.outcome.omitted_differences += 1;
        } else {
            let is_stated = element_type.is_some() && type_source == TypeSource::Stated;
            let is_known = is_stated || evidence.expected_bytes.is_some();
            let numbers = |bytes: &[u8]| {
                let mut summing = Summing::for_type(element_type.filter(|_| is_known)?)?;
                evidence.summarized.iter().for_each(|it| summing.add(part(bytes, *it)));
                (!evidence.summarized.is_empty()).then(|| summing.finish())
            };
            self.outcome.differences.push(Difference {
                place: target.place.clone(),
                binding: target.binding,
                aliases: target.aliases.to_vec(),
                buffer_id: target.buffer_id,
                range: target.range,
                different: different.range(),
                digest_bytes: digests.0,
                element_type,
                type_source,
                elements: (elements.different_count != 0).then_some(elements),
                unexpected_bytes: evidence.unexpected_bytes,
                expected: evidence.expected.or_else(|| numbers(evidence.expected_bytes?)),
                actual: numbers(actual),
            });
        }
        Verdict::Different
    }

    /// Notes that something is tolerated by a type that nothing states.
    fn note_inferred(&mut self, target: &Target<'_>, element_type: Option<ElementType>, source: TypeSource) {
        let (Some(element_type), Some(function)) = (element_type, target.place.function()) else { return };
        let known = &mut self.outcome.inferred_types;
        if source != TypeSource::Stated && !known.iter().any(|it| it.function == function) {
            known.push(InferredType { function: function.to_owned(), element_type, source });
        }
    }

    /// Notes by how much something differs that rounding explains.
    fn note_rounding(
        &mut self,
        target: &Target<'_>,
        element_type: Option<ElementType>,
        error: RoundingError,
    ) {
        let (Some(element_type), Some(function)) = (element_type, target.place.function()) else { return };
        let function = function.to_owned();
        self.outcome.add_rounding(RoundedFunction { function, element_type, error });
    }

    /// Counts a dispatch or host read with the verdict on all of it.
    pub(crate) fn count(&mut self, place: &Place, verdict: Verdict) {
        match place.dispatch {
            Some(_) => self.outcome.dispatch_count += 1,
            None => self.outcome.read_count += 1,
        }
        match verdict {
            Verdict::Same => {}
            Verdict::Rounded => self.outcome.rounded_count += 1,
            Verdict::Tolerated => self.outcome.tolerated_count += 1,
            Verdict::Different => {
                self.outcome.different_count += 1;
                self.is_stopped |= !self.options.keep_going;
            }
            Verdict::Inconclusive => {
                self.inconclusive(format!(
                    "record #{} differs, and its bytes are not in the ledger to apply the tolerance to",
                    place.record
                ));
                self.is_stopped |= !self.options.keep_going;
            }
        }
        let measuring = Measuring::from_limits((self.outcome.compared_count(), None), (Duration::ZERO, None));
        if self.options.pulse.beat(measuring).is_break() {
            self.outcome.is_interrupted = true;
            self.is_stopped = true;
            let record = place.record;
            self.inconclusive(format!("interrupted after record #{record}: what follows is not compared"));
        }
    }

    /// Notes why the rest cannot be told.
    pub(crate) fn inconclusive(&mut self, reason: String) {
        match self.outcome.inconclusive.len() < self.options.max_differences {
            true => self.outcome.inconclusive.push(reason),
            false => self.outcome.omitted_reasons += 1,
        }
    }

    /// Notes that nothing was compared, if so: that is not the same as that everything is the same.
    pub(crate) fn check_compared(&mut self, without: &str) {
        if self.outcome.compared_count() == 0 && self.outcome.inconclusive.is_empty() {
            self.inconclusive(format!("nothing was compared: {without}"));
        }
    }

    /// Completes the outcome, after the run of a replay of `plan`.
    pub(crate) fn finish(&mut self, plan: &Plan) -> Result<()> {
        if !self.is_stopped {
            let capture = Capture::open(plan.capture().as_slice(), OpenOptions { recover: true })?;
            match (capture.tear(), capture.is_closed()) {
                (Some(tear), _) => self.inconclusive(format!(
                    "the capture is truncated: what followed its first {} records is missing",
                    tear.record_count
                )),
                (None, false) => {
                    self.inconclusive("the capture was never closed: its last records may be missing".into());
                }
                (None, true) => {}
            }
        }
        self.outcome.unused_tolerances = self.unused_tolerances(plan)?;
        Ok(())
    }

    fn unused_tolerances(&self, plan: &Plan) -> Result<Vec<Tolerance>> {
        let mut later: BTreeSet<Vec<u8>> = BTreeSet::new();
        if self.is_stopped && self.uses.contains(&Use::Nothing) {
            // What was not compared may match.
            plan.dispatches(|dispatch| {
                if !later.contains(dispatch.name) {
                    later.insert(dispatch.name.to_vec());
                }
                Ok(())
            })?;
        }
        let matches =
            |it: &Tolerance| later.iter().any(|name| glob::matches_bytes(it.function.as_bytes(), name));
        let is_unused = |it: &Tolerance, used: Use| match used {
            Use::Elements => false,
            Use::OtherTypes => true,
            Use::Nothing => !matches(it),
        };
        let tolerances = self.options.tolerances.iter().zip(&self.uses);
        Ok(tolerances.filter(|(it, used)| is_unused(it, **used)).map(|(it, _)| it.clone()).collect())
    }
}

/// From the first to the last byte.
#[derive(Default)]
struct Span(Option<Range>);

impl Span {
    fn add(&mut self, range: Range) {
        let whole = self.0.get_or_insert(range);
        let start = whole.offset.min(range.offset);
        *whole = Range { offset: start, length: whole.end().max(range.end()) - start };
    }

    fn add_bytes(&mut self, known: &Known<'_>) {
        let differs = |(a, b): (&u8, &u8)| a != b;
        let Some(first) = known.expected.iter().zip(known.actual).position(differs) else { return };
        let last = known.expected.iter().zip(known.actual).rposition(differs).unwrap_or(first);
        self.add(Range { offset: known.offset + first as u64, length: (last - first + 1) as u64 });
    }

    fn range(&self) -> Range {
        self.0.unwrap_or(Range { offset: 0, length: 0 })
    }
}
