use std::sync::Arc;

use parking_lot::Mutex;
use rehal_base::{Error, Result};
use rehal_hal::{Command, CommandBuffer, CommandBufferBackend, HostOp, Live};

use super::object::{Recorded, handle};
use super::rename::{BaseNames, IdNames, copy_sides, with_scratch};
use super::stream::status_of;
use super::watch::WatchedCommands;
use crate::encode;

// The state: the commands, if their dispatches are watched.
handle!(CommandBuffer, "a command buffer", Option<Arc<Mutex<WatchedCommands>>>);

// The recording handle has validated the state and the commands, so the base handle's checks are skipped.
impl CommandBufferBackend for Recorded<CommandBuffer> {
    fn begin(&self) -> Result<()> {
        let outcome = self.base.backend().begin();
        if let Some(watched) = &self.state {
            watched.lock().clear();
        }
        self.record_host_op(status_of(&outcome), &HostOp::BeginCommandBuffer { command_buffer: self.id });
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
            match &self.state {
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
        self.record_host_op(status_of(&outcome), &HostOp::EndCommandBuffer { command_buffer: self.id });
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
