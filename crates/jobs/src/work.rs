//! Work as data, which runs in this process or in one of the program `rehal`.

use std::env;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rehal_base::{Context, Error, Result, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::interrupts;
use crate::platform::own_library;
use crate::{Asker, Confinement, Job, JobEnd, JobOutcome, JobProgram, PROGRESS_TIME, Worker};

/// Work as data. It holds no descriptors and no flags of a tool, so that any process can perform it.
pub trait Work: Serialize + DeserializeOwned {
    /// The name by which a worker finds its type.
    const NAME: &'static str;
    /// The value that it returns.
    type Outcome: Serialize + DeserializeOwned;

    /// Performs it in this process.
    fn perform(&self, caller: &Caller<'_>) -> Result<Self::Outcome>;

    /// Performs it in this process but for what runs captured code, which it starts in processes of their
    /// own; `None` if all of it runs in one.
    fn perform_beside(&self, options: &WorkOptions) -> Option<Result<Self::Outcome>> {
        let _ = options;
        None
    }
}

/// Where work runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// In this process, which ends if a kernel crashes.
    None,
    /// In a process of the program `rehal`: a kernel that crashes, ends its process or never ends is an
    /// error.
    #[default]
    Process,
}

/// Options of [`perform`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WorkOptions {
    /// Where it runs. Default: in a process of its own.
    pub isolation: Isolation,
    /// The program `rehal`, of the version of this library. Default: what `REHAL_BINARY` names in the
    /// environment, else `rehal` beside this program or this library, or in `bin` beside its directory, else
    /// that of `PATH`.
    pub program: Option<PathBuf>,
    /// The longest time of the process. Default: no limit.
    pub time: Option<Duration>,
    /// The longest time of the process without progress, such as that of one kernel. Default:
    /// [`PROGRESS_TIME`]; zero for no limit.
    pub progress_time: Option<Duration>,
    /// The reach of the process, besides the files of the work.
    pub confinement: Confinement,
}

/// Who asked for work: another process, or this one.
#[derive(Debug)]
pub struct Caller<'w>(Option<(&'w Worker, Confinement)>);

impl Caller<'_> {
    fn worker(&self) -> Option<&Worker> {
        self.0.as_ref().map(|(worker, _)| *worker)
    }

    /// Confines a process that another one has asked, for good: it uses the files that `add` adds. To be
    /// called before work opens devices, and after it has planned captures, which name their files.
    pub fn confine(&self, add: impl FnOnce(&mut Confinement)) -> Result<()> {
        let Some((_, confinement)) = &self.0 else { return Ok(()) };
        let mut confinement = confinement.clone();
        add(&mut confinement);
        // The caller has no other way to hear of it than `Sandbox::Require`.
        let _ = confinement.enter()?;
        // Landlock confines threads that are started from now on.
        interrupts::handle();
        Ok(())
    }

    /// Says that the limit until the milestone no longer applies.
    pub fn reach_milestone(&self) {
        // If it cannot be said, that limit applies to the rest.
        let _ = self.worker().map(Worker::reach_milestone);
    }

    /// The way to ask the process that started this one; `None` within one process.
    #[doc(hidden)]
    pub fn asker(&self) -> Result<Option<Asker>> {
        let asker = self.worker().map(Worker::asker).transpose();
        asker.map_err(|error| Error::io("asking the process that started this one", &error))
    }
}

/// A request of a worker.
#[derive(Serialize, Deserialize)]
struct Request<W> {
    version: String,
    name: String,
    /// The longest time without progress, if a process of its own ends the worker after it, and names the
    /// kernel that ends it: a tool has one already. Zero for no limit.
    supervised: Option<Duration>,
    confinement: Confinement,
    work: W,
}

/// The version of the program and the library.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Performs work where the options say. Fails before anything runs if the program of the process is missing,
/// or of another version.
pub fn perform<W: Work>(work: &W, options: &WorkOptions) -> Result<W::Outcome> {
    perform_after(work, options, Duration::ZERO)?.0
}

