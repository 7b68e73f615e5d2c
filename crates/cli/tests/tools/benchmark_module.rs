//! `iree-benchmark-module` as a user runs it.

use crate::common::{Scratch, fail, fixture, print, run};

fn module(name: &str) -> String {
    format!("--module={}", fixture(&format!("modules/{name}.vmfb")))
}

/// The rows of a report, by name.
fn rows(words: &[&str]) -> Vec<serde_json::Value> {
    let flags = ["--device=local-sync", "--benchmark_format=json", "--benchmark_min_time=4x"];
    let text = print(&[&["iree-benchmark-module"], words, &flags].concat());
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    report["benchmarks"].as_array().unwrap().clone()
}

#[test]
fn functions_without_inputs_are_measured() {
    let rows = rows(&[&module("multi")]);
    assert_eq!(rows.len(), 1, "only one of them takes nothing");
    assert_eq!(rows[0]["name"], "BM_nothing/process_time/real_time");
    assert_eq!((&rows[0]["iterations"], &rows[0]["time_unit"]), (&4.into(), &"ms".into()));
    assert!(rows[0]["items_per_second"].is_number());
}

#[test]
fn a_module_whose_functions_all_take_inputs_names_them() {
    for flags in [&[][..], &["--benchmark_list_tests"], &["--benchmark_format=json"]] {
        let ran = run(&[&["iree-benchmark-module", "--device=local-sync", &module("add4")], flags].concat());
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""), "{flags:?}");
        assert_eq!(
            ran.stderr,
            "INVALID_ARGUMENT; every function of the module takes inputs\n  try: name one with --function=, and give --input \
             once for each of its inputs: `sync func @add(%input0: tensor<4xf32>, %input1: tensor<4xf32>) -> (%output0: \
             tensor<4xf32>)`, `sync func @mul(%input0: tensor<4xf32>, %input1: tensor<4xf32>) -> (%output0: \
             tensor<4xf32>)`\n"
        );
    }
}

#[test]
fn a_wrong_number_of_outputs_is_refused_before_the_measurement() {
    let add = [
        &*module("add4"),
        "--function=add",
        "--input=4xf32=1",
        "--input=4xf32=2",
        "--enable_output_processing",
    ];
    for flag in ["--output=-", "--expected_output=4xf32=3"] {
        let two = [&["iree-benchmark-module", "--device=local-sync"], &add[..], &[flag, flag]].concat();
        let ran = run(&two);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    }
}

#[test]
fn batches_count_as_iterations() {
    let rows = rows(&[&module("multi"), "--function=nothing", "--batch_size=3", "--time_unit=us"]);
    assert_eq!((&rows[0]["iterations"], &rows[0]["time_unit"]), (&6.into(), &"us".into()));
}

#[test]
fn asynchronous_functions_are_called_concurrently() {
    let inputs = ["mlp_x", "mlp_w0", "mlp_w1", "mlp_w2"]
        .map(|name| format!("--input=@{}", fixture(&format!("inputs/{name}.npy"))));
    let module = module("mlp.async");
    let mut words = vec![module.as_str(), "--function=mlp", "--batch_size=5", "--batch_concurrency=2"];
    words.extend(inputs.iter().map(String::as_str));
    assert_eq!(rows(&words)[0]["iterations"], 6);
}

#[test]
fn dispatch_statistics_time_and_count_functions() {
    let inputs = ["mlp_x", "mlp_w0", "mlp_w1", "mlp_w2"]
        .map(|name| format!("--input=@{}", fixture(&format!("inputs/{name}.npy"))));
    for name in ["mlp", "mlp.async"] {
        let module = module(name);
        let mut words = vec![module.as_str(), "--function=mlp", "--dispatch_statistics"];
        words.push("--benchmark_repetitions=2");
        words.extend(inputs.iter().map(String::as_str));
        let rows = rows(&words);
        let functions: Vec<_> =
            rows.iter().filter(|row| row["name"].as_str().unwrap().contains("_dispatch_")).collect();
        // Two repetitions and four statistics of them, and below these the functions.
        assert_eq!((functions.len(), rows.len()), (5, 2 + 4 + 5), "{rows:?}");
        assert_eq!(rows[6]["name"], functions[0]["name"]);
        let number = |row: &serde_json::Value, field: &str| row[field].as_f64().unwrap();
        for row in &functions {
            assert!(row["name"].as_str().unwrap().starts_with("BM_mlp/mlp_dispatch_"), "{row}");
            assert_eq!((&row["calls"], &row["iterations"]), (&1.0.into(), &8.into()), "{row}");
            assert!(number(row, "real_time") > 0.0 && number(row, "cpu_time") > 0.0, "{row}");
        }
        let percent: f64 = functions.iter().map(|row| number(row, "percent")).sum();
        assert!((percent - 100.0).abs() < 1e-6, "{percent}");
        assert!(functions.is_sorted_by(|a, b| number(a, "real_time") >= number(b, "real_time")));
    }
    let module = module("simple_abs");
    let call =
        ["iree-benchmark-module", &module, "--function=abs", "--input=f32=-2", "--dispatch_statistics"];
    let scratch = Scratch::new();
    let capture = format!("--device_replay_output={}", scratch.path("x.ireereplay").display());
    for other in ["--print_device_statistics", &capture] {
        let stderr = fail(&[&call[..], &[other]].concat());
        assert!(stderr.starts_with("INVALID_ARGUMENT; --dispatch_statistics cannot be combined"), "{stderr}");
    }
}

