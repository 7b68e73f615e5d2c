//! The suite passes on a small correct device, and fails if the device has a single fault: a test that finds
//! no fault proves nothing.

mod memory_device;

use std::time::Duration;

use memory_device::{FORMAT, Fault, MemoryDevice, code};
use rehal_base::{Error, Result};
use rehal_cts::{Capability, Expected, Kernel, Subject, Test, tests};
use rehal_hal::{Device, Executable, ExecutableParams};

struct Memory {
    fault: Fault,
    expected: &'static [Expected],
    /// Whether tests wait for what a faulty device never does.
    is_patient: bool,
}

impl Memory {
    fn new(fault: Fault, expected: &'static [Expected]) -> Self {
        Self { fault, expected, is_patient: fault == Fault::Nothing }
    }
}

const LACKS: &[Expected] = &[
    Expected::Lacks(Capability::NativeKernels, "kernels are Rust functions"),
    Expected::Lacks(Capability::SelectedWorkgroups, "all workgroups run"),
];

impl Subject for Memory {
    fn device(&self) -> Result<Device> {
        Ok(MemoryDevice::create(self.fault))
    }

    fn kernel(&self, kernel: Kernel, _format: &str) -> Result<Vec<u8>> {
        match kernel {
            Kernel::Native => Err(Error::not_found("native kernels are not supported")),
            kernel => Ok(code(kernel.name())),
        }
    }

    fn prepare(&self, device: &Device, params: &ExecutableParams<'_>) -> Result<Executable> {
        // SAFETY: the device has no native code; it looks up names.
        unsafe { device.backend().prepare_executable(params) }
    }

    fn expected(&self) -> &[Expected] {
        self.expected
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(if self.is_patient { 30_000 } else { 40 })
    }
}

fn test(name: &str) -> Test {
    let name = name.replace("FORMAT", FORMAT);
    let found = tests(&[FORMAT]).into_iter().find(|test| test.name() == name);
    found.unwrap_or_else(|| panic!("the suite has no test '{name}'"))
}

