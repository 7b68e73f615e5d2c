use std::sync::Arc;

use rehal_base::{Result, StatusCode};
use rehal_hal::{Semaphore, Timepoint};

use super::stream::{Stream, status_of};

/// A submission that is recorded and issued: its record gets the final status, whether the call returns it, a panic
/// unwinds through the call, or a signal reports it later.
pub(super) struct Outcome<'a> {
    stream: &'a Arc<Stream>,
    /// The offset of its record; `None` once the capture is closed.
    offset: Option<u64>,
    /// The signal that reports its completion: one on a semaphore that had not failed before, if any.
    signal: Option<Timepoint<&'a Semaphore>>,
    has_returned: bool,
}

impl<'a> Outcome<'a> {
    /// For the submission with these signals and the record at `offset`, before it is issued.
    pub fn of(stream: &'a Arc<Stream>, offset: Option<u64>, signals: &'a [Timepoint<&'a Semaphore>]) -> Self {
        // Signals are settled in order, the last one after all others.
        let last = signals.iter().rev().find(|it| it.semaphore.query().is_ok()).or(signals.last());
        Self { stream, offset, signal: last.copied(), has_returned: false }
    }

    /// Called when the device's call has returned.
    pub fn returned<T>(mut self, outcome: &Result<T>) {
        self.has_returned = true;
        match outcome {
            Ok(_) => self.follow_signal(),
            Err(_) => self.set_status(status_of(outcome)),
        }
    }

    /// Takes the status from the signal, now or once it is settled.
    fn follow_signal(&self) {
        let (Some(signal), Some(offset)) = (self.signal, self.offset) else { return };
        match signal.semaphore.query() {
            Ok(reached) if reached >= signal.value => {}
            Ok(_) => {
                let stream = Arc::downgrade(self.stream);
                let settled = move |outcome: Result<()>| {
                    if let (Err(_), Some(stream)) = (&outcome, stream.upgrade()) {
                        stream.with_log(|log| log.set_status(offset, status_of(&outcome)));
                    }
                };
                signal.semaphore.on_reached(signal.value, Box::new(settled)).detach();
            }
            failed => self.set_status(status_of(&failed)),
        }
    }

    fn set_status(&self, status: u32) {
        if let Some(offset) = self.offset {
            self.stream.with_log(|log| log.set_status(offset, status));
        }
    }
}

/// On unwind, the panic may come from the work itself or from something its signals triggered.
impl Drop for Outcome<'_> {
    fn drop(&mut self) {
        match self.signal {
            _ if self.has_returned => {}
            Some(_) => self.follow_signal(),
            None => self.set_status(StatusCode::Internal as u32),
        }
    }
}
