//! The copy of this process, until it has ended.
//!
//! It runs code that may change whatever the copy says, so that this process decides by its own clock, and by
//! what the system says, when the copy has to end: after a signal of the user, or if it makes no progress.

use std::ffi::c_int;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use rehal_crash::{BlackBox, RunningThread};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, waitid};

use crate::platform::CALLS_ON_FILES;
use crate::platform::interrupts::{self, PassedOn};

/// Most bytes of the answer of a copy.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// How often the process is looked at.
const STEP: Duration = Duration::from_millis(200);
/// How long a process may take to end: it removes its temporary files, and its last thread frees its memory.
const END: Duration = Duration::from_secs(5);

/// The process of the copy, until it has been waited for: another process may get its id then.
pub(super) struct ProcessCopy {
    id: Pid,
    signals: PassedOn,
    signaled: Option<Signaled>,
    /// The signal of the user after which it was killed.
    killed_after: Option<c_int>,
    /// The pipe of its answer; `None` once all is read.
    answer: Option<File>,
    answered: Vec<u8>,
    black_box: Option<&'static BlackBox>,
    /// The kernels that it ran at the last look at which it ran any.
    seen: Kernels,
}

/// Signals of the user to a copy.
struct Signaled {
    signal: c_int,
    first: Instant,
    last: Instant,
    /// The progress at the first look after the first one.
    progress: Option<u64>,
}

/// The kernels that threads of a copy run or, if none runs one, their last ones.
#[derive(Clone, Default)]
pub(super) struct Kernels {
    pub(super) threads: Vec<RunningThread>,
    pub(super) are_running: bool,
}

impl Kernels {
    fn of(black_box: &BlackBox) -> Self {
        let running = black_box.running();
        let are_running = !running.is_empty();
        Self { threads: if are_running { running } else { black_box.last() }, are_running }
    }
}

/// Why a copy was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stuck {
    /// It has been stopped, which a debugger does differently.
    Stopped,
    /// A thread that ran a kernel has ended, or the first one.
    Ended,
    /// It has made no progress for longer than the limit.
    Late,
}

impl ProcessCopy {
    pub(super) fn new(
        id: Pid,
        signals: PassedOn,
        answer: File,
        black_box: Option<&'static BlackBox>,
    ) -> Self {
        Self {
            id,
            signals,
            signaled: None,
            killed_after: None,
            answer: Some(answer),
            answered: Vec::new(),
            black_box,
            seen: Kernels::default(),
        }
    }

    pub(super) fn wait(&self, options: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
        loop {
            match waitid(WaitId::Pid(self.id), options) {
                Err(rustix::io::Errno::INTR) => {}
                ended => return Ok(ended?),
            }
        }
    }

    /// The signal of the user after which it was killed, since it did not end by it.
    pub(super) fn killed_after(&self) -> Option<c_int> {
        self.killed_after
    }

    /// The kernels that it runs, or has run last: those that it says, or else those that it said before.
    pub(super) fn kernels(&self) -> Kernels {
        let said = self.black_box.map_or_else(Kernels::default, Kernels::of);
        if said.threads.is_empty() { self.seen.clone() } else { said }
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
    pub(super) fn take_answer(&mut self) -> Vec<u8> {
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
            let signals: Vec<_> = self.signals.take().collect();
            for (signal, is_its_own) in signals {
                if !is_its_own {
                    self.signal(signal);
                }
                let now = Instant::now();
                let first = Signaled { signal, first: now, last: now, progress: None };
                self.signaled.get_or_insert(first).last = now;
            }
            if self.has_ended() {
                return true;
            }
        }
    }

    fn signal(&self, signal: c_int) {
        let _ = Signal::from_named_raw(signal).map(|signal| kill_process(self.id, signal));
    }

    /// Has a signal of the user end it, which code may ignore or block, and for which tools complete a
    /// result. What runs the same for a second gets the signal again, and is killed after another second. So
    /// is what has not ended a second after the user's second signal, or after ten seconds.
    fn enforce_signals(&mut self, is_busy: bool) {
        const SECOND: Duration = Duration::from_secs(1);
        let progress = self.progress();
        let Some(signaled) = &mut self.signaled else { return };
        let is_same = is_busy && *signaled.progress.get_or_insert(progress) == progress;
        let is_second = signaled.last - signaled.first > interrupts::SAME_SIGNAL;
        let (signal, since) = (signaled.signal, signaled.first.elapsed());
        if since >= 10 * SECOND
            || is_same && since >= 2 * SECOND
            || is_second && signaled.last.elapsed() >= SECOND
        {
            self.killed_after = Some(signal);
            let _ = kill_process(self.id, Signal::KILL);
        } else if is_same && since >= SECOND {
            self.signal(signal);
        }
    }

    fn progress(&self) -> u64 {
        self.black_box.map_or(0, BlackBox::progress)
    }

