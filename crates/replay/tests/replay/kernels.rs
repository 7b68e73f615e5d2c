//! Captures of real programs on `local-sync`, with the kernels that they hold and with others.

use std::path::{Path, PathBuf};

use rehal_base::Result;
use rehal_hal::DeviceGroup;
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{Plan, PlanOptions, Replay, ReplayOptions, Substitution};

use crate::common::Observed;

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(path)
}

/// Replays a fixture so often with a substitution (or none), `{}` standing for the fixtures.
fn replay(name: &str, substitution: &str, count: usize) -> Result<Vec<Observed>> {
    let bytes = std::fs::read(fixture(&format!("captures/{name}.ireereplay"))).unwrap();
    let plan = Plan::compile(bytes, PlanOptions::default())?;
    let devices = (0..plan.device_count()).map(|_| LocalSync::create(Plugins::default())).collect();
    let mut options = ReplayOptions::default();
    if !substitution.is_empty() {
        let text = substitution.replace("{}", fixture("").to_str().unwrap());
        options.substitutions.push(Substitution::parse(&text)?);
    }
    let replay = Replay::new(plan, &DeviceGroup::new(devices)?, &options)?;
    let run = || {
        let mut observed = Observed::default();
        replay.run(&mut [&mut observed]).map(|()| observed)
    };
    (0..count).map(|_| run()).collect()
}

/// The last host read, as numbers.
fn result(observed: &Observed) -> Vec<f32> {
    let bytes = &observed.reads.last().unwrap().bytes;
    bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

#[test]
fn captures_give_what_their_programs_printed() {
    for (name, expected) in [
        ("add4.add.local-sync", &[11.0, 22.0, 33.0, 44.0][..]),
        ("add4.mul.local-sync", &[10.0, 40.0, 90.0, 160.0]),
        ("add4.direct.local-sync", &[11.0, 22.0, 33.0, 44.0]),
        ("add4.memoized.local-sync", &[11.0, 22.0, 33.0, 44.0]),
        ("add4.syslib.local-sync", &[11.0, 22.0, 33.0, 44.0]),
        ("add4.add.local-task", &[11.0, 22.0, 33.0, 44.0]),
    ] {
        for observed in replay(name, "", 2).unwrap() {
            assert_eq!(result(&observed), expected, "{name}");
        }
    }
}

/// `add4_swapped` multiplies the sum by 100.
#[test]
fn replacements_give_their_own_results() {
    let embedded = "{}modules/add4_swapped.elf";
    let system = "{}modules/add4_swapped.syslib.so";
    for (name, selector, path) in [
        ("add4.add.local-sync", "all", embedded),
        ("add4.add.local-sync", "all@embedded-elf-x86_64", embedded),
        ("add4.add.local-sync", "add_dispatch_0_elementwise_4_f32", embedded),
        ("add4.add.local-sync", "all@system-elf-x86_64", system),
        ("add4.syslib.local-sync", "all", system),
    ] {
        let observed = replay(name, &format!("{selector}={path}"), 1).unwrap().remove(0);
        assert_eq!(result(&observed), [1100.0, 2200.0, 3300.0, 4400.0], "{name} {selector}");
    }
}

#[test]
fn executables_that_do_not_fit_are_refused_before_anything_runs() {
    for (path, words) in [
        ("modules/add4_swapped.aarch64.elf", "aarch64"),
        ("cts/entry_points.embedded.elf", "has no function 'add_dispatch_0_elementwise_4_f32'"),
        ("recipe.toml", "does not know what kind of executable"),
    ] {
        let error = replay("add4.add.local-sync", &format!("all={{}}{path}"), 1).unwrap_err();
        let report = error.report();
        assert!(report.contains(words) && report.contains(path), "{path}: {report}");
        assert!(report.contains("executable_cache.prepare_executable(402)"), "{path}: {report}");
    }
}
