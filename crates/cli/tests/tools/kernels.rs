//! `rehal kernels`: the lists, and what is exported.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use crate::common::{Scratch, capture, command, fail, fixture, print, record_add, run};
use serde_json::Value;

fn json(words: &[&str]) -> Value {
    let words = [&["rehal", "kernels", "--device=local-sync", "--format=json"], words].concat();
    serde_json::from_str(&print(&words)).unwrap()
}

/// The kernels of a report, without times.
fn shapes(report: &Value) -> Vec<Value> {
    let mut kernels = report["kernels"].as_array().unwrap().clone();
    for kernel in &mut kernels {
        let kernel = kernel.as_object_mut().unwrap();
        for timed in [
            "time_ns",
            "time_interval_ns",
            "share",
            "max_bytes_per_second",
            "no_rate_because",
            "bytes_read",
            "bytes_written",
            "bytes_accessed",
            "cpu_ns",
            "thread_count",
            "imbalance",
        ] {
            kernel.remove(timed);
        }
        for binding in kernel["bindings"].as_array_mut().unwrap() {
            for observed in ["is_written", "changed_offset", "changed_length"] {
                binding.as_object_mut().unwrap().remove(observed);
            }
        }
    }
    kernels.sort_by_key(|kernel| kernel["record"].as_u64());
    kernels
}

#[test]
fn a_run_adds_times_and_directions() {
    let path = capture("add4.add.local-sync");
    let (run, planned) = (json(&[&path]), json(&["--no_run", &path]));
    assert_eq!(shapes(&run), shapes(&planned));
    let [kernel] = &run["kernels"].as_array().unwrap()[..] else { panic!("{run}") };
    assert!(kernel["function"].as_str().unwrap().starts_with("add_dispatch_0"), "{kernel}");
    let lengths: Vec<_> =
        kernel["bindings"].as_array().unwrap().iter().map(|it| it["length"].clone()).collect();
    assert_eq!(lengths, [16, 16, 16]);
    let written: Vec<_> =
        kernel["bindings"].as_array().unwrap().iter().map(|it| it["is_written"].clone()).collect();
    assert_eq!(written, [false, false, true]);
    assert_eq!((kernel["bytes_read"].as_u64(), kernel["bytes_written"].as_u64()), (Some(32), Some(16)));
    let rate = kernel["max_bytes_per_second"].as_f64().unwrap();
    let time = kernel["time_ns"].as_f64().unwrap();
    let count = kernel["count"].as_f64().unwrap();
    assert!((rate * time / (48e9 * count) - 1.0).abs() < 1e-9, "{kernel}");
    assert_eq!((run["timed_by"].as_str(), kernel["share"].as_f64()), (Some("processor"), Some(1.0)));
    let [kernel] = &planned["kernels"].as_array().unwrap()[..] else { panic!("{planned}") };
    assert!(kernel["time_ns"].is_null() && kernel["bytes_read"].is_null(), "{kernel}");
    assert_eq!(kernel["no_rate_because"], "unknown directions");
}

/// Not in units of several elements: 40 of 104 numbers, from the 24th on.
#[test]
fn what_a_kernel_writes_is_exact() {
    let report = json(&[&capture("padded.padded.local-sync")]);
    let kernel = &report["kernels"][0];
    let output = &kernel["bindings"][2];
    assert_eq!((&output["changed_offset"], &output["changed_length"]), (&96.into(), &160.into()));
    assert_eq!((&kernel["bytes_read"], &kernel["bytes_written"]), (&320.into(), &160.into()));
    // 12 bytes, of a binding that overlaps another one.
    let report = json(&[&capture("dynamic.rows.local-sync")]);
    let kernels = report["kernels"].as_array().unwrap().iter();
    let written: Vec<_> = kernels.map(|it| (it["record"].as_u64(), it["bytes_written"].as_u64())).collect();
    assert!(written.contains(&(Some(33), Some(12))), "{report}");
}

