use std::sync::Arc;

use rehal_base::{Result, StatusCode};
use rehal_hal::{Semaphore, Timepoint};

use super::stream::{Stream, status_of};

/// A submission that is on record and given to the device: its record gets the status that it ends with, whether the
/// program learns of it from the call, from a panic that passes through it, or later from what it signals.
pub(super) struct Outcome<'a> {
    stream: &'a Arc<Stream>,
    /// Where its record is; `None` once the capture is closed.
    offset: Option<u64>,
    /// The signal that tells how it ended: one of a semaphore that had not failed before, if there is one.
    signal: Option<Timepoint<&'a Semaphore>>,
    has_returned: bool,
}

impl<'a> Outcome<'a> {
    /// Of the submission with these signals whose record is at `offset`, before the device gets it.
    pub fn of(stream: &'a Arc<Stream>, offset: Option<u64>, signals: &'a [Timepoint<&'a Semaphore>]) -> Self {
        // Signals are settled in their order: when the last is, the others are.
        let last = signals.iter().rev().find(|it| it.semaphore.query().is_ok()).or(signals.last());
        Self { stream, offset, signal: last.copied(), has_returned: false }
    }

    /// The device's call has returned.
    pub fn returned<T>(mut self, outcome: &Result<T>) {
        self.has_returned = true;
        match outcome {
            Ok(_) => self.follow_signal(),
            Err(_) => self.set_status(status_of(outcome)),
        }
    }

    /// Takes the status from the signal, now or when it is settled.
    fn follow_signal(&self) {
        let (Some(signal), Some(offset)) = (self.signal, self.offset) else { return };
        match signal.semaphore.query() {
            Ok(reached) if reached >= signal.value => {}
            Ok(_) => {
                let stream = Arc::downgrade(self.stream);
                let settled = move |outcome: Result<()>| {
                    if let (Err(_), Some(stream)) = (&outcome, stream.upgrade()) {
                        stream.record(|log| log.set_status(offset, status_of(&outcome)));
                    }
                };
                signal.semaphore.on_reached(signal.value, Box::new(settled)).detach();
            }
            failed => self.set_status(status_of(&failed)),
        }
    }

    fn set_status(&self, status: u32) {
        if let Some(offset) = self.offset {
            self.stream.record(|log| log.set_status(offset, status));
        }
    }
}

/// If the call unwinds, what panicked may be the work, or something that its signals set off.
impl Drop for Outcome<'_> {
    fn drop(&mut self) {
        match self.signal {
            _ if self.has_returned => {}
            Some(_) => self.follow_signal(),
            None => self.set_status(StatusCode::Internal as u32),
        }
    }
}
