use std::ffi::OsString;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rehal_base::{Context, Error, Result, StatusCode};
use rehal_devices::{CrashReports, StaticMemoryWatch};
use rehal_jobs::{
    Caller, Conversation, Job, JobEnd, JobOutcome, JobProgress, PROGRESS_TIME, Work, WorkOptions, ended,
    find_program, interrupts, shared_file,
};
use rehal_judge::{FreshInputs, StaticWrite, Verification, VerifyOptions, VerifySides, verify_lockstep};
use rehal_replay::{
    ObservedReplay, Observer, Plan, RemoteReplay, ReplayCommand, ReplayEvent, ReplayLink, ServedRun,
    serve_replay,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::setup::ReplaySetup;

/// A replay whose observers are in the process that asks for it: the kernels cannot change what these find.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SideWork {
    /// The replay.
    pub setup: ReplaySetup,
    /// How long a kernel may run.
    pub kernel_limit: Option<Duration>,
    /// The path of the file through which bytes pass, which the process that asks has open.
    exchange: OsString,
}

impl SideWork {
    /// A replay of a setup.
    pub fn new(setup: ReplaySetup) -> Self {
        Self { setup, kernel_limit: None, exchange: OsString::new() }
    }
}

impl Work for SideWork {
    const NAME: &'static str = "side";
    type Outcome = ();

    fn perform(&self, caller: &Caller<'_>) -> Result<()> {
        let asker = caller.asker()?;
        let mut asker = asker.ok_or_else(|| Error::failed_precondition("no process observes the replay"))?;
        let exchange = File::options().read(true).write(true).open(&self.exchange);
        let exchange = exchange.map_err(|error| Error::io("opening the file of a replay", &error))?;
        let plan = self.setup.plan()?;
        caller.confine(|confinement| self.setup.confine(&plan, confinement))?;
        self.kernel_limit.map_or(Ok(()), rehal_crash::end_after)?;
        let replay = self.setup.replay(plan)?;
        replay.check_capture()?;
        let mut reports = CrashReports::records();
        let mut observe = |run: &mut ServedRun<'_>| {
            let mut statics = StaticMemoryWatch::default();
            run(&mut [&mut reports, &mut statics])?;
            Ok(serde_json::to_value(statics.into_writes()).unwrap_or_default())
        };
        serve_replay(&replay, &exchange, &mut observe, &mut |event| {
            asker.ask(event).map_err(|error| Error::io("asking the process that observes a replay", &error))
        })
    }
}

/// A replay in a process of its own, which ends when this is dropped.
pub struct SideReplay {
    replay: RemoteReplay,
    ended: Arc<Mutex<Option<JobOutcome>>>,
}

impl SideReplay {
    /// Starts a process of a program, by default this one, that replays a plan with the limits of the
    /// options. It uses what their confinement lists, and the files of the work. It is ended a second after
    /// the tool was [interrupted](interrupts::flag).
    pub fn start(
        plan: Arc<Plan>,
        work: &SideWork,
        program: Option<PathBuf>,
        options: &WorkOptions,
    ) -> Result<Self> {
        let cannot = |error: &std::io::Error| Error::io("starting the process of a replay", error);
        let mut work = work.clone();
        let (exchange, name) = shared_file().map_err(|error| cannot(&error))?;
        work.exchange = name;
        let limit = options.time;
        let progress_time = options.progress_time.unwrap_or(PROGRESS_TIME);
        let mut job = Job::for_request(&work, program, Some(progress_time), &options.confinement)?;
        (job.limits.time, job.says_its_end) = (limit, true);
        let conversation = Conversation::start(job);
        let conversation = conversation.map_err(|error| cannot(&error))?;
        let ended = Arc::default();
        let conversation = Some(conversation);
        let mut link = Link { conversation, limit, interrupted: None, ended: Arc::clone(&ended) };
        match link.next()? {
            ReplayEvent::Ready => Ok(Self { replay: RemoteReplay::new(plan, exchange, link), ended }),
            _ => Err(Error::data_loss("the process of a replay did not begin")),
        }
    }