#[test]
fn functions_are_selected_and_the_longest_come_first() {
    let path = capture("mlp.mlp.local-sync");
    let all = json(&[&path]);
    let kernels = all["kernels"].as_array().unwrap();
    let times: Vec<u64> = kernels.iter().map(|kernel| kernel["time_ns"].as_u64().unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a >= b) && times.len() > 1, "{times:?}");
    let share: f64 = kernels.iter().map(|kernel| kernel["share"].as_f64().unwrap()).sum();
    assert!((share - 1.0).abs() < 1e-9, "{share}");
    let count: u64 = kernels.iter().map(|kernel| kernel["count"].as_u64().unwrap()).sum();
    assert_eq!(all["dispatch_count"], count);
    let name = kernels[1]["function"].as_str().unwrap();
    let one = json(&[&format!("--function={name}"), &path]);
    assert!(one["kernels"].as_array().unwrap().iter().all(|kernel| kernel["function"] == name));
    assert_eq!(one["dispatch_count"], count);
    let lines = print(&["rehal", "kernels", "--format=csv", "--device=local-sync", &path]);
    assert_eq!(lines.lines().count(), kernels.len() + 1);
    assert!(lines.lines().all(|line| line.split(',').count() == 38), "{lines}");
    let columns = lines.lines().next().unwrap().split(',');
    let renamed = |column: &&str| {
        !["binding_lengths", "binding_directions", "aliases", "time_low_ns", "time_high_ns"].contains(column)
            && !column.starts_with("threads")
    };
    assert!(columns.filter(renamed).all(|column| kernels[0].get(column).is_some()), "{lines}");
    let direction = |it: &Value| match it["is_written"].as_bool() {
        Some(is_written) => {
            if is_written {
                "w"
            } else {
                "r"
            }
        }
        None => "?",
    };
    for line in lines.lines().skip(1) {
        let fields: Vec<_> = line.split(',').collect();
        let record: u64 = fields[11].parse().unwrap();
        let kernel = kernels.iter().find(|it| it["record"] == record).unwrap();
        let expected: Vec<_> = kernel["bindings"].as_array().unwrap().iter().map(direction).collect();
        assert_eq!(fields[8], expected.join(" "), "{line}");
    }
    let text = print(&["rehal", "kernels", "--device=local-sync", &path]);
    assert!(kernels.iter().all(|kernel| text.contains(kernel["function"].as_str().unwrap())), "{text}");
}

#[test]
fn notes_say_which_flag_was_the_limit() {
    let (several, one) = (capture("mlp.mlp.local-sync"), capture("add4.add.local-sync"));
    let notes = |flags: &[&str], path: &str| {
        let ran = run(&[&["rehal", "kernels", "--device=local-sync"], flags, &[path]].concat());
        assert_eq!(ran.status, Some(0), "{ran:?}");
        ran.stderr
    };
    let few = "note: 3 replays: too few replays to tell whether the order of the first kernels is stable; --repetitions was the limit\n";
    assert!(notes(&["--repetitions=3"], &several).contains(few));
    assert!(!notes(&["--repetitions=3"], &one).contains("too few"));
    let late = notes(&["--repetitions=1000000000", "--max_time=1ms"], &several);
    assert!(late.contains(" of 1000000000 replays were timed\n"), "{late}");
}

#[test]
fn flags_without_effect_are_refused() {
    let path = capture("add4.add.local-sync");
    for (flags, expected) in [
        (&["--no_run", "--max_time=1s"][..], "--max_time needs times, which --no_run leaves out"),
        (&["--no_run", "--repetitions=3"], "--repetitions needs times, which --no_run leaves out"),
        (&["--no_run", "--threads=1"], "--threads needs times, which --no_run leaves out"),
        (&["--export=x", "--threads=1"], "--threads and --export exclude each other"),
        (&["--threads=0"], "expected numbers of workers from 1 to 256"),
        (&["--threads=1", "--device=local-sync"], "device 'local-sync' has no workers"),
        (&["--no_run", "--fail_if_slower=1%"], "--fail_if_slower needs times, which --no_run leaves out"),
        (&["--no_run", "--against=/nonexistent"], "--history and --against need times"),
        (&["--fail_if_slower=1%"], "--fail_if_slower needs --against"),
    ] {
        let stderr = fail(&[&["rehal", "kernels"], flags, &[&path]].concat());
        assert!(stderr.contains(expected), "{flags:?}: {stderr}");
    }
}

