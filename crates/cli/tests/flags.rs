//! How flags may be written, one test per rule.

mod common;

use common::{Scratch, TOOLS, capture, command, fail, print, ran, run};

fn abs() -> String {
    capture("simple_abs.abs.local-sync")
}

#[test]
fn dashes_and_underscores_are_the_same() {
    let (dashes, underscores) = ("--replay-host-reads=-", "--replay_host_reads=-");
    let expected = print(&["iree-run-replay", underscores, &abs()]);
    assert!(expected.starts_with('{'));
    assert_eq!(print(&["iree-run-replay", dashes, &abs()]), expected);
    assert_eq!(print(&["iree-run-replay", "--list-drivers"]), print(&["iree-run-replay", "--list_drivers"]));
}

#[test]
fn values_follow_an_equals_sign() {
    print(&["iree-run-replay", "--device=local-sync", &abs()]);
    let stderr = fail(&["iree-run-replay", "--device", "local-sync", &abs()]);
    assert!(stderr.contains("--device needs a value"), "{stderr}");
    assert!(fail(&["iree-run-replay", "--device=", &abs()]).contains("--device needs a value"));
    assert!(fail(&["iree-dump-replay", "--format=", &abs()]).contains("expected text or jsonl"));
}

#[test]
fn switches_need_no_value() {
    for value in ["", "=true", "=1", "="] {
        let guide = print(&["iree-dump-replay", &format!("--agents_md{value}")]);
        assert!(guide.starts_with("# "), "{value}");
    }
    for value in ["=false", "=0"] {
        let dump = print(&["iree-dump-replay", &format!("--agents_md{value}"), &abs()]);
        assert!(dump.starts_with("IREE HAL replay v2.0\n"), "{value}");
    }
    // The reference takes these for false without a word.
    assert!(fail(&["iree-dump-replay", "--agents_md=yes", &abs()]).contains("expected true or false"));
}

#[test]
fn switches_of_google_benchmark_know_more_words() {
    for value in ["", "=yes", "=on", "=T", "=true"] {
        let flag = format!("--benchmark_list_tests{value}");
        let names = print(&["iree-benchmark-replay", &flag, &abs()]);
        assert_eq!(names, "BM_replay/process_time/real_time\n", "{value}");
    }
    for value in ["no", "off", "F", "0"] {
        let flag = format!("--benchmark_list_tests={value}");
        let report = print(&["iree-benchmark-replay", &flag, "--benchmark_min_time=1x", &abs()]);
        assert!(report.contains("UserCounters"), "{value}");
    }
}

#[test]
fn the_last_one_wins() {
    let dump = print(&["iree-dump-replay", "--format=nonsense", "--format=jsonl", &abs()]);
    assert!(dump.starts_with("{\"kind\":\"file\""));
}

#[test]
fn positionals_may_stand_anywhere_and_alone_behind_two_dashes() {
    let expected = print(&["iree-dump-replay", "--format=jsonl", &abs()]);
    assert_eq!(print(&["iree-dump-replay", &abs(), "--format=jsonl"]), expected);
    assert_eq!(print(&["iree-dump-replay", "--format=jsonl", "--", &abs()]), expected);
    let scratch = Scratch::new();
    scratch.file("--odd", std::fs::read(abs()).unwrap());
    let mut dump = command("iree-dump-replay");
    dump.current_dir(scratch.path("")).args(["--format=jsonl", "--", "--odd"]);
    assert_eq!(ran(dump.output().unwrap()).stdout, expected);
}

#[test]
fn one_dash_makes_no_flag() {
    let stderr = fail(&["iree-run-replay", "-device=local-sync", &abs()]);
    assert!(stderr.contains("try: flags begin with two dashes: --device=local-sync"), "{stderr}");
    fail(&["iree-run-replay", "-h"]);
    let scratch = Scratch::new();
    scratch.file("-odd", std::fs::read(abs()).unwrap());
    let mut run = command("iree-run-replay");
    run.current_dir(scratch.path("")).arg("-odd");
    assert_eq!(ran(run.output().unwrap()).status, Some(0));
}

