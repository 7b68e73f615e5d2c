//! Where work runs, and how it ends: in a process of its own, or in a copy of this one.
//!
//! Processes of their own are compilers, commands of the user, and workers, which are the program `rehal`.
//! A [`Job`] and its [`JobOutcome`] are messages. They hold no descriptors, and only paths that name the same
//! file for every process. [`Job::run`] performs it on this machine.
//!
//! A worker's standard input is a socket. It receives the request of its job, and sends
//! [`Worker::reach_milestone`] and [`Worker::answer`], so that its standard output and standard error belong
//! to the kernels that it runs. It may also ask ([`Asker`]), and then waits for the answer. Last, it sends
//! the exit status with which it is about to end: a status that was not announced is that of a kernel that
//! ended the process.
//!
//! [`Work`] is what workers perform, as data: [`perform`] runs it in this process or in a worker.
//!
//! A tool that runs kernels [copies its process](supervise) before it starts threads. Only a program that
//! owns its process may do that, or handle signals as [`interrupts`] does. The crate must not depend on what
//! jobs do: captures, devices, flags.

#![deny(unsafe_code)]

mod confine;
mod platform;
mod temporary;
mod temporary_file;
mod work;
mod worker;

use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use confine::{Confinement, ProcessLimits, Sandbox};
pub use platform::{
    Conversation, CopyEnd, PROGRESS_TIME, end_by, interrupts, note_emulator_threads, run_in_child,
    shared_file, supervise,
};
pub use temporary::{PartialResult, TemporaryDirectory, full_directory, remove_abandoned, temporary_name};
pub use temporary_file::TemporaryFile;
pub use work::{
    Caller, Isolation, Work, WorkKind, WorkOptions, ended, find_program, perform, perform_after, serve,
    supervised,
};
pub use worker::{Asker, Worker, announced, is_worker};

/// Work for a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Job {
    /// The program that runs.
    pub program: JobProgram,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The file that its standard input reads: by default nothing. Of a worker, it is the channel to it.
    pub input: Option<PathBuf>,
    /// Variables of the environment that are set, or removed. It inherits the others.
    pub environment: Vec<(OsString, Option<OsString>)>,
    /// When it is ended.
    pub limits: JobLimits,
    /// How much of its output is kept, of each stream.
    pub kept: KeptOutput,
    /// Whether standard error is a part of standard output, in the order in which they are written.
    pub joins_streams: bool,
    /// Whether SIGTERM precedes its end by a limit, so that a worker says which kernel runs.
    pub says_its_end: bool,
}

/// The program of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum JobProgram {
    /// A program that is found as a shell finds it.
    Named(OsString),
    /// A program of rehal, as a [`Worker`].
    Worker {
        /// Where it is; `None` for this program.
        program: Option<OsString>,
        /// Its `argv[0]`.
        called: OsString,
        /// The request to it.
        request: Value,
    },
}

/// When a job is ended.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobLimits {
    /// Time until a worker says that it has [reached its milestone](Worker::reach_milestone).
    pub milestone: Option<Duration>,
    /// Time as a whole.
    pub time: Option<Duration>,
    /// Bytes of private memory that each of its processes may allocate: an allocation beyond fails.
    pub memory_bytes: Option<u64>,
}

/// Which part of a stream is kept if it is longer than the limit.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum KeptOutput {
    /// The first bytes.
    First(usize),
    /// The last bytes.
    Last(usize),
}

/// The progress of a job.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct JobProgress {
    /// Time since it was started.
    pub elapsed: Duration,
    /// Whether it has reached its milestone.
    pub is_past_milestone: bool,
}

/// How a job ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobOutcome {
    /// Its end.
    pub end: JobEnd,
    /// The exit status that a worker announced before it ended.
    pub announced: Option<u8>,
    /// The answer of a worker.
    pub answer: Option<Value>,
    /// Its standard output.
    pub stdout: Printed,
    /// Its standard error.
    pub stderr: Printed,
}

/// The end of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobEnd {
    /// It exited with a status.
    Exited(i32),
    /// A signal ended it.
    Signaled(i32),
    /// It exceeded its limits.
    TimedOut {
        /// Whether it had reached its milestone.
        is_past_milestone: bool,
    },
    /// The caller ended it.
    Interrupted,
}

/// SIGKILL. 15, 2 and 1 are SIGTERM, SIGINT and SIGHUP, on all systems.
const KILL: i32 = 9;

impl JobEnd {
    /// Whether something else ended it: a user, or the system for lack of memory.
    pub fn is_killed(self) -> bool {
        matches!(self, Self::Signaled(KILL | 15 | 2 | 1))
    }
}

