//! `rehal compare`: right and wrong kernels, tables, and what is refused. No test depends on how fast a
//! kernel is, except on one that does thousands of times as much.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use crate::common::{Ran, Scratch, capture, command, fail, fixture, print, record_bound, run, write_kernel};
use serde_json::Value;

const ADD: &str = "add_dispatch_0_elementwise_4_f32";
const PADDED: &str = "padded_dispatch_0_elementwise_40_f32";
const SUM: &str = "binding_2[i] = binding_0[i] + binding_1[i];";
const WRONG: &str = "binding_2[i] = binding_0[i] - binding_1[i];";
const SLOW: &str = "for (volatile int j = 0; j < 100000; ++j) {} binding_2[i] = binding_0[i] + binding_1[i];";

const REMEMBERS: &str = "\nwrong    with fresh values of its inputs, it computes something else: ";

const CRASH: &str = "*(volatile int *)(uintptr_t)8 = 0; binding_2[i] = 0;";

/// Output of a kernel is printed on standard error, and is not taken for a result.
#[test]
fn kernels_that_print_or_exit_are_compared() {
    let scratch = Scratch::new();
    let (printing, exiting) = (scratch.path("printing.c"), scratch.path("exiting.c"));
    kernel(&printing, &format!("extern int puts(const char *); puts(\"printed\"); {SUM}"));
    kernel(&exiting, "extern void _exit(int); _exit(5); binding_2[i] = 0;");
    let ran = compare(&[&with(&printing), &with(&exiting), "--cache=warm"]);
    assert!(is_right(&ran), "{ran:?}");
    assert!(ran.stderr.contains("printed\n") && !ran.stdout.contains("printed"), "{ran:?}");
    let last: Vec<_> = ran.stdout.lines().rev().take(3).collect();
    assert!(last[0].ends_with("exiting.c   failed: its process ended with status 5"), "{ran:?}");
    assert!(last[1].contains("printing.c  warm "), "{ran:?}");
    assert_eq!(last[2], format!("2 replacements of {ADD}"));
}

/// A process that ends for another reason than a crash, such as lack of memory, says nothing about what its
/// kernel computes.
#[test]
fn a_process_that_is_ended_from_outside_is_an_error_and_not_a_wrong_kernel() {
    let scratch = Scratch::new();
    for (name, body, expected) in [
        ("killed.c", "extern int raise(int); raise(9); binding_2[i] = 0;", "ended by signal 9, as when"),
        (
            "truncated.c",
            "extern void _exit(int); extern int dprintf(int, const char *, ...); dprintf(2, \"a file was truncated\"); _exit(1); \
             binding_2[i] = 0;",
            "a file was truncated",
        ),
    ] {
        let path = scratch.path(name);
        kernel(&path, body);
        let ran = compare(&[&with(&path)]);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
        assert!(ran.stderr.contains(expected), "{ran:?}");
    }
}

/// Writes a kernel in C with this body.
fn kernel(path: &Path, body: &str) {
    write_kernel(path, &capture("add4.add.local-sync"), ADD, body);
}

