//! What is bound to the dispatch of a slice.

use std::ops::ControlFlow;

use rehal_base::{Range, Result};
use rehal_replay::{AccessKind, AccessedRange, Observer, Operation, merged};

use crate::bytes::read;
use crate::verify::{Evidence, Judge, Known, Target, Verdict};
use crate::{Place, Verification, VerifyOptions};

/// The same without tolerances: what is compared is not numbers that two kernels computed.
pub(super) fn exact(options: &VerifyOptions) -> VerifyOptions {
    VerifyOptions { tolerances: Vec::new(), ..options.clone() }
}

/// What a buffer contains in bound ranges, joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub buffer_id: u64,
    /// In the buffer.
    pub range: Range,
    pub content: Vec<u8>,
}

/// What is bound to a dispatch, without what it only reads. The same parts in each replay of a slice.
fn bound(bindings: &[AccessedRange<'_>]) -> Result<Vec<Bound>> {
    let mut all: Vec<Bound> = Vec::new();
    let wanted = || bindings.iter().filter(|it| it.access != AccessKind::Reads);
    for it in wanted() {
        if all.iter().any(|other| other.buffer_id == it.buffer_id) {
            continue;
        }
        let own = wanted().filter(|other| other.buffer_id == it.buffer_id);
        for range in merged(own.map(|it| Range { offset: it.offset, length: it.length }).collect()) {
            let mut content = Vec::new();
            read(it.buffer, range.offset, range.length, &mut content)?;
            all.push(Bound { buffer_id: it.buffer_id, range, content });
        }
    }
    Ok(all)
}

impl Bound {
    /// The bytes of a range of the buffer, inside.
    pub(super) fn bytes(&self, range: Range) -> &[u8] {
        &self.content[self.span(range)]
    }

    fn span(&self, range: Range) -> std::ops::Range<usize> {
        let start = (range.offset - self.range.offset) as usize;
        start..start + range.length as usize
    }
}

/// A dispatch, and what is bound to it afterwards.
pub(super) struct Dispatched {
    pub after: Vec<Bound>,
    pub place: Place,
    /// The buffers, and the ranges of them.
    pub bindings: Vec<(u64, Range)>,
}

impl Dispatched {
    /// Of the operation that has just been performed.
    pub(super) fn of(operation: &Operation<'_>) -> Result<Self> {
        let bindings = operation.bindings();
        let of = |it: &AccessedRange<'_>| (it.buffer_id, Range { offset: it.offset, length: it.length });
        Ok(Self {
            after: bound(bindings)?,
            place: Place::of_operation(operation),
            bindings: bindings.iter().map(of).collect(),
        })
    }

    /// Number of workgroups in x, y and z.
    pub(super) fn workgroup_count(&self) -> [u32; 3] {
        self.place.dispatch.as_ref().map_or([0; 3], |it| it.workgroup_count)
    }

    /// Compares what is bound with what `expected` has of it, binding by binding.
    pub(super) fn judge(&self, expected: &[Bound], options: &VerifyOptions) -> Verification {
        let mut judge = Judge::new(options);
        let mut verdict = Verdict::Same;
        for (index, (buffer_id, range)) in self.bindings.iter().enumerate() {
            let is_same = |it: &(u64, Range)| *it == (*buffer_id, *range);
            let has = |it: &&Bound| it.buffer_id == *buffer_id && it.range.covers(*range);
            // Several bindings of a range are compared as the first of them.
            let is_first = !self.bindings[..index].iter().any(is_same);
            let Some(bound) = self.after.iter().find(has).filter(|_| is_first) else { continue };
            let actual = bound.bytes(*range);
            let mut wanted = actual.to_vec();
            for it in expected.iter().filter(|it| it.buffer_id == *buffer_id && it.range.overlaps(*range)) {
                let (start, end) = (it.range.offset.max(range.offset), it.range.end().min(range.end()));
                let part = Range { offset: start, length: end - start };
                let at = (start - range.offset) as usize;
                wanted[at..at + part.length as usize].copy_from_slice(it.bytes(part));
            }
            let aliases = (0..).zip(&self.bindings).skip(index + 1).filter(|(_, it)| is_same(it));
            let target = Target {
                place: &self.place,
                binding: Some(index as u32),
                aliases: &aliases.map(|(index, _)| index).collect::<Vec<u32>>(),
                buffer_id: *buffer_id,
                range: *range,
                recorded_type: None,
            };
            let evidence = Evidence {
                known: vec![Known { offset: 0, expected: &wanted, actual }],
                ..Evidence::default()
            };
            verdict = verdict.max(judge.judge(&target, &evidence, actual));
        }
        judge.count(&self.place, verdict);
        judge.outcome
    }
}

/// Keeps what is bound to the dispatch of a slice.
#[derive(Default)]
pub(super) struct Watched {
    /// Whether to keep it before the dispatch, too.
    pub keeps_before: bool,
    pub before: Vec<Bound>,
    pub dispatched: Option<Dispatched>,
}

impl Observer for Watched {
    fn wants_operations(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if self.keeps_before && operation.dispatch.is_some() {
            self.before = bound(operation.bindings())?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if operation.dispatch.is_some() {
            self.dispatched = Some(Dispatched::of(operation)?);
        }
        Ok(ControlFlow::Continue(()))
    }
}
