//! Copies of this process for work that runs kernels, which may end their process in any way.
//!
//! A kernel that calls `_exit(0)` would otherwise have the exit status of one that is right.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::parent_id;
use std::path::Path;
use std::process;
use std::time::{Duration, Instant};

use rehal_base::{Error, Result, StatusCode};
use rehal_crash::{BlackBox, RunningThread};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process,
    set_parent_process_death_signal, setrlimit, waitid,
};
use signal_hook::low_level::{emulate_default_handler, raise, signal_name};

use crate::interrupts::PassedOn;
use crate::{JobEnd, Worker};

/// The state of a thread that runs a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadState {
    Lives,
    /// A signal has stopped it, which a debugger does differently.
    Stopped,
    /// It may be a zombie, or have no entry in `/proc` any more.
    Ended,
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

/// Does the work of a tool in a copy of this process, which says with which status it is about to end:
/// otherwise a kernel that calls `_exit(0)` would have an exit status that says that all went well. This
/// process passes signals on, and ends as the copy does. `report` gets the error of the work in the copy, and
/// in this process that of a signal which ended the copy.
///
/// To be called before any thread is started.
pub fn supervise(work: impl FnOnce() -> Result<u8>, report: fn(&Error)) -> Result<u8> {
    let cannot = |error: io::Error| Error::io("starting a process for kernels", &error);
    let pipe = |flags| pipe_with(PipeFlags::CLOEXEC | flags).map_err(|error| cannot(error.into()));
    // A process that a kernel has forked may keep the pipe of the status open: the reader does not wait for
    // its end.
    let ((reader, writer), (is_ready, ready)) = (pipe(PipeFlags::NONBLOCK)?, pipe(PipeFlags::empty())?);
    let parent = process::id();
    // Without it, an error does not name the kernel.
    let running = BlackBox::create().ok();
    if !has_one_thread() {
        return Err(cannot(io::Error::other("this process has several threads, which the copy would lack")));
    }
    match fork().map_err(cannot)? {
        Some(child) => {
            drop((writer, is_ready));
            await_end(child, reader, ready, running, report)
        }
        None => {
            drop((reader, ready));
            // A signal that ends this process before it passes signals on is followed by that of its end.
            let _ = File::from(is_ready).read(&mut [0]);
            end_with(|| parent_id() == parent)?;
            if let Some(running) = running {
                running.enter();
            }
            say(File::from(writer), work, report)
        }
    }
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

fn has_one_thread() -> bool {
    fs::read_dir("/proc/self/task").map_or(true, |threads| threads.count() == 1)
}

/// The process of the copy; `None` in the copy.
#[allow(unsafe_code, reason = "copies a process that has one thread; see docs/unsafe.md")]
fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the process has no other thread, as `supervise` requires, so no lock is held by a thread that
    // the copy lacks.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        child => Ok(Pid::from_raw(child)),
    }
}

/// Waits for the copy, which begins when `ready` is closed.
fn await_end(
    child: Pid,
    said: OwnedFd,
    ready: OwnedFd,
    black_box: Option<&'static BlackBox>,
    report: fn(&Error),
) -> Result<u8> {
    let cannot = |error: io::Error| Error::io("waiting for the process of kernels", &error);
    let mut copy = ProcessCopy { id: child, signals: PassedOn::new().map_err(cannot)? };
    drop(ready);
    let stuck = copy.await_stuck(black_box);
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
        (Some(status), _) if said_status.map(i32::from) == Some(status) => Ok(status as u8),
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
            Ok(end_by(signal))
        }
    }
}

/// Ends this process by the signal that ended its copy. Returns the exit status in its place, if this process
/// ignores the signal.
fn end_by(signal: c_int) -> u8 {
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
            // A signal interrupts it as well.
            if poll(&mut [PollFd::new(self.signals.receiver(), PollFlags::IN)], left.as_ref()) == Ok(0) {
                return false;
            }
            for signal in self.signals.take() {
                let _ = Signal::from_named_raw(signal).map(|signal| kill_process(self.id, signal));
            }
            if self.has_ended() {
                return true;
            }
        }
    }

    /// Waits until it ends, or until one of its threads has ended or been stopped in a kernel. In the second
    /// case, ends it, whose other threads would wait forever, and returns that thread.
    fn await_stuck(&mut self, black_box: Option<&BlackBox>) -> Option<(RunningThread, ThreadState)> {
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
        let step = if black_box.is_some() { STEP } else { Duration::MAX };
        let mut stops = 0;
        let stuck = loop {
            if self.ends_within(step) {
                return None;
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
    const PANIC: JobEnd = JobEnd::Exited(101);
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
