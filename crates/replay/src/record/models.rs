//! Models of the concurrency of the capture writer, run for every interleaving.
//!
//! The recorder's files are compiled a second time with the model checker's locks and threads in place of
//! `sync`. The name of a model says what it proves. Mutations that the models detect: a close without the
//! lock, and a missing notification of the writing thread.

#![allow(dead_code, clippy::duplicate_mod, reason = "the recorder's own files, under other locks")]

#[path = "background_sink.rs"]
mod background_sink;
#[path = "stream.rs"]
mod stream;

mod sync {
    pub(super) use rehal_interleave::{
        AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, explore_bounded, thread,
    };
}

use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex};

use rehal_capture::{Capture, ObjectType, OpenOptions, RecordType, Sink as _, WriteBuffer};

use self::background_sink::BackgroundSink;
use self::stream::Stream;
use self::sync::{explore_bounded, thread};
use super::RecordOptions;

/// Four threads have too many interleavings to explore without a bound.
const PREEMPTIONS: usize = 2;

/// A sink that tests can inspect and make fail.
#[derive(Clone, Default)]
struct Sink {
    disk: Arc<Mutex<Disk>>,
    /// Assertion on the bytes when the sink is dropped.
    at_drop: Option<fn(&[u8])>,
}

#[derive(Default)]
struct Disk {
    bytes: Cursor<Vec<u8>>,
    writes: usize,
    /// Which write fails, counted from 1, and how.
    fault: Option<(usize, Fault)>,
}

#[derive(Clone, Copy)]
enum Fault {
    Fails,
    Panics,
}

impl Sink {
    fn with_fault(write: usize, fault: Fault) -> Self {
        let sink = Self::default();
        sink.disk.lock().unwrap().fault = Some((write, fault));
        sink
    }

