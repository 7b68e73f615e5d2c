//! `rehal reduce`: commands, ready checks, limits, and what it refuses.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{Ran, Scratch, capture, fail, faulty_chain, fixture, print, run, write_kernel};
use serde_json::Value;

const CHAIN: &str = "chain.chain.local-sync";

/// Reduces a fixture to a file in a scratch directory.
fn reduce(scratch: &Scratch, words: &[&str], name: &str) -> Ran {
    let output = scratch.path("out.ireereplay");
    let path = capture(name);
    let words =
        [&["rehal", "reduce", "--device=local-sync", &path, "-o", output.to_str().unwrap()], words].concat();
    run(&words)
}

/// The report of a reduction that must succeed.
fn report(scratch: &Scratch, words: &[&str], name: &str) -> Value {
    let ran = reduce(scratch, &[&["--format=json"], words].concat(), name);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

fn output(scratch: &Scratch) -> String {
    scratch.path("out.ireereplay").to_str().unwrap().to_string()
}

/// Writes a script that is run by `sh`.
fn script(scratch: &Scratch, text: &str) -> String {
    let path = scratch.file("check.sh", format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn rehal() -> String {
    env!("CARGO_BIN_EXE_rehal").to_string()
}

#[test]
fn a_crash_is_reduced_to_its_dispatch_and_the_byte_that_causes_it() {
    let scratch = Scratch::new();
    for (name, signal, function, bytes) in [
        ("crash.divide-by-zero.local-sync", "SIGFPE", "divide_dispatch_0_elementwise_4_i64", 0),
        ("crash.gather-outside.local-sync", "SIGSEGV", "gather_dispatch_0_elementwise_4_i64xf32", 1),
    ] {
        let report = report(&scratch, &["--check=crash"], name);
        let after = &report["after"];
        let count = |name: &str| after[name].as_u64().unwrap();
        assert_eq!((count("dispatches"), count("submissions"), count("scopes")), (1, 1, 0), "{report}");
        assert_eq!((count("commands"), count("nonzero_data_bytes")), (1, bytes), "{report}");
        assert_eq!(report["is_minimal"], true);
        assert_eq!(report["check"], format!("a crash with {signal} in '{function}'"));
        let ran = run(&["rehal", "run", "--device=local-sync", &output(&scratch)]);
        assert_eq!(ran.status, Some(86), "{ran:?}");
        assert!(ran.stderr.contains(signal) && ran.stderr.contains(function), "{ran:?}");
    }
    let ran = reduce(&scratch, &["--check=crash"], "crash.gather-ok.local-sync");
    assert_eq!(ran.status, Some(1));
    assert!(ran.stderr.contains("a replay of the capture does not crash"), "{ran:?}");
}

/// Its status is not one of a check: it shows no wrong result, and is a crash.
#[test]
fn a_kernel_that_ends_the_process_is_a_crash() {
    let scratch = Scratch::new();
    let (path, function) = (capture("add4.add.local-sync"), "add_dispatch_0_elementwise_4_f32");
    let source = scratch.path("kernel.c");
    let ledger = scratch.path("ledger");
    let made = format!("--replay_ledger={}", ledger.display());
    print(&["rehal", "run", "--device=local-sync", &made, &path]);
    let against = format!("--against={}", ledger.display());
    for status in [0, 1, 86, 0xe0, 0xe1] {
        let body = format!("extern void _exit(int); _exit({status}); binding_2[i] = 0;");
        write_kernel(&source, &path, function, &body);
        let substitution = format!("--replay_executable_substitution={function}={}", source.display());
        let ran = reduce(&scratch, &["--check=wrong", &against, &substitution], "add4.add.local-sync");
        assert!(ran.status == Some(1) && !ran.stderr.is_empty(), "{status}: {ran:?}");
        let ran = reduce(&scratch, &["--check=crash", &substitution], "add4.add.local-sync");
        assert_eq!(ran.status, Some(0), "{status}: {ran:?}");
        assert!(ran.stdout.contains(&format!("a crash with exit status {status}\n")), "{ran:?}");
    }
    // The guard reports a call of exit(3), and ends the process with its own status.
    let body = "extern void exit(int); exit(0); binding_2[i] = 0;";
    write_kernel(&source, &path, function, body);
    let substitution = format!("--replay_executable_substitution={function}={}", source.display());
    let ran = reduce(&scratch, &["--check=crash", &substitution], "add4.add.local-sync");
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.stdout.contains(&format!("a crash with a call of exit in '{function}'\n")), "{ran:?}");
}

#[test]
fn a_source_is_compiled_once() {
    let scratch = Scratch::new();
    let path = capture("add4.add.local-sync");
    let function = "add_dispatch_0_elementwise_4_f32";
    let source = scratch.path("kernel.c").to_str().unwrap().to_string();
    write_kernel(Path::new(&source), &path, function, "__builtin_trap();");
    let count = scratch.path("count");
    let compiler = format!("echo . >> {}\nexec cc \"$@\"\n", count.display());
    let compiler = format!("sh {}", scratch.file("compiler", compiler));
    let substitution = format!("--replay_executable_substitution={function}={source}");
    let mut tool = crate::common::command("rehal");
    tool.args(["reduce", "--device=local-sync", "--check=crash", "--format=json", &substitution, &path]);
    let ran = crate::common::ran(tool.args(["-o", &output(&scratch)]).env("CC", compiler).output().unwrap());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["after"]["dispatches"], 1, "{report}");
    assert_eq!(fs::read_to_string(&count).unwrap(), ".\n");
}

/// The kernels of the chain with a fault.
fn faulty(scratch: &Scratch, number: u8) -> String {
    format!("--replay_executable_substitution=all={}", faulty_chain(scratch, number))
}

#[test]
fn a_wrong_result_is_reduced_to_its_dispatch() {
    let scratch = Scratch::new();
    let ledger = scratch.path("ledger").to_str().unwrap().to_string();
    let (path, kept) = (capture(CHAIN), format!("--replay_ledger={ledger}"));
    print(&["rehal", "run", "--device=local-sync", &kept, &path]);
    let against = format!("--against={ledger}");
    // A NaN in a product, and a wrong factor far into the work.
    for (fault, function) in
        [(3, "chain_dispatch_1_matmul_24x24x24_f32"), (1, "chain_dispatch_6_elementwise_576_f32")]
    {
        let substitution = faulty(&scratch, fault);
        // Without a ledger, the captured kernels say what is right.
        for words in [&[&against[..]][..], &[]] {
            let words = [&["--check=wrong", &substitution, "--max_byte_ranges=8"][..], words].concat();
            let report = report(&scratch, &words, CHAIN);
            assert_eq!(report["after"]["dispatches"], 1, "{report}");
            assert_eq!(
                (&report["is_slice"], &report["is_minimal"]),
                (&true.into(), &true.into()),
                "{report}"
            );
            let listed = print(&["rehal", "kernels", "--no_run", &output(&scratch)]);
            assert!(listed.contains(function), "{listed}");
        }
    }
    let right = format!("--replay_executable_substitution=all={}", fixture("cts/chain.so"));
    let ran = reduce(&scratch, &["--check=wrong", &right], CHAIN);
    assert_eq!(ran.status, Some(1));
    assert!(ran.stderr.contains("no difference from the captured executables: the same: 13"), "{ran:?}");
    let ran = reduce(&scratch, &["--check=wrong", &against], CHAIN);
    assert_eq!(ran.status, Some(1));
    assert!(ran.stderr.contains("no difference from the ledger: the same: 13 dispatches"), "{ran:?}");
    let other = reduce(&scratch, &["--check=wrong", &against], "mlp.mlp.local-sync");
    assert!(other.status == Some(1) && other.stderr.contains("ledger"), "{other:?}");
    let bytes = fs::read(&ledger).unwrap();
    let mut corrupt = bytes.clone();
    corrupt[bytes.len() / 2] ^= 1;
    for (bytes, message) in [
        (&b"not a ledger"[..], "cannot be compared with the ledger"),
        (&corrupt, "cannot be compared with the ledger"),
        (&bytes[..100], "of which not all could be compared: inconclusive: 0 dispatches"),
    ] {
        let against = format!("--against={}", scratch.file("broken", bytes));
        let ran = reduce(&scratch, &["--check=wrong", &against], CHAIN);
        assert!(ran.status == Some(1) && ran.stderr.contains(message), "{ran:?}");
        assert_eq!(ran.stderr.matches("\n  try: ").count(), 1, "{ran:?}");
        assert!(
            ran.stderr.contains("\n  try: make a ledger of this capture: rehal run --replay_ledger"),
            "{ran:?}"
        );
    }
}

/// The reads of a ledger are enough to find which work a wrong result needs.
#[test]
fn a_wrong_host_read_is_reduced_to_what_it_needs() {
    let scratch = Scratch::new();
    let ledger = scratch.path("ledger").to_str().unwrap().to_string();
    let (path, kept) = (capture(CHAIN), format!("--replay_ledger={ledger}"));
    print(&["rehal", "run", "--device=local-sync", "--replay_ledger_contents=reads", &kept, &path]);
    let (against, substitution) = (format!("--against={ledger}"), faulty(&scratch, 1));
    let words = ["--check=wrong", &against, &substitution, "--max_byte_ranges=1"];
    let report = report(&scratch, &words, CHAIN);
    let count = |name: &str| report["after"][name].as_u64().unwrap();
    assert!((1..13).contains(&count("dispatches")) && report["is_minimal"] == true, "{report}");
    assert_eq!(report["check"], "the wrong bytes of a host read");
}

/// A slow kernel is found by its time as a dispatch, whatever the rest of the capture takes. No kernel
/// takes an hour.
#[test]
fn slowness_is_measured() {
    let scratch = Scratch::new();
    let name = "mlp.mlp.local-sync";
    let (path, function) = (capture(name), "mlp_dispatch_1_matmul_8x48x48_f32");
    let source = scratch.path("slow.c").to_str().unwrap().to_string();
    write_kernel(
        Path::new(&source),
        &path,
        function,
        "extern long clock(void); if (i == 0) for (long begun = clock(); clock() - begun < 40000;) {}",
    );
    let substitution = format!("--replay_executable_substitution={function}={source}");
    fn slow<'w>(words: &[&'w str]) -> Vec<&'w str> {
        [&["--check=slow", "--max_byte_ranges=1"], words].concat()
    }
    let of_function = "--function=*dispatch_1*";
    for (threshold, check) in
        [("--slower_than=20ms", "at least 20.0 ms"), ("--slower_than=900us", "at least 900 us")]
    {
        let report = report(&scratch, &slow(&[threshold, &substitution, of_function]), name);
        assert_eq!(report["after"]["dispatches"], 1, "{report}");
        assert_eq!((&report["is_minimal"], &report["check"]), (&true.into(), &check.into()));
        let listed = print(&["rehal", "kernels", "--no_run", &output(&scratch)]);
        assert!(listed.contains(function), "{listed}");
    }
    // So is a replay that contains it. What the rest of it takes depends on the machine.
    let ran = reduce(&scratch, &slow(&["--slower_than=20ms", &substitution, "--max_checks=1"]), name);
    assert!(ran.status == Some(2) && ran.stdout.contains("not minimal: --max_checks is reached"), "{ran:?}");
    for words in [&[][..], &[of_function]] {
        let ran = reduce(&scratch, &slow(&[&["--slower_than=1h"], words].concat()), name);
        assert_eq!(ran.status, Some(1), "{ran:?}");
        assert!(ran.stderr.contains("the check fails for the capture itself: it takes "), "{ran:?}");
        assert!(ran.stderr.contains("s, and at least 3600 s is required"), "{ran:?}");
    }
    for words in [&["--slower_than=20ms", "--function=none"][..], &["--function=none"]] {
        let ran = reduce(&scratch, &slow(words), name);
        assert!(ran.stderr.contains("no dispatched function matches 'none'"), "{ran:?}");
    }
    let stderr = fail(&["rehal", "reduce", "--check=slow", "--slower_than=0.5us", "-o", "/dev/null", &path]);
    assert!(stderr.contains("a time from 1us to 24h"), "{stderr}");
}

