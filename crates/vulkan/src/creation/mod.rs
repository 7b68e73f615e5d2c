//! Tests in which each call that creates something fails in turn: nothing leaks, nothing crashes, every error
//! is reported, and the device continues to work.
#![allow(unsafe_code, reason = "intercepts the loader, and prepares the tests' kernels")]

mod interception;

use std::sync::{Arc, Weak};
use std::time::Duration;

use ash::vk;
use parking_lot::Mutex;
use rehal_base::{Context, Error, HostMemory, Range, Result, StatusCode};
use rehal_hal::profile::{ProfileData, ProfileFilter, ProfileRequest, ProfileSink};
use rehal_hal::{
    Buffer, BufferParams, BufferRef, BufferUsage, Command, CommandBufferParams, Device, Dispatch, Driver,
    Executable, ExecutableParams, HostFile, Live, MemoryAccess, MemoryType, OptionSet, QUEUE_AFFINITY_ANY,
    Semaphore, SemaphoreFlags,
};

use crate::emulation::{EmulatedMemory, Emulation};
use crate::instance::Instance;
use crate::{DebugMessage, VulkanDriver, VulkanDriverOptions, VulkanOptions};

const LONG: Option<Duration> = Some(Duration::from_secs(60));
/// Bytes of the fixture's bindings.
const BYTES: u64 = 64;

/// A way to use a device.
#[derive(Clone)]
struct Scenario {
    emulation: Emulation,
    options: VulkanOptions,
    format: &'static str,
    kernel: &'static str,
}

/// A sink that keeps nothing.
struct Sink;

impl ProfileSink for Sink {}

fn semaphore(device: &Device) -> Result<Semaphore> {
    device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty())
}

fn prepare(device: &Device, scenario: &Scenario) -> Result<Executable> {
    let path = testing::fixtures().join("vulkan/executables").join(scenario.kernel);
    let data = std::fs::read(path).unwrap();
    let params = ExecutableParams::new(scenario.format, &data);
    // SAFETY: the fixture accesses only its bindings.
    unsafe { device.backend().prepare_executable(&params) }
}

fn affine<'a>(executable: &'a Executable, bindings: &'a [BufferRef<&'a Buffer>]) -> Dispatch<Live<'a>> {
    Dispatch::new(executable, 0, [1; 3]).constants(&[3, 0, 0, 0, 1, 0, 0, 0]).bindings(bindings)
}

/// Memory that only the device needs, and memory that the host maps.
fn params() -> [BufferParams; 2] {
    let mapped = BufferParams {
        usage: BufferParams::default().usage | BufferUsage::MAPPING_SCOPED,
        memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
        ..BufferParams::default()
    };
    [BufferParams { memory_type: MemoryType::DEVICE_LOCAL, ..BufferParams::default() }, mapped]
}

/// Work of all kinds, and its results.
fn work(device: &Device, scenario: &Scenario, phase: &Mutex<&'static str>) -> Result<()> {
    let enter = |what| *phase.lock() = what;
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    let done = semaphore(device)?;
    enter("preparing");
    let executable = prepare(device, scenario)?;
    enter("allocating");
    let [local, mapped] = params();
    let (from, to) = (device.allocate_buffer(local, BYTES)?, device.allocate_buffer(mapped, BYTES)?);
    enter("executing commands");
    let commands = device.create_command_buffer(CommandBufferParams::default().slots(2))?;
    let slots = [0, 1].map(|slot| BufferRef {
        binding: rehal_hal::Binding::Slot(slot),
        offset: 0,
        length: rehal_hal::WHOLE_BUFFER,
    });
    let bindings = [BufferRef::whole(&from), BufferRef::whole(&to)];
    commands.begin()?;
    commands.record(&Command::Dispatch(Dispatch { bindings: &slots, ..affine(&executable, &bindings) }))?;
    commands.end()?;
    queue.signal(&[done.at(1)]).fill(&from, &[7, 0, 0, 0], 0)?;
    queue.wait(&[done.at(1)]).signal(&[done.at(2)]).execute(&commands, &bindings, 0)?;
    done.wait(2, LONG)?;
    check(&to, 7 * 3 + 1)?;
    enter("reading and writing files");
    let file = HostFile::from_bytes(&5_u32.to_ne_bytes().repeat(16))?;
    let both = MemoryAccess::READ | MemoryAccess::WRITE;
    let file = device.import_file(QUEUE_AFFINITY_ANY, both, file)?;
    queue.wait(&[done.at(2)]).signal(&[done.at(3)]).read(&file, 0, &from, 0)?;
    queue.wait(&[done.at(3)]).signal(&[done.at(4)]).write(&from, &file, 0, 0)?;
    done.wait(4, LONG)?;
    enter("transient memory");
    let transient = queue.wait(&[done.at(4)]).signal(&[done.at(5)]).alloca(local, BYTES, 0)?;
    queue.wait(&[done.at(5)]).signal(&[done.at(6)]).copy(&from, &transient, 0)?;
    queue
        .wait(&[done.at(6)])
        .signal(&[done.at(7)])
        .dispatch(&affine(&executable, &[BufferRef::whole(&transient), BufferRef::whole(&to)]))?;
    queue.wait(&[done.at(7)]).signal(&[done.at(8)]).dealloca(&transient, 0)?;
    done.wait(8, LONG)?;
    check(&to, 5 * 3 + 1)?;
    enter("importing memory");
    if scenario.emulation.missing_extensions.is_empty() {
        let memory = Arc::new(HostMemory::allocate(4096)?);
        let imported = device.import_buffer(mapped, &memory, Range { offset: 0, length: BYTES })?;
        queue.wait(&[done.at(8)]).signal(&[done.at(9)]).copy(&from, &imported, 0)?;
        done.wait(9, LONG)?;
    }
    enter("profiling");
    let data = ProfileData::DISPATCH_EVENTS | ProfileData::DEVICE_QUEUE_EVENTS;
    let (filter, sink) = (ProfileFilter::default(), Arc::new(Sink));
    device.begin_profiling(&ProfileRequest { data, filter, counters: Vec::new(), sink })?;
    let profiled = semaphore(device)?;
    let outcome = (queue.signal(&[profiled.at(1)]).execute(&commands, &bindings, 0))
        .and_then(|()| profiled.wait(1, LONG));
    let ended = device.end_profiling();
    outcome.and(ended)?;
    check(&to, 5 * 3 + 1)
}

