//! Signals that end a tool: its temporary directories and files are removed first.

use std::ffi::c_int;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rehal_base::{Error, Result};
use rustix::process::{Pid, getppid};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::iterator::{Handle, SignalsInfo};
use signal_hook::low_level::emulate_default_handler;
use signal_hook::low_level::siginfo::{Cause, Origin};

/// When SIGINT, SIGTERM or SIGHUP ends the process, says which kernels run, and removes temporary directories
/// and files. The process then ends by the signal. Called before the first is created; signals that are
/// ignored stay so.
pub fn handle() {
    is_handled();
}

/// Makes a write beyond the limit of the size of files (`ulimit -f`) fail, with the name of the file, instead
/// of ending the process. Programs that this one starts are ended as before.
pub fn fail_large_writes() {
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// The thread that handles signals. Without one, they end the process as they do without a handler, and the
/// directories remain.
static HANDLER: Mutex<Option<Handler>> = Mutex::new(None);

struct Handler {
    signals: Handle,
    thread: JoinHandle<()>,
}

impl Handler {
    fn start() -> Option<Self> {
        let (sender, receiver) = channel::<SignalsInfo<WithOrigin>>();
        let run = move || {
            let Ok(mut signals) = receiver.recv() else { return };
            let parent = getppid();
            // Of the parent, and of others.
            let mut first: [Option<Instant>; 2] = [None; 2];
            for origin in signals.forever() {
                let is_of_parent = origin.process.is_some_and(|process| Pid::from_raw(process.pid) == parent);
                let first = &mut first[usize::from(is_of_parent)];
                let flag = FLAG.lock().clone();
                match (flag, &first) {
                    (Some(flag), None) => flag.store(true, Ordering::Relaxed),
                    (Some(_), Some(first)) if first.elapsed() <= SAME_SIGNAL => {}
                    _ => end(origin.signal),
                }
                first.get_or_insert_with(Instant::now);
            }
        };
        let thread = Builder::new().name("rehal-signals".into()).spawn(run);
        // In any case: what is registered later changes no action of the process then.
        let received = SignalsInfo::<WithOrigin>::new(handled());
        let (thread, received) = (thread.ok()?, received.ok()?);
        let signals = received.handle();
        sender.send(received).ok()?;
        Some(Self { signals, thread })
    }
}

fn is_handled() -> bool {
    let mut handler = HANDLER.lock();
    if handler.is_none() {
        *handler = Handler::start();
    }
    handler.is_some()
}

/// Ends the thread that handles signals, so that the process can be copied.
pub(crate) fn release() {
    if let Some(Handler { signals, thread }) = HANDLER.lock().take() {
        signals.close();
        let _ = thread.join();
    }
}

/// Makes a copy of a process forget the flag: the work of the copy does not look at it unless it asks for it.
pub(crate) fn forget_flag() {
    *FLAG.lock() = None;
}

/// A signal within this time of the first one from the same place is the same: `timeout` sends it to a
/// process, and to its group.
pub(crate) const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// While it lives, these signals do not end the process, which passes them on to its child, and hears of the
/// child's end.
pub(crate) struct PassedOn(SignalDelivery<UnixStream, WithOrigin>);

impl PassedOn {
    pub(crate) fn new() -> io::Result<Self> {
        let (receiver, sender) = UnixStream::pair()?;
        let signals = handled().chain([SIGCHLD]);
        Ok(Self(SignalDelivery::with_pipe(receiver, sender, WithOrigin::default(), signals)?))
    }

    /// It is readable if there are signals to take, or if a child has ended.
    pub(crate) fn receiver(&self) -> &UnixStream {
        self.0.get_read()
    }

    /// The signals since the last call, and whether the child gets each as well: Ctrl-C on a terminal is sent
    /// by the kernel to all processes in the foreground.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (c_int, bool)> {
        let is_its_own = |it: &Origin| it.signal == SIGINT && it.cause == Cause::Kernel;
        self.0.pending().filter(|it| it.signal != SIGCHLD).map(move |it| (it.signal, is_its_own(&it)))
    }
}

/// Set by the first signal, if the tool looks at it.
static FLAG: Mutex<Option<Arc<AtomicBool>>> = Mutex::new(None);

/// A flag that is set by the first SIGINT, SIGTERM or SIGHUP, unless it is ignored. A second one, later than
/// [`SAME_SIGNAL`], ends the process at once, as [`handle`] says. What is sent to a process group reaches the
/// copy of a process twice, the second time from its parent: signals of the parent count by themselves.
pub fn flag() -> Result<Arc<AtomicBool>> {
    let interrupted = FLAG.lock().get_or_insert_default().clone();
    if is_handled() {
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

/// Whether the first signal has set the [`flag`] of this process, if it has one.
pub fn is_interrupted() -> bool {
    FLAG.lock().as_ref().is_some_and(|it| it.load(Ordering::Relaxed))
}

/// The signals that end a tool.
pub const SIGNALS: [c_int; 3] = [SIGHUP, SIGINT, SIGTERM];

/// The signals of these that are not ignored.
fn handled() -> impl Iterator<Item = c_int> {
    SIGNALS.into_iter().filter(|signal| !rehal_crash::is_ignored(*signal))
}

fn end(signal: c_int) {
    rehal_crash::describe_running();
    rehal_crash::remove_all();
    rehal_crash::announce_signal(signal);
    let _ = emulate_default_handler(signal);
}
