use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The number of writers, and of flushes that any of them has completed.
static WRITERS: AtomicUsize = AtomicUsize::new(0);
static FLUSHES: AtomicU64 = AtomicU64::new(0);

/// While it lives, a thread writes to a file in the background what other threads of the process make, and flushes it several times in a
/// second: the report of a crash waits for that before it ends the process.
#[derive(Debug)]
pub struct BackgroundWriter(());

impl BackgroundWriter {
    /// A thread begins.
    #[expect(clippy::new_without_default, reason = "it has an effect on the process")]
    pub fn new() -> Self {
        WRITERS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }

    /// The thread has written all that had been made when it was last told to flush.
    pub fn flushed(&self) {
        FLUSHES.fetch_add(1, Ordering::Release);
    }

    /// Waits until what was made before is written, or for a fraction of a second: a writer may need what the calling thread has locked.
    /// For signal handlers: it neither allocates nor locks.
    pub fn await_all() {
        const STEP: Duration = Duration::from_millis(10);
        const MOST_STEPS: u32 = 40;
        let writers = WRITERS.load(Ordering::Relaxed) as u64;
        if writers == 0 {
            return;
        }
        // The first flush that is completed from now on may have begun before.
        let enough = FLUSHES.load(Ordering::Acquire) + 2 * writers;
        for _ in 0..MOST_STEPS {
            if FLUSHES.load(Ordering::Acquire) >= enough {
                return;
            }
            std::thread::sleep(STEP);
        }
    }
}

impl Drop for BackgroundWriter {
    fn drop(&mut self) {
        WRITERS.fetch_sub(1, Ordering::Relaxed);
    }
}
