//! `rehal kernel stub` and `rehal kernel build`: kernels with a body compute what the captured ones do.

mod common;

use std::fs;
use std::path::Path;

use common::{Scratch, capture, fail, print, run};

const ADD: &str = "add_dispatch_0_elementwise_4_f32";

fn reads(words: &[&str], path: &str) -> String {
    let fixed = ["iree-run-replay", "--device=local-sync", "--replay_host_reads=-"];
    print(&[&fixed, words, &[path]].concat())
}

/// Writes a stub.
fn stub(words: &[&str], function: &str, capture: &str, output: &Path) -> String {
    let function = format!("--function={function}");
    let fixed = ["rehal", "kernel", "stub", "--device=local-sync", &function];
    print(&[&fixed, words, &[capture, "-o", output.to_str().unwrap()]].concat());
    fs::read_to_string(output).unwrap()
}

/// The stub with a body in its loop, or in place of the loop and what precedes it.
fn with_body(text: &str, body: &str, is_in_loop: bool) -> String {
    let (start, end) = match is_in_loop {
        true => ("// Compute item i here.\n", "\n"),
        false => ("// This workgroup's share", "return 1;"),
    };
    let at = text.find(start).expect("stubs have a place for the body");
    let to = at + if is_in_loop { start.len() } else { text[at..].find(end).unwrap() };
    let with = format!("{}{body}\n{}", &text[..at], &text[to..]);
    // In Rust it is the function's last expression.
    with.replacen("return 1;", "return 0;", 1).replacen("\n    1 //", "\n    0 //", 1)
}

#[test]
fn bodies_in_c_compute_what_the_captured_kernels_do() {
    let scratch = Scratch::new();
    let matmul = "
        const float *a = (const float *)((const char *)binding_0 + constant_0);
        float *out = (float *)((char *)binding_2 + constant_1);
        for (uint32_t row = workgroup->id_x; row < 24; row += dispatch->workgroup_count_x)
          for (uint32_t column = 0; column < 24; ++column) {
            float sum = 0;
            for (uint32_t k = 0; k < 24; ++k) sum += a[row * 24 + k] * binding_1[k * 24 + column];
            out[row * 24 + column] = sum;
          }";
    let reduction = "
        for (uint32_t row = workgroup->id_x; row < 8; row += dispatch->workgroup_count_x) {
          float sum = 0;
          for (uint32_t k = 0; k < 10; ++k) sum += binding_0[row * 10 + k];
          binding_1[80 + row] = sum;
        }";
    let sums = "
        const float *product = (const float *)((const char *)binding_0 + constant_1);
        float *out = (float *)((char *)binding_1 + constant_0);
        for (uint32_t row = 0; row < constant_2; ++row) {
          float sum = 0;
          for (uint32_t k = 0; k < constant_4; ++k) sum += product[row * constant_4 + k];
          out[row] = sum;
        }";
    let abs = "if (i % 4 == 0) *(float *)(binding_1 + i) = fabsf(*(const float *)(binding_0 + i));";
    let sum = "binding_2[i] = binding_0[i] + binding_1[i];";
    let product = "binding_2[i] = binding_0[i] * binding_1[i];";
    for (name, function, body, is_in_loop) in [
        ("add4.add.local-sync", ADD, sum, true),
        // Of a system library, and of a VM program.
        ("add4.syslib.local-sync", ADD, sum, true),
        ("add4.vmvx.local-sync", ADD, sum, true),
        ("add4.mul.local-sync", "mul_dispatch_0_elementwise_4_f32", product, true),
        ("simple_abs.abs.local-sync", "abs_dispatch_0_elementwise", abs, true),
        ("dynamic.rows.local-sync", "rows_dispatch_1_reduction_DxD_f32", sums, false),
        ("mlp.mlp.local-sync", "mlp_dispatch_4_reduction_8x10_f32", reduction, false),
        ("chain.chain.local-sync", "chain_dispatch_1_matmul_24x24x24_f32", matmul, false),
    ] {
        let path = capture(name);
        let output = scratch.path("kernel.c");
        let text = stub(&[], function, &path, &output);
        fs::write(&output, with_body(&text, body, is_in_loop)).unwrap();
        let by_source = format!("--replay_executable_substitution={function}={}", output.display());
        let expected = reads(&[], &path);
        assert!(!expected.is_empty(), "{name}");
        assert_eq!(reads(&[&by_source], &path), expected, "{name}");
        let library = scratch.path("kernel.so");
        let (from, to) = (output.to_str().unwrap(), library.to_str().unwrap());
        print(&["rehal", "kernel", "build", from, "-o", to]);
        let by_library = format!("--replay_executable_substitution={function}={to}");
        assert_eq!(reads(&[&by_library], &path), expected, "{name}");
        // The workgroups of local-task run on several threads.
        let task = ["iree-run-replay", "--device=local-task", "--replay_host_reads=-", &by_library, &path];
        assert_eq!(print(&task), expected, "{name}");
        print(&["rehal", "verify", "--device=local-sync", &by_library, &path]);
        // A kernel that computes something else is noticed.
        fs::write(&output, with_body(&text, "", is_in_loop)).unwrap();
        assert_ne!(reads(&[&by_source], &path), expected, "{name}");
    }
}

