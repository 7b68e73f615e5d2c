//! Issuing a command buffer on `local-task` allocates nothing once its lists have grown, and little if it
//! waits for work in flight.
#![allow(unsafe_code, reason = "counts allocations")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use rehal_hal::{
    BufferParams, BufferRef, Command, CommandBufferParams, CommandCategories, ExecutionStage, Live,
    QUEUE_AFFINITY_ANY, SemaphoreFlags,
};
use rehal_local::{LocalTask, LocalTaskOptions, Topology};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: forwards every call to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Commands of several stages on slots of a table, too long to run on the submitting thread.
#[test]
fn issuing_a_command_buffer_with_a_binding_table_allocates_nothing() {
    const BYTES: u64 = 1 << 20;
    let mut options = LocalTaskOptions::default();
    options.topology = Some(Topology::with_workers(2).unwrap());
    let device = LocalTask::create(options).unwrap();
    let buffers = [(); 3].map(|()| device.allocate_buffer(BufferParams::default(), BYTES).unwrap());
    let params = CommandBufferParams {
        categories: CommandCategories::TRANSFER,
        ..CommandBufferParams::default().slots(12)
    };
    let commands = device.create_command_buffer(params).unwrap();
    commands.begin().unwrap();
    let slot = |slot| BufferRef::slot(slot, 0, BYTES);
    for stage in 0..4_u8 {
        commands.record(&Command::Fill { target: slot(0), pattern: &[stage], flags: 0 }).unwrap();
        commands.record(&Command::Fill { target: slot(10), pattern: &[stage], flags: 0 }).unwrap();
        let barrier = Command::<Live<'_>>::ExecutionBarrier {
            source_stages: ExecutionStage::empty(),
            target_stages: ExecutionStage::empty(),
            flags: 0,
            memory_barriers: &[],
            buffer_barriers: &[],
        };
        commands.record(&barrier).unwrap();
        commands.record(&Command::Copy { source: slot(0), target: slot(11), flags: 0 }).unwrap();
        commands.record(&barrier).unwrap();
    }
    commands.end().unwrap();

    let table: [_; 12] =
        std::array::from_fn(|index| BufferRef::whole(&buffers[[0, 1, 2][index.saturating_sub(9)]]));
    let done = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap();
    // More at a time than later, when a worker may still be putting away the last issue.
    let many =
        [(); 16].map(|()| device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap());
    for done in &many {
        device.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(1)]).execute(&commands, &table, 0).unwrap();
    }
    many.iter().for_each(|done| done.wait(1, None).unwrap());
    let mut issued = 0;
    let mut issue = |count: u64| {
        for _ in 0..count {
            issued += 1;
            device
                .queue(QUEUE_AFFINITY_ANY)
                .signal(&[done.at(issued)])
                .execute(&commands, &table, 0)
                .unwrap();
            done.wait(issued, None).unwrap();
        }
    };
    issue(100);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    issue(200);
    let allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert_eq!(allocated, 0);

    // Each waits for the one before, which is in flight.
    let mut chain = |rounds: u64| {
        for _ in 0..rounds {
            for _ in 0..4 {
                let waits = [done.at(issued)];
                issued += 1;
                let queue = device.queue(QUEUE_AFFINITY_ANY).wait(&waits);
                queue.signal(&[done.at(issued)]).execute(&commands, &table, 0).unwrap();
            }
            done.wait(issued, None).unwrap();
        }
    };
    chain(50);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    chain(100);
    let allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
    // The wait that a semaphore calls back, and what is kept until then.
    assert!(allocated <= 5 * 400 / 2, "{allocated} allocations in 400 issues");
}
