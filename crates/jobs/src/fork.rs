//! Copies of this process for work that runs kernels, which may end their process in any way.
//!
//! A kernel that calls `_exit(0)` would otherwise have the exit status of one that is right.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ffi::c_int;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::parent_id;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process;
use std::time::{Duration, Instant};

use rehal_base::{Error, Result, StatusCode};
use rehal_crash::{BlackBox, HeldSignals, RunningThread, Stamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process,
    set_parent_process_death_signal, setrlimit, waitid,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use signal_hook::low_level::{emulate_default_handler, raise, signal_name};

use crate::group::forget_watchdog;
use crate::interrupts::{self, PassedOn};
use crate::{JobEnd, Worker};

/// The state of a thread that runs a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadState {
    Lives,
    /// A signal has stopped it, which a debugger does differently.
    Stopped,
    /// It may be a zombie, or have no entry in `/proc` any more.
    Ended,
    /// It has been busy with the same for longer than the limit.
    Late,
}

impl ThreadState {
    fn of(process: Pid, thread: u32) -> Self {
        let state = fs::read_to_string(format!("/proc/{}/task/{thread}/stat", process.as_raw_pid()));
        match state {
            // The state follows the name, which may contain anything.
            Ok(text) => match text.rsplit(')').next().and_then(|it| it.trim_start().chars().next()) {
                Some('Z' | 'X') => Self::Ended,
                Some('T') => Self::Stopped,
                _ => Self::Lives,
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound && Path::new("/proc/self").exists() => {
                Self::Ended
            }
            Err(_) => Self::Lives,
        }
    }
}

/// The exit status of a process that panicked.
const PANICKED: i32 = 101;

/// Ends this process by SIGTERM when its parent ends, so that temporary files are removed.
fn end_with(is_child: impl FnOnce() -> bool) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|error| Error::io("asking for the signal of the parent's end", &error.into()))?;
    // It may have ended before.
    match is_child() {
        true => Ok(()),
        false => Err(Error::new(StatusCode::Aborted, "the process that started this one has ended")),
    }
}

/// How the copy of a process ended that did work.
#[derive(Debug)]
pub enum CopyEnd<T> {
    /// With the outcome of the work.
    Done(T),
    /// With this exit status, for a reason that it has reported.
    Exited(u8),
    /// By this signal, which is to [end](end_by) this process, too.
    Signaled(c_int),
}

