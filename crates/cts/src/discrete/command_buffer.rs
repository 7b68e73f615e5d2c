use std::any::Any;

use bumpalo::Bump;
use rehal_base::{Error, Result};
use rehal_hal::{Command, CommandBuffer, CommandBufferBackend, Device, Live};

use super::names::BaseNames;

/// A command buffer whose commands refer to the underlying buffers.
pub(super) struct DiscreteCommands {
    pub base: CommandBuffer,
    pub device: Device,
}

impl DiscreteCommands {
    /// The underlying command buffer of a handle of this kind of device.
    pub fn base_of(commands: &CommandBuffer) -> Result<&CommandBuffer> {
        match (commands.backend() as &dyn Any).downcast_ref::<Self>() {
            Some(discrete) => Ok(&discrete.base),
            None => Err(Error::invalid_argument("the command buffer belongs to another driver")),
        }
    }
}

// The handle has checked the state and the commands, so call the underlying backend directly.
impl CommandBufferBackend for DiscreteCommands {
    fn begin(&self) -> Result<()> {
        self.base.backend().begin()
    }

    fn record(&self, command: &Command<Live<'_>>) -> Result<()> {
        let scratch = Bump::new();
        let mut names = BaseNames { device: &self.device, scratch: &scratch };
        self.base.backend().record(&command.rename(&mut names)?)
    }

    fn refused(&self, _command: &Command<Live<'_>>, _error: &Error) {}

    fn end(&self) -> Result<()> {
        self.base.backend().end()
    }
}