    /// Waits until it ends. Ends it if it is stuck, or exceeds the limit, and returns why.
    pub(super) fn await_stuck(&mut self, limit: Duration) -> Option<Stuck> {
        /// How many looks in a row find a stopped process: a shell stops and continues both processes, and
        /// not at exactly the same time.
        const STOPS: u32 = 10;
        // It may have been killed before its signal could be received.
        if self.has_ended() {
            return None;
        }
        let mut stops = 0;
        let mut progress = Progress::new(self.id);
        let stuck = loop {
            if self.ends_within(STEP) {
                return None;
            }
            let running = self.black_box.map_or_else(Vec::new, BlackBox::running);
            let is_busy = !running.is_empty() || self.black_box.is_some_and(BlackBox::runs_bytecode);
            self.enforce_signals(is_busy);
            if !running.is_empty() {
                self.seen = Kernels { threads: running.clone(), are_running: true };
            }
            let first = state_of(self.id, self.id.as_raw_pid());
            let ended = running.into_iter().find(|it| has_ended(state_of(self.id, it.thread as i32)));
            if ended.is_some() || has_ended(first) {
                if self.ends_within(END) {
                    return None;
                }
                // The thread was not in the middle of its own end.
                if ended.is_none_or(|it| self.black_box.is_some_and(|all| all.running().contains(&it))) {
                    break Stuck::Ended;
                }
            }
            stops = if first == 'T' { stops + 1 } else { 0 };
            if stops >= STOPS {
                break Stuck::Stopped;
            }
            if !limit.is_zero() && progress.is_late(first, self.progress(), is_busy, limit) {
                break Stuck::Late;
            }
        };
        // A process that is stopped receives nothing else.
        let first = if stuck == Stuck::Stopped { Signal::KILL } else { Signal::TERM };
        let _ = kill_process(self.id, first);
        if !self.ends_within(END) {
            let _ = kill_process(self.id, Signal::KILL);
        }
        Some(stuck)
    }
}

/// The state of a thread, as the system shows it: `Z` also of one that has no entry in `/proc` any more.
fn state_of(process: Pid, thread: i32) -> char {
    match fs::read_to_string(format!("/proc/{}/task/{thread}/stat", process.as_raw_pid())) {
        // The state follows the name, which may contain anything.
        Ok(text) => text.rsplit(')').next().and_then(|it| it.trim_start().chars().next()).unwrap_or_default(),
        Err(error) if error.kind() == io::ErrorKind::NotFound && Path::new("/proc/self").exists() => 'Z',
        Err(_) => '?',
    }
}

/// Whether that is a zombie's.
fn has_ended(state: char) -> bool {
    matches!(state, 'Z' | 'X')
}

/// The progress of a copy: kernels, bytecode and steps of the host that it begins, as it says; if it says
/// that none runs, also the bytes that the system has read and written for it. Code that does nothing of this
/// for longer than the limit is late, whatever it has written to shared memory.
struct Progress {
    process: Pid,
    /// The time of all looks: not that for which a shell has stopped both processes.
    watched: Duration,
    looked: Instant,
    /// The signs of progress, and since when they are the same.
    signs: (u64, String),
    since: Duration,
}

impl Progress {
    fn new(process: Pid) -> Self {
        let (signs, watched, since) = Default::default();
        Self { process, watched, looked: Instant::now(), signs, since }
    }

    fn is_late(&mut self, first: char, begun: u64, is_busy: bool, limit: Duration) -> bool {
        self.watched += self.looked.elapsed().min(2 * STEP);
        self.looked = Instant::now();
        let signs = (begun, if is_busy { String::new() } else { self.transferred() });
        let is_late = self.watched - self.since >= limit;
        // By a signal or a debugger.
        let is_stopped = matches!(first, 'T' | 't');
        if is_stopped || signs != self.signs || is_late && !is_busy && self.waits_for_file() {
            (self.signs, self.since) = (signs, self.watched);
            return false;
        }
        is_late
    }

    /// The bytes that were read and written: by calls, and by faults of mapped files.
    fn transferred(&self) -> String {
        let of = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", self.process.as_raw_pid()));
        let state = of("stat").unwrap_or_default();
        // The tenth field after the name: faults for which something was read.
        let faults = state.rsplit(')').next().and_then(|it| it.split(' ').nth(10)).unwrap_or_default();
        of("io").unwrap_or_default() + faults
    }

    /// Whether a thread waits for who reads or writes a file, such as a pager, which may take any time. It is
    /// true if the system does not say.
    fn waits_for_file(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.process.as_raw_pid()));
        let mut threads = threads.into_iter().flatten().filter_map(Result::ok);
        threads.any(|thread| match fs::read_to_string(thread.path().join("syscall")) {
            Ok(call) => call
                .split(' ')
                .next()
                .and_then(|it| it.parse().ok())
                .is_some_and(|it| CALLS_ON_FILES.contains(&it)),
            Err(error) => error.raw_os_error() != Some(libc::ESRCH),
        })
    }
}
