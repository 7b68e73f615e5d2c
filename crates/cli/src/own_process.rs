//! Copies of this process for work that runs kernels, which may end their process in any way.
//!
//! A kernel that calls `_exit(0)` would otherwise have the exit status of one that is right.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::parent_id;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};

use rehal_base::{Error, Result, StatusCode};
use rehal_session::Worker;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process,
    set_parent_process_death_signal, setrlimit, waitid,
};
use signal_hook::low_level::emulate_default_handler;

use crate::{advice, interrupts, output};

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

/// Does the work of a tool in a copy of this process, which says with which status it is about to end: otherwise a kernel that calls
/// `_exit(0)` would have an exit status that says that all went well. This process passes signals on, and ends as the copy does.
///
/// To be called before any thread is started. Ctrl-C on a terminal reaches the copy twice, from the terminal and by this process: it must
/// not use [`interrupts::flag`], whose second signal ends the process.
pub(crate) fn supervise(work: impl FnOnce() -> Result<u8>) -> Result<u8> {
    let cannot = |error: io::Error| Error::io("starting a process for kernels", &error);
    let pipe = |flags| pipe_with(PipeFlags::CLOEXEC | flags).map_err(|error| cannot(error.into()));
    // A process that a kernel has forked may keep the pipe of the status open: the reader does not wait for its end.
    let ((reader, writer), (is_ready, ready)) = (pipe(PipeFlags::NONBLOCK)?, pipe(PipeFlags::empty())?);
    let parent = process::id();
    debug_assert!(has_one_thread(), "the copy would lack the other threads");
    match fork().map_err(cannot)? {
        Some(child) => {
            drop((writer, is_ready));
            await_end(child, reader, ready)
        }
        None => {
            drop((reader, ready));
            // A signal that ends this process before it passes signals on is followed by that of its end.
            let _ = File::from(is_ready).read(&mut [0]);
            end_with(|| parent_id() == parent)?;
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
    // SAFETY: the process has no other thread, as `supervise` requires, so no lock is held by a thread that the copy lacks.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        child => Ok(Pid::from_raw(child)),
    }
}

/// Waits for the copy, which begins when `ready` is closed.
fn await_end(child: Pid, said: OwnedFd, ready: OwnedFd) -> Result<u8> {
    let cannot = |error: io::Error| Error::io("waiting for the process of kernels", &error);
    // `None` once it has been waited for: another process may get its id.
    let running = Arc::new(Mutex::new(Some(child)));
    let receiver = running.clone();
    interrupts::pass_on(move |signal| {
        if let (Some(child), Some(signal)) =
            (*receiver.lock().unwrap_or_else(PoisonError::into_inner), Signal::from_named_raw(signal))
        {
            let _ = kill_process(child, signal);
        }
    });
    drop(ready);
    let wait = |options| loop {
        match waitid(WaitId::Pid(child), options) {
            Err(rustix::io::Errno::INTR) => {}
            ended => break ended.map_err(|error| cannot(error.into())),
        }
    };
    wait(WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    *running.lock().unwrap_or_else(PoisonError::into_inner) = None;
    let Some(ended) = wait(WaitIdOptions::EXITED)? else {
        return Err(cannot(io::ErrorKind::NotFound.into()));
    };
    let mut said_status = [0];
    let is_said = File::from(said).read(&mut said_status).is_ok_and(|count| count == 1);
    match ended.exit_status() {
        Some(status) if is_said && status == i32::from(said_status[0]) => Ok(said_status[0]),
        _ => Err(ended_early(&ended)),
    }
}

/// The error if the copy has ended before its work was done. If a signal has ended it, that ends this process as well.
fn ended_early(ended: &WaitIdStatus) -> Error {
    /// That of a panic in Rust.
    const PANIC: i32 = 101;
    let early = |how: String| {
        Error::new(StatusCode::Aborted, format!("the process ended {how} before its work was done"))
    };
    match (ended.exit_status(), ended.terminating_signal()) {
        (Some(PANIC), _) => early(format!("with status {PANIC}")),
        (Some(code), _) => early(format!("with status {code}"))
            .advise("a kernel returns a status instead of ending the process: correct the kernel"),
        (None, Some(libc::SIGKILL)) => early("by signal 9, as when the machine has no memory left,".into()),
        (None, signal) => {
            let signal = signal.unwrap_or_default();
            // The copy may have left a core dump.
            let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
            let _ = emulate_default_handler(signal);
            early(format!("by signal {signal}"))
        }
    }
}