/// Does work in a copy of this process, which [confines](crate::Confinement::enter) itself. The copy says
/// with which status it is about to end: otherwise a kernel that calls `_exit(0)` would have the exit status
/// of one that is right. This process passes signals on: those that are `held` since there is something to
/// remove, and later ones. `report` gets the error of a signal that ends the copy. A kernel, or bytecode that
/// calls nothing, that runs for longer than `limit` is an error.
///
/// Fails before anything runs if this process has another thread than that of [`interrupts`].
pub fn supervise<T: Serialize + DeserializeOwned>(
    held: HeldSignals,
    work: impl FnOnce() -> Result<T>,
    limit: Option<Duration>,
    report: fn(&Error),
) -> Result<CopyEnd<T>> {
    let cannot = |error: io::Error| Error::io("starting a process for kernels", &error);
    let pipe = |flags| pipe_with(PipeFlags::CLOEXEC | flags).map_err(|error| cannot(error.into()));
    // A process that a kernel has forked may keep the pipe of the status open: the reader does not wait for
    // its end.
    let ((reader, writer), (is_ready, ready)) = (pipe(PipeFlags::NONBLOCK)?, pipe(PipeFlags::empty())?);
    let (answer, answering) = pipe(PipeFlags::empty())?;
    let parent = process::id();
    // Without it, an error does not name the kernel.
    let running = BlackBox::create().ok();
    let was_handled = interrupts::release();
    if !has_one_thread() {
        return Err(cannot(io::Error::other("this process has several threads, which the copy would lack")));
    }
    match fork().map_err(cannot)? {
        Some(child) => {
            drop((writer, is_ready, answering));
            let signals = PassedOn::new().map_err(cannot)?;
            drop((held, ready));
            let mut copy = ProcessCopy {
                id: child,
                signals,
                signaled: None,
                answer: Some(answer.into()),
                answered: Vec::new(),
            };
            let ended = await_end(&mut copy, reader, running, limit, report);
            let answered = copy.take_answer();
            drop(copy);
            if was_handled {
                interrupts::handle();
            }
            match ended? {
                CopyEnd::Exited(0) => Ok(CopyEnd::Done(read_answer(&answered)??)),
                CopyEnd::Exited(status) => Ok(CopyEnd::Exited(status)),
                CopyEnd::Signaled(signal) => Ok(CopyEnd::Signaled(signal)),
                CopyEnd::Done(never) => match never {},
            }
        }
        None => {
            drop((reader, ready, answer));
            // What this process owns, such as temporary files, is not the copy's: it returns to no caller.
            let ended = catch_unwind(AssertUnwindSafe(|| {
                // A signal that ends this process before it passes signals on is followed by that of its end.
                let _ = File::from(is_ready).read(&mut [0]);
                end_with(|| parent_id() == parent)?;
                forget_watchdog();
                interrupts::forget_flag();
                drop(held);
                if let Some(running) = running {
                    running.enter();
                }
                rehal_crash::announce_exits(writer.try_clone().map_err(cannot)?);
                let outcome = work();
                write_answer(answering.into(), &outcome)?;
                File::from(writer).write_all(&[0]).map_err(cannot)
            }));
            process::exit(match ended {
                Ok(Ok(())) => 0,
                Ok(Err(error)) => {
                    report(&error);
                    1
                }
                Err(_) => PANICKED,
            })
        }
    }
}

/// Most bytes of the answer of a copy.
const MAX_ANSWER_BYTES: usize = 64 << 20;

fn write_answer<T: Serialize>(answer: File, outcome: &Result<T>) -> Result<()> {
    let failed = |error: io::Error| Error::io("answering with the outcome of work", &error);
    let mut bytes = BufWriter::new(answer);
    serde_json::to_writer(&mut bytes, outcome).map_err(|error| failed(error.into()))?;
    bytes.flush().map_err(failed)
}

/// The outcome that a copy has written: a kernel may have written anything.
fn read_answer<T: DeserializeOwned>(answered: &[u8]) -> Result<Result<T>> {
    serde_json::from_slice(answered).map_err(|error| {
        Error::new(StatusCode::Aborted, format!("the process of kernels ended without its outcome: {error}"))
    })
}

/// Does work in a worker's process: says with which status it is about to end. `report` gets its error.
pub fn announced(worker: &Worker, work: impl FnOnce() -> Result<u8>, report: fn(&Error)) -> Result<u8> {
    let status = worker.exit_status();
    say(File::from(status.map_err(|error| Error::io("passing an exit status", &error))?), work, report)
}

fn say(mut to: File, work: impl FnOnce() -> Result<u8>, report: fn(&Error)) -> Result<u8> {
    let cannot = |error: io::Error| Error::io("passing an exit status", &error);
    rehal_crash::announce_exits(to.try_clone().map_err(cannot)?.into());
    let status = work().unwrap_or_else(|error| {
        report(&error);
        1
    });
    to.write_all(&[status]).map_err(cannot)?;
    Ok(status)
}

/// Whether the other threads, if any, are idle ones that the copy does without.
fn has_one_thread() -> bool {
    let idle = rehal_base::parallel::thread_count();
    fs::read_dir("/proc/self/task").map_or(true, |threads| threads.count() <= 1 + idle)
}

/// The process of the copy; `None` in the copy.
#[allow(unsafe_code, reason = "copies a process that has one thread; see docs/unsafe.md")]
fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the process has no other thread, as `supervise` requires, or only idle ones of a pool, which
    // hold no lock: so none is held by a thread that the copy lacks.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        child => Ok(Pid::from_raw(child)),
    }
}

