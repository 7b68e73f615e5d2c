use std::collections::BTreeMap;
use std::ops::ControlFlow;

use rehal_base::{Error, Range, Result};
use rehal_replay::{
    AccessKind, AccessedRange, CHANGE_BYTES, ChangeTracker, HostRead, ObservedReplay, Observer, Operation,
    Plan, RecordLocation, TrackedBinding, merged, without,
};

use super::judge::{Evidence, Judge, Known, Target, Verdict};
use super::lockstep::{self, NewMemory};
use super::{Outcome, Place, Verification, VerifyOptions, VerifySides};
use crate::{
    Entry, EntryKind, EntryRange, Ledger, Piece,
    bytes::{different_bytes, part, read},
    ledger::{Entries, digest},
};

/// Runs a replay and compares what its dispatches write and its host reads see with a ledger; `observers`
/// observe the same runs.
///
/// Bytes that a ledger keeps are compared by elements, other bytes by digests of pieces. A dispatch that
/// writes bytes that it did not change before is different too, unless it writes what they already contain.
/// Where the bytes are kept, they replace what differs within the tolerance or, with
/// [`VerifyOptions::keep_going`], at all: so each dispatch is judged by itself.
///
/// With a ledger of dispatches, the replay runs once if it is the same. That run screens: it compares what
/// should change, and looks for other changes once for each submission. If it finds a difference or fails,
/// the replay runs again, with copies of all bindings, to tell what differs where.
pub fn verify_against(
    replay: &dyn ObservedReplay,
    ledger: &Ledger,
    options: &VerifyOptions,
    observers: &mut [&mut dyn Observer],
) -> Result<Verification> {
    ledger.check_capture(replay.plan())?;
    if !ledger.has_dispatches() {
        return LedgerComparison::new(ledger, options, Comparing::Everything).run(replay, observers);
    }
    let mut screening = LedgerComparison::new(ledger, options, Comparing::Expected);
    let screened = screening.run(replay, observers);
    if let Ok(screened) = &screened
        && (!screening.is_suspect() || screened.is_interrupted)
    {
        return Ok(screened.clone());
    }
    let found = LedgerComparison::new(ledger, options, Comparing::Everything).run(replay, observers)?;
    match screened {
        Ok(screened) if found.is_interrupted && screened.different_count != 0 => Ok(screened),
        Ok(mut screened) if screened.different_count != 0 && found.outcome() != Outcome::Different => {
            screened.is_unreproduced = true;
            Ok(screened)
        }
        _ => Ok(found),
    }
}

/// Names the elements of what [`verify_against`] found, if the ledger has only digests of them: the replay
/// runs again, in lockstep with one of the captured executables, which has to agree with the ledger as far as
/// it runs. Then the comparison of the two replays is returned. Otherwise, or if the ledger has no
/// dispatches, what was found is returned.
pub fn verify_elements(
    mut found: Verification,
    sides: VerifySides<'_, '_, '_>,
    ledger: &Ledger,
    options: &VerifyOptions,
) -> Result<Verification> {
    if found.digested_bytes == 0 || !ledger.has_dispatches() {
        return Ok(found);
    }
    let exact = VerifyOptions { element_types: options.element_types.clone(), ..VerifyOptions::default() };
    let mut captured = LedgerComparison::new(ledger, &exact, Comparing::Expected);
    let VerifySides { expected, actual, expected_observers, observers } = sides;
    let mut all: Vec<&mut (dyn Observer + Send)> = Vec::with_capacity(expected_observers.len() + 1);
    for observer in expected_observers {
        all.push(&mut **observer);
    }
    all.push(&mut captured);
    let sides = VerifySides { expected, actual, expected_observers: &mut all, observers };
    // A ledger is made with zeros.
    let compared = lockstep::run(sides, options, NewMemory::Filled(0));
    captured.complete_submission()?;
    // A captured side that differs from the ledger ends, and so does the lockstep.
    if captured.is_suspect() || captured.judge.is_stopped {
        return Ok(found);
    }
    let mut compared = compared?;
    if compared.is_interrupted {
        return Ok(found);
    }
    let is_same = compared.outcome() != Outcome::Different && compared.rounded_count == 0;
    if found.outcome() == Outcome::Different && is_same {
        found.is_unreproduced = true;
        return Ok(found);
    }
    compared.is_with_captured = true;
    Ok(compared)
}

