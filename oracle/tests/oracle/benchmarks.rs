//! The benchmark tool reports the same benchmarks in the same shapes.

use crate::{Outcome, Pair, ensure, fixture};
use libtest_mimic::{Failed, Trial};
use oracle::tool::Ended;
use serde_json::Value;
use std::collections::BTreeSet;

const CAPTURES: [&str; 4] =
    ["simple_abs.abs.local-sync", "add4.add.local-sync", "mlp.mlp.local-sync", "bench.abs.20.local-sync"];

pub fn add(trials: &mut Vec<Trial>) {
    for capture in CAPTURES {
        trials.push(Trial::test(format!("benchmark::json::{capture}"), move || same_rows(capture, &[])));
        trials.push(Trial::test(format!("benchmark::repetitions::{capture}"), move || {
            same_rows(capture, &["--benchmark_repetitions=3"])
        }));
        trials.push(Trial::test(format!("benchmark::aggregates::{capture}"), move || {
            same_rows(capture, &["--benchmark_repetitions=3", "--benchmark_report_aggregates_only=true"])
        }));
        trials.push(Trial::test(format!("benchmark::csv::{capture}"), move || same_csv(capture)));
    }
    trials.push(Trial::test("benchmark::scope", || {
        same_rows("bench.abs.20.local-sync", &["--replay_scope=execute"])
    }));
    trials.push(Trial::test("benchmark::list", || {
        let (ours, theirs) = run("add4.add.local-sync", &["--benchmark_list_tests=true"])?;
        ensure(ours.stdout == theirs.stdout, || {
            format!("ours lists {}", String::from_utf8_lossy(&ours.stdout))
        })
    }));
}

fn run(capture: &str, flags: &[&str]) -> Result<(Ended, Ended), Failed> {
    let mut arguments = vec!["--device=local-sync".to_owned(), "--benchmark_min_time=3x".to_owned()];
    arguments.extend(flags.iter().map(ToString::to_string));
    arguments.push(fixture(&format!("captures/{capture}.ireereplay")).display().to_string());
    Pair::find("iree-benchmark-replay")?.run(&arguments, &fixture(""))
}

/// Same names in the same order, and each row with the same fields.
fn same_rows(capture: &str, flags: &[&str]) -> Outcome {
    let (ours, theirs) = run(capture, &[flags, &["--benchmark_format=json"]].concat())?;
    ensure(ours.succeeded() == theirs.succeeded(), || {
        format!("ours ends with {}\ntheirs with {}", ours.summary(), theirs.summary())
    })?;
    if !theirs.succeeded() {
        return Ok(());
    }
    let (ours, theirs) = (json(&ours)?, json(&theirs)?);
    let (a, b) = (rows(&ours)?, rows(&theirs)?);
    ensure(a == b, || format!("rows differ\nours:   {a:?}\ntheirs: {b:?}"))?;
    let (a, b) = (keys(&ours["context"]), keys(&theirs["context"]));
    let missing: Vec<_> = b.difference(&a).collect();
    ensure(missing.is_empty(), || format!("the context lacks {missing:?}"))
}

fn json(ended: &Ended) -> Result<Value, Failed> {
    let text = String::from_utf8_lossy(&ended.stdout);
    // The reference may print a line of its own before the report.
    let start = text.find('{').ok_or("no JSON on standard output")?;
    Ok(serde_json::from_str(&text[start..]).map_err(|error| error.to_string())?)
}

fn rows(report: &Value) -> Result<Vec<(String, BTreeSet<String>)>, Failed> {
    let benchmarks = report["benchmarks"].as_array().ok_or("no list of benchmarks")?;
    Ok(benchmarks
        .iter()
        .map(|row| (row["name"].as_str().unwrap_or_default().to_owned(), keys(row)))
        .collect())
}

fn keys(object: &Value) -> BTreeSet<String> {
    object.as_object().map(|object| object.keys().cloned().collect()).unwrap_or_default()
}

/// Same header and same names in the first column.
fn same_csv(capture: &str) -> Outcome {
    let (ours, theirs) = run(capture, &["--benchmark_format=csv"])?;
    let table = |ended: &Ended| -> Vec<String> {
        let text = String::from_utf8_lossy(&ended.stdout).into_owned();
        let lines = text.lines().skip_while(|line| !line.starts_with("name,"));
        lines
            .enumerate()
            .map(|(at, line)| {
                if at == 0 { line.to_owned() } else { line.split(',').next().unwrap_or_default().to_owned() }
            })
            .collect()
    };
    let (a, b) = (table(&ours), table(&theirs));
    ensure(!b.is_empty() && a == b, || format!("tables differ\nours:   {a:?}\ntheirs: {b:?}"))
}
