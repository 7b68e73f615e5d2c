//! `rehal verify` and `--replay_ledger`: exit statuses, reports, and what they refuse.

use std::process::Stdio;

use crate::common::{
    Scratch, capture, command, fail, faulty_chain, fixture, patched, print, ran, record_bound, run,
    write_kernel,
};
use serde_json::Value;

const CHAIN: &str = "chain.chain.local-sync";

/// Writes the kernels of the chain with fault `number`.
fn kernels(scratch: &Scratch, number: u8) -> String {
    format!("--replay_executable_substitution=all={}", faulty_chain(scratch, number))
}

/// Writes a ledger of the chain; returns the flag that names it.
fn ledger(scratch: &Scratch, words: &[&str]) -> String {
    let path = scratch.path("ledger").to_str().unwrap().to_string();
    let output = format!("--replay_ledger={path}");
    let printed = print(
        &[&["iree-run-replay", "--device=local-sync"], words, &[output.as_str(), capture(CHAIN).as_str()]]
            .concat(),
    );
    assert_eq!(printed, "");
    format!("--against={path}")
}

fn verify<'a>(words: &[&'a str], path: &'a str) -> Vec<&'a str> {
    [&["rehal", "verify", "--device=local-sync"], words, &[path]].concat()
}

#[test]
fn the_same_has_status_0() {
    let (scratch, path) = (Scratch::new(), capture(CHAIN));
    let against = ledger(&scratch, &[]);
    let same = kernels(&scratch, 0);
    let expected = "the same: 13 dispatches and 3 host reads\n";
    for words in [&[against.as_str()][..], &[&against, &same], &[&same], &["--other_device=local-task"]] {
        assert_eq!(print(&verify(words, &path)), expected, "{words:?}");
    }
    let against = ledger(&scratch, &["--replay_ledger_contents=reads"]);
    assert_eq!(print(&verify(&[&against], &path)), "the same: 0 dispatches and 3 host reads\n");
}

#[test]
fn a_difference_has_status_2_and_its_place() {
    let (scratch, path) = (Scratch::new(), capture(CHAIN));
    let ulp = kernels(&scratch, 4);
    let ran = run(&verify(&[&ulp, "--element_type=f32", "--tolerance=*:f32:ulp=0"], &path));
    assert_eq!(ran.status, Some(2), "{ran:?}");
    let mut lines = ran.stdout.lines();
    assert_eq!(lines.next(), Some("different: 1 differs of 1 dispatch and 0 host reads"));
    for part in [
        "record #17: dispatch of chain_dispatch_0_matmul_24x24x24_f32 (executable 4), 3x1x1 workgroups",
        "in scope 'execute'",
        "bytes 800..801 of it differ",
        "f32: 1 element differs\n      [200] expected ",
        ": 1 ULP, absolute ",
        "errors: up to 1 ULP: 1\n",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    let tolerated = print(&verify(&[&ulp, "--element_type=f32", "--tolerance=*:f32:ulp=1"], &path));
    assert_eq!(tolerated, "the same: 13 dispatches and 3 host reads, 1 of them within the tolerance\n");
    // Without a tolerance, what rounding explains is measured.
    let rounded = print(&verify(&[&ulp, "--element_type=f32"], &path));
    let expected = "the same: 13 dispatches and 3 host reads, 1 of them up to rounding\n  \
                    right up to rounding: chain_dispatch_0_matmul_24x24x24_f32 (f32): differs by up to ";
    assert!(rounded.starts_with(expected) && rounded.ends_with(" ULPs (limit 16)\n"), "{rounded}");
}

#[test]
fn a_report_is_an_object() {
    let (scratch, path) = (Scratch::new(), capture(CHAIN));
    let (against, row) = (ledger(&scratch, &["--replay_ledger_kept_bytes=1000000"]), kernels(&scratch, 2));
    let words = [&against, &row, "--element_type=f32", "--keep_going", "--format=json", "--max_elements=1"];
    let ran = run(&verify(&words, &path));
    assert_eq!(ran.status, Some(2), "{ran:?}");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&report["outcome"], &report["dispatch_count"]), (&"different".into(), &13.into()));
    let records: Vec<_> = report["differences"].as_array().unwrap().iter().map(|it| &it["record"]).collect();
    assert_eq!(records, [28, 80]);
    let first = &report["differences"][0];
    assert_eq!(first["dispatch"]["function"], "chain_dispatch_1_matmul_24x24x24_f32");
    assert_eq!(
        (&first["binding"], &first["length"], &first["element_type"]),
        (&2.into(), &2304.into(), &"f32".into())
    );
    assert_eq!(first["elements"]["different_count"], 192);
    assert_eq!(first["elements"]["first"].as_array().unwrap().len(), 1);
    assert_eq!(first["elements"]["first"][0]["index"], 192);
    assert_eq!(first["actual"]["finite_count"], 576);
}

