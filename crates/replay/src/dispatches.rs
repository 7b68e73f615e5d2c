//! The dispatches of a plan, without running it.

use std::cell::OnceCell;
use std::ops::ControlFlow;

use rehal_base::Result;
use rehal_hal::{Binding, BufferRef, WorkgroupCount};

use crate::effects::{Effect, Footprints, clamp};
use crate::walk::DispatchSite;
use crate::{AccessKind, ExecutableRecord, Plan, RecordLocation};

/// A dispatch that a run of a plan performs: see [`Plan::dispatches`].
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct PlannedDispatch<'p> {
    /// Its record: that of the command, or of the submission.
    pub location: RecordLocation,
    /// The record of the submission.
    pub submission: RecordLocation,
    /// How often its record has been performed before.
    pub occurrence: u64,
    /// The executable.
    pub executable: ExecutableRecord<'p>,
    /// The captured ordinal of the function.
    pub function: u32,
    /// The captured name of the function; empty in captures of version 1.0.
    pub name: &'p [u8],
    /// Number of workgroups in x, y and z; `None` if it is read from a buffer.
    pub workgroup_count: Option<[u32; 3]>,
    /// Where the number of workgroups is read from.
    pub workgroup_count_ref: Option<PlannedBinding>,
    /// Workgroup size in x, y and z; zero lets the driver choose.
    pub workgroup_size: [u32; 3],
    /// Dynamic workgroup-local memory in bytes.
    pub dynamic_local_memory: u32,
    /// 32-bit constants, little-endian.
    pub constants: &'p [u8],
    /// The bindings, by ordinal.
    pub bindings: &'p [PlannedBinding],
}

/// A binding of a [`PlannedDispatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedBinding {
    /// The buffer's id.
    pub buffer_id: u64,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// The kernel's possible accesses.
    pub access: AccessKind,
}

impl Plan {
    /// Calls `visit` with each dispatch, in the order of a run. An error ends the search.
    pub fn dispatches(&self, mut visit: impl FnMut(&PlannedDispatch<'_>) -> Result<()>) -> Result<()> {
        let mut planned = Planned::new(self);
        let mut outcome = Ok(());
        let _ = self.each_dispatch(|site| flow(&mut outcome, planned.with(site, &mut visit)));
        outcome
    }

    /// Calls `visit` with the dispatches that differ, in the order in which a run first performs them, and
    /// with how often it does. Executions of a command buffer with equal binding tables do not differ, so
    /// that the calls do not grow with them. An error ends the search.
    pub fn distinct_dispatches(
        &self,
        mut visit: impl FnMut(&PlannedDispatch<'_>, u64) -> Result<()>,
    ) -> Result<()> {
        let mut planned = Planned::new(self);
        let mut outcome = Ok(());
        let _ = self.each_distinct_dispatch(|site, count| {
            flow(&mut outcome, planned.with(site, |dispatch| visit(dispatch, count)))
        });
        outcome
    }

    /// The range of a reference that a kernel is bound to; `None` for an empty slot, which fails a run.
    pub(crate) fn binding(
        &self,
        footprints: &Footprints<'_>,
        reference: &BufferRef<u32>,
        table: &[BufferRef<u32>],
    ) -> Option<PlannedBinding> {
        let (buffer, first, size) = match reference.binding {
            Binding::Direct(buffer) => (buffer, 0, footprints.size(buffer)),
            Binding::Slot(slot) => {
                let entry = table.get(slot as usize)?;
                let Binding::Direct(buffer) = entry.binding else { return None };
                let (start, end) =
                    clamp(entry.offset, entry.length, footprints.size(buffer)).unwrap_or_default();
                (buffer, start, end - start)
            }
        };
        let (start, end) =
            clamp(reference.offset, reference.length, size).unwrap_or((reference.offset, reference.offset));
        Some(PlannedBinding {
            buffer_id: self.buffer_ids[buffer as usize],
            offset: first.saturating_add(start),
            length: end - start,
            access: footprints.effect_on(buffer, Effect::Bind).into(),
        })
    }
}

/// Whether to go on; keeps an error.
fn flow(outcome: &mut Result<()>, visited: Result<()>) -> ControlFlow<()> {
    *outcome = visited;
    match outcome {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}

/// Describes the dispatches of a plan.
struct Planned<'p> {
    plan: &'p Plan,
    footprints: Footprints<'p>,
    /// The names of the functions of each executable that has been dispatched.
    names: Vec<OnceCell<Vec<&'p [u8]>>>,
    bindings: Vec<PlannedBinding>,
}

impl<'p> Planned<'p> {
    fn new(plan: &'p Plan) -> Self {
        let names = plan.executables.iter().map(|_| OnceCell::new()).collect();
        Self { plan, footprints: Footprints::new(plan, 0), names, bindings: Vec::new() }
    }

    fn with<T>(&mut self, site: &DispatchSite<'p>, visit: impl FnOnce(&PlannedDispatch<'_>) -> T) -> T {
        let Self { plan, footprints, names, bindings } = self;
        let (plan, dispatch) = (*plan, site.dispatch);
        bindings.clear();
        for reference in dispatch.bindings.of(&plan.lists.buffer_refs) {
            bindings.extend(plan.binding(footprints, reference, site.table));
        }
        let executable = plan.executables[dispatch.executable as usize].record(plan.bytes());
        let names = names[dispatch.executable as usize].get_or_init(|| executable.function_names().collect());
        visit(&PlannedDispatch {
            location: site.location,
            submission: site.submission_location,
            occurrence: site.occurrence,
            executable,
            function: dispatch.function,
            name: names.get(dispatch.function as usize).copied().unwrap_or_default(),
            workgroup_count: match dispatch.workgroup_count {
                WorkgroupCount::Static(count) => Some(count),
                WorkgroupCount::Indirect(_) => None,
            },
            workgroup_count_ref: match &dispatch.workgroup_count {
                WorkgroupCount::Static(_) => None,
                WorkgroupCount::Indirect(reference) => plan.binding(footprints, reference, site.table),
            },
            workgroup_size: dispatch.workgroup_size,
            dynamic_local_memory: dispatch.dynamic_local_memory,
            constants: dispatch.constants.of(plan.bytes()),
            bindings,
        })
    }
}
