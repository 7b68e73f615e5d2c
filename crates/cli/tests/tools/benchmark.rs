//! `iree-benchmark-replay`: names, reports, scopes.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use crate::common::{Scratch, capture, command, fail, fixture, print, ran, run, write_kernel};
use serde_json::Value;

const ONCE: &str = "--benchmark_min_time=1x";

fn mlp() -> String {
    capture("mlp.mlp.local-sync")
}

fn report(words: &[&str]) -> Value {
    let words = [&["iree-benchmark-replay", "--benchmark_format=json"], words].concat();
    serde_json::from_str(&print(&words)).expect("the report is JSON")
}

#[test]
fn a_whole_replay() {
    let report = report(&["--benchmark_min_time=3x", &mlp()]);
    let benchmark = &report["benchmarks"][0];
    assert_eq!(benchmark["name"], "BM_replay/process_time/real_time");
    assert_eq!((&benchmark["iterations"], &benchmark["time_unit"]), (&3.into(), &"ms".into()));
    assert!(benchmark["items_per_second"].as_f64().unwrap() > 0.0);
    let context = &report["context"];
    assert!(context["executable"].as_str().unwrap().ends_with("iree-benchmark-replay"));
    let digest = blake3::hash(&std::fs::read(mlp()).unwrap()).to_string();
    assert_eq!(
        (&context["capture_digest"], &context["commit"]),
        (&digest.into(), &env!("REHAL_COMMIT").into())
    );
    let flags = format!("--benchmark_format=json --benchmark_min_time=3x -- {}", mlp());
    assert_eq!((&context["flags"], &context["device"]), (&flags.into(), &"local-task".into()));
    assert!(!context["cpu"].as_str().unwrap().is_empty());
    let csv = run(&["iree-benchmark-replay", "--benchmark_format=csv", ONCE, &mlp()]);
    assert!(!csv.stderr.contains("capture_digest"), "{csv:?}");
}

#[test]
fn a_scope_has_manual_time() {
    let report = report(&["--replay_scope=execute", "--benchmark_min_time=3x", &mlp()]);
    let benchmark = &report["benchmarks"][0];
    assert_eq!(benchmark["name"], "BM_replay/scope:execute/process_time/manual_time");
    assert!(benchmark["real_time"].as_f64().unwrap() > 0.0);
}

#[test]
fn reports_name_the_order() {
    for (flags, name, order) in [
        (&[][..], "BM_replay/scope:execute/process_time/manual_time", "serialized"),
        (
            &["--replay_order=captured"],
            "BM_replay/order:captured/scope:execute/process_time/manual_time",
            "captured",
        ),
    ] {
        let report = report(&[&["--replay_scope=execute", ONCE], flags, &[&mlp()]].concat());
        assert_eq!(report["benchmarks"][0]["name"], name);
        assert_eq!(report["context"]["replay_order"], order);
    }
    let report = report(&["--replay_order=captured", ONCE, &mlp()]);
    assert_eq!(report["benchmarks"][0]["name"], "BM_replay/order:captured/process_time/real_time");
}

/// Both orders are measured in one process, and compared; the repetitions of one are reported together.
#[test]
fn both_orders_are_compared() {
    let ratio = "note: captured order takes ";
    for (device, repetitions, interval) in [
        ("local-sync", 7, "95 % interval"),
        ("local-task", 2, "too few repetitions for an interval: --benchmark_repetitions=20"),
    ] {
        let (device, count) =
            (format!("--device={device}"), format!("--benchmark_repetitions={repetitions}"));
        let flags =
            ["--replay_order=both", "--replay_scope=execute", "--replay_fast_forward", &device, &count];
        let tool = ["iree-benchmark-replay", "--benchmark_format=json", ONCE];
        let ran = run(&[&tool[..], &flags, &[&capture("bench.add4.200.local-sync")]].concat());
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(report["context"]["replay_order"], "both");
        assert!(report["context"]["replay_inserted_waits"].is_string());
        let rows = report["benchmarks"].as_array().unwrap().iter();
        let mut names: Vec<_> = rows
            .filter(|row| row["run_type"] == "iteration")
            .map(|row| row["name"].as_str().unwrap())
            .collect();
        names.dedup();
        names.sort_unstable();
        let rest = "fast_forward/scope:execute/process_time/manual_time";
        assert_eq!(names, [format!("BM_replay/{rest}"), format!("BM_replay/order:captured/{rest}")]);
        let note = ran.stderr.lines().find_map(|line| line.strip_prefix(ratio)).unwrap();
        let value: f64 = note.split(' ').next().unwrap().parse().unwrap();
        assert!(value > 0.0 && note.contains(interval), "{note}");
    }
    let ran = run(&["iree-benchmark-replay", ONCE, "--replay_order=captured", &mlp()]);
    assert!(!ran.stderr.contains(ratio), "{}", ran.stderr);
}