/// Of other kernels, of another device, and of another driver's format.
#[test]
fn captures_of_one_program_are_the_same() {
    for (path, other, expected) in [
        ("add4.add.local-sync", "add4.vmvx.local-sync", "the same: 1 dispatch and 2 host reads\n"),
        ("mlp.syslib.local-sync", "mlp.mlp.local-task", "the same: 5 dispatches and 4 host reads\n"),
        (CHAIN, "chain.chain.local-task", "the same: 13 dispatches and 3 host reads\n"),
        (
            "transfers.fill.local-sync",
            "transfers.fill.local-sync",
            "the same: 0 dispatches and 2 host reads\n",
        ),
    ] {
        let (path, against) = (capture(path), format!("--against_capture={}", capture(other)));
        assert_eq!(print(&verify(&[&against, "--other_device=local-task"], &path)), expected, "{other}");
    }
}

#[test]
fn a_difference_from_another_capture_has_the_place_of_the_dispatch() {
    let (scratch, path) = (Scratch::new(), capture(CHAIN));
    let against = format!("--against_capture={}", capture("chain.chain.local-task"));
    // One ULP in an element.
    let ulp = kernels(&scratch, 4);
    let exact = "--tolerance=*:f32:ulp=0";
    let ran = run(&verify(&[&against, &ulp, "--element_type=f32", exact], &path));
    assert_eq!(ran.status, Some(2), "{ran:?}");
    for part in [
        "different: 1 differs of 1 dispatch and 0 host reads\n",
        "\nrecord #17: dispatch of chain_dispatch_0_matmul_24x24x24_f32 (executable 4), 3x1x1 workgroups",
        "f32: 1 element differs\n      [200] expected ",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    let tolerance = "--tolerance=*:f32:ulp=1";
    let same = print(&verify(&[&against, &ulp, "--element_type=f32", tolerance], &path));
    assert_eq!(same, "the same: 13 dispatches and 3 host reads, 1 of them within the tolerance\n");
}

#[test]
fn what_only_one_capture_has_is_listed() {
    let path = capture("mlp.mlp.local-sync");
    let against = format!("--against_capture={}", capture("bench.mlp.5.local-sync"));
    let ran = run(&verify(&[&against, "--format=json"], &path));
    assert_eq!(ran.status, Some(1), "{ran:?}");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&report["outcome"], &report["dispatch_count"]), (&"inconclusive".into(), &5.into()));
    let unmatched = report["unmatched"].as_array().unwrap();
    let matmul = unmatched.iter().find(|it| it["function"] == "mlp_dispatch_0_matmul_8x48x32_f32").unwrap();
    assert_eq!((&matmul["is_expected"], &matmul["count"]), (&true.into(), &4.into()));
    let text = run(&verify(&[&against], &path)).stdout;
    let line = "\n  only in the other capture: 4 dispatches of mlp_dispatch_0_matmul_8x48x32_f32\n";
    assert!(text.starts_with("inconclusive: 5 dispatches") && text.contains(line), "{text}");
}

/// SPIR-V does not run on a CPU: the advice names the flag of the device of the side that has it.
#[test]
fn advice_names_the_flag_of_the_device() {
    let spirv = fixture("vulkan/captures/add4.add.ireereplay");
    let against = |path: &str| format!("--against_capture={path}");
    let cpu = capture("add4.add.local-sync");
    assert!(fail(&verify(&[&against(&spirv)], &cpu)).ends_with("\n  try: use --other_device=vulkan\n"));
    assert!(fail(&verify(&[&against(&cpu)], &spirv)).ends_with("\n  try: use --device=vulkan\n"));
}

#[test]
fn another_program_is_an_error() {
    let path = capture("mlp.mlp.local-sync");
    let against = format!("--against_capture={}", capture("add4.add.local-sync"));
    let stderr = fail(&verify(&[&against], &path));
    assert!(
        stderr.contains(
            "the captures are of different programs: no function is dispatched in both; one dispatches \
             add_dispatch_0_elementwise_4_f32, and the other mlp_dispatch_0_matmul_8x48x32_f32, "
        ),
        "{stderr}"
    );
    for other in ["--watch_memory", "--against=x.ledger"] {
        fail(&verify(&[&against, other], &path));
    }
}