#[test]
fn a_command_finds_two_dispatches() {
    let scratch = Scratch::new();
    let check = script(
        &scratch,
        &format!(
            "names=$({} kernels --no_run \"$1\") || exit 1\n\
             case $names in *dispatch_0_*dispatch_6_*) exit 0 ;; *) exit 1 ;; esac",
            rehal()
        ),
    );
    let check = format!("--check={check}");
    let first = report(&scratch, &[&check], CHAIN);
    assert_eq!(
        (&first["after"]["dispatches"], &first["after"]["commands"]),
        (&2.into(), &2.into()),
        "{first}"
    );
    let bytes = fs::read(output(&scratch)).unwrap();
    // In a shell, and with several at a time.
    let line = format!(
        "--check={} kernels --no_run {{}} | grep dispatch_0_ && {0} kernels --no_run {{}} | grep dispatch_6_",
        rehal()
    );
    let second = report(&scratch, &[&line, "--jobs=3"], CHAIN);
    assert_eq!(first["after"], second["after"]);
    assert_eq!(fs::read(output(&scratch)).unwrap(), bytes);
    print(&["rehal", "run", "--device=local-sync", &output(&scratch)]);
}

#[test]
fn commands_that_fail_or_hang_or_do_not_exist() {
    let scratch = Scratch::new();
    let path = capture(CHAIN);
    let out = output(&scratch);
    let fails = |words: &[&str]| fail(&[&["rehal", "reduce", &path, "-o", &out], words].concat());
    assert!(
        fails(&["--check=false"]).contains("the check fails for the capture itself: it exited with status 1")
    );
    assert!(!fails(&["--check=false"]).contains("\n\n"));
    let printing = fails(&["--check=echo 'the reason' >&2; exit 7; : {}"]);
    assert!(printing.contains("it exited with status 7\nthe reason"), "{printing}");
    assert!(fails(&["--check=/no/such/program"]).contains("starting '/no/such/program' for a check"));
    assert!(fails(&["--check=kill -SEGV $$; : {}"]).contains("it was ended by signal 11"));
    let hanging = fails(&["--check=sleep 600 & sleep 600; : {}", "--check_timeout=50ms"]);
    assert!(hanging.contains("it took longer than --check_timeout allows"), "{hanging}");
    assert!(fails(&["--check=a 'b"]).contains("a quotation mark is not closed"));
    assert!(fails(&["--check=a | b"]).contains("does not contain {}"));
    assert!(!scratch.path("out.ireereplay").exists());
    // Only what hangs is left out.
    let check = format!("--check={} dump {{}} | grep -q 'scope_begin' || sleep 600", rehal());
    let report = report(&scratch, &[&check, "--check_timeout=5s", "--jobs=8"], "add4.add.local-sync");
    assert_eq!(report["after"]["scopes"], 1, "{report}");
    assert!(report["timeout_count"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn limits_and_interrupts_keep_the_best_so_far() {
    let scratch = Scratch::new();
    let size = |scratch: &Scratch| fs::metadata(output(scratch)).unwrap().len();
    let ran = reduce(&scratch, &["--check=true", "--max_checks=2"], CHAIN);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stdout.contains("not minimal: --max_checks is reached"), "{ran:?}");
    let ran = reduce(&scratch, &["--check=sleep 0.01; : {}", "--max_time=1ms"], CHAIN);
    assert!(ran.status == Some(2) && ran.stdout.contains("not minimal: --max_time is over"), "{ran:?}");
    // Ctrl-C in the fifth check, which does not end by itself.
    let count = scratch.path("count");
    let check = script(
        &scratch,
        &format!(
            "echo x >> {0}; test $(wc -l < {0}) -lt 5 || {{ kill -INT $PPID; sleep 600; }}",
            count.display()
        ),
    );
    let ran = reduce(&scratch, &[&format!("--check={check}")], CHAIN);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stdout.contains("not minimal: interrupted"), "{ran:?}");
    assert!(size(&scratch) < fs::metadata(capture(CHAIN)).unwrap().len());
    print(&["rehal", "dump", &output(&scratch)]);
}

#[test]
fn what_is_refused() {
    let scratch = Scratch::new();
    let path = capture(CHAIN);
    let out = output(&scratch);
    for (words, part) in [
        (&["-o", &out][..], "--check is missing"),
        (&["--check=true"], "--output is missing"),
        (&["--check=", "-o", &out], "--check"),
        (&["--check=true", "-o", &path], "which is read"),
        (&["--check=crash", "--against=x", "-o", &out], "--against is only for --check=wrong"),
        (&["--check=true", "--slower_than=1s", "-o", &out], "--slower_than is only for --check=slow"),
        (&["--check=slow", "--jobs=2", "-o", &out], "--jobs with --check=slow"),
        (&["--check=true", "--check_timeout=never", "-o", &out], "check_timeout"),
        (&["--check=wrong", "-o", &out], "nothing to compare with"),
        (&["--check=wrong", "--against=/no/such", "-o", &out], "/no/such"),
        (&["--check=true", "-o", "/no/such/out"], "the directory '/no/such' does not exist"),
    ] {
        let error = fail(&[&["rehal", "reduce", "--device=local-sync", &path], words].concat());
        assert!(error.contains(part), "{words:?}: {error}");
        assert_eq!(error.matches("\n  try: ").count(), 1, "{words:?}: {error}");
    }
    let text = scratch.file("text", "not a capture");
    fail(&["rehal", "reduce", "--check=true", &text, "-o", &out]);
    let gone = scratch.path("gone").to_str().unwrap().to_string();
    fail(&["rehal", "reduce", "--check=true", &gone, "-o", &out]);
    let full = run(&["rehal", "reduce", "--check=true", &path, "-o", "/dev/full"]);
    assert!(full.status == Some(1) && full.stdout.is_empty(), "{full:?}");
    assert!(!scratch.path("out.ireereplay").exists());
}

#[test]
fn a_result_on_standard_output_has_its_report_on_standard_error() {
    let path = capture("add4.add.local-sync");
    let output =
        crate::common::command("rehal").args(["reduce", "--check=true", &path, "-o", "-"]).output().unwrap();
    assert!(output.status.success());
    assert!(output.stdout.starts_with(b"IRRP"), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("minimal: "), "{output:?}");
}
