use std::any::Any;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::OnceLock;

use parking_lot::Mutex;
use rehal_base::{Context, Error, Result};
use rehal_hal::{
    Command, CommandBuffer, CommandBufferBackend, CommandBufferMode, CommandBufferParams, Indexed, Live,
    QueueOp, Store,
};

use crate::execute::{BindingTable, LiveNames, Slots, StoredNames, run};
use crate::profile::{self, Profiled};

/// The commands of a command buffer, baked into stages. If the program allows inline execution, they run
/// while they are recorded instead and are not stored.
pub(crate) struct LocalCommands {
    inline: bool,
    recording: Mutex<Option<Box<Recording>>>,
    ready: OnceLock<Box<Recording>>,
}

/// Baked commands, in stages: those of one stage are independent, and each stage follows the one before.
///
/// An execution barrier ends a stage. So does each event command, which is stricter than required: commands
/// also wait for work that their events do not order.
#[derive(Default)]
pub(crate) struct Recording {
    pub(crate) store: Store,
    /// The effects of the commands, without no-ops.
    pub(crate) operations: Vec<QueueOp<Indexed>>,
    /// The first operation of each stage; none is empty.
    pub(crate) stages: Vec<u32>,
    /// Whether the next operation begins a stage.
    is_ordered: bool,
    /// Maximum number of operations in a stage.
    widest: usize,
}

thread_local! {
    #[allow(clippy::vec_box, reason = "boxes are moved from and to command buffers")]
    /// A free list of recordings of dropped command buffers, for their capacity: programs repeat their
    /// recordings.
    static SPARE: RefCell<Vec<Box<Recording>>> = const { RefCell::new(Vec::new()) };
}

/// Maximum length of the free list.
const SPARE_LIMIT: usize = 8;

impl Recording {
    /// Maximum number of operations in a stage.
    pub(crate) fn widest_stage(&self) -> usize {
        self.widest
    }

    /// The operations of a stage.
    pub(crate) fn stage(&self, index: usize) -> Option<Range<usize>> {
        stage(&self.stages, self.operations.len(), index)
    }

    /// The operations of each stage.
    pub(crate) fn stages(&self) -> impl Iterator<Item = Range<usize>> {
        (0..self.stages.len()).filter_map(|index| self.stage(index))
    }

    fn bake(&mut self) {
        self.widest = self.stages().map(|stage| stage.len()).max().unwrap_or(0);
    }

    fn take() -> Box<Self> {
        SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
    }

    fn recycle(mut self: Box<Self>) {
        self.store.clear();
        self.operations.clear();
        self.stages.clear();
        (self.is_ordered, self.widest) = (false, 0);
        // An exiting thread may have destroyed its free list.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_LIMIT {
                spare.push(self);
            }
        });
    }
}

/// The operations of a stage, given the first one of each and their number.
pub(crate) fn stage(firsts: &[u32], count: usize, index: usize) -> Option<Range<usize>> {
    let end = firsts.get(index + 1).map_or(count, |end| *end as usize);
    Some(*firsts.get(index)? as usize..end)
}

#[cold]
fn of_another_driver() -> Error {
    Error::invalid_argument("the command buffer belongs to a device of another driver")
}

fn not_recording() -> Error {
    Error::failed_precondition("the command buffer is not being recorded")
}

impl LocalCommands {
    /// An empty command buffer. Inline execution is used if the program and the device allow it.
    pub(crate) fn create(params: CommandBufferParams, may_be_inline: bool) -> CommandBuffer {
        let inline = may_be_inline && params.mode.contains(CommandBufferMode::ALLOW_INLINE_EXECUTION);
        CommandBuffer::new(params, Self { inline, recording: Mutex::default(), ready: OnceLock::new() })
    }

    /// The backend of a command buffer created by this driver.
    #[inline]
    pub(crate) fn of(command_buffer: &CommandBuffer) -> Result<&Self> {
        (command_buffer.backend() as &dyn Any).downcast_ref().ok_or_else(of_another_driver)
    }

    /// Frees this thread's free list.
    pub(crate) fn drop_spare() {
        SPARE.with_borrow_mut(Vec::clear);
    }

    /// Whether the commands ran when they were recorded, so that waits have no effect.
    pub(crate) fn is_inline(&self) -> bool {
        self.inline
    }

    /// The baked commands; `None` if they ran when they were recorded. Fails while they are being recorded.
    pub(crate) fn baked(&self) -> Result<Option<&Recording>> {
        match self.ready.get() {
            Some(recording) => Ok(Some(recording)),
            None if self.inline => Ok(None),
            None => Err(Error::failed_precondition("cannot run: the command buffer is still being recorded")),
        }
    }

    /// Runs all commands in order.
    pub(crate) fn run<'a>(&'a self, table: &BindingTable<'a>, profile: Option<Profiled<'_>>) -> Result<()> {
        let Some(recording) = self.baked()? else { return Ok(()) };
        let names = StoredNames { store: &recording.store, slots: Slots::Ranges(table) };
        let wants_commands =
            |it: &Profiled<'_>| it.submission.reports_spans() || it.submission.reports_regions();
        if let Some(profiled) = profile.filter(wants_commands) {
            return profile::run_commands(recording, &names, profiled);
        }
        for (index, operation) in recording.operations.iter().enumerate() {
            run(operation, &names, None).context(|| in_command(index))?;
        }
        Ok(())
    }
}

/// The error context that names a command.
pub(crate) fn in_command(index: usize) -> String {
    format!("command {index} of the command buffer")
}

impl CommandBufferBackend for LocalCommands {
    fn begin(&self) -> Result<()> {
        if !self.inline {
            *self.recording.lock() = Some(Recording::take());
        }
        Ok(())
    }

    fn record(&self, command: &Command<Live<'_>>) -> Result<()> {
        let operation = command.as_queue_op();
        if self.inline {
            return operation.map_or(Ok(()), |operation| run(&operation, &LiveNames, None));
        }
        let mut recording = self.recording.lock();
        let recording = recording.as_mut().ok_or_else(not_recording)?;
        let Some(operation) = operation else {
            // Hints and labels have no effect.
            recording.is_ordered |= matches!(
                command,
                Command::ExecutionBarrier { .. }
                    | Command::SignalEvent { .. }
                    | Command::ResetEvent { .. }
                    | Command::WaitEvents { .. }
            );
            return Ok(());
        };
        let index = u32::try_from(recording.operations.len())
            .map_err(|_| Error::resource_exhausted("more than 2^32 commands in a command buffer"))?;
        let kept = operation.rename(&mut recording.store)?;
        if recording.is_ordered || index == 0 {
            recording.stages.push(index);
            recording.is_ordered = false;
        }
        recording.operations.push(kept);
        Ok(())
    }

    fn refused(&self, _command: &Command<Live<'_>>, _error: &Error) {}

    fn end(&self) -> Result<()> {
        let recording = self.recording.lock().take();
        if !self.inline {
            let mut recording = recording.ok_or_else(not_recording)?;
            recording.bake();
            // The handle ensures that a command buffer is recorded once, so this is the first value.
            let _ = self.ready.set(recording);
        }
        Ok(())
    }
}

impl Drop for LocalCommands {
    fn drop(&mut self) {
        if let Some(recording) = self.ready.take() {
            recording.recycle();
        }
    }
}