#[test]
fn memory_errors_have_status_2() {
    let (scratch, path) = (Scratch::new(), capture(CHAIN));
    let clean = print(&verify(&["--watch_memory"], &path));
    assert_eq!(clean, "no memory errors: 13 dispatches and 3 host reads\n");
    let (beyond, unwritten) = (kernels(&scratch, 8), kernels(&scratch, 9));
    let ran = run(&verify(&["--watch_memory", &beyond], &path));
    assert_eq!(ran.status, Some(2), "{ran:?}");
    for part in [
        "memory errors in 1 dispatch and 0 host reads\n1 dispatch wrote outside of the bindings\n",
        "record #17: dispatch of chain_dispatch_0_matmul_24x24x24_f32 (executable 4), 3x1x1 workgroups",
        "wrote bytes 4608..4612 of buffer 12 (4608 bytes), outside of binding 1 (bytes 0..4608): 0000803f\n",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    let ran = run(&verify(&["--watch_memory", "--format=json", &beyond], &path));
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&report["out_of_bounds_write_count"], &report["out_of_bounds_writes"][0]["offset"]),
        (&1.into(), &4608.into())
    );
    let ran = run(&verify(&["--watch_memory", "--element_type=f32", &unwritten], &path));
    assert_eq!(ran.status, Some(2), "{ran:?}");
    let depends = "\n1 dispatch or host read depends on bytes that were never written\n";
    assert!(ran.stdout.contains(depends), "{}", ran.stdout);
    assert!(ran.stdout.contains("f32: 1 element differs\n      [7] "), "{}", ran.stdout);
}

#[test]
fn host_reads_of_unwritten_bytes_are_counted() {
    // The program maps the whole of a buffer that it fills in part.
    let path = capture("dynamic.rows.local-sync");
    let printed = print(&verify(&["--watch_memory"], &path));
    let expected =
        "576 bytes of host reads, first of record #52: host read, in scope 'execute', were never written: ";
    assert!(printed.starts_with("no memory errors: ") && printed.contains(expected), "{printed}");
    let printed = print(&verify(&["--watch_memory", "--format=json"], &path));
    let report: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&report["unwritten_read_bytes"], &report["first_unwritten_read"]), (&576.into(), &52.into()));
}

#[test]
fn a_recording_with_digests_is_verified_by_itself() {
    let scratch = Scratch::new();
    let path = scratch.path("recorded.ireereplay").to_str().unwrap().to_string();
    let module = format!("--module={}", fixture("modules/add4.vmfb"));
    let output = format!("--device_replay_output={path}");
    let program =
        ["iree-run-module", &module, "--function=add", "--input=4xf32=1", "--input=4xf32=2", &output];
    print(&[&program[..], &["--device_replay_ledger=reads"]].concat());
    assert_eq!(print(&verify(&[], &path)), "the same: 0 dispatches and 2 host reads\n");
    print(&[&program[..], &["--device_replay_ledger=off"]].concat());
    assert!(fail(&verify(&[], &path)).contains("nothing to compare with"));
}

#[test]
fn a_recording_with_digests_of_dispatches_finds_the_first_that_differs() {
    let scratch = Scratch::new();
    let path = scratch.path("recorded.ireereplay").to_str().unwrap().to_string();
    let module = format!("--module={}", fixture("modules/chain.vmfb"));
    let input = format!("--input=@{}", fixture("inputs/chain_x.npy"));
    let output = format!("--device_replay_output={path}");
    let (same, ulp) = (kernels(&scratch, 0), kernels(&scratch, 4));
    for device in ["--device=local-sync", "--device=local-task"] {
        let program = ["iree-run-module", device, &module, "--function=chain", &input];
        let recording = [&output[..], "--device_replay_ledger=dispatches", "--element_type=f32"];
        let printed = print(&[&program[..], &recording].concat());
        assert_eq!(printed, print(&program), "{device}");
        let expected = "the same: 13 dispatches and 3 host reads\n";
        assert_eq!(print(&verify(&[], &path)), expected, "{device}");
        assert_eq!(print(&verify(&[&same], &path)), expected, "{device}");
        let against = format!("--against={}", scratch.path("ledger").display());
        let written = against.replace("--against", "--replay_ledger");
        print(&["iree-run-replay", "--device=local-sync", &written, &path]);
        assert_eq!(print(&verify(&[&against], &path)), expected, "{device}");
        let ran = run(&verify(&[&ulp, "--tolerance=*:f32:ulp=0"], &path));
        assert_eq!(ran.status, Some(2), "{ran:?}");
        let first = "different: 1 differs of 1 dispatch and 0 host reads\n";
        assert!(ran.stdout.starts_with(first) && ran.stdout.contains("chain_dispatch_0_matmul"), "{ran:?}");
        // The records are those that other tools skip.
        let dump = print(&["iree-dump-replay", &path]);
        assert_eq!(dump.matches(" payload=unknown(1919248388) ").count(), 13, "{device}");
    }
    let redacted = scratch.path("redacted.ireereplay").to_str().unwrap().to_string();
    print(&["rehal", "redact", &path, "-o", &redacted]);
    assert!(fail(&verify(&[], &redacted)).contains("nothing to compare with"));
}

