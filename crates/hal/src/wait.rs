use std::time::{Duration, Instant};

use rehal_base::{Error, Result, StatusCode};
use smallvec::SmallVec;

use super::latch::Latch;
use crate::{Registration, Semaphore, Timepoint};

/// Waits until every timepoint is reached; fails like
/// [`SemaphoreBackend::wait`](crate::SemaphoreBackend::wait). The timeout applies to all of them together.
pub fn wait_all(timepoints: &[Timepoint<&Semaphore>], timeout: Option<Duration>) -> Result<()> {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    for timepoint in timepoints {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        timepoint.semaphore.wait(timepoint.value, left)?;
    }
    Ok(())
}

/// Waits until one timepoint is reached and returns its index in the list; the first, if several are reached.
/// Fails with the error of the first semaphore that fails before that, with `DEADLINE_EXCEEDED` on timeout,
/// and with `INVALID_ARGUMENT` for an empty list.
pub fn wait_any(timepoints: &[Timepoint<&Semaphore>], timeout: Option<Duration>) -> Result<usize> {
    if timepoints.is_empty() {
        return Err(Error::invalid_argument("cannot wait for an empty list of timepoints"));
    }
    for (index, timepoint) in timepoints.iter().enumerate() {
        if timepoint.semaphore.query()? >= timepoint.value {
            return Ok(index);
        }
    }
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let latch = Latch::new();
    // Dropped on return, so that no callback stays registered with unreached semaphores.
    let _registrations: SmallVec<[Registration; 4]> = (timepoints.iter().enumerate())
        .map(|(index, timepoint)| {
            let latch = latch.clone();
            let set = move |outcome: Result<()>| latch.set(outcome.map(|()| index));
            timepoint.semaphore.on_reached(timepoint.value, Box::new(set))
        })
        .collect();
    latch.wait(deadline).unwrap_or_else(|| {
        Err(Error::new(
            StatusCode::DeadlineExceeded,
            format!("timed out waiting for any of {} semaphores", timepoints.len()),
        ))
    })
}
