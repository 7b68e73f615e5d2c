//! The numbers in the lists of kernels of two captures, compared with golden files.

use std::sync::Arc;
use std::time::Duration;

use rehal_devices::ValueText;
use rehal_hal::DeviceGroup;
use rehal_judge::{Clock, JudgeOptions, Side};
use rehal_kernels::{
    ExecutableSource, KernelOptions, Kernels, LaunchArguments, LoadOptions, LoadedExecutable,
    compare_replays, function_costs,
};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{
    Plan, PlanOptions, RecordOptions, Recorder, Replacement, Replay, ReplayOptions, Selector, Substitution,
};
use serde_json::json;

fn plan(name: &str) -> Arc<Plan> {
    let path = testing::fixtures().join(format!("captures/{name}.ireereplay"));
    Arc::new(Plan::compile(std::fs::read(path).unwrap(), PlanOptions::default()).unwrap())
}

fn replay(plan: &Arc<Plan>) -> Replay {
    replay_with(plan, Vec::new())
}

fn replay_with(plan: &Arc<Plan>, substitutions: Vec<Substitution>) -> Replay {
    let devices = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
    let options = ReplayOptions::default().substitutions(substitutions);
    Replay::new(plan.clone(), &devices, &options).unwrap()
}

/// A line for each kernel, without its times, in the order of the first dispatches.
fn lines(list: &str, mut of: Kernels) -> String {
    of.kernels.sort_by_key(|it| (it.location.ordinal, it.occurrence));
    let mut text = json!({ "list": list, "dispatch_count": of.dispatch_count }).to_string() + "\n";
    for kernel in &mut of.kernels {
        (kernel.time_ns, kernel.interval_ns, kernel.processor) = (None, None, None);
        let changed = (0..kernel.bindings.len()).map(|binding| {
            let ranges = kernel.changed_ranges(binding)?;
            Some(ranges.iter().map(|it| (it.offset, it.length)).collect())
        });
        let changed: Vec<Option<Vec<(u64, u64)>>> = changed.collect();
        let bytes = [kernel.bytes_bound(), kernel.bytes_read(), kernel.bytes_written()];
        let line = json!({ "kernel": kernel, "bound_read_written": bytes, "changed_ranges": changed });
        text += &(line.to_string() + "\n");
    }
    text
}

/// Without this test, dispatches, shapes and bytes may be counted for another kernel than their own.
#[test]
fn lists_of_kernels_have_the_numbers_of_golden_files() {
    for name in ["chain.chain.local-sync", "control.collatz.local-sync"] {
        let plan = plan(name);
        let options = KernelOptions::default();
        let planned = lines("planned", Kernels::from_plan(&plan, &options).unwrap());
        let replayed = lines("replayed", Kernels::from_replay(&replay(&plan), &options).unwrap());
        let costs = function_costs(&plan).unwrap();
        let costs: String = costs.iter().map(|it| serde_json::to_string(it).unwrap() + "\n").collect();
        let path = format!("{}/tests/data/{name}.kernels.jsonl", env!("CARGO_MANIFEST_DIR"));
        testing::assert_golden(path.as_ref(), &(planned + &replayed + &costs));
    }
}