#[test]
fn captured_kernels_name_the_elements_of_which_a_ledger_has_digests() {
    let (scratch, path) = (Scratch::new(), capture(CHAIN));
    let (against, ulp, row) = (ledger(&scratch, &[]), kernels(&scratch, 4), kernels(&scratch, 2));
    let ran = run(&verify(&[&against, &ulp, "--tolerance=*:f32:ulp=0"], &path));
    assert_eq!((ran.status, &*ran.stderr), (Some(2), ""), "{ran:?}");
    for part in [
        "different: 1 differs of 1 dispatch and 0 host reads\n\
         expected: a replay with the captured executables, which agrees with the ledger\n",
        "record #17: dispatch of chain_dispatch_0_matmul_24x24x24_f32 ",
        "    f32 (as the function's name says): 1 element differs\n",
        ": 1 ULP, ",
        "if it is right: --tolerance='chain_dispatch_0_matmul_24x24x24_f32:f32:ulp=1'\n",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    let ran = run(&verify(&[&against, &row, "--format=json"], &path));
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let first = &report["differences"][0];
    assert_eq!((ran.status, &first["record"], &first["digest_length"]), (Some(2), &28.into(), &Value::Null));
    assert_eq!((&report["is_with_captured"], &first["is_type_inferred"]), (&true.into(), &true.into()));
    assert_eq!((&first["elements"]["different_count"], &first["binding"]), (&192.into(), &2.into()));
    // The bytes also decide about tolerances, and about rounding.
    let printed = print(&verify(&[&against, &ulp], &path));
    assert!(
        printed.starts_with("the same: 13 dispatches and 3 host reads, 1 of them up to rounding\n"),
        "{printed}"
    );
    let printed = print(&verify(&[&against, &ulp, "--element_type=f32", "--tolerance=*:f32:ulp=1"], &path));
    let expected = "the same: 13 dispatches and 3 host reads, 1 of them within the tolerance\n\
                    expected: a replay with the captured executables, which agrees with the ledger\n";
    assert_eq!(printed, expected);
    // So does the type in the name of a function, if none is stated.
    for words in
        [&[ulp.as_str(), "--tolerance=*:f32:ulp=1"][..], &[&against, &ulp, "--tolerance=*:f32:ulp=1"]]
    {
        let printed = print(&verify(words, &path));
        assert!(printed.contains("1 of them within the tolerance\n"), "{printed}");
        let expected =
            "  tolerated as f32: chain_dispatch_0_matmul_24x24x24_f32 (as the function's name says)\n";
        assert!(printed.contains(expected), "{printed}");
    }
}

#[test]
fn a_ledger_that_captured_kernels_disagree_with_names_the_remedy() {
    let (scratch, path) = (Scratch::new(), capture(CHAIN));
    let against = ledger(&scratch, &[&kernels(&scratch, 4)]);
    let row = kernels(&scratch, 2);
    for words in [&[against.as_str()][..], &[&against, &row]] {
        let ran = run(&verify(words, &path));
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(
            ran.stdout.contains("\n    only digests of the expected bytes are known\n"),
            "{}",
            ran.stdout
        );
        let remedy = "rehal run --replay_ledger=PATH --replay_ledger_kept_bytes=4608 CAPTURE";
        assert!(ran.stderr.contains(remedy), "{}", ran.stderr);
    }
}

#[test]
fn what_cannot_be_told_has_status_1() {
    let (scratch, path) = (Scratch::new(), capture(CHAIN));
    // Of another replacement: the captured kernels cannot say what was expected.
    let ulp = kernels(&scratch, 4);
    let against = ledger(&scratch, &[&ulp]);
    let ran = run(&verify(&[&against, "--element_type=f32", "--tolerance=*:f32:ulp=1"], &path));
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.stderr.contains(" --replay_ledger_kept_bytes=4608 "), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("inconclusive: 1 dispatch and 0 host reads compared\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("\n  record #17 differs, and its bytes"), "{}", ran.stdout);
    let file = against.trim_start_matches("--against=");
    let bytes = std::fs::read(file).unwrap();
    std::fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
    let ran = run(&verify(&[&against, &ulp], &path));
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("the ledger is incomplete"), "{}", ran.stdout);
}

#[test]
fn wrong_input_is_an_error() {
    let (scratch, path) = (Scratch::new(), capture(CHAIN));
    let against = ledger(&scratch, &[]);
    let no_ledger = format!("--against={path}");
    for (words, reason) in [
        (&[][..], "nothing to compare with"),
        (&[against.as_str(), "--other_device=local-task"], "both given"),
        (&["--watch_memory", "--other_device=local-task"], "--watch_memory"),
        (&["--other_device=nothing"], "--other_device=nothing"),
        (&[&against, "--tolerance=f32"], "--tolerance"),
        (&[&against, "--element_type=i3"], "--element_type"),
        (&[&no_ledger], "is a capture (.ireereplay), not a ledger\n  try: make a ledger"),
    ] {
        let stderr = fail(&verify(words, &path));
        assert!(stderr.contains(reason), "{words:?}: {stderr}");
    }
    let other = capture("add4.add.local-sync");
    let stderr = fail(&verify(&[&against], &other));
    assert!(stderr.contains("made from another capture"), "{stderr}");
    let both = scratch.path("both").to_str().unwrap().to_string();
    for path in [both.as_str(), "-"] {
        let outputs = [format!("--replay_ledger={path}"), format!("--replay_host_reads={path}")];
        let stderr = fail(&["iree-run-replay", "--device=local-sync", &outputs[0], &outputs[1], &other]);
        assert!(stderr.contains("written as well"), "{stderr}");
    }
    assert!(!scratch.path("both").exists());
    // The capture, and a replay that fails, leave files as they were.
    let before = std::fs::read(&path).unwrap();
    fail(&["iree-run-replay", &format!("--replay_ledger={path}"), &path]);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let absent = scratch.path("absent");
    let output = format!("--replay_ledger={}", absent.display());
    let ran = run(&["iree-run-replay", "--replay_executable_substitution=77=x", &output, &path]);
    assert_eq!((ran.status, absent.exists()), (Some(1), false), "{ran:?}");
}

#[test]
fn nothing_to_compare_has_status_1() {
    let (scratch, path) = (Scratch::new(), capture("multi.scalars.local-sync"));
    let ledger = scratch.path("ledger").display().to_string();
    print(&["rehal", "run", "--device=local-sync", &format!("--replay_ledger={ledger}"), &path]);
    let against = format!("--against={ledger}");
    for words in [&against, "--other_device=local-sync"] {
        let ran = run(&verify(&[words], &path));
        assert_eq!(ran.status, Some(1), "{words}: {ran:?}");
        let expected = "inconclusive: 0 dispatches and 0 host reads compared\n  nothing was compared: ";
        assert!(ran.stdout.starts_with(expected), "{words}: {}", ran.stdout);
        assert!(ran.stderr.contains("  try: compare with a ledger of dispatches"), "{words}: {}", ran.stderr);
    }
    let nothing = "no memory errors: 0 dispatches and 0 host reads\n";
    assert_eq!(print(&verify(&["--watch_memory"], &path)), nothing);
}

#[test]
fn a_truncated_capture_is_inconclusive() {
    let (scratch, whole) = (Scratch::new(), std::fs::read(capture(CHAIN)).unwrap());
    let torn = scratch.file("torn.ireereplay", &whole[..whole.len() - 40]);
    for (words, first) in [
        ("--other_device=local-sync", "inconclusive: 13 dispatches and 3 host reads compared"),
        ("--watch_memory", "inconclusive: no memory errors in 13 dispatches and 3 host reads"),
    ] {
        let ran = run(&verify(&["--recover", words], &torn));
        assert_eq!(ran.status, Some(1), "{words}: {ran:?}");
        let expected = format!("{first}\n  the capture is truncated: what followed its first ");
        assert!(ran.stdout.starts_with(&expected), "{words}: {}", ran.stdout);
    }
}

#[test]
fn a_tolerance_that_applies_to_nothing_is_noted() {
    let (scratch, path) = (Scratch::new(), capture(CHAIN));
    let (against, row) = (ledger(&scratch, &["--replay_ledger_kept_bytes=1000000"]), kernels(&scratch, 2));
    for words in
        [&[against.as_str(), &row, "--tolerance=*:f16:ulp=1"][..], &[&row, "--tolerance=*:f16:ulp=1"]]
    {
        let ran = run(&verify(words, &path));
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(
            ran.stderr.starts_with("warning: --tolerance=*:f16:... applied to nothing: "),
            "{}",
            ran.stderr
        );
    }
    let words = ["--other_device=local-sync", "--element_type=f32", "--tolerance=softmax*:f32:ulp=1"];
    let ran = run(&verify(&words, &path));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.stderr.starts_with("warning: --tolerance=softmax*:f32:... applied"), "{}", ran.stderr);
}

