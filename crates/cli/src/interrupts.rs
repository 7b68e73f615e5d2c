//! Signals that end a tool: its temporary directories and files are removed first.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, LazyLock, OnceLock};
use std::thread::Builder;

use rehal_base::{Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::iterator::{Signals, SignalsInfo};
use signal_hook::low_level::emulate_default_handler;
use signal_hook::low_level::siginfo::{Cause, Origin};

/// When SIGINT, SIGTERM or SIGHUP ends the process, says which kernels run, and removes temporary directories
/// and files. The process then ends by the signal. Called before the first is created; signals that are
/// ignored stay so.
pub(crate) fn handle() {
    LazyLock::force(&IS_HANDLED);
}

/// Whether a thread handles signals. Without one, they end the process as they do without a handler, and the
/// directories remain.
static IS_HANDLED: LazyLock<bool> = LazyLock::new(|| {
    let (sender, receiver) = channel::<Signals>();
    let started = Builder::new().name("rehal-signals".into()).spawn(move || {
        let Ok(mut signals) = receiver.recv() else { return };
        for signal in signals.forever() {
            let is_first = FLAG.get().is_some_and(|flag| !flag.swap(true, Ordering::Relaxed));
            if !is_first {
                end(signal);
            }
        }
    });
    match (started, Signals::new(handled())) {
        (Ok(_), Ok(signals)) => sender.send(signals).is_ok(),
        _ => false,
    }
});

/// Calls `pass` for each of these signals that the child does not get as well, instead of ending the process:
/// Ctrl-C on a terminal is sent by the kernel to all processes in the foreground. Without a thread for it,
/// they end the process.
pub(crate) fn pass_on(pass: impl Fn(c_int) + Send + 'static) {
    let Ok(mut signals) = SignalsInfo::<WithOrigin>::new(handled()) else { return };
    let is_of_child_alone = |it: &Origin| it.signal != SIGINT || it.cause != Cause::Kernel;
    let pass = move || signals.forever().filter(is_of_child_alone).for_each(|it| pass(it.signal));
    let started = Builder::new().name("rehal-signals".into()).spawn(pass);
    if started.is_err() {
        let always = Arc::new(AtomicBool::new(true));
        for signal in handled() {
            let _ = flag::register_conditional_default(signal, always.clone());
        }
    }
}

/// Set by the first signal, if the tool looks at it.
static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// A flag that is set by the first SIGINT, SIGTERM or SIGHUP, unless it is ignored. A second one ends the
/// process at once, as [`handle`] says.
pub(crate) fn flag() -> Result<Arc<AtomicBool>> {
    let interrupted = FLAG.get_or_init(Arc::default).clone();
    if *IS_HANDLED {
        return Ok(interrupted);
    }
    for signal in handled() {
        // In this order: the first signal finds the flag unset.
        let registered = flag::register_conditional_default(signal, interrupted.clone())
            .and_then(|_| flag::register(signal, interrupted.clone()));
        registered.map_err(|error| Error::io("handling signals", &error))?;
    }
    Ok(interrupted)
}

/// The signals that end a tool and are not ignored.
fn handled() -> impl Iterator<Item = c_int> {
    let ignored = std::fs::read_to_string("/proc/self/status").map_or(0, |status| ignored(&status));
    [SIGHUP, SIGINT, SIGTERM].into_iter().filter(move |it| ignored >> (it - 1) & 1 == 0)
}

fn end(signal: c_int) {
    rehal_crash::describe_running();
    rehal_crash::remove_all();
    let _ = emulate_default_handler(signal);
}

/// The ignored signals of a process, as a mask, from its status in `/proc`.
fn ignored(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::ignored;

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000000003\nSigCgt:\t00\n"), 3);
        assert_eq!(ignored("SigIgn:\tx\n"), 0);
    }
}