    /// Starts one of a setup where the options say.
    pub(super) fn of_setup(plan: &Arc<Plan>, setup: &ReplaySetup, options: &WorkOptions) -> Result<Self> {
        let program = find_program(options.program.as_deref())?;
        let place = format!("'{}'", program.display());
        let (plan, work) = (plan.clone(), SideWork::new(setup.clone()));
        Self::start(plan, &work, Some(program), options).context(|| place)
    }

    /// Compares another side with this one, both with fresh inputs if there are some.
    pub(super) fn lockstep(
        &self,
        actual: &Self,
        options: &VerifyOptions,
        fresh: Option<&FreshInputs>,
    ) -> Result<Verification> {
        let (mut of_expected, mut of_actual) = (fresh.cloned(), fresh.cloned());
        let expected_observers = of_expected.iter_mut().map(|it| it as &mut (dyn Observer + Send));
        let observers = of_actual.iter_mut().map(|it| it as &mut dyn Observer);
        let (expected_observers, observers) =
            (&mut expected_observers.collect::<Vec<_>>()[..], &mut observers.collect::<Vec<_>>()[..]);
        verify_lockstep(VerifySides { expected: self, actual, expected_observers, observers }, options)
    }

    /// How its process ended, if it did before this was dropped.
    pub fn ended(&self) -> Option<JobOutcome> {
        self.ended.lock().clone()
    }

    /// The functions that changed static variables in the last run, as its process says.
    pub fn static_writes(&self) -> Vec<StaticWrite> {
        Vec::deserialize(self.replay.found()).unwrap_or_default()
    }
}

impl ObservedReplay for SideReplay {
    fn plan(&self) -> &Arc<Plan> {
        self.replay.plan()
    }

    fn run_observed(&self, new_memory: Option<u8>, observers: &mut [&mut dyn Observer]) -> Result<()> {
        self.replay.run_observed(new_memory, observers)
    }
}

struct Link {
    /// `None` once the process has ended.
    conversation: Option<Conversation>,
    limit: Option<Duration>,
    /// When the tool was interrupted, in the time of the process.
    interrupted: Option<Duration>,
    ended: Arc<Mutex<Option<JobOutcome>>>,
}

impl Link {
    fn next(&mut self) -> Result<ReplayEvent> {
        let failed = |error| Error::io("asking the process of a replay", &error);
        let conversation = self.conversation.as_mut().ok_or_else(has_ended)?;
        let interrupted = &mut self.interrupted;
        let mut watch = |it: JobProgress| {
            /// Work that looks at the flag ends before.
            const GRACE: Duration = Duration::from_secs(1);
            let is_late = interrupts::is_interrupted()
                && it.elapsed.saturating_sub(*interrupted.get_or_insert(it.elapsed)) > GRACE;
            if is_late { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let end = match conversation.next(&mut watch).map_err(failed)? {
            Ok(event) => return ReplayEvent::deserialize(&event).map_err(|error| failed(error.into())),
            Err(end) => end,
        };
        let outcome = self.conversation.take().ok_or_else(has_ended)?.finish(end).map_err(failed)?;
        let error = match (end, outcome.of_work::<SideWork>()) {
            (JobEnd::Interrupted, _) => {
                let printed = String::from_utf8_lossy(&outcome.stderr.bytes);
                let place = printed.lines().find_map(|line| line.strip_prefix("note: interrupted "));
                let place = place.map(|it| format!(" {it}")).unwrap_or_default();
                Error::new(StatusCode::Cancelled, format!("the replay was interrupted{place}"))
            }
            (_, Some(Err(error))) => error,
            _ => ended(&outcome, self.limit),
        };
        *self.ended.lock() = Some(outcome);
        Err(error)
    }
}

fn has_ended() -> Error {
    Error::new(StatusCode::Aborted, "the process of a replay has ended")
}

impl ReplayLink for Link {
    fn exchange(&mut self, command: &ReplayCommand) -> Result<ReplayEvent> {
        let conversation = self.conversation.as_mut().ok_or_else(has_ended)?;
        let answered = serde_json::to_value(command)
            .map_err(Into::into)
            .and_then(|command: Value| conversation.answer(&command));
        answered.map_err(|error| Error::io("answering the process of a replay", &error))?;
        self.next()
    }
}