#[test]
fn a_crash_names_its_record_on_both_sides() {
    let path = capture("crash.divide-by-zero.local-sync");
    for device in ["local-sync", "local-task"] {
        let (device, other) = (format!("--device={device}"), format!("--other_device={device}"));
        for words in [&other, "--watch_memory"] {
            let ran = run(&["rehal", "verify", &device, words, &path]);
            assert_eq!((ran.status, ran.stdout.as_str()), (Some(86), ""), "{device} {words}: {ran:?}");
            for part in
                ["crashed with SIGFPE", "'divide_dispatch_0_elementwise_4_i64'", "at: record #17, offset "]
            {
                assert!(ran.stderr.contains(part), "{device} {words}: {part}: {}", ran.stderr);
            }
        }
    }
}

/// A kernel that ends the process does not decide its exit status.
#[test]
fn a_replacement_that_ends_the_process_is_not_the_same() {
    const FUNCTION: &str = "add_dispatch_0_elementwise_4_f32";
    let scratch = Scratch::new();
    let (path, source) = (capture("add4.add.local-sync"), scratch.path("kernel.c"));
    let substitution = format!("--replay_executable_substitution={FUNCTION}={}", source.display());
    let early = |how: &str| {
        format!("ABORTED; the process ended {how} before its work was done, in function 'add_dispatch_0")
    };
    for (body, status, expected) in [
        ("extern void _exit(int); _exit(0); binding_2[i] = 0;", 1, early("with status 0")),
        ("extern void _exit(int); _exit(1); binding_2[i] = 0;", 1, early("with status 1")),
        ("extern void _exit(int); _exit(2); binding_2[i] = 0;", 1, early("with status 2")),
        ("extern void _exit(int); _exit(-1); binding_2[i] = 0;", 1, early("with status 255")),
        (
            "extern int raise(int); raise(9); binding_2[i] = 0;",
            1,
            "ABORTED; the process ended by signal 9, as when".into(),
        ),
        ("extern void exit(int); exit(0); binding_2[i] = 0;", 86, "a kernel called exit: function".into()),
        ("__asm__(\"int3\"); binding_2[i] = 0;", 86, "crashed with SIGTRAP: function".into()),
        ("binding_2[i] = binding_0[i] - binding_1[i];", 2, String::new()),
        ("binding_2[i] = binding_0[i] + binding_1[i];", 0, String::new()),
        ("no C", 1, "does not compile: ".into()),
    ] {
        write_kernel(&source, &path, FUNCTION, body);
        for words in [&[substitution.as_str()][..], &[&substitution, "--watch_memory"]] {
            let ran = run(&verify(words, &path));
            let status = if words.len() == 2 && status == 2 { 0 } else { status };
            // Both sides of --watch_memory call exit(3): one may end the process while the other one reports
            // it.
            let is_ended_twice = words.len() == 2 && body.contains(" exit(0)") && ran.status == Some(1);
            assert!(ran.status == Some(status) || is_ended_twice, "{body}: {ran:?}");
            assert!(ran.stderr.contains(&expected), "{body}: {ran:?}");
        }
    }
}