/// Like [`perform`], for work that has spent a part of its limit already. If its process ended before it had
/// an outcome, that end is returned beside the error.
#[doc(hidden)]
pub fn perform_after<W: Work>(
    work: &W,
    options: &WorkOptions,
    spent: Duration,
) -> Result<(Result<W::Outcome>, Option<JobEnd>)> {
    if options.isolation == Isolation::None {
        return Ok((work.perform(&Caller(None)), None));
    }
    if let Some(outcome) = work.perform_beside(options) {
        return Ok((outcome, None));
    }
    let program = find_program(options.program.as_deref())?;
    let place = || format!("'{}'", program.display());
    let progress_time = options.progress_time.unwrap_or(PROGRESS_TIME);
    let mut job = Job::for_request(work, Some(program.clone()), Some(progress_time), &options.confinement)
        .context(place)?;
    job.limits.time = options.time.map(|time| time.saturating_sub(spent));
    job.says_its_end = true;
    let outcome = job.run(&mut |_| ControlFlow::Continue(()));
    let outcome = outcome.map_err(|error| Error::io("starting the process of the work", &error));
    let outcome = outcome.context(place)?;
    let result = outcome.of_work::<W>();
    let end = result.is_none().then_some(outcome.end);
    Ok((result.unwrap_or_else(|| Err(ended(&outcome, options.time).context(place()))), end))
}

impl Job {
    /// A job that performs work in a process of this program, which uses the files of the work and what the
    /// confinement lists.
    pub fn for_work(work: &impl Work, confinement: &Confinement) -> Result<Self> {
        Self::for_request(work, None, None, confinement)
    }

    /// The same in a process of a program, which may be supervised: a process of its own then names the
    /// kernel that ends the worker.
    #[doc(hidden)]
    pub fn for_request<W: Work>(
        work: &W,
        program: Option<PathBuf>,
        supervised: Option<Duration>,
        confinement: &Confinement,
    ) -> Result<Self> {
        let (version, name, confinement) = (VERSION.into(), W::NAME.into(), confinement.clone());
        let request = Request { version, name, supervised, confinement, work };
        let request = serde_json::to_value(&request);
        let request =
            request.map_err(|error| Error::invalid_argument(format!("work cannot be passed: {error}")))?;
        let program = program.map(PathBuf::into_os_string);
        Ok(Self::for_kind(JobProgram::Worker { program, called: "rehal".into(), request }))
    }
}

impl JobOutcome {
    /// The value that work returned, or its error; `None` if its process ended before.
    pub fn of_work<W: Work>(&self) -> Option<Result<W::Outcome>> {
        let answer = self.answer.as_ref().filter(|_| self.announced == Some(0) && self.is_success())?;
        let read = <Result<W::Outcome> as Deserialize>::deserialize(answer);
        Some(read.unwrap_or_else(|error| {
            Err(Error::new(StatusCode::Internal, format!("the answer of work cannot be read: {error}")))
        }))
    }
}

/// A kind of work that a worker performs, by its name.
pub struct WorkKind {
    name: &'static str,
    perform: fn(&Worker) -> Result<()>,
}

impl WorkKind {
    /// The kind of work of a type.
    pub const fn of<W: Work>() -> Self {
        Self { name: W::NAME, perform: perform_request::<W> }
    }
}

fn perform_request<W: Work>(worker: &Worker) -> Result<()> {
    let request: Request<W> = worker.request().map_err(|error| cannot_read(&error))?;
    answer(worker, &request.work.perform(&Caller(Some((worker, request.confinement)))))
}

fn answer<T: Serialize>(worker: &Worker, outcome: &Result<T>) -> Result<()> {
    let answered = match worker.answer(outcome) {
        Err(error) if error.kind() == ErrorKind::FileTooLarge => {
            let error = Error::new(StatusCode::ResourceExhausted, error.to_string())
                .advise("do the work in this process, or have a replay return fewer bytes of each host read");
            worker.answer(&Err::<(), _>(error))
        }
        answered => answered,
    };
    answered.map_err(|error| Error::io("answering with the outcome of work", &error))
}

fn cannot_read(error: &std::io::Error) -> Error {
    Error::io("reading the work of a process", error)
}

