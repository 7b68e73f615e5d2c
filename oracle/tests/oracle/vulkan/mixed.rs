//! Groups of a Vulkan device and another one: a program that runs on both, recorded and replayed. Of mixed
//! groups, the reference runs it only with Vulkan first and `local-sync`: elsewhere, its drivers refuse the
//! buffers of each other.

use crate::{Outcome, Pair, ensure, fixture};
use libtest_mimic::{Failed, Trial};
use oracle::captures::repository;
use oracle::e2e::{Compiled, Program};
use oracle::reference::Reference;
use oracle::tool::{self, Ended};
use std::path::PathBuf;

/// A group: the targets of the compiler, the devices, and whether the reference runs it.
type Group = ([&'static str; 2], [&'static str; 2], bool);

const GROUPS: [Group; 5] = [
    (["vulkan", "local"], ["vulkan", "local-task"], false),
    (["vulkan", "local"], ["vulkan", "local-sync"], true),
    (["local", "vulkan"], ["local-task", "vulkan"], false),
    (["local", "vulkan"], ["local-sync", "vulkan"], false),
    (["vulkan[0]", "vulkan[1]"], ["vulkan", "vulkan"], true),
];

/// The square of the double, and the double, of 1 to 8.
const EXPECTED: &str = "8xf32=6 20 42 72 110 156 210 272";

pub fn add(trials: &mut Vec<Trial>) {
    for (targets, devices, in_reference) in GROUPS {
        let name = format!("vulkan::mixed::{}", devices.join(","));
        trials.push(Trial::test(name, move || computes(targets, devices, in_reference)));
    }
}

fn compiled(targets: [&str; 2]) -> Result<PathBuf, Failed> {
    let program = Program {
        name: format!("vulkan/shared_devices.{}", targets.join(".")),
        source: fixture("programs/shared_devices.mlir"),
        flags: vec![
            format!("--iree-hal-target-device=device_a={}", targets[0]),
            format!("--iree-hal-target-device=device_b={}", targets[1]),
            "--iree-hal-local-target-device-backends=llvm-cpu".to_owned(),
            "--iree-llvmcpu-target-cpu=generic".to_owned(),
        ],
    };
    match program.compile(&Reference::find(&repository())?, &repository().join("target/e2e"))? {
        Compiled::Module(module) => Ok(module),
        Compiled::Refused(said) => Err(said.into()),
    }
}

fn computed(ended: &Ended) -> bool {
    ended.succeeded() && String::from_utf8_lossy(&ended.stdout).contains(EXPECTED)
}

fn computes(targets: [&str; 2], devices: [&str; 2], in_reference: bool) -> Outcome {
    let (module, scratch) = (compiled(targets)?, tempfile::tempdir()?);
    let devices = devices.map(|device| format!("--device={device}"));
    let call = [
        &devices[..],
        &[
            format!("--module={}", module.display()),
            "--function=main".to_owned(),
            "--input=8xf32=1 2 3 4 5 6 7 8".to_owned(),
        ],
    ]
    .concat();
    let pair = Pair::find("iree-run-module")?;
    let capture = scratch.path().join("mixed.ireereplay");
    let recorded = [&call[..], &[format!("--device_replay_output={}", capture.display())]].concat();
    let ran = tool::run(&pair.ours, &recorded, scratch.path())?;
    ensure(computed(&ran), || ran.summary())?;
    if in_reference {
        let theirs = tool::run(&pair.theirs, &call, scratch.path())?;
        ensure(computed(&theirs), || format!("the reference: {}", theirs.summary()))?;
    }

    let printing = [&call[..], &["--print_device_statistics".to_owned()]].concat();
    let ran = tool::run(&pair.ours, &printing, scratch.path())?;
    ensure(computed(&ran), || ran.summary())?;
    // Of each device, what it reports: only CPU devices have the host's times, and then no events of memory.
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    for (index, device) in devices.iter().enumerate() {
        let is_vulkan = device.contains("vulkan");
        let has = |kind: &str| said.contains(&format!("\n  {kind} p={index} q=0 "));
        let is_right =
            has("host_queue") && has("host_execute_queue") != is_vulkan && (is_vulkan || !has("memory"));
        ensure(is_right, || format!("{device}: {said}"))?;
    }

    let replay = Pair::find("iree-run-replay")?;
    for order in ["serialized", "captured"] {
        let reads = scratch.path().join(format!("{order}.json"));
        let arguments = [
            &devices[..],
            &[
                format!("--replay_order={order}"),
                format!("--replay_host_reads={}", reads.display()),
                capture.display().to_string(),
            ],
        ]
        .concat();
        let replayed = tool::run(&replay.ours, &arguments, scratch.path())?;
        ensure(replayed.succeeded(), || format!("{order}: {}", replayed.summary()))?;
    }
    let read = |order: &str| std::fs::read(scratch.path().join(format!("{order}.json")));
    ensure(read("serialized")? == read("captured")?, || "the orders have different host reads".to_owned())
}
