//! The `local-task` device: concurrency, failures on workers, and dropped devices.
#![allow(unsafe_code, reason = "runs the libraries that it compiled, and crashes on purpose")]
#![cfg(all(target_os = "linux", any(target_arch = "aarch64", target_arch = "x86_64")))]

mod support;

use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{
    Buffer, BufferParams, BufferRef, Command, CommandBuffer, CommandBufferMode, CommandBufferParams, Device,
    Driver, Executable, HostCall, HostCallFlags, OptionSet, QUEUE_AFFINITY_ANY, Semaphore, SemaphoreFlags,
};
use rehal_local::{
    LocalSync, LocalTask, LocalTaskDriver, LocalTaskOptions, Topology, WorkerOptions, Workers,
};
use support::commands::{barrier, dispatch, load};
use support::{Link, compile, own_program};

fn options(workers: usize) -> LocalTaskOptions {
    let mut options = LocalTaskOptions::default();
    options.topology = Some(Topology::with_workers(workers).unwrap());
    options
}

fn device(workers: usize) -> Device {
    LocalTask::create(options(workers)).unwrap()
}

fn semaphore(device: &Device) -> Semaphore {
    device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap()
}

/// Programs deallocate on a queue what a queue owns; the reference's captures have no dealloca of an empty
/// buffer.
#[test]
fn queues_own_what_they_allocate_unless_it_is_empty() {
    let device = device(1);
    for (size, is_owned) in [(0, false), (1, true), (64, true)] {
        let done = semaphore(&device);
        let signals = [done.at(1)];
        let queue = device.queue(QUEUE_AFFINITY_ANY).signal(&signals);
        let buffer = queue.alloca(BufferParams::default(), size, 0).unwrap();
        wait(&done, 1).unwrap();
        assert_eq!((buffer.size(), buffer.is_queue_ordered()), (size, is_owned));
        let signals = [done.at(2)];
        device.queue(QUEUE_AFFINITY_ANY).signal(&signals).dealloca(&buffer, 0).unwrap();
        wait(&done, 2).unwrap();
    }
}

/// Waits with a timeout, so that a hang fails the test.
fn wait(semaphore: &Semaphore, value: u64) -> Result<()> {
    semaphore.wait(value, Some(Duration::from_secs(60)))
}

fn library(device: &Device) -> Executable {
    load(device, &library_bytes())
}

/// Other bytes each time, so that a test knows nothing of what dispatches of another cost.
fn library_bytes() -> Vec<u8> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let mut data = compile("library.c", Link::Embedded, &["-DCONCURRENT"]);
    data.extend(COUNT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    data
}

fn commands(device: &Device, record: impl FnOnce(&CommandBuffer)) -> CommandBuffer {
    commands_of(device, CommandBufferMode::empty(), record)
}

fn commands_of(
    device: &Device,
    mode: CommandBufferMode,
    record: impl FnOnce(&CommandBuffer),
) -> CommandBuffer {
    let commands =
        device.create_command_buffer(CommandBufferParams { mode, ..CommandBufferParams::default() }).unwrap();
    commands.begin().unwrap();
    record(&commands);
    commands.end().unwrap();
    commands
}

fn buffer(device: &Device, size: u64) -> Buffer {
    device.allocate_buffer(BufferParams::default(), size).unwrap()
}

const TWO: [u8; 4] = 2_u32.to_le_bytes();

#[test]
fn workgroups_of_a_dispatch_run_concurrently() {
    let device = device(2);
    let (executable, begun, done) = (library(&device), buffer(&device, 4), semaphore(&device));
    let bindings = [BufferRef::whole(&begun)];
    let meet = dispatch(&executable, "meet", [1, 1, 2], &TWO, &bindings);
    device.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(1)]).dispatch(&meet).unwrap();
    wait(&done, 1).unwrap();
}

#[test]
fn commands_between_barriers_run_concurrently() {
    let device = device(2);
    let (executable, done) = (library(&device), semaphore(&device));
    let begun = buffer(&device, 4);
    // Once: when such a dispatch is known to be brief, no other worker is woken for it.
    let recorded = commands(&device, |commands| {
        barrier(commands);
        let bindings = [BufferRef::whole(&begun)];
        for _ in 0..2 {
            let meet = dispatch(&executable, "meet", [1; 3], &TWO, &bindings);
            commands.record(&Command::Dispatch(meet)).unwrap();
        }
        barrier(commands);
    });
    device.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(1)]).execute(&recorded, &[], 0).unwrap();
    wait(&done, 1).unwrap();
}

