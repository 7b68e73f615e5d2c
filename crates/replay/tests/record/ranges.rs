//! How ranges of buffers are recorded.

use rehal_capture::Payload;
use rehal_capture::layout::BufferRef;
use rehal_hal::QUEUE_AFFINITY_ANY;
use rehal_replay::RecordOptions;

use crate::program::{Program, Reads, each_operation, replay};

/// The reference's replay rejects the value for whole buffers in queue operations.
#[test]
fn whole_buffers_are_recorded_with_their_length() {
    let program = Program::new(RecordOptions::default());
    let (first, second) = (program.buffer(&[1; 64]), program.buffer(&[2; 64]));
    let done = program.semaphore();
    let queue = program.device().queue(QUEUE_AFFINITY_ANY);
    queue.signal(&[done.at(1)]).fill(&first, &[7], 0).unwrap();
    queue.signal(&[done.at(2)]).copy(&first, &second, 0).unwrap();
    let rest = rehal_hal::BufferRef { offset: 16, ..rehal_hal::BufferRef::whole(&second) };
    queue.signal(&[done.at(3)]).fill(rest, &[9], 0).unwrap();
    let mut bytes = [0; 64];
    second.read(0, &mut bytes).unwrap();

    let capture = program.capture();
    let mut ranges = Vec::new();
    let mut push = |it: &BufferRef| ranges.push((it.offset.get(), it.length.get()));
    each_operation(&capture, |record| match record.payload().unwrap() {
        Payload::QueueFill(it) => push(&it.target_ref),
        Payload::QueueCopy(it) => [it.source_ref, it.target_ref].iter().for_each(&mut push),
        _ => {}
    });
    assert_eq!(ranges, [(0, 64), (0, 64), (0, 64), (16, 48)]);
    let mut reads = Reads::default();
    replay(&capture, &mut reads).unwrap();
    assert_eq!(reads.0, [bytes]);
}
