use std::sync::Arc;
use std::time::{Duration, Instant};

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{Device, Fence};
use rehal_vm::{Call, Flow, Notification, Ref, Resumed, Wait, WaitSource};

use super::HalState;
use super::arguments::{handle, optional_tuple_handle};
use super::handle::Handle;

/// An infinite timeout, in milliseconds.
const NO_TIMEOUT: u32 = u32::MAX;

/// The code bits of a status.
const STATUS_CODE_MASK: u32 = 0x1f;

/// `(device, flags) -> fence`: a fence with a semaphore of its own, reached at 1.
pub(super) fn create(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    call.push(Handle::reference(Fence::create(handle::<Device>(call, 0)?)?));
    Ok(())
}

/// `(flags, [fence]) -> fence`: null if there is nothing to wait for.
pub(super) fn join(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let mut joined = Fence::default();
    for tuple in call.span(1)?.tuples() {
        if let Some(fence) = optional_tuple_handle(tuple, 0)? {
            joined.extend(fence)?;
        }
    }
    let reference = if joined.timepoints().is_empty() { Ref::NULL } else { Handle::reference(joined) };
    call.push(reference);
    Ok(())
}

/// `(fence) -> status`: OK if reached, DEFERRED if pending, else the code of the failure.
pub(super) fn query(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let status = match handle::<Fence>(call, 0)?.query() {
        Ok(true) => StatusCode::Ok,
        Ok(false) => StatusCode::Deferred,
        Err(error) => error.code(),
    };
    call.push(status as i32);
    Ok(())
}

/// `(fence)`
pub(super) fn signal(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    handle::<Fence>(call, 0)?.signal()
}

/// `(fence, status)`: fails it; always a failure, even with the code OK.
pub(super) fn fail(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let code = match StatusCode::from_u32(call.u32(1)? & STATUS_CODE_MASK) {
        None | Some(StatusCode::Ok) => StatusCode::Unknown,
        Some(code) => code,
    };
    handle::<Fence>(call, 0)?.fail(&Error::new(code, "the program failed the fence"));
    Ok(())
}

/// `(timeout in milliseconds, flags, [fence]) -> status`: OK when all are reached, DEADLINE_EXCEEDED on
/// timeout; a failed fence fails the program. Suspends the program while waiting.
pub(super) fn await_all(_state: &HalState, call: &mut Call<'_>) -> Result<Flow> {
    match call.resumed() {
        None => {}
        Some(Resumed::Ready) => return done(call, StatusCode::Ok),
        Some(Resumed::DeadlineExceeded) => return done(call, StatusCode::DeadlineExceeded),
        Some(Resumed::Failed(error)) => return Err(error),
    }
    let mut pending = Fence::default();
    for tuple in call.span(2)?.tuples() {
        if let Some(fence) = optional_tuple_handle::<Fence>(tuple, 0)?
            && !fence.query()?
        {
            pending.extend(fence)?;
        }
    }
    if pending.timepoints().is_empty() {
        return done(call, StatusCode::Ok);
    }
    let deadline = match call.u32(0)? {
        0 => return done(call, StatusCode::DeadlineExceeded),
        NO_TIMEOUT => None,
        timeout_ms => Instant::now().checked_add(Duration::from_millis(timeout_ms.into())),
    };
    Ok(Flow::Wait(Wait::new(Arc::new(FenceWait(pending)), deadline)))
}

fn done(call: &mut Call<'_>, status: StatusCode) -> Result<Flow> {
    call.push(status as i32);
    Ok(Flow::Return)
}

/// The wait source of an invocation that waits for a fence.
struct FenceWait(Fence);

impl WaitSource for FenceWait {
    fn is_ready(&self) -> bool {
        !matches!(self.0.query(), Ok(false))
    }

    fn block(&self, deadline: Option<Instant>) -> Result<bool> {
        let timeout = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match self.0.wait(timeout) {
            Ok(()) => Ok(true),
            // A semaphore may have failed with the same code: that is not a timeout.
            Err(error) if error.code() == StatusCode::DeadlineExceeded => self.0.query(),
            Err(error) => Err(error),
        }
    }

    fn notify(&self, wake: Box<dyn FnOnce() + Send>) -> Notification {
        Notification::new(self.0.on_reached(Box::new(move |_| wake())))
    }
}