/// The host of the program waited between its 20 calls, which captures do not contain. At the end of a timed
/// scope, a replay waits as well; and no call needs a wait within.
#[test]
fn waits_that_a_replay_inserts_are_reported() {
    let calls = capture("bench.abs.20.local-sync");
    let ordered = capture("mlp.async.local-task");
    let captured = "--replay_order=captured";
    let cases = [
        (&[captured, &calls][..], Some("19")),
        (&[captured, "--replay_scope=execute", &calls], Some("0")),
        (&[captured, &ordered], Some("0")),
        (&[&calls], None),
    ];
    for (flags, count) in cases {
        let tool = ["iree-benchmark-replay", "--device=local-task", "--benchmark_format=json", ONCE];
        let ran = run(&[&tool, flags].concat());
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(report["context"]["replay_inserted_waits"].as_str(), count, "{flags:?}");
        let note = "note: --replay_order=captured inserts 19 waits of the host between operations";
        assert_eq!(ran.stderr.contains(note), count == Some("19"), "{}", ran.stderr);
        assert_eq!(ran.stderr.contains("inserts"), count == Some("19"), "{}", ran.stderr);
    }
}

/// The scope has 200 entries, and changes only what it creates.
#[test]
fn fast_forward_repeats_a_scope_and_says_what_it_restores() {
    let capture = capture("bench.add4.200.local-sync");
    for order in ["serialized", "captured"] {
        let order = format!("--replay_order={order}");
        let flags = ["--replay_scope=execute", "--replay_fast_forward", &order, "--benchmark_min_time=3x"];
        let words = [&["iree-benchmark-replay", "--benchmark_format=json"], &flags[..], &[&capture]].concat();
        let ran = run(&words);
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        assert!(ran.stderr.contains("note: --replay_fast_forward restores 0 bytes before each iteration"));
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let benchmark = &report["benchmarks"][0];
        let name = benchmark["name"].as_str().unwrap();
        assert!(name.ends_with("/fast_forward/scope:execute/process_time/manual_time"), "{name}");
        assert_eq!((&benchmark["iterations"], &benchmark["restored_bytes"]), (&3.into(), &0.0.into()));
        assert_eq!(report["context"]["replay_fast_forward"], "true");
    }
}

#[test]
fn fast_forward_needs_a_scope() {
    let stderr = fail(&["iree-benchmark-replay", "--replay_fast_forward", ONCE, &mlp()]);
    assert!(stderr.contains("--replay_fast_forward needs the scope"), "{stderr}");
}

#[test]
fn reports_name_cold_caches() {
    for (flags, name) in [
        (&[][..], "BM_replay/cache:cold/process_time/real_time"),
        (&["--replay_scope=execute"], "BM_replay/cache:cold/scope:execute/process_time/manual_time"),
        (
            &["--replay_scope=execute", "--replay_fast_forward"],
            "BM_replay/cache:cold/fast_forward/scope:execute/process_time/manual_time",
        ),
    ] {
        let report =
            report(&[&["--replay_cache=cold", "--benchmark_min_time=2x"], flags, &[&mlp()]].concat());
        assert_eq!(report["benchmarks"][0]["name"], name);
        assert_eq!(report["context"]["replay_cache"], "cold");
    }
    let context = &report(&["--replay_cache=warm", ONCE, &mlp()])["context"];
    assert_eq!(context["replay_cache"], Value::Null);
}

