//! `rehal kernel record` and `rehal kernel replay`, and the records that environment variables request of
//! other tools.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::{Ran, Scratch, capture, command, fail, fixture, print, ran, run, write_kernel};
use serde_json::Value;

/// Records a capture; returns the report.
fn record(words: &[&str], path: &str, directory: &Path) -> String {
    let directory = format!("--directory={}", directory.display());
    let tool = ["rehal", "kernel", "record", "--device=local-sync", "--report", &directory];
    print(&[&tool, words, &[path]].concat())
}

/// The rows of a report: descriptor, name, time, occurrences.
fn rows(report: &str) -> Vec<Vec<String>> {
    let rows = report.lines().filter(|line| line.contains(".json, "));
    rows.map(|row| row.split(", ").map(String::from).collect()).collect()
}

/// The descriptors of a directory.
fn descriptors(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries.filter(|path| path.extension().is_some_and(|it| it == "json")).collect();
    found.sort();
    found
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn replay(words: &[&str], descriptor: &Path) -> Ran {
    let tool = ["rehal", "kernel", "replay", "--device=local-sync"];
    run(&[&tool, words, &[descriptor.to_str().unwrap()]].concat())
}

/// Replays a descriptor that must be refused; returns the error.
fn refused(words: &[&str], descriptor: &Path) -> String {
    let tool = ["rehal", "kernel", "replay", "--device=local-sync"];
    fail(&[&tool, words, &[descriptor.to_str().unwrap()]].concat())
}

/// Runs a tool with environment variables.
fn with(variables: &[(&str, &str)], words: &[&str]) -> Ran {
    let mut command = command(words[0]);
    ran(command.args(&words[1..]).envs(variables.iter().copied()).output().unwrap())
}

#[test]
fn several_kernels_are_replayed_by_one_command() {
    let scratch = Scratch::new();
    let directory = scratch.path("kernels");
    let (to, path) = (directory.to_str().unwrap(), capture("bench.mlp.5.local-sync"));
    print(&["rehal", "kernel", "record", "--device=local-sync", "-o", to, &path]);
    let found = descriptors(&directory);
    assert!(found.len() > 1, "{found:?}");
    let mut words = vec!["rehal", "kernel", "replay", "--device=local-sync", "--verify"];
    words.extend(found.iter().map(|it| it.to_str().unwrap()));
    let ran = run(&words);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(ran.stdout.matches("device memory verified").count(), found.len());
    for path in &found {
        assert!(ran.stdout.contains(&format!("[rehal kernel replay] {}\n", path.display())), "{ran:?}");
    }
    // All run, also if one differs, which the status says.
    let output = found[0].with_extension("record_output");
    let mut bytes = std::fs::read(&output).unwrap();
    bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
    std::fs::write(&output, bytes).unwrap();
    let ran = run(&words);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert_eq!(ran.stdout.matches("device memory verified").count(), found.len() - 1);
    // An error says of which.
    std::fs::remove_file(&output).unwrap();
    let ran = run(&words);
    assert!(ran.status == Some(1) && ran.stderr.contains(found[0].to_str().unwrap()), "{ran:?}");
}

/// The only descriptor of a directory with records of `add4.add`.
fn only(directory: &Path) -> PathBuf {
    let mut found = descriptors(directory);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn every_fixture_replays_what_it_recorded() {
    let scratch = Scratch::new();
    let mut count = 0;
    for entry in std::fs::read_dir(fixture("captures")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        // These need two devices or files that are elsewhere, crash, or are torn.
        let is_other =
            ["two_devices", "params.reference", "crash", "torn"].iter().any(|it| name.starts_with(it));
        let listed = run(&["rehal", "kernels", "--no-run", "--format=json", path.to_str().unwrap()]);
        if is_other || listed.status != Some(0) {
            continue;
        }
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
        let kernels = listed["kernels"].as_array().unwrap();
        if kernels.is_empty() {
            continue;
        }
        let directory = scratch.path(&name);
        let report = record(&[], path.to_str().unwrap(), &directory);
        let rows = rows(&report);
        assert_eq!(rows.len(), kernels.len(), "{name}: {report}");
        assert!(report.contains(&format!("Total Instances: {}\n", rows.len())), "{report}");
        assert!(report.contains(&format!("Directory: {}\n", directory.display())), "{report}");
        for (row, kernel) in rows.iter().zip(kernels) {
            assert_eq!(
                [&row[1], &row[3]],
                [kernel["function"].as_str().unwrap(), &kernel["count"].to_string()]
            );
            assert!(row[2].parse::<u64>().unwrap() > 0, "{report}");
            let replayed = replay(&["--verify"], &directory.join(&row[0]));
            assert_eq!(replayed.status, Some(0), "{name}: {replayed:?}");
            assert!(replayed.stdout.ends_with("Replay done, device memory verified\n"), "{replayed:?}");
            count += 1;
        }
    }
    assert!(count > 60, "{count}");
}

#[test]
fn a_descriptor_has_the_keys_of_llvm_and_the_arguments() {
    let scratch = Scratch::new();
    let directory = scratch.path("kernels");
    record(&["--function=*softmax*"], &capture("mlp.mlp.local-sync"), &directory);
    let path = only(&directory);
    let described = read(&path);
    for (key, value) in [("NumTeams", 8), ("NumThreads", 1), ("SharedMemorySize", 0), ("DeviceId", 0)] {
        assert_eq!(described[key], value, "{key}");
    }
    assert_eq!(described["TeamsLimits"], serde_json::json!([1, 8]));
    let bindings = described["Bindings"].as_array().unwrap();
    assert_eq!(described["NumArgs"], bindings.len() + described["Constants"].as_array().unwrap().len());
    for (binding, offset) in bindings.iter().zip(described["ArgOffsets"].as_array().unwrap()) {
        assert_eq!(binding["Offset"], *offset);
    }
    let length = |key: &str| {
        let file = directory.join(described["Files"][key].as_str().unwrap());
        std::fs::metadata(file).unwrap().len()
    };
    assert_eq!(
        [length("RecordInput"), length("RecordOutput")],
        [described["VAllocSize"].as_u64().unwrap(); 2]
    );
    assert!(length("Image") > 1000);
    // Its files are all that it needs.
    let elsewhere = scratch.path("elsewhere");
    std::fs::rename(&directory, &elsewhere).unwrap();
    assert_eq!(replay(&["--verify"], &only(&elsewhere)).status, Some(0));
}

#[test]
fn a_changed_output_is_found_at_its_place() {
    let scratch = Scratch::new();
    let directory = scratch.path("kernels");
    record(&[], &capture("add4.add.local-sync"), &directory);
    let path = only(&directory);
    let described = read(&path);
    let binding = &described["Bindings"][2];
    let start = binding["Offset"].as_u64().unwrap() as usize;
    let output = directory.join(described["Files"]["RecordOutput"].as_str().unwrap());
    let mut bytes = std::fs::read(&output).unwrap();
    assert_eq!(bytes[start + 8..start + 12], 33.0f32.to_le_bytes());
    bytes[start + 8..start + 12].copy_from_slice(&34.0f32.to_le_bytes());
    bytes[start + 15] ^= 1;
    std::fs::write(&output, bytes).unwrap();
    let replayed = replay(&["--verify", "--repetitions=3"], &path);
    assert_eq!(replayed.status, Some(2), "{replayed:?}");
    for expected in [
        "differs from the record in repetition 1",
        &format!(
            "binding 2: first at byte 10 (byte {} of the allocation), 2 of 16 bytes differ, the last is 15",
            start + 10
        ),
        "2 of 4 elements of type f32 differ",
        "element 2: expected 34.0, found 33.0",
    ] {
        assert!(replayed.stdout.contains(expected), "{expected}: {replayed:?}");
    }
    assert!(!replayed.stdout.contains("(2):"), "nothing more runs: {replayed:?}");
    let bytes = replay(&["--verify", "--element_type=ui8"], &path);
    assert!(bytes.stdout.contains("2 of 16 elements of type ui8 differ"), "{bytes:?}");
    // Without a comparison it is not seen.
    let replayed = replay(&["--repetitions=2", "--save_output"], &path);
    assert_eq!(replayed.status, Some(0), "{replayed:?}");
    assert!(replayed.stdout.ends_with("Replay done, verification skipped\n"), "{replayed:?}");
    assert_eq!(replayed.stdout.matches("Replay time (").count(), 2);
    assert_eq!(replayed.stdout.matches("[rehal kernel replay] Median of 2 times: ").count(), 1);
    let saved = std::fs::read(path.with_extension("replay_output")).unwrap();
    assert_eq!(saved[start + 8..start + 12], 33.0f32.to_le_bytes());
    std::fs::write(&output, saved).unwrap();
    let replayed = replay(&["--verify", "--repetitions=20"], &path);
    let lines: Vec<_> = replayed.stdout.lines().rev().take(2).collect();
    // Times that resemble their neighbours have no interval.
    assert!(lines[1].contains("Median of 20 times: ") && lines[1].contains(" ns"), "{replayed:?}");
    assert_eq!(replayed.status, Some(0));
}

#[test]
fn the_output_of_a_replay_does_not_replace_the_files_of_its_record() {
    let scratch = Scratch::new();
    let directory = scratch.path("kernels");
    record(&[], &capture("add4.add.local-sync"), &directory);
    let path = only(&directory);
    let output = path.with_extension("replay_output");
    for read in [path.with_extension("record_input"), path.with_extension("record_output"), path.clone()] {
        let before = std::fs::read(&read).unwrap();
        std::os::unix::fs::symlink(&read, &output).unwrap();
        let error = refused(&["--save_output"], &path);
        assert!(error.contains("which is read"), "{error}");
        assert_eq!(std::fs::read(&read).unwrap(), before);
        std::fs::remove_file(&output).unwrap();
    }
}

/// A kernel that ends the process does not decide its exit status.
#[test]
fn a_kernel_that_ends_the_process_is_not_verified() {
    const FUNCTION: &str = "add_dispatch_0_elementwise_4_f32";
    let scratch = Scratch::new();
    let (directory, path) = (scratch.path("kernels"), capture("add4.add.local-sync"));
    let source = scratch.path("kernel.c");
    // Not while it is recorded.
    let body = "extern int access(const char *, int); extern void _exit(int); \
                if (access(MARK, 0) == 0) _exit(0); binding_2[i] = binding_0[i] + binding_1[i];";
    let mark = scratch.path("mark");
    write_kernel(
        &source,
        &path,
        FUNCTION,
        &body.replace("MARK", &format!("{:?}", mark.display().to_string())),
    );
    let substitution = format!("--replay_executable_substitution={FUNCTION}={}", source.display());
    record(&[&substitution], &path, &directory);
    assert_eq!(replay(&["--verify"], &only(&directory)).status, Some(0));
    std::fs::write(&mark, "").unwrap();
    let ran = replay(&["--verify"], &only(&directory));
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.stderr.starts_with("ABORTED; the process ended with status 0 before"), "{ran:?}");
}

#[test]
fn a_write_between_bindings_is_found() {
    const FUNCTION: &str = "add_dispatch_0_elementwise_4_f32";
    let scratch = Scratch::new();
    let (directory, path) = (scratch.path("kernels"), capture("add4.add.local-sync"));
    let source = scratch.path("kernel.c");
    write_kernel(&source, &path, FUNCTION, "binding_2[i] = binding_0[i] + binding_1[i];");
    let substitution = format!("--replay_executable_substitution={FUNCTION}={}", source.display());
    record(&[&substitution], &path, &directory);
    let executable = std::fs::read_dir(&directory).unwrap().map(|it| it.unwrap().path());
    let executable =
        executable.into_iter().find(|it| it.extension().is_some_and(|it| it == "image")).unwrap();
    let build = |body: &str| {
        write_kernel(&source, &path, FUNCTION, body);
        print(&["rehal", "kernel", "build", source.to_str().unwrap(), "-o", executable.to_str().unwrap()]);
    };
    // What it writes outside of the memory of the record is not in that of the tool.
    build("binding_2[i] = binding_0[i] + binding_1[i]; binding_2[1 << 18] = 1;");
    let found = replay(&["--verify"], &only(&directory));
    assert_eq!(found.status, Some(86), "{found:?}");
    assert!(
        found.stderr.contains(" bytes after the end of binding 2 (16 bytes): function 'add_"),
        "{found:?}"
    );
    build("binding_2[i] = binding_0[i] + binding_1[i]; binding_0[5] = 1;");
    let found = replay(&["--verify"], &only(&directory));
    assert_eq!(found.status, Some(2), "{found:?}");
    // Bytes 22 and 23 of the float 1.
    let expected = "outside of the bindings: first at byte 22 of the allocation, 2 bytes differ\n";
    assert!(found.stdout.ends_with(expected), "{found:?}");
}

#[test]
fn inputs_are_restored_before_each_repetition() {
    let scratch = Scratch::new();
    // Kernels of these captures write what they read.
    for name in ["globals.step.local-sync", "transfers.paste.local-sync", "chain.chain.local-sync"] {
        let directory = scratch.path(name);
        let recorded = run(&[
            "rehal",
            "kernel",
            "record",
            &format!("--directory={}", directory.display()),
            &capture(name),
        ]);
        if recorded.status != Some(0) {
            assert!(recorded.stderr.contains("no kernel to record"), "{recorded:?}");
            continue;
        }
        for path in descriptors(&directory) {
            let replayed = replay(&["--verify", "--repetitions=4"], &path);
            assert_eq!(replayed.status, Some(0), "{replayed:?}");
        }
    }
}

#[test]
fn numbers_of_workgroups_and_devices() {
    let scratch = Scratch::new();
    let directory = scratch.path("kernels");
    record(&["--function=*softmax*"], &capture("mlp.mlp.local-sync"), &directory);
    let path = only(&directory);
    for same in ["--num_teams=8", "--num-teams=8,1,1", "--num_threads=1", "--device_id=0"] {
        assert_eq!(replay(&["--verify", same], &path).status, Some(0), "{same}");
    }
    let fewer = replay(&["--verify", "--element_type=f32", "--num_teams=3"], &path);
    assert_eq!(fewer.status, Some(2), "{fewer:?}");
    // Rows of 10 numbers: the first three are computed.
    assert!(fewer.stdout.contains("element 30:"), "{fewer:?}");
    assert!(fewer.stdout.contains(", 3x1x1 workgroups\n"), "{fewer:?}");
    for wrong in ["f33", "i4", "word", "add:f32"] {
        let stderr = refused(&["--verify", &format!("--element_type={wrong}")], &path);
        assert!(stderr.contains("element_type"), "{stderr}");
    }
    let stderr = refused(&["--num_teams=9"], &path);
    assert!(stderr.contains("number of teams (9) is out of the allowed limits (min,max: 1,8)"), "{stderr}");
    assert!(stderr.contains("\n  try: give one number, from 1 to 8: more workgroups than"), "{stderr}");
    for wrong in ["--num_teams=0", "--num_teams=1,2", "--num_teams=1,2,3,4", "--num_threads=0,1,1"] {
        assert!(refused(&[wrong], &path).contains("invalid value"), "{wrong}");
    }
    let stderr = refused(&["--num_threads=64"], &path);
    assert!(
        stderr.contains("number of threads (64) is out of the allowed limits (min,max: 1,1)"),
        "{stderr}"
    );
    assert!(stderr.contains("fixed when it is compiled") && !stderr.contains("CPU"), "{stderr}");
    assert!(refused(&["--device_id=1"], &path).contains("the number of devices is 1"));
    let both = replay(&["--device=local-task", "--device_id=1", "--verify"], &path);
    assert_eq!(both.status, Some(0), "{both:?}");
}

#[test]
fn a_kernel_of_another_device_says_where_it_runs() {
    let scratch = Scratch::new();
    let directory = scratch.path("kernels");
    record(&["--device=local-sync"], &capture("two_devices.ss"), &directory);
    let mut noted = 0;
    for path in descriptors(&directory) {
        let replayed = replay(&["--verify"], &path);
        assert_eq!(replayed.status, Some(0), "{replayed:?}");
        noted += usize::from(replayed.stderr.contains("recorded on device 1, and runs on device 0"));
        let both = replay(&["--verify", "--device=local-sync"], &path);
        assert_eq!((both.status, both.stderr.as_str()), (Some(0), ""), "{both:?}");
    }
    assert!(noted > 0);
}

#[test]
fn records_are_not_replaced_without_force() {
    let scratch = Scratch::new();
    let directory = scratch.path("deep/kernels");
    let path = capture("add4.add.local-sync");
    record(&["--report_filename=report.txt"], &path, &directory);
    let report = std::fs::read_to_string(directory.join("report.txt")).unwrap();
    assert!(report.starts_with("=== Kernel Record Report ===\n"), "{report}");
    assert!(report.ends_with("=== End Kernel Record Report ===\n"), "{report}");
    let descriptor = only(&directory);
    std::fs::write(&descriptor, "edited").unwrap();
    let flag = format!("--directory={}", directory.display());
    let tool = ["rehal", "kernel", "record", "--device=local-sync", &flag];
    let stderr = fail(&[&tool[..], &[&path]].concat());
    assert!(stderr.contains("the directory has kernel records") && stderr.contains("--force"), "{stderr}");
    std::fs::remove_file(&descriptor).unwrap();
    assert!(fail(&[&tool[..], &[&path]].concat()).contains("the directory has kernel records"));
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if !path.ends_with("report.txt") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let stderr = fail(&[&tool[..], &["--report_filename=report.txt", &path]].concat());
    assert!(stderr.contains("report.txt' exists"), "{stderr}");
    // Other files stay.
    record(&["--record_output=false"], &path, &directory);
    record(&["--force", "--record_output=false", "--report_filename=report.txt"], &path, &directory);
    record(&["--force"], &capture("add4.mul.local-sync"), &directory);
    assert_eq!(descriptors(&directory).len(), 2);
    let names = std::fs::read_dir(&directory).unwrap().map(|it| it.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().starts_with('.')));
    let stderr = refused(&["--verify"], &descriptor);
    assert!(stderr.contains("the record has no output"), "{stderr}");
    assert_eq!(replay(&[], &descriptor).status, Some(0));
}

