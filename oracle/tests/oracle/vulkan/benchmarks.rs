//! Benchmarks on Vulkan have the rows of the reference's, with the same counters.

use super::{find, program};
use crate::benchmarks::{json, rows};
use crate::{Outcome, Pair, ensure, fixture};
use libtest_mimic::Trial;

/// Captures, and whether only the scope `execute` is measured.
const CAPTURES: [(&str, bool); 5] = [
    ("add4.add", false),
    ("add4.addresses", false),
    ("mlp.mlp", false),
    ("chain.chain", true),
    ("bench.add4.20", true),
];
const MODULES: [&str; 4] = ["add4.add", "mlp.addresses", "dynamic.rows", "control.collatz"];

pub fn add(trials: &mut Vec<Trial>) {
    for (name, has_scope) in CAPTURES {
        trials.push(Trial::test(format!("vulkan::benchmark::replay::{name}"), move || {
            let mut arguments = vec!["--device=vulkan".to_owned()];
            arguments.extend(has_scope.then(|| "--replay_scope=execute".to_owned()));
            arguments.push(find(name)?.path.display().to_string());
            same_rows("iree-benchmark-replay", arguments)
        }));
    }
    for name in MODULES {
        trials.push(Trial::test(format!("vulkan::benchmark::module::{name}"), move || {
            same_rows("iree-benchmark-module", program(&find(name)?)?)
        }));
    }
}

/// Same names in the same order, and the same fields per row, also of repetitions; and as many iterations.
fn same_rows(tool: &str, arguments: Vec<String>) -> Outcome {
    let flags = ["--benchmark_min_time=3x", "--benchmark_format=json", "--benchmark_repetitions=2"];
    let arguments = [arguments, flags.map(ToOwned::to_owned).to_vec()].concat();
    let (ours, theirs) = Pair::find(tool)?.run(&arguments, &fixture(""))?;
    ensure(ours.succeeded() && theirs.succeeded(), || {
        format!("ours: {}\ntheirs: {}", ours.summary(), theirs.summary())
    })?;
    let (ours, theirs) = (json(&ours)?, json(&theirs)?);
    let (a, b) = (rows(&ours)?, rows(&theirs)?);
    ensure(!b.is_empty() && a == b, || format!("rows differ\nours:   {a:?}\ntheirs: {b:?}"))?;
    let iterations = |report: &serde_json::Value| -> Vec<_> {
        report["benchmarks"].as_array().into_iter().flatten().map(|row| row["iterations"].clone()).collect()
    };
    ensure(iterations(&ours) == iterations(&theirs), || {
        format!("iterations: ours {:?}, theirs {:?}", iterations(&ours), iterations(&theirs))
    })
}
