//! A progress bar for operations that take longer than a second, if standard error is a terminal.
//!
//! Not a crate: the maintained ones estimate rates with `pow`, and loading libm would slow down every start
//! of every tool.

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rehal_base::plural;
use rehal_judge::{Measuring, Pulse};

/// Shorter operations show no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time between two updates.
const INTERVAL: Duration = Duration::from_millis(100);

/// Characters of the bar itself; the line fits 60 columns.
const BAR_WIDTH: u64 = 30;

/// The progress of an operation.
pub(crate) struct Progress {
    what: &'static str,
    /// `None` if nothing is shown.
    watched: Option<Watched>,
}

struct Watched {
    since: Instant,
    next_at: Instant,
    shown: bool,
}

impl Progress {
    /// Progress of `what`, if standard error is a terminal.
    pub(crate) fn new(what: &'static str) -> Self {
        let now = Instant::now();
        let watched = Watched { since: now, next_at: now + PATIENCE, shown: false };
        Self { what, watched: io::stderr().is_terminal().then_some(watched) }
    }

    /// Progress that is not shown.
    pub(crate) fn silent() -> Self {
        Self { what: "", watched: None }
    }

    /// A progress callback for captures.
    pub(crate) fn teller(mut self) -> impl FnMut(rehal_replay::dump::Progress) {
        move |it| self.set(it.done_bytes, it.total_bytes)
    }

    /// Reports `done` of `total`.
    pub(crate) fn set(&mut self, done: u64, total: u64) {
        self.show(|what, elapsed| line(what, done, total, elapsed));
    }

    /// The same, with `more` behind it.
    pub(crate) fn set_with(&mut self, done: u64, total: u64, more: impl FnOnce() -> String) {
        self.show(|what, elapsed| line(what, done, total, elapsed) + &more());
    }

    /// Reports how far a measurement is.
    fn measured(&mut self, it: Measuring) {
        const STEPS: f64 = 1000.0;
        // A report follows.
        if it.done >= 1.0 {
            return self.clear();
        }
        self.show(|what, elapsed| {
            let mut line = line(what, (it.done * STEPS) as u64, STEPS as u64, elapsed);
            line.push_str(&rate(it.sample_count, elapsed));
            line
        });
    }

    /// Reports work whose end is unknown.
    pub(crate) fn count(&mut self, count: u64, noun: &str, more: impl FnOnce() -> String) {
        self.show(|what, elapsed| {
            format!("{what:<15} {:>11}{}{}", plural(count, noun), rate(count, elapsed), more())
        });
    }

    /// Reports that something whose end is unknown takes time, `limit` at most.
    pub(crate) fn wait(&mut self, limit: Duration) {
        self.show(|what, elapsed| {
            format!("{what:<10} {} s, {} s at most", elapsed.as_secs(), limit.as_secs())
        });
    }

    /// Removes the line, so that another may be printed in its place.
    pub(crate) fn clear(&mut self) {
        if let Some(watched) = self.watched.as_mut().filter(|watched| watched.shown) {
            watched.shown = false;
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// Shows a line, unless the last one is too young.
    fn show(&mut self, line: impl FnOnce(&str, Duration) -> String) {
        let Some(watched) = &mut self.watched else { return };
        let now = Instant::now();
        if now >= watched.next_at {
            watched.next_at = now + INTERVAL;
            watched.shown = true;
            // A bar that cannot be written is not an error.
            let line = line(self.what, now - watched.since);
            let _ = write!(io::stderr(), "\r{line}\x1b[K");
        }
    }
}

/// Shows how far a measurement is, which [`interrupts::flag`](crate::interrupts::flag) ends. The line is
/// removed with the last clone.
pub(crate) fn pulse(what: &'static str, interrupted: Arc<AtomicBool>) -> Pulse {
    let progress = Mutex::new(Progress::new(what));
    Pulse::new(move |it| {
        progress.lock().unwrap_or_else(PoisonError::into_inner).measured(it);
        match interrupted.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn line(what: &str, done: u64, total: u64, elapsed: Duration) -> String {
    let (done, total) = (u128::from(done.min(total)), u128::from(total.max(1)));
    let percent = done * 100 / total;
    let filled = (done * u128::from(BAR_WIDTH) / total) as usize;
    let bar = "#".repeat(filled) + &"-".repeat(BAR_WIDTH as usize - filled);
    let mut line = format!("{what:<10} [{bar}] {percent:>3} %");
    if let Some(left_ms) = (elapsed.as_millis() * (total - done)).checked_div(done) {
        line.push_str(&format!(", {} s left", left_ms / 1000));
    }
    line
}

/// How many of something there are in a second.
fn rate(count: u64, elapsed: Duration) -> String {
    match elapsed.as_secs_f64() {
        0.0 => String::new(),
        seconds => format!(", {:.1}/s", count as f64 / seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_the_share_done_and_the_time_left() {
        let after = Duration::from_secs(2);
        let half = line("reading", 50, 100, after);
        assert_eq!(half, "reading    [###############---------------]  50 %, 2 s left");
        assert!(half.len() < 60);
        assert!(line("reading", 0, 0, after).ends_with("]   0 %"));
        assert!(line("reading", u64::MAX, u64::MAX, after).ends_with("100 %, 0 s left"));
        assert!(line("reading", 7, 5, after).contains("100 %"), "more than all is all");
    }

    #[test]
    fn a_rate_is_in_a_second() {
        assert_eq!(rate(3, Duration::from_secs(2)), ", 1.5/s");
        assert_eq!(rate(3, Duration::ZERO), "");
    }

    #[test]
    fn nothing_is_shown_unless_on_a_terminal() {
        let mut progress = Progress::silent();
        progress.set(1, 2);
        assert!(progress.watched.is_none());
    }
}