#[test]
fn captures_and_directories_that_cannot_be_recorded() {
    let scratch = Scratch::new();
    let path = capture("add4.add.local-sync");
    let stderr = |words: &[&str]| fail(&[&["rehal", "kernel", "record"], words].concat());
    assert!(stderr(&[&path]).contains("--directory is missing"));
    let file = scratch.file("file", "");
    assert!(stderr(&[&format!("--directory={file}"), &path]).contains("Not a directory"));
    assert!(stderr(&["--directory=/proc/nothing", &path]).contains("creating the directory"));
    let directory = scratch.path("kernels");
    let flag = format!("--directory={}", directory.display());
    assert!(
        stderr(&[&flag, "--function=nothing", &path]).contains("no dispatched function matches 'nothing'")
    );
    assert!(stderr(&[&flag, &capture("multi.nothing.local-sync")]).contains("no kernel to record"));
    let few = stderr(&[&flag, "--memory_size=100", &path]);
    assert!(few.contains("144 bytes, and the memory size is 100"), "{few}");
    assert!(few.contains("\n  try: allow that many bytes or more: --memory_size=144\n"), "{few}");
    let variables = [("REHAL_KERNEL_RECORD", "1"), ("REHAL_KERNEL_RECORD_MEMSIZE", "100")];
    let variables = [&variables[..], &[("REHAL_KERNEL_RECORD_DIR", directory.to_str().unwrap())]].concat();
    let few = with(&variables, &["rehal", "run", "--device=local-sync", &path]);
    assert!(few.stderr.contains("or more: REHAL_KERNEL_RECORD_MEMSIZE=144\n"), "{few:?}");
    assert!(stderr(&[&flag, "--report_filename=../x", &path]).contains("without a directory"));
    assert!(stderr(&[&flag, &fixture("modules/add4.vmfb")]).contains("not a capture"));
    assert!(!directory.exists());
}

