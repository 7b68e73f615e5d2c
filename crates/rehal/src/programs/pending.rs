use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use rehal_base::{Context, Error, Result, StatusCode};
use rehal_hal::{Fence, Registration};
use rehal_vm::{Invocation, Notification, Step, Value, Wait};

use super::{Function, Inner, Program};

/// A call that has been started by [`Program::start`].
///
/// The program advances only on threads that call [`PendingCall::is_done`] or [`PendingCall::wait`], or poll
/// it as a future, until it waits for its devices; these advance by themselves. A device that executes work
/// on the thread that submits it, such as `local-sync`, does so in these calls, which then take as long.
///
/// Dropping it cancels the call: what the program has not executed is not executed. Work that devices have
/// been given is performed to its end, and keeps its memory until then. Globals that the function has changed
/// stay changed. The call counts among [`Program::function_count`].
pub struct PendingCall {
    state: CallState,
    /// Signalled by the devices when the work of an asynchronous function is done.
    finished: Option<Fence>,
    place: String,
    /// Dropped last: the invocation belongs to it, and another thread may end the program afterwards.
    _program: Arc<Inner>,
}

enum CallState {
    /// The program has not returned; `step` is the reason.
    Suspended { invocation: Box<Invocation>, step: Step, waking: Option<Notification> },
    /// The program has returned its results, and devices may be writing them.
    Returned { results: Vec<Value>, waking: Option<Registration> },
    /// The results have been taken, or the call has failed.
    Over,
}

impl Program {
    /// Starts a call of a function, and returns before its device work is done if the device performs it in
    /// the background. See [`PendingCall`].
    ///
    /// ```
    /// # fn main() -> rehal_base::Result<()> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/modules/simple_abs.vmfb");
    /// use std::time::Duration;
    ///
    /// use rehal::program::{ModuleSource, Program, ProgramOptions, ValueText, format_value};
    ///
    /// let mut options = ProgramOptions::default();
    /// options.modules.push(ModuleSource::File(path.into()));
    /// let program = Program::load(&options)?;
    /// let function = program.function("abs")?;
    /// let inputs = program.inputs(&function, &[ValueText::new("f32=-2")?])?;
    /// let mut call = program.start(&function, inputs)?;
    /// while !call.wait(Some(Duration::from_millis(100)))? {
    ///     // Something else may be done here, and dropping the call would cancel it.
    /// }
    /// let results = call.results()?;
    /// assert_eq!(format_value(&results[0], 16)?, "hal.buffer_view\nf32=2");
    /// # Ok(())
    /// # }
    /// ```
    pub fn start(&self, function: &Function, mut inputs: Vec<Value>) -> Result<PendingCall> {
        let place = format!("function '{}'", function.name());
        let begin = || {
            self.check_own(function)?;
            function.check_count(inputs.len())?;
            let finished = self.append_fences(function, &mut inputs)?;
            let mut invocation = Box::new(Invocation::new(function.vm()));
            let step = invocation.start(inputs)?;
            Ok::<_, Error>((finished, invocation, step))
        };
        let (finished, invocation, step) = begin().context(|| place.clone())?;
        let state = CallState::Suspended { invocation, step, waking: None };
        let mut call = PendingCall { state, finished, place, _program: self.0.clone() };
        call.is_done()?;
        Ok(call)
    }
}

impl PendingCall {
    /// Whether it is done. Advances the program as far as it gets without waiting.
    pub fn is_done(&mut self) -> Result<bool> {
        self.wait(Some(Duration::ZERO))
    }

    /// Advances the program and waits until it is done (true) or `timeout` has passed (false); `None` waits
    /// forever. A call that fails is over.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let done = self.advance(deadline);
        self.checked(done)
    }

    /// Waits for the call, and returns its results. They may be in memory that only the device can read; see
    /// [`Program::to_host`].
    pub fn results(mut self) -> Result<Vec<Value>> {
        self.wait(None)?;
        self.take()
    }

    /// Ends the call, as dropping it does.
    pub fn cancel(self) {}

    fn advance(&mut self, deadline: Option<Instant>) -> Result<bool> {
        loop {
            match &mut self.state {
                CallState::Suspended { invocation, step, waking } => {
                    *waking = None;
                    match step {
                        Step::Done => {
                            let results = invocation.take_results();
                            self.state = CallState::Returned { results, waking: None };
                            continue;
                        }
                        Step::Yielded => {}
                        Step::Waiting(wait) => {
                            if !is_over(wait, deadline) {
                                return Ok(false);
                            }
                        }
                    }
                    *step = invocation.resume()?;
                }
                CallState::Returned { .. } => return self.is_finished(deadline),
                CallState::Over => return Err(Error::failed_precondition("the call is over")),
            }
        }
    }

    /// Whether the devices have done the work of a function that has returned.
    fn is_finished(&self, deadline: Option<Instant>) -> Result<bool> {
        let Some(finished) = &self.finished else { return Ok(true) };
        let timeout = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match finished.wait(timeout) {
            Ok(()) => Ok(true),
            // A semaphore may have failed with the same code: that is not a timeout.
            Err(error) if error.code() == StatusCode::DeadlineExceeded => finished.query(),
            Err(error) => Err(error),
        }
    }

    fn take(&mut self) -> Result<Vec<Value>> {
        match std::mem::replace(&mut self.state, CallState::Over) {
            CallState::Returned { results, .. } => Ok(results),
            _ => Err(Error::failed_precondition("the call is over")),
        }
    }

    /// A call that has failed is over.
    fn checked<T>(&mut self, outcome: Result<T>) -> Result<T> {
        outcome.map_err(|error| {
            self.state = CallState::Over;
            error.context(&self.place)
        })
    }

    /// Lets `waker` wake when the call can advance.
    fn wake_by(&mut self, waker: Waker) {
        match &mut self.state {
            CallState::Suspended { step: Step::Waiting(wait), waking, .. } => {
                *waking = Some(wait.source().notify(Box::new(move || waker.wake())));
            }
            CallState::Returned { waking, .. } => {
                if let Some(finished) = &self.finished {
                    *waking = Some(finished.on_reached(Box::new(move |_| waker.wake())));
                }
            }
            _ => waker.wake(),
        }
    }
}

/// The results, as [`PendingCall::results`] returns them. Deadlines of the program itself are noticed when it
/// is polled for another reason.
impl Future for PendingCall {
    type Output = Result<Vec<Value>>;

    fn poll(self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        match this.is_done() {
            Err(error) => Poll::Ready(Err(error)),
            Ok(true) => Poll::Ready(this.take()),
            Ok(false) => {
                // It wakes at once if the call can advance by now.
                this.wake_by(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Whether a wait of a program is over, before `deadline`.
fn is_over(wait: &Wait, deadline: Option<Instant>) -> bool {
    let own = wait.deadline();
    // The outcome is ignored: resuming the program asks the source again.
    let _ = wait.source().block(match (deadline, own) {
        (Some(deadline), Some(own)) => Some(deadline.min(own)),
        (deadline, own) => deadline.or(own),
    });
    wait.is_ready()
}