/// Their process has the flags of the tool, also those of a pipe, and warns of them once.
#[test]
fn replacements_have_the_flags_of_the_tool() {
    const FUNCTION: &str = "add_dispatch_0_elementwise_4_f32";
    let scratch = Scratch::new();
    let (path, source) = (capture("add4.add.local-sync"), scratch.path("kernel.c"));
    write_kernel(&source, &path, FUNCTION, "binding_2[i] = binding_0[i] - binding_1[i];");
    let mut tool = command("rehal");
    let words = ["verify", "--device=local-sync", "--flagfile=/dev/fd/0", "--task_topology_group_count=2"];
    tool.args(words).arg(&path);
    let mut tool = tool.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let flags = format!("--replay_executable_substitution={FUNCTION}={}\n", source.display());
    std::io::Write::write_all(&mut tool.stdin.take().unwrap(), flags.as_bytes()).unwrap();
    let ran = ran(tool.wait_with_output().unwrap());
    assert!(ran.status == Some(2) && ran.stdout.starts_with("different: "), "{ran:?}");
    assert_eq!(ran.stderr.matches("without effect: --task_topology_group_count").count(), 1, "{ran:?}");
}

/// Of a long input, pieces are moved at first, on which most of these sums do not depend.
#[test]
fn a_difference_that_pieces_do_not_explain_is_measured_with_all_inputs() {
    const FUNCTION: &str = "add_dispatch_0_elementwise_4_f32";
    let scratch = Scratch::new();
    let body = |sum: &str| {
        let defined = "#define ONE(k) ((uint32_t)(i * 576 + (k)) * 2654435761u)\n\
             #define HASH(k) ((ONE(k) ^ ONE(k) >> 15) * 2246822519u >> 8 & 0xffff)\n\
             #define TERM(k) ((HASH(k) / 32768.0f - 1) * binding_1[i * 576 + (k)])\n";
        format!("\n{defined}float sum = 0; {sum} binding_2[i] = sum + binding_0[i];")
    };
    let bindings = ["4096xf32=1.3", "2359296xf32=1.1", "4096xf32=7"].map(String::from);
    let path = record_bound(&scratch, &body("for (int k = 0; k < 576; ++k) sum += TERM(k);"), bindings);
    let source = scratch.path("kernel.c");
    let with = format!("--replay_executable_substitution={FUNCTION}={}", source.display());
    for (sum, expected) in [
        ("for (int k = 575; k >= 0; --k) sum += TERM(k);", "the same: 1 dispatch and "),
        ("for (int k = 574; k >= 0; --k) sum += TERM(k);", "different: 1 differs of 1 dispatch "),
    ] {
        write_kernel(&source, &capture("add4.add.local-sync"), FUNCTION, &body(sum));
        let ran = run(&verify(&[&with], &path));
        assert!(ran.stdout.starts_with(expected), "{sum}: {ran:?}");
    }
}