/// How it ended, as it follows "ended": with a status, or by a signal.
impl Display for JobEnd {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Exited(code) => write!(f, "with status {code}"),
            Self::Signaled(KILL) => f.write_str("by signal 9, as when the machine has no memory left"),
            Self::Signaled(signal) => write!(f, "by signal {signal}"),
            Self::TimedOut { .. } => f.write_str("by the limit of its time"),
            Self::Interrupted => f.write_str("by an interrupt"),
        }
    }
}

/// The output of a process on a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Printed {
    /// The part that is kept.
    pub bytes: Vec<u8>,
    /// Number of bytes that are not kept.
    pub dropped: u64,
}

impl Job {
    /// A job for a program.
    pub fn for_program(program: impl Into<OsString>) -> Self {
        Self::for_kind(JobProgram::Named(program.into()))
    }

    /// A job for a worker, which is called as `called`, with its arguments and what it is asked for.
    pub fn for_worker(
        called: impl Into<OsString>,
        arguments: Vec<OsString>,
        request: &impl Serialize,
    ) -> io::Result<Self> {
        let (called, request) = (called.into(), serde_json::to_value(request)?);
        Ok(Self { arguments, ..Self::for_kind(JobProgram::Worker { program: None, called, request }) })
    }

    /// A job for a worker of another program, for processes that are not tools, such as interpreters.
    pub fn for_worker_of(program: impl Into<OsString>, arguments: Vec<OsString>, request: Value) -> Self {
        let program = program.into();
        let called = program.clone();
        let worker = JobProgram::Worker { program: Some(program), called, request };
        Self { arguments, ..Self::for_kind(worker) }
    }

    fn for_kind(program: JobProgram) -> Self {
        Self {
            program,
            arguments: Vec::new(),
            input: None,
            environment: Vec::new(),
            limits: JobLimits::default(),
            kept: KeptOutput::Last(64 << 10),
            joins_streams: false,
            says_its_end: false,
        }
    }
}

impl Job {
    /// Performs it to its end, as a process of this machine, in a group that ends with this process. The
    /// error is that of starting it, or of communicating with it. `watch` is asked every few milliseconds
    /// whether to end it early.
    pub fn run(&self, watch: &mut dyn FnMut(JobProgress) -> ControlFlow<()>) -> io::Result<JobOutcome> {
        self.converse(watch, &mut |_| Value::Null)
    }

    /// Like [`Job::run`], for a worker that asks: `reply` gets each question of an
    /// [`Asker`](crate::Asker), and returns the answer.
    pub fn converse(
        &self,
        watch: &mut dyn FnMut(JobProgress) -> ControlFlow<()>,
        reply: &mut dyn FnMut(Value) -> Value,
    ) -> io::Result<JobOutcome> {
        let mut conversation = Conversation::start(self.clone())?;
        loop {
            match conversation.next(watch)? {
                Ok(question) => conversation.answer(&reply(question))?,
                Err(end) => return conversation.finish(end),
            }
        }
    }
}

impl JobLimits {
    /// A limit of the whole time.
    pub fn for_time(time: Duration) -> Self {
        Self { time: Some(time), ..Self::default() }
    }

    /// Whether a job has exceeded them.
    fn are_exceeded(&self, progress: JobProgress) -> bool {
        let is_over = |limit: Option<Duration>| limit.is_some_and(|limit| progress.elapsed >= limit);
        is_over(self.time) || (!progress.is_past_milestone && is_over(self.milestone))
    }
}

impl JobOutcome {
    /// Whether it exited with status 0.
    pub fn is_success(&self) -> bool {
        self.end == JobEnd::Exited(0)
    }
}

impl Printed {
    /// Adds bytes.
    fn add(&mut self, bytes: &[u8], kept: KeptOutput) {
        match kept {
            KeptOutput::First(limit) => {
                let count = bytes.len().min(limit.saturating_sub(self.bytes.len()));
                self.bytes.extend_from_slice(&bytes[..count]);
                self.dropped += (bytes.len() - count) as u64;
            }
            KeptOutput::Last(limit) => {
                self.bytes.extend_from_slice(bytes);
                if self.bytes.len() > 2 * limit {
                    self.keep_last(limit);
                }
            }
        }
    }

    fn keep_last(&mut self, limit: usize) {
        let count = self.bytes.len().saturating_sub(limit);
        self.bytes.drain(..count);
        self.dropped += count as u64;
    }

    /// Applies the limit once nothing is added any more.
    fn finish(mut self, kept: KeptOutput) -> Self {
        if let KeptOutput::Last(limit) = kept {
            self.keep_last(limit);
        }
        self
    }
}
