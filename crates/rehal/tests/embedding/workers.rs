//! Devices with workers of their own, by the parameters of their URIs.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::ThreadId;

use rehal_base::StatusCode;
use rehal_devices::{DeviceOptions, DeviceSpec};
use rehal_hal::{Device, HostCall, HostCallFlags, QUEUE_AFFINITY_ANY, SemaphoreFlags};
use rehal_local::{LocalTaskOptions, Topology};

/// A thread, and the CPUs on which it may run, as the kernel lists them.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    thread: ThreadId,
    processors: String,
}

impl Place {
    fn here() -> Self {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        Self { thread: std::thread::current().id(), processors: list.unwrap().trim().to_owned() }
    }

    /// The first and the last CPU on which this process may run; the same if there is one.
    fn ends() -> [String; 2] {
        let all = Self::here().processors;
        let first = all.split([',', '-']).next().unwrap();
        let last = all.rsplit([',', '-']).next().unwrap();
        [first.to_owned(), last.to_owned()]
    }
}

/// The worker that runs a host call.
fn worker_of(device: &Device) -> Place {
    let (sender, receiver) = channel();
    let call = HostCall(Arc::new(move |_| {
        sender.send(Place::here()).unwrap();
        Ok(())
    }));
    let done = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::default()).unwrap();
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    queue.signal(&[done.at(1)]).host_call(&call, [0; 4], HostCallFlags::empty()).unwrap();
    done.wait(1, None).unwrap();
    receiver.recv().unwrap()
}

fn options(uris: &[&str]) -> DeviceOptions {
    DeviceOptions::for_devices(uris.iter().map(|uri| DeviceSpec::find(uri).unwrap()).collect())
}

fn workers(options: &DeviceOptions) -> Vec<Place> {
    options.open().unwrap().devices().iter().map(worker_of).collect()
}

#[test]
fn devices_have_the_workers_of_their_parameters_and_share_equal_ones() {
    let [first, last] = Place::ends();
    let on = |processor: &str| format!("local-task://?task_topology_cpu_ids={processor}");
    let (on_first, on_last) = (on(&first), on(&last));
    let uris = [&on_first, &on_last, "local-task", &on_last, "local-task://?task_worker_local_memory=4096"];
    let mut options = options(&uris);
    let mut flags = LocalTaskOptions::default();
    flags.selection.worker_count = Some(1);
    options.drivers = options.drivers.with(flags);
    let places = workers(&options);
    let on: Vec<_> = places.iter().map(|place| &*place.processors).collect();
    let anywhere = Place::here().processors;
    assert_eq!(on, [&first, &last, &anywhere, &last, &anywhere]);
    assert_eq!(places[1], places[3], "equal parameters");
    assert_eq!(places[2], places[4], "the workers are the same, with another limit");
    assert_ne!(places[0].thread, places[2].thread);
    assert_eq!(places[0].thread == places[1].thread, first == last);
}

#[test]
fn workers_of_the_program_are_for_devices_without_parameters() {
    let mut given = LocalTaskOptions::default();
    given.topology = Some(Topology::with_workers(1).unwrap());
    given.workers = Some(given.start_workers().unwrap());
    let [first, _] = Place::ends();
    let own = format!("local-task://?task_topology_cpu_ids={first}");
    let mut options = options(&["local-task", &own]);
    options.drivers = options.drivers.with(given);
    let [again, twice] = [workers(&options), workers(&options)];
    assert_eq!(again[0], twice[0]);
    assert_eq!(again[1].processors, first);
    assert_ne!(again[1].thread, again[0].thread);
}

#[test]
fn parameters_without_workers_are_errors_of_their_device() {
    let options = options(&["local-task", "local-task://?task_topology_cpu_ids=0,65000"]);
    let error = options.open().err().unwrap();
    assert_eq!(error.code(), StatusCode::OutOfRange);
    assert!(error.message().starts_with("CPU 65000 does not exist"), "{}", error.report());
    let device = "device 'local-task://?task_topology_cpu_ids=0,65000'";
    assert_eq!(error.context_lines(), [device]);
    for (uri, words) in [
        ("local-task://?task_topology_cpu_id=0", "did you mean 'task_topology_cpu_ids'?"),
        (
            "local-task://?task_topology_cpu_ids=one",
            "unexpected value 'one' (expected numbers of logical CPUs, such as 0,2 or 0-3)",
        ),
        ("local-sync://?task_topology_cpu_ids=0", "its parameters: task_worker_stack_size"),
    ] {
        let error = DeviceSpec::find(uri).err().unwrap();
        assert_eq!(error.code(), StatusCode::InvalidArgument, "{uri}");
        assert!(error.report().contains(words), "{}", error.report());
    }
}