#[test]
fn times_are_lower_quartiles_of_replays_with_intervals() {
    let path = capture("mlp.mlp.local-sync");
    let report = json(&["--repetitions=13", &path]);
    assert_eq!((&report["samples"], report["is_order_stable"].is_boolean()), (&13.into(), true));
    for kernel in report["kernels"].as_array().unwrap() {
        let ends = kernel["time_interval_ns"].as_array().unwrap();
        let [low, high] = [0, 1].map(|end: usize| ends[end].as_f64().unwrap());
        let time = kernel["time_ns"].as_f64().unwrap();
        assert!(low - 0.5 <= time && time <= high + 0.5, "{kernel}");
        // One thread runs it.
        assert_eq!((&kernel["thread_count"], &kernel["imbalance"]), (&1.0.into(), &1.0.into()), "{kernel}");
        assert!(kernel["cpu_ns"].as_f64().unwrap() <= 2.0 * time + 20_000.0, "{kernel}");
    }
    let one = json(&["--repetitions=1", &path]);
    assert_eq!((&one["samples"], &one["is_order_stable"]), (&1.into(), &Value::Null));
    assert!(one["kernels"][0]["time_interval_ns"].is_null(), "{one}");
    let text = |flag| print(&["rehal", "kernels", "--device=local-sync", flag, &path]);
    assert!(text("--repetitions=1").contains(", of one replay; roof unknown"));
    let many = text("--repetitions=13");
    assert!(
        many.contains(", lower quartiles of 13 replays; roof") && many.contains("95 % interval"),
        "{many}"
    );
    // Until the order is stable, but no longer than the time.
    let count = json(&["--max_time=1ms", &path])["samples"].as_u64().unwrap();
    assert!(count >= 1);
    assert!(
        fail(&["rehal", "kernels", "--repetitions=0", &path]).contains("a number of replays of at least 1")
    );
}

#[test]
fn kernels_are_measured_with_numbers_of_workers() {
    let path = capture("mlp.mlp.local-task");
    let report = print(&["rehal", "kernels", "--format=json", "--repetitions=3", "--threads=1,1", &path]);
    let report: Value = serde_json::from_str(&report).unwrap();
    for kernel in report["kernels"].as_array().unwrap() {
        let scaling = kernel["scaling"].as_array().unwrap();
        assert_eq!(scaling.len(), 2, "{kernel}");
        for it in scaling {
            assert_eq!((&it["threads"], &it["imbalance"]), (&1.into(), &1.0.into()), "{kernel}");
            assert!(it["time_ns"].as_u64().unwrap() > 0 && it["cpu_ns"].as_u64().is_some(), "{kernel}");
        }
    }
    let text = print(&["rehal", "kernels", "--repetitions=1", "--threads=1", &path]);
    assert!(text.contains("longest/mean") && text.contains("     1.00  "), "{text}");
}

#[test]
fn the_table_has_constants_executables_and_bytes() {
    let path = capture("dynamic.rows.local-sync");
    let all = json(&[&path]);
    let kernel =
        all["kernels"].as_array().unwrap().iter().find(|it| it["constants"] != serde_json::json!([]));
    let kernel = kernel.unwrap();
    let text = print(&["rehal", "kernels", "--device=local-sync", "--no_run", &path]);
    let line = text.lines().find(|line| line.ends_with(kernel["function"].as_str().unwrap())).unwrap();
    let constants: Vec<_> = kernel["constants"].as_array().unwrap().iter().map(Value::to_string).collect();
    assert!(line.contains(&format!("  {}  ", constants.join(" "))), "{line}: {kernel}");
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!(words[words.len() - 2], kernel["executable"].to_string(), "{line}");
    let text = print(&["rehal", "kernels", "--device=local-sync", &capture("add4.add.local-sync")]);
    let columns = |line: usize| -> Vec<_> { text.lines().nth(line).unwrap().split_whitespace().collect() };
    let at = columns(2).iter().position(|it| *it == "read").unwrap();
    assert_eq!(columns(2)[at..at + 2], ["read", "written"]);
    let values = columns(3).join(" ");
    assert!(values.contains("r16 r16 w16 32 16 "), "{text}");
}