#[test]
fn a_kernel_that_crashes_is_recorded_without_its_output() {
    let scratch = Scratch::new();
    let directory = scratch.path("kernels");
    let flag = format!("--directory={}", directory.display());
    let path = capture("crash.divide-by-zero.local-sync");
    let crashed = run(&["rehal", "kernel", "record", "--device=local-sync", &flag, &path]);
    assert_eq!(crashed.status, Some(86), "{crashed:?}");
    let path = only(&directory);
    assert!(read(&path)["Files"]["RecordOutput"].is_null());
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 3);
    let replayed = replay(&[], &path);
    assert_eq!(replayed.status, Some(86), "{replayed:?}");
    assert!(
        replayed.stderr.contains("crashed with SIGFPE") && replayed.stderr.contains(".image"),
        "{replayed:?}"
    );
}

#[test]
fn a_replay_that_crashes_has_its_kernel_recorded() {
    let scratch = Scratch::new();
    let path = capture("crash.divide-by-zero.local-sync");
    for tool in [&["rehal", "run"][..], &["iree-run-replay"]] {
        let directory = scratch.path(tool[0]);
        let flag = format!("--rehal_kernel_record_dir={}", directory.display());
        let words = [tool, &["--device=local-sync", "--rehal_kernel_record", &flag, &path]].concat();
        let crashed = run(&words);
        assert_eq!(crashed.status, Some(86), "{crashed:?}");
        assert!(read(&only(&directory))["Files"]["RecordOutput"].is_null());
    }
}

