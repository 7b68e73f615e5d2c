use std::any::Any;
use std::io::{self, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rehal_base::{Error, Result};

use super::stream::CaptureSink;
use super::sync::thread::{Builder, JoinHandle};
use super::sync::{Condvar, Mutex, MutexGuard};

/// Larger writes go to the sink directly, without a copy.
const BEHIND_BYTES: usize = 256 * 1024;

/// A sink written by a dedicated thread, so that the program does not block on file I/O.
///
/// At most one write is in flight: the next one waits for it. An error is reported by the next call. A panic of the
/// sink becomes an error: its writes are caused by calls of the program, which must not unwind for them.
pub(super) struct Behind {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Taken by the thread during a write.
    sink: Option<Box<dyn CaptureSink>>,
    /// The bytes in flight; non-empty until they are written.
    piece: Vec<u8>,
    /// The error of the last write, until a call reports it.
    failure: Option<io::Error>,
    ended: bool,
}

impl Behind {
    /// Starts the thread.
    pub fn start(sink: Box<dyn CaptureSink>) -> Result<Self> {
        let piece = Vec::with_capacity(BEHIND_BYTES);
        let state = State { sink: Some(sink), piece, failure: None, ended: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let writer = Builder::new().name("rehal-capture".into()).spawn({
            let shared = shared.clone();
            move || shared.write()
        });
        let writer =
            writer.map_err(|error| Error::io("starting the thread that writes the capture", &error))?;
        Ok(Self { shared, writer: Some(writer) })
    }

    /// Calls `work` with the sink after pending writes; fails if one of them failed.
    fn after_writing<R>(
        &self,
        work: impl FnOnce(&mut State, &mut dyn CaptureSink) -> io::Result<R>,
    ) -> io::Result<R> {
        let mut state = self.shared.idle();
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        let Some(mut sink) = state.sink.take() else { return Err(io::ErrorKind::Other.into()) };
        let result = caught(|| work(&mut state, &mut *sink));
        state.sink = Some(sink);
        result
    }
}

impl Shared {
    /// Waits until no write is pending.
    fn idle(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        while !state.piece.is_empty() {
            self.changed.wait(&mut state);
        }
        state
    }

    /// The thread's loop.
    fn write(&self) {
        let mut state = self.state.lock();
        loop {
            if state.piece.is_empty() {
                if state.ended {
                    return;
                }
                self.changed.wait(&mut state);
                continue;
            }
            let (piece, sink) = (std::mem::take(&mut state.piece), state.sink.take());
            let Some(mut sink) = sink else { return };
            // The state keeps a non-empty piece, so that others wait.
            state.piece.push(0);
            let outcome = MutexGuard::unlocked(&mut state, || caught(|| sink.write_all(&piece)));
            state.failure = outcome.err();
            state.sink = Some(sink);
            state.piece = piece;
            state.piece.clear();
            self.changed.notify_all();
        }
    }
}

/// Converts a panic of a sink into an error.
fn caught<R>(work: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
    // The writer stops at the first error, so the sink's state after a panic is never observed.
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(io::Error::other(format!("the sink panicked: {}", said(&*panic)))))
}

/// The message of a panic.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

impl Write for Behind {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.after_writing(|state, sink| {
            if bytes.len() > BEHIND_BYTES {
                return sink.write(bytes);
            }
            state.piece.extend_from_slice(bytes);
            Ok(bytes.len())
        })
        .inspect(|_| {
            self.shared.changed.notify_all();
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.after_writing(|_, sink| sink.flush())
    }
}

impl Seek for Behind {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.after_writing(|_, sink| sink.seek(to))
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.shared.state.lock().ended = true;
        self.shared.changed.notify_all();
        // The thread writes what is pending first; there is no caller left to report an error to.
        let _ = self.writer.take().map(JoinHandle::join);
    }
}
