//! The state of a command buffer during planning.

use rehal_base::{Error, Result};
use rehal_hal::{CommandBufferMode, CommandBufferParams};

/// A command buffer during planning.
#[derive(Clone, Copy)]
pub(crate) struct CommandBufferState {
    state: State,
    /// Slots of its binding table.
    pub slots: u64,
    /// Whether its commands may execute while being recorded.
    pub is_inline: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Initial,
    Recording,
    Ready,
}

/// A use of a command buffer.
#[derive(Clone, Copy)]
pub(crate) enum Use {
    Begin,
    Record,
    End,
    Run,
}

impl CommandBufferState {
    pub(crate) fn new(params: &CommandBufferParams) -> Self {
        let is_inline = params.mode.contains(CommandBufferMode::ALLOW_INLINE_EXECUTION);
        Self { state: State::Initial, slots: params.binding_capacity, is_inline }
    }

    /// Advances command buffer `id` to the state after `wanted`; fails if its state does not allow that.
    pub(crate) fn advance(&mut self, wanted: Use, id: u64) -> Result<()> {
        let (from, to, verb) = match wanted {
            Use::Begin => (State::Initial, State::Recording, "begin"),
            Use::Record => (State::Recording, State::Recording, "record into"),
            Use::End => (State::Recording, State::Ready, "end"),
            Use::Run => (State::Ready, State::Ready, "execute"),
        };
        if self.state != from {
            let reason = match self.state {
                State::Initial => "recording has not begun",
                State::Recording => "it is being recorded",
                State::Ready => "recording has already ended",
            };
            return Err(Error::failed_precondition(format!("cannot {verb} command buffer {id}: {reason}")));
        }
        self.state = to;
        Ok(())
    }

    /// Fails if a binding table of `bindings` entries is smaller than the number of slots.
    pub(crate) fn check_table(&self, bindings: u64, id: u64) -> Result<()> {
        if bindings >= self.slots {
            return Ok(());
        }
        Err(Error::data_loss(format!("command buffer {id} needs {} bindings, found {bindings}", self.slots)))
    }
}