#[test]
fn a_report_that_cannot_be_printed_is_not_blamed_on_the_memory_size() {
    let scratch = Scratch::new();
    let mut tool = command("rehal");
    let flag = format!("--directory={}", scratch.path("kernels").display());
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    tool.args(["kernel", "record", "--report", "--device=local-sync", &flag]);
    let ran = tool.arg(capture("add4.add.local-sync")).stdout(full).output().unwrap();
    let stderr = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("standard output") && !stderr.contains("memory_size"), "{stderr}");
}

#[test]
fn hostile_descriptors_are_errors() {
    let scratch = Scratch::new();
    let directory = scratch.path("kernels");
    record(&[], &capture("add4.add.local-sync"), &directory);
    let path = only(&directory);
    let whole = std::fs::read_to_string(&path).unwrap();
    let edit = |change: &dyn Fn(&mut Value)| {
        let mut described: Value = serde_json::from_str(&whole).unwrap();
        change(&mut described);
        std::fs::write(&path, described.to_string()).unwrap();
        refused(&["--verify"], &path)
    };
    let set = |key: &'static str, value: Value| edit(&|it| it[key] = value.clone());
    assert!(edit(&|it| drop(it.as_object_mut().unwrap().remove("Name"))).contains("missing field `Name`"));
    assert!(set("NumTeams", "4".into()).contains("invalid type"));
    assert!(set("VAllocSize", u64::MAX.into()).contains("it has 144 bytes, and the device allocation has"));
    assert!(set("VAllocSize", 1.into()).contains("binding 0 has 16 bytes at offset"));
    assert!(edit(&|it| it["Bindings"][0]["Length"] = u64::MAX.into()).contains("binding 0 has"));
    assert!(
        edit(&|it| it["Bindings"] = vec![it["Bindings"][0].clone(); 70_000].into()).contains("at most 65535")
    );
    assert!(edit(&|it| it["Files"]["Image"] = "missing.image".into()).contains("No such file"));
    assert!(edit(&|it| it["Files"]["Image"] = "../x".into()).contains("not the name of a file"));
    assert!(
        edit(&|it| it["Files"]["RecordInput"] = it["Files"]["Image"].clone())
            .contains("the device allocation has 144")
    );
    assert!(set("ExecutableFormat", "spirv".into()).contains("spirv"));
    assert!(set("FunctionOrdinal", 7.into()).contains('7'));
    assert!(set("Name", "other".into()).contains("the descriptor is of 'other'"));
    assert!(set("FormatVersion", 2.into()).contains("version 2"));
    assert!(edit(&|it| drop(it.as_object_mut().unwrap().remove("FormatVersion"))).contains("FormatVersion"));
    assert!(
        edit(&|it| {
            it["Bindings"].as_array_mut().unwrap().pop();
            it["ArgPtrs"].as_array_mut().unwrap().pop();
            it["ArgOffsets"].as_array_mut().unwrap().pop();
            it["NumArgs"] = 2.into();
        })
        .contains("takes 3 bindings, found 2")
    );
    for text in ["", "{", "[]", "null", &"[".repeat(100_000), "\u{0}", &whole[..whole.len() / 2]] {
        std::fs::write(&path, text).unwrap();
        assert!(refused(&[], &path).contains("INVALID_ARGUMENT"), "{text:?}");
    }
    std::fs::write(&path, &whole).unwrap();
    let described = read(&path);
    for key in ["Image", "RecordInput", "RecordOutput"] {
        let file = directory.join(described["Files"][key].as_str().unwrap());
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
        refused(&["--verify"], &path);
        std::fs::remove_file(&file).unwrap();
        assert!(refused(&["--verify"], &path).contains(file.to_str().unwrap()), "{key}");
        std::fs::create_dir(&file).unwrap();
        // A confined process does not open a directory that a record names.
        let refused = refused(&["--verify"], &path);
        assert!(
            refused.contains(file.to_str().unwrap())
                && (refused.contains("not a regular file") || key == "RecordOutput"),
            "{key}"
        );
        std::fs::remove_dir(&file).unwrap();
        std::fs::write(&file, &bytes).unwrap();
    }
    assert!(refused(&[], &directory).contains("it is a directory"));
    assert!(refused(&[], Path::new("/dev/zero")).contains("not a regular file"));
    assert!(refused(&[], Path::new(&capture("add4.add.local-sync"))).contains("capture"));
    assert_eq!(replay(&["--verify"], &path).status, Some(0));
}

