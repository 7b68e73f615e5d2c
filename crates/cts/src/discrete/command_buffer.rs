use std::any::Any;

use bumpalo::Bump;
use rehal_base::{Error, Result};
use rehal_hal::{
    Binding, Buffer, BufferRef, Command, CommandBuffer, CommandBufferBackend, Device, Event, Executable,
    File, HostCall, Live, Rename, Semaphore, WHOLE_BUFFER, rename_lists,
};

use super::buffer::DiscreteBuffer;

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

/// Converts handles of a discrete device to those of the underlying device: buffers and command buffers; all
/// others are the same.
pub(super) struct BaseNames<'s> {
    pub device: &'s Device,
    pub scratch: &'s Bump,
}

macro_rules! in_scratch {
    ($names:ident, $list:ident, $lists:ident, $item:ident) => {{
        let scratch = $names.scratch;
        Ok(scratch.alloc_slice_try_fill_with($list.len(), |index| $names.$item($list[index]))?)
    }};
}

impl<'a: 's, 's> Rename<Live<'a>, Live<'s>> for BaseNames<'s> {
    fn device(&mut self, _name: &'a Device) -> Result<&'s Device> {
        Ok(self.device)
    }

    fn buffer(&mut self, name: &'a Buffer) -> Result<&'s Buffer> {
        DiscreteBuffer::base_of(name)
    }

    // The underlying buffer is the whole allocation, so a range of a subspan is translated.
    fn buffer_ref(&mut self, reference: BufferRef<&'a Buffer>) -> Result<BufferRef<&'s Buffer>> {
        let BufferRef { binding, offset, length } = reference;
        match binding {
            Binding::Slot(slot) => Ok(BufferRef::slot(slot, offset, length)),
            Binding::Direct(buffer) => {
                let length =
                    if length == WHOLE_BUFFER { buffer.size().saturating_sub(offset) } else { length };
                Ok(BufferRef::range(self.buffer(buffer)?, buffer.allocation_offset() + offset, length))
            }
        }
    }

    fn semaphore(&mut self, name: &'a Semaphore) -> Result<&'s Semaphore> {
        Ok(name)
    }

    fn function(&mut self, executable: &'a Executable, ordinal: u32) -> Result<(&'s Executable, u32)> {
        Ok((executable, ordinal))
    }

    fn command_buffer(&mut self, name: &'a CommandBuffer) -> Result<&'s CommandBuffer> {
        DiscreteCommands::base_of(name)
    }

    fn file(&mut self, name: &'a File) -> Result<&'s File> {
        Ok(name)
    }

    fn event(&mut self, name: &'a Event) -> Result<&'s Event> {
        Ok(name)
    }

    fn host_call(&mut self, name: &'a HostCall) -> Result<&'s HostCall> {
        Ok(name)
    }

    fn bytes(&mut self, bytes: &'a [u8]) -> Result<&'s [u8]> {
        Ok(bytes)
    }

    rename_lists!(in_scratch, Live<'a> => Live<'s>);

    fn created_buffer(&mut self, (): ()) -> Result<()> {
        Ok(())
    }
}