/// Compares a replay with a ledger.
struct LedgerComparison<'l> {
    ledger: &'l Ledger,
    entries: Entries<'l>,
    judge: Judge<'l>,
    comparing: Comparing,
    changes: ChangeTracker,
    /// The ranges that the dispatch that is being performed should change, by buffer.
    expected: BTreeMap<u64, Vec<Range>>,
    /// Something changed that should not have.
    has_changed: bool,
    /// The entry of the dispatch that is being performed.
    entry: Option<Entry<'l>>,
    /// A dispatch or host read differs, however little.
    has_difference: bool,
}

/// The bytes that are compared after each dispatch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparing {
    /// All that it may have changed.
    Everything,
    /// The bytes that it should have changed. The rest is compared before another operation writes it, and
    /// after the submission: the program may write it then.
    Expected,
}

impl<'l> LedgerComparison<'l> {
    fn new(ledger: &'l Ledger, options: &'l VerifyOptions, comparing: Comparing) -> Self {
        Self {
            ledger,
            entries: ledger.entries(),
            judge: Judge::new(options),
            comparing,
            changes: ChangeTracker::default(),
            expected: BTreeMap::new(),
            has_changed: false,
            entry: None,
            has_difference: false,
        }
    }

    /// Runs the replay.
    fn run(
        &mut self,
        replay: &dyn ObservedReplay,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Verification> {
        let mut all: Vec<&mut dyn Observer> = Vec::with_capacity(observers.len() + 1);
        for observer in observers {
            all.push(&mut **observer);
        }
        all.push(self);
        replay.run_observed(None, &mut all)?;
        drop(all);
        self.complete_submission()?;
        self.finish(replay.plan())
    }

    fn complete_submission(&mut self) -> Result<()> {
        if self.comparing == Comparing::Expected {
            self.has_changed |= self.changes.differs_anywhere()?;
            self.changes.release();
        }
        Ok(())
    }

    /// Whether a comparison of everything may find a difference.
    fn is_suspect(&self) -> bool {
        self.has_difference || self.has_changed
    }

    /// The entry of what the replay just did; `None` at the end of a ledger that is not complete.
    fn next(&mut self, kind: EntryKind, place: &Place) -> Result<Option<Entry<'l>>> {
        let entry = self.entries.next().transpose().map_err(|it| self.ledger.located(it.into()))?;
        let Some(entry) = entry else {
            if self.entries.is_complete() {
                return Err(self.mismatch("its end", place));
            }
            self.judge.inconclusive(format!(
                "the ledger is incomplete: it ends before record #{}, and what follows is not compared",
                place.record
            ));
            self.judge.is_stopped = true;
            return Ok(None);
        };
        let own = (entry.kind, entry.record, entry.submission, entry.occurrence);
        match own == (kind, place.record, place.submission, place.occurrence) {
            true => Ok(Some(entry)),
            false => {
                let Entry { record, submission, occurrence, .. } = entry;
                let found = match submission == record {
                    true => format!("record #{record} (occurrence {occurrence})"),
                    false => {
                        format!("record #{record} (occurrence {occurrence}), submitted by #{submission},")
                    }
                };
                Err(self.mismatch(&found, place))
            }
        }
    }

    fn mismatch(&self, found: &str, place: &Place) -> Error {
        self.ledger.located(Error::data_loss(format!(
            "the ledger has {found} where the replay has record #{} (occurrence {})",
            place.record, place.occurrence
        )))
    }