/// A tool that is ended removes what it has compiled, and its compiler ends with it. One that is killed
/// leaves it: a later one removes it.
#[test]
fn a_tool_that_is_ended_leaves_nothing() {
    const FUNCTION: &str = "add_dispatch_0_elementwise_4_f32";
    let scratch = Scratch::new();
    let (path, source) = (capture("add4.add.local-sync"), scratch.path("kernel.c"));
    let (temporary, begun) = (scratch.path("temporary"), scratch.path("begun"));
    std::fs::create_dir(&temporary).unwrap();
    write_kernel(&source, &path, FUNCTION, "binding_2[i] = 0;");
    // While it is compiled.
    let compiler = scratch.file("compiler", format!("echo $$ > {}\nexec sleep 600\n", begun.display()));
    let substitution = format!("--replay_executable_substitution={FUNCTION}={}", source.display());
    for signal in ["-2", "-15", "-9"] {
        let mut tool = command("rehal");
        tool.args(verify(&[&substitution], &path).split_first().unwrap().1);
        tool.env("CC", format!("sh {compiler}")).env("TMPDIR", &temporary);
        let mut tool = tool.stdout(Stdio::null()).spawn().unwrap();
        let compiling = || std::fs::read_to_string(&begun).ok().filter(|it| it.ends_with('\n'));
        let compiler = loop {
            assert!(tool.try_wait().unwrap().is_none(), "it ended");
            if let Some(compiler) = compiling() {
                break compiler;
            }
            std::thread::yield_now();
        };
        let kill = |signal: &str, process: &str| {
            std::process::Command::new("kill").args([signal, process]).status().unwrap().success()
        };
        assert!(std::fs::read_dir(&temporary).unwrap().count() > 0);
        assert!(kill(signal, &tool.id().to_string()));
        tool.wait().unwrap();
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count() == 0, signal != "-9", "{signal}");
        let stat = format!("/proc/{}/stat", compiler.trim());
        // It may be a zombie that nothing has waited for.
        while std::fs::read_to_string(&stat).is_ok_and(|it| !it.contains(") Z ")) {
            std::thread::yield_now();
        }
        std::fs::remove_file(&begun).unwrap();
    }
}

#[test]
fn flags_of_the_other_device_have_an_effect() {
    let path = capture("add4.add.local-sync");
    let workers = "--task_topology_group_count=2";
    let ran = run(&verify(&["--other_device=local-task", workers], &path));
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let ran = run(&verify(&["--other_device=local-sync", workers], &path));
    assert!(ran.stderr.contains("without effect: --task_topology_group_count"), "{ran:?}");
}

#[test]
fn differences_beyond_the_first_are_counted() {
    let path = capture("bench.add4.200.local-sync");
    let other = format!("--replay_executable_substitution=all={}", fixture("modules/add4_swapped.elf"));
    let same = "--workgroup_count=same";
    let ran = run(&verify(&[&other], &path));
    assert!(ran.stderr.contains("cannot tell: its workgroup count is not known: "), "{ran:?}");
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""));
    let ran = run(&verify(&[&other, same, "--keep_going"], &path));
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stdout.ends_with("\n... and 100 more differences\n"), "{}", ran.stdout);
    let ran = run(&verify(&[&other, same, "--keep_going", "--format=json"], &path));
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let shown = report["differences"].as_array().unwrap().len();
    assert_eq!((shown, &report["omitted_differences"]), (100, &100.into()));
}

#[test]
fn names_do_not_control_the_terminal() {
    let scratch = Scratch::new();
    let hostile = |bytes: &[u8]| patched(bytes, b"_dispatch_0_matmul", b"_dispatch\x1b0_matmul");
    let bytes = patched(&std::fs::read(capture(CHAIN)).unwrap(), b"execute", b"exe\x1bute");
    let path = scratch.file("hostile.ireereplay", hostile(&bytes));
    let kernels = kernels(&scratch, 4);
    let file = kernels.split_once("all=").unwrap().1;
    std::fs::write(file, hostile(&std::fs::read(file).unwrap())).unwrap();
    let ran = run(&verify(&[&kernels, "--tolerance=*:f32:ulp=0"], &path));
    assert_eq!(ran.status, Some(2), "{ran:?}");
    let (scope, name) =
        ("in scope 'exe\\u{1b}ute'", "dispatch of chain_dispatch\\u{1b}0_matmul_24x24x24_f32 ");
    assert!(ran.stdout.contains(scope) && ran.stdout.contains(name), "{}", ran.stdout);
    assert!(!ran.stdout.contains('\x1b'));
}