#[test]
fn the_correct_device_passes_every_test() {
    let subject = Memory::new(Fault::Nothing, LACKS);
    let suite = tests(&[FORMAT]);
    assert!(suite.len() > 400, "the suite has shrunk to {} tests", suite.len());
    let wrong: Vec<_> = suite
        .iter()
        .filter_map(|test| test.judge(&subject).err().map(|why| format!("{}: {why}", test.name())))
        .collect();
    assert!(wrong.is_empty(), "{} tests failed:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn names_are_unique() {
    let suite = tests(&["one-format", "another-format"]);
    let mut names: Vec<_> = suite.iter().map(Test::name).collect();
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

/// Faults, with tests that must find them and one that must not be affected.
const FAULTS: [(Fault, &[&str], &str); 17] = [
    (
        Fault::DropsSignals,
        &["queue/fill/runs_and_signals", "queue/barrier/runs_and_signals", "fill/queue/whole_buffer"],
        "semaphore/threads/ping_pong",
    ),
    (
        Fault::SignalsOnlyTheFirst,
        &[
            "queue/fill/signals_all",
            "ordering/device_signals_device_and_host",
            "host_call/failure_fails_all_signals",
        ],
        "queue/fill/runs_and_signals",
    ),
    (
        Fault::IgnoresWaits,
        &["queue/copy/waits_for_the_host", "queue/alloca/waits_for_all", "ordering/chain_in_reverse_order"],
        "queue/fill/runs_and_signals",
    ),
    (
        Fault::RunsAfterFailedWaits,
        &[
            "queue/fill/failed_wait_fails_the_signals",
            "queue/execute/wait_that_fails_later_fails_the_signals",
            "transient/failed_dealloca_leaves_it",
        ],
        "queue/fill/waits_for_all",
    ),
    (
        Fault::SwallowsFailures,
        &[
            "host_call/failure_fails_all_signals",
            "queue/update/one_failed_wait_is_enough",
            "ordering/deep_chain_of_failures",
        ],
        "host_call/arguments",
    ),
    (
        Fault::TimelinesTakeAnyValue,
        &["semaphore/only_grows", "ordering/a_queue_never_moves_a_timeline_back"],
        "wait_all/all_reached",
    ),
    (
        Fault::SkipsFills,
        &[
            "fill/queue/whole_buffer",
            "fill/direct/every_offset_and_length",
            "fill/slots/large",
            "pipeline/FORMAT/windows/fill_dispatch_dispatch",
        ],
        "copy/queue/whole_buffer",
    ),
    (
        Fault::FillsFromTheStart,
        &["fill/queue/every_offset_and_length", "fill/windows/to_the_end"],
        "fill/queue/whole_buffer",
    ),
    (
        Fault::CopiesTheWrongWay,
        &["copy/queue/whole_buffer", "copy/slots/chain", "mapping/device_sees_what_the_host_wrote"],
        "fill/queue/whole_buffer",
    ),
    (
        Fault::ReadsFilesFromTheStart,
        &["file/memory/read_every_range", "file/disk/read_every_range"],
        "file/disk/read_whole",
    ),
    (
        Fault::RunsOnlyTheFirstCommand,
        &["fill/direct/several", "command_buffer/many_commands"],
        "fill/queue/several",
    ),
    (
        Fault::IgnoresOffsetsInSlots,
        &["bindings/ranges_add_up", "fill/slots/every_offset_and_length"],
        "fill/direct/every_offset_and_length",
    ),
    (
        Fault::RunsOneWorkgroup,
        &["dispatch/FORMAT/queue/workgroup_ids_and_counts", "dispatch/FORMAT/slots/no_workgroups"],
        "dispatch/FORMAT/queue/constants",
    ),
    (
        Fault::IgnoresCountsInBuffers,
        &[
            "dispatch/FORMAT/direct/count_from_buffer/dynamic/from_update",
            "dispatch/FORMAT/queue/count_from_buffer/static/whole_buffer",
        ],
        "dispatch/FORMAT/queue/workgroup_ids_and_counts",
    ),
    (
        Fault::KeepsDeallocatedBuffers,
        &[
            "transient/use_after_dealloca_fails",
            "transient/second_dealloca_fails",
            "queue/dealloca/runs_and_signals",
        ],
        "transient/alloca_use_dealloca",
    ),
    (
        Fault::LosesArguments,
        &["host_call/arguments", "queue/host_call/runs_and_signals"],
        "host_call/failure_after_a_wait",
    ),
    (
        Fault::TakesAnyCode,
        &[
            "executable/FORMAT/garbage_is_refused",
            "executable/FORMAT/truncated_is_refused",
            "executable/FORMAT/functions_are_described",
        ],
        "executable/FORMAT/prepared_twice",
    ),
];

#[test]
fn every_fault_is_found() {
    for (fault, finders, indifferent) in FAULTS {
        let mut subject = Memory::new(fault, LACKS);
        for name in finders {
            assert!(test(name).run(&subject).is_err(), "{name} did not find that the device {fault:?}");
        }
        subject.is_patient = true;
        if let Err(why) = test(indifferent).run(&subject) {
            panic!("{indifferent} failed where the device {fault:?}: {}", why.report());
        }
    }
}

#[test]
fn a_declared_failure_must_happen() {
    const DECLARED: &[Expected] = &[Expected::Fails("fill/queue/whole_buffer", "fills are skipped")];
    let fill = test("fill/queue/whole_buffer");
    assert_eq!(fill.judge(&Memory::new(Fault::SkipsFills, DECLARED)), Ok(()));
    let why = fill.judge(&Memory::new(Fault::Nothing, DECLARED)).unwrap_err();
    assert!(why.contains("passed, but") && why.contains("fills are skipped"), "{why}");
    let why = fill.judge(&Memory::new(Fault::SkipsFills, &[])).unwrap_err();
    assert!(why.contains("byte 0 is"), "{why}");
}

#[test]
fn a_declaration_must_cover_a_test() {
    const GOOD: &[Expected] = &[
        Expected::Fails("fill/queue/*", "fills are skipped"),
        Expected::Lacks(Capability::HostCalls, "no host"),
    ];
    const STALE: &[Expected] = &[Expected::Fails("fill/quque/*", "a renamed test")];
    let check = test("suite/declarations_cover_tests");
    assert_eq!(check.judge(&Memory::new(Fault::Nothing, GOOD)), Ok(()));
    let why = check.judge(&Memory::new(Fault::Nothing, STALE)).unwrap_err();
    assert!(why.contains("fill/quque/*"), "{why}");
}

#[test]
fn tests_declare_their_capabilities() {
    let needs = |name: &str| test(name).needs().to_vec();
    assert_eq!(needs("fill/queue/whole_buffer"), []);
    assert_eq!(needs("file/disk/read_whole"), [Capability::DiskFiles]);
    let both = [Capability::Executables, Capability::NativeKernels];
    assert_eq!(needs("native/FORMAT/direct/local_memory"), both);
}