#[test]
fn submissions_of_devices_that_share_workers_run_concurrently() {
    let mut options = options(1);
    options.workers =
        Some(Workers::start(&Topology::with_workers(2).unwrap(), &WorkerOptions::default()).unwrap());
    let devices = [(); 2].map(|()| LocalTask::create(options.clone()).unwrap());
    assert_eq!(devices[0].query_i64("hal.dispatch", "concurrency").unwrap(), 2);
    let begun = buffer(&devices[0], 4);
    let bindings = [BufferRef::whole(&begun)];
    let dones = [semaphore(&devices[0]), semaphore(&devices[1])];
    for (device, done) in devices.iter().zip(&dones) {
        let executable = library(device);
        let meet = dispatch(&executable, "meet", [1; 3], &TWO, &bindings);
        device.queue(1).signal(&[done.at(1)]).dispatch(&meet).unwrap();
    }
    dones.iter().for_each(|done| wait(done, 1).unwrap());
}

/// Each kind of device waits for work of the other.
#[test]
fn both_cpu_devices_work_in_one_group() {
    let (task, sync) = (device(2), LocalSync::create(Default::default()));
    let steps = semaphore(&task);
    let target = buffer(&task, 1 << 20);
    for step in (0..20).rev() {
        let (waits, signals) = ([steps.at(step + 1)], [steps.at(step + 2)]);
        let device = if step % 2 == 0 { &task } else { &sync };
        let queue = device.queue(QUEUE_AFFINITY_ANY).wait(&waits).signal(&signals);
        queue.fill(BufferRef::range(&target, step, (1 << 20) - step), &[step as u8 + 1], 0).unwrap();
    }
    steps.signal(1).unwrap();
    wait(&steps, 21).unwrap();
    let mut bytes = [0; 21];
    target.read(0, &mut bytes).unwrap();
    assert_eq!(bytes[..20], (1..=20).collect::<Vec<u8>>());
    assert_eq!(bytes[20], 20);
}

#[test]
fn a_failing_workgroup_is_named_and_what_follows_does_not_run() {
    let device = device(3);
    let (executable, done) = (library(&device), semaphore(&device));
    let [ran, after] = [buffer(&device, 4), buffer(&device, 4)];
    let recorded = commands(&device, |commands| {
        let target = BufferRef::range(&after, 0, 2);
        commands.record(&Command::Fill { target, pattern: &[1], flags: 0 }).unwrap();
        barrier(commands);
        let bindings = [BufferRef::whole(&ran)];
        let fails = dispatch(&executable, "fails", [3, 1, 1], &[], &bindings);
        commands.record(&Command::Dispatch(fails)).unwrap();
        barrier(commands);
        let target = BufferRef::range(&after, 2, 2);
        commands.record(&Command::Fill { target, pattern: &[1], flags: 0 }).unwrap();
    });
    device.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(1)]).execute(&recorded, &[], 0).unwrap();
    let error = wait(&done, 1).unwrap_err();
    assert_eq!(error.code(), StatusCode::Internal);
    assert_eq!(
        error.report(),
        "INTERNAL; function 'fails' failed in workgroup [1, 0, 0]: it returned 7\n  at: command 1 of the command \
         buffer, queue_execute\n  try: a kernel returns 0 on success, and another number if it refuses its inputs; a stub \
         returns 1 until it has a body"
    );
    let mut bytes = [0; 4];
    after.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [1, 1, 0, 0]);
    // The device still works.
    let again = semaphore(&device);
    device.queue(QUEUE_AFFINITY_ANY).signal(&[again.at(1)]).fill(&after, &[9], 0).unwrap();
    wait(&again, 1).unwrap();
}

#[test]
fn a_host_call_that_panics_fails_its_signals_and_the_worker_survives() {
    let device = device(1);
    let done = semaphore(&device);
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    let panics = HostCall(Arc::new(|_| panic!("as the test wants")));
    queue.signal(&[done.at(1)]).host_call(&panics, [0; 4], HostCallFlags::empty()).unwrap();
    let error = wait(&done, 1).unwrap_err();
    assert_eq!(error.message(), "the thread that ran the submission panicked");
    let next = semaphore(&device);
    let runs = HostCall(Arc::new(|_| Ok(())));
    queue.signal(&[next.at(1)]).host_call(&runs, [0; 4], HostCallFlags::empty()).unwrap();
    wait(&next, 1).unwrap();
}