#[test]
fn a_pattern_that_matches_no_function_is_an_error_with_the_nearest_name() {
    let path = capture("add4.add.local-sync");
    for mode in ["--no_run", "--device=local-sync"] {
        let stderr = fail(&["rehal", "kernels", mode, "--function=add_dispatch_0_elementwise_4_f23", &path]);
        assert!(stderr.contains("the capture dispatches: add_dispatch_0_elementwise_4_f32\n"), "{stderr}");
        assert!(stderr.contains("\n  try: did you mean 'add_dispatch_0_elementwise_4_f32'?\n"), "{stderr}");
        let none = fail(&["rehal", "kernels", mode, "--function=*", &capture("multi.nothing.local-sync")]);
        assert!(none.contains("the capture dispatches: no named functions\n"), "{none}");
        assert!(none.contains("  try: `rehal info` lists the functions and scopes\n"), "{none}");
        // Without a pattern, there is nothing to miss.
        print(&["rehal", "kernels", mode, &capture("multi.nothing.local-sync")]);
    }
}

#[test]
fn an_export_without_kernels_is_an_error() {
    let scratch = Scratch::new();
    let (path, directory) = (capture("add4.add.local-sync"), scratch.path("kernels"));
    let export = format!("--export={}", directory.display());
    let stderr = fail(&["rehal", "kernels", "--function=nothing", &export, &path]);
    assert!(stderr.contains("no dispatched function matches 'nothing'"), "{stderr}");
    let nothing = capture("multi.nothing.local-sync");
    let stderr = fail(&["rehal", "kernels", &export, &nothing]);
    assert!(stderr.contains("no kernel to export") && !directory.exists(), "{stderr}");
    assert_eq!(std::fs::read_dir(directory.parent().unwrap()).unwrap().count(), 0);
}