    /// Whether the replay continues.
    fn flow(&self) -> ControlFlow<()> {
        match self.judge.is_stopped || self.has_changed {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Before a dispatch.
    fn begin(&mut self, operation: &Operation<'_>) -> Result<()> {
        let place = Place::from_operation(operation);
        let Some(entry) = self.next(EntryKind::Dispatch, &place)? else { return Ok(()) };
        let bindings = operation.bindings();
        for range in &entry.ranges {
            let binding = range.binding.unwrap_or_default();
            let is_it = |it: &AccessedRange<'_>| {
                let bound = Range { offset: it.offset, length: it.length };
                (it.buffer_id, bound) == (range.buffer_id, range.range) && it.access != AccessKind::Reads
            };
            if !bindings.get(binding as usize).is_some_and(is_it) {
                return Err(self.mismatch(&format!("another binding {binding} of the dispatch"), &place));
            }
        }
        self.changes.begin(bindings)?;
        if self.comparing == Comparing::Expected {
            self.expect(&entry)?;
        }
        self.entry = Some(entry);
        Ok(())
    }

    /// Before a dispatch that should change what an entry says: compares that with what is known.
    fn expect(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.expected.clear();
        for range in &entry.ranges {
            let start = range.range.offset;
            let pieces = range.pieces.iter().map(|it| Range { offset: start + it.range.offset, ..it.range });
            self.expected.entry(range.buffer_id).or_default().extend(pieces);
        }
        for (buffer_id, pieces) in &mut self.expected {
            *pieces = merged(std::mem::take(pieces));
            self.has_changed |= self.changes.differs(*buffer_id, pieces)?;
        }
        Ok(())
    }

    /// Before an operation that is not a dispatch: what it overwrites is compared, and not known from then
    /// on.
    fn overwrite(&mut self, ranges: &[AccessedRange<'_>]) -> Result<()> {
        for it in ranges.iter().filter(|it| it.access != AccessKind::Reads && it.length != 0) {
            self.has_changed |= self.changes.differs(it.buffer_id, &[it.range()])?;
            self.changes.forget(it.buffer_id, it.range())?;
        }
        Ok(())
    }

    /// Judges what a dispatch wrote.
    fn dispatch(&mut self, operation: &Operation<'_>) -> Result<()> {
        let place = Place::from_operation(operation);
        let Some(entry) = self.entry.take() else { return Ok(()) };
        let verdict = match self.comparing {
            Comparing::Everything => {
                let mut changes = std::mem::take(&mut self.changes);
                changes.end()?;
                let verdict = self.everything(&place, &changes, &entry)?;
                changes.release();
                self.changes = changes;
                verdict
            }
            Comparing::Expected => {
                for (buffer_id, pieces) in &self.expected {
                    self.changes.accept(*buffer_id, pieces)?;
                }
                self.digests(&place, operation.bindings(), &entry)?
            }
        };
        self.judge.count(&place, verdict);
        self.has_difference |= verdict != Verdict::Same;
        Ok(())
    }

    /// Judges what a dispatch may have changed.
    fn everything(&mut self, place: &Place, changes: &ChangeTracker, entry: &Entry<'_>) -> Result<Verdict> {
        // Several bindings of a range are compared as the first of them.
        let is_compared =
            |range: &&EntryRange<'_>| changes.bindings().any(|it| Some(it.binding) == range.binding);
        if let Some(range) = entry.ranges.iter().find(|range| !is_compared(range)) {
            let binding = range.binding.unwrap_or_default();
            return Err(self.mismatch(&format!("another binding {binding} of the dispatch"), place));
        }
        let mut verdict = Verdict::Same;
        for binding in changes.bindings() {
            let range = entry.ranges.iter().find(|range| range.binding == Some(binding.binding));
            verdict = verdict.max(self.binding(place, &binding, range)?);
        }
        Ok(verdict)
    }

    /// Judges what a dispatch should have changed, by digests.
    fn digests(
        &mut self,
        place: &Place,
        bindings: &[AccessedRange<'_>],
        entry: &Entry<'_>,
    ) -> Result<Verdict> {
        let mut verdict = Verdict::Same;
        let mut bytes = Vec::new();
        for (binding, bound) in (0..).zip(bindings) {
            let range = entry.ranges.iter().find(|range| range.binding == Some(binding));
            let mut is_same = true;
            for piece in range.into_iter().flat_map(|range| &range.pieces) {
                read(bound.buffer, bound.offset + piece.range.offset, piece.range.length, &mut bytes)?;
                is_same &= digest(&bytes) == piece.digest;
            }
            let mut evidence = Evidence::default();
            bytes.clear();
            if !is_same {
                read(bound.buffer, bound.offset, bound.length, &mut bytes)?;
                evidence.summarized = range.iter().flat_map(|it| &it.pieces).map(|it| it.range).collect();
                evidence.expected = range.and_then(|range| range.summary);
                add_pieces(&mut evidence, range, &bytes);
            }
            let is_alias = |it: &AccessedRange<'_>| {
                (it.buffer_id, it.offset, it.length) == (bound.buffer_id, bound.offset, bound.length)
            };
            let aliases = (0..).zip(bindings).filter(|(other, it)| *other != binding && is_alias(it));
            let target = Target {
                place,
                binding: Some(binding),
                aliases: &aliases.map(|(other, _)| other).collect::<Vec<_>>(),
                buffer_id: bound.buffer_id,
                range: Range { offset: bound.offset, length: bound.length },
                recorded_type: range.and_then(|range| range.element_type),
            };
            verdict = verdict.max(self.judge.judge(&target, &evidence, &bytes));
        }
        // What follows may differ because of this.
        self.judge.is_stopped |= verdict != Verdict::Same;
        Ok(verdict)
    }

    /// Judges what a dispatch wrote to a binding, of which the ledger has `range` if it changed.
    fn binding(
        &mut self,
        place: &Place,
        binding: &TrackedBinding<'_>,
        range: Option<&EntryRange<'_>>,
    ) -> Result<Verdict> {
        let pieces = range.map_or(&[][..], |range| &range.pieces);
        let unexpected = without(binding.changes, pieces.iter().map(|piece| piece.range));
        let before: Vec<Vec<u8>> = unexpected.iter().map(|range| binding.before(*range)).collect();
        // Changes are known in units of several bytes.
        let changed_bytes = unexpected
            .iter()
            .zip(&before)
            .map(|(range, before)| different_bytes(before, part(binding.after, *range)));
        let mut evidence = Evidence {
            unexpected_bytes: changed_bytes.sum(),
            expected: range.and_then(|range| range.summary),
            summarized: pieces.iter().map(|piece| piece.range).collect(),
            ..Evidence::default()
        };
        add_pieces(&mut evidence, range, binding.after);
        evidence.known.extend(unexpected.iter().zip(&before).map(|(range, before)| Known {
            offset: range.offset,
            expected: before,
            actual: part(binding.after, *range),
        }));
        evidence.known.sort_by_key(|known| known.offset);
        let target = Target {
            place,
            binding: Some(binding.binding),
            aliases: binding.aliases,
            buffer_id: binding.buffer_id,
            range: binding.range,
            recorded_type: range.and_then(|range| range.element_type),
        };
        let verdict = self.judge.judge(&target, &evidence, binding.after);
        let is_replaced = match verdict {
            Verdict::Same => false,
            Verdict::Rounded | Verdict::Tolerated => true,
            Verdict::Inconclusive | Verdict::Different => self.judge.options.keep_going,
        };
        if is_replaced {
            for known in evidence.known.iter().filter(|known| known.expected != known.actual) {
                binding.put(known.offset, known.expected)?;
            }
        }
        Ok(verdict)
    }
}

impl LedgerComparison<'_> {
    /// The outcome, after the run.
    fn finish(&mut self, plan: &Plan) -> Result<Verification> {
        if !self.judge.is_stopped {
            match self.entries.next().transpose().map_err(|it| self.ledger.located(it.into()))? {
                None if self.entries.is_complete() => {}
                None => self.judge.inconclusive("the ledger is incomplete: its end is missing".into()),
                Some(entry) => {
                    let place = Place { record: entry.record, ..Place::default() };
                    let error = Error::data_loss(format!(
                        "the ledger continues with record #{} after the end of the replay",
                        place.record
                    ));
                    return Err(self.ledger.located(error));
                }
            }
        }
        self.judge.check_compared(match self.ledger.has_dispatches() {
            true => "the replay has no dispatches and no host reads",
            false => "the ledger has host reads only, and the replay has none",
        });
        self.judge.finish(plan)?;
        Ok(std::mem::take(&mut self.judge.outcome))
    }
}

/// Adds the pieces that differ by their digests, with their bytes as far as those are kept.
fn add_pieces<'b>(evidence: &mut Evidence<'b>, range: Option<&'b EntryRange<'_>>, actual: &'b [u8]) {
    for piece in range.into_iter().flat_map(|range| &range.pieces) {
        let bytes = part(actual, piece.range);
        if digest(bytes) == piece.digest {
            continue;
        }
        let kept = kept_elements(piece);
        let (known, rest) = bytes.split_at(kept.len());
        if !known.is_empty() {
            evidence.known.push(Known { offset: piece.range.offset, expected: kept, actual: known });
        }
        if !rest.is_empty() {
            let offset = piece.range.offset + known.len() as u64;
            evidence.digests.push(Range { offset, length: rest.len() as u64 });
        }
    }
}