/// Performs what a worker is asked for, which is of one of these kinds, and answers with the outcome.
pub fn serve(worker: &Worker, kinds: &[WorkKind]) -> Result<()> {
    let request: Request<Value> = worker.request().map_err(|error| cannot_read(&error))?;
    let kind = kinds.iter().find(|it| it.name == request.name);
    match kind.filter(|_| request.version == VERSION) {
        Some(kind) => (kind.perform)(worker),
        None => {
            let Request { version, name, .. } = request;
            let message = format!(
                "this rehal is of version {VERSION}, and the program that asks for work '{name}' has {version}"
            );
            let error =
                Error::incompatible(message).advise("install the program and the library of one version");
            answer(worker, &Err::<(), _>(error))
        }
    }
}

/// The longest time without progress of a worker that is to be [supervised](crate::supervise), zero for no
/// limit; `None` for other workers.
pub fn supervised(worker: &Worker) -> Option<Duration> {
    worker.request::<Request<Value>>().ok()?.supervised
}

/// The program that performs work.
#[doc(hidden)]
pub fn find_program(named: Option<&Path>) -> Result<PathBuf> {
    let name = format!("rehal{}", env::consts::EXE_SUFFIX);
    let of_variable = || env::var_os("REHAL_BINARY").filter(|it| !it.is_empty()).map(PathBuf::from);
    if let Some(path) = named.map(Path::to_owned).or_else(of_variable) {
        return match path.is_file() {
            true => Ok(path),
            false => Err(Error::not_found(format!("the program '{}' does not exist", path.display()))
                .advise("name the program rehal of this version")),
        };
    }
    let beside = [env::current_exe().ok(), own_library()].into_iter().flatten();
    // Packages have libraries in `lib`.
    let beside = beside.filter_map(|file| Some([file.parent()?.into(), file.parent()?.join("../bin")]));
    let path = env::var_os("PATH").unwrap_or_default();
    let mut programs = beside.flatten().chain(env::split_paths(&path)).map(|directory| directory.join(&name));
    programs.find(|it| it.is_file()).ok_or_else(|| {
        Error::not_found("the program 'rehal', in which captured code runs, is missing").advise(
            "install it beside this program or in PATH, or name it: REHAL_BINARY=PATH in the environment",
        )
    })
}