/// Waits for the copy.
fn await_end(
    copy: &mut ProcessCopy,
    said: OwnedFd,
    black_box: Option<&'static BlackBox>,
    limit: Option<Duration>,
    report: fn(&Error),
) -> Result<CopyEnd<Infallible>> {
    let cannot = |error: io::Error| Error::io("waiting for the process of kernels", &error);
    let stuck = copy.await_stuck(black_box, limit);
    let Some(ended) = copy.wait(WaitIdOptions::EXITED).map_err(cannot)? else {
        return Err(cannot(io::ErrorKind::NotFound.into()));
    };
    // The status of the work, and that of a signal which the copy has reported after it.
    let mut said_statuses = [0; 16];
    let count = File::from(said).read(&mut said_statuses).unwrap_or(0);
    let said_status = said_statuses[..count].last().copied();
    // The copy that is stuck says of the signal that ends it.
    let is_unsaid = said_status.is_none_or(|it| it == rehal_crash::status_of_signal(libc::SIGTERM));
    if let Some((thread, state)) = stuck.filter(|_| is_unsaid) {
        if state == ThreadState::Late {
            return Err(late(&thread, limit.unwrap_or_default()));
        }
        let (did, instead) = match state {
            ThreadState::Stopped => ("stopped its process", "stopping the process"),
            _ => ("ended its thread", "ending its thread"),
        };
        let error = Error::new(StatusCode::Aborted, format!("a kernel {did}: {}", named(&thread)));
        return Err(with_record(error, &thread)
            .advise(format!("a kernel returns a status instead of {instead}: correct the kernel")));
    }
    let kernels = Kernels::of(black_box);
    match (ended.exit_status(), ended.terminating_signal()) {
        // A kernel may have said that all went well.
        (Some(0), _) if kernels.are_running => Err(ended_early(JobEnd::Exited(0), &kernels)),
        (Some(status), _) if said_status.map(i32::from) == Some(status) => Ok(CopyEnd::Exited(status as u8)),
        (Some(status), _) => Err(ended_early(JobEnd::Exited(status), &kernels)),
        (None, Some(libc::SIGKILL)) => Err(ended_early(JobEnd::Signaled(libc::SIGKILL), &kernels)),
        (None, signal) => {
            let signal = signal.unwrap_or_default();
            // A user sends these, maybe before the copy handles them.
            let is_of_user =
                !kernels.are_running && [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].contains(&signal);
            if said_status != Some(rehal_crash::status_of_signal(signal)) && !is_of_user {
                report(&ended_early(JobEnd::Signaled(signal), &kernels));
            }
            Ok(CopyEnd::Signaled(signal))
        }
    }
}

/// Ends this process by the signal that ended its copy. Returns the exit status in its place, if this process
/// ignores the signal.
pub fn end_by(signal: c_int) -> u8 {
    // The copy may have left a core dump.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = emulate_default_handler(signal);
    // That does not know all signals. Of the others, this process handles none.
    let _ = raise(signal);
    rehal_crash::status_of_signal(signal)
}

/// The copy of this process, until it has been waited for: another process may get its id then.
struct ProcessCopy {
    id: Pid,
    signals: PassedOn,
    /// The times of the first and of the last signal that was passed on.
    signaled: Option<[Instant; 2]>,
    /// The pipe of its answer; `None` once all is read.
    answer: Option<File>,
    answered: Vec<u8>,
}

impl ProcessCopy {
    fn wait(&self, options: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
        loop {
            match waitid(WaitId::Pid(self.id), options) {
                Err(rustix::io::Errno::INTR) => {}
                ended => return Ok(ended?),
            }
        }
    }

