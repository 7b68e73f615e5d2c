//! Ends the process when a dispatch runs for too long, and says what the threads of an interrupted process
//! run.

use std::cell::OnceCell;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rehal_base::{Error, Result, StatusCode};

use crate::report::{self, Interruption};
use crate::{guard, platform};

/// How long a dispatch may run on a thread in nanoseconds; 0 for any time.
static LIMIT_NS: AtomicU64 = AtomicU64::new(0);

/// The threads that have run dispatches since there is a limit.
static SLOTS: Mutex<Vec<Arc<Slot>>> = Mutex::new(Vec::new());

/// Whether a thread that is interrupted says what it runs and ends the process, and not only the former.
static ENDS: AtomicBool = AtomicBool::new(false);
/// Whether a thread has said so: one is enough.
static HAS_SAID: AtomicBool = AtomicBool::new(false);
/// The number of threads that have handled an interruption.
static HANDLED: AtomicU32 = AtomicU32::new(0);

struct Slot {
    thread: i32,
    /// When the thread began the dispatch that it runs, by [`now_ns`]; 0 if it runs none.
    since_ns: AtomicU64,
}

/// Ends the process, after a message that names the dispatch and once captures and profiles are written, when
/// a dispatch runs for longer than this on a thread, as a kernel that never ends does. Of several limits, the
/// least counts. Fails if the program has not [installed](crate::install) the guard, or no thread can be
/// started.
pub fn end_after(limit: Duration) -> Result<()> {
    if !guard::is_installed() {
        let message = "a timeout of dispatches ends the process, which this program has not allowed";
        let advice = "install crash reports before creating the device, or create it without a timeout";
        return Err(Error::new(StatusCode::FailedPrecondition, message).advise(advice));
    }
    static IS_WATCHED: Mutex<bool> = Mutex::new(false);
    let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX).max(1);
    let lower = |now: u64| (now == 0 || limit_ns < now).then_some(limit_ns);
    let mut is_watched = IS_WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*is_watched {
        let spawned = thread::Builder::new().name("rehal-watchdog".into()).spawn(watch);
        spawned.map_err(|error| {
            Error::io("starting the thread that ends the process after a timeout", &error)
        })?;
        *is_watched = true;
    }
    let _ = LIMIT_NS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
    Ok(())
}

/// Nanoseconds since the first call, and more than 0.
fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}

/// While it lives, the calling thread runs workgroups of a dispatch, or code of an executable that is loaded.
pub struct Timed {
    previous_ns: u64,
}

thread_local! {
    static SLOT: OnceCell<Registered> = const { OnceCell::new() };
}

struct Registered(Arc<Slot>);

impl Registered {
    fn new() -> Self {
        let slot = Arc::new(Slot { thread: platform::thread_id(), since_ns: AtomicU64::new(0) });
        SLOTS.lock().unwrap_or_else(PoisonError::into_inner).push(slot.clone());
        Self(slot)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        SLOTS.lock().unwrap_or_else(PoisonError::into_inner).retain(|it| !Arc::ptr_eq(it, &self.0));
    }
}

impl Timed {
    /// Returns `None` without a limit.
    #[inline]
    pub fn begin() -> Option<Self> {
        if LIMIT_NS.load(Ordering::Relaxed) == 0 { None } else { Self::begin_now() }
    }

    #[cold]
    fn begin_now() -> Option<Self> {
        let begin = |slot: &OnceCell<Registered>| {
            slot.get_or_init(Registered::new).0.since_ns.swap(now_ns(), Ordering::Relaxed)
        };
        let previous_ns = SLOT.try_with(begin).ok()?;
        Some(Self { previous_ns })
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        let _ = SLOT.try_with(|slot| {
            if let Some(slot) = slot.get() {
                slot.0.since_ns.store(self.previous_ns, Ordering::Relaxed);
            }
        });
    }
}

/// The thread of [`end_after`].
fn watch() {
    loop {
        let limit_ns = LIMIT_NS.load(Ordering::Relaxed);
        let step = Duration::from_nanos(limit_ns / 16);
        thread::sleep(step.clamp(Duration::from_millis(1), Duration::from_millis(100)));
        if limit_ns == 0 {
            continue;
        }
        let now = now_ns();
        let is_over = |slot: &&Arc<Slot>| {
            let since = slot.since_ns.load(Ordering::Relaxed);
            since != 0 && now.saturating_sub(since) >= limit_ns
        };
        let over = SLOTS.lock().unwrap_or_else(PoisonError::into_inner).iter().find(is_over).cloned();
        if let Some(slot) = over {
            end(&slot, Duration::from_nanos(limit_ns));
        }
    }
}

/// Has the thread end the process; returns if its dispatch has ended in the meantime.
fn end(slot: &Slot, limit: Duration) {
    let since = slot.since_ns.load(Ordering::Relaxed);
    ENDS.store(true, Ordering::Release);
    // It may be between two workgroups, and not say what it runs.
    for _ in 0..100 {
        if slot.since_ns.load(Ordering::Relaxed) != since {
            ENDS.store(false, Ordering::Release);
            return;
        }
        platform::interrupt_thread(slot.thread);
        thread::sleep(Duration::from_millis(10));
    }
    // It blocks signals.
    report::end_unknown(&Interruption::Timeout(limit));
}

/// Says on standard error what the threads of this process run, as far as they run kernels: for a program
/// that is about to end. Without effect if it has not [installed](crate::install) the guard.
pub fn describe_running() {
    if !guard::is_installed() {
        return;
    }
    let own = platform::thread_id();
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let threads = threads.filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    let sent = threads.filter(|it| *it != own && platform::interrupt_thread(*it)).count() as u32;
    // A thread that blocks signals does not answer.
    for _ in 0..100 {
        if HANDLED.load(Ordering::Acquire) >= sent {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// In the handler of a signal to this thread: see [`report`].
pub(crate) fn handle(instruction: usize) {
    if ENDS.load(Ordering::Acquire) {
        let limit = Duration::from_nanos(LIMIT_NS.load(Ordering::Relaxed));
        report::end_interrupted(&Interruption::Timeout(limit), instruction);
    } else if !HAS_SAID.load(Ordering::Acquire)
        && let Some(text) = report::interrupted(&Interruption::Signal, instruction)
        && !HAS_SAID.swap(true, Ordering::AcqRel)
    {
        platform::write_stderr(text.bytes());
    }
    HANDLED.fetch_add(1, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_has_not_installed_the_guard_cannot_have_a_timeout() {
        // No test of this crate installs it.
        let error = end_after(Duration::from_secs(1)).unwrap_err();
        assert_eq!(error.code(), StatusCode::FailedPrecondition);
        assert!(error.report().contains("install crash reports"), "{}", error.report());
        assert_eq!(LIMIT_NS.load(Ordering::Relaxed), 0);
    }
}
