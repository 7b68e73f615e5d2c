use std::sync::Arc;

use parking_lot::Mutex;
use rehal_base::{Error, Result};
use rehal_hal::{Command, CommandBuffer, CommandBufferBackend, CommandBufferParams, HostOp, Live};

use super::names::{BaseNames, IdNames, RecordedObject, copy_sides, with_scratch};
use super::stream::{Stream, status_of};
use super::watch::WatchedCommands;
use crate::encode;

/// A command buffer whose commands are recorded.
pub(super) struct RecordedCommandBuffer {
    pub base: CommandBuffer,
    pub id: u64,
    /// Its commands, if its dispatches are watched.
    pub watched: Option<Arc<Mutex<WatchedCommands>>>,
    device: u64,
    stream: Arc<Stream>,
}

impl RecordedCommandBuffer {
    /// Wraps `base` as command buffer `id`, which has `params` for the program.
    pub fn wrap(
        base: CommandBuffer,
        params: CommandBufferParams,
        id: u64,
        device: u64,
        stream: &Arc<Stream>,
        is_watched: bool,
    ) -> CommandBuffer {
        let watched = is_watched.then(Arc::default);
        CommandBuffer::with_id(base.id(), params, Self { base, id, watched, device, stream: stream.clone() })
    }

    fn record_host_op(&self, outcome: &Result<()>, op: &HostOp<crate::Ids<'_>>) {
        let status = status_of(outcome);
        self.stream.with_log(|log| log.calls(self.device, status, |put| encode::host_op(op, put)));
    }
}

// The recording handle has validated the state and the commands, so the base handle's checks are skipped.
impl CommandBufferBackend for RecordedCommandBuffer {
    fn begin(&self) -> Result<()> {
        let outcome = self.base.backend().begin();
        if let Some(watched) = &self.watched {
            watched.lock().clear();
        }
        self.record_host_op(&outcome, &HostOp::BeginCommandBuffer { command_buffer: self.id });
        outcome
    }

    fn record(&self, command: &Command<Live<'_>>) -> Result<()> {
        let command = &match command {
            Command::Copy { source, target, flags } => {
                let (source, target) = copy_sides(source, target);
                Command::Copy { source, target, flags: *flags }
            }
            other => *other,
        };
        with_scratch(|scratch| {
            let stream = &self.stream;
            let ids = command.rename(&mut IdNames::new(stream, scratch))?;
            let base = command.rename(&mut BaseNames { stream, scratch })?;
            let outcome = self.base.backend().record(&base);
            let status = status_of(&outcome);
            if status == 0 && transfers_nothing(command) {
                return outcome;
            }
            // That of a record which a closed capture lacks is used by none.
            let mut record = 0;
            stream.with_log(|log| {
                record = log.record_count();
                log.calls(self.device, status, |put| encode::command(self.id, &ids, put));
            });
            match &self.watched {
                Some(watched) if status == 0 => watched.lock().push(record as u32, &base, &ids),
                _ => outcome,
            }
        })
    }

    fn refused(&self, command: &Command<Live<'_>>, error: &Error) {
        let stream = &self.stream;
        with_scratch(|scratch| {
            if let Ok(ids) = command.rename(&mut IdNames::for_refused(stream, scratch)) {
                let status = error.code() as u32;
                stream.with_log(|log| {
                    log.calls(self.device, status, |put| encode::command(self.id, &ids, put));
                });
            }
            if let Ok(base) = command.rename(&mut BaseNames { stream, scratch }) {
                self.base.backend().refused(&base, error);
            }
        });
    }

    fn end(&self) -> Result<()> {
        let outcome = self.base.backend().end();
        self.record_host_op(&outcome, &HostOp::EndCommandBuffer { command_buffer: self.id });
        outcome
    }
}

/// Whether it is a fill, update or copy of zero bytes, which the reference's HAL drops before its recorder.
fn transfers_nothing(command: &Command<Live<'_>>) -> bool {
    match command {
        Command::Fill { target, .. } | Command::Update { target, .. } | Command::Copy { target, .. } => {
            target.length == 0
        }
        _ => false,
    }
}

impl RecordedObject for RecordedCommandBuffer {
    const NAME: &'static str = "a command buffer";

    fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }
}