#[test]
fn scopes_that_are_entered_often_are_summed() {
    let report = report(&["--replay_scope=execute", ONCE, &capture("bench.add4.200.local-sync")]);
    assert_eq!(report["benchmarks"][0]["iterations"], 1);
}

/// `deinit` takes almost no time, so without a limit the benchmark would run for a thousand times the minimum
/// time.
#[test]
fn a_short_scope_stops_at_the_time_limit_and_is_labeled() {
    const LABEL: &str = "stopped after 0.01s before min_time 0.001s was measured";
    let words = ["--replay_scope=deinit", "--benchmark_min_time=0.001s", &mlp()];
    assert_eq!(report(&words)["benchmarks"][0]["label"], LABEL);
    for format in ["console", "csv"] {
        let format = format!("--benchmark_format={format}");
        let text = print(&[&["iree-benchmark-replay", &format], &words[..]].concat());
        assert!(text.contains(LABEL), "{text}");
    }
}

#[test]
fn an_unknown_scope_lists_the_existing_ones() {
    let stderr = fail(&["iree-benchmark-replay", "--replay_scope=exec", ONCE, &mlp()]);
    for part in ["unknown scope 'exec'", "init (entered 1 time)", "execute (", "deinit (", &mlp()] {
        assert!(stderr.contains(part), "{stderr} lacks {part}");
    }
}

#[test]
fn repetitions_and_aggregates() {
    let words = ["--benchmark_repetitions=3", "--benchmark_report_aggregates_only", ONCE, &mlp()];
    let report = report(&words);
    let names: Vec<_> = report["benchmarks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["aggregate_name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["mean", "median", "stddev", "cv"]);
}

#[test]
fn formats_and_files() {
    let scratch = Scratch::new();
    let out = scratch.path("out.csv");
    let flag = format!("--benchmark_out={}", out.display());
    let words = ["iree-benchmark-replay", &flag, "--benchmark_out_format=csv", ONCE, &mlp()];
    let console = print(&words);
    assert!(console.starts_with("-----") && console.contains("\nBM_replay/process_time/real_time "));
    let csv = std::fs::read_to_string(out).unwrap();
    assert!(csv.contains("name,iterations,real_time,cpu_time,time_unit"), "{csv}");
    let csv = print(&["iree-benchmark-replay", "--benchmark_format=csv", ONCE, &mlp()]);
    assert!(csv.starts_with("name,iterations,"), "{csv}");
}

#[test]
fn names_filters_and_dry_runs() {
    let list =
        |words: &[&str]| print(&[&["iree-benchmark-replay", "--benchmark_list_tests"], words].concat());
    assert_eq!(list(&[&mlp()]), "BM_replay/process_time/real_time\n");
    assert_eq!(list(&["--replay_scope=init", &mlp()]), "BM_replay/scope:init/process_time/manual_time\n");
    let ran = run(&["iree-benchmark-replay", "--benchmark_filter=zzz", &mlp()]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), ""));
    assert_eq!(ran.stderr, "Failed to match any benchmarks against regex: zzz\n");
    let dry = report(&["--benchmark_dry_run", &mlp()]);
    assert_eq!(
        (&dry["benchmarks"][0]["iterations"], &dry["context"]["dry_run"]),
        (&1.into(), &"true".into())
    );
}

#[test]
fn context_is_added_and_environment_variables_supply_flags() {
    let context = report(&["--benchmark_context=a=1,b=2", "--benchmark_context=c=3", ONCE, &mlp()]);
    let context = &context["context"];
    assert_eq!((&context["a"], &context["b"], &context["c"]), (&"1".into(), &"2".into(), &"3".into()));

    let mut benchmark = command("iree-benchmark-replay");
    benchmark.env("BENCHMARK_FORMAT", "csv").args([ONCE, &mlp()]);
    assert!(ran(benchmark.output().unwrap()).stdout.starts_with("name,iterations,"));
    benchmark.arg("--benchmark_format=console");
    assert!(ran(benchmark.output().unwrap()).stdout.starts_with("-----"));
    benchmark.env("BENCHMARK_COLOR", "maybe");
    let wrong = ran(benchmark.output().unwrap());
    assert_eq!((wrong.status, wrong.stdout.as_str()), (Some(1), ""));
    assert!(wrong.stderr.contains("environment variable BENCHMARK_COLOR"), "{}", wrong.stderr);
}