/// Words for `local-sync`, unless they name a device.
fn words<'a>(with: &'a [&'a str]) -> Vec<&'a str> {
    let mut words = vec!["rehal", "compare", "--precision=50%", "--max_time=1h"];
    if !with.iter().any(|it| it.starts_with("--device=")) {
        words.push("--device=local-sync");
    }
    words.extend(with);
    words
}

/// Compares with kernels in a fixture of one dispatch.
fn compare(with: &[&str]) -> Ran {
    let (function, path) = (format!("--function={ADD}"), capture("add4.add.local-sync"));
    run(&words(&[with, &[&function, &path]].concat()))
}

/// Whether a replacement is right. Whether it is slower, or that cannot be told, is a matter of time.
fn is_right(ran: &Ran) -> bool {
    matches!(ran.status, Some(0 | 3 | 4))
}

fn with(path: &Path) -> String {
    format!("--with={}", path.display())
}

#[test]
fn a_right_kernel_is_timed() {
    let scratch = Scratch::new();
    let source = scratch.path("kernel.c");
    kernel(&source, SUM);
    let ran = compare(&[&with(&source)]);
    // Whether it is faster is not known.
    assert!(is_right(&ran), "{ran:?}");
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(lines[0], format!("{} for {ADD}", source.display()));
    assert_eq!(lines[1], "right    1 dispatch and 2 host reads are the same");
    for part in
        ["\nwarm     ", "\ncold     ", " of the captured time (95 % interval ", " instead of ", "steal time "]
    {
        assert!(ran.stdout.contains(part), "{part}: {ran:?}");
    }
    assert!(
        ran.stdout.contains(" of all threads; stopped because the interval is narrow enough after "),
        "{ran:?}"
    );
    assert!(lines.len() < 24, "a screen");

    let ran = compare(&[&with(&source), "--format=json", "--cache=warm"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["header"]["schema"], "rehal.compare/1");
    let candidate = &report["candidates"][0];
    assert_eq!((&report["function"], &candidate["outcome"]), (&ADD.into(), &"right".into()));
    assert_eq!(candidate["verification"]["outcome"], "same");
    assert_eq!(candidate["after_timing"]["outcome"], "same");
    let timings = candidate["timings"].as_array().unwrap();
    assert_eq!((timings.len(), &timings[0]["cache"]), (1, &"warm".into()));
    assert_eq!((&timings[0]["timed_by"], &timings[0]["stopped"]), (&"processor".into(), &"precision".into()));
    let pairs = ["pair_count", "preempted_pair_count"].map(|it| timings[0][it].as_u64().unwrap());
    assert!(timings[0]["batch_count"].as_u64() >= Some(8) && pairs[0] + pairs[1] >= 40, "{report}");
    assert_eq!(timings[0]["margin"], 0.05);
    let interval: Vec<f64> = serde_json::from_value(timings[0]["ratio_interval"].clone()).unwrap();
    let ratio = timings[0]["ratio"].as_f64().unwrap();
    assert!(interval[0] <= ratio && ratio <= interval[1], "{report}");
    assert_eq!(
        (&timings[0]["shapes"][0]["record"], &timings[0]["shapes"][0]["count"]),
        (&17.into(), &1.into())
    );
}

#[test]
fn a_kernel_that_takes_most_of_the_time_is_recognized_or_has_status_1() {
    let scratch = Scratch::new();
    let source = scratch.path("kernel.c");
    let compare = |flags: &[&str]| {
        let (function, path) = (format!("--function={ADD}"), capture("add4.add.local-sync"));
        let fixed = ["rehal", "compare", "--device=local-sync", &function, &path];
        run(&[&fixed[..], flags].concat())
    };
    // Four items of a fifth of a second or more, and a time in which there are not eight batches.
    kernel(&source, &format!("for (volatile long j = 0; j < 100000000; ++j) {{}} {SUM}"));
    let with = with(&source);
    let slow = compare(&[&with, "--max_time=1s"]);
    assert_eq!(slow.status, Some(3), "{slow:?}");
    assert!(
        slow.stdout.contains("\nwarm     slower: ") && slow.stdout.contains(" (95 % interval "),
        "{slow:?}"
    );
    assert!(slow.stdout.contains("stopped because it takes many times as long after "), "{slow:?}");
    assert!(!slow.stdout.contains("\ncold "), "{slow:?}");
    // Compared with one that takes as long, nothing can be told in that time.
    let other = scratch.path("other.c");
    kernel(&other, &format!("for (volatile long j = 0; j < 100000001; ++j) {{}} {SUM}"));
    let baseline = format!("--baseline={}", other.display());
    let flags = [with.as_str(), &baseline, "--cache=warm", "--max_time=1s"];
    let unknown = compare(&flags);
    assert_eq!(unknown.status, Some(4), "{unknown:?}");
    assert!(
        unknown.stdout.contains("\nright ") && unknown.stdout.contains("\nwarm     cannot tell: "),
        "{unknown:?}"
    );
    let unknown = compare(&[&flags[..], &["--format=json"]].concat());
    let report: Value = serde_json::from_str(&unknown.stdout).unwrap();
    let candidate = &report["candidates"][0];
    assert_eq!((&candidate["outcome"], &candidate["is_slower"]), (&"right".into(), &Value::Null));
    assert_eq!(candidate["timings"][0]["verdict"], "cannot_tell");
}

/// A margin within which even a kernel that does thousands of times as much is not slower.
#[test]
fn the_margin_says_what_is_slower() {
    let scratch = Scratch::new();
    let source = scratch.path("kernel.c");
    kernel(&source, SLOW);
    let ran = compare(&[&with(&source), "--cache=warm", "--fail_if_slower=1e9%"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("\nwarm     not slower: "), "{ran:?}");
}

#[test]
fn a_slower_kernel_has_status_3() {
    let scratch = Scratch::new();
    let source = scratch.path("kernel.c");
    kernel(&source, SLOW);
    for device in ["--device=local-sync", "--device=local-task"] {
        let ran = compare(&[&with(&source), "--cache=warm", device]);
        assert_eq!(ran.status, Some(3), "{ran:?}");
        assert!(ran.stdout.contains("\nwarm     slower: "), "{ran:?}");
    }
}

#[test]
fn a_wrong_kernel_is_not_timed() {
    let scratch = Scratch::new();
    let source = scratch.path("kernel.c");
    kernel(&source, WRONG);
    let ran = compare(&[&with(&source), "--element_type=f32"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(
        ran.stdout.contains("\nwrong    different: 1 differs of 1 dispatch and 0 host reads\n"),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("binding 2") && ran.stdout.contains("[0] expected "), "{ran:?}");
    assert!(!ran.stdout.contains("captured time"), "{ran:?}");
    let ran = compare(&[&with(&source), "--time_wrong", "--cache=warm"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stdout.contains("\nwrong    ") && ran.stdout.contains("captured time"), "{ran:?}");
    // Within a tolerance it is right.
    let tolerance = "--tolerance=*:f32:abs=1000";
    let ran = compare(&[&with(&source), "--element_type=f32", tolerance, "--cache=warm"]);
    assert!(is_right(&ran), "{ran:?}");
    assert!(ran.stdout.contains("of them within the tolerance") && ran.stderr.is_empty(), "{ran:?}");
    // The name of the function says the type too.
    let ran = compare(&[&with(&source), tolerance, "--cache=warm"]);
    assert!(is_right(&ran), "{ran:?}");
    let inferred = format!("\n         tolerated as f32: {ADD} (as the function's name says)\n");
    assert!(ran.stdout.contains(&inferred) && ran.stderr.is_empty(), "{ran:?}");
    // Others are named.
    let ran = compare(&[&with(&source), "--tolerance=*:f16:abs=1000"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stderr.starts_with("warning: --tolerance=*:f16:... applied to nothing: "), "{ran:?}");
}

/// Without `--tolerance`, a kernel that adds in another order is right, and one that computes something else
/// is not.
#[test]
fn what_rounding_explains_is_right() {
    const SQUARE: &str = "chain_dispatch_0_matmul_24x24x24_f32";
    let scratch = Scratch::new();
    let (whole, source) = (capture("chain.chain.local-sync"), scratch.path("kernel.c"));
    let body = |sum: &str, after: &str| {
        let term = "#define TERM(k) (binding_0[i / 24 * 24 + (k)] * binding_0[(k) * 24 + i % 24])\n";
        format!("if (i < 576) {{\n{term}{sum} binding_1[i] = sum; {after} }}")
    };
    let run_with = |body: &str, flags: &[&str]| {
        write_kernel(&source, &whole, SQUARE, body);
        let function = format!("--function={SQUARE}");
        run(&words(&[&["--cache=warm", &function, &with(&source), &whole], flags].concat()))
    };
    const IN_ORDER: &str = "float sum = 0; for (int k = 0; k < 24; ++k) sum += TERM(k);";
    for sum in [
        IN_ORDER,
        "float sum = 0; for (int k = 23; k >= 0; --k) sum += TERM(k);",
        "float a[4] = {0}; for (int k = 0; k < 24; ++k) a[k % 4] += TERM(k); float sum = a[0] + a[1] + (a[2] + a[3]);",
        "float a = 0, b = 0; for (int k = 0; k < 12; ++k) { a += TERM(k); b += TERM(k + 12); } float sum = a + b;",
        "double all = 0; for (int k = 0; k < 24; ++k) all += (double)TERM(k); float sum = (float)all;",
    ] {
        let ran = run_with(&body(sum, ""), &[]);
        assert!(is_right(&ran), "{sum}: {ran:?}");
        let is_same = !ran.stdout.contains("1 of them up to rounding");
        let line = format!("right up to rounding: {SQUARE} (f32): differs by up to ");
        assert_eq!(ran.stdout.contains(&line), !is_same, "{ran:?}");
        assert!(!is_same || sum == IN_ORDER, "{sum}: {ran:?}");
    }
    const FEWER_BITS: &str = "union { float number; uint32_t bits; } it = {0}; \
         for (int k = 0; k < 24; ++k) { it.number += TERM(k); it.bits &= 0xffffe000; } float sum = it.number;";
    for (sum, after) in [
        ("float sum = 0; for (int k = 0; k < 23; ++k) sum += TERM(k);", ""),
        ("float sum = 0; for (int k = 1; k < 25; ++k) sum += TERM(k % 24 + k / 24);", ""),
        (FEWER_BITS, ""),
        (IN_ORDER, "if (i == 100) binding_1[i] *= 1.0005f;"),
        (IN_ORDER, "if (i == 100) binding_1[i] = binding_1[99];"),
        (IN_ORDER, "if (i >= 552) binding_1[i] = 0;"),
        (IN_ORDER, "if (i == 100) binding_1[i] = __builtin_nanf(\"\");"),
    ] {
        let ran = run_with(&body(sum, after), &[]);
        assert_eq!(ran.status, Some(2), "{sum} {after}: {ran:?}");
        assert!(ran.stdout.contains("\nwrong    different: 1 differs of 1 dispatch"), "{ran:?}");
        assert!(ran.stdout.contains("scale of rounding") || after.contains("nan"), "{ran:?}");
    }
    // A tolerance that is stated counts, and the report names it.
    let reversed = body("float sum = 0; for (int k = 23; k >= 0; --k) sum += TERM(k);", "");
    let ran = run_with(&reversed, &["--tolerance=*:f32:ulp=0"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stdout.contains(&format!("if it is right: --tolerance='{SQUARE}:f32:ulp=")), "{ran:?}");
    let ran = run_with(&reversed, &["--format=json"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let found = &report["candidates"][0]["verification"];
    assert_eq!(found["rounded_count"], 1, "{report}");
    let rounding = &found["rounding"][0];
    let of = |name: &str| rounding[name].as_f64().unwrap();
    assert!(of("multiple") > 0.0 && of("multiple") <= of("limit") && of("scale_ulps") >= 1.0, "{report}");
    assert_eq!((&rounding["function"], &rounding["is_ill_conditioned"]), (&SQUARE.into(), &false.into()));
}

/// Its results are right, with these bytes next to its bindings and in its output.
#[test]
fn a_kernel_that_writes_beyond_its_bindings_or_reads_unwritten_memory_is_wrong() {
    let scratch = Scratch::new();
    let source = scratch.path("kernel.c");
    kernel(&source, &format!("((volatile float *)binding_2)[i + 40] = 1; {SUM}"));
    let ran = compare(&[&with(&source)]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    for part in
        ["\nwrong    memory errors in ", "1 dispatch wrote outside of the bindings", "outside of binding 2"]
    {
        assert!(ran.stdout.contains(part), "{part}: {ran:?}");
    }
    assert!(!ran.stdout.contains("captured time"), "{ran:?}");
    let unwritten = "float before = ((volatile float *)binding_2)[i]; binding_2[i] = binding_0[i] + binding_1[i] + before;";
    kernel(&source, unwritten);
    let ran = compare(&[&with(&source), "--element_type=f32"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stdout.contains("depends on bytes that were never written"), "{ran:?}");
    let ran = compare(&[&with(&source), "--format=json"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let candidate = &report["candidates"][0];
    assert_eq!((&candidate["outcome"], &candidate["is_slower"]), (&"wrong".into(), &Value::Null));
    assert_eq!(
        (&candidate["memory"]["outcome"], &candidate["verification"]["outcome"]),
        (&"different".into(), &"same".into())
    );
}

/// Writes a kernel in C with this body for the fixture that writes a part of its binding.
fn padded(path: &Path, body: &str) {
    write_kernel(path, &capture("padded.padded.local-sync"), PADDED, body);
}

/// Zeros of a fill are right by chance: with fresh values in their place, it shows who writes them.
#[test]
fn a_kernel_that_writes_or_leaves_the_zeros_of_a_fill_is_wrong() {
    let scratch = Scratch::new();
    let (whole, source, clearing) =
        (capture("padded.padded.local-sync"), scratch.path("kernel.c"), scratch.path("clearing.c"));
    let function = format!("--function={PADDED}");
    let (sums, clears) =
        ("if (i < 40) binding_2[24 + i] = binding_0[i] + binding_1[i];", "if (i < 24) binding_2[i] = 0;");
    let both = format!("{sums} {clears}");
    padded(&clearing, &both);
    let baseline = format!("--baseline={}", clearing.display());
    for (flags, body, element) in [
        (vec![], sums, None),
        (vec![], both.as_str(), Some("element 0 of binding 2 is 0e0 instead of ")),
        (vec![baseline.as_str()], &both, None),
        (vec![&baseline], sums, Some("instead of 0e0")),
    ] {
        padded(&source, body);
        let with = with(&source);
        let flags = [&flags[..], &["--cache=warm", &function, &with, &whole]].concat();
        let ran = run(&words(&flags));
        let Some(element) = element else {
            assert!(is_right(&ran), "{body}: {ran:?}");
            continue;
        };
        assert_eq!(ran.status, Some(2), "{body}: {ran:?}");
        for part in ["\nwrong    with fresh values of its inputs, it computes something else: ", element] {
            assert!(ran.stdout.contains(part), "{body}: {ran:?}");
        }
    }
}

/// On one thread, in the usual order, its results are right.
#[test]
fn a_kernel_whose_workgroups_race_is_wrong() {
    const SQUARE: &str = "chain_dispatch_0_matmul_24x24x24_f32";
    let scratch = Scratch::new();
    let (whole, source, stub) =
        (capture("chain.chain.local-sync"), scratch.path("kernel.c"), scratch.path("stub.c"));
    let function = format!("--function={SQUARE}");
    print(&["rehal", "kernel", "stub", "--no_run", &function, &whole, "-o", stub.to_str().unwrap()]);
    let stub = fs::read_to_string(&stub).unwrap();
    let sum = |from: usize, to: usize, row: &str, column: &str| {
        let product = format!("binding_0[{row} * 24 + k] * binding_0[k * 24 + {column}]");
        format!("float sum = 0; for (int k = {from}; k < {to}; ++k) sum += {product};")
    };
    let own = format!("if (i < 576) {{ {} binding_1[i] = sum; }}", sum(0, 24, "i / 24", "i % 24"));
    // Of the three workgroups, two have results to write: the first one the elements below 384.
    let added = format!(
        "if (i == 500) {{ {} binding_1[0] += sum; }} if (i == 0) {{ {} binding_1[0] = sum; }} else {own}",
        sum(12, 24, "0", "0"),
        sum(0, 12, "0", "0")
    );
    let read = format!("{own} if (i == 400) binding_1[400] += 0 * binding_1[0] + (binding_1[0] == 0);");
    let twice = format!("{own} if (i == 400) {{ {} binding_1[0] = sum; }}", sum(0, 24, "0", "0"));
    // What a later workgroup overwrites: 0 before, in the usual order.
    let early = format!("if (i == 3) binding_1[1100] = binding_1[500]; {own}");
    for (body, is_race, order_shows) in [
        (&own, false, false),
        (&twice, false, false),
        (&added, true, true),
        (&read, true, false),
        (&early, true, true),
    ] {
        fs::write(
            &source,
            stub.replacen("// Compute item i here.", body, 1).replacen("return 1;", "return 0;", 1),
        )
        .unwrap();
        let tolerance = "--tolerance=*:f32:rel=1e-5";
        let ran = run(&words(&["--cache=warm", tolerance, &function, &with(&source), &whole]));
        match is_race {
            true => {
                assert_eq!(ran.status, Some(2), "{body}: {ran:?}");
                assert!(ran.stdout.contains("wrong    workgroups depend on each other"), "{body}: {ran:?}");
                let element = if body == &early { 1100 } else { 400 * usize::from(!order_shows) };
                assert!(ran.stdout.contains(&format!("[{element}] expected")), "{ran:?}");
            }
            false => assert!(is_right(&ran), "{body}: {ran:?}"),
        }
        let ran = run(&words(&["--atomics", "--cache=warm", tolerance, &function, &with(&source), &whole]));
        // That one is wrong in another way too: it reads what was never written.
        assert_eq!(is_right(&ran), body != &early, "{body}: {ran:?}");
        let replaced = format!("--replay_executable_substitution={SQUARE}={}", source.display());
        let ran = run(&["rehal", "verify", "--device=local-sync", tolerance, &replaced, &whole]);
        assert_eq!(ran.status, Some(if order_shows { 2 } else { 0 }), "{body}: {ran:?}");
        assert_eq!(ran.stdout.contains("workgroups race: "), order_shows, "{body}: {ran:?}");
    }
}

#[test]
fn a_kernel_that_remembers_its_results_is_wrong() {
    let scratch = Scratch::new();
    let source = scratch.path("kernel.c");
    // It is called once for each item.
    kernel(&source, &format!("static int calls; if (++calls > 20) continue; {SUM}"));
    let ran = compare(&[&with(&source)]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    // Either repetition may come first.
    let repeated = "wrote other bytes than another dispatch with the same inputs";
    assert!(ran.stdout.contains(repeated) || ran.stdout.contains(REMEMBERS), "{ran:?}");
    assert!(!ran.stdout.contains("captured time"), "{ran:?}");
    // What it remembers is right for the captured inputs.
    let keep = "static float kept[4]; static int has[4];\n\
                if (!has[i]) { has[i] = 1; kept[i] = binding_0[i] + binding_1[i]; } binding_2[i] = kept[i];";
    kernel(&source, keep);
    let ran = compare(&[&with(&source), "--cache=warm"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stdout.contains(REMEMBERS), "{ran:?}");
    // Also only half of them.
    let half = "static float kept[40]; static int has[40]; if (i < 40) {\n\
                if (!has[i] || i % 2) kept[i] = binding_0[i] + binding_1[i];\n\
                has[i] = 1; binding_2[24 + i] = kept[i]; }";
    padded(&source, half);
    let (function, whole) = (format!("--function={PADDED}"), capture("padded.padded.local-sync"));
    let ran = run(&words(&["--cache=warm", &function, &with(&source), &whole]));
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stdout.contains(REMEMBERS), "{ran:?}");
}

/// Of what has no known element type, only the captured values are known to be in bounds.
#[test]
fn inputs_of_an_unknown_type_stay_as_captured() {
    let scratch = Scratch::new();
    let source = scratch.path("kernel.c");
    let keep = "static float kept[4]; static int has[4];\n\
                if (!has[i]) { has[i] = 1; kept[i] = binding_0[i] + binding_1[i]; } binding_2[i] = kept[i];";
    kernel(&source, keep);
    for (element_type, is_right, varied) in
        [("f32", false, ""), ("i32", true, "inputs as captured: none has a ")]
    {
        let ran = compare(&[&with(&source), &format!("--element_type={element_type}"), "--cache=warm"]);
        assert_eq!(self::is_right(&ran), is_right, "{ran:?}");
        assert!(ran.stdout.contains(varied), "{ran:?}");
    }
    kernel(&source, SUM);
    let ran = compare(&[&with(&source), "--cache=warm"]);
    assert!(ran.stdout.contains("each pair had fresh values in bindings 0, 1, 2\n"), "{ran:?}");
    let ran = compare(&[&with(&source), "--cache=warm", "--format=json"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let shape = &report["candidates"][0]["timings"][0]["shapes"][0];
    assert_eq!(shape["varied_bindings"], serde_json::json!([0, 1, 2]), "{report}");
}

/// Changed, they might be out of bounds.
#[test]
fn integers_among_numbers_stay_as_captured() {
    let scratch = Scratch::new();
    let body = |more: &str| format!("binding_2[i] = binding_0[i] * ((const int32_t *)binding_1)[i]{more};");
    let bindings = ["4xf32=1,2,3,4", "4xi32=1,2,-3,400", "4xf32=7"].map(String::from);
    let path = record_bound(&scratch, &body(""), bindings);
    let source = scratch.path("kernel.c");
    kernel(&source, &body(" + 0"));
    let function = format!("--function={ADD}");
    let ran = run(&words(&["--cache=warm", "--format=json", &function, &with(&source), &path]));
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let shape = &report["candidates"][0]["timings"][0]["shapes"][0];
    assert_eq!(shape["varied_bindings"], serde_json::json!([0, 2]), "{report}");
}

/// Changed inputs may be out of bounds for the captured kernel, too: that is the comparison's doing.
#[test]
fn a_kernel_that_crashes_with_other_inputs_is_wrong_unless_the_captured_one_fails_as_well() {
    let scratch = Scratch::new();
    let source = scratch.path("picky.c");
    kernel(&source, &format!("if (binding_0[i] != i + 1) {{ {CRASH} }} {SUM}"));
    let ran = compare(&[&with(&source), "--cache=warm"]);
    assert!(ran.status == Some(2) && ran.stderr.contains("with other inputs, "), "{ran:?}");
    let why = "with fresh values of its inputs, which the captured kernel takes, it fails: a kernel crashed";
    assert!(ran.stdout.contains(why), "{ran:?}");
    let baseline = format!("--baseline={}", source.display());
    let right = scratch.path("right.c");
    kernel(&right, SUM);
    let ran = compare(&[&with(&right), &baseline, "--cache=warm"]);
    assert!(is_right(&ran) && ran.stderr.contains("with other inputs, "), "{ran:?}");
    assert!(ran.stdout.contains("inputs as captured: with others, "), "{ran:?}");
    let report = compare(&[&with(&right), &baseline, "--cache=warm", "--format=json"]);
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let candidate = &report["candidates"][0];
    assert_eq!(candidate["timings"][0]["shapes"][0]["varied_bindings"], serde_json::json!([]), "{report}");
}

/// Computing takes thousands of times as long as remembering: it is paid for in each repetition.
#[test]
fn a_kernel_that_compares_its_inputs_with_the_last_ones_gains_nothing() {
    let scratch = Scratch::new();
    let (honest, cheat) = (scratch.path("honest.c"), scratch.path("cheat.c"));
    kernel(&honest, SLOW);
    let remember = "static float a[4], b[4], sum[4]; static int has[4];\n\
         if (!has[i] || a[i] != binding_0[i] || b[i] != binding_1[i]) {\n\
         for (volatile int j = 0; j < 100000; ++j) {} has[i] = 1; a[i] = binding_0[i]; b[i] = binding_1[i]; sum[i] = a[i] + b[i]; }\n\
         binding_2[i] = sum[i];";
    kernel(&cheat, remember);
    let baseline = format!("--baseline={}", honest.display());
    let ran = compare(&[&with(&cheat), &baseline, "--format=json"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let candidate = &report["candidates"][0];
    assert_eq!(candidate["outcome"], "right");
    for timing in candidate["timings"].as_array().unwrap() {
        assert_eq!(timing["shapes"][0]["varied_bindings"], serde_json::json!([0, 1, 2]));
        assert!(timing["ratio"].as_f64() > Some(0.5), "{report}");
    }
}

#[test]
fn a_kernel_is_compared_with_a_baseline() {
    let scratch = Scratch::new();
    let (old, new) = (scratch.path("old.c"), scratch.path("new.c"));
    kernel(&old, SUM);
    kernel(&new, SLOW);
    let baseline = format!("--baseline={}", old.display());
    let slower = compare(&[&with(&new), &baseline, "--cache=warm"]);
    assert_eq!(slower.status, Some(3), "{slower:?}");
    assert!(slower.stdout.contains(" of the baseline time "), "{slower:?}");
    kernel(&old, WRONG);
    let different = compare(&[&with(&new), &baseline, "--cache=warm"]);
    assert_eq!(different.status, Some(2), "{different:?}");
    // The baseline of all of them.
    let both = [with(&new), with(&old)];
    let ranked = compare(&[&both[0], &both[1], &baseline, "--cache=warm"]);
    assert!(is_right(&ranked), "{ranked:?}");
    assert!(ranked.stdout.contains("new.c  wrong: "), "{ranked:?}");
}

#[test]
fn the_replacements_of_a_directory_are_ranked() {
    let scratch = Scratch::new();
    let directory = scratch.path("candidates");
    fs::create_dir(&directory).unwrap();
    for (name, body) in [
        ("a_broken.c", "nothing_here = 1;"),
        ("a_crashing.c", CRASH),
        ("b_wrong.c", WRONG),
        ("c_slow.c", SLOW),
        ("d_right.c", SUM),
    ] {
        kernel(&directory.join(name), body);
    }
    fs::write(directory.join("notes.txt"), "not a kernel").unwrap();
    let ran = compare(&[&with(&directory), "--cache=warm", "--element_type=f32"]);
    let lines: Vec<_> = ran.stdout.lines().collect();
    let names: Vec<_> = lines[1..].iter().map(|line| line.split_whitespace().next().unwrap()).collect();
    let expected =
        ["d_right.c", "c_slow.c", "b_wrong.c", "a_crashing.c", "a_broken.c"].map(|name| directory.join(name));
    assert_eq!(names, expected.each_ref().map(|path| path.to_str().unwrap()), "{ran:?}");
    assert_eq!(lines[0], format!("5 replacements of {ADD}"));
    assert!(lines[2].contains("  warm ") && lines[2].ends_with(" slower"), "{ran:?}");
    assert!(lines[3].contains("  wrong: record #17, binding 2, element 0: expected "), "{ran:?}");
    assert!(lines[4].contains("  crashed: ") && lines[4].contains(ADD), "{ran:?}");
    assert!(lines[5].contains("  failed: ") && lines[5].contains("does not compile"), "{ran:?}");
    assert!(ran.stderr.contains("SIGSEGV") && ran.stderr.contains("nothing_here"), "{ran:?}");
    // Alone, the slow one decides.
    let slow = compare(&[&with(&expected[1]), &with(&expected[2]), "--cache=warm"]);
    assert_eq!(slow.status, Some(3), "{slow:?}");
    let wrong = compare(&[&with(&expected[2]), &with(&expected[3]), "--format=json"]);
    assert_eq!(wrong.status, Some(2), "{wrong:?}");
    let report: Value = serde_json::from_str(&wrong.stdout).unwrap();
    let outcomes: Vec<_> =
        report["candidates"].as_array().unwrap().iter().map(|it| it["outcome"].clone()).collect();
    assert_eq!(outcomes, ["wrong", "crashed"]);
    assert!(report["candidates"][1]["error"].as_str().unwrap().contains("SIGSEGV"), "{report}");
    let none = compare(&[&with(&expected[3]), &with(&expected[4])]);
    assert_eq!(none.status, Some(2), "{none:?}");
    // Alone, too, a replacement that crashes is wrong.
    let crashed = compare(&[&with(&expected[3])]);
    assert_eq!(crashed.status, Some(2), "{crashed:?}");
    assert!(crashed.stdout.contains("a_crashing.c  crashed: "), "{crashed:?}");
    assert!(crashed.stderr.contains("SIGSEGV") && crashed.stderr.contains(ADD), "{crashed:?}");
    // So is one that crashes later, in a slice, which has ids of its own.
    let path = scratch.path("later.c");
    kernel(&path, &format!("static int calls; if (++calls > 20) {CRASH} {SUM}"));
    let crashed = compare(&[&with(&path)]);
    assert_eq!(crashed.status, Some(2), "{crashed:?}");
    for part in ["of executable 4 ('kernel'), workgroup", "at: record #17, offset "] {
        assert!(crashed.stderr.contains(part), "{crashed:?}");
    }
}

#[test]
fn a_baseline_is_compiled_once() {
    let scratch = Scratch::new();
    let [base, one, other] = ["base.c", "one.c", "other.c"].map(|name| scratch.path(name));
    // With a result of its own, which only it has.
    let own = "binding_2[i] = binding_0[i] * binding_1[i];";
    for (path, body) in [(&base, own), (&one, own), (&other, SUM)] {
        kernel(path, body);
    }
    let count = scratch.path("count");
    let compiler = format!("echo \"$@\" >> {}\nexec cc \"$@\"\n", count.display());
    let compiler = format!("sh {}", scratch.file("compiler", compiler));
    let (baseline, function) = (format!("--baseline={}", base.display()), format!("--function={ADD}"));
    let whole = capture("add4.add.local-sync");
    let mut tool = command("rehal");
    let all = ["--cache=warm", &baseline, &function, &with(&one), &with(&other), &whole];
    tool.args(&words(&all)[1..]);
    let ran = crate::common::ran(tool.env("CC", compiler).output().unwrap());
    assert!(is_right(&ran), "{ran:?}");
    assert!(ran.stdout.contains("one.c  ") && ran.stdout.contains("other.c  wrong: record #17"), "{ran:?}");
    let compiled = fs::read_to_string(count).unwrap();
    assert_eq!(compiled.lines().count(), 3, "{compiled}");
    // What it lacks is named with its path.
    let text = fs::read_to_string(&base).unwrap().replace(ADD, "another");
    fs::write(&base, text).unwrap();
    let stderr = fail(&words(&[&baseline, &function, &with(&one), &whole]));
    assert!(stderr.contains(base.to_str().unwrap()), "{stderr}");
}

#[test]
fn kernels_of_many_shapes_and_of_slices_are_compared() {
    let scratch = Scratch::new();
    let function = "--function=chain_dispatch_1_matmul_24x24x24_f32";
    let library = scratch.file("right.so", fs::read(fixture("cts/chain.so")).unwrap());
    let library = format!("--with={library}");
    let whole = capture("chain.chain.local-sync");
    let slice = scratch.path("slice.ireereplay");
    let slice = slice.to_str().unwrap();
    print(&["rehal", "slice", "--device=local-sync", function, &whole, "-o", slice]);
    for (path, dispatches, has_many) in
        [(whole.as_str(), "13 dispatches", true), (slice, "1 dispatch", false)]
    {
        let ran = run(&words(&[function, &library, "--cache=warm", path]));
        assert!(is_right(&ran), "{ran:?}");
        assert!(ran.stdout.contains(&format!("right    {dispatches} and ")), "{ran:?}");
        assert_eq!(ran.stdout.contains("  record #"), has_many, "{ran:?}");
    }
}

#[test]
fn a_saved_source_is_compared_again() {
    let scratch = Scratch::new();
    let source = scratch.path("kernel.c");
    kernel(&source, WRONG);
    let (function, with) = (format!("--function={ADD}"), with(&source));
    let path = capture("add4.add.local-sync");
    let flags = ["--watch", "--cache=warm", &function, &with, &path];
    let words = words(&flags);
    let mut child =
        command(words[0]).args(&words[1..]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("wrong ")));
    fs::remove_file(&source).unwrap();
    kernel(&source, CRASH);
    // A source that is seen half written is an error, and is compared again once it is complete.
    assert!(lines.any(|line| line.contains("  crashed: ")));
    kernel(&source, SUM);
    assert!(lines.any(|line| line.starts_with("right ")));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn wrong_input_is_refused() {
    let scratch = Scratch::new();
    let path = capture("add4.add.local-sync");
    let function = format!("--function={ADD}");
    let source = scratch.path("kernel.c");
    kernel(&source, SUM);
    let right = with(&source);
    let broken = scratch.file("broken.c", "int f(void) { return nothing_here; }");
    let (broken, absent) = (format!("--with={broken}"), with(&scratch.path("absent.c")));
    let empty = scratch.path("empty");
    fs::create_dir(&empty).unwrap();
    let empty = with(&empty);
    let other = format!("--with={}", fixture("cts/chain.so"));
    for (words, reason) in [
        (&[function.as_str()][..], "--with is missing"),
        (&["--dispatch=0", &right], "record #0 is not a dispatch"),
        (&["--dispatch=0", &function, &right], "both --dispatch and --function are given"),
        (&["--function=add_dispatch_7", &right], "no function 'add_dispatch_7'"),
        (&[&function, &absent], "absent.c"),
        (&[&function, &empty], "has no replacements"),
        (&[&function, "--with=/dev/zero"], "is not a regular file"),
        (&[&function, &right, "--baseline=/dev/zero"], "is not a regular file"),
        (&[&function, &broken], "nothing_here"),
        (&[&function, &other], ADD),
        (&[&function, &right, "--precision=1"], "--precision"),
        (&[&function, &right, "--fail_if_slower=-1%"], "--fail_if_slower"),
        (&[&function, &right, "--max_time=60"], "--max_time"),
        (&[&function, &right, "--cache=hot"], "--cache"),
    ] {
        let stderr = fail(&[&["rehal", "compare", "--device=local-sync"], words, &[&path]].concat());
        assert!(stderr.contains(reason), "{words:?}: {stderr}");
    }
}