#[test]
fn an_export_whose_kernel_crashes_leaves_nothing() {
    let scratch = Scratch::new();
    let parent = scratch.path("exports");
    std::fs::create_dir(&parent).unwrap();
    for (name, device) in
        [("crash.divide-by-zero.local-sync", "local-sync"), ("crash.gather-outside.local-sync", "local-task")]
    {
        let export = format!("--export={}", parent.join("kernels").display());
        let mut tool = command("rehal");
        let tool = tool.args(["kernels", &format!("--device={device}"), &export, &capture(name)]);
        assert_eq!(tool.output().unwrap().status.code(), Some(86), "{name}");
        assert_eq!(std::fs::read_dir(&parent).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn an_interrupted_export_is_complete_or_absent() {
    let scratch = Scratch::new();
    let parent = scratch.path("exports");
    std::fs::create_dir(&parent).unwrap();
    let directory = parent.join("kernels");
    let export = format!("--export={}", directory.display());
    let is_empty = || std::fs::read_dir(&parent).unwrap().count() == 0;
    let start = |path: &str, sandbox: &str| {
        let mut tool = command("rehal");
        let tool = tool.args(["kernels", "--device=local-sync", &export, path, sandbox]);
        tool.stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let signal = |tool: &std::process::Child, number: usize| {
        let signal = ["-2", "-15"][number % 2];
        let sent = std::process::Command::new("kill").args([signal, &tool.id().to_string()]).status();
        assert!(sent.unwrap().success());
    };
    // At any time.
    let path = capture("mlp.mlp.local-sync");
    for number in 0..40 {
        let mut tool = start(&path, "--sandbox=on");
        while is_empty() && tool.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_micros(250 * number));
        signal(&tool, number as usize);
        tool.wait().unwrap();
        if directory.exists() {
            assert!(directory.join("index.json").exists(), "{number}");
            std::fs::remove_dir_all(&directory).unwrap();
        }
        assert!(is_empty(), "{number}: {:?}", std::fs::read_dir(&parent).unwrap().collect::<Vec<_>>());
    }
    // While a kernel runs, which does not end once it was recorded.
    let (mark, begun) = (scratch.path("mark"), scratch.path("begun"));
    let body = format!(
        "extern int access(const char *, int), open(const char *, int, ...), pause(void); \
         if (i == 0 && access({mark:?}, 0) == 0) {{ open({begun:?}, 0101, 0600); for (;;) pause(); }} \
         binding_2[i] = binding_0[i] + binding_1[i];"
    );
    let path = record_add(&scratch, &body, 4);
    std::fs::write(&mark, "").unwrap();
    for number in 0..2 {
        // It creates a file.
        let mut tool = start(&path, "--sandbox=off");
        while !begun.exists() {
            assert!(tool.try_wait().unwrap().is_none(), "it ended");
            std::thread::yield_now();
        }
        assert!(!is_empty() && !directory.exists(), "{number}");
        signal(&tool, number);
        assert!(tool.wait().unwrap().signal().is_some() && is_empty(), "{number}");
        std::fs::remove_file(&begun).unwrap();
    }
}

#[test]
fn a_temporary_directory_is_private_and_named_in_errors() {
    let scratch = Scratch::new();
    let path = capture("add4.add.local-sync");
    let stderr = fail(&[
        "rehal",
        "kernels",
        &format!("--export={}", scratch.path("missing/kernels").display()),
        &path,
    ]);
    let parent = scratch.path("missing");
    assert!(stderr.contains(&format!("temporary directory in '{}'", parent.display())), "{stderr}");
}

/// Replays of slices read what the index says.
fn check_digests(directory: &Path, entries: &[Value]) {
    for entry in entries {
        let file = directory.join(entry["file"].as_str().unwrap());
        let file = file.to_str().unwrap();
        let reads = print(&["iree-run-replay", "--device=local-sync", "--replay_host_reads=-", file]);
        let digests: Vec<Value> = reads
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["blake3"].clone())
            .collect();
        let expected: Vec<Value> =
            entry["reads"].as_array().unwrap().iter().map(|read| read["blake3"].clone()).collect();
        assert!(!digests.is_empty() && digests == expected, "{file}: {digests:?} {expected:?}");
    }
}

/// Its slice has the bytes that it may write, which are not zeros.
#[test]
fn the_slice_of_a_dispatch_that_changes_nothing_has_the_digests_of_the_index() {
    let scratch = Scratch::new();
    let recorded = record_add(&scratch, "(void)i;", 4);
    let directory = scratch.path("kernels");
    json(&[&format!("--export={}", directory.display()), &recorded]);
    let index = std::fs::read_to_string(directory.join("index.json")).unwrap();
    let index: Value = serde_json::from_str(&index).unwrap();
    let entries = index["kernels"].as_array().unwrap();
    assert_eq!((entries.len(), &entries[0]["bytes_written"]), (1, &0.into()), "{index}");
    check_digests(&directory, entries);
}

#[test]
fn exported_slices_have_the_digests_of_the_index() {
    let scratch = Scratch::new();
    let (path, directory) = (capture("mlp.mlp.local-sync"), scratch.path("kernels"));
    let export = format!("--export={}", directory.display());
    let kernels = json(&[&export, &path])["kernels"].as_array().unwrap().len();
    let index = std::fs::read_to_string(directory.join("index.json")).unwrap();
    let index: Value = serde_json::from_str(&index).unwrap();
    let entries = index["kernels"].as_array().unwrap();
    assert_eq!(entries.len(), kernels);
    assert_eq!(index["timed_by"], "processor");
    for entry in entries {
        let keys = ["function", "workgroup_count", "constants", "bindings", "count", "time_ns", "share"];
        assert!(keys.iter().all(|key| !entry[key].is_null()), "{entry}");
        let prefix = entry["file"].as_str().unwrap().split('-').next().unwrap().parse::<usize>().unwrap();
        assert_eq!(entries[prefix], *entry);
    }
    // And the directories of executables and bindings.
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), kernels + 3);
    // Its mode is that of any directory that is created here.
    let other = scratch.path("other");
    std::fs::create_dir(&other).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&directory), mode(&other));
    check_digests(&directory, entries);
    // A directory that exists stays as it is.
    let stderr = fail(&["rehal", "kernels", &export, &path]);
    assert!(stderr.contains("the directory exists"), "{stderr}");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), kernels + 3);
}

/// The kernels of an exported directory.
fn exported(directory: &Path) -> Vec<Value> {
    let index = std::fs::read_to_string(directory.join("index.json")).unwrap();
    serde_json::from_str::<Value>(&index).unwrap()["kernels"].as_array().unwrap().clone()
}

/// All bytes that a slice's work writes, sorted: bindings of a command are other buffers.
fn computed(slice: &Path) -> Vec<u8> {
    let flags = ["--device=local-sync", "--replay_host_reads=-", "--replay_host_reads_limit_bytes=10000000"];
    let reads = print(&[&["iree-run-replay"], &flags[..], &[slice.to_str().unwrap()]].concat());
    let reads = reads.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut bytes: Vec<u8> =
        reads.flat_map(|read| hex::decode(read["bytes"].as_str().unwrap()).unwrap()).collect();
    bytes.sort_unstable();
    bytes
}

