use std::any::Any;
use std::collections::VecDeque;
use std::io::{self, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rehal_base::{Error, Result};
use rehal_capture::{Sink, WriteBuffer};
use rehal_crash::BackgroundWriter;

use super::sync::thread::{Builder, JoinHandle};
use super::sync::{Condvar, Mutex, MutexGuard};

/// The destination of a capture: a file or memory.
pub trait CaptureSink: Write + Seek + Send {}

impl<T: Write + Seek + Send> CaptureSink for T {}

/// Maximum number of queued buffers, including the one being written. With the one that the recorder fills, 2
/// MiB.
///
/// A blocked caller resumes when half of them are written, so that the thread has something to write
/// meanwhile, and the caller sleeps once per megabyte: a sleep costs as much as writing a buffer.
const WAITING_BUFFERS: usize = 15;

/// The thread is woken when this many are queued; if fewer are, by the flush that follows within
/// milliseconds. A wake-up takes as long as several calls.
const WAKE_BUFFERS: usize = 2;

/// A sink written by a dedicated thread, so that the program does not block on file I/O.
///
/// Buffers are queued without a copy. An error is reported by the next call, and bytes queued after it are
/// dropped. A panic of the sink becomes an error: its writes are caused by calls of the program, which must
/// not unwind for them.
pub(super) struct BackgroundSink {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

struct Shared {
    /// Maximum number of queued buffers.
    limit: usize,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Taken by the thread while it uses it.
    sink: Option<Box<dyn CaptureSink>>,
    waiting: VecDeque<WriteBuffer>,
    /// Empty buffers, reused: a fresh one costs a page fault for each page.
    spare: Vec<WriteBuffer>,
    is_writing: bool,
    is_flush_due: bool,
    /// The error of a write, until a call reports it.
    failure: Option<io::Error>,
    ended: bool,
}

impl State {
    fn unwritten(&self) -> usize {
        self.waiting.len() + usize::from(self.is_writing)
    }

    fn is_idle(&self) -> bool {
        self.unwritten() == 0 && !self.is_flush_due
    }

    fn recycle(&mut self, mut buffer: WriteBuffer) {
        buffer.clear();
        self.spare.push(buffer);
    }

    fn take_failure(&mut self) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }
}

impl BackgroundSink {
    /// Starts the thread.
    pub fn start(sink: Box<dyn CaptureSink>) -> Result<Self> {
        Self::start_with_limit(sink, WAITING_BUFFERS)
    }

    /// [`BackgroundSink::start`] with a maximum number of queued buffers, at least 3.
    pub fn start_with_limit(sink: Box<dyn CaptureSink>, limit: usize) -> Result<Self> {
        let state = State {
            sink: Some(sink),
            waiting: VecDeque::with_capacity(limit),
            spare: Vec::with_capacity(limit),
            is_writing: false,
            is_flush_due: false,
            failure: None,
            ended: false,
        };
        let shared = Arc::new(Shared { limit, state: Mutex::new(state), changed: Condvar::new() });
        let writer = Builder::new().name("rehal-capture".into()).spawn({
            let shared = shared.clone();
            move || shared.write()
        });
        let writer =
            writer.map_err(|error| Error::io("starting the thread that writes the capture", &error))?;
        Ok(Self { shared, writer: Some(writer) })
    }

    /// Calls `work` with the sink after all pending writes; fails if one of them failed.
    fn after_writing<R>(&self, work: impl FnOnce(&mut dyn CaptureSink) -> io::Result<R>) -> io::Result<R> {
        let mut state = self.shared.idle();
        state.take_failure()?;
        // The thread does not take the sink while the lock is held.
        let Some(sink) = &mut state.sink else { return Err(io::ErrorKind::Other.into()) };
        caught(|| work(&mut **sink))
    }
}

impl Shared {
    /// Low-water mark: the number of queued buffers at which a blocked caller resumes.
    fn continue_at(&self) -> usize {
        self.limit / 2
    }

    /// Waits until no write is pending.
    fn idle(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        if !state.is_idle() {
            self.changed.notify_all();
        }
        while !state.is_idle() {
            self.changed.wait(&mut state);
        }
        state
    }

    /// The thread's loop.
    fn write(&self) {
        let in_process = BackgroundWriter::new();
        let mut state = self.state.lock();
        loop {
            if let Some(buffer) = state.waiting.pop_front() {
                state.is_writing = true;
                self.with_sink(&mut state, |sink| sink.write_all(buffer.filled()));
                state.is_writing = false;
                state.recycle(buffer);
            } else if state.is_flush_due {
                self.with_sink(&mut state, |sink| sink.flush());
                state.is_flush_due = false;
                in_process.flushed();
            } else if state.ended {
                return;
            } else {
                self.changed.wait(&mut state);
                continue;
            }
            if state.unwritten() <= self.continue_at() {
                self.changed.notify_all();
            }
        }
    }

    /// Calls `work` with the sink, without the lock. If it fails, all queued buffers are dropped: they belong
    /// after bytes that were not written.
    fn with_sink(
        &self,
        state: &mut MutexGuard<'_, State>,
        work: impl FnOnce(&mut dyn CaptureSink) -> io::Result<()>,
    ) {
        let Some(mut sink) = state.sink.take() else { return };
        let outcome = MutexGuard::unlocked(state, || caught(|| work(&mut *sink)));
        state.sink = Some(sink);
        if let Err(error) = outcome {
            state.failure.get_or_insert(error);
            while let Some(buffer) = state.waiting.pop_front() {
                state.recycle(buffer);
            }
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

impl Sink for BackgroundSink {
    fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.after_writing(|sink| sink.write_all(bytes))
    }

    fn write_buffer(&mut self, buffer: &mut WriteBuffer) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        if state.unwritten() >= self.shared.limit {
            // The thread is awake: it was woken for two of them.
            while state.unwritten() > self.shared.continue_at() {
                self.shared.changed.wait(&mut state);
            }
        }
        state.take_failure()?;
        let empty = state.spare.pop().unwrap_or_default();
        state.waiting.push_back(std::mem::replace(buffer, empty));
        if state.waiting.len() == WAKE_BUFFERS {
            self.shared.changed.notify_all();
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.after_writing(|sink| sink.flush())
    }

    fn start_flush(&mut self) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        state.take_failure()?;
        state.is_flush_due = true;
        self.shared.changed.notify_all();
        Ok(())
    }
}

impl Seek for BackgroundSink {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.after_writing(|sink| sink.seek(to))
    }
}

impl Drop for BackgroundSink {
    fn drop(&mut self) {
        self.shared.state.lock().ended = true;
        self.shared.changed.notify_all();
        // The thread writes what is pending first; there is no caller left to report an error to.
        let _ = self.writer.take().map(JoinHandle::join);
    }
}