/// Submitting does not run host calls: these end only when the last of them is submitted.
#[test]
fn host_calls_run_on_workers_concurrently() {
    let device = device(3);
    let (arrive, arrived) = mpsc::channel();
    let begun = Arc::new(AtomicUsize::new(0));
    let call = HostCall(Arc::new({
        let begun = begun.clone();
        move |_| {
            arrive.send(std::thread::current().id()).unwrap();
            begun.fetch_add(1, Ordering::SeqCst);
            while begun.load(Ordering::SeqCst) < 3 {
                std::thread::yield_now();
            }
            Ok(())
        }
    }));
    let dones = [(); 3].map(|()| semaphore(&device));
    for done in &dones {
        let queue = device.queue(QUEUE_AFFINITY_ANY);
        queue.signal(&[done.at(1)]).host_call(&call, [0; 4], HostCallFlags::empty()).unwrap();
    }
    dones.iter().for_each(|done| wait(done, 1).unwrap());
    let mut threads: Vec<_> = (0..3).map(|_| arrived.recv().unwrap()).collect();
    threads.push(std::thread::current().id());
    threads.sort_by_key(|id| format!("{id:?}"));
    threads.dedup();
    assert_eq!(threads.len(), 4);
}

/// Devices that share workers, each with a thread that waits without a timeout, and so may help.
#[test]
fn no_more_threads_than_workers_run_kernels() {
    for workers in [1, 2] {
        let mut options = options(workers);
        options.workers = Some(options.start_workers().unwrap());
        let devices = [(); 3].map(|()| LocalTask::create(options.clone()).unwrap());
        let counts = buffer(&devices[0], 8);
        std::thread::scope(|scope| {
            for device in &devices {
                let counts = &counts;
                scope.spawn(move || {
                    let (executable, done) = (library(device), semaphore(device));
                    let bindings = [BufferRef::whole(counts)];
                    for (value, turns) in (1..).zip([20_000_u32, 20, 20, 20_000, 20].repeat(8)) {
                        let turns = turns.to_le_bytes();
                        let crowd =
                            dispatch(&executable, "crowd", [1 + value as u32 % 3, 1, 1], &turns, &bindings);
                        let signals = [done.at(value)];
                        let queue = device.queue(QUEUE_AFFINITY_ANY).signal(&signals);
                        if value % 4 == 0 {
                            let mode =
                                CommandBufferMode::ONE_SHOT | CommandBufferMode::ALLOW_INLINE_EXECUTION;
                            let recorded = commands_of(device, mode, |commands| {
                                commands.record(&Command::Dispatch(crowd)).unwrap();
                            });
                            queue.execute(&recorded, &[], 0).unwrap();
                        } else {
                            queue.dispatch(&crowd).unwrap();
                        }
                        done.wait(value, None).unwrap();
                    }
                });
            }
        });
        let mut bytes = [0; 8];
        counts.read(0, &mut bytes).unwrap();
        let [running, most] = [0, 4].map(|at| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()));
        assert_eq!(running, 0);
        assert!(most as usize <= workers, "{most} threads at once, with {workers} workers");
    }
}

/// First a function of unknown cost, which a waiting thread would run, and then a brief one, which would run
/// inline.
#[test]
fn only_placed_workers_run_work() {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let processor = (0..1024).rev().find(|it| allowed.is_set(*it)).unwrap() as u32;
    let placed = |place: fn(&mut LocalTaskOptions, u32)| {
        let mut options = LocalTaskOptions::default();
        place(&mut options, processor);
        LocalTask::create(options).unwrap()
    };
    let devices = [
        placed(|options, processor| options.selection.processors = vec![vec![processor]]),
        placed(|options, processor| {
            options.selection.processors = vec![vec![processor]];
            options.topology = Some(options.selection.select().unwrap().remove(0));
        }),
        Driver::new(LocalTaskDriver)
            .configure(OptionSet::default(), &[("task_topology_cpu_ids", &processor.to_string())])
            .and_then(|options| Driver::new(LocalTaskDriver).create_device("", &options))
            .unwrap(),
    ];
    let host = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    for device in devices {
        let (executable, done, seen) = (library(&device), semaphore(&device), buffer(&device, 8));
        let bindings = [BufferRef::whole(&seen)];
        let mut threads = Vec::new();
        for value in 1..=100 {
            let located = dispatch(&executable, "located", [1; 3], &[], &bindings);
            let signals = [done.at(value)];
            let queue = device.queue(QUEUE_AFFINITY_ANY).signal(&signals);
            if value % 3 == 0 {
                let mode = CommandBufferMode::ONE_SHOT | CommandBufferMode::ALLOW_INLINE_EXECUTION;
                let recorded = commands_of(&device, mode, |commands| {
                    commands.record(&Command::Dispatch(located)).unwrap();
                });
                queue.execute(&recorded, &[], 0).unwrap();
            } else {
                queue.dispatch(&located).unwrap();
            }
            done.wait(value, None).unwrap();
            let mut bytes = [0; 8];
            seen.read(0, &mut bytes).unwrap();
            let [thread, on] = [0, 4].map(|at| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()));
            assert_ne!(thread, host, "dispatch {value}");
            assert_eq!(on, processor, "dispatch {value}");
            threads.push(thread);
        }
        threads.dedup();
        assert_eq!(threads.len(), 1);
    }
}

