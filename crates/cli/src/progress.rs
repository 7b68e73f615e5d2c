//! A bar on a terminal for what takes longer than a second; nothing anywhere else.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What runs shorter than this needs no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// How far something has come.
pub(crate) struct Progress {
    what: &'static str,
    state: State,
}

enum State {
    /// Nobody watches.
    Silent,
    /// It may be over before anybody wonders.
    Waiting(Instant),
    Shown(ProgressBar),
}

impl Progress {
    /// Progress of `what`, if standard error is a terminal.
    pub(crate) fn new(what: &'static str) -> Self {
        let watched = io::stderr().is_terminal();
        let state = if watched { State::Waiting(Instant::now()) } else { State::Silent };
        Self { what, state }
    }

    /// Progress that nobody watches.
    pub(crate) fn silent() -> Self {
        Self { what: "", state: State::Silent }
    }

    /// `done` of `total` is done.
    pub(crate) fn set(&mut self, done: u64, total: u64) {
        match &self.state {
            State::Silent => {}
            State::Waiting(since) if since.elapsed() < PATIENCE => {}
            State::Waiting(_) => self.state = State::Shown(bar(self.what, done, total)),
            State::Shown(bar) => {
                bar.set_length(total);
                bar.set_position(done);
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let State::Shown(bar) = &self.state {
            bar.finish_and_clear();
        }
    }
}

fn bar(what: &'static str, done: u64, total: u64) -> ProgressBar {
    // The template is a constant; a mistake in it would only cost the style.
    let style = ProgressStyle::with_template("{msg} {wide_bar} {percent}% {eta}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10));
    bar.set_style(style);
    bar.set_message(what);
    bar.set_position(done);
    bar
}