/// The tools that run work, with arguments.
fn tools() -> Vec<(&'static str, Vec<String>)> {
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let module = format!("--module={}", fixture("modules/add4.vmfb"));
    let call = ["--device=local-sync", &module, "--function=add", "--input=4xf32=1 2 3 4", "--input=4xf32=5"];
    let checks = format!("--module={}", fixture("modules/checks.vmfb"));
    let path = capture("add4.add.local-sync");
    let added = "--function=add_dispatch_0_elementwise_4_f32";
    let swapped = format!("--with={}", fixture("modules/add4_swapped.elf"));
    let same = "--workgroup_count=same";
    let executable = format!("--executable_file={}", fixture("cts/affine.embedded.elf"));
    let affine = [
        "--device=local-sync",
        &executable,
        "--constant=3",
        "--constant=4",
        "--binding=16xi32=5",
        "--binding=16xi32",
        "--workgroup_count=1,1,1",
    ];
    vec![
        ("iree-run-module", words(&call)),
        ("iree-benchmark-module", words(&[&call[..], &["--benchmark_min_time=3x"]].concat())),
        ("iree-check-module", words(&["--device=local-sync", &checks, "--expect_failure"])),
        ("iree-run-replay", words(&["--device=local-sync", &path])),
        ("iree-benchmark-executable", words(&[&affine[..], &["--benchmark_min_time=3x"]].concat())),
        ("iree-benchmark-replay", words(&["--device=local-sync", "--benchmark_min_time=3x", &path])),
        ("rehal run", words(&["--device=local-sync", &path])),
        ("rehal benchmark", words(&["--device=local-sync", "--benchmark_min_time=3x", &path])),
        ("rehal kernels", words(&["--device=local-sync", &path])),
        ("rehal verify", words(&["--device=local-sync", "--other_device=local-sync", &path])),
        ("rehal slice", words(&["--device=local-sync", "--function=*", "-o", "/dev/null", &path])),
        ("rehal compare", words(&["--device=local-sync", added, &swapped, same, "--max_time=1s", &path])),
        ("rehal kernel stub", words(&["--device=local-sync", added, "-o", "-", &path])),
        ("rehal redact", words(&["--device=local-sync", "-o", "/dev/null", &path])),
    ]
}