/// Occupies a worker by a host call that ends, and signals `called`, when the sender is used; it fails if
/// that takes too long.
fn occupy_worker(device: &Device, called: &Semaphore) -> mpsc::Sender<()> {
    let (started, start) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let released = std::sync::Mutex::new(released);
    let call = HostCall(Arc::new(move |_| {
        started.send(()).unwrap();
        let released = released.lock().unwrap().recv_timeout(Duration::from_secs(30));
        released.map_err(|_| Error::new(StatusCode::DeadlineExceeded, "the worker was not released"))
    }));
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    queue.signal(&[called.at(1)]).host_call(&call, [0; 4], HostCallFlags::empty()).unwrap();
    start.recv().unwrap();
    release
}

/// The only worker is occupied by a host call until the wait is over.
#[test]
fn a_thread_that_waits_runs_what_it_waits_for() {
    let device = device(1);
    let (executable, begun) = (library(&device), buffer(&device, 4));
    let (called, done) = (semaphore(&device), semaphore(&device));
    let release = occupy_worker(&device, &called);
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    let bindings = [BufferRef::whole(&begun)];
    let one = 1_u32.to_le_bytes();
    let meet = dispatch(&executable, "meet", [1; 3], &one, &bindings);
    queue.signal(&[done.at(1)]).dispatch(&meet).unwrap();
    done.wait(1, None).unwrap();
    release.send(()).unwrap();
    wait(&called, 1).unwrap();
}

/// The only worker is occupied by a host call until the wait is over, and another thread executes work when
/// the wait begins.
#[test]
fn a_thread_that_waits_runs_what_it_waits_for_when_another_has_ended() {
    let device = device(1);
    let (executable, other, begun) = (library(&device), buffer(&device, 4), buffer(&device, 4));
    let [called, other_done, done] = [(); 3].map(|()| semaphore(&device));
    let release = occupy_worker(&device, &called);
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    let count = |buffer: &Buffer| {
        let mut bytes = [0; 4];
        buffer.read(0, &mut bytes).unwrap();
        u32::from_le_bytes(bytes)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (two, bindings) = (2_u32.to_le_bytes(), [BufferRef::whole(&other)]);
            let meet = dispatch(&executable, "meet", [1; 3], &two, &bindings);
            queue.signal(&[other_done.at(1)]).dispatch(&meet).unwrap();
            other_done.wait(1, None).unwrap();
        });
        // That thread helps, and holds the only permit until the count is two.
        while count(&other) == 0 {
            std::thread::yield_now();
        }
        let (one, bindings) = (1_u32.to_le_bytes(), [BufferRef::whole(&begun)]);
        let meet = dispatch(&executable, "meet", [1; 3], &one, &bindings);
        queue.signal(&[done.at(1)]).dispatch(&meet).unwrap();
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(count(&begun), 0, "no more threads than workers");
            other.write(0, &2_u32.to_le_bytes()).unwrap();
        });
        done.wait(1, None).unwrap();
    });
    release.send(()).unwrap();
    wait(&called, 1).unwrap();
}