/// The error for work whose process ended before it was done. What the process said last names the kernel.
#[doc(hidden)]
pub fn ended(outcome: &JobOutcome, limit: Option<Duration>) -> Error {
    let printed = String::from_utf8_lossy(&outcome.stderr.bytes);
    if let JobEnd::TimedOut { .. } = outcome.end {
        let place = printed.lines().find_map(|line| line.strip_prefix("note: interrupted "));
        let place = place.map(|it| format!(" {it}")).unwrap_or_default();
        let limit = limit.unwrap_or_default().as_millis();
        let message = format!("the work has not ended within {limit} ms{place}");
        return Error::new(StatusCode::DeadlineExceeded, message);
    }
    let said = printed.lines().rev().filter_map(|line| line.split_once("; "));
    let mut errors = said.filter_map(|(code, message)| Some((StatusCode::from_name(code)?, message)));
    match errors.next() {
        // The report of a crash, which for its process is an internal error.
        Some((StatusCode::Internal, message)) => Error::new(StatusCode::Aborted, message),
        Some((code, message)) => Error::new(code, message),
        None => {
            let message = format!("the process ended {} before its work was done", outcome.end);
            Error::new(StatusCode::Aborted, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::Sandbox;
    use crate::platform::Channel;
    use crate::worker::MAX_MESSAGE_BYTES;

    #[derive(Serialize, Deserialize)]
    struct Sum(Vec<u32>);

    impl Work for Sum {
        const NAME: &'static str = "sum";
        type Outcome = u32;

        fn perform(&self, caller: &Caller<'_>) -> Result<u32> {
            caller.reach_milestone();
            match self.0.is_empty() {
                true => Err(Error::out_of_range("nothing").context("sum").advise("add a number")),
                false => Ok(self.0.iter().sum()),
            }
        }
    }

    /// The messages of a worker that gets this request.
    fn said(version: &str, name: &str, work: &[u32]) -> Vec<String> {
        let (own, other) = UnixStream::pair().unwrap();
        let request = Request {
            version: version.into(),
            name: name.into(),
            supervised: None,
            confinement: Confinement::new(Sandbox::Off),
            work: Sum(work.into()),
        };
        let worker = Worker::with_request(serde_json::to_value(&request).unwrap(), Channel(other));
        serve(&worker, &[WorkKind::of::<Sum>()]).unwrap();
        drop(worker);
        BufReader::new(own).lines().map(|line| line.unwrap()).collect()
    }

    #[test]
    fn a_worker_performs_work_of_its_version_alone() {
        assert_eq!(said(VERSION, "sum", &[1, 2, 3]), ["\"Milestone\"", r#"{"Answer":{"Ok":6}}"#]);
        for (version, name) in [("0.0.9", "sum"), (VERSION, "product")] {
            let said = said(version, name, &[1, 2, 3]);
            let answer: Value = serde_json::from_str(&said[0]).unwrap();
            let error: Result<u32> = Deserialize::deserialize(&answer["Answer"]).unwrap();
            let error = error.unwrap_err();
            assert_eq!((said.len(), error.code()), (1, StatusCode::Incompatible));
            assert!(error.message().contains(version) && error.message().contains(name), "{error}");
        }
    }

    #[test]
    fn an_answer_that_is_too_long_is_an_error() {
        let (own, other) = UnixStream::pair().unwrap();
        let worker = Worker::with_request(Value::Null, Channel(other));
        answer(&worker, &Ok("x".repeat(MAX_MESSAGE_BYTES))).unwrap();
        drop(worker);
        let said: Value = serde_json::from_reader(own).unwrap();
        let error: Result<String> = Deserialize::deserialize(&said["Answer"]).unwrap();
        let report = error.unwrap_err().report();
        assert!(
            report.starts_with("RESOURCE_EXHAUSTED; the answer has more than 64 MiB\n  try: "),
            "{report}"
        );
    }

    #[test]
    fn work_in_this_process_returns_its_outcome_or_its_error() {
        let options = WorkOptions { isolation: Isolation::None, ..WorkOptions::default() };
        assert_eq!(perform(&Sum(vec![4, 5]), &options).unwrap(), 9);
        let error = perform(&Sum(Vec::new()), &options).unwrap_err();
        let passed: Error = Deserialize::deserialize(serde_json::to_value(&error).unwrap()).unwrap();
        assert_eq!(passed.report(), "OUT_OF_RANGE; nothing\n  at: sum\n  try: add a number");
    }

    #[test]
    fn the_last_report_of_a_process_names_the_kernel() {
        let of = |end, printed: &str| {
            let mut outcome = Job::for_program("true").run(&mut |_| ControlFlow::Continue(())).unwrap();
            (outcome.end, outcome.stderr.bytes) = (end, printed.into());
            let error = ended(&outcome, Some(Duration::from_millis(20)));
            (error.code(), error.message().to_owned())
        };
        let late = JobEnd::TimedOut { is_past_milestone: false };
        assert_eq!(
            of(late, "x\nnote: interrupted in function 'f' (0)\n"),
            (StatusCode::DeadlineExceeded, "the work has not ended within 20 ms in function 'f' (0)".into())
        );
        let printed = "a; b\nABORTED; first\nABORTED; a kernel crashed: function 'f'\n  try: c; d\n";
        assert_eq!(
            of(JobEnd::Exited(86), printed),
            (StatusCode::Aborted, "a kernel crashed: function 'f'".into())
        );
        assert_eq!(
            of(JobEnd::Signaled(9), "").1,
            "the process ended by signal 9, as when the machine has no memory left before its work was done"
        );
    }

    #[test]
    fn the_program_is_the_named_one_or_none() {
        assert_eq!(own_library(), env::current_exe().ok());
        assert_eq!(find_program(Some("/bin/sh".as_ref())).unwrap(), Path::new("/bin/sh"));
        let error = find_program(Some("/nonexistent".as_ref())).unwrap_err();
        assert!(error.code() == StatusCode::NotFound && error.message().contains("'/nonexistent'"));
    }
}