#[test]
fn every_tool_that_runs_work_records_kernels() {
    let scratch = Scratch::new();
    for (tool, words) in tools() {
        let directory = scratch.path(tool);
        let variables = [
            ("REHAL_KERNEL_RECORD", "1"),
            ("REHAL_KERNEL_RECORD_DIR", directory.to_str().unwrap()),
            ("REHAL_KERNEL_RECORD_REPORT", "1"),
        ];
        let words: Vec<&str> = tool.split(' ').chain(words.iter().map(String::as_str)).collect();
        // The replacement that is compared computes something else.
        let has_run = |it: &Ran| it.status == Some(if tool == "rehal compare" { 2 } else { 0 });
        let recorded = with(&variables, &words);
        assert!(has_run(&recorded), "{tool}: {recorded:?}");
        let rows = rows(&recorded.stdout);
        assert!(!rows.is_empty() && recorded.stdout.contains("Total Instances: 1\n"), "{tool}: {recorded:?}");
        let path = only(&directory);
        assert_eq!(replay(&["--verify"], &path).status, Some(0), "{tool}");
        // The capture of a program is removed.
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 4, "{tool}");
        let again = with(&variables, &words);
        assert_eq!(again.status, Some(1), "{tool}: {again:?}");
        assert!(again.stderr.contains("REHAL_KERNEL_RECORD_FORCE=1"), "{tool}: {again:?}");
        let forced = with(&[&variables[..], &[("REHAL_KERNEL_RECORD_FORCE", "1")]].concat(), &words);
        assert!(has_run(&forced), "{tool}: {forced:?}");
        let wrong = with(&[("REHAL_KERNEL_RECORD", "maybe")], &words);
        assert_eq!(wrong.status, Some(1), "{tool}");
        assert!(wrong.stderr.contains("environment variable REHAL_KERNEL_RECORD"), "{wrong:?}");
        let off = with(&[("REHAL_KERNEL_RECORD", "0"), variables[1], variables[2]], &words);
        assert!(has_run(&off) && !off.stdout.contains("Report"), "{tool}: {off:?}");
    }
}

#[test]
fn a_replay_of_a_record_is_recorded() {
    let scratch = Scratch::new();
    let (first, second) = (scratch.path("first"), scratch.path("second"));
    record(&[], &capture("add4.add.local-sync"), &first);
    let flag = format!("--rehal_kernel_record_dir={}", second.display());
    let words =
        ["--repetitions=3", "--verify", "--rehal_kernel_record", "--rehal_kernel_record_report", &flag];
    let ran = replay(&words, &only(&first));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(rows(&ran.stdout)[0][3], "3", "{ran:?}");
    assert_eq!(std::fs::read_dir(&second).unwrap().count(), 4);
    assert_eq!(replay(&["--verify"], &only(&second)).status, Some(0));
    let contents =
        |directory: &Path, extension: &str| std::fs::read(only(directory).with_extension(extension)).unwrap();
    assert!(contents(&first, "record_output") == contents(&second, "record_output"));
}

