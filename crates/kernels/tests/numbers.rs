//! The numbers in the lists of kernels of two captures, compared with golden files.

use std::sync::Arc;

use rehal_hal::DeviceGroup;
use rehal_kernels::{KernelOptions, Kernels, function_costs};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{Plan, PlanOptions, Replay, ReplayOptions};
use serde_json::json;

fn plan(name: &str) -> Arc<Plan> {
    let path = testing::fixtures().join(format!("captures/{name}.ireereplay"));
    Arc::new(Plan::compile(std::fs::read(path).unwrap(), PlanOptions::default()).unwrap())
}

fn replay(plan: &Arc<Plan>) -> Replay {
    let devices = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
    Replay::new(plan.clone(), &devices, &ReplayOptions::default()).unwrap()
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

/// Without this test, the time of a first dispatch may be that of another kernel, and a total not the sum.
#[test]
fn times_are_those_of_each_kernel() {
    let replay = replay(&plan("chain.chain.local-sync"));
    let mut options = KernelOptions::default();
    options.max_time = std::time::Duration::from_secs(3600);
    for repetitions in [1, 13] {
        options.repetitions = Some(repetitions);
        let timed = Kernels::timed(&replay, &options).unwrap();
        let times: Vec<u64> = timed.kernels.iter().map(|it| it.time_ns.unwrap()).collect();
        // Two of the five are dispatched once, and a loop of 576 additions takes longer than a step of the clock.
        assert!(times.len() == 5 && times.iter().all(|ns| *ns > 0), "{times:?}");
        assert!(times.is_sorted_by(|longer, shorter| longer >= shorter), "{times:?}");
        assert_eq!((timed.total_ns, timed.sample_count), (Some(times.iter().sum()), repetitions));
        let has_intervals = timed.kernels.iter().map(|it| it.interval_ns.is_some());
        assert!(has_intervals.clone().all(|it| it == (repetitions >= 13)), "{:?}", has_intervals);
        assert_eq!(timed.kernels.iter().map(|it| it.count).sum::<u64>(), timed.dispatch_count);
    }
}
