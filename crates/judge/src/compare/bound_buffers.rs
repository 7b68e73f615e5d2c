//! Buffers that are bound to the dispatch of a slice.

use std::ops::ControlFlow;

use rehal_base::{Range, Result};
use rehal_replay::{ChangeTracker, Observer, Operation, TrackedBinding};

use crate::{
    Place, Verification, VerifyOptions,
    float_format::Format,
    verify::{Evidence, Judge, Known, Target, Verdict},
};

/// The same without tolerances: what is compared is not numbers that two kernels computed.
pub(super) fn exact(options: &VerifyOptions) -> VerifyOptions {
    VerifyOptions { tolerances: Vec::new(), measures_rounding: false, ..options.clone() }
}

/// A range that a dispatch may have written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    /// The ordinal of the binding.
    binding: u32,
    /// Other bindings of the same range.
    aliases: Vec<u32>,
    pub buffer_id: u64,
    /// In the buffer.
    pub range: Range,
    /// Its bytes before the dispatch; empty unless they are kept.
    pub before: Vec<u8>,
    /// Its bytes after the dispatch; `None` if that changed nothing.
    changed: Option<Vec<u8>>,
    /// The formats as which all bytes before the dispatch are [usual](Format::is_usual): see
    /// [`Bound::forget`].
    usual: Vec<Format>,
}

impl Bound {
    fn from_tracked(it: TrackedBinding<'_>, keeps_before: bool) -> Self {
        let whole = Range { offset: 0, length: it.range.length };
        Self {
            binding: it.binding,
            aliases: it.aliases.to_vec(),
            buffer_id: it.buffer_id,
            range: it.range,
            before: if keeps_before { it.before(whole) } else { Vec::new() },
            changed: (!it.changes.is_empty()).then(|| it.after.to_vec()),
            usual: Vec::new(),
        }
    }

    /// Keeps of the bytes what they look like.
    pub(super) fn forget(&mut self) {
        self.usual = Format::all().filter(|it| it.is_all_usual(&self.before)).collect();
        (self.before, self.changed) = (Vec::new(), None);
    }

    /// Whether what was forgotten were usual numbers of a format.
    pub(super) fn was_usual(&self, format: Format) -> bool {
        self.usual.contains(&format)
    }

    pub(super) fn is_changed(&self) -> bool {
        self.changed.is_some()
    }

    /// Its bytes after the dispatch, before which they were those.
    pub(super) fn after<'b>(&'b self, before: &'b [u8]) -> &'b [u8] {
        self.changed.as_deref().unwrap_or(before)
    }

    /// The same, to change them.
    pub(super) fn after_mut(&mut self, before: &[u8]) -> &mut [u8] {
        self.changed.get_or_insert_with(|| before.to_vec())
    }

    /// Whether it is what the binding with an ordinal binds.
    pub(super) fn is_bound_by(&self, ordinal: u32) -> bool {
        self.binding == ordinal || self.aliases.contains(&ordinal)
    }
}

/// A dispatch, and what is bound to it: the same ranges in each replay of a slice.
pub(super) struct Dispatched {
    pub bound: Vec<Bound>,
    pub place: Place,
}

impl Dispatched {
    /// Number of workgroups in x, y and z.
    pub(super) fn workgroup_count(&self) -> [u32; 3] {
        self.place.dispatch.as_ref().map_or([0; 3], |it| it.workgroup_count)
    }

    /// Compares what it left with what another dispatch of the slice left, which has the bytes before it.
    pub(super) fn judge(&self, expected: &Self, options: &VerifyOptions) -> Verification {
        let mut judge = Judge::new(options);
        let mut verdict = Verdict::Same;
        for (actual, expected) in self.bound.iter().zip(&expected.bound) {
            let target = Target {
                place: &self.place,
                binding: Some(actual.binding),
                aliases: &actual.aliases,
                buffer_id: actual.buffer_id,
                range: actual.range,
                recorded_type: None,
            };
            let (expected, actual) = (expected.after(&expected.before), actual.after(&expected.before));
            let known = vec![Known { offset: 0, expected, actual }];
            let evidence = Evidence { known, ..Evidence::default() };
            verdict = verdict.max(judge.judge(&target, &evidence, actual));
        }
        judge.count(&self.place, verdict);
        judge.outcome
    }
}

/// Keeps what is bound to the dispatch of a slice.
#[derive(Default)]
pub(super) struct Watched {
    keeps_before: bool,
    pub dispatched: Option<Dispatched>,
    changes: ChangeTracker,
}

impl Watched {
    /// `keeps_before` is whether bytes before the dispatch are kept, too.
    pub(super) fn new(keeps_before: bool) -> Self {
        Self { keeps_before, ..Self::default() }
    }
}

impl Observer for Watched {
    fn wants_operations(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if operation.dispatch.is_some() {
            self.changes.begin(operation.bindings())?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if operation.dispatch.is_some() {
            self.changes.end()?;
            let bound = self.changes.bindings().map(|it| Bound::from_tracked(it, self.keeps_before));
            self.dispatched =
                Some(Dispatched { bound: bound.collect(), place: Place::from_operation(operation) });
            self.changes.release();
        }
        Ok(ControlFlow::Continue(()))
    }
}