/// Work that a crash of a kernel interrupts leaves no files behind, and replaces none.
#[test]
fn a_crash_leaves_nothing_half_written() {
    for name in ["crash.divide-by-zero.local-sync", "crash.gather-outside.local-sync"] {
        for device in ["--device=local-sync", "--device=local-task"] {
            let scratch = Scratch::new();
            let directory = scratch.path("ledgers");
            std::fs::create_dir(&directory).unwrap();
            let path = directory.join("ledger");
            let flag = format!("--replay_ledger={}", path.display());
            let words = ["rehal", "run", device, &flag, &capture(name)].map(str::to_owned);
            let crash = || {
                let ran = run(&words.each_ref().map(String::as_str));
                assert_eq!(ran.status, Some(86), "{ran:?}");
                std::fs::read_dir(&directory).unwrap().map(|it| it.unwrap().file_name()).collect::<Vec<_>>()
            };
            assert!(crash().is_empty(), "{name}");
            std::fs::write(&path, "kept").unwrap();
            assert_eq!(crash(), ["ledger"], "{name}");
            assert_eq!(std::fs::read(&path).unwrap(), b"kept");
        }
    }
}

/// Reads a clock, so that no replay is like another: no matter how many threads run it.
#[test]
fn what_differs_from_itself_is_a_race_and_not_unwritten_memory() {
    let (scratch, path) = (Scratch::new(), capture("add4.add.local-sync"));
    let source = scratch.path("kernel.c");
    let add = "add_dispatch_0_elementwise_4_f32";
    let with = format!("--replay_executable_substitution={add}={}", source.display());
    let body = "binding_2[i] = binding_0[i] + (float)(__builtin_ia32_rdtsc() % 1048576);";
    write_kernel(&source, &path, add, body);
    for words in [&[with.as_str()][..], &[&with, "--watch_memory"]] {
        let found = run(&verify(words, &path));
        assert_eq!(found.status, Some(2), "{found:?}");
        assert!(
            found.stdout.contains("\nrace: two replays with this code and the same memory differ"),
            "{found:?}"
        );
        assert!(!found.stdout.contains("never written"), "{found:?}");
    }
    let json = run(&verify(&[&with, "--format=json"], &path));
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["is_race"], &json["static_writes"]), (&true.into(), &serde_json::json!([])));
    // One that is wrong in the same way each time is not a race.
    write_kernel(&source, &path, add, "binding_2[i] = binding_0[i];");
    let wrong = run(&verify(&[&with], &path));
    assert!(wrong.status == Some(2) && !wrong.stdout.contains("race"), "{wrong:?}");
}

#[test]
fn a_kernel_that_changes_static_variables_is_noted() {
    let (scratch, path) = (Scratch::new(), capture("bench.add4.200.local-sync"));
    let source = scratch.path("kernel.c");
    let add = "add_dispatch_0_elementwise_4_f32";
    let with = format!("--replay_executable_substitution={add}={}", source.display());
    let body = "static volatile int count[4] = {1, 1, 1, 1}; count[i % 4] = 7; binding_2[i] = binding_0[i] + binding_1[i];";
    write_kernel(&source, &path, add, body);
    let json = run(&verify(&[&with, "--format=json"], &path));
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let first = json["static_writes"][0]["record"].as_u64().unwrap();
    let expected = serde_json::json!([{"function": add, "record": first, "changed_bytes": 4}]);
    assert_eq!((&json["outcome"], &json["static_writes"]), (&"same".into(), &expected));
    let text = run(&verify(&[&with], &path));
    let note = format!("note: {add} changes static variables (4 bytes in record #{first}), which workgroups");
    assert!(text.status == Some(0) && text.stdout.contains(&note), "{text:?}");
    // A ledger has the captured results.
    let against = scratch.path("add.ledger").display().to_string();
    print(&["rehal", "run", "--device=local-sync", &format!("--replay_ledger={against}"), &path]);
    let text = run(&verify(&[&with, &format!("--against={against}")], &path));
    assert!(text.status == Some(0) && text.stdout.contains(&note), "{text:?}");
    // Constants are none, and neither are those of the loader.
    write_kernel(
        &source,
        &path,
        add,
        "static const int zero[4]; binding_2[i] = binding_0[i] + binding_1[i] + zero[i % 4];",
    );
    let none = run(&verify(&[&with], &path));
    assert!(none.status == Some(0) && !none.stdout.contains("static"), "{none:?}");
}
