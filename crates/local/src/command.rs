use std::any::Any;
use std::sync::OnceLock;

use parking_lot::Mutex;
use rehal_base::{Context, Error, Result};
use rehal_hal::{Command, CommandBuffer, CommandBufferBackend, CommandBufferParams, Indexed, Live, Store};

use crate::queue::{BindingTable, StoredNames, run_command};

/// The commands of a command buffer, kept as they were recorded: a CPU has nothing to bake.
pub(crate) struct LocalCommands {
    recording: Mutex<Recording>,
    ready: OnceLock<Recording>,
}

#[derive(Default)]
struct Recording {
    store: Store,
    commands: Vec<Command<Indexed>>,
}

impl LocalCommands {
    /// An empty command buffer.
    pub(crate) fn create(params: CommandBufferParams) -> CommandBuffer {
        CommandBuffer::new(params, Self { recording: Mutex::default(), ready: OnceLock::new() })
    }

    /// The backend of a command buffer that this driver made.
    pub(crate) fn of(command_buffer: &CommandBuffer) -> Result<&Self> {
        command_buffer.backend().as_any().downcast_ref().ok_or_else(|| {
            Error::invalid_argument("the command buffer belongs to a device of another driver")
        })
    }

    /// Runs all commands in order.
    pub(crate) fn run(&self, table: &BindingTable<'_>) -> Result<()> {
        let Some(recording) = self.ready.get() else {
            return Err(Error::failed_precondition("the command buffer is run before its recording ended"));
        };
        let names = StoredNames { store: &recording.store, table };
        for (index, command) in recording.commands.iter().enumerate() {
            run_command(command, &names).context(|| format!("command {index} of the command buffer"))?;
        }
        Ok(())
    }
}

impl CommandBufferBackend for LocalCommands {
    fn begin(&self) -> Result<()> {
        Ok(())
    }

    fn record(&self, command: &Command<Live<'_>>) -> Result<()> {
        if let Command::Collective { .. } = command {
            return Err(Error::unimplemented("CPU devices have no collectives"));
        }
        let mut recording = self.recording.lock();
        let kept = command.rename(&mut recording.store)?;
        recording.commands.push(kept);
        Ok(())
    }

    fn end(&self) -> Result<()> {
        let recording = std::mem::take(&mut *self.recording.lock());
        self.ready
            .set(recording)
            .map_err(|_| Error::failed_precondition("the recording of a command buffer ended twice"))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