/// Runs each command of an exported directory; what it dispatches computes what the slice computes.
fn check_commands(directory: &Path, scratch: &Scratch) -> usize {
    let mut checked = 0;
    for kernel in exported(directory) {
        let line = kernel["command"].as_str().unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let recorded = scratch.path("recorded.ireereplay");
        let recording = format!("--device_replay_output={}", recorded.display());
        let once = ["--batch_size=1", "--benchmark_min_time=1x", "--benchmark_format=json", &recording];
        let output = command(words[0]).args(&words[1..]).args(once).current_dir(directory).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let count: Vec<u64> =
            kernel["workgroup_count"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap()).collect();
        let name = format!("BM_dispatch_{}x{}x{}/process_time/real_time", count[0], count[1], count[2]);
        assert_eq!(report["benchmarks"][0]["name"], name);
        let slice = scratch.path("slice.ireereplay");
        let (recorded, output) = (recorded.to_str().unwrap(), slice.to_str().unwrap());
        print(&["rehal", "slice", "--device=local-sync", "--function=*", recorded, "-o", output]);
        assert_eq!(computed(&slice), computed(&directory.join(kernel["file"].as_str().unwrap())), "{line}");
        checked += 1;
    }
    checked
}

#[test]
fn exported_commands_compute_what_was_captured() {
    let scratch = Scratch::new();
    let mut checked = 0;
    for (number, name) in [
        "mlp.mlp.local-sync",
        "add4.vmvx.local-sync",
        "add4.syslib.local-sync",
        "dynamic.rows.local-sync",
        "dtypes.i64.local-sync",
        "control.collatz.local-sync",
        "params.capture-all.digest.local-sync",
        "microkernels.numbers.vmvx.local-sync",
    ]
    .into_iter()
    .enumerate()
    {
        let directory = scratch.path(&number.to_string());
        let export = format!("--export={}", directory.display());
        let text = print(&["rehal", "kernels", "--device=local-sync", &export, &capture(name)]);
        for kernel in exported(&directory) {
            assert!(text.lines().any(|line| line == kernel["command"]), "{name}: {text}");
        }
        checked += check_commands(&directory, &scratch);
    }
    assert_eq!(checked, 18);
}

#[test]
fn exported_files_are_shared_and_can_be_left_out() {
    let scratch = Scratch::new();
    let path = capture("mlp.mlp.local-sync");
    let directory = scratch.path("kernels");
    let export = format!("--export={}", directory.display());
    let all = json(&[&export, &path]);
    let kernels = exported(&directory);
    assert_eq!(all["kernels"][0]["command"], kernels[0]["command"]);
    let files = |name: &str| std::fs::read_dir(directory.join(name)).unwrap().count();
    assert_eq!(files("executables"), 1);
    let bindings: usize = kernels.iter().map(|it| it["bindings"].as_array().unwrap().len()).sum();
    assert!(files("bindings") < bindings, "{bindings}");
    // What is only written has no file, and an overlap is not expressed.
    assert!(kernels.iter().any(|it| it["command"].as_str().unwrap().contains("--binding=3072xi8 ")));
    for kernel in &kernels {
        let overlaps = kernel["bindings"].as_array().unwrap().iter().filter(|it| !it["alias_of"].is_null());
        assert_eq!(kernel["command_limits"].as_array().unwrap().len(), overlaps.count(), "{kernel}");
    }
    let directory = scratch.path("slices");
    let export = format!("--export={}", directory.display());
    let text = print(&["rehal", "kernels", "--export_commands=false", &export, &path]);
    assert!(!text.contains("iree-benchmark-executable"), "{text}");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), kernels.len() + 1);
    assert!(exported(&directory)[0]["command"].is_null());
}

/// Recorded dispatches that access a page of each binding of 1 MiB.
fn accesses_little(scratch: &Scratch) -> String {
    let numbers: Vec<u8> = (0..1 << 18).flat_map(|it: u32| (it | 1 << 20).to_le_bytes()).collect();
    let binding = format!("--binding=262144xi32=@{}", scratch.file("numbers.bin", numbers));
    let recorded = scratch.path("little.ireereplay").display().to_string();
    print(&[
        "iree-benchmark-executable",
        "--device=local-sync",
        &format!("--executable_file={}", fixture("cts/affine.embedded.elf")),
        "--constant=3",
        "--constant=-4",
        &binding,
        &binding,
        "--workgroup_count=1,1,1",
        "--batch_size=1",
        "--benchmark_min_time=1x",
        &format!("--device_replay_output={recorded}"),
    ]);
    recorded
}

