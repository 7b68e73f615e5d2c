//! Jobs as processes of this machine.

use std::env;
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, kill_process_group};
use serde_json::Value;

use crate::platform::group::ProcessGroup;
use crate::platform::{limit_memory, process_descriptor};
use crate::worker::{Worker, WorkerMessages};
use crate::{Job, JobEnd, JobOutcome, JobProgram, JobProgress, Printed};

/// How long output is awaited after a process has ended: a process that left its group may keep a pipe open.
const LAST_OUTPUT: Duration = Duration::from_millis(500);
/// The longest time between two looks at a process. Its end is noticed at once where the system has
/// descriptors of processes.
const PAUSE: Duration = Duration::from_millis(5);

/// A job of a worker that asks, which is answered question by question. The process ends when this is
/// dropped.
pub struct Conversation {
    job: Job,
    group: ProcessGroup,
    /// The process, which is readable when it has ended; `None` if the system does not have it.
    ended: Option<OwnedFd>,
    begun: Instant,
    stdout: Stream<PipeReader>,
    stderr: Stream<PipeReader>,
    channel: Stream<UnixStream>,
    /// Standard output and standard error.
    printed: [Printed; 2],
    said: WorkerMessages,
    /// When the question was returned that has no answer yet, and the time of the answers before.
    asked: Option<Instant>,
    replying: Duration,
    /// The part of an answer that is not sent yet.
    unsent: Vec<u8>,
}

impl Conversation {
    /// Starts the process of a job.
    pub fn start(job: Job) -> io::Result<Self> {
        let (mut command, channel) = match &job.program {
            JobProgram::Named(program) => {
                let mut command = Command::new(program);
                command.stdin(match &job.input {
                    Some(path) => File::open(path)?.into(),
                    None => Stdio::null(),
                });
                (command, None)
            }
            JobProgram::Worker { program, called, request } => {
                let (own, other) = UnixStream::pair()?;
                let program = program.clone().map_or_else(|| env::current_exe().map(Into::into), Ok)?;
                let mut command = Command::new(program);
                command.arg0(called).arg(Worker::VERB).stdin(OwnedFd::from(other));
                (command, Some((own, request.clone())))
            }
        };
        command.args(&job.arguments);
        for (name, value) in &job.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let (stdout, writer) = io::pipe()?;
        let stderr = match job.joins_streams {
            true => {
                command.stderr(writer.try_clone()?);
                None
            }
            false => {
                let (stderr, writer) = io::pipe()?;
                command.stderr(writer);
                Some(stderr)
            }
        };
        command.stdout(writer);
        let begun = Instant::now();
        let group = ProcessGroup::spawn(&mut command)?;
        if let Some(bytes) = job.limits.memory_bytes {
            limit_memory(group.id(), bytes)?;
        }
        // Its ends of the pipes, which would keep them open.
        drop(command);
        let ended = process_descriptor(group.id());
        let mut this = Self {
            job,
            group,
            ended,
            begun,
            stdout: Stream::new(Some(stdout)),
            stderr: Stream::new(stderr),
            channel: Stream::new(None),
            printed: Default::default(),
            said: WorkerMessages::default(),
            asked: None,
            replying: Duration::ZERO,
            unsent: Vec::new(),
        };
        if let Some((channel, request)) = channel {
            this.send(&channel, &request)?;
            this.channel = Stream::new(Some(channel));
        }
        Ok(this)
    }

