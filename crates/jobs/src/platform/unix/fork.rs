//! Copies of this process for work that runs kernels, which may end their process in any way.
//!
//! A kernel that calls `_exit(0)` would otherwise have the exit status of one that is right.

mod process_copy;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ffi::c_int;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::parent_id;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use rehal_base::{Error, Result, StatusCode};
use rehal_crash::{BlackBox, HeldSignals, RunningThread};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitIdOptions, setrlimit};
use serde::Serialize;
use serde::de::DeserializeOwned;
use signal_hook::low_level::{emulate_default_handler, raise, signal_name};

use self::process_copy::{Kernels, ProcessCopy, Stuck};
use crate::JobEnd;
use crate::platform::group::forget_watchdog;
use crate::platform::interrupts::{self, PassedOn};
use crate::platform::{DESCRIPTORS, end_with_parent};

/// The longest time of a copy without progress, unless a user knows better.
pub const PROGRESS_TIME: Duration = Duration::from_secs(60);

/// The exit status of a process that panicked.
const PANICKED: i32 = 101;

/// Ends this process by SIGTERM when its parent ends, so that temporary files are removed.
fn end_with(is_child: impl FnOnce() -> bool) -> Result<()> {
    end_with_parent(Signal::TERM)
        .map_err(|error| Error::io("asking for the signal of the parent's end", &error))?;
    // It may have ended before.
    match is_child() {
        true => Ok(()),
        false => Err(Error::new(StatusCode::Aborted, "the process that started this one has ended")),
    }
}