fn check(buffer: &Buffer, expected: u32) -> Result<()> {
    let mut bytes = [0; BYTES as usize];
    buffer.read(0, &mut bytes)?;
    assert_eq!(bytes, *expected.to_ne_bytes().repeat(16));
    Ok(())
}

/// How a run ended.
struct Outcome {
    /// The error, and what was done when it occurred.
    error: Option<(Error, &'static str)>,
    /// Whether the call was made, and failed.
    has_failed: bool,
    messages: Vec<String>,
    /// Whether the instance was not destroyed, since something of a device was not.
    is_alive: bool,
}

/// How calls fail.
#[derive(Clone, Copy, Debug)]
struct Failure {
    error: vk::Result,
    /// Whether all later calls fail, too, and not only one.
    is_lasting: bool,
    /// The status code that it is reported as.
    code: StatusCode,
    /// Functions that the driver can do without, or replace.
    tolerated: &'static [&'static str],
}

/// Functions whose failures are never reported: pipelines are created without a cache, clocks are read by a
/// queue, and commands are recorded into a new pool.
const TOLERATED: [&str; 3] =
    ["vkCreatePipelineCache", "vkGetPhysicalDeviceCalibrateableTimeDomainsEXT", "vkResetCommandPool"];

const FAILURES: [Failure; 3] = [
    Failure {
        error: vk::Result::ERROR_UNKNOWN,
        is_lasting: false,
        code: StatusCode::Internal,
        tolerated: &[],
    },
    Failure {
        error: vk::Result::ERROR_OUT_OF_HOST_MEMORY,
        is_lasting: false,
        code: StatusCode::ResourceExhausted,
        // Memory is allocated again after a trim.
        tolerated: &["vkCreateBuffer", "vkAllocateMemory", "vkBindBufferMemory", "vkMapMemory"],
    },
    Failure {
        error: vk::Result::ERROR_OUT_OF_HOST_MEMORY,
        is_lasting: true,
        code: StatusCode::ResourceExhausted,
        tolerated: &[],
    },
];

/// Uses a device, of which a call of a function fails after `calls` that succeed; if it does not lose the
/// device, all is done again.
fn run(scenario: &Scenario, function: usize, calls: usize, failure: Failure) -> Outcome {
    let messages = Arc::<Mutex<Vec<String>>>::default();
    let kept = messages.clone();
    let options = VulkanDriverOptions {
        validation: true,
        messages: Some(Arc::new(move |message: &DebugMessage| kept.lock().push(message.text.clone()))),
        ..VulkanDriverOptions::default()
    };
    let phase = Mutex::new("creating the device");
    let entry = interception::entry();
    interception::fail(function, calls, failure.is_lasting, failure.error);
    let mut weak = Weak::new();
    let created = Instance::create(entry, &options).and_then(|instance| {
        let instance = Arc::new(instance);
        weak = Arc::downgrade(&instance);
        let driver = VulkanDriver::on(instance, scenario.emulation.clone());
        Driver::new(driver).create_device("", &OptionSet::default().with(scenario.options.clone()))
    });
    let outcome = created.and_then(|device| {
        let outcome = work(&device, scenario, &phase);
        let is_over = interception::stop();
        let is_lost = semaphore(&device).and_then(|it| it.query()).is_err();
        if is_over && !is_lost {
            let at = *phase.lock();
            work(&device, scenario, &Mutex::new("")).context(|| "after the failure".into()).unwrap();
            *phase.lock() = at;
        }
        outcome
    });
    let has_failed = interception::stop();
    let error = outcome.err().map(|error| (error, *phase.lock()));
    let messages = std::mem::take(&mut *messages.lock());
    Outcome { error, has_failed, messages, is_alive: weak.strong_count() != 0 }
}

