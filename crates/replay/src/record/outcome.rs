use std::sync::Arc;

use rehal_base::{Result, StatusCode};
use rehal_hal::{Semaphore, Timepoint};

use super::stream::{Stream, status_of};

/// A submission that is recorded and issued. Its record gets the status of the call, and on a device whose
/// calls execute the work also a failure that a signal reports later, so that a replay skips it.
///
/// On other devices, where the call says nothing of the work, it also gets the failure of work that is not
/// valid, such as a fill of a buffer whose memory was returned, and of what waits for that: a plan refuses
/// it. What a kernel returns, or does to the device, fails in a replay as well, as in the reference's
/// captures. But that the host fails a semaphore, and what host calls do, is not in a capture: once a program
/// does either, all later failures are recorded.
pub(super) struct Outcome<'a> {
    stream: &'a Arc<Stream>,
    /// The offset of its record; `None` once the capture is closed.
    offset: Option<u64>,
    /// The signal that reports its completion: one on a semaphore that had not failed before, if any.
    signal: Option<Timepoint<&'a Semaphore>>,
    is_synchronous: bool,
    has_returned: bool,
}

impl<'a> Outcome<'a> {
    /// For the submission with these signals and the record at `offset`, before it is issued.
    pub fn new(
        stream: &'a Arc<Stream>,
        offset: Option<u64>,
        signals: &'a [Timepoint<&'a Semaphore>],
        is_synchronous: bool,
    ) -> Self {
        // Signals are settled in order, the last one after all others.
        let last = signals.iter().rev().find(|it| it.semaphore.query().is_ok()).or(signals.last());
        Self { stream, offset, signal: last.copied(), is_synchronous, has_returned: false }
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
        let is_synchronous = self.is_synchronous;
        match signal.semaphore.query() {
            Ok(reached) if reached >= signal.value => {}
            Ok(_) => {
                let stream = Arc::downgrade(self.stream);
                let settled = move |outcome: Result<()>| {
                    if let Some(stream) = stream.upgrade() {
                        failed_later(&stream, offset, is_synchronous, &outcome);
                    }
                };
                signal.semaphore.on_reached(signal.value, Box::new(settled)).detach();
            }
            failed => failed_later(self.stream, offset, is_synchronous, &failed),
        }
    }

    fn set_status(&self, status: u32) {
        if let Some(offset) = self.offset {
            self.stream.with_log(|log| log.set_status(offset, status));
        }
    }
}

/// Sets the status of a submission whose signal has reported a failure.
fn failed_later<T>(stream: &Stream, offset: u64, is_synchronous: bool, outcome: &Result<T>) {
    let Err(error) = outcome else { return };
    if is_synchronous || stream.has_host_part() || is_invalid(error.code()) {
        stream.with_log(|log| log.set_status(offset, error.code() as u32));
    }
}

/// Whether a failure is that of an operation which is not valid, and not that of a kernel or a device.
fn is_invalid(code: StatusCode) -> bool {
    use StatusCode::{
        FailedPrecondition, InvalidArgument, NotFound, OutOfRange, PermissionDenied, Unimplemented,
    };
    matches!(
        code,
        FailedPrecondition | InvalidArgument | NotFound | OutOfRange | PermissionDenied | Unimplemented
    )
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