#[test]
fn a_body_in_rust_computes_what_the_captured_kernel_does() {
    let scratch = Scratch::new();
    let path = capture("add4.add.local-sync");
    let output = scratch.path("kernel.rs");
    let text = stub(&["--no_run"], ADD, &path, &output);
    let body = "*binding_2.add(i) = *binding_0.add(i) + *binding_1.add(i);";
    fs::write(&output, with_body(&text, body, true)).unwrap();
    let substitution = format!("--replay_executable_substitution={ADD}={}", output.display());
    assert_eq!(reads(&[&substitution], &path), reads(&[], &path));
    let benchmark =
        ["iree-benchmark-replay", "--device=local-sync", "--benchmark_min_time=1x", &substitution];
    assert!(print(&[&benchmark, &[path.as_str()][..]].concat()).contains("process_time"));
}

#[test]
fn a_source_replaces_one_function_by_the_id_of_its_executable() {
    let scratch = Scratch::new();
    let path = capture("mlp.mlp.local-sync");
    let output = scratch.path("kernel.c");
    stub(&["--executable=4"], "mlp_dispatch_4_reduction_8x10_f32", &path, &output);
    let substitution = format!("--replay_executable_substitution=4={}", output.display());
    // Its stub fails, and the functions before it are the captured ones.
    let ran = run(&["iree-run-replay", "--device=local-sync", &substitution, &path]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.stderr.contains("'mlp_dispatch_4_reduction_8x10_f32' failed in workgroup"), "{ran:?}");
    assert!(ran.stderr.contains("it returned 1"), "{ran:?}");
}

#[test]
fn a_run_adds_times_and_directions() {
    let scratch = Scratch::new();
    let (path, output) = (capture("add4.add.local-sync"), scratch.path("kernel.c"));
    let run = stub(&[], ADD, &path, &output);
    assert!(run.contains("16 bytes, changed") && run.contains("16 bytes, unchanged"), "{run}");
    assert!(
        run.contains("// 1. 1 dispatch of ") && run.contains(" us, the first of record #17: 1 x 1 x 1"),
        "{run}"
    );
    let planned = stub(&["--no_run"], ADD, &path, &output);
    assert!(!planned.contains("changed") && planned.contains("// 1. 1 dispatch, the first"), "{planned}");
    let printed =
        print(&["rehal", "kernel", "stub", "--no_run", &format!("--function={ADD}"), &path, "-o", "-"]);
    assert!(printed.contains("rehal kernel build kernel.c -o kernel.so"), "{printed}");
}

#[test]
fn wrong_input_is_refused_and_writes_nothing() {
    let scratch = Scratch::new();
    let path = capture("add4.add.local-sync");
    let output = scratch.path("kernel.c");
    let to = output.to_str().unwrap();
    let function = format!("--function={ADD}");
    let stub = |words: &[&str]| fail(&[&["rehal", "kernel", "stub"], words].concat());
    let stderr = stub(&["--function=add_dispatch_0", &path, "-o", to]);
    assert!(stderr.contains(&format!("no function 'add_dispatch_0'; it has: {ADD}")), "{stderr}");
    assert!(stub(&[&path, "-o", to]).contains("--function is missing"));
    assert!(stub(&[&function, &path]).contains("--output is missing"));
    let stderr = stub(&[&function, &path, "-o", scratch.path("kernel.cpp").to_str().unwrap()]);
    assert!(stderr.contains("names no language of kernels"), "{stderr}");
    assert!(stub(&[&function, "--executable=77", &path, "-o", to]).contains("no executable 77"));
    assert!(stub(&[&function, "--executable=x", &path, "-o", to]).contains("--executable"));

    let library = scratch.path("kernel.so");
    let library = library.to_str().unwrap();
    let wrong = scratch.file("wrong.c", "int f(void) { return nothing_here; }");
    let build = |words: &[&str]| fail(&[&["rehal", "kernel", "build"], words].concat());
    let stderr = build(&[&wrong, "-o", library]);
    assert!(stderr.contains("wrong.c' does not compile") && stderr.contains("nothing_here"), "{stderr}");
    assert!(build(&[&path, "-o", library]).contains("is not the source of a kernel"));
    assert!(build(&[&wrong]).contains("--output is missing"));
    assert!(build(&[&wrong, "-o", &wrong]).contains("wrong.c"));
    assert!(!output.exists() && !Path::new(library).exists());
    assert_eq!(fs::read_to_string(&wrong).unwrap(), "int f(void) { return nothing_here; }");
    let mut command = common::command("rehal");
    let missing = command.args(["kernel", "build", &wrong, "-o", library]).env("CC", "/nonexistent/cc");
    let ran = common::ran(missing.output().unwrap());
    assert_eq!(ran.status, Some(1));
    assert!(ran.stderr.starts_with("UNAVAILABLE; starting the compiler '/nonexistent/cc'"), "{ran:?}");

    for tool in [&["iree-run-replay"][..], &["iree-benchmark-replay"], &["rehal", "verify"]] {
        let substitution = format!("--replay_executable_substitution={ADD}={wrong}");
        let stderr = fail(&[tool, &[substitution.as_str(), &path]].concat());
        assert!(stderr.contains("wrong.c' does not compile") && stderr.contains("nothing_here"), "{stderr}");
    }
}

#[test]
fn flags_of_the_compiler_and_its_warnings_are_passed_on() {
    let scratch = Scratch::new();
    let source = scratch.file("kernel.c", "#warning a warning\n#ifndef MINE\n#error not mine\n#endif\n");
    let library = scratch.path("kernel.so");
    let words =
        ["rehal", "kernel", "build", "--compiler_flag=-DMINE", &source, "-o", library.to_str().unwrap()];
    let ran = run(&words);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.stderr.contains("a warning") && !ran.stderr.contains("not mine"), "{ran:?}");
    assert!(fs::read(library).unwrap().starts_with(b"\x7FELF"));
}
