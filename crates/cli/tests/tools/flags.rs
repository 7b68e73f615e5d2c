//! Flags as users give them. Unit tests have the rules of their syntax.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rehal_cli::Tool;
use rehal_cli::flags::{Effect, Entry, Flags, GENERAL, Group};
use rehal_cli::tools::ALL;

use crate::common::{Scratch, TOOLS, capture, command, fail, fixture, print, ran, run};

fn abs() -> String {
    capture("simple_abs.abs.local-sync")
}

#[test]
fn google_benchmark_booleans_accept_more_words() {
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
fn operands_may_be_anywhere_and_follow_a_double_dash() {
    let expected = print(&["iree-dump-replay", "--format=jsonl", &abs()]);
    assert_eq!(print(&["iree-dump-replay", &abs(), "--format=jsonl"]), expected);
    assert_eq!(print(&["iree-dump-replay", "--format=jsonl", "--", &abs()]), expected);
    let scratch = Scratch::new();
    // A single dash is that of a file that exists.
    for operand in [&["--", "--odd"][..], &["-odd"]] {
        scratch.file(operand[operand.len() - 1], std::fs::read(abs()).unwrap());
        let mut dump = command("iree-dump-replay");
        dump.current_dir(scratch.path("")).arg("--format=jsonl").args(operand);
        assert_eq!(ran(dump.output().unwrap()).stdout, expected);
    }
}

#[test]
fn all_forms_of_help_print_the_same() {
    for tool in ALL {
        let words: Vec<_> = tool.name.split(' ').collect();
        assert_eq!(print(&[&words[..], &["-h"]].concat()), print(&[&words[..], &["--help=short"]].concat()));
        let verb: Vec<_> = tool.verb.split(' ').collect();
        let of_verb = print(&[&["rehal", "help"], &verb[..]].concat());
        assert_eq!(of_verb, print(&[&["rehal"], &verb[..], &["--help"]].concat()));
    }
    assert_eq!(print(&["rehal", "-h"]), print(&["rehal", "help"]));
    assert!(fail(&["rehal", "help", "dmup"]).contains("unknown verb 'dmup'\n  try: did you mean 'dump'?"));
}

#[test]
fn short_help_has_a_line_for_each_flag_of_the_tool() {
    for tool in ALL {
        let verb: Vec<_> = tool.verb.split(' ').collect();
        let help = print(&[&["rehal"], &verb[..], &["-h"]].concat());
        assert!(help.starts_with(&format!("rehal {}: {}\n\nUsage: ", tool.verb, tool.summary)), "{help}");
        let lines: Vec<_> = help.lines().collect();
        assert!(lines.len() < 90 && lines[3..].iter().all(|line| line.chars().count() <= 120), "{help}");
        // Those of devices are in one line.
        let own = tool.groups.first().filter(|group| group.title != "Devices");
        for entry in own.into_iter().flat_map(|group| group.flags) {
            let spec = entry.spec();
            let is_it = |line: &&&str| {
                let flag = line.trim_start();
                let flag = flag.split_once(", --").filter(|(it, _)| it.len() == 2).map_or(flag, |(_, it)| it);
                flag.trim_start_matches('-').split(['=', ' ']).next() == Some(spec.name)
            };
            let count = lines.iter().filter(is_it).count();
            let works = matches!(spec.effect, Effect::Full | Effect::OfDriver(_));
            assert_eq!(count, usize::from(works), "{} --{}: {help}", tool.verb, spec.name);
        }
        let devices = lines.iter().filter(|line| line.starts_with("  Devices: --device,")).count();
        let opens = tool.groups.iter().any(|group| group.title == "Devices");
        assert_eq!(devices, usize::from(opens), "{help}");
    }
}

#[test]
fn flag_files_are_expanded_in_place() {
    let scratch = Scratch::new();
    let inner = scratch.file("inner", "--format=\"jsonl\"\n");
    let outer = scratch.file(
        "outer",
        format!("# a comment\n// another\n\n  --format = text \r\n--flagfile={inner}\n--agents-md=false\n"),
    );
    let flag = format!("--flagfile={outer}");
    assert!(print(&["iree-dump-replay", &flag, &abs()]).starts_with("{\"kind\""));
    // Later flags override it, and it overrides earlier flags.
    assert!(print(&["iree-dump-replay", &flag, "--format=text", &abs()]).starts_with("IREE HAL"));
    assert!(print(&["iree-dump-replay", "--format=text", &flag, &abs()]).starts_with("{\"kind\""));
}

#[test]
fn errors_in_flag_files_name_the_line() {
    let scratch = Scratch::new();
    let words = |path: &str| format!("--flagfile={path}");
    for (text, expected) in [
        ("--format=text\nmodel.ireereplay\n", "'model.ireereplay' is not a flag\n  at: "),
        ("--\n", "'--' is not a flag"),
        ("\n--fromat=text\n", "unknown flag '--fromat'\n  at: "),
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
    assert!(fail(&["iree-dump-replay", "--flagfile", &abs()]).contains("--flagfile needs a value"));
    let binary = scratch.file("binary", [0xff, 0xfe, b'\n']);
    assert!(fail(&["iree-dump-replay", &words(&binary), &abs()]).contains("is not a flag"));
    assert!(fail(&["iree-dump-replay", &words("/dev/zero"), &abs()]).contains("is larger than"));
    let directory = scratch.path("").display().to_string();
    assert!(fail(&["iree-dump-replay", &words(&directory), &abs()]).contains("is a directory"));
}

#[test]
fn flag_files_may_be_large_and_may_be_pipes() {
    let scratch = Scratch::new();
    let large =
        scratch.file("large", ["# a comment\n".repeat(200_000).as_str(), "--format=jsonl\n"].concat());
    assert!(std::fs::metadata(&large).unwrap().len() > 2 << 20);
    let flag = format!("--flagfile={large}");
    assert!(print(&["iree-dump-replay", &flag, &abs()]).starts_with("{\"kind\""));
    // Like a shell's process substitution: /proc/self/fd/N is a link to a pipe, whose target is not a path.
    let mut dump = command("iree-dump-replay");
    dump.args(["--flagfile=/dev/fd/0", &abs()]).stdin(std::process::Stdio::piped());
    let mut dump = dump.stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut dump.stdin.take().unwrap(), b"--format=jsonl\n").unwrap();
    let ran = ran(dump.wait_with_output().unwrap());
    assert!(ran.status == Some(0) && ran.stdout.starts_with("{\"kind\""), "{ran:?}");
}

/// Covers an operand, a list of paths, a single path, a path in a value, and all of them in a flag file.
#[test]
fn paths_need_not_be_utf8() {
    let scratch = Scratch::new();
    let path = |name: &[u8]| scratch.path("").join(OsStr::from_bytes(name)).into_os_string();
    let flag = |name: &str, path: &OsString| {
        let mut flag = OsString::from(name);
        flag.push(path);
        flag
    };
    let call = |tool: &str, arguments: &[OsString]| {
        let ran = ran(command(tool).args(arguments).output().unwrap());
        assert_eq!(ran.status, Some(0), "{arguments:?}: {ran:?}");
        ran.stdout
    };
    let (capture, module, array) = (path(b"\xff.ireereplay"), path(b"\xff.vmfb"), path(b"\xff.npy"));
    std::fs::copy(fixture("modules/values.vmfb"), &module).unwrap();
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let program = [flag("--module=", &module), "--function=echo_f32".into()];
    let write = [flag("--output=@", &array), flag("--device_replay_output=", &capture)];
    call("iree-run-module", &[&program[..], &words(&["--input=2xf32=1 2"]), &write].concat());
    let read = flag("--input=@", &array);
    assert!(call("iree-run-module", &[&program[..], &[read]].concat()).ends_with("2xf32=1 2\n"));
    let bytes = flag("--input=1xf32=@", &path(b"\xfe"));
    std::fs::write(path(b"\xfe"), 7f32.to_le_bytes()).unwrap();
    assert!(call("iree-run-module", &[&program[..], &[bytes]].concat()).ends_with("1xf32=7\n"));
    let reads = path(b"\xff.jsonl");
    let mut lines = flag("--replay_host_reads=", &reads).into_vec();
    lines.push(b'\n');
    let flags = path(b"\xff.flags");
    std::fs::write(&flags, lines).unwrap();
    call("iree-run-replay", &[flag("--flagfile=", &flags), capture]);
    assert!(std::fs::read_to_string(reads).unwrap().starts_with('{'));
    let parameters = path(b"\xff.irpa");
    call(
        "iree-create-parameters",
        &[words(&["--data=a=4xi8=1,2,3,4"]), vec![flag("--output=", &parameters)]].concat(),
    );
    let (extracted, scoped) = (path(b"\xfd"), flag("--parameters=s=", &parameters));
    call("iree-dump-parameters", &[scoped, flag("--extract=s::a=", &extracted)]);
    assert_eq!(std::fs::read(extracted).unwrap(), [1, 2, 3, 4]);
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
fn nested_flag_files_are_bounded() {
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
fn flags_are_checked_before_anything_is_opened() {
    let nowhere = "/nonexistent/x";
    let module = format!("--module={nowhere}");
    let parameters = format!("--parameters={nowhere}");
    for (tool, file, wrong) in [
        ("iree-run-replay", nowhere, "--replay_executable_substitution=x"),
        ("iree-benchmark-replay", nowhere, "--benchmark_format=xml"),
        ("iree-dump-replay", nowhere, "--format=xml"),
        ("iree-dump-module", nowhere, "--output=everything"),
        ("iree-run-module", &module, "--device_replay_file_policy=none"),
        ("iree-run-module", &module, "--device_replay_file_validation=none"),
        ("iree-run-module", &module, "--parameter_mode=none"),
        ("iree-run-module", &module, "--device_lead_allocator=1"),
        ("iree-run-module", &module, "--input=2xq32=1"),
        ("iree-run-module", &module, "--output=x"),
        ("iree-benchmark-module", &module, "--equality_mode=none"),
        ("iree-check-module", &module, "--gtest_color=pink"),
        ("iree-dump-parameters", &parameters, "--extract=x"),
        ("iree-create-parameters", "--output=/nonexistent/x", "--data=x"),
        ("iree-convert-parameters", &parameters, "--splat=x=f32"),
    ] {
        let stderr = fail(&[tool, file, wrong]);
        let (name, value) = wrong.split_once('=').unwrap();
        let expected = format!("invalid value '{value}' for {name} (expected ");
        assert!(stderr.lines().next().unwrap().contains(&expected), "{tool} {wrong}: {stderr}");
    }
    // Devices are looked up after all flags are parsed, but before a file is opened.
    for (tool, file) in [
        ("iree-run-replay", nowhere),
        ("rehal", nowhere),
        ("iree-run-module", &module),
        ("iree-check-module", &module),
    ] {
        let words =
            [tool, if tool == "rehal" { "info" } else { "--device=local-sync" }, "--device=cuda", file];
        let stderr = run(&words).stderr;
        let expected = "UNAVAILABLE; driver 'cuda' finds no GPU: this build does not drive the hardware\n  at: --device=cuda\n  \
                        try: emulate one, slowly: --device=cuda://emulator";
        assert!(stderr.starts_with(expected), "{tool}: {stderr}");
    }
}

/// Values that are invalid for most flags. Each flag refuses at least one of them, or is listed here.
const WRONG: [&[u8]; 9] =
    [b"\xff", b"", b"?", b"(", b"-1", b"no=such=thing", b"1e99", b"maybe", b"99999999999999999999"];

/// Flags that accept any path or text.
const TAKE_ANYTHING: &[&str] = &[
    "against",
    "against_capture",
    "baseline",
    "best",
    "benchmark_out",
    "benchmarks_to",
    "binaries_to",
    "compiler",
    "compiler_flag",
    "configurations_to",
    "device_capture_file",
    "device_profiling_output",
    "device_replay_output",
    "directory",
    "executable_file",
    "export",
    "history",
    "instrument_file",
    "output",
    "replay_host_reads",
    "sources_to",
    "replay_ledger",
    "space",
    "task_topology_snapshot",
    "to",
    "agents_md",
    "parameters",
];

/// Values next to those that are valid.
#[test]
fn values_beyond_a_limit_are_refused() {
    let abs = abs();
    for words in [
        &["rehal", "benchmark-executable", "--batch_size=0"][..],
        &["rehal", "benchmark-executable", "--batch_size=1048577"],
        &["rehal", "benchmark-executable", "--workgroup_count=1,1,4294967296"],
        &["iree-benchmark-replay", &abs, "--benchmark_repetitions=0"],
        &["rehal", "kernel", "replay", &abs, "--repetitions=0"],
        &["rehal", "convert-parameters", "--rename=w"],
    ] {
        let (flag, value) = words[words.len() - 1].split_once('=').unwrap();
        let error = fail(words);
        assert!(error.contains(&format!("invalid value '{value}' for {flag} (expected ")), "{error}");
    }
}

/// Every flag of every tool, passed to its binary.
#[test]
fn every_flag_refuses_invalid_values() {
    let mut refused = 0;
    for tool in ALL {
        // Invalid flag files are tested above.
        for entry in entries(tool).filter(|entry| entry.spec().name != "flagfile") {
            let name = entry.spec().name;
            let mut is_refused = false;
            for wrong in WRONG {
                let mut flag = OsString::from(format!("--{name}="));
                flag.push(OsStr::from_bytes(wrong));
                // Parsed in this process first: most values are invalid for most flags, and starting a
                // process is slow.
                let Err(error) = Flags::parse(&groups(tool), [flag.clone()]).map(drop) else { continue };
                let message = error.report().lines().next().unwrap().to_string();
                if message.starts_with("UNIMPLEMENTED") {
                    continue;
                }
                assert!(message.contains(&format!("--{name}")), "{message}");
                let expected = entry.expected();
                assert!(message.contains(&format!("(expected {expected})")), "{message}");
                if !is_refused {
                    let words: Vec<_> = tool.name.split(' ').collect();
                    let ran = ran(command(words[0]).args(&words[1..]).arg(flag).output().unwrap());
                    assert_eq!((ran.status, &*ran.stdout), (Some(1), ""), "{} --{name}: {ran:?}", tool.name);
                    assert_eq!(ran.stderr, format!("{}\n", error.report()));
                }
                is_refused = true;
            }
            let free = TAKE_ANYTHING.contains(&name) || entry.spec().effect != Effect::Full;
            assert!(is_refused || free, "{} --{name} takes everything", tool.name);
            refused += usize::from(is_refused);
        }
    }
    assert!(refused > 200, "{refused}");
}

#[test]
fn every_choice_is_accepted() {
    let mut taken = 0;
    for tool in ALL {
        for entry in entries(tool) {
            for word in entry.words() {
                let flag = format!("--{}={word}", entry.spec().name);
                match Flags::parse(&groups(tool), [flag.clone().into()]) {
                    Ok(_) => taken += 1,
                    Err(error) => assert!(
                        entry.spec().effect != Effect::Full && error.report().starts_with("UNIMPLEMENTED"),
                        "{flag}: {}",
                        error.report()
                    ),
                }
            }
            // The default, as help shows it, is valid as well.
            if let Some(line) = entry.line().lines().last().filter(|line| line.starts_with("--")) {
                let flags = Flags::parse(&groups(tool), [line.into()]).unwrap();
                assert!(flags.warnings().is_empty(), "{line}");
            }
        }
    }
    assert!(taken > 100, "{taken}");
}

#[test]
fn names_are_unique_in_a_table() {
    for tool in ALL {
        let mut names: Vec<_> = entries(tool).map(|entry| entry.spec().name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{}", tool.name);
        for entry in entries(tool) {
            let help = entry.spec().help;
            assert!(help.ends_with('.') || help.contains("\n "), "--{}: {help}", entry.spec().name);
        }
    }
}

fn entries(tool: &Tool) -> impl Iterator<Item = &'static dyn Entry> {
    groups(tool).into_iter().flat_map(|group| group.flags.iter().copied())
}

fn groups(tool: &Tool) -> Vec<&'static Group> {
    tool.groups.iter().copied().chain([&GENERAL]).collect()
}

#[test]
fn missing_features_are_refused_by_name() {
    let flag = "--device_capture_tool=renderdoc";
    for tool in ["iree-run-replay", "iree-benchmark-replay"] {
        let stderr = fail(&[tool, flag, &abs()]);
        assert!(stderr.starts_with(&format!("UNIMPLEMENTED; {flag}")), "{stderr}");
        assert!(stderr.contains("not in this build"), "{stderr}");
    }
}

#[test]
fn missing_features_name_an_alternative() {
    for (words, instead) in [
        (&["iree-run-replay", "--device_capture_tool=renderdoc", &abs()][..], "--device_replay_output=PATH"),
        (&["iree-run-module", "--module=x.so"], "--executable_plugin=PATH"),
    ] {
        let stderr = fail(words);
        let (what, advice) = stderr.split_once("\n  try: ").unwrap();
        assert!(what.starts_with("UNIMPLEMENTED; ") && advice.contains(instead), "{stderr}");
        if words[0] != "iree-run-module" {
            let flag = words[1].split('=').next().unwrap();
            let help = print(&[words[0], "--help=all"]).replace("\n# ", " ");
            let (_, described) = help.split_once("Refused in this build").unwrap();
            assert!(described.contains(instead), "the help of {flag} does not name {instead}");
        }
    }
}

#[test]
fn flags_without_effect_warn_once() {
    let warned = |flags: &[&str]| {
        let ran = run(&[&["iree-run-replay", "--device=local-sync", &abs()], flags].concat());
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
        ran.stderr
    };
    assert_eq!(
        warned(&["--hip_tracing=1", "--cuda_default_index=3", "--cuda_default_index=4"]),
        "warning: without effect: --hip_tracing, --cuda_default_index (the CUDA and HIP drivers are not in this \
         build)\n"
    );
    assert_eq!(warned(&["--vulkan_tracing", "--cuda_default_index=0", "--task_topology_group_count=0"]), "");
    assert_eq!(
        warned(&["--task_topology_group_count=2", "--task_worker_spin_us=1"]),
        "warning: without effect: --task_topology_group_count, --task_worker_spin_us (no device of the driver local-task \
         is named)\n"
    );
    for spec in ["caching", "debug", "caching:device_local=1gib"] {
        assert_eq!(
            warned(&[&format!("--device_allocator={spec}"), "--device_allocator=caching"]),
            "warning: without effect: --device_allocator (devices have one allocator each)\n"
        );
    }
    for wrong in ["", "cache", "none", ":", "debugging"] {
        let flag = format!("--device_allocator={wrong}");
        let refused = fail(&["iree-run-replay", &flag, &abs()]);
        assert!(
            refused.starts_with("INVALID_ARGUMENT; ") && refused.contains("caching or debug"),
            "{refused}"
        );
    }
    for device in ["--device=local-task", "--device=local-task://0"] {
        let on_workers = ["iree-run-replay", device, "--task_topology_group_count=2", &abs()];
        assert_eq!(run(&on_workers).stderr, "");
    }
    assert_eq!(run(&["iree-run-replay", "--task_topology_group_count=2", &abs()]).stderr, "");
}

/// The oracle's tests compare what is printed with the reference.
#[test]
fn task_topologies_are_those_of_the_flags_before_the_query() {
    let workers = |flags: &[&str]| {
        let printed = print(&[&["iree-run-replay"], flags].concat());
        printed.lines().filter(|line| line.starts_with("# group[")).count()
    };
    let one = "--task_topology_group_count=1";
    assert_eq!(workers(&["--task_topology_group_count=3", "--dump_task_topologies", one]), 3);
    assert_eq!(
        workers(&["--dump_task_topologies", "--task_topology_snapshot=/does/not/exist"]),
        workers(&["--dump_task_topologies"])
    );
    assert_eq!(
        workers(&["--task_topology_group_count=3", one, "--dump_task_topologies", "--no_such_flag"]),
        1
    );
    assert_eq!(workers(&["--task_topology_max_group_count=0", "--dump_task_topologies"]), 0);
    let range = print(&["iree-run-replay", "--task_topology_cpu_ids=0-0,0", "--dump_task_topologies"]);
    assert_eq!(range, print(&["iree-run-replay", "--task_topology_cpu_ids=0,0", "--dump_task_topologies"]));
    let stderr = fail(&["iree-run-replay", "--task_topology_cpu_ids=64999-65001", "--dump_task_topologies"]);
    assert!(stderr.starts_with("OUT_OF_RANGE; CPU 64999 does not exist"), "{stderr}");
    let stderr =
        fail(&["iree-run-replay", "--task_topology_snapshot=/does/not/exist", "--dump_task_topologies"]);
    assert!(stderr.starts_with("NOT_FOUND; '/does/not/exist' has no readable file cpu/present"), "{stderr}");
    let stderr = fail(&["iree-run-replay", "--task_topology_cpu_ids=65000", "--dump_task_topologies"]);
    assert!(stderr.starts_with("OUT_OF_RANGE; CPU 65000 does not exist"), "{stderr}");
}

#[test]
fn topologies_of_devices_with_parameters_follow_those_of_the_flags() {
    let own = "--device=local-task://?task_topology_group_count=2";
    let flags = ["iree-run-replay", "--task_topology_group_count=3"];
    let dump = |devices: &[&str]| print(&[&flags[..], devices, &["--dump_task_topologies"]].concat());
    let plain = dump(&[]);
    // The memory is a limit of the device, not of its workers.
    for same in ["local-task", "local-task://?task_worker_local_memory=64", "local-sync"] {
        assert_eq!(dump(&[&format!("--device={same}")]), plain);
    }
    let with_own = dump(&[own, "--device=local-task", own]);
    let (before, after) =
        with_own.split_once("# --device=local-task://?task_topology_group_count=2\n").unwrap();
    assert!(before.starts_with(&plain), "{with_own}");
    assert_eq!(after.matches("# group[").count(), 2, "{with_own}");
    let stderr = fail(
        &[&flags[..], &["--device=local-task://?task_topology_cpu_ids=65000"], &["--dump_task_topologies"]]
            .concat(),
    );
    assert!(
        stderr.contains("CPU 65000 does not exist") && stderr.contains("at: device 'local-task://"),
        "{stderr}"
    );
}

#[test]
fn help_is_a_flag_file_that_changes_nothing() {
    let scratch = Scratch::new();
    // Only the names of a benchmark report are the same in each run.
    let names = |printed: String| -> Vec<String> {
        printed.lines().filter_map(|line| line.split(' ').next().map(ToOwned::to_owned)).collect()
    };
    for tool in TOOLS {
        let is_benchmark = tool == ["iree-benchmark-replay"];
        let fast: &[&str] = if is_benchmark { &["--benchmark_min_time=1x"] } else { &[] };
        let plain = print(&[tool, fast, &[&abs()]].concat());
        for help in ["--help", "--help=all"] {
            let help = print(&[tool, &[help]].concat());
            let flag = format!("--flagfile={}", scratch.file("help", &help));
            let ran = run(&[tool, &[flag.as_str()], fast, &[&abs()]].concat());
            assert_eq!(ran.status, Some(0), "{tool:?}: {ran:?}");
            assert!(!ran.stderr.contains("warning: without effect"), "{}", ran.stderr);
            if is_benchmark {
                assert!(plain.contains("BM_replay/process_time/real_time"), "{plain}");
                assert_eq!(names(ran.stdout), names(plain.clone()));
            } else {
                assert_eq!(ran.stdout, plain, "{tool:?}");
            }
        }
    }
}

#[test]
fn help_is_grouped_and_ends_with_examples() {
    for tool in TOOLS {
        let name = tool.join(" ");
        let help = print(&[tool, &["--help"]].concat());
        let rule = format!("# {}\n", "=".repeat(76));
        let product = if name.starts_with("iree-") { "👻 IREE: " } else { "" };
        assert!(help.starts_with(&format!("{rule}# {product}{name}\n{rule}#\n# {name}: ")), "{help}");
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
fn help_describes_flags_that_work_and_lists_others_by_group() {
    let help = print(&["iree-run-replay", "--help"]);
    assert!(help.lines().count() < 430, "{}", help.lines().count());
    for line in [
        "# Accepted for compatibility, no effect in this build; --help=all lists them:",
        "#   Vulkan: --vulkan_tracing, --vulkan_sparse_*, --vulkan_cached_*, \
         --vulkan_retained_cached_bda_replay_instances",
        "#   CUDA and HIP: --cuda_*, --hip_*",
        "#   Devices: --device_allocator",
        "# Refused in this build, unless at their defaults; --help=all lists them:",
        "#   Profiling: --device_capture_*",
    ] {
        assert!(help.lines().any(|it| it == line), "no {line:?} in\n{help}");
    }
    assert!(
        !help.contains("cuda_tracing") && print(&["iree-run-replay", "--help=all"]).contains("cuda_tracing")
    );
    assert!(!print(&["iree-dump-replay", "--help"]).contains("Not in this build"));
}

/// The reference's test of its tools looks for these sentences.
#[test]
fn help_of_replay_tools_says_what_they_do_with_a_replay_file() {
    for (tool, sentence) in [
        ("iree-run-replay", "Executes an IREE HAL replay file"),
        ("iree-benchmark-replay", "Benchmarks deterministic execution of an IREE HAL replay file"),
        ("iree-dump-replay", "Dumps information from an IREE HAL replay file"),
    ] {
        let help = print(&[tool, "--help"]);
        let (_, rest) =
            help.split_once(&format!("IREE: {tool}\n")).expect("the help begins with the tool's name");
        assert!(rest.lines().any(|line| line.contains(sentence)), "{help}");
    }
}

#[test]
fn queries_need_no_capture() {
    for tool in TOOLS {
        assert!(print(&[tool, &["--version"]].concat()).contains(env!("CARGO_PKG_VERSION")));
    }
    // The first query is answered.
    assert!(print(&["iree-run-replay", "--list_devices", "--help"]).starts_with("local-sync://"));
}

/// The flags of the reference release: names and defaults, of which one is another: memory has pages of
/// parameter files, which a program cannot tell from copies.
#[test]
fn every_flag_of_the_reference_exists_with_its_default() {
    for list in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data")).unwrap() {
        let list = list.unwrap().path();
        let tool = list.file_stem().unwrap().to_str().unwrap();
        let help = print(&[tool, "--help=all"]);
        for line in std::fs::read_to_string(&list).unwrap().lines().skip(1) {
            let flag = line.trim_start_matches("# ");
            let name = flag.split('=').next().unwrap();
            let shown = help.lines().map(|line| line.trim_start_matches("# "));
            let mut shown = shown.filter_map(|line| line.strip_prefix(name));
            assert!(shown.any(|rest| rest.is_empty() || rest.starts_with(['=', '['])), "{tool} {name}");
            let flag = if name == "--parameter_mode" { "--parameter_mode=\"map\"" } else { flag };
            let is_default = line.starts_with('#') || help.lines().any(|it| it == flag);
            assert!(is_default, "{tool} --help=all has another default for {flag}");
        }
    }
}

#[test]
fn every_flag_of_the_reference_is_accepted_at_its_default() {
    for tool in ["iree-run-replay", "iree-dump-replay", "iree-benchmark-replay", "iree-benchmark-module"] {
        let list = format!("--flagfile={}/tests/data/{tool}.flags", env!("CARGO_MANIFEST_DIR"));
        let fast = if tool.contains("benchmark") { "--benchmark_min_time=1x" } else { "--agents_md=false" };
        let module = format!("--module={}", fixture("modules/multi.vmfb"));
        let input = if tool.contains("module") { module } else { abs() };
        let ran = run(&[tool, &list, fast, &input]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        assert!(!ran.stderr.contains("without effect"), "{}", ran.stderr);
    }
}