#[test]
fn results_can_be_printed() {
    let words = |expected: &str| {
        run(&[
            "iree-benchmark-module",
            &module("simple_abs"),
            "--function=abs",
            "--input=f32=-2",
            "--benchmark_min_time=3x",
            "--enable_output_processing",
            &format!("--expected_output={expected}"),
        ])
    };
    let right = words("f32=2");
    assert_eq!(right.status, Some(0), "{right:?}");
    assert!(right.stdout.ends_with("[SUCCESS] all function outputs matched their expected values.\n"));
    let wrong = words("f32=3");
    assert_eq!(wrong.status, Some(1));
    assert!(wrong.stdout.contains("[FAILED] result[0]: element at index 0 (2)"), "{}", wrong.stdout);
}

#[test]
fn recorded_calls_are_scopes() {
    let scratch = Scratch::new();
    let capture = scratch.path("abs.ireereplay").display().to_string();
    print(&[
        "iree-benchmark-module",
        &module("simple_abs"),
        "--function=abs",
        "--input=f32=-2",
        "--benchmark_min_time=3x",
        &format!("--device_replay_output={capture}"),
    ]);
    let info = print(&["rehal", "info", &capture]);
    assert!(info.contains("execute"), "{info}");
    let report =
        print(&["iree-benchmark-replay", "--replay_scope=execute", "--benchmark_min_time=2x", &capture]);
    assert!(report.contains("BM_replay/scope:execute/process_time/manual_time"));
}

/// A capture with an open scope cannot be replayed.
#[test]
fn calls_that_fail_end_their_scope() {
    let scratch = Scratch::new();
    let capture = scratch.path("abs.ireereplay").display().to_string();
    let ran = run(&[
        "iree-benchmark-module",
        &module("simple_abs"),
        "--function=abs",
        "--input=2xf32=-2",
        "--benchmark_min_time=3x",
        &format!("--device_replay_output={capture}"),
    ]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    let dump = print(&["iree-dump-replay", &capture]);
    assert!(dump.contains("scopes: begin=2 end=2"), "{dump}");
}

#[test]
fn fences_are_created_like_the_reference_does() {
    let scratch = Scratch::new();
    let capture = scratch.path("mlp.ireereplay").display().to_string();
    let mut words = vec![
        "iree-benchmark-module".to_string(),
        module("mlp.async"),
        "--function=mlp".into(),
        "--benchmark_min_time=1x".into(),
        format!("--device_replay_output={capture}"),
    ];
    words.extend(
        ["mlp_x", "mlp_w0", "mlp_w1", "mlp_w2"]
            .map(|name| format!("--input=@{}", fixture(&format!("inputs/{name}.npy")))),
    );
    print(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let dump = print(&["iree-dump-replay", &capture]);
    let made: Vec<_> = dump.lines().filter(|line| line.contains("device.create_semaphore")).collect();
    // The default flags of the HAL's semaphores: the host waits for them, and they export timepoints.
    assert!(made.len() > 2 && made.iter().all(|line| line.contains("flags=0x000000000000000a")), "{made:#?}");
}

#[test]
fn a_failure_is_a_row_and_ends_the_run() {
    let ran =
        run(&["iree-benchmark-module", &module("simple_abs"), "--function=abs", "--benchmark_min_time=1x"]);
    assert_eq!(ran.status, Some(1));
    assert!(
        ran.stdout.contains("BM_abs/process_time/real_time ERROR OCCURRED: 'INVALID_ARGUMENT; "),
        "{ran:?}"
    );
    assert!(ran.stderr.contains("benchmark BM_abs"), "{}", ran.stderr);
}

#[test]
fn invalid_flags_print_advice() {
    let module = module("simple_abs");
    for (flag, words) in [("--function=zzz", "the module has: abs"), ("operand", "'operand'")] {
        let stderr = fail(&["iree-benchmark-module", &module, flag]);
        assert!(stderr.contains(words), "{flag}: {stderr}");
    }
}
