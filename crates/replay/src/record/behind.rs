use std::any::Any;
use std::io::{self, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rehal_base::{Error, Result};

use super::stream::CaptureSink;
use super::sync::thread::{Builder, JoinHandle};
use super::sync::{Condvar, Mutex, MutexGuard};

/// What is longer goes to the sink straight from where it is.
const BEHIND_BYTES: usize = 256 * 1024;

/// A sink that is written by a thread of its own, so that a program does not wait for the file.
///
/// One piece at a time: a write waits until the one before it is written. An error shows in the next call. A sink that
/// panics has failed with an error: what it is given comes from calls of a program, which has no part in it.
pub(super) struct Behind {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Taken by the thread while it writes.
    sink: Option<Box<dyn CaptureSink>>,
    /// What the thread is to write; not empty while it does.
    piece: Vec<u8>,
    /// Of the piece written last, until a call reports it.
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

    /// Calls `work` with the sink once what was written before has reached it; fails if that failed.
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
    /// Waits until nothing is left to write.
    fn idle(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        while !state.piece.is_empty() {
            self.changed.wait(&mut state);
        }
        state
    }

    /// What the thread does.
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
            // Others see a piece, so that they wait; its bytes are here.
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

/// Turns a panic of a sink into an error.
fn caught<R>(work: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
    // The writer makes no call after an error, so nothing sees what the sink left behind.
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(io::Error::other(format!("the sink panicked: {}", said(&*panic)))))
}

/// What a panic said.
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
        // It writes what is left first; nothing is left to report an error to.
        let _ = self.writer.take().map(JoinHandle::join);
    }
}