    /// Sends a request or an answer. If the process ends without reading it, the outcome tells how.
    fn send(&self, mut channel: &UnixStream, request: &Value) -> io::Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        channel.set_write_timeout(self.job.limits.time.filter(|it| !it.is_zero()))?;
        match channel.write_all(&line) {
            Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            sent => sent,
        }
    }

    /// The next question, or how the process has ended. `watch` is asked every few
    /// milliseconds whether to end it early.
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
            let is_sent = self.send_answer()?;
            if let Some(question) = self.said.questions.pop_front_if(|_| is_sent) {
                self.asked = Some(Instant::now());
                return Ok(Ok(question));
            }
            if let Some(status) = self.group.try_end()? {
                return Ok(Err(end_of(status)));
            }
            if self.job.limits.are_exceeded(progress) {
                return Ok(Err(JobEnd::TimedOut { is_past_milestone }));
            }
            if is_sent {
                self.read(PAUSE)?;
            }
        }
    }

    /// Answers a question. The time until then is not that of the job.
    pub fn answer(&mut self, answer: &Value) -> io::Result<()> {
        self.replying += self.asked.take().map(|asked| asked.elapsed()).unwrap_or_default();
        serde_json::to_writer(&mut self.unsent, answer)?;
        self.unsent.push(b'\n');
        Ok(())
    }

    /// Sends an answer, or a part of it: a process that asks without end may not read it. Returns whether all
    /// is sent, or nothing reads it any more.
    fn send_answer(&mut self) -> io::Result<bool> {
        let Some(mut channel) = self.channel.reader.as_ref().filter(|_| !self.unsent.is_empty()) else {
            return Ok(true);
        };
        channel.set_write_timeout(Some(PAUSE))?;
        match channel.write(&self.unsent) {
            Ok(count) => drop(self.unsent.drain(..count)),
            Err(error) if is_gone(&error) => self.unsent.clear(),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        Ok(self.unsent.is_empty())
    }

    /// Ends the process, if it has not ended, and reads what it has printed.
    pub fn finish(mut self, end: JobEnd) -> io::Result<JobOutcome> {
        if self.job.says_its_end && matches!(end, JobEnd::TimedOut { .. } | JobEnd::Interrupted) {
            self.ask_to_end()?;
        }
        self.group.end()?;
        self.read_last()?;
        Ok(self.outcome(end))
    }

    /// Has it say what it runs, and end by itself, for which it has a second.
    fn ask_to_end(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        let _ = kill_process_group(self.group.id(), Signal::TERM);
        while self.group.try_end()?.is_none() && begun.elapsed() < Duration::from_secs(1) {
            self.read(PAUSE)?;
        }
        Ok(())
    }

    /// Reads the output of a process that has ended.
    fn read_last(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        // It would wake this thread without output.
        self.ended = None;
        while self.stdout.is_open() || self.stderr.is_open() || self.channel.is_open() {
            let Some(left) = LAST_OUTPUT.checked_sub(begun.elapsed()) else { break };
            self.read(left)?;
        }
        Ok(())
    }

    /// Reads the streams, for which it waits up to some time. Returns whether there was something.
    fn read(&mut self, timeout: Duration) -> io::Result<bool> {
        let kept = self.job.kept;
        let ended = self.ended.as_ref().map(|it| PollFd::new(it, PollFlags::IN));
        let [stdout, stderr, channel, _] =
            ready([self.stdout.fd(), self.stderr.fd(), self.channel.fd(), ended], timeout)?;
        if stdout {
            self.stdout.read(|bytes| self.printed[0].add(bytes, kept))?;
        }
        if stderr {
            self.stderr.read(|bytes| self.printed[1].add(bytes, kept))?;
        }
        if channel {
            self.channel.read(|bytes| self.said.add(bytes))?;
        }
        Ok(stdout || stderr || channel)
    }

    fn outcome(self, end: JobEnd) -> JobOutcome {
        let [stdout, stderr] = self.printed.map(|it| it.finish(self.job.kept));
        JobOutcome { end, announced: self.said.exit_status(), answer: self.said.answer, stdout, stderr }
    }
}

/// The reading side of a stream of a process.
struct Stream<R> {
    reader: Option<R>,
}

impl<R: Read + AsFd> Stream<R> {
    fn new(reader: Option<R>) -> Self {
        Self { reader }
    }

    fn is_open(&self) -> bool {
        self.reader.is_some()
    }