/// The only worker is occupied by a host call, and this thread does not wait, so that the dispatch has run
/// only if it did when it was submitted.
#[test]
fn what_dispatches_cost_is_known_when_their_executable_is_loaded_again() {
    let (device, data) = (device(1), library_bytes());
    let (begun, queue) = (buffer(&device, 4), device.queue(QUEUE_AFFINITY_ANY));
    let bindings = [BufferRef::whole(&begun)];
    let one = 1_u32.to_le_bytes();
    let first = load(&device, &data);
    for _ in 0..32 {
        let done = semaphore(&device);
        let brief = dispatch(&first, "meet", [1; 3], &one, &bindings);
        queue.signal(&[done.at(1)]).dispatch(&brief).unwrap();
        wait(&done, 1).unwrap();
    }
    drop(first);
    let (called, done) = (semaphore(&device), semaphore(&device));
    let release = occupy_worker(&device, &called);
    let again = load(&device, &data);
    let brief = dispatch(&again, "meet", [1; 3], &one, &bindings);
    queue.signal(&[done.at(1)]).dispatch(&brief).unwrap();
    assert_eq!(done.query().unwrap(), 1);
    release.send(()).unwrap();
    wait(&called, 1).unwrap();
}

#[test]
fn a_released_device_runs_what_is_ready_and_fails_what_waits() {
    for _ in 0..50 {
        let device = device(2);
        let (gate, waits, target) = (semaphore(&device), semaphore(&device), buffer(&device, 1 << 20));
        let dones = [(); 8].map(|()| semaphore(&device));
        let queue = device.queue(QUEUE_AFFINITY_ANY);
        for done in &dones {
            queue.signal(&[done.at(1)]).fill(&target, &[7], 0).unwrap();
        }
        queue.wait(&[gate.at(1)]).signal(&[waits.at(1)]).fill(&target, &[8], 0).unwrap();
        // The buffer owns the device too.
        drop((device, target));
        for done in &dones {
            assert_eq!(done.query().unwrap(), 1);
        }
        assert_eq!(waits.query().unwrap_err().code(), StatusCode::Aborted);
    }
}

#[test]
fn a_worker_may_release_the_last_handle_of_its_device() {
    for _ in 0..50 {
        let device = device(2);
        let done = semaphore(&device);
        let (send, receive) = mpsc::channel::<Device>();
        let receive = std::sync::Mutex::new(receive);
        let call = HostCall(Arc::new(move |_| {
            drop(receive.lock().unwrap().recv().unwrap());
            Ok(())
        }));
        let queue = device.queue(QUEUE_AFFINITY_ANY);
        queue.signal(&[done.at(1)]).host_call(&call, [0; 4], HostCallFlags::empty()).unwrap();
        send.send(device).unwrap();
        wait(&done, 1).unwrap();
    }
}

#[test]
fn more_local_memory_than_a_worker_has_is_an_error() {
    // The function has 8192 bytes. By default, workers have the size of their L2 cache: of an assumed one
    // here.
    for (given, limit) in [(Some(8192), 8192), (None, 131_072)] {
        let mut options = options(2);
        options.worker_local_memory = given;
        let device = LocalTask::create(options).unwrap();
        let (executable, words) = (library(&device), buffer(&device, 400));
        let bindings = [BufferRef::whole(&words)];
        for (more, code) in [(0, None), (1, Some(StatusCode::ResourceExhausted))] {
            let done = semaphore(&device);
            let mut trace = dispatch(&executable, "trace", [1; 3], &[], &bindings);
            trace.dynamic_local_memory = limit - 8192 + more;
            // By now the dispatch may be known to be brief: then it runs inline, and the submission returns
            // the error.
            let submitted = device.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(1)]).dispatch(&trace);
            let outcome = submitted.and_then(|()| wait(&done, 1));
            assert_eq!(outcome.as_ref().err().map(Error::code), code);
            if let Err(error) = outcome {
                let expected = format!(
                    "function 'trace' needs {} bytes of local memory per workgroup, a worker has {limit}",
                    limit + 1
                );
                assert_eq!(error.message(), expected);
            }
        }
    }
}

/// Needs more stack than the least that workers have.
#[inline(never)]
fn use_stack() -> u8 {
    let mut bytes = [1_u8; 3 << 20];
    std::hint::black_box(&mut bytes)[0]
}

#[test]
fn workers_have_names_and_the_stack_that_is_asked_for() {
    let mut options = options(1);
    options.worker.stack_bytes = 8 << 20;
    let device = LocalTask::create(options).unwrap();
    let done = semaphore(&device);
    let call = HostCall(Arc::new(|_| {
        assert_eq!((std::thread::current().name(), use_stack()), (Some("iree-worker-0"), 1));
        Ok(())
    }));
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    queue.signal(&[done.at(1)]).host_call(&call, [0; 4], HostCallFlags::empty()).unwrap();
    wait(&done, 1).unwrap();
}