#[test]
fn a_flag_file_stands_for_its_flags() {
    let scratch = Scratch::new();
    let inner = scratch.file("inner", "--format=\"jsonl\"\n");
    let outer = scratch.file(
        "outer",
        format!("# a comment\n// another\n\n  --format = text \r\n--flagfile={inner}\n--agents-md=false\n"),
    );
    let flag = format!("--flagfile={outer}");
    assert!(print(&["iree-dump-replay", &flag, &abs()]).starts_with("{\"kind\""));
    // What follows overrides it, what precedes it is overridden.
    assert!(print(&["iree-dump-replay", &flag, "--format=text", &abs()]).starts_with("IREE HAL"));
    assert!(print(&["iree-dump-replay", "--format=text", &flag, &abs()]).starts_with("{\"kind\""));
}

#[test]
fn a_wrong_flag_file_says_where() {
    let scratch = Scratch::new();
    let words = |path: &str| format!("--flagfile={path}");
    for (text, expected) in [
        ("--format=text\nmodel.ireereplay\n", "'model.ireereplay' is no flag\n  at: "),
        ("--\n", "'--' is no flag"),
        ("\n--fromat=text\n", "there is no flag '--fromat'\n  at: "),
        ("--format\n", "--format needs a value"),
    ] {
        let path = scratch.file("flags", text);
        let stderr = fail(&["iree-dump-replay", &words(&path), &abs()]);
        assert!(stderr.contains(expected), "{text:?}: {stderr}");
        let line = text.lines().count();
        assert!(stderr.contains(&format!("{path}:{line}")), "{text:?}: {stderr}");
    }
    let stderr = run(&["iree-dump-replay", "--flagfile=/nonexistent/flags", &abs()]).stderr;
    assert!(stderr.starts_with("NOT_FOUND; opening flag file '/nonexistent/flags'"), "{stderr}");
    assert!(fail(&["iree-dump-replay", "--flagfile", &abs()]).contains("--flagfile needs a path"));
    let binary = scratch.file("binary", [0xff, 0xfe, b'\n']);
    assert!(run(&["iree-dump-replay", &words(&binary), &abs()]).stderr.contains("is not UTF-8"));
    assert!(fail(&["iree-dump-replay", &words("/dev/zero"), &abs()]).contains("is larger than"));
}

#[test]
fn flag_files_that_include_each_other_are_an_error() {
    let scratch = Scratch::new();
    let second = scratch.path("second");
    let first = scratch.file("first", format!("--flagfile={}\n", second.display()));
    scratch.file("second", format!("--flagfile={first}\n"));
    let ran = run(&["iree-dump-replay", &format!("--flagfile={first}"), &abs()]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("includes itself"), "{}", ran.stderr);
}

#[test]
fn flag_files_cannot_grow_without_end() {
    let scratch = Scratch::new();
    let mut path = scratch.file("0", "--format=text\n".repeat(64));
    for level in 1..8 {
        path = scratch.file(&level.to_string(), format!("--flagfile={path}\n").repeat(64));
    }
    let ran = run(&["iree-dump-replay", &format!("--flagfile={path}"), &abs()]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.stderr.contains("more than 100000 flags"), "{}", ran.stderr);
}

#[test]
fn a_misspelt_flag_suggests_the_right_one() {
    for (tool, flag, meant) in [
        ("iree-run-replay", "--devcie=x", "--device"),
        ("iree-run-replay", "--replay_file_remaps=a=b", "--replay_file_remap"),
        ("iree-dump-replay", "--fromat=text", "--format"),
        ("iree-benchmark-replay", "--benchmark-mintime=1x", "--benchmark_min_time"),
        ("iree-benchmark-replay", "--replay_scpe=x", "--replay_scope"),
    ] {
        let stderr = fail(&[tool, flag, &abs()]);
        assert!(stderr.contains(&format!("did you mean {meant}?")), "{stderr}");
    }
}

#[test]
fn numbers_are_numbers() {
    for flag in
        ["--task_worker_spin_us=abc", "--task_worker_spin_us=1.5", "--cuda_tracing=99999999999999999999"]
    {
        let ran = run(&["iree-run-replay", flag, &abs()]);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""), "{flag}");
        assert!(ran.stderr.starts_with(&format!("INVALID_ARGUMENT; {flag}: ")), "{}", ran.stderr);
    }
    assert!(fail(&["iree-run-replay", "--replay_host_reads_limit_bytes=-1", &abs()]).contains("negative"));
}

