use std::any::Any;
use std::cell::RefCell;
use std::sync::OnceLock;

use parking_lot::Mutex;
use rehal_base::{Context, Error, Result};
use rehal_hal::{
    Command, CommandBuffer, CommandBufferBackend, CommandBufferMode, CommandBufferParams, Indexed, Live,
    QueueOp, Store,
};

use crate::execute::{BindingTable, LiveNames, StoredNames, effect_of, run};

/// The commands of a command buffer. A CPU has nothing to bake: they are kept as they were recorded,
/// or, where the program allows it, run as they are recorded and not kept at all.
pub(crate) struct LocalCommands {
    inline: bool,
    recording: Mutex<Option<Box<Recording>>>,
    ready: OnceLock<Box<Recording>>,
}

#[derive(Default)]
struct Recording {
    store: Store,
    /// What the commands do, without those that do nothing.
    operations: Vec<QueueOp<Indexed>>,
}

thread_local! {
    #[allow(clippy::vec_box, reason = "the boxes come from command buffers and go into them again")]
    /// Recordings whose command buffers are gone, for their capacity: programs record again what
    /// they recorded before.
    static SPARE: RefCell<Vec<Box<Recording>>> = const { RefCell::new(Vec::new()) };
}

/// How many recordings a thread keeps for their capacity.
const SPARE_LIMIT: usize = 8;

impl Recording {
    fn take() -> Box<Self> {
        SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
    }

    fn give_back(mut self: Box<Self>) {
        self.store.clear();
        self.operations.clear();
        // A thread that ends has no place for it any more, and needs none.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_LIMIT {
                spare.push(self);
            }
        });
    }
}

fn not_recording() -> Error {
    Error::failed_precondition("the command buffer is not being recorded")
}

impl LocalCommands {
    /// An empty command buffer.
    pub(crate) fn create(params: CommandBufferParams) -> CommandBuffer {
        let inline = params.mode.contains(CommandBufferMode::ALLOW_INLINE_EXECUTION);
        CommandBuffer::new(params, Self { inline, recording: Mutex::default(), ready: OnceLock::new() })
    }

    /// The backend of a command buffer that this driver made.
    pub(crate) fn of(command_buffer: &CommandBuffer) -> Result<&Self> {
        command_buffer.backend().as_any().downcast_ref().ok_or_else(|| {
            Error::invalid_argument("the command buffer belongs to a device of another driver")
        })
    }

    /// Frees what this thread keeps for the next recordings.
    pub(crate) fn drop_spare() {
        SPARE.with_borrow_mut(Vec::clear);
    }

    /// Whether the commands ran when they were recorded, so that waits come too late.
    pub(crate) fn is_inline(&self) -> bool {
        self.inline
    }

    /// Runs all commands in order.
    pub(crate) fn run(&self, table: &BindingTable<'_>) -> Result<()> {
        if self.inline {
            return Ok(());
        }
        let Some(recording) = self.ready.get() else {
            return Err(Error::failed_precondition("the command buffer is run before its recording ended"));
        };
        let names = StoredNames { store: &recording.store, table };
        for (index, operation) in recording.operations.iter().enumerate() {
            run(operation, &names).context(|| format!("command {index} of the command buffer"))?;
        }
        Ok(())
    }
}

impl CommandBufferBackend for LocalCommands {
    fn begin(&self) -> Result<()> {
        if !self.inline {
            *self.recording.lock() = Some(Recording::take());
        }
        Ok(())
    }

    fn record(&self, command: &Command<Live<'_>>) -> Result<()> {
        let Some(operation) = effect_of(command)? else { return Ok(()) };
        if self.inline {
            return run(&operation, &LiveNames);
        }
        let mut recording = self.recording.lock();
        let recording = recording.as_mut().ok_or_else(not_recording)?;
        let kept = operation.rename(&mut recording.store)?;
        recording.operations.push(kept);
        Ok(())
    }

    fn refused(&self, _command: &Command<Live<'_>>, _error: &Error) {}

    fn end(&self) -> Result<()> {
        let recording = self.recording.lock().take();
        if !self.inline {
            // A command buffer is recorded once (the handle sees to it), so this is the first.
            let _ = self.ready.set(recording.ok_or_else(not_recording)?);
        }
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for LocalCommands {
    fn drop(&mut self) {
        if let Some(recording) = self.ready.take() {
            recording.give_back();
        }
    }
}
