//! Jobs as processes of this machine. A thread reads each stream of a process, since pipes cannot be waited
//! for together.

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::CHILD;
use super::channel::Channel;
use super::group::ProcessGroup;
use crate::worker::{Worker, WorkerMessages};
use crate::{Job, JobEnd, JobOutcome, JobProgram, JobProgress, Printed};

/// How long output is awaited after a process has ended: another one may keep a pipe open.
const LAST_OUTPUT: Duration = Duration::from_millis(500);
/// The longest time between two looks at a process.
const PAUSE: Duration = Duration::from_millis(5);

/// The streams of a process: standard output and error, and the messages of a worker.
const STREAMS: usize = 3;

/// A job of a worker that asks, which is answered question by question. The process ends when this is
/// dropped.
pub struct Conversation {
    job: Job,
    group: ProcessGroup,
    begun: Instant,
    /// The bytes of streams; none if a stream has ended.
    read: Receiver<(usize, Vec<u8>)>,
    is_open: [bool; STREAMS],
    /// Standard output and standard error.
    printed: [Printed; 2],
    said: WorkerMessages,
    /// The lines for a worker.
    requests: Option<Sender<Vec<u8>>>,
    /// When the question was returned that has no answer yet, and the time of the answers before.
    asked: Option<Instant>,
    replying: Duration,
}

impl Conversation {
    /// Starts the process of a job.
    pub fn start(job: Job) -> io::Result<Self> {
        let (mut command, worker) = match &job.program {
            JobProgram::Named(program) => {
                let mut command = Command::new(program);
                command.stdin(match &job.input {
                    Some(path) => File::open(path)?.into(),
                    None => Stdio::null(),
                });
                (command, None)
            }
            JobProgram::Worker { program, request, .. } => {
                let program = program.clone().map_or_else(|| env::current_exe().map(Into::into), Ok)?;
                let mut command = Command::new(program);
                let channel = Channel::give_to(command.arg(Worker::VERB))?;
                (command, Some((channel, request.clone())))
            }
        };
        command.args(&job.arguments).env_remove(CHILD);
        for (name, value) in &job.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let ((stdout, writer), (stderr, error_writer)) = (io::pipe()?, io::pipe()?);
        command.stderr(if job.joins_streams { writer.try_clone()? } else { error_writer });
        command.stdout(writer);
        let begun = Instant::now();
        let group = ProcessGroup::spawn(&mut command, job.limits.memory_bytes)?;
        // Its ends of the pipes, which would keep them open.
        drop(command);
        let (sender, read) = channel();
        pass_on(0, stdout, sender.clone())?;
        pass_on(1, stderr, sender.clone())?;
        let mut to_worker = None;
        if let Some(((mut requests, answers, output), request)) = worker {
            drop(output);
            pass_on(2, answers, sender)?;
            let (to, receiver) = channel::<Vec<u8>>();
            let _ = to.send(line(&request));
            // If the process ends without reading it, the outcome tells how.
            let write = move || while receiver.recv().is_ok_and(|it| requests.write_all(&it).is_ok()) {};
            thread::Builder::new().spawn(write)?;
            to_worker = Some(to);
        }
        Ok(Self {
            job,
            group,
            begun,
            read,
            is_open: [true, true, to_worker.is_some()],
            printed: Default::default(),
            said: WorkerMessages::default(),
            requests: to_worker,
            asked: None,
            replying: Duration::ZERO,
        })
    }

    /// The next question, or how the process has ended. `watch` is asked every few milliseconds whether to
    /// end it early.
    pub fn next(
        &mut self,
        watch: &mut dyn FnMut(JobProgress) -> ControlFlow<()>,
    ) -> io::Result<Result<Value, JobEnd>> {
        loop {
            let elapsed = self.begun.elapsed().saturating_sub(self.replying);
            let is_past_milestone = self.said.is_past_milestone;
            let progress = JobProgress { elapsed, is_past_milestone };
            if watch(progress).is_break() {
                return Ok(Err(JobEnd::Interrupted));
            }
            if let Some(question) = self.said.questions.pop_front() {
                self.asked = Some(Instant::now());
                return Ok(Ok(question));
            }
            if let Some(status) = self.group.child.try_wait()? {
                return Ok(Err(JobEnd::Exited(status.code().unwrap_or_default())));
            }
            if self.job.limits.are_exceeded(progress) {
                return Ok(Err(JobEnd::TimedOut { is_past_milestone }));
            }
            self.take(PAUSE);
        }
    }

    /// Answers a question. The time until then is not that of the job.
    pub fn answer(&mut self, answer: &Value) -> io::Result<()> {
        self.replying += self.asked.take().map(|asked| asked.elapsed()).unwrap_or_default();
        if let Some(requests) = &self.requests {
            let _ = requests.send(line(answer));
        }
        Ok(())
    }

    /// Ends the process, if it has not ended, and reads what it has printed.
    pub fn finish(mut self, end: JobEnd) -> io::Result<JobOutcome> {
        self.group.end();
        let ended = Instant::now();
        while self.is_open.contains(&true)
            && let Some(left) = LAST_OUTPUT.checked_sub(ended.elapsed())
        {
            self.take(left);
        }
        let [stdout, stderr] = self.printed.map(|it| it.finish(self.job.kept));
        Ok(JobOutcome { end, announced: self.said.exit_status(), answer: self.said.answer, stdout, stderr })
    }

    /// Takes bytes of a stream, for which it waits up to some time.
    fn take(&mut self, timeout: Duration) {
        match self.read.recv_timeout(timeout) {
            Ok((stream, bytes)) if bytes.is_empty() => self.is_open[stream] = false,
            Ok((stream @ 0..2, bytes)) => self.printed[stream].add(&bytes, self.job.kept),
            Ok((_, bytes)) => self.said.add(&bytes),
            Err(RecvTimeoutError::Timeout) => {}
            // The end of the process is all that is left to wait for.
            Err(RecvTimeoutError::Disconnected) => {
                self.is_open = [false; STREAMS];
                thread::sleep(timeout.min(PAUSE));
            }
        }
    }
}

/// Reads a stream to its end, on a thread.
fn pass_on(
    stream: usize,
    mut reader: impl Read + Send + 'static,
    to: Sender<(usize, Vec<u8>)>,
) -> io::Result<()> {
    let read = move || {
        let mut chunk = [0; 16 << 10];
        loop {
            let count = reader.read(&mut chunk).unwrap_or(0);
            if to.send((stream, chunk[..count].to_vec())).is_err() || count == 0 {
                return;
            }
        }
    };
    thread::Builder::new().spawn(read).map(drop)
}

fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}
