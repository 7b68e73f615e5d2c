//! A plan's work in the order in which a run performs it, without running it.

use std::ops::ControlFlow;

use rehal_hal::{BufferRef, Command, Dispatch, HostOp, Indexed, MemoryAccess, QueueOp};

use crate::Plan;
use crate::plan::{ObjectKind, RecordLocation, StepOp};

/// Something that a run performs.
pub(crate) enum Event {
    /// A submission, with its record.
    Submission(u32, RecordLocation),
    /// A host operation of the step with this number.
    Host(u32, u32),
}

/// A result of a run that a ledger has an entry for: see [`Plan::results`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlannedResult {
    /// What a dispatch writes.
    Dispatch {
        /// Ordinal of its record.
        record: u32,
        /// Ordinal of the record of its submission.
        submission: u32,
        /// How often its record has been performed before.
        occurrence: u64,
    },
    /// What a map for reading sees.
    Read {
        /// Ordinal of its record.
        record: u32,
    },
}

/// What a run performs, by dispatches and host operations.
enum Work<'w, 'p> {
    Dispatch(&'w DispatchSite<'p>),
    /// The host operation of the step with this number.
    Host(u32, u32),
}

/// A dispatch that a run performs.
pub(crate) struct DispatchSite<'p> {
    /// The submission, by index.
    pub submission: u32,
    /// Its record.
    pub submission_location: RecordLocation,
    /// The command, by index; `None` if it is submitted to a queue.
    pub command: Option<u32>,
    /// Its own record.
    pub location: RecordLocation,
    /// How often it has been performed before.
    pub occurrence: u64,
    pub dispatch: &'p Dispatch<Indexed>,
    /// The binding table that its slots refer to.
    pub table: &'p [BufferRef<u32>],
}

impl Plan {
    /// Calls `visit` with each event, in the order of a run in serialized order.
    pub(crate) fn each_event(&self, mut visit: impl FnMut(Event) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut completions = self.completions.iter().peekable();
        for (number, step) in (0u32..).zip(&self.steps) {
            match step.op {
                StepOp::Submission(index) => visit(Event::Submission(index, step.location))?,
                StepOp::Host(index) => visit(Event::Host(number, index))?,
                StepOp::Deferred(_) | StepOp::Command(_) => {}
            }
            while let Some(completion) = completions.next_if(|it| it.step == number) {
                visit(Event::Submission(completion.submission, completion.location))?;
            }
        }
        ControlFlow::Continue(())
    }

    /// The commands of each command buffer, with their records.
    pub(crate) fn commands_by_buffer(&self) -> Vec<Vec<(RecordLocation, u32)>> {
        let mut commands = vec![Vec::new(); self.counts[ObjectKind::CommandBuffer as usize] as usize];
        for step in &self.steps {
            if let StepOp::Command(index) = step.op {
                commands[self.commands[index as usize].0 as usize].push((step.location, index));
            }
        }
        commands
    }

    /// Calls `visit` with the results that observers of a run see, in their order.
    pub fn results(&self, mut visit: impl FnMut(PlannedResult)) {
        let _ = self.each_work(|work| {
            match work {
                Work::Dispatch(site) => visit(PlannedResult::Dispatch {
                    record: site.location.ordinal,
                    submission: site.submission_location.ordinal,
                    occurrence: site.occurrence,
                }),
                Work::Host(step, index) => {
                    if let HostOp::Map(range) = &self.host_ops[index as usize]
                        && range.access.contains(MemoryAccess::READ)
                    {
                        visit(PlannedResult::Read { record: self.steps[step as usize].location.ordinal });
                    }
                }
            }
            ControlFlow::Continue(())
        });
    }

    /// Calls `visit` with each dispatch, in the order of a run in serialized order.
    pub(crate) fn each_dispatch<'p>(
        &'p self,
        mut visit: impl FnMut(&DispatchSite<'p>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.each_work(|work| match work {
            Work::Dispatch(site) => visit(site),
            Work::Host(..) => ControlFlow::Continue(()),
        })
    }

    fn each_work<'p>(&'p self, mut visit: impl FnMut(Work<'_, 'p>) -> ControlFlow<()>) -> ControlFlow<()> {
        let commands = self.commands_by_buffer();
        let mut executions = vec![0u64; commands.len()];
        self.each_event(|event| {
            let (index, submission_location) = match event {
                Event::Submission(index, location) => (index, location),
                Event::Host(step, index) => return visit(Work::Host(step, index)),
            };
            match &self.submissions[index as usize].op {
                QueueOp::Dispatch(dispatch) => visit(Work::Dispatch(&DispatchSite {
                    submission: index,
                    submission_location,
                    command: None,
                    location: submission_location,
                    occurrence: 0,
                    dispatch,
                    table: &[],
                })),
                QueueOp::Execute { command_buffer, bindings, .. } => {
                    let occurrence = executions[*command_buffer as usize];
                    executions[*command_buffer as usize] += 1;
                    for (location, command) in &commands[*command_buffer as usize] {
                        if let Command::Dispatch(dispatch) = &self.commands[*command as usize].1 {
                            visit(Work::Dispatch(&DispatchSite {
                                submission: index,
                                submission_location,
                                command: Some(*command),
                                location: *location,
                                occurrence,
                                dispatch,
                                table: bindings.of(&self.lists.buffer_refs),
                            }))?;
                        }
                    }
                    ControlFlow::Continue(())
                }
                _ => ControlFlow::Continue(()),
            }
        })
    }
}