/// How the copy of a process ended that did work.
#[derive(Clone, Copy, Debug)]
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
/// remove, and later ones; it kills a copy that does not end by them. `report` gets the error of a signal
/// that ends the copy. One that makes no progress for longer than `limit`, zero for none, is ended: a kernel,
/// or bytecode that calls nothing, or anything else that neither says what it runs nor accesses files.
///
/// Fails before anything runs if this process has another thread than that of [`interrupts`].
pub fn supervise<T: Serialize + DeserializeOwned>(
    held: HeldSignals,
    work: impl FnOnce() -> Result<T>,
    limit: Duration,
    report: fn(&Error),
) -> Result<CopyEnd<T>> {
    let cannot = |error: io::Error| Error::io("starting a process for kernels", &error);
    let pipe =
        || io::pipe().map(|(reader, writer)| (OwnedFd::from(reader), OwnedFd::from(writer))).map_err(cannot);
    // A process that a kernel has forked may keep the pipe of the status open: the reader does not wait for
    // its end.
    let ((reader, writer), (answer, answering)) = (pipe()?, pipe()?);
    rustix::io::ioctl_fionbio(&reader, true).map_err(|error| cannot(error.into()))?;
    let parent = process::id();
    // Without it, an error does not name the kernel.
    let running = BlackBox::create().ok();
    interrupts::release();
    if !has_one_thread() {
        return Err(cannot(io::Error::other("this process has several threads, which the copy would lack")));
    }
    match fork().map_err(cannot)? {
        Some(child) => {
            drop((writer, answering));
            let signals = PassedOn::new().map_err(cannot)?;
            drop(held);
            let mut copy = ProcessCopy::new(child, signals, answer.into(), running);
            let ended = await_end(&mut copy, reader, limit, report);
            let answered = copy.take_answer();
            // Signals are swallowed otherwise.
            drop(copy);
            interrupts::handle();
            match ended? {
                CopyEnd::Exited(0) => Ok(CopyEnd::Done(read_answer(&answered)??)),
                CopyEnd::Exited(status) => Ok(CopyEnd::Exited(status)),
                CopyEnd::Signaled(signal) => Ok(CopyEnd::Signaled(signal)),
                CopyEnd::Done(never) => match never {},
            }
        }
        None => {
            drop((reader, answer));
            // What this process owns, such as temporary files, is not the copy's: it returns to no caller.
            rehal_crash::forget_removals();
            let ended = catch_unwind(AssertUnwindSafe(|| {
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

/// Threads of an emulator that runs this process, in which none of this program's code runs.
static EMULATOR_THREADS: AtomicUsize = AtomicUsize::new(0);

/// Notes the threads that the process has before it starts any. To be called first in `main`.
#[allow(unsafe_code, reason = "reads a variable of the C library; see docs/unsafe.md")]
pub fn note_emulator_threads() {
    let count = thread_count().unwrap_or(1);
    if count == 1 {
        return;
    }
    // A library that is loaded before may have started threads, which hold locks: the C library knows these.
    // SAFETY: the name is a string, and the variable is a byte that another thread may change.
    let is_single = unsafe {
        let variable = libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr());
        variable.cast::<AtomicU8>().as_ref().is_some_and(|it| it.load(Ordering::Relaxed) != 0)
    };
    if is_single {
        EMULATOR_THREADS.store(count - 1, Ordering::Relaxed);
    }
}

/// Whether the other threads, if any, are those of an emulator, or idle ones that the copy does without.
fn has_one_thread() -> bool {
    let others = EMULATOR_THREADS.load(Ordering::Relaxed) + rehal_base::parallel::thread_count();
    let is_alone = || thread_count().is_none_or(|count| count <= 1 + others);
    // The system lists threads that have been joined for a moment.
    let mut looks = (0..1000).map(|_| std::thread::sleep(Duration::from_millis(1)));
    is_alone() || looks.any(|()| is_alone())
}

/// The number of threads of this process; `None` without `/proc`.
fn thread_count() -> Option<usize> {
    let threads = fs::metadata("/proc/self/task").ok()?;
    // Each is a directory in it, and so has a link to it.
    match threads.nlink() {
        links @ 3.. => Some(links as usize - 2),
        _ => Some(fs::read_dir("/proc/self/task").ok()?.count()),
    }
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

/// Closes descriptors that this process has inherited, but for those that are `kept`, and empties standard
/// input: rehal opens its own with `FD_CLOEXEC`, which no inherited one has.
#[allow(unsafe_code, reason = "closes descriptors; see docs/unsafe.md")]
pub(crate) fn close_inherited(kept: &[i32]) -> io::Result<()> {
    let named = fs::read_dir(DESCRIPTORS)?.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
    let open: Vec<i32> = named.filter(|it| *it > libc::STDERR_FILENO && !kept.contains(it)).collect();
    for descriptor in open {
        // SAFETY: the calls touch no memory, and nothing of this process owns a descriptor without the flag.
        unsafe {
            if libc::fcntl(descriptor, libc::F_GETFD) == 0 {
                libc::close(descriptor);
            }
        }
    }
    if !kept.contains(&libc::STDIN_FILENO) {
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    }
    Ok(())
}

/// Waits for the copy.
fn await_end(
    copy: &mut ProcessCopy,
    said: OwnedFd,
    limit: Duration,
    report: fn(&Error),
) -> Result<CopyEnd<Infallible>> {
    let cannot = |error: io::Error| Error::io("waiting for the process of kernels", &error);
    let stuck = copy.await_stuck(limit);
    let Some(ended) = copy.wait(WaitIdOptions::EXITED).map_err(cannot)? else {
        return Err(cannot(io::ErrorKind::NotFound.into()));
    };
    // The status of the work, and that of a signal which the copy has reported after it.
    let mut said_statuses = [0; 16];
    let count = File::from(said).read(&mut said_statuses).unwrap_or(0);
    let said_status = said_statuses[..count].last().copied();
    let kernels = copy.kernels();
    // One that has a status has ended by itself in the meantime.
    if let Some(stuck) = stuck.filter(|_| ended.exit_status().is_none()) {
        return Err(stuck_error(stuck, &kernels, limit));
    }
    match (ended.exit_status(), ended.terminating_signal()) {
        // A kernel may have said that all went well.
        (Some(0), _) if kernels.are_running => Err(ended_early(JobEnd::Exited(0), &kernels)),
        (Some(status), _) if said_status.map(i32::from) == Some(status) => Ok(CopyEnd::Exited(status as u8)),
        (Some(status), _) => Err(ended_early(JobEnd::Exited(status), &kernels)),
        (None, Some(libc::SIGKILL)) => match copy.killed_after() {
            Some(signal) => {
                let message = format!("captured code did not end by the signal{}", place_of(&kernels));
                report(&Error::new(StatusCode::Cancelled, message));
                Ok(CopyEnd::Signaled(signal))
            }
            None => Err(ended_early(JobEnd::Signaled(libc::SIGKILL), &kernels)),
        },
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

/// The error of a copy that was ended.
fn stuck_error(stuck: Stuck, kernels: &Kernels, limit: Duration) -> Error {
    let (did, instead) = match stuck {
        Stuck::Stopped => ("stopped its process", "stopping the process"),
        Stuck::Ended => ("ended its thread", "ending its thread"),
        Stuck::Late => {
            let what =
                if kernels.are_running { "a kernel has not ended" } else { "captured code made no progress" };
            let message = format!("{what} within {} seconds{}", limit.as_secs_f64(), place_of(kernels));
            return with_record(Error::new(StatusCode::DeadlineExceeded, message), kernels);
        }
    };
    let error = Error::new(StatusCode::Aborted, format!("a kernel {did}{}", place_of(kernels)));
    with_record(error, kernels)
        .advise(format!("a kernel returns a status instead of {instead}: correct the kernel"))
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

/// The functions that ran, or have run last, as they follow a clause; empty if none is known.
fn place_of(kernels: &Kernels) -> String {
    let named = |it: &RunningThread| match &*it.function {
        "" => "a function".into(),
        name => format!("function '{name}'"),
    };
    let names: BTreeSet<_> = kernels.threads.iter().map(named).collect();
    let names: Vec<_> = names.into_iter().collect();
    let relation = if kernels.are_running { "in" } else { "after" };
    if names.is_empty() { String::new() } else { format!(", {relation} {}", names.join(" or ")) }
}

/// The error with the record that the first of the threads replayed.
fn with_record(error: Error, kernels: &Kernels) -> Error {
    match kernels.threads.first().and_then(|thread| thread.record.clone()) {
        Some(record) => error.context(record),
        None => error,
    }
}

/// The error if the copy ended before its work was done.
fn ended_early(end: JobEnd, kernels: &Kernels) -> Error {
    /// That of a panic in Rust.
    const PANIC: JobEnd = JobEnd::Exited(PANICKED);
    const KILLED: JobEnd = JobEnd::Signaled(libc::SIGKILL);
    let is_known = kernels.are_running || !matches!(end, PANIC | KILLED);
    let place = if is_known { place_of(kernels) } else { String::new() };
    let name = match end {
        // After the clause that says why.
        KILLED => ",".to_owned(),
        JobEnd::Signaled(signal) => signal_name(signal).map_or_else(String::new, |it| format!(" ({it})")),
        _ => String::new(),
    };
    let message = format!("the process ended {end}{name} before its work was done{place}");
    let error = Error::new(StatusCode::Aborted, message);
    let error = if is_known { with_record(error, kernels) } else { error };
    match end {
        PANIC | KILLED => error,
        _ if kernels.are_running => {
            error.advise("a kernel returns a status instead of ending the process: correct the kernel")
        }
        _ if !kernels.threads.is_empty() => error.advise(
            "a kernel that writes outside of its bindings, or that changes the state of its process, can end it \
             later: a verification names one that writes",
        ),
        _ => error,
    }
}
