use std::ops::ControlFlow;

use rehal_base::{Error, Range, Result};
use rehal_replay::{CHANGE_BYTES, HostRead, Observer, Operation, Plan, Replay};

use super::judge::{Evidence, Judge, Known, Target, Verdict};
use super::{Place, Verification, VerifyOptions};
use crate::ledger::{Entries, digest};
use crate::written::{Written, WrittenBinding, part, without};
use crate::{Entry, EntryKind, EntryRange, Ledger, Piece};

/// Runs a replay and compares what its dispatches write and its host reads see with a ledger; `observers` observe the
/// same run.
///
/// Bytes that a ledger keeps are compared by elements, other bytes by digests of pieces. A dispatch that writes bytes that it
/// did not change before is different too, unless it writes what they already contain. Where the bytes are kept, they replace
/// what differs within the tolerance or, with [`VerifyOptions::keep_going`], at all: so each dispatch is judged by itself.
pub fn verify_against(
    replay: &Replay,
    ledger: &Ledger,
    options: &VerifyOptions,
    observers: &mut [&mut dyn Observer],
) -> Result<Verification> {
    ledger.check_capture(replay.plan())?;
    let mut against = Against {
        ledger,
        entries: ledger.entries(),
        judge: Judge::new(options),
        written: Written::default(),
    };
    let mut all: Vec<&mut dyn Observer> = Vec::with_capacity(observers.len() + 1);
    for observer in observers {
        all.push(&mut **observer);
    }
    all.push(&mut against);
    replay.run(&mut all)?;
    against.finish(replay.plan())
}

/// Compares a replay with a ledger.
struct Against<'l> {
    ledger: &'l Ledger,
    entries: Entries<'l>,
    judge: Judge<'l>,
    written: Written,
}

impl<'l> Against<'l> {
    /// The entry of what the replay just did; `None` at the end of a ledger that is not complete.
    fn next(&mut self, kind: EntryKind, place: &Place) -> Result<Option<Entry<'l>>> {
        let entry = self.entries.next().transpose().map_err(|it| self.ledger.located(it.into()))?;
        let Some(entry) = entry else {
            if self.entries.is_complete() {
                return Err(self.mismatch("its end", place));
            }
            self.judge.undecided(format!(
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

    /// Judges what a dispatch wrote.
    fn dispatch(&mut self, operation: &Operation<'_>) -> Result<()> {
        let place = Place::of_operation(operation);
        let Some(entry) = self.next(EntryKind::Dispatch, &place)? else { return Ok(()) };
        self.written.end()?;
        let mut verdict = Verdict::Same;
        let bindings = std::mem::take(&mut self.written.bindings);
        for range in &entry.ranges {
            let is_it = |it: &&WrittenBinding| {
                (Some(it.binding), it.buffer_id, it.range()) == (range.binding, range.buffer_id, range.range)
            };
            if !bindings.iter().any(|it| is_it(&it)) {
                let binding = range.binding.unwrap_or_default();
                self.written.bindings = bindings;
                return Err(self.mismatch(&format!("another binding {binding} of the dispatch"), &place));
            }
        }
        for binding in &bindings {
            let range = entry.ranges.iter().find(|range| range.binding == Some(binding.binding));
            verdict = verdict.max(self.binding(&place, binding, range)?);
        }
        self.written.bindings = bindings;
        self.written.release();
        self.judge.count(&place, verdict);
        Ok(())
    }

    /// Judges what a dispatch wrote to a binding, of which the ledger has `range` if it changed.
    fn binding(
        &mut self,
        place: &Place,
        binding: &WrittenBinding,
        range: Option<&EntryRange<'_>>,
    ) -> Result<Verdict> {
        let pieces = range.map_or(&[][..], |range| &range.pieces);
        let unexpected = without(&binding.changes, pieces.iter().map(|piece| piece.range));
        let mut evidence = Evidence {
            unexpected_bytes: unexpected.iter().map(|it| it.length).sum(),
            expected: range.and_then(|range| range.summary),
            summarized: pieces.iter().map(|piece| piece.range).collect(),
            ..Evidence::default()
        };
        add_pieces(&mut evidence, range, binding.after());
        let before: Vec<Vec<u8>> = unexpected.iter().map(|range| binding.before(*range)).collect();
        evidence.known.extend(unexpected.iter().zip(&before).map(|(range, before)| Known {
            offset: range.offset,
            expected: before,
            actual: part(binding.after(), *range),
        }));
        evidence.known.sort_by_key(|known| known.offset);
        let target = Target {
            place,
            binding: Some(binding.binding),
            aliases: &binding.aliases,
            buffer_id: binding.buffer_id,
            range: binding.range(),
            recorded_type: range.and_then(|range| range.element_type),
        };
        let verdict = self.judge.judge(&target, &evidence, binding.after());
        let is_replaced = match verdict {
            Verdict::Same => false,
            Verdict::Tolerated => true,
            Verdict::Undecided | Verdict::Different => self.judge.options.keep_going,
        };
        if is_replaced {
            for known in evidence.known.iter().filter(|known| known.expected != known.actual) {
                binding.put(known.offset, known.expected)?;
            }
        }
        Ok(verdict)
    }
}

impl Against<'_> {
    /// The outcome, after the run.
    fn finish(mut self, plan: &Plan) -> Result<Verification> {
        if !self.judge.is_stopped {
            match self.entries.next().transpose().map_err(|it| self.ledger.located(it.into()))? {
                None if self.entries.is_complete() => {}
                None => self.judge.undecided("the ledger is incomplete: its end is missing".into()),
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
        self.judge.finish(plan)
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

impl Observer for Against<'_> {
    fn wants_operations(&self) -> bool {
        self.ledger.has_dispatches()
    }

    fn wants_host_reads(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if self.judge.is_stopped {
            return Ok(ControlFlow::Break(()));
        }
        if operation.dispatch.is_some() {
            self.written.begin(operation.bindings())?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if operation.dispatch.is_some() {
            self.dispatch(operation)?;
        }
        Ok(match self.judge.is_stopped {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        if self.judge.is_stopped {
            return Ok(());
        }
        let place = Place::of_read(read);
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
        Ok(())
    }
}
