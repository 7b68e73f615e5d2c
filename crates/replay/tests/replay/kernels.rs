//! Captures of real programs on `local-sync`, with the captured kernels and with substitutes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{DeviceGroup, NeededWorkgroups};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{
    Plan, PlanOptions, Replacement, Replay, ReplayOptions, Selector, Substitute, Substitution,
};

use crate::common::Observed;

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(path)
}

/// Replays a fixture `count` times with a substitution (or none), in which `{}` is the directory of the
/// fixtures.
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

/// The last host read, as floats.
fn result(observed: &Observed) -> Vec<f32> {
    let bytes = &observed.reads.last().unwrap().bytes;
    bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

#[test]
fn captures_reproduce_the_printed_results() {
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

#[test]
fn incompatible_executables_are_rejected_before_the_run() {
    for (path, words) in [
        ("modules/add4_swapped.aarch64.elf", "aarch64"),
        ("cts/entry_points.embedded.elf", "it lacks functions 'add_dispatch_0_elementwise_4_f32'"),
        ("recipe.toml", "is a text file, not an executable"),
        ("inputs/mlp_x.npy", "is a NumPy array (.npy), not an executable"),
    ] {
        let error = replay("add4.add.local-sync", &format!("all={{}}{path}"), 1).unwrap_err();
        let report = error.report();
        assert!(report.contains(words) && report.contains(path), "{path}: {report}");
        assert!(report.contains("executable_cache.prepare_executable(402)"), "{path}: {report}");
    }
}

/// Replays `add4.add` with options modified by `change`, and returns its result.
fn substituted(change: impl FnOnce(&mut ReplayOptions)) -> Result<Vec<f32>> {
    let bytes = std::fs::read(fixture("captures/add4.add.local-sync.ireereplay")).unwrap();
    let plan = Plan::compile(bytes, PlanOptions::default())?;
    let devices = DeviceGroup::new(vec![LocalSync::create(Plugins::default())])?;
    let mut options = ReplayOptions::default();
    change(&mut options);
    let mut observed = Observed::default();
    Replay::new(plan, &devices, &options)?.run(&mut [&mut observed])?;
    Ok(result(&observed))
}

const SUM: [f32; 4] = [11.0, 22.0, 33.0, 44.0];
const SWAPPED: [f32; 4] = [1100.0, 2200.0, 3300.0, 4400.0];

#[test]
fn executables_are_replaced_by_bytes() {
    let elf = std::fs::read(fixture("modules/add4_swapped.elf")).unwrap();
    for replacement in
        [Replacement::bytes(elf.clone()), Replacement::bytes(elf.clone()).of_format("embedded-elf-x86_64")]
            .map(|it| it.with_workgroups(None, NeededWorkgroups::Same))
    {
        let replaced = substituted(|options| {
            options.substitutions.push(Substitution::new(Selector::Id(4), replacement));
        });
        assert_eq!(replaced.unwrap(), SWAPPED);
    }
    let error = substituted(|options| {
        options.substitutions.push(Substitution::new(Selector::All, Replacement::bytes(*b"GGUF")));
    })
    .unwrap_err();
    assert_eq!(error.message(), "4 bytes of memory is a GGUF parameter file, not an executable");
}

#[test]
fn the_callback_is_called_for_each_executable() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let answer = |replacement: Option<Replacement>| -> Substitute {
        let asked = asked.clone();
        Arc::new(move |candidate| {
            let record = &candidate.record;
            let functions = record.function_names().map(|name| name.escape_ascii().to_string());
            asked.lock().unwrap().push((
                record.id,
                candidate.own_name()?,
                String::from_utf8_lossy(record.format).into_owned(),
                functions.collect::<Vec<_>>(),
            ));
            Ok(replacement.clone())
        })
    };
    assert_eq!(substituted(|options| options.substitute = Some(answer(None))).unwrap(), SUM);
    let elf = fixture("modules/add4_swapped.elf");
    let same = |it: Replacement| Some(it.with_workgroups(None, NeededWorkgroups::Same));
    let by_file = answer(same(Replacement::file(&elf)));
    assert_eq!(substituted(|options| options.substitute = Some(by_file)).unwrap(), SWAPPED);
    let functions = ["add_dispatch_0_elementwise_4_f32", "mul_dispatch_0_elementwise_4_f32"];
    let expected = (
        4,
        "add4_linked".to_string(),
        "embedded-elf-x86_64".to_string(),
        functions.map(String::from).to_vec(),
    );
    assert_eq!(*asked.lock().unwrap(), [expected.clone(), expected]);

    // It takes precedence over a selector, which applies if the callback returns `None`.
    let captured = Replacement::file(fixture("cts/affine.embedded.elf"));
    let selector = Substitution::new(Selector::All, captured);
    let by_bytes = answer(same(Replacement::bytes(std::fs::read(&elf).unwrap())));
    let both = |answer: Substitute| {
        substituted(|options| {
            options.substitutions.push(selector.clone());
            options.substitute = Some(answer);
        })
    };
    assert_eq!(both(by_bytes).unwrap(), SWAPPED);
    assert!(both(answer(None)).unwrap_err().report().contains("affine.embedded.elf"));

    let refusing: Substitute = Arc::new(|_| Err(Error::new(StatusCode::Aborted, "not today")));
    let error = substituted(|options| options.substitute = Some(refusing)).unwrap_err();
    assert_eq!(error.code(), StatusCode::Aborted);
    assert!(error.report().contains("the substitute for executable 4, record #11"), "{}", error.report());
}
