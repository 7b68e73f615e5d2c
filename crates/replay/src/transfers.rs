//! The transfers of a plan, without running it.

use std::collections::HashSet;
use std::ops::ControlFlow;

use rehal_hal::profile::QueueOpKind;
use rehal_hal::{BufferRef, FileContents, Indexed, QueueOp};

use crate::effects::Footprints;
use crate::walk::Event;
use crate::{AccessKind, Plan, PlannedBinding, RecordLocation};

/// A transfer that a run of a plan performs: see [`Plan::distinct_transfers`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PlannedTransfer {
    /// Its record: that of the command, or of the submission.
    pub location: RecordLocation,
    /// A fill, an update, a copy, or a read of a file.
    pub kind: QueueOpKind,
    /// The bytes that a copy reads.
    pub source: Option<PlannedBinding>,
    /// The record that imports the file that a read reads, and the first byte in the file.
    pub file: Option<(u32, u64)>,
    /// The bytes that it writes.
    pub target: PlannedBinding,
}

impl Plan {
    /// Calls `visit` with the fills, updates, copies and reads of files that differ, in the order in which a
    /// run first performs them. Executions of a command buffer with equal binding tables do not differ.
    #[doc(hidden)]
    pub fn distinct_transfers(&self, mut visit: impl FnMut(&PlannedTransfer)) {
        let footprints = Footprints::new(self, 0);
        let commands = self.commands_by_buffer();
        let mut visit = |location, op: &QueueOp<Indexed>, table| {
            visit_transfer(self, &footprints, location, op, table, &mut visit);
        };
        let mut executed = HashSet::new();
        let _ = self.each_event(|event| {
            let Event::Submission(index, location) = event else { return ControlFlow::Continue(()) };
            match &self.submissions[index as usize].op {
                QueueOp::Execute { command_buffer, bindings, .. } => {
                    let table = bindings.of(&self.lists.buffer_refs);
                    if executed.insert((*command_buffer, table)) {
                        for (location, command) in &commands[*command_buffer as usize] {
                            if let Some(op) = self.commands[*command as usize].1.as_queue_op() {
                                visit(*location, &op, table);
                            }
                        }
                    }
                }
                op => visit(location, op, &[]),
            }
            ControlFlow::Continue(())
        });
    }
}

fn visit_transfer(
    plan: &Plan,
    footprints: &Footprints<'_>,
    location: RecordLocation,
    op: &QueueOp<Indexed>,
    table: &[BufferRef<u32>],
    visit: &mut dyn FnMut(&PlannedTransfer),
) {
    let (source, target) = match op {
        QueueOp::Fill { target, .. } | QueueOp::Update { target, .. } | QueueOp::Read { target, .. } => {
            (None, target)
        }
        QueueOp::Copy { source, target, .. } => (Some(source), target),
        QueueOp::Alloca { .. }
        | QueueOp::Dealloca { .. }
        | QueueOp::Write { .. }
        | QueueOp::Dispatch(_)
        | QueueOp::Execute { .. }
        | QueueOp::Barrier { .. }
        | QueueOp::HostCall { .. } => return,
    };
    let range = |reference: &BufferRef<u32>, access| {
        Some(PlannedBinding { access, ..plan.binding(footprints, reference, table)? })
    };
    // A reference to an empty slot fails a run.
    if let Some(target) = range(target, AccessKind::Writes) {
        let source = source.and_then(|it| range(it, AccessKind::Reads));
        let (kind, file) = match op {
            QueueOp::Read { file, file_offset, .. } => match plan.files[*file as usize].source.contents {
                // The bytes are those of the record.
                FileContents::Ranges { .. } => (QueueOpKind::Update, None),
                _ => (op.kind(), Some((plan.files[*file as usize].location.ordinal, *file_offset))),
            },
            _ => (op.kind(), None),
        };
        visit(&PlannedTransfer { location, kind, source, file, target });
    }
}