/// Makes each call of a scenario fail in turn, in every way. The calls have to include all of these
/// functions.
fn fail_in_turn(scenario: &Scenario, functions: &[&str]) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    for failure in FAILURES {
        let mut problems = Vec::new();
        for (position, function) in interception::names().enumerate() {
            let made = fail_each_call(scenario, position, function, failure, &mut problems);
            assert!(made != 0 || !functions.contains(&function), "{function} is never called");
        }
        assert!(problems.is_empty(), "{failure:?}:\n{}", problems.join("\n"));
    }
}

/// Makes each call of a function fail. Returns how many there are.
fn fail_each_call(
    scenario: &Scenario,
    position: usize,
    function: &str,
    failure: Failure,
    problems: &mut Vec<String>,
) -> usize {
    let is_tolerated = TOLERATED.contains(&function) || failure.tolerated.contains(&function);
    for calls in 0.. {
        let Outcome { error, has_failed, messages, is_alive } = run(scenario, position, calls, failure);
        let mut problem = |what: &str| problems.push(format!("{function} {calls}: {what}: {error:?}"));
        if !messages.is_empty() {
            problem(&format!("the validation layer says {messages:?}"));
        }
        if is_alive {
            problem("the instance is not destroyed");
        }
        match &error {
            Some(_) if !has_failed => problem("nothing has failed"),
            Some((it, _)) if it.code() != failure.code => problem("reported with another code"),
            Some((it, _)) if !it.message().contains(": ") => problem("what failed, or why, is not told"),
            None if has_failed && !is_tolerated => problem("not reported"),
            _ => {}
        }
        if !has_failed {
            return calls;
        }
    }
    unreachable!("a run makes fewer calls")
}

#[test]
fn calls_that_fail_leak_nothing() {
    let scenario = Scenario {
        emulation: Emulation::default(),
        options: VulkanOptions::default(),
        format: "vulkan-spirv-fb",
        kernel: "affine.descriptors.vk1",
    };
    let functions = [
        "vkCreateInstance",
        "vkCreateDebugUtilsMessengerEXT",
        "vkEnumeratePhysicalDevices",
        "vkEnumerateDeviceExtensionProperties",
        "vkCreateDevice",
        "vkCreateSemaphore",
        "vkCreateBuffer",
        "vkAllocateMemory",
        "vkBindBufferMemory",
        "vkMapMemory",
        "vkGetMemoryHostPointerPropertiesEXT",
        "vkCreateShaderModule",
        "vkCreateDescriptorSetLayout",
        "vkCreatePipelineLayout",
        "vkCreateComputePipelines",
        "vkCreateCommandPool",
        "vkAllocateCommandBuffers",
        "vkBeginCommandBuffer",
        "vkEndCommandBuffer",
        "vkCreateQueryPool",
        "vkGetQueryPoolResults",
        "vkGetCalibratedTimestampsEXT",
    ];
    fail_in_turn(&scenario, &functions);
}

#[test]
fn calls_that_fail_leak_nothing_of_pools_and_events() {
    let scenario = Scenario {
        emulation: Emulation {
            missing_extensions: &["VK_EXT_external_memory_host", "VK_EXT_calibrated_timestamps"],
            ..Emulation::default()
        },
        options: VulkanOptions { push_descriptors: false, timeout: LONG, ..VulkanOptions::default() },
        format: "vulkan-spirv-fb",
        kernel: "affine.descriptors.vk1",
    };
    let functions = ["vkCreateDescriptorPool", "vkAllocateDescriptorSets", "vkCreateEvent"];
    fail_in_turn(&scenario, &functions);
}

#[test]
fn calls_that_fail_leak_nothing_of_separate_memory_and_a_second_queue() {
    let scenario = Scenario {
        emulation: Emulation {
            memory: Some(EmulatedMemory::Separate),
            has_transfer_family: true,
            ..Emulation::default()
        },
        options: VulkanOptions::default(),
        format: "vulkan-spirv-bda-v1",
        kernel: "affine.addresses.vk1",
    };
    fail_in_turn(&scenario, &["vkMapMemory", "vkCreateSemaphore"]);
}
