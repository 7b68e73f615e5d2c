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

/// The commands of a command buffer. A CPU has nothing to bake: commands are stored as recorded or, if the
/// program allows inline execution, run while they are recorded and not stored.
pub(crate) struct LocalCommands {
    inline: bool,
    recording: Mutex<Option<Box<Recording>>>,
    ready: OnceLock<Box<Recording>>,
}

#[derive(Default)]
struct Recording {
    store: Store,
    /// The effects of the commands, without no-ops.
    operations: Vec<QueueOp<Indexed>>,
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
    fn take() -> Box<Self> {
        SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
    }

    fn recycle(mut self: Box<Self>) {
        self.store.clear();
        self.operations.clear();
        // An exiting thread may have destroyed its free list.
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

    /// The backend of a command buffer created by this driver.
    pub(crate) fn of(command_buffer: &CommandBuffer) -> Result<&Self> {
        command_buffer.backend().as_any().downcast_ref().ok_or_else(|| {
            Error::invalid_argument("the command buffer belongs to a device of another driver")
        })
    }

    /// Frees this thread's free list.
    pub(crate) fn drop_spare() {
        SPARE.with_borrow_mut(Vec::clear);
    }

    /// Whether the commands ran when they were recorded, so that waits have no effect.
    pub(crate) fn is_inline(&self) -> bool {
        self.inline
    }

    /// Runs all commands in order.
    pub(crate) fn run(&self, table: &BindingTable<'_>) -> Result<()> {
        if self.inline {
            return Ok(());
        }
        let Some(recording) = self.ready.get() else {
            return Err(Error::failed_precondition("cannot run: the command buffer is still being recorded"));
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
            // The handle ensures that a command buffer is recorded once, so this is the first value.
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
            recording.recycle();
        }
    }
}