#[test]
fn the_summary_is_on_standard_error_and_can_be_omitted() {
    let words = ["iree-benchmark-replay", "--benchmark_min_time=9x", &*mlp()];
    let name = "BM_replay/process_time/real_time";
    let ran = run(&words);
    assert!(ran.stderr.contains(&format!("{name}: median ")), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("95 % interval") && ran.stderr.contains("9 samples of 1 iteration"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stdout.contains("median"), "{}", ran.stdout);
    let ran = run(&[&words[..], &["--benchmark_summary=false"]].concat());
    assert!(ran.stdout.contains(name) && !ran.stderr.contains("median"), "{ran:?}");
}

/// Also of a single repetition; and fields of the reference keep their places.
#[test]
fn json_has_the_median_and_its_interval() {
    let full = report(&["--benchmark_min_time=9x", &mlp()]);
    let benchmark = &full["benchmarks"][0];
    let number = |key: &str| benchmark[key].as_f64().unwrap_or_else(|| panic!("{key}: {benchmark}"));
    let (low, median, high) =
        (number("sample_median_low"), number("sample_median"), number("sample_median_high"));
    assert!(0.0 < low && low <= median && median <= high, "{benchmark}");
    assert!(number("sample_mad") >= 0.0 && number("sample_count") == 9.0, "{benchmark}");
    let short = report(&["--benchmark_min_time=3x", &mlp()]);
    let short = &short["benchmarks"][0];
    assert!(short["sample_median"].is_f64() && short.get("sample_median_low").is_none(), "{short}");
    let plain = report(&["--benchmark_summary=false", "--benchmark_min_time=9x", &mlp()]);
    assert!(plain["benchmarks"][0].get("sample_median").is_none(), "{plain}");
    let repeated = report(&["--benchmark_repetitions=2", "--benchmark_min_time=9x", &mlp()]);
    let rows = repeated["benchmarks"].as_array().unwrap();
    assert!(rows.iter().all(|row| row.get("sample_median").is_some() == (row["run_type"] == "iteration")));
    let csv = print(&["iree-benchmark-replay", "--benchmark_format=csv", "--benchmark_min_time=9x", &mlp()]);
    assert!(csv.lines().next().unwrap().ends_with(",error_occurred,error_message"), "{csv}");
}

/// The reference's tool has no such default.
#[test]
fn a_slice_of_a_dispatch_is_timed_by_its_scope() {
    const SOFTMAX: &str = "mlp_dispatch_3_softmax_8x10xf32_dispatch_tensor_store";
    let scratch = Scratch::new();
    let cut = |words: &[&str], name: &str| {
        let output = scratch.path(name).to_str().unwrap().to_owned();
        print(&[&["rehal", "slice", "--device=local-sync", "-o", &output], words, &[&mlp()]].concat());
        output
    };
    let [dispatch, scope] = [cut(&["--function=softmax"], "dispatch"), cut(&["--scope=execute"], "scope")];
    let measured = |words: &[&str]| {
        let words = [words, &["--benchmark_format=json", "--device=local-sync", ONCE]].concat();
        let ran = run(&words);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        (report["benchmarks"][0]["run_name"].as_str().unwrap().to_owned(), ran.stderr)
    };
    let (name, note) = measured(&["rehal", "benchmark", &dispatch]);
    assert_eq!(name, format!("BM_replay/scope:{SOFTMAX}/process_time/manual_time"));
    assert!(
        note.starts_with("note: a slice of a dispatch: this times its scope, as --replay_scope=mlp_"),
        "{note}"
    );
    const WHOLE: &str = "BM_replay/process_time/real_time";
    for words in [
        &["iree-benchmark-replay", &dispatch][..],
        &["rehal", "benchmark", &scope],
        &["rehal", "benchmark", &mlp()],
    ] {
        let (name, note) = measured(words);
        assert_eq!(name, WHOLE, "{words:?}");
        assert!(!note.contains("slice"), "{note}");
    }
}

const MATMUL: &str = "mlp_dispatch_0_matmul_8x48x32_f32";

/// The results of a replacement are not checked, so that this one can take a long time only.
const SLOW: &str = "for (volatile int j = 0; j < 5000; ++j) {}";

/// No verdict depends on how fast the machine is, except on a kernel that takes many times as long.
#[test]
fn a_replacement_is_measured_in_the_whole_and_in_each_function() {
    let scratch = Scratch::new();
    let source = scratch.path("slow.c");
    write_kernel(&source, &mlp(), MATMUL, SLOW);
    let with = format!("--with={MATMUL}={}", source.display());
    let path = mlp();
    let words =
        ["rehal", "benchmark", "--device=local-sync", "--precision=50%", "--max_time=4s", &with, &path];
    let measured = run(&[&words[..], &["--format=json"]].concat());
    assert_eq!(measured.status, Some(3), "{measured:?}");
    let report: Value = serde_json::from_str(&measured.stdout).unwrap();
    assert_eq!(report["header"]["schema"], "rehal.benchmark.with/1");
    assert_eq!(report["scope"], "execute");
    assert_eq!(
        (&report["verdict"], &report["is_checked"], &report["timed_by"]),
        (&"slower".into(), &false.into(), &"processor".into())
    );
    assert_eq!(report["with"][0], format!("function or executable '{MATMUL}': {}", source.display()));
    let functions = report["functions"].as_array().unwrap();
    assert_eq!(functions.len(), 5, "{report}");
    let of = |name: &str| functions.iter().find(|it| it["function"] == name).unwrap();
    assert_eq!((&of(MATMUL)["verdict"], &of(MATMUL)["dispatches"]), (&"slower".into(), &1.into()));
    assert!(of(MATMUL)["ratio"].as_f64().unwrap() > 10.0, "{report}");
    for other in functions.iter().filter(|it| it["function"] != MATMUL) {
        assert!(other["verdict"].is_null() && other["ratio"].is_f64(), "{other}");
    }

    let text = run(&[&words[..], &["--replay_scope=init"]].concat());
    assert!(text.stdout.contains("\nscope init: "), "{text:?}");
    let text = run(&words);
    assert_eq!(text.status, Some(3), "{text:?}");
    for part in [
        "\nscope execute: slower: ",
        " of the captured time (95 % interval ",
        "of a function in a replay, one operation at a time, as the device reports it:\n",
        "\nwhat the replacement computes is not checked: rehal verify --replay_executable_substitution does that\n",
    ] {
        assert!(text.stdout.contains(part), "{part}: {text:?}");
    }
    let line = text.stdout.lines().find(|line| line.ends_with(MATMUL)).unwrap();
    assert!(line.contains(" slower "), "{line}");
    let same = text.stdout.lines().filter(|line| line.contains(" the same code "));
    assert_eq!(same.count(), 4, "{text:?}");
}

/// Of the two, one takes a long time.
#[test]
fn two_replacements_of_a_function_are_compared_with_each_other() {
    let scratch = Scratch::new();
    let [fast, slow] = ["fast.c", "slow.c"].map(|name| scratch.path(name));
    write_kernel(&fast, &mlp(), MATMUL, "");
    write_kernel(&slow, &mlp(), MATMUL, SLOW);
    let path = mlp();
    let ran = |baseline: &Path, with: &Path| {
        let flags = [("baseline", baseline), ("with", with)];
        let flags = flags.map(|(flag, path)| format!("--{flag}={MATMUL}={}", path.display()));
        let words = ["rehal", "benchmark", "--device=local-sync", "--precision=50%", "--max_time=4s"];
        run(&[&words[..], &[&flags[0], &flags[1], &path]].concat())
    };
    for (baseline, with, verdict, status) in [(&slow, &fast, "faster", 0), (&fast, &slow, "slower", 3)] {
        let measured = ran(baseline, with);
        assert_eq!(measured.status, Some(status), "{measured:?}");
        let compared = format!("compared with function or executable '{MATMUL}': {}\n", baseline.display());
        let line = measured.stdout.lines().find(|line| line.ends_with(MATMUL)).unwrap();
        assert!(
            measured.stdout.contains(&compared) && measured.stdout.contains(" baseline "),
            "{measured:?}"
        );
        assert!(line.contains(&format!(" {verdict} ")), "{line}");
    }
    // The same code on both sides has no verdict.
    let same = ran(&slow, &slow);
    assert!(same.stdout.contains(" the same code ") && !same.stdout.contains("Error"), "{same:?}");
    let missing = ran(&scratch.path("none.c"), &fast);
    assert!(missing.status == Some(1) && missing.stderr.contains("none.c"), "{missing:?}");
}

#[test]
fn flags_that_mean_nothing_for_a_replacement_are_refused() {
    let path = mlp();
    let nothing = format!("--with=nothing={}", fixture("modules/add4_swapped.elf"));
    for (flags, expected) in [
        (&["--max_time=1s"][..], "--max_time needs --with"),
        (&["--fail_if_slower=1%"], "--fail_if_slower needs --with"),
        (&["--baseline=all=x.so"], "--baseline needs --with"),
        (&["--with=all=x.so", "--processes=2"], "--processes has no effect with --with"),
        (&["--with=all=x.so", ONCE], "--benchmark_min_time has no effect with --with"),
        (&["--with=all=x.so", "--replay_cache=cold"], "--replay_cache=cold has no effect with --with"),
        (&["--with=all=x.so", "--replay_order=both"], "--replay_order=both has no effect with --with"),
        (
            &["--with=all=x.so", "--replay_fast_forward", "--replay_scope=execute"],
            "--replay_fast_forward has no effect with --with",
        ),
        (&["--with=all"], "has no '='"),
        (&[&nothing], "NOT_FOUND; function or executable 'nothing' is not in the capture\n"),
        (&[&nothing], "the capture has no function 'nothing'"),
    ] {
        let stderr = fail(&[&["rehal", "benchmark"], flags, &[&path]].concat());
        assert!(stderr.contains(expected), "{flags:?}: {stderr}");
    }
}

#[test]
fn a_replacement_is_named_as_functions_are() {
    let scratch = Scratch::new();
    let source = scratch.path("same.c");
    write_kernel(&source, &mlp(), MATMUL, "");
    let path = mlp();
    let ran = |name: &str| {
        let with = format!("--with={name}={}", source.display());
        let words = ["rehal", "benchmark", "--device=local-sync", "--precision=50%", "--max_time=1s"];
        run(&[&words[..], &[&with, "--format=json", &path]].concat())
    };
    for name in ["dispatch_0_matmul", "*_dispatch_0_*"] {
        let measured = ran(name);
        let report: Value = serde_json::from_str(&measured.stdout).unwrap_or_else(|_| panic!("{measured:?}"));
        assert_eq!(report["with"][0], format!("function or executable '{MATMUL}': {}", source.display()));
    }
    let ambiguous = ran("dispatch");
    assert_eq!(ambiguous.status, Some(1), "{ambiguous:?}");
    assert!(ambiguous.stderr.contains("'dispatch' may be "), "{ambiguous:?}");
    let wrong = ran("mlp_dispatch_0_matmul_8x48x33");
    assert!(wrong.stderr.contains(&format!("did you mean '{MATMUL}'?")), "{wrong:?}");
}

#[test]
fn a_history_is_compared_with_the_last_times_of_the_same_machine() {
    let scratch = Scratch::new();
    let history = scratch.path("history.jsonl");
    let (kept, against) =
        (format!("--history={}", history.display()), format!("--against={}", history.display()));
    // No time is that much longer.
    let margin = "--fail_if_slower=1000000000%";
    let path = mlp();
    for words in [
        &["rehal", "benchmark", "--device=local-sync", "--benchmark_min_time=20x"][..],
        &["rehal", "kernels", "--device=local-sync", "--repetitions=8"],
    ] {
        let text = || std::fs::read_to_string(&history).unwrap_or_default();
        let before = text().lines().count();
        let ran = |flags: &[&str]| run(&[words, flags, &[&path]].concat());
        let first = ran(&[&kept, &against, margin]);
        assert_eq!((first.status, text().lines().count()), (Some(4), before + 1), "{first:?}");
        let last = || -> Value { serde_json::from_str(text().lines().last().unwrap()).unwrap() };
        let count = last()["measured"].as_array().unwrap().len();
        assert_eq!(count, if words[1] == "kernels" { 5 } else { 1 }, "{first:?}");
        let nothing = format!("note: --against: 0 compared, {count} without an earlier time: ");
        assert!(first.stderr.contains(&nothing), "{first:?}");

        // As if the last write had been truncated.
        std::fs::write(&history, text().trim_end()).unwrap();
        let second = ran(&[&kept, &against, margin]);
        assert_eq!((second.status, text().lines().count()), (Some(0), before + 2), "{second:?}");
        let same = format!(
            "note: --against: {count} compared, 0 without an earlier time; none of {count} time{} is slower",
            if count == 1 { "" } else { "s" }
        );
        assert!(second.stderr.contains(&same), "{second:?}");
        let other = ran(&[&against, margin, "--task_abort_on_failure"]);
        assert!(other.status == Some(4) && other.stderr.contains(&nothing), "{other:?}");
        if words[1] == "benchmark" {
            let scope = ran(&[&against, margin, "--replay_scope=execute"]);
            assert!(scope.status == Some(4) && scope.stderr.contains(&nothing), "{scope:?}");
        }

        // As if everything had taken a nanosecond before, also after a line that was truncated.
        let mut last = last();
        assert!(last["header"]["capture_digest"].is_string(), "{last}");
        for (processes, status, expected) in [
            (Value::from([1; 8]), Some(3), " slower by more than 5 % than at commit "),
            (Value::from([0; 0]), Some(4), " (too few processes: 0 before, 8 now), "),
        ] {
            for measured in last["measured"].as_array_mut().unwrap() {
                assert_eq!(measured["processes_ns"].as_array().unwrap().len() % 8, 0, "{measured}");
                measured["median_ns"] = 1.into();
                measured["processes_ns"] = processes.clone();
            }
            let fast = scratch.file("fast.jsonl", format!("{}{last}\n{{\"head", text()));
            let slower = ran(&[&format!("--against={fast}")]);
            assert_eq!(slower.status, status, "{slower:?}");
            assert!(slower.stderr.contains(&format!("note: --against: {count} compared, 0 ")), "{slower:?}");
            assert!(slower.stderr.contains(" times as long ("), "{slower:?}");
            assert!(slower.stderr.contains(expected), "{slower:?}");
            assert!(slower.stderr.contains("note: --against: skipped: line "), "{slower:?}");
        }
    }
}

/// Each has its own samples, also of a tool that is called by the reference's name.
#[test]
fn a_measurement_is_repeated_in_processes() {
    let scratch = Scratch::new();
    let (path, out) = (mlp(), scratch.path("out.json"));
    let module = format!("--module={}", fixture("modules/add4.vmfb"));
    let add = ["--function=add", "--input=4xf32=1", "--input=4xf32=2"];
    let out_flag = format!("--benchmark_out={}", out.display());
    for words in [
        &["rehal", "benchmark", &path][..],
        &["iree-benchmark-replay", &path, &out_flag],
        &["iree-benchmark-module", &module, add[0], add[1], add[2]],
    ] {
        let ran = run(&[words, &["--device=local-sync", "--processes=3", ONCE]].concat());
        assert_eq!(ran.status, Some(0), "{ran:?}");
        // What other processes print is not shown.
        assert_eq!(ran.stdout.matches("BM_").count(), 1, "{ran:?}");
        assert!(ran.stderr.contains(" of 3 processes; from "), "{ran:?}");
    }
    let report: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    assert_eq!(report["benchmarks"].as_array().map(Vec::len), Some(1), "{report}");

    let history = scratch.path("history.jsonl");
    let kept = format!("--history={}", history.display());
    for (words, count) in [
        (&["rehal", "kernels", "--repetitions=3", "--processes=2"][..], 2),
        (&["rehal", "kernels", "--repetitions=3", "--processes=1"], 1),
        (&["rehal", "benchmark", ONCE], 8),
    ] {
        let ran = run(&[words, &["--device=local-sync", &kept, &path]].concat());
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let text = std::fs::read_to_string(&history).unwrap();
        let line: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        for measured in line["measured"].as_array().unwrap() {
            let times = measured["processes_ns"].as_array().unwrap();
            assert_eq!(times.len(), count, "{line}");
            let distinct = times.iter().map(|it| it.as_f64().unwrap().to_bits());
            let distinct: std::collections::HashSet<_> = distinct.collect();
            // A time of a process of its own, and not of another one again. Kernels are in nanoseconds.
            assert!(words[1] == "kernels" || distinct.len() > 1, "{line}");
            assert_eq!(measured["timed_by"], "processor", "{line}");
        }
        let settings = line["settings"].to_string();
        assert!(!settings.contains("processes"), "{settings}");
    }
}

#[test]
fn several_processes_cannot_write_one_file() {
    let scratch = Scratch::new();
    let (path, file) = (mlp(), scratch.path("profile"));
    let profile = format!("--device_profiling_output={}", file.display());
    let mode = "--device_profiling_mode=host-execution";
    let history = format!("--history={}", scratch.path("history").display());
    for flags in [&["--processes=2"][..], &[&*history]] {
        let stderr = fail(&[&["rehal", "benchmark", mode, &*profile, &*path], flags].concat());
        assert!(stderr.contains("--device_profiling_output is for one process"), "{stderr}");
        assert!(stderr.contains("try: leave it out, or give --processes=1"), "{stderr}");
    }
    assert!(!file.exists());
    for count in ["0", "x", "1001", "-1"] {
        let stderr = fail(&["rehal", "benchmark", &format!("--processes={count}"), &path]);
        assert!(stderr.contains("a number of processes from 1 to 1000"), "{stderr}");
    }
}

/// Other processes measure first.
#[test]
fn an_error_of_another_process_is_one_of_the_tool() {
    let scratch = Scratch::new();
    let path = scratch.file("capture", std::fs::read(mlp()).unwrap());
    let words = ["benchmark", "--device=local-sync", "--processes=1000", ONCE, &path];
    let mut tool = command("rehal");
    let tool = tool.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    let tool = tool.spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", tool.id());
    while std::fs::read_to_string(&children).unwrap().is_empty() {
        std::thread::yield_now();
    }
    std::fs::remove_file(&path).unwrap();
    let ran = ran(tool.wait_with_output().unwrap());
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(
        ran.stderr.contains("ABORTED; it ended with status 1 without a time: ")
            && ran.stderr.contains(" of 1000"),
        "{ran:?}"
    );
}

#[test]
fn histories_that_cannot_be_used_are_refused_before_anything_is_measured() {
    let scratch = Scratch::new();
    let path = mlp();
    let (empty, broken) = (scratch.file("empty", ""), scratch.file("broken", "{}\n"));
    for (flag, expected) in [
        ("--against=/nonexistent".to_owned(), "name a file that --history has written"),
        (format!("--against={empty}"), "it has no report"),
        (format!("--against={broken}"), "line 1 is not a report"),
        ("--history=/nonexistent/history".into(), "--history=/nonexistent/history"),
        (format!("--history={broken}"), "it is not a history: line 1 is not a report"),
        ("--history=-".into(), "--history"),
    ] {
        for verb in ["benchmark", "kernels"] {
            let ran = run(&["rehal", verb, &flag, &path]);
            assert_eq!((ran.status, &*ran.stdout), (Some(1), ""), "{flag}: {ran:?}");
            assert!(ran.stderr.contains(expected), "{flag}: {ran:?}");
        }
    }
}

/// A pipe can be read once only.
#[test]
fn a_history_may_be_a_pipe() {
    let scratch = Scratch::new();
    let (history, path) = (scratch.path("history"), mlp());
    let words = ["rehal", "benchmark", "--device=local-sync", ONCE];
    run(&[&words[..], &[&format!("--history={}", history.display()), &path]].concat());
    let mut tool = command("rehal");
    let tool = tool.args(&words[1..]).args(["--against=/dev/stdin", "--fail_if_slower=1000000000%", &path]);
    let mut tool = tool.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    tool.stdin.take().unwrap().write_all(&std::fs::read(&history).unwrap()).unwrap();
    let ran = tool.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && stderr.contains(" 1 compared, 0 without"), "{stderr}");
}
