use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rehal_base::{Error, HostMemory, Range, Result};

use super::stream::Sink;

/// What is longer goes to the sink straight from where it is.
const BEHIND_BYTES: usize = 256 * 1024;

/// A sink that is written by a thread of its own, so that a program does not wait for the file.
///
/// One piece at a time: who brings the next waits until the one before is written. Errors show in the next call.
pub(super) struct Behind {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Away while the thread writes.
    sink: Option<Sink>,
    piece: Vec<u8>,
    failure: Option<io::Error>,
    ended: bool,
}

impl Behind {
    /// Starts the thread.
    pub fn start(sink: Sink) -> Result<Self> {
        let piece = Vec::with_capacity(BEHIND_BYTES);
        let state = State { sink: Some(sink), piece, failure: None, ended: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let writer = std::thread::Builder::new().name("rehal-capture".into()).spawn({
            let shared = shared.clone();
            move || shared.write()
        });
        let writer =
            writer.map_err(|error| Error::io("starting the thread that writes the capture", &error))?;
        Ok(Self { shared, writer: Some(writer) })
    }

    /// Writes a range of memory, from where it is.
    pub fn write_memory(&mut self, memory: &HostMemory, range: Range) -> io::Result<()> {
        self.after_writing(|_, sink| sink.write_memory(memory, range))
    }

    /// Calls `work` with the sink once what was brought before is written; fails where that failed.
    fn after_writing<R>(&self, work: impl FnOnce(&mut State, &mut Sink) -> io::Result<R>) -> io::Result<R> {
        let mut state = self.shared.idle();
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        let Some(mut sink) = state.sink.take() else { return Err(io::ErrorKind::Other.into()) };
        let result = work(&mut state, &mut sink);
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
            let outcome = MutexGuard::unlocked(&mut state, || sink.write_all(&piece));
            state.failure = outcome.err();
            state.sink = Some(sink);
            state.piece = piece;
            state.piece.clear();
            self.changed.notify_all();
        }
    }
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
        // It writes what is left first; what it meets then, nobody is left to hear of.
        let _ = self.writer.take().map(JoinHandle::join);
    }
}