#[test]
fn what_does_not_record_says_so() {
    let scratch = Scratch::new();
    let directory = scratch.path("kernels");
    let path = capture("add4.add.local-sync");
    let variables = [("REHAL_KERNEL_RECORD", "1"), ("REHAL_KERNEL_RECORD_DIR", directory.to_str().unwrap())];
    let stub = ["kernel", "stub", "--function=add_dispatch_0_elementwise_4_f32", "--no_run", "-o", "-"];
    for words in [&["kernels", "--no_run"][..], &stub, &["redact", "--no_run", "-o", "/dev/null"]] {
        let ran = with(&variables, &[&["rehal"], words, &[&path]].concat());
        assert!(ran.status == Some(0) && ran.stderr.contains("no kernels are recorded"), "{ran:?}");
    }
    // The check is a tool that records: its second run would find the records of the first.
    let check = format!("--check={} {{}}", command("iree-run-replay").get_program().to_str().unwrap());
    let ran = with(&variables, &["rehal", "reduce", &check, &path, "-o", "/dev/null"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(ran.stderr.matches("warning: REHAL_KERNEL_RECORD has no effect here").count(), 1, "{ran:?}");
    assert!(!directory.exists());
    let off = with(&[("REHAL_KERNEL_RECORD", "0")], &["rehal", "reduce", &check, &path, "-o", "/dev/null"]);
    assert!(!off.stderr.contains("REHAL_KERNEL_RECORD"), "{off:?}");
}

#[test]
fn only_a_comparison_needs_the_recorded_output() {
    let scratch = Scratch::new();
    let directory = scratch.path("kernels");
    record(&[], &capture("add4.add.local-sync"), &directory);
    let path = only(&directory);
    let output = path.with_extension("record_output");
    for remove in [false, true] {
        match remove {
            false => std::fs::write(&output, "short").unwrap(),
            true => std::fs::remove_file(&output).unwrap(),
        }
        let ran = replay(&["--save_output"], &path);
        assert!(ran.status == Some(0) && ran.stdout.contains("verification skipped"), "{ran:?}");
        assert!(refused(&["--verify"], &path).contains("record_output"));
    }
}

#[test]
fn an_interrupted_recording_is_complete_or_absent() {
    let scratch = Scratch::new();
    let parent = scratch.path("records");
    std::fs::create_dir(&parent).unwrap();
    let directory = parent.join("a/kernels");
    let flag = format!("--directory={}", directory.display());
    let path = capture("mlp.mlp.local-sync");
    let is_empty = || std::fs::read_dir(&parent).unwrap().count() == 0;
    let signal = |tool: &std::process::Child, number: usize| {
        let signal = ["-2", "-15", "-1"][number % 3];
        let sent = std::process::Command::new("kill").args([signal, &tool.id().to_string()]).status();
        assert!(sent.unwrap().success());
    };
    // At any time.
    for number in 0..30 {
        let mut tool = command("rehal");
        let tool = tool.args(["kernel", "record", "--device=local-sync", &flag, &path]);
        let mut tool = tool.stdout(Stdio::null()).spawn().unwrap();
        while is_empty() && tool.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_micros(250 * number));
        signal(&tool, number as usize);
        tool.wait().unwrap();
        if !is_empty() {
            let descriptors = descriptors(&directory);
            assert_eq!(descriptors.len(), 5, "{number}");
            assert!(descriptors.iter().all(|it| !read(it)["Files"]["RecordOutput"].is_null()));
            std::fs::remove_dir_all(parent.join("a")).unwrap();
        }
    }
    // While the last kernel runs, which does not end.
    let function = "mlp_dispatch_4_reduction_8x10_f32";
    let stub =
        print(&["rehal", "kernel", "stub", "--no_run", &format!("--function={function}"), "-o", "-", &path]);
    let endless = stub.replacen("return 1;", "pause();\n  return 0;", 1);
    assert!(endless.contains("pause();"), "{stub}");
    let source = scratch.file("endless.c", format!("#include <unistd.h>\n{endless}"));
    let substitution = format!("--replay_executable_substitution={function}={source}");
    for number in 0..3 {
        let mut tool = command("rehal");
        let tool = tool.args(["kernel", "record", "--device=local-sync", &flag, &substitution, &path]);
        let mut tool = tool.stdout(Stdio::null()).spawn().unwrap();
        // They move to their directory at the end.
        let recorded = || {
            let parts = std::fs::read_dir(&directory).into_iter().flatten().map(|it| it.unwrap().path());
            parts
                .map(|it| it.join("records"))
                .filter(|it| it.exists())
                .map(|it| descriptors(&it).len())
                .sum::<usize>()
        };
        while recorded() < 4 {
            assert!(tool.try_wait().unwrap().is_none(), "it ended");
            std::thread::yield_now();
        }
        signal(&tool, number);
        assert!(tool.wait().unwrap().signal().is_some() && is_empty(), "{number}");
    }
    // What was there stays.
    let other = directory.join("notes.txt");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(&other, "notes").unwrap();
    print(&["rehal", "kernel", "record", "--device=local-sync", &flag, &path]);
    assert!(other.exists() && descriptors(&directory).len() == 5);
}

#[test]
fn variables_set_report_output_and_memory() {
    let scratch = Scratch::new();
    let (_, words) = tools().remove(0);
    let words: Vec<&str> = ["iree-run-module"].into_iter().chain(words.iter().map(String::as_str)).collect();
    let run_in = |name: &str, variables: &[(&str, &str)]| {
        let directory = scratch.path(name);
        let on = [("REHAL_KERNEL_RECORD", "1"), ("REHAL_KERNEL_RECORD_DIR", directory.to_str().unwrap())];
        let ran = with(&[&on[..], variables].concat(), &words);
        (ran, directory)
    };
    let (ran, directory) =
        run_in("a", &[("REHAL_KERNEL_RECORD_REPORT_FILENAME", "r.txt"), ("REHAL_KERNEL_RECORD_OUTPUT", "0")]);
    assert!(ran.status == Some(0) && !ran.stdout.contains("Report"), "{ran:?}");
    assert_eq!(rows(&std::fs::read_to_string(directory.join("r.txt")).unwrap()).len(), 1);
    assert!(read(&only(&directory))["Files"]["RecordOutput"].is_null());
    let (ran, directory) = run_in("b", &[("REHAL_KERNEL_RECORD_MEMSIZE", "100")]);
    assert!(ran.status == Some(1) && ran.stderr.contains("REHAL_KERNEL_RECORD_MEMSIZE"), "{ran:?}");
    // The results are printed, and what was recorded of the program is kept.
    assert!(ran.stdout.contains("4xf32=6 7 8 9"), "{ran:?}");
    let kept = std::fs::read_dir(&directory).unwrap().next().unwrap().unwrap().path();
    let kept = kept.to_str().unwrap();
    assert!(ran.stderr.contains(kept), "{ran:?}");
    let again = scratch.path("again");
    record(&[], kept, &again);
    assert_eq!(replay(&["--verify"], &only(&again)).status, Some(0));
    for (variable, value) in [
        ("REHAL_KERNEL_RECORD_MEMSIZE", "0"),
        ("REHAL_KERNEL_RECORD_MEMSIZE", "8G"),
        ("REHAL_KERNEL_RECORD_DIR", ""),
        ("REHAL_KERNEL_RECORD_REPORT", "yes"),
        ("REHAL_KERNEL_RECORD_OUTPUT", "2"),
        ("REHAL_KERNEL_RECORD_REPORT_FILENAME", "a/b"),
    ] {
        let (ran, directory) = run_in("c", &[(variable, value)]);
        assert_eq!(ran.status, Some(1), "{variable}={value}: {ran:?}");
        assert!(ran.stderr.contains(variable) && !directory.exists(), "{variable}={value}: {ran:?}");
    }
}

#[test]
fn a_program_that_fails_or_crashes_loses_no_kernels() {
    let scratch = Scratch::new();
    let directory = scratch.path("failed");
    let variables = |directory: &Path| {
        vec![
            ("REHAL_KERNEL_RECORD", "1".to_string()),
            ("REHAL_KERNEL_RECORD_DIR", directory.to_str().unwrap().to_string()),
        ]
    };
    let run_with = |directory: &Path, words: &[&str]| {
        let mut command = command("iree-run-module");
        ran(command.args(words).envs(variables(directory)).output().unwrap())
    };
    let add = format!("--module={}", fixture("modules/add4.vmfb"));
    let differs = run_with(
        &directory,
        &[&add, "--function=add", "--input=4xf32=1", "--input=4xf32=2", "--expected_output=4xf32=4"],
    );
    assert_eq!(differs.status, Some(1), "{differs:?}");
    assert_eq!(replay(&["--verify"], &only(&directory)).status, Some(0));
    let directory = scratch.path("nothing");
    assert_eq!(run_with(&directory, &[&add, "--function=nothing"]).status, Some(1));
    assert!(!directory.exists());
    let directory = scratch.path("crashed");
    let crash = format!("--module={}", fixture("modules/crash.vmfb"));
    let crashed = run_with(
        &directory,
        &["--device=local-sync", &crash, "--function=divide", "--input=4xi64=1", "--input=4xi64=0"],
    );
    assert_eq!(crashed.status, Some(86), "{crashed:?}");
    let kept = std::fs::read_dir(&directory).unwrap().next().unwrap().unwrap().path();
    let flag = format!("--directory={}", scratch.path("recovered").display());
    let recorded = run(&[
        "rehal",
        "kernel",
        "record",
        "--device=local-sync",
        "--recover",
        &flag,
        kept.to_str().unwrap(),
    ]);
    assert_eq!(recorded.status, Some(86), "{recorded:?}");
    assert_eq!(replay(&[], &only(&scratch.path("recovered"))).status, Some(86));
}

#[test]
fn a_substitute_is_recorded_as_the_code_that_runs() {
    let scratch = Scratch::new();
    let directory = scratch.path("kernels");
    let other = fixture("modules/add4_swapped.elf");
    let substitution = format!("--replay_executable_substitution=all={other}");
    record(&[&substitution, "--workgroup_count=same"], &capture("add4.add.local-sync"), &directory);
    let path = only(&directory);
    let image = directory.join(read(&path)["Files"]["Image"].as_str().unwrap());
    assert!(std::fs::read(image).unwrap() == std::fs::read(&other).unwrap());
    assert_eq!(replay(&["--verify"], &path).status, Some(0));
}

#[test]
fn a_closed_pipe_is_not_an_error_and_a_full_disk_is() {
    let scratch = Scratch::new();
    let directory = scratch.path("kernels");
    record(&[], &capture("add4.add.local-sync"), &directory);
    let path = only(&directory);
    let mut child = command("rehal")
        .args(["kernel", "replay", "--repetitions=2000", path.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = ran(child.wait_with_output().unwrap());
    assert_eq!(ended.status, Some(0), "{ended:?}");
    // Other processes may use the machine.
    assert!(ended.stderr.lines().all(|line| line.starts_with("***WARNING*** ")), "{ended:?}");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = command("rehal");
    let ended = command.args(["kernel", "replay", path.to_str().unwrap()]).stdout(full).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
}

#[test]
fn a_path_that_is_not_a_descriptor_is_answered_with_those_beside_it() {
    let scratch = Scratch::new();
    let [one, many, none] = ["one", "many", "none"].map(|it| scratch.path(it));
    std::fs::create_dir(&none).unwrap();
    record(&[], &capture("add4.add.local-sync"), &one);
    record(&[], &capture("mlp.mlp.local-sync"), &many);
    let only = only(&one);
    std::fs::write(one.join("another.json"), "{}").unwrap();
    std::fs::write(none.join("another.json"), "{}").unwrap();
    let is_directory = "it is a directory, not the descriptor of a kernel\n";
    for (path, message, advice) in [
        (&one, is_directory, format!("name a descriptor: {}\n", only.display())),
        (&one.join("missing.json"), "No such file", format!("name a descriptor: {}\n", only.display())),
        (&many, is_directory, "name one of the 5 descriptors: ".to_owned()),
        (&none, is_directory, "name a descriptor (.json), as a recording of kernels writes it".to_owned()),
        (&none.join("missing.json"), "No such file", "name a descriptor (.json), as".to_owned()),
    ] {
        let stderr = refused(&[], path);
        assert!(stderr.contains(message), "{}: {stderr}", path.display());
        assert!(stderr.contains(&format!("\n  try: {advice}")), "{}: {stderr}", path.display());
    }
}
