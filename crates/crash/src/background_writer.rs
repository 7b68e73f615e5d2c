use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Most writers that a crash waits for: those of a process are a few.
const MOST_WRITERS: usize = 16;

/// Of each writer, 1 and the flushes that it has completed; 0 if there is none.
static WRITERS: [AtomicU64; MOST_WRITERS] = [const { AtomicU64::new(0) }; MOST_WRITERS];

/// While it lives, a thread writes to a file in the background what other threads of the process make, and
/// flushes it several times in a second: the report of a crash waits for that before it ends the process.
#[derive(Debug)]
pub struct BackgroundWriter {
    /// `None` if there are too many.
    writer: Option<&'static AtomicU64>,
}

impl BackgroundWriter {
    /// A thread begins.
    #[expect(clippy::new_without_default, reason = "it has an effect on the process")]
    pub fn new() -> Self {
        let is_taken =
            |it: &AtomicU64| it.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        Self { writer: WRITERS.iter().find(|it| is_taken(it)) }
    }

    /// The thread has written all that had been made when it was last told to flush.
    pub fn flushed(&self) {
        if let Some(writer) = self.writer {
            writer.fetch_add(1, Ordering::Release);
        }
    }

    /// Waits until what was made before is written, or for a fraction of a second: a writer may need what the
    /// calling thread has locked. For signal handlers: it neither allocates nor locks.
    pub fn await_all() {
        const STEP: Duration = Duration::from_millis(10);
        const MOST_STEPS: u32 = 40;
        let enough = enough_flushes();
        for _ in 0..MOST_STEPS {
            if have_flushed(&enough) {
                return;
            }
            std::thread::sleep(STEP);
        }
    }
}

/// The count of each writer when it has written what was made before. The first flush that is completed from
/// now on may have begun before.
fn enough_flushes() -> [u64; MOST_WRITERS] {
    WRITERS.each_ref().map(|it| it.load(Ordering::Acquire) + 2)
}

/// Whether each writer that there is has reached its count: one may flush many times while another does once.
fn have_flushed(enough: &[u64; MOST_WRITERS]) -> bool {
    let mut writers = WRITERS.iter().zip(enough).map(|(it, enough)| (it.load(Ordering::Acquire), enough));
    writers.all(|(flushes, enough)| flushes == 0 || flushes >= *enough)
}

impl Drop for BackgroundWriter {
    fn drop(&mut self) {
        if let Some(writer) = self.writer {
            writer.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_waits_for_two_flushes_of_each_writer() {
        let (often, rarely) = (BackgroundWriter::new(), BackgroundWriter::new());
        let enough = enough_flushes();
        (0..10).for_each(|_| often.flushed());
        assert!(!have_flushed(&enough));
        rarely.flushed();
        assert!(!have_flushed(&enough));
        rarely.flushed();
        assert!(have_flushed(&enough));
        drop((often, rarely));
        assert!(have_flushed(&enough_flushes()), "there is none");
    }
}