#[test]
fn what_is_not_built_is_refused_by_name() {
    for flag in [
        "--device_profiling_mode=queue-events",
        "--device_profiling_output=x.ireeprof",
        "--device_profiling_counter=x",
        "--print_device_statistics",
        "--device_capture_tool=renderdoc",
        "--device_allocator=debug",
        "--dump_task_topologies",
        "--task_topology_group_count=4",
    ] {
        for tool in ["iree-run-replay", "iree-benchmark-replay"] {
            let stderr = fail(&[tool, flag, &abs()]);
            assert!(stderr.starts_with(&format!("UNIMPLEMENTED; {flag}")), "{stderr}");
            assert!(stderr.contains("not built yet"), "{stderr}");
        }
    }
    // Nothing that could run would see these.
    print(&["iree-run-replay", "--device=local-sync", "--task_topology_group_count=4", &abs()]);
    print(&["iree-run-replay", "--vulkan_tracing=false", "--cuda_default_index=3", &abs()]);
}

#[test]
fn help_is_a_flag_file_that_changes_nothing() {
    let scratch = Scratch::new();
    // Of a benchmark's rows, only the names are the same in each run.
    let names = |printed: String| -> Vec<String> {
        printed.lines().filter_map(|line| line.split(' ').next().map(ToOwned::to_owned)).collect()
    };
    for tool in TOOLS {
        let help = print(&[tool, &["--help"]].concat());
        let flag = format!("--flagfile={}", scratch.file("help", &help));
        let is_benchmark = tool == ["iree-benchmark-replay"];
        let fast: &[&str] = if is_benchmark { &["--benchmark_min_time=1x"] } else { &[] };
        let plain = print(&[tool, fast, &[&abs()]].concat());
        let printed = print(&[tool, &[flag.as_str()], fast, &[&abs()]].concat());
        if is_benchmark {
            assert!(plain.contains("BM_replay/process_time/real_time"), "{plain}");
            assert_eq!(names(printed), names(plain));
        } else {
            assert_eq!(printed, plain, "{tool:?}");
        }
    }
}

#[test]
fn help_is_grouped_and_ends_with_examples() {
    for tool in TOOLS {
        let name = tool.join(" ");
        let help = print(&[tool, &["--help"]].concat());
        assert!(help.starts_with(&format!("# {name}: ")), "{help}");
        assert!(help.contains(&format!("Usage: {name} [flags] CAPTURE.ireereplay")));
        let groups: Vec<_> = help.lines().filter_map(|line| line.strip_prefix("# ---- ")).collect();
        assert!(groups.len() >= 3, "{groups:?}");
        assert_eq!(groups.last(), Some(&"Examples"));
        assert!(help.contains(&format!("    {name} ")), "an example starts with {name}");
        assert!(!help.contains("{tool}"));
        assert!(help.lines().all(|line| line.chars().count() <= 160), "lines are short");
    }
}

#[test]
fn queries_need_no_capture() {
    for tool in TOOLS {
        assert!(print(&[tool, &["--version"]].concat()).contains(env!("CARGO_PKG_VERSION")));
    }
    // The first one is answered.
    assert!(print(&["iree-run-replay", "--list_devices", "--help"]).starts_with("local-sync://"));
}

/// The pinned release's flags, as data: name and default.
#[test]
fn every_flag_of_the_reference_is_taken_at_its_default() {
    for tool in ["iree-run-replay", "iree-dump-replay", "iree-benchmark-replay"] {
        let list = format!("{}/tests/data/{tool}.flags", env!("CARGO_MANIFEST_DIR"));
        let flags = std::fs::read_to_string(&list).unwrap();
        let fast = if tool.contains("benchmark") { "--benchmark_min_time=1x" } else { "--agents_md=false" };
        print(&[tool, &format!("--flagfile={list}"), fast, &abs()]);
        let help = print(&[tool, "--help"]);
        for line in flags.lines().skip(1) {
            let flag = line.trim_start_matches("# ");
            let name = flag.split('=').next().unwrap();
            let shown = help.lines().any(|line| {
                let line = line.trim_start_matches("# ");
                line.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['=', '[']))
            });
            assert!(shown, "{tool} --help does not show {name}");
            if !line.starts_with('#') {
                assert!(help.lines().any(|it| it == flag), "{tool} --help has another default for {flag}");
            }
        }
    }
}