/// Without this test, a command buffer that is executed several times with the same buffers, as no fixture
/// does, may count once.
#[test]
fn each_execution_of_a_command_buffer_counts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("executions.ireereplay");
    let recorder = Recorder::create(&path, RecordOptions::default()).unwrap();
    let group = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
    let group = recorder.wrap(&group).unwrap();
    let source = ExecutableSource::File(testing::fixtures().join("cts/affine.embedded.elf"));
    let affine = LoadedExecutable::load(&group.devices()[0], &source, &LoadOptions::default()).unwrap();
    let mut arguments = LaunchArguments::for_function(0);
    arguments.constants = vec![3, 4];
    let values = ["16xi32=5", "16xi32"].map(|value| ValueText::new(value).unwrap());
    arguments.bindings = affine.bindings(&values).unwrap();
    let mut launches = affine.launches(&arguments, 2).unwrap();
    (0..3).for_each(|_| launches.run().unwrap());
    drop((launches, arguments, affine, group));
    recorder.close().unwrap();

    let plan = Arc::new(Plan::compile(std::fs::read(&path).unwrap(), PlanOptions::default()).unwrap());
    let options = KernelOptions::default();
    for listed in [Kernels::from_plan(&plan, &options), Kernels::from_replay(&replay(&plan), &options)] {
        let listed = listed.unwrap();
        let counts: Vec<u64> = listed.kernels.iter().map(|it| it.count).collect();
        assert_eq!((listed.dispatch_count, counts), (6, vec![6]));
    }
    let costs = function_costs(&plan).unwrap();
    let costs: Vec<_> = costs.iter().map(|it| (&*it.name, it.dispatches, it.bound_bytes)).collect();
    assert_eq!(costs, [("affine", 6, 6 * 128)]);
}

/// Without this test, the time of a first dispatch may be that of another kernel, and a total not the sum.
#[test]
fn times_are_those_of_each_kernel() {
    let replay = replay(&plan("chain.chain.local-sync"));
    let mut options = KernelOptions::default();
    options.max_time = Duration::from_secs(3600);
    for repetitions in [1, 13] {
        options.repetitions = Some(repetitions);
        let timed = Kernels::timed(&replay, &options).unwrap();
        let times: Vec<u64> = timed.kernels.iter().map(|it| it.time_ns.unwrap()).collect();
        // Two of the five are dispatched once, and a loop of 576 additions takes longer than a step of the
        // clock.
        assert!(times.len() == 5 && times.iter().all(|ns| *ns > 0), "{times:?}");
        assert!(times.is_sorted_by(|longer, shorter| longer >= shorter), "{times:?}");
        assert_eq!((timed.total_ns, timed.sample_count), (Some(times.iter().sum()), repetitions));
        let has_intervals = timed.kernels.iter().map(|it| it.interval_ns.is_some());
        assert!(has_intervals.clone().all(|it| it == (repetitions >= 13)), "{:?}", has_intervals);
        assert_eq!(timed.kernels.iter().map(|it| it.count).sum::<u64>(), timed.dispatch_count);
    }
}

/// Without this test, functions may not be timed at all, or the sides be exchanged: the replacement of one
/// function uses no vectors, and takes many times as long.
#[test]
fn functions_of_two_replays_are_compared() {
    let plan = plan("chain.chain.local-sync");
    let functions = [
        ("chain_dispatch_0_matmul_24x24x24_f32", 1, false),
        ("chain_dispatch_1_matmul_24x24x24_f32", 11, true),
        ("chain_dispatch_6_elementwise_576_f32", 1, true),
    ];
    let code = std::fs::read(testing::fixtures().join("cts/chain.so")).unwrap();
    let prepare = |side| {
        let replacement = Replacement::bytes(code.clone());
        let substitution = Substitution::new(Selector::Name(functions[0].0.to_owned()), replacement);
        Ok(replay_with(&plan, if side == Side::Replaced { vec![substitution] } else { Vec::new() }))
    };
    let mut options = JudgeOptions::default();
    options.max_time = Duration::from_millis(500);
    let mut found = compare_replays(&prepare, None, &options).unwrap();
    assert_eq!(found.times, Some(Clock::Processor));
    found.functions.sort_by(|one, other| one.name.cmp(&other.name));
    let told: Vec<_> =
        found.functions.iter().map(|it| (&*it.name, it.dispatch_count, it.has_same_code)).collect();
    assert_eq!(told, functions);
    let ratio = found.functions[0].timing.ratio;
    assert!(ratio > 3.0 && found.whole.ratio > 1.0, "{ratio} {found:?}");
    assert!(found.functions.iter().all(|it| it.timing.captured.ns > 0.0), "{found:?}");
}