#[test]
fn a_worker_that_spins_ends_with_its_pool() {
    let mut options = options(2);
    // Longer than any test may take.
    options.worker.spin = Duration::from_secs(1 << 30);
    let device = LocalTask::create(options).unwrap();
    let done = semaphore(&device);
    let target = buffer(&device, 1 << 20);
    device.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(1)]).fill(&target, &[1], 0).unwrap();
    wait(&done, 1).unwrap();
    let (ended, ending) = mpsc::channel();
    std::thread::spawn(move || {
        drop((target, done, device));
        ended.send(())
    });
    ending.recv_timeout(Duration::from_secs(60)).expect("the workers end");
}

#[test]
fn the_number_of_workers_is_bounded() {
    for count in [0, 1025] {
        assert_eq!(Topology::with_workers(count).unwrap_err().code(), StatusCode::OutOfRange);
    }
}

const CASE: &str = "REHAL_TEST_TASK_CASE";

/// Not a test: the child process of the tests below.
#[test]
fn child() {
    let Ok(case) = std::env::var(CASE) else { return };
    let mut options = options(2);
    options.abort_on_failure = case != "crash";
    let device = LocalTask::create(options).unwrap();
    if case == "crash of another device" {
        return crash_another_device(&device);
    }
    let (executable, done, target) = (library(&device), semaphore(&device), buffer(&device, 4));
    rehal_crash::install();
    rehal_crash::set_context(31, 7536);
    let bindings = [BufferRef::whole(&target)];
    let (function, bindings) = if case == "abort" { ("fails", &bindings[..]) } else { ("wild", &[][..]) };
    let crashes = dispatch(&executable, function, [2, 1, 1], &[], bindings);
    device.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(1)]).dispatch(&crashes).unwrap();
    rehal_crash::set_context(32, 8000);
    let outcome = wait(&done, 1);
    panic!("the process did not exit: {outcome:?}");
}

/// A thread that executes work of a device makes that of a synchronous one ready, which crashes.
fn crash_another_device(device: &Device) {
    let other = LocalSync::create(Default::default());
    let (executable, gate, done) = (library(&other), semaphore(device), semaphore(&other));
    rehal_crash::install();
    let crashes = dispatch(&executable, "wild", [1, 1, 1], &[], &[]);
    other.queue(QUEUE_AFFINITY_ANY).wait(&[gate.at(1)]).signal(&[done.at(1)]).dispatch(&crashes).unwrap();
    // Brief, so that this thread executes it.
    let target = buffer(device, 4);
    device.queue(QUEUE_AFFINITY_ANY).signal(&[gate.at(1)]).fill(&target, &[1], 0).unwrap();
    let outcome = wait(&done, 1);
    panic!("the process did not exit: {outcome:?}");
}

fn run_child(case: &str) -> Output {
    let arguments = ["--exact", "child", "--nocapture", "--test-threads=1"];
    own_program().args(arguments).env(CASE, case).output().unwrap()
}

#[test]
fn a_kernel_that_faults_on_a_worker_is_named_with_the_record_that_submitted_it() {
    let output = run_child("crash");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(rehal_crash::EXIT_STATUS), "{text}");
    assert!(text.contains("function 'wild' (10) of executable 4 ('test_library'), workgroup ["), "{text}");
    assert!(text.contains("  at: record #31, offset 7536, instruction 0x"), "{text}");
}

#[test]
fn a_crash_aborts_after_the_report_if_requested() {
    let output = run_child("crash and abort");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(6), "{text}");
    assert!(text.contains("function 'wild' (10) of executable 4 ('test_library'), workgroup ["), "{text}");
    assert_eq!(text.matches("crashed with").count(), 1, "{text}");
}

#[test]
fn a_crash_of_another_device_does_not_abort() {
    let output = run_child("crash of another device");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(rehal_crash::EXIT_STATUS), "{text}");
}

#[test]
fn a_failure_aborts_if_requested() {
    let output = run_child("abort");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(6), "{text}");
    assert!(
        text.contains("INTERNAL; function 'fails' failed in workgroup [1, 0, 0]: it returned 7"),
        "{text}"
    );
    assert!(text.contains("record #31, offset 7536"), "{text}");
}
