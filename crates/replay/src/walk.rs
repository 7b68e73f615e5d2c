//! A plan's work in the order in which a run performs it, without running it.

use std::collections::HashMap;
use std::ops::ControlFlow;

use rehal_hal::{BufferRef, Command, Dispatch, HostOp, Indexed, MemoryAccess, QueueOp, Span};

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
    /// The bytes that a dispatch writes.
    Dispatch {
        /// Ordinal of its record.
        record: u32,
        /// Ordinal of the record of its submission.
        submission: u32,
        /// How often its record has been performed before.
        occurrence: u64,
    },
    /// The bytes that a map for reading sees.
    Read {
        /// Ordinal of its record.
        record: u32,
    },
}

/// The work of a run, by dispatches and host operations.
enum Work<'w, 'p> {
    /// A dispatch that is a submission.
    Dispatch(&'w DispatchSite<'p>),
    /// An execution of a command buffer, by index, with its dispatches.
    Execution(u32, Execution<'p>, &'w [DispatchCommand<'p>]),
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
    #[doc(hidden)]
    pub fn results(&self, mut visit: impl FnMut(PlannedResult)) {
        let _ = self.each_work(|work| {
            let mut dispatch = |site: &DispatchSite<'_>| {
                visit(PlannedResult::Dispatch {
                    record: site.location.ordinal,
                    submission: site.submission_location.ordinal,
                    occurrence: site.occurrence,
                });
            };
            match work {
                Work::Dispatch(site) => dispatch(site),
                Work::Execution(_, execution, dispatches) => {
                    dispatches.iter().for_each(|it| dispatch(&execution.site(it)));
                }
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
            Work::Execution(_, execution, dispatches) => {
                dispatches.iter().try_for_each(|it| visit(&execution.site(it)))
            }
            Work::Host(..) => ControlFlow::Continue(()),
        })
    }

    /// Calls `visit` with the dispatches that differ, where a run first performs them, and with how often it
    /// does. Executions of a command buffer with equal binding tables do not differ, so that the calls do not
    /// grow with them.
    pub(crate) fn each_distinct_dispatch<'p>(
        &'p self,
        mut visit: impl FnMut(&DispatchSite<'p>, u64) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let table_of = |bindings: &Span<BufferRef<u32>>| bindings.of(&self.lists.buffer_refs);
        let mut counts: HashMap<(u32, &[BufferRef<u32>]), u64> = HashMap::new();
        self.each_event(|event| {
            if let Event::Submission(index, _) = event
                && let QueueOp::Execute { command_buffer, bindings, .. } =
                    &self.submissions[index as usize].op
            {
                *counts.entry((*command_buffer, table_of(bindings))).or_default() += 1;
            }
            ControlFlow::Continue(())
        })?;
        self.each_work(|work| match work {
            Work::Dispatch(site) => visit(site, 1),
            // Removed the first time.
            Work::Execution(buffer, execution, dispatches) => match counts.remove(&(buffer, execution.table))
            {
                Some(count) => dispatches.iter().try_for_each(|it| visit(&execution.site(it), count)),
                None => ControlFlow::Continue(()),
            },
            Work::Host(..) => ControlFlow::Continue(()),
        })
    }

    /// How many dispatches a run performs.
    pub fn dispatch_count(&self) -> u64 {
        let mut counts = vec![0u64; self.counts[ObjectKind::CommandBuffer as usize] as usize];
        for (command_buffer, command) in &self.commands {
            counts[*command_buffer as usize] += u64::from(matches!(command, Command::Dispatch(_)));
        }
        let mut total = 0u64;
        let _ = self.each_event(|event| {
            if let Event::Submission(index, _) = event {
                total = total.saturating_add(match &self.submissions[index as usize].op {
                    QueueOp::Dispatch(_) => 1,
                    QueueOp::Execute { command_buffer, .. } => counts[*command_buffer as usize],
                    _ => 0,
                });
            }
            ControlFlow::Continue(())
        });
        total
    }

    /// The dispatches of each command buffer.
    pub(crate) fn dispatches_by_buffer(&self) -> Vec<Vec<DispatchCommand<'_>>> {
        let dispatch = |(location, command): (RecordLocation, u32)| match &self.commands[command as usize].1 {
            Command::Dispatch(dispatch) => Some(DispatchCommand { location, command, dispatch }),
            _ => None,
        };
        let of_buffer = |commands: Vec<_>| commands.into_iter().filter_map(dispatch).collect();
        self.commands_by_buffer().into_iter().map(of_buffer).collect()
    }

    fn each_work<'p>(&'p self, mut visit: impl FnMut(Work<'_, 'p>) -> ControlFlow<()>) -> ControlFlow<()> {
        let dispatches = self.dispatches_by_buffer();
        let mut executions = vec![0u64; dispatches.len()];
        self.each_event(|event| {
            let (index, location) = match event {
                Event::Submission(index, location) => (index, location),
                Event::Host(step, index) => return visit(Work::Host(step, index)),
            };
            match &self.submissions[index as usize].op {
                QueueOp::Dispatch(dispatch) => {
                    visit(Work::Dispatch(&DispatchSite::submitted(index, location, dispatch)))
                }
                QueueOp::Execute { command_buffer, bindings, .. } => {
                    let buffer = *command_buffer as usize;
                    let (occurrence, table) = (executions[buffer], bindings.of(&self.lists.buffer_refs));
                    executions[buffer] += 1;
                    let execution = Execution { submission: index, location, occurrence, table };
                    visit(Work::Execution(*command_buffer, execution, &dispatches[buffer]))
                }
                _ => ControlFlow::Continue(()),
            }
        })
    }
}

/// A dispatch of a command buffer.
pub(crate) struct DispatchCommand<'p> {
    pub location: RecordLocation,
    /// The command, by index.
    pub command: u32,
    pub dispatch: &'p Dispatch<Indexed>,
}

/// An execution of a command buffer.
pub(crate) struct Execution<'p> {
    /// The submission, by index, and its record.
    pub submission: u32,
    pub location: RecordLocation,
    /// How often the command buffer has been executed before.
    pub occurrence: u64,
    pub table: &'p [BufferRef<u32>],
}

impl<'p> Execution<'p> {
    pub fn site(&self, it: &DispatchCommand<'p>) -> DispatchSite<'p> {
        DispatchSite {
            submission: self.submission,
            submission_location: self.location,
            command: Some(it.command),
            location: it.location,
            occurrence: self.occurrence,
            dispatch: it.dispatch,
            table: self.table,
        }
    }
}

impl<'p> DispatchSite<'p> {
    /// A dispatch that is a submission.
    pub fn submitted(submission: u32, location: RecordLocation, dispatch: &'p Dispatch<Indexed>) -> Self {
        let (submission_location, command, occurrence) = (location, None, 0);
        Self { submission, submission_location, command, location, occurrence, dispatch, table: &[] }
    }
}
