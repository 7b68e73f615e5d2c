use std::ops::ControlFlow;
use std::sync::Arc;

use rehal_base::Result;
use rehal_hal::profile::QueueOpKind;
use rehal_hal::{DeviceGroup, transfer};
use rehal_replay::{
    AccessKind, HostRead, Observer, Operation, Plan, RecordLocation, Replay, ReplayOptions, Scope,
};

use super::{Bound, Observed, Ran, TestDevice};

/// The notifications to an observer of operations.
#[derive(Default)]
pub struct Stepped {
    pub operations: Vec<ObservedOperation>,
    /// The dispatches as the test device logs them, with the bytes before each.
    pub dispatches: Vec<Ran>,
    /// The submissions that are performed as a whole.
    pub whole: Vec<u32>,
    /// The run ends before the operation with this number.
    pub stop_before: Option<usize>,
    /// The run ends after the operation with this number.
    pub stop_after: Option<usize>,
    /// Its notifications, except executables.
    pub observed: Observed,
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedOperation {
    pub submission: u32,
    pub record: u32,
    pub occurrence: u64,
    pub scope: Option<String>,
    pub kind: QueueOpKind,
    /// Access, buffer, offset and length, before and after the operation.
    pub ranges: Vec<(AccessKind, u64, u64, u64)>,
    pub ranges_after: Vec<(AccessKind, u64, u64, u64)>,
    pub is_complete: bool,
}

/// Runs a plan with an observer of operations on as many test devices as it uses.
pub fn stepped(plan: &Arc<Plan>, options: &ReplayOptions, operations: &mut Stepped) -> Result<Observed> {
    let (devices, logs): (Vec<_>, Vec<_>) = (0..plan.device_count()).map(|_| TestDevice::create()).unzip();
    let outcome = Replay::new(plan.clone(), &DeviceGroup::new(devices)?, options)
        .and_then(|replay| replay.run(&mut [operations]));
    let mut observed = std::mem::take(&mut operations.observed);
    observed.ran = logs.iter().flat_map(|log| std::mem::take(&mut *log.lock().unwrap())).collect();
    outcome.map(|()| observed)
}

fn ranges(operation: &Operation<'_>) -> Vec<(AccessKind, u64, u64, u64)> {
    operation.ranges.iter().map(|it| (it.access, it.buffer_id, it.offset, it.length)).collect()
}

impl Observer for Stepped {
    fn wants_operations(&self) -> bool {
        true
    }

    fn wants_submission(&mut self, submission: RecordLocation) -> bool {
        !self.whole.contains(&submission.ordinal)
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if self.stop_before == Some(self.operations.len()) {
            return Ok(ControlFlow::Break(()));
        }
        self.operations.push(ObservedOperation {
            submission: operation.submission.ordinal,
            record: operation.location.ordinal,
            occurrence: operation.occurrence,
            scope: operation.scope.map(|name| String::from_utf8_lossy(name).into_owned()),
            kind: operation.kind,
            ranges: ranges(operation),
            ranges_after: Vec::new(),
            is_complete: false,
        });
        if let Some(dispatch) = &operation.dispatch {
            let bound = |it: &rehal_replay::AccessedRange<'_>| {
                Ok(Bound { offset: it.offset, bytes: transfer::to_vec(it.buffer, it.offset, it.length)? })
            };
            self.dispatches.push(Ran::Dispatch {
                executable: dispatch.running.unwrap().prepared.backend().name().to_string(),
                function: dispatch.name.to_owned(),
                constants: dispatch.constants.to_vec(),
                bindings: operation.bindings().iter().map(bound).collect::<Result<_>>()?,
                workgroup_count: dispatch.workgroup_count,
                workgroup_size: dispatch.workgroup_size,
                local_memory: dispatch.dynamic_local_memory,
            });
        }
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        let last = self.operations.last_mut().unwrap();
        assert_eq!((last.record, last.is_complete), (operation.location.ordinal, false));
        last.ranges_after = ranges(operation);
        last.is_complete = true;
        match self.stop_after {
            Some(number) if number + 1 == self.operations.len() => Ok(ControlFlow::Break(())),
            _ => Ok(ControlFlow::Continue(())),
        }
    }

    fn scope_begin(&mut self, scope: &Scope<'_>) -> Result<()> {
        self.observed.scope_begin(scope)
    }

    fn scope_end(&mut self, scope: &Scope<'_>) -> Result<()> {
        self.observed.scope_end(scope)
    }

    fn wants_host_reads(&self) -> bool {
        true
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        self.observed.host_read(read)
    }

    fn wants_steps(&self) -> bool {
        true
    }

    fn step(&mut self, location: RecordLocation) -> Result<()> {
        self.observed.step(location)
    }
}