    fn fd(&self) -> Option<PollFd<'_>> {
        Some(PollFd::new(self.reader.as_ref()?, PollFlags::IN))
    }

    fn read(&mut self, add: impl FnOnce(&[u8])) -> io::Result<()> {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        let mut chunk = [0; 16 << 10];
        match reader.read(&mut chunk) {
            Ok(0) => self.reader = None,
            Ok(count) => add(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A socket whose other end was closed before it had read everything.
            Err(error) if is_gone(&error) => self.reader = None,
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Which of the descriptors can be read, once some can or the time is up.
fn ready(streams: [Option<PollFd<'_>>; 4], timeout: Duration) -> io::Result<[bool; 4]> {
    let open = streams.each_ref().map(Option::is_some);
    let mut polled: Vec<_> = streams.into_iter().flatten().collect();
    let timeout = Timespec::try_from(timeout).ok();
    match poll(&mut polled, timeout.as_ref()) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Ok([false; 4]),
        Err(error) => return Err(error.into()),
    }
    let mut polled = polled.iter().map(|it| !it.revents().is_empty());
    Ok(open.map(|is_open| is_open && polled.next() == Some(true)))
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

fn end_of(status: ExitStatus) -> JobEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => JobEnd::Exited(code),
        (None, signal) => JobEnd::Signaled(signal.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::worker::MAX_MESSAGE_BYTES;
    use crate::{JobLimits, KeptOutput};

    fn shell(script: &str) -> Job {
        let mut job = Job::for_program("sh");
        job.arguments = vec!["-c".into(), script.into()];
        job
    }

    fn run(job: &Job) -> JobOutcome {
        job.run(&mut |_| ControlFlow::Continue(())).unwrap()
    }

    #[test]
    fn a_process_ends_with_all_that_it_has_started() {
        let begun = Instant::now();
        let mut job = shell("echo before; sleep 600 & sleep 600");
        job.limits = JobLimits::for_time(Duration::from_millis(500));
        let ended = run(&job);
        assert_eq!(ended.end, JobEnd::TimedOut { is_past_milestone: false });
        assert_eq!(ended.stdout.bytes, b"before\n");
        let ended = run(&shell("sleep 600 & echo $!; echo err >&2; exit 3"));
        assert_eq!(ended.end, JobEnd::Exited(3));
        assert_eq!(&*ended.stderr.bytes, b"err\n");
        let left = String::from_utf8(ended.stdout.bytes).unwrap();
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", left.trim()));
        // It may be a zombie that nothing has waited for.
        while stat().is_ok_and(|it| !it.contains(") Z ")) {
            assert!(begun.elapsed() < Duration::from_secs(300), "process {left} still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(run(&shell("kill -9 $$")).end, JobEnd::Signaled(9));
        let ended = shell("sleep 600").run(&mut |_| ControlFlow::Break(())).unwrap();
        assert_eq!(ended.end, JobEnd::Interrupted);
        assert!(begun.elapsed() < Duration::from_secs(300));
    }

    #[test]
    fn a_milestone_ends_its_limit_only() {
        let of = |milestone, time, is_past_milestone| {
            let limits = JobLimits { milestone, time, memory_bytes: None };
            limits.are_exceeded(JobProgress { elapsed: Duration::from_secs(2), is_past_milestone })
        };
        let [short, long] = [1, 3].map(|it| Some(Duration::from_secs(it)));
        assert!(of(short, long, false) && !of(short, long, true) && of(long, short, true));
        assert!(!of(None, None, false));
    }

    #[test]
    fn memory_is_limited() {
        // The limit is set while the shell runs already.
        let mut job = shell(
            "until [ \"$(ulimit -d)\" = 65536 ]; do :; done; echo set; \
             x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x}",
        );
        job.limits.memory_bytes = Some(64 << 20);
        let ended = run(&job);
        assert_eq!(ended.stdout.bytes, b"set\n", "{ended:?}");
        assert!(!ended.is_success(), "{ended:?}");
    }

    #[test]
    fn streams_are_joined_in_order_and_kept_up_to_a_limit() {
        let mut job = shell("for i in 1 2 3; do echo $i; echo e$i >&2; done");
        job.joins_streams = true;
        assert_eq!(run(&job).stdout.bytes, b"1\ne1\n2\ne2\n3\ne3\n");
        job = shell("seq 100000");
        for (kept, expected) in [(KeptOutput::First(4), &b"1\n2\n"[..]), (KeptOutput::Last(7), b"100000\n")] {
            job.kept = kept;
            let Printed { bytes, dropped } = run(&job).stdout;
            assert_eq!((&*bytes, bytes.len() as u64 + dropped), (expected, 588_895));
        }
    }

    #[test]
    fn what_a_worker_says_is_read_in_any_pieces() {
        let said = |text: &[u8], piece: usize| {
            let mut said = WorkerMessages::default();
            text.chunks(piece).for_each(|bytes| said.add(bytes));
            (said.is_past_milestone, said.answer.as_ref().and_then(|it| it.as_u64()), said.exit_status())
        };
        let messages = b"{\"Answer\":1}\nnot a message\n\n\"Milestone\"\n{\"Answer\":2}\n";
        for piece in 1..=messages.len() + 1 {
            assert_eq!(said(messages, piece), (true, Some(2), None), "{piece}");
            // A new line is one of them.
            for status in [0, 10, 86, 255] {
                let text = [&messages[..], &[status]].concat();
                assert_eq!(said(&text, piece), (true, Some(2), Some(status)), "{piece}");
            }
        }
        assert_eq!(said(b"\n", 1), (false, None, Some(10)));
        assert_eq!(said(b"\n\"Milestone\"\n", 1), (true, None, None));
    }

    #[test]
    fn a_worker_of_another_program_asks_and_is_answered() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("asks");
        let script = "#!/bin/sh\nread -r request\nfor question in 1 2; do\n\
                      printf '{\"Question\":%s}\\n' $question >&0\nread -r answer\necho $request $answer\ndone\n";
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let job = Job::for_worker_of(&program, Vec::new(), Value::from(7));
        let mut asked = Vec::new();
        let mut reply = |question: Value| {
            asked.push(question.as_u64());
            Value::from(question.as_u64().map(|it| it + 10))
        };
        let ended = job.converse(&mut |_| ControlFlow::Continue(()), &mut reply).unwrap();
        assert_eq!(asked, [Some(1), Some(2)]);
        assert_eq!((ended.end, &*ended.stdout.bytes), (JobEnd::Exited(0), &b"7 11\n7 12\n"[..]));
    }

    #[test]
    fn a_line_that_is_too_long_ends_the_messages() {
        let mut said = WorkerMessages::default();
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..100 {
            said.add(&piece);
        }
        said.add(b"\n\"Milestone\"\n\0");
        assert!(said.rest.len() <= MAX_MESSAGE_BYTES + piece.len());
        assert!(!said.is_past_milestone && said.exit_status().is_none());
    }

    #[test]
    fn environment_is_set_and_removed() {
        let mut job = shell("echo $ADDED ${HOME-none}");
        job.environment = vec![("ADDED".into(), Some("1".into())), ("HOME".into(), None)];
        assert_eq!(run(&job).stdout.bytes, b"1 none\n");
    }

    #[test]
    fn jobs_and_outcomes_are_messages() {
        let mut job = Job::for_worker("rehal", vec!["a".into()], &[1, 2]).unwrap();
        job.limits = JobLimits::for_time(Duration::from_millis(1500));
        let text = serde_json::to_string(&job).unwrap();
        let again: Job = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
        let outcome = run(&shell("echo x"));
        let again: JobOutcome = serde_json::from_str(&serde_json::to_string(&outcome).unwrap()).unwrap();
        assert_eq!((again.end, again.stdout), (outcome.end, outcome.stdout));
    }
}
