use std::collections::HashMap;

use rehal_hal::{
    Binding, BufferRef, Command, CommandBufferMode, CommandBufferParams, Indexed, QueueOp, Submission,
};

use crate::effects::Footprints;
use crate::plan::{ObjectKind, RecordLocation, Release};
use crate::{Observer, Plan};

/// The state with which a run performs operations one by one.
pub(super) struct Stepping<'r> {
    /// The observers that want operations, by index.
    pub observers: Vec<usize>,
    /// The observers that want steps, by index.
    pub steps: Vec<usize>,
    pub footprints: Footprints<'r>,
    /// The commands of each command buffer, with their records.
    pub commands: Vec<Vec<(RecordLocation, u32)>>,
    /// How often each command buffer has been executed.
    pub execution_counts: Vec<u64>,
    /// Deferred submissions to perform one by one when they can run, with the observers that want them.
    pub deferred: HashMap<u32, Vec<usize>>,
}

impl<'r> Stepping<'r> {
    /// `None` if no observer wants operations.
    pub(super) fn new(plan: &'r Plan, observers: &[&mut dyn Observer]) -> Option<Box<Self>> {
        let wanting = |wants: fn(&dyn Observer) -> bool| -> Vec<usize> {
            (0..observers.len()).filter(|&index| wants(&*observers[index])).collect()
        };
        let steps = wanting(|it| it.wants_steps());
        let observers = wanting(|it| it.wants_operations());
        if observers.is_empty() {
            return None;
        }
        let commands = plan.commands_by_buffer();
        Some(Box::new(Self {
            observers,
            steps,
            footprints: Footprints::new(plan, 0),
            execution_counts: vec![0; commands.len()],
            commands,
            deferred: HashMap::new(),
        }))
    }

    /// The parameters of a command buffer whose commands may be performed one by one: recorded, not executed
    /// at once.
    pub(super) fn params(params: CommandBufferParams) -> CommandBufferParams {
        CommandBufferParams { mode: params.mode - CommandBufferMode::ALLOW_INLINE_EXECUTION, ..params }
    }

    /// The releases of a plan, such that what commands name lives as long as their command buffer: they name
    /// it again whenever it is executed.
    pub(super) fn releases(&self, plan: &Plan) -> Vec<Release> {
        let mut last_use = plan.counts.map(|count| vec![0; count as usize]);
        for release in &plan.releases {
            last_use[release.kind as usize][release.index as usize] = release.step;
        }
        for (command_buffer, commands) in self.commands.iter().enumerate() {
            let step = last_use[ObjectKind::CommandBuffer as usize][command_buffer];
            for (_, command) in commands {
                each_object(plan, &plan.commands[*command as usize].1, |kind, index| {
                    let last_use = &mut last_use[kind as usize][index as usize];
                    *last_use = step.max(*last_use);
                });
            }
        }
        let extended = |it: &Release| Release { step: last_use[it.kind as usize][it.index as usize], ..*it };
        let mut releases: Vec<Release> = plan.releases.iter().map(extended).collect();
        releases.sort_by_key(|release| release.step);
        releases
    }

    /// A submission has run.
    pub(super) fn count(&mut self, submission: &Submission<Indexed>) {
        if let QueueOp::Execute { command_buffer, .. } = submission.op {
            self.execution_counts[command_buffer as usize] += 1;
        }
    }
}

/// Calls `visit` with each object that a command names.
pub(crate) fn each_object(plan: &Plan, command: &Command<Indexed>, mut visit: impl FnMut(ObjectKind, u32)) {
    match command {
        Command::SignalEvent { event, .. } | Command::ResetEvent { event, .. } => {
            visit(ObjectKind::Event, *event)
        }
        Command::WaitEvents { events, .. } => {
            events.of(&plan.lists.events).iter().for_each(|event| visit(ObjectKind::Event, *event));
        }
        Command::Dispatch(dispatch) => visit(ObjectKind::Executable, dispatch.executable),
        _ => {}
    }
    let barriers = match command {
        Command::ExecutionBarrier { buffer_barriers, .. } | Command::WaitEvents { buffer_barriers, .. } => {
            buffer_barriers.of(&plan.lists.buffer_barriers)
        }
        _ => &[],
    };
    let mut buffer = |reference: &BufferRef<u32>| {
        if let Binding::Direct(buffer) = reference.binding {
            visit(ObjectKind::Buffer, buffer);
        }
    };
    barriers.iter().for_each(|barrier| buffer(&barrier.buffer));
    if let Some(op) = command.as_queue_op() {
        Footprints::each_reference(plan, &op, |reference, _| buffer(reference));
    }
}
