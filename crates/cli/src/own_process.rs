//! Copies of this process for work that runs kernels, which may end their process in any way.
//!
//! A kernel that calls `_exit(0)` would otherwise have the exit status of one that is right.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::parent_id;
use std::process;
use std::time::{Duration, Instant};

use rehal_base::{Error, Result, StatusCode};
use rehal_crash::{BlackBox, RunningThread};
use rehal_session::{JobEnd, Worker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process,
    set_parent_process_death_signal, setrlimit, waitid,
};
use signal_hook::low_level::emulate_default_handler;

use crate::interrupts::PassedOn;
use crate::{advice, output};

/// Whether a process or thread has ended. It may be a zombie, or have no entry in `/proc` any more.
fn has_ended(process: &str) -> bool {
    let state = fs::read_to_string(format!("/proc/{process}/stat"));
    match state {
        // The state follows the name, which may contain anything.
        Ok(text) => text.rsplit(')').next().is_some_and(|it| it.trim_start().starts_with(['Z', 'X'])),
        Err(error) => error.kind() == io::ErrorKind::NotFound && fs::exists("/proc/self").unwrap_or(false),
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
/// process passes signals on, and ends as the copy does.
///
/// To be called before any thread is started.
pub(crate) fn supervise(work: impl FnOnce() -> Result<u8>) -> Result<u8> {
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
            await_end(child, reader, ready, running)
        }
        None => {
            drop((reader, ready));
            // A signal that ends this process before it passes signals on is followed by that of its end.
            let _ = File::from(is_ready).read(&mut [0]);
            end_with(|| parent_id() == parent)?;
            if let Some(running) = running {
                running.enter();
            }
            say(File::from(writer), work)
        }
    }
}

/// Does the work of a tool in a worker's process: says with which status it is about to end.
pub(crate) fn announced(worker: &Worker, work: impl FnOnce() -> Result<u8>) -> Result<u8> {
    let status = worker.exit_status();
    say(File::from(status.map_err(|error| Error::io("passing an exit status", &error))?), work)
}

fn say(mut to: File, work: impl FnOnce() -> Result<u8>) -> Result<u8> {
    let cannot = |error: io::Error| Error::io("passing an exit status", &error);
    rehal_crash::announce_exits(to.try_clone().map_err(cannot)?.into());
    let status = work().unwrap_or_else(|error| {
        output::note(&advice::report(&error));
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
fn await_end(child: Pid, said: OwnedFd, ready: OwnedFd, black_box: Option<&'static BlackBox>) -> Result<u8> {
    let cannot = |error: io::Error| Error::io("waiting for the process of kernels", &error);
    let mut copy = ProcessCopy { id: child, signals: PassedOn::new().map_err(cannot)? };
    drop(ready);
    let stuck = copy.await_stuck(black_box);
    let Some(ended) = copy.wait(WaitIdOptions::EXITED).map_err(cannot)? else {
        return Err(cannot(io::ErrorKind::NotFound.into()));
    };
    let mut said_status = [0];
    let is_said = File::from(said).read(&mut said_status).is_ok_and(|count| count == 1);
    if let Some(thread) = stuck.filter(|_| !is_said) {
        let error = Error::new(StatusCode::Aborted, format!("a kernel ended its thread: {}", named(&thread)));
        return Err(with_record(error, &thread)
            .advise("a kernel returns a status instead of ending its thread: correct the kernel"));
    }
    match ended.exit_status() {
        Some(status) if is_said && status == i32::from(said_status[0]) => Ok(said_status[0]),
        _ => Err(ended_early(&ended, &black_box.map_or_else(Vec::new, BlackBox::running))),
    }
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

    /// Waits until it ends, or until one of its threads has ended in a kernel. In the second case, ends it,
    /// whose other threads would wait forever, and returns that thread.
    fn await_stuck(&mut self, black_box: Option<&BlackBox>) -> Option<RunningThread> {
        /// How often threads are looked at.
        const STEP: Duration = Duration::from_millis(200);
        /// How long a process may take to end: its last thread frees its memory.
        const END: Duration = Duration::from_secs(5);
        /// How long until it is killed: it removes its temporary files.
        const MOST: Duration = Duration::from_secs(10);
        // It may have been killed before its signal could be received.
        if self.has_ended() {
            return None;
        }
        let step = if black_box.is_some() { STEP } else { Duration::MAX };
        let stuck = loop {
            if self.ends_within(step) {
                return None;
            }
            let Some(black_box) = black_box else { continue };
            let has_ended =
                |it: &RunningThread| has_ended(&format!("{}/task/{}", self.id.as_raw_pid(), it.thread));
            if let Some(stuck) = black_box.running().into_iter().find(has_ended) {
                if self.ends_within(END) {
                    return None;
                }
                // The thread was not in the middle of its own end.
                if black_box.running().contains(&stuck) {
                    break stuck;
                }
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

/// The error if the copy ended before its work was done; `running` are the kernels that it ran then. If a
/// signal ended the copy, it ends this process as well.
fn ended_early(ended: &WaitIdStatus, running: &[RunningThread]) -> Error {
    /// That of a panic in Rust.
    const PANIC: i32 = 101;
    let end = match (ended.exit_status(), ended.terminating_signal()) {
        (Some(code), _) => JobEnd::Exited(code),
        (None, signal) => JobEnd::Signaled(signal.unwrap_or_default()),
    };
    let early = || {
        let kernels: BTreeSet<_> = running.iter().map(named).collect();
        let kernels: Vec<_> = kernels.into_iter().collect();
        let place = if kernels.is_empty() { String::new() } else { format!(", in {}", kernels.join(" or ")) };
        // After the clause that says why.
        let comma = if end == JobEnd::Signaled(libc::SIGKILL) { "," } else { "" };
        let message = format!("the process ended {end}{comma} before its work was done{place}");
        let error = Error::new(StatusCode::Aborted, message);
        match running.first() {
            Some(thread) => with_record(error, thread),
            None => error,
        }
    };
    match end {
        JobEnd::Exited(code) if code != PANIC => {
            early().advise("a kernel returns a status instead of ending the process: correct the kernel")
        }
        JobEnd::Signaled(signal) if signal != libc::SIGKILL => {
            // The copy may have left a core dump.
            let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
            let _ = emulate_default_handler(signal);
            early()
        }
        _ => early(),
    }
}