/// The kept bytes of a piece without the part of an element at the end: elements are compared as a whole.
fn kept_elements<'l>(piece: &Piece<'l>) -> &'l [u8] {
    let Piece { range, kept, .. } = piece;
    if kept.len() as u64 == range.length {
        return kept;
    }
    let beyond = (range.offset + kept.len() as u64) % CHANGE_BYTES as u64;
    &kept[..kept.len().saturating_sub(beyond as usize)]
}

impl Observer for LedgerComparison<'_> {
    fn wants_operations(&self) -> bool {
        self.ledger.has_dispatches()
    }

    fn wants_zeroed_memory(&self) -> bool {
        true
    }

    fn wants_host_reads(&self) -> bool {
        true
    }

    fn wants_steps(&self) -> bool {
        self.comparing == Comparing::Expected
    }

    fn step(&mut self, _location: RecordLocation) -> Result<()> {
        self.complete_submission()
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if !self.judge.is_stopped {
            match (&operation.dispatch, self.comparing) {
                (Some(_), _) => self.begin(operation)?,
                (None, Comparing::Expected) => self.overwrite(operation.ranges)?,
                (None, Comparing::Everything) => {}
            }
        }
        Ok(self.flow())
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if operation.dispatch.is_some() {
            self.dispatch(operation)?;
        }
        Ok(self.flow())
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        if self.judge.is_stopped {
            return Ok(());
        }
        let place = Place::from_read(read);
        let Some(entry) = self.next(EntryKind::Read, &place)? else { return Ok(()) };
        let bytes = read.memory.bytes(read.memory.whole())?;
        let whole = Range { offset: read.offset, length: bytes.len() as u64 };
        let Some(range) =
            entry.ranges.first().filter(|it| it.range == whole && it.buffer_id == read.buffer_id)
        else {
            return Err(self.mismatch("another range of the host read", &place));
        };
        let summarized = range.pieces.iter().map(|piece| piece.range).collect();
        let mut evidence = Evidence { expected: range.summary, summarized, ..Evidence::default() };
        add_pieces(&mut evidence, Some(range), &bytes);
        let target = Target {
            place: &place,
            binding: None,
            aliases: &[],
            buffer_id: read.buffer_id,
            range: whole,
            recorded_type: range.element_type,
        };
        let verdict = self.judge.judge(&target, &evidence, &bytes);
        self.judge.count(&place, verdict);
        self.has_difference |= verdict != Verdict::Same;
        Ok(())
    }
}
