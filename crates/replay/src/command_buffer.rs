//! The state of a command buffer, as the plan follows it.

use rehal_base::{Error, Result};
use rehal_hal::{CommandBufferMode, CommandBufferParams};

/// A command buffer while the capture is planned.
#[derive(Clone, Copy)]
pub(crate) struct CommandBufferState {
    state: State,
    /// Slots of its binding table.
    pub slots: u64,
    /// Whether its commands may run as they are recorded.
    pub is_inline: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Initial,
    Recording,
    Ready,
}

/// What an operation does with a command buffer.
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

    /// Moves command buffer `id` to the state after `wanted`; fails unless its state allows that.
    pub(crate) fn advance(&mut self, wanted: Use, id: u64) -> Result<()> {
        let (from, to, verb) = match wanted {
            Use::Begin => (State::Initial, State::Recording, "begun"),
            Use::Record => (State::Recording, State::Recording, "recorded into"),
            Use::End => (State::Recording, State::Ready, "ended"),
            Use::Run => (State::Ready, State::Ready, "run"),
        };
        if self.state != from {
            let is = match self.state {
                State::Initial => "not begun yet",
                State::Recording => "being recorded",
                State::Ready => "recorded to its end",
            };
            return Err(Error::failed_precondition(format!("command buffer {id} is {verb}, and it is {is}")));
        }
        self.state = to;
        Ok(())
    }

    /// Fails if a binding table of `bindings` entries has fewer than the slots.
    pub(crate) fn check_table(&self, bindings: u64, id: u64) -> Result<()> {
        if bindings >= self.slots {
            return Ok(());
        }
        Err(Error::data_loss(format!(
            "{bindings} bindings are given to command buffer {id}, which has {} slots",
            self.slots
        )))
    }
}