    /// Reads a part of the answer, for which it waits.
    fn read_answer(&mut self) {
        let mut chunk = [0; 64 << 10];
        let read = self.answer.as_mut().map_or(Ok(0), |answer| answer.read(&mut chunk));
        match read {
            Ok(count @ 1..) if self.answered.len() < MAX_ANSWER_BYTES => {
                self.answered.extend_from_slice(&chunk[..count]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A kernel that writes without end waits for a reader then.
            _ => self.answer = None,
        }
    }

    /// The answer of a copy that has ended. A process that a kernel has started may keep it open.
    fn take_answer(&mut self) -> Vec<u8> {
        let no_time = Timespec { tv_sec: 0, tv_nsec: 0 };
        while let Some(answer) = &self.answer
            && poll(&mut [PollFd::new(answer, PollFlags::IN)], Some(&no_time)).is_ok_and(|count| count > 0)
        {
            self.read_answer();
        }
        std::mem::take(&mut self.answered)
    }

    /// Whether it has ended, or cannot be waited for: the last wait says why.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        self.wait(options).map_or(true, |ended| ended.is_some())
    }

    /// Whether it ends within this time, if it had not ended before signals were received. Passes signals on
    /// to it meanwhile.
    fn ends_within(&mut self, time: Duration) -> bool {
        let start = Instant::now();
        loop {
            let left = Timespec::try_from(time.saturating_sub(start.elapsed())).ok();
            let answer = self.answer.as_ref().map(|answer| PollFd::new(answer, PollFlags::IN));
            let signals = PollFd::new(self.signals.receiver(), PollFlags::IN);
            let mut polled: Vec<_> = [signals].into_iter().chain(answer).collect();
            // A signal interrupts it as well.
            if poll(&mut polled, left.as_ref()) == Ok(0) {
                return false;
            }
            if polled.get(1).is_some_and(|answer| !answer.revents().is_empty()) {
                self.read_answer();
            }
            for signal in self.signals.take() {
                let _ = Signal::from_named_raw(signal).map(|signal| kill_process(self.id, signal));
                let now = Instant::now();
                self.signaled.get_or_insert([now; 2])[1] = now;
            }
            if self.has_ended() {
                return true;
            }
        }
    }

    /// Whether a second signal has not ended it: a kernel may ignore signals, or block them.
    fn ignores_signals(&self) -> bool {
        const END: Duration = Duration::from_secs(2);
        self.signaled
            .is_some_and(|[first, last]| last - first > interrupts::SAME_SIGNAL && last.elapsed() > END)
    }

    /// Waits until it ends, or until one of its threads has ended or been stopped in a kernel, or exceeds the
    /// limit. In these cases, ends it, whose other threads would wait forever, and returns that thread.
    fn await_stuck(
        &mut self,
        black_box: Option<&BlackBox>,
        limit: Option<Duration>,
    ) -> Option<(RunningThread, ThreadState)> {
        /// How often threads are looked at.
        const STEP: Duration = Duration::from_millis(200);
        /// How long a process may take to end: its last thread frees its memory.
        const END: Duration = Duration::from_secs(5);
        /// How long until it is killed: it removes its temporary files.
        const MOST: Duration = Duration::from_secs(10);
        /// How many looks in a row find a stopped thread: a shell stops and continues both processes, and not
        /// at exactly the same time.
        const STOPS: u32 = 10;
        // It may have been killed before its signal could be received.
        if self.has_ended() {
            return None;
        }
        let (mut stops, mut busy) = (0, Vec::new());
        let stuck = loop {
            if self.ends_within(STEP) {
                return None;
            }
            if self.ignores_signals() {
                let _ = kill_process(self.id, Signal::KILL);
            }
            let Some(black_box) = black_box else { continue };
            let with_state = |it: RunningThread| {
                let state = ThreadState::of(self.id, it.thread);
                (it, state)
            };
            let threads: Vec<_> = black_box.running().into_iter().map(with_state).collect();
            let find = |state| threads.iter().find(|it| it.1 == state).cloned();
            if let Some(ended) = find(ThreadState::Ended) {
                if self.ends_within(END) {
                    return None;
                }
                // The thread was not in the middle of its own end.
                if black_box.running().contains(&ended.0) {
                    break ended;
                }
            }
            if let Some(late) = find_late(&mut busy, black_box, limit) {
                break (late, ThreadState::Late);
            }
            let stopped = find(ThreadState::Stopped);
            stops = if stopped.is_some() { stops + 1 } else { 0 };
            if let Some(stopped) = stopped.filter(|_| stops >= STOPS) {
                let _ = kill_process(self.id, Signal::KILL);
                break stopped;
            }
        };
        let _ = kill_process(self.id, Signal::TERM);
        if !self.ends_within(MOST) {
            let _ = kill_process(self.id, Signal::KILL);
        }
        Some(stuck)
    }
}

/// A thread that has been busy with the same for longer than the limit. `busy` has since when threads are.
fn find_late(
    busy: &mut Vec<(Stamp, Instant)>,
    black_box: &BlackBox,
    limit: Option<Duration>,
) -> Option<RunningThread> {
    let (limit, now) = (limit?, Instant::now());
    let threads = black_box.busy();
    busy.retain(|(stamp, _)| threads.iter().any(|(other, _)| other == stamp));
    for (stamp, thread) in threads {
        match busy.iter().find(|(other, _)| *other == stamp) {
            Some((_, since)) if now.duration_since(*since) >= limit => {
                let bytecode = || RunningThread { thread: 0, function: String::new(), record: None };
                return Some(thread.unwrap_or_else(bytecode));
            }
            Some(_) => {}
            None => busy.push((stamp, now)),
        }
    }
    None
}

/// The error of a thread that runs bytecode, which has no id here, or a kernel.
fn late(thread: &RunningThread, limit: Duration) -> Error {
    let what = match thread.thread {
        0 => "the program's bytecode".into(),
        _ => named(thread),
    };
    let message = format!("{what} has not ended within {} seconds", limit.as_secs_f64());
    with_record(Error::new(StatusCode::DeadlineExceeded, message), thread)
}

fn named(thread: &RunningThread) -> String {
    match &*thread.function {
        "" => "a function".into(),
        name => format!("function '{name}'"),
    }
}

/// The error with the record that the thread replayed.
fn with_record(error: Error, thread: &RunningThread) -> Error {
    match &thread.record {
        Some(record) => error.context(record.clone()),
        None => error,
    }
}

/// The kernels that threads of the copy ran when it ended or, if none ran one, their last ones.
struct Kernels {
    threads: Vec<RunningThread>,
    are_running: bool,
}

impl Kernels {
    fn of(black_box: Option<&BlackBox>) -> Self {
        let running = black_box.map_or_else(Vec::new, BlackBox::running);
        let are_running = !running.is_empty();
        let threads = if are_running { running } else { black_box.map_or_else(Vec::new, BlackBox::last) };
        Self { threads, are_running }
    }
}

/// The error if the copy ended before its work was done.
fn ended_early(end: JobEnd, kernels: &Kernels) -> Error {
    /// That of a panic in Rust.
    const PANIC: JobEnd = JobEnd::Exited(PANICKED);
    const KILLED: JobEnd = JobEnd::Signaled(libc::SIGKILL);
    let is_known = kernels.are_running || !matches!(end, PANIC | KILLED);
    let threads = if is_known { &kernels.threads[..] } else { &[] };
    let names: BTreeSet<_> = threads.iter().map(named).collect();
    let names: Vec<_> = names.into_iter().collect();
    let relation = if kernels.are_running { "in" } else { "after" };
    let place = if names.is_empty() { String::new() } else { format!(", {relation} {}", names.join(" or ")) };
    let name = match end {
        // After the clause that says why.
        KILLED => ",".to_owned(),
        JobEnd::Signaled(signal) => signal_name(signal).map_or_else(String::new, |it| format!(" ({it})")),
        _ => String::new(),
    };
    let message = format!("the process ended {end}{name} before its work was done{place}");
    let error = Error::new(StatusCode::Aborted, message);
    let error = match threads.first() {
        Some(thread) => with_record(error, thread),
        None => error,
    };
    match end {
        PANIC | KILLED => error,
        _ if kernels.are_running => {
            error.advise("a kernel returns a status instead of ending the process: correct the kernel")
        }
        _ if !threads.is_empty() => error.advise(
            "a kernel that writes outside of its bindings, or that changes the state of its process, can end it \
             later: a verification names one that writes",
        ),
        _ => error,
    }
}