    fn bytes(&self) -> Vec<u8> {
        self.disk.lock().unwrap().bytes.get_ref().clone()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Some(check) = self.at_drop {
            check(&self.bytes());
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fault = {
            let mut disk = self.disk.lock().unwrap();
            disk.writes += 1;
            disk.fault.filter(|(write, _)| *write == disk.writes)
        };
        match fault {
            None => self.disk.lock().unwrap().bytes.write(bytes),
            Some((_, Fault::Fails)) => Err(io::ErrorKind::StorageFull.into()),
            // Without the panic hook, which would print a report for each interleaving.
            Some((_, Fault::Panics)) => std::panic::resume_unwind(Box::new("out of order")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Sink {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.disk.lock().unwrap().bytes.seek(to)
    }
}

fn start(sink: &Sink) -> Arc<Stream> {
    Stream::start(Box::new(sink.clone()), RecordOptions::default()).unwrap()
}

/// Adds the record of device `id`.
fn append(stream: &Stream, id: u64) {
    stream.with_log(|log| log.bare_object(0, ObjectType::DEVICE, id));
}

/// The record ids of a capture, in order, and whether it was closed.
fn ids(bytes: &[u8]) -> (Vec<u64>, bool) {
    let capture = Capture::open(bytes, OpenOptions { recover: true }).unwrap();
    let mut ids = Vec::new();
    for (ordinal, record) in (0..).zip(capture.records()) {
        let header = record.unwrap().header;
        assert_eq!(header.sequence_ordinal.get(), ordinal);
        if header.record_type.get() == RecordType::OBJECT.0 {
            ids.push(header.object_id.get());
        }
    }
    (ids, capture.is_closed())
}

/// Queues a buffer with these bytes.
fn queue(background: &mut BackgroundSink, bytes: &[u8]) -> io::Result<()> {
    let mut buffer = WriteBuffer::default();
    buffer.extend(bytes);
    let outcome = background.write_buffer(&mut buffer);
    assert!(outcome.is_err() || buffer.filled().is_empty());
    outcome
}

#[test]
fn every_buffer_is_written_in_order() {
    explore_bounded(PREEMPTIONS, || {
        let sink = Sink::default();
        let mut background = BackgroundSink::start(Box::new(sink.clone())).unwrap();
        queue(&mut background, b"ab").unwrap();
        background.write_bytes(b"cd").unwrap();
        assert_eq!(sink.bytes(), b"abcd");
        queue(&mut background, b"ef").unwrap();
        background.flush().unwrap();
        assert_eq!(sink.bytes(), b"abcdef");
        background.seek(SeekFrom::Start(1)).unwrap();
        queue(&mut background, b"x").unwrap();
        background.start_flush().unwrap();
        queue(&mut background, b"y").unwrap();
        // Dropped with pending buffers, which are written before the drop returns.
        drop(background);
        assert_eq!(sink.bytes(), b"axydef");
    });
}

/// More buffers than may wait: some call waits for the thread, and none deadlocks.
#[test]
fn a_full_queue_is_waited_for() {
    explore_bounded(PREEMPTIONS, || {
        let sink = Sink::default();
        let mut background = BackgroundSink::start_with_limit(Box::new(sink.clone()), 3).unwrap();
        for bytes in [b"ab", b"cd", b"ef", b"gh", b"ij"] {
            queue(&mut background, bytes).unwrap();
        }
        // At most three wait; a fourth is written before the next is queued.
        assert!(sink.bytes().len() >= 4);
        background.flush().unwrap();
        assert_eq!(sink.bytes(), b"abcdefghij");
    });
}

/// A sink that reports flushes to the model.
#[derive(Clone, Default)]
struct FlushedSink {
    sink: Sink,
    flushed: Arc<(sync::Mutex<bool>, sync::Condvar)>,
}

impl Write for FlushedSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sink.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        *self.flushed.0.lock() = true;
        self.flushed.1.notify_all();
        Ok(())
    }
}

impl Seek for FlushedSink {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.sink.seek(to)
    }
}

/// It ends without another call, so that records of a program that waits reach the file.
#[test]
fn a_started_flush_ends() {
    explore_bounded(PREEMPTIONS, || {
        let sink = FlushedSink::default();
        let mut background = BackgroundSink::start(Box::new(sink.clone())).unwrap();
        queue(&mut background, b"ab").unwrap();
        background.start_flush().unwrap();
        let (flushed, changed) = &*sink.flushed;
        let mut flushed = flushed.lock();
        while !*flushed {
            changed.wait(&mut flushed);
        }
        assert_eq!(sink.sink.bytes(), b"ab");
    });
}

#[test]
fn a_write_error_is_returned_by_the_next_call() {
    for fault in [Fault::Fails, Fault::Panics] {
        explore_bounded(PREEMPTIONS, move || {
            let sink = Sink::with_fault(2, fault);
            let mut background = BackgroundSink::start(Box::new(sink.clone())).unwrap();
            queue(&mut background, b"ab").unwrap();
            queue(&mut background, b"cd").unwrap();
            // Either this call sees the error, or the buffer is dropped because of it.
            let third = queue(&mut background, b"ef");
            let failed = third.and_then(|()| background.flush()).unwrap_err();
            match fault {
                Fault::Fails => assert_eq!(failed.kind(), io::ErrorKind::StorageFull),
                Fault::Panics => assert_eq!(failed.to_string(), "the sink panicked: out of order"),
            }
            // Reported once; a caller that needs the error again keeps it.
            background.flush().unwrap();
            drop(background);
            assert_eq!(sink.bytes(), b"ab");
        });
    }
}

/// Two threads record concurrently with the flusher; closing writes all records.
#[test]
fn every_record_is_written_once_and_in_order() {
    explore_bounded(PREEMPTIONS, || {
        let sink = Sink::default();
        let stream = start(&sink);
        let other = thread::spawn({
            let stream = stream.clone();
            move || {
                append(&stream, 10);
                append(&stream, 11);
            }
        });
        append(&stream, 20);
        append(&stream, 21);
        other.join().unwrap();
        stream.close().unwrap();
        let (ids, is_closed) = ids(&sink.bytes());
        let of = |first: u64| ids.iter().filter(|id| **id / 10 == first).copied().collect::<Vec<_>>();
        assert_eq!((ids.len(), of(1), of(2), is_closed), (4, vec![10, 11], vec![20, 21], true));
    });
}

/// Each record added concurrently with a close is either complete in the capture or absent.
#[test]
fn a_close_includes_all_previous_records() {
    explore_bounded(PREEMPTIONS, || {
        let sink = Sink::default();
        let stream = start(&sink);
        append(&stream, 1);
        let other = thread::spawn({
            let stream = stream.clone();
            move || {
                append(&stream, 2);
                append(&stream, 3);
            }
        });
        stream.close().unwrap();
        let at_close = sink.bytes();
        other.join().unwrap();
        assert_eq!(sink.bytes(), at_close);
        let (ids, is_closed) = ids(&at_close);
        assert!(is_closed && [1, 2, 3].starts_with(&ids) && !ids.is_empty(), "{ids:?}");
    });
}

#[test]
fn concurrent_closes_all_return_after_the_capture_is_closed() {
    explore_bounded(PREEMPTIONS, || {
        let sink = Sink::default();
        let stream = start(&sink);
        append(&stream, 1);
        let other = thread::spawn({
            let (stream, sink) = (stream.clone(), sink.clone());
            move || {
                stream.close().unwrap();
                assert_eq!(ids(&sink.bytes()), (vec![1], true));
            }
        });
        stream.close().unwrap();
        assert_eq!(ids(&sink.bytes()), (vec![1], true));
        other.join().unwrap();
    });
}

/// The program drops the recorder without closing it. Whichever thread drops the last handle, even the
/// flusher, all records are written before the sink is dropped, and the capture is marked as not closed.
#[test]
fn a_dropped_recorder_writes_all_records() {
    explore_bounded(PREEMPTIONS, || {
        let at_drop = |bytes: &[u8]| {
            let (mut ids, is_closed) = ids(bytes);
            ids.sort_unstable();
            assert_eq!((ids, is_closed), (vec![1, 2], false));
        };
        let sink = Box::new(Sink { disk: Arc::default(), at_drop: Some(at_drop) });
        let stream = Stream::start(sink, RecordOptions::default()).unwrap();
        let other = thread::spawn({
            let stream = stream.clone();
            move || append(&stream, 1)
        });
        append(&stream, 2);
        drop(stream);
        other.join().unwrap();
    });
}

/// The flusher or a program thread hits the error; the program is not disturbed, and closing reports it.
#[test]
fn the_first_error_is_sticky_and_reported_on_close() {
    for (fault, says) in
        [(Fault::Fails, "RESOURCE_EXHAUSTED"), (Fault::Panics, "the sink panicked: out of order")]
    {
        explore_bounded(PREEMPTIONS, move || {
            // The file header is the first write.
            let sink = Sink::with_fault(2, fault);
            let stream = start(&sink);
            append(&stream, 1);
            let other = thread::spawn({
                let stream = stream.clone();
                move || append(&stream, 2)
            });
            stream.with_log(|log| log.set_status(32, 5));
            other.join().unwrap();
            let failed = stream.close().unwrap_err().to_string();
            assert!(failed.contains(says), "{failed}");
            stream.close().unwrap();
        });
    }
}