#[test]
fn exported_slices_have_what_is_accessed_or_all_that_is_bound() {
    const PAGES: u64 = 2 * 4096;
    let scratch = Scratch::new();
    let recorded = accesses_little(&scratch);
    let mut sizes = Vec::new();
    for keep in ["touched", "bound"] {
        let directory = scratch.path(keep);
        let export = format!("--export={}", directory.display());
        print(&["rehal", "kernels", "--device=local-sync", &format!("--keep={keep}"), &export, &recorded]);
        assert_eq!(check_commands(&directory, &scratch), 1);
        let [kernel] = &exported(&directory)[..] else { panic!("one kernel") };
        let file = directory.join(kernel["file"].as_str().unwrap());
        let bindings = std::fs::read_dir(directory.join("bindings")).unwrap();
        let files: Vec<_> = bindings.map(|it| it.unwrap().metadata().unwrap()).collect();
        // Each has the length of its binding, and takes the space of what is not zero.
        assert!(files.iter().all(|it| it.len() == 1 << 20));
        let stored: u64 = files.iter().map(|it| 512 * it.blocks()).sum();
        sizes.push((
            std::fs::metadata(file).unwrap().len(),
            kernel["content_bytes"].as_u64().unwrap(),
            stored,
        ));
    }
    let executable = std::fs::metadata(fixture("cts/affine.embedded.elf")).unwrap().len();
    let [(file, content, stored), (whole, all, bound)] = sizes[..] else { panic!("two exports") };
    assert!(
        content <= PAGES && file <= content + executable + (64 << 10) && stored <= 2 * PAGES,
        "{sizes:?}"
    );
    assert!(all >= 1 << 20 && whole >= 1 << 20 && bound >= 1 << 20, "{sizes:?}");
    // As one that is cut by itself.
    let slice = scratch.path("slice.ireereplay").display().to_string();
    print(&[
        "rehal",
        "slice",
        "--device=local-sync",
        "--check=always",
        "--function=*",
        &recorded,
        "-o",
        &slice,
    ]);
    assert_eq!(std::fs::metadata(&slice).unwrap().len(), file);
    let stderr = fail(&["rehal", "kernels", "--keep=bound", &recorded]);
    assert!(stderr.contains("--keep=bound needs --export"), "{stderr}");
}

#[test]
fn commands_name_the_device_of_their_kernel_and_files_are_found() {
    let scratch = Scratch::new();
    let directory = scratch.path("two");
    let export = format!("--export={}", directory.display());
    let devices = ["--device=local-sync", "--device=local-task"];
    print(&[&["rehal", "kernels"], &devices[..], &[&export, &capture("two_devices.st")]].concat());
    let commands: Vec<String> = exported(&directory).iter().map(|it| it["command"].to_string()).collect();
    assert!(devices.iter().all(|device| commands.iter().any(|it| it.contains(device))), "{commands:?}");

    // A remap of every path does not apply twice.
    let root = scratch.path("root");
    std::fs::create_dir_all(root.join("tmp")).unwrap();
    std::os::unix::fs::symlink(fixture(""), root.join("tmp/rehal-fixtures")).unwrap();
    let remap = format!("--replay_file_remap=/={}/", root.display());
    let directory = scratch.path("references");
    let export = format!("--export={}", directory.display());
    let flags = ["rehal", "kernels", "--device=local-sync", "--keep_references", &remap, &export];
    print(&[&flags[..], &[&capture("params.reference.digest.local-sync")]].concat());
    assert_eq!(check_commands(&directory, &scratch), 2);
}

#[test]
fn a_failure_leaves_no_directory() {
    let scratch = Scratch::new();
    let path = capture("add4.add.local-sync");
    let directory = scratch.path("missing/kernels");
    let stderr = fail(&["rehal", "kernels", &format!("--export={}", directory.display()), &path]);
    assert!(stderr.contains("creating a temporary directory"), "{stderr}");
    let directory = scratch.path("kernels");
    let export = format!("--export={}", directory.display());
    let stderr = fail(&["rehal", "kernels", "--no_run", &export, &path]);
    assert!(stderr.contains("--no_run"), "{stderr}");
    assert!(!Path::new(&directory).exists());
}
