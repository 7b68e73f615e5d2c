//! `rehal kernel stub` and `rehal kernel build`: kernels with a body compute what the captured ones do.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{Scratch, capture, command, fail, fixture, print, ran, run, write_kernel};

const ADD: &str = "add_dispatch_0_elementwise_4_f32";

fn reads(words: &[&str], path: &str) -> String {
    let fixed = ["iree-run-replay", "--device=local-sync", "--replay_host_reads=-"];
    print(&[&fixed, words, &[path]].concat())
}

/// Writes a stub.
fn stub(words: &[&str], function: &str, capture: &str, output: &Path) -> String {
    let function = format!("--function={function}");
    let fixed = ["rehal", "kernel", "stub", "--device=local-sync", "--force", &function];
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
        run.contains("// 1. 1 dispatch of ")
            && run.contains(" us (lower quartile of ")
            && run.contains("), the first of record #17: 1 x 1 x 1"),
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
    let stderr = stub(&["--function=add_dispatch_7", &path, "-o", to]);
    assert!(stderr.contains(&format!("no function 'add_dispatch_7'; it has: {ADD}")), "{stderr}");
    let several = stub(&[&capture("mlp.mlp.local-sync"), "-o", to]);
    assert!(
        several.contains("the capture dispatches 5 functions, and none is named: mlp_dispatch_0_"),
        "{several}"
    );
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
    let mut command = command("rehal");
    let missing = command.args(["kernel", "build", &wrong, "-o", library]).env("CC", "/nonexistent/cc");
    let ran = ran(missing.output().unwrap());
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

#[test]
fn an_edited_source_is_replaced_only_by_force() {
    let scratch = Scratch::new();
    let path = capture("add4.add.local-sync");
    let source = scratch.file("kernel.c", "edited");
    let function = format!("--function={ADD}");
    let words = ["rehal", "kernel", "stub", "--no_run", &function, &path, "-o", &source];
    let stderr = fail(&words);
    assert!(stderr.contains("kernel.c: the file exists") && stderr.contains("--force"), "{stderr}");
    assert_eq!(fs::read_to_string(&source).unwrap(), "edited");
    print(&[&words[..], &["--force"]].concat());
    assert!(fs::read_to_string(&source).unwrap().contains("iree_hal_executable_library_query"));
}

#[test]
fn the_command_in_a_stub_selects_what_its_flags_select() {
    let scratch = Scratch::new();
    let path = capture("mlp.mlp.local-sync");
    let output = scratch.path("kernel.c");
    let function = "mlp_dispatch_4_reduction_8x10_f32";
    for (flag, selector) in [("--no_run", function), ("--executable=4", "4")] {
        let text = stub(&[flag], function, &path, &output);
        let line = text.lines().find(|line| line.contains("--replay_executable_substitution=")).unwrap();
        assert!(line.contains(&format!("--replay_executable_substitution={selector}=kernel.c ")), "{line}");
    }
}

#[test]
fn a_kernel_that_ends_the_process_is_named() {
    let scratch = Scratch::new();
    let path = capture("add4.add.local-sync");
    let output = scratch.path("kernel.c");
    let text = stub(&["--no_run"], ADD, &path, &output);
    let substitution = format!("--replay_executable_substitution={ADD}={}", output.display());
    for (body, how, advice) in [
        ("abort();", "crashed with SIGABRT", "a failed assertion"),
        ("exit(0);", "called exit", "instead of ending the process"),
    ] {
        fs::write(&output, format!("#include <stdlib.h>\n{}", with_body(&text, body, true))).unwrap();
        for verb in [
            &["iree-run-replay", "--device=local-sync"][..],
            &["iree-run-replay", "--device=local-task"],
            &["rehal", "verify"],
        ] {
            let ran = run(&[verb, &[&substitution, &path]].concat());
            assert_eq!(ran.status, Some(86), "{ran:?}");
            let lines: Vec<_> = ran.stderr.lines().collect();
            assert!(lines[0].starts_with(&format!("INTERNAL; a kernel {how}: function")), "{ran:?}");
            assert!(lines[1].starts_with("  at: record #") && lines[2].contains(advice), "{ran:?}");
        }
    }
}

#[test]
fn crashes_name_the_record_of_the_submission_or_the_dispatch() {
    let scratch = Scratch::new();
    let path = capture("crash.divide-by-zero.local-sync");
    let (slice, stub) = (scratch.path("slice.ireereplay"), scratch.path("kernel.c"));
    let (slice, stub) = (slice.to_str().unwrap(), stub.to_str().unwrap());
    let expected = run(&["iree-run-replay", "--device=local-sync", &path]);
    let place = |ran: &crate::common::Ran| {
        assert_eq!(ran.status, Some(86), "{ran:?}");
        ran.stderr.lines().find(|line| line.starts_with("  at: record #")).unwrap_or_default().to_string()
    };
    // These perform the commands of a submission one by one.
    let dump = print(&["iree-dump-replay", "--format=jsonl", &path]);
    let is_dispatch = |it: &&str| it.contains(r#""operation":"command_buffer.dispatch""#);
    let dispatch: Value = serde_json::from_str(dump.lines().find(is_dispatch).unwrap()).unwrap();
    let dispatch =
        format!("  at: record #{}, offset {}, ", dispatch["sequence_ordinal"], dispatch["file_offset"]);
    assert!(!place(&expected).starts_with(&dispatch), "{expected:?}");
    for words in [
        &["kernels", &path][..],
        &["verify", "--other_device=local-sync", &path],
        &["verify", "--watch_memory", &path],
        &["slice", "--function=divide*", &path, "-o", slice],
        &["slice", "--scope=execute", &path, "-o", slice],
        &["kernel", "stub", "--function=divide_dispatch_0_elementwise_4_i64", &path, "-o", stub],
    ] {
        let ran = run(&[&["rehal"], words, &["--device=local-sync"]].concat());
        assert!(place(&ran).starts_with(&dispatch), "{words:?}: {ran:?}");
    }
}

#[test]
fn a_compilers_temporary_directory_is_private() {
    let scratch = Scratch::new();
    let source = scratch.file("kernel.c", "int f(void) { return 1; }\n");
    let (library, mode) = (scratch.path("kernel.so"), scratch.path("mode"));
    let compiler = format!(
        "for word; do last=$before; before=$word; if [ \"$last\" = -o ]; then stat -c %a \"${{word%/*}}\" > {}; fi; done\nexec cc \"$@\"\n",
        mode.display()
    );
    let compiler = scratch.file("compiler", compiler);
    let rehal = command("rehal");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "umask 0; exec \"$0\" kernel build \"$1\" -o \"$2\""]).arg(rehal.get_program());
    shell.arg(&source).arg(&library).env("CC", format!("sh {compiler}"));
    let built = ran(shell.output().unwrap());
    assert_eq!(built.status, Some(0), "{built:?}");
    assert_eq!(fs::read_to_string(&mode).unwrap().trim(), "700");
    let mut command = command("rehal");
    let missing = scratch.path("missing");
    command.args(["kernel", "build", &source, "-o", library.to_str().unwrap()]).env("TMPDIR", &missing);
    let ran = ran(command.output().unwrap());
    assert_eq!(ran.status, Some(1), "{ran:?}");
    let expected = format!("creating a temporary directory in '{}'", missing.display());
    assert!(ran.stderr.contains(&expected) && ran.stderr.contains("TMPDIR"), "{ran:?}");
}

#[test]
fn a_part_of_a_verb_is_completed() {
    for words in
        [&["rehal", "kernel"][..], &["rehal", "kernel", "stud"], &["rehal", "help", "kernel", "stud"]]
    {
        let stderr = fail(words);
        assert!(stderr.contains("name one of 'kernel stub', 'kernel build'"), "{stderr}");
    }
    let help = print(&["rehal", "help"]);
    for words in [&["help", "kernel"][..], &["kernel", "help"], &["kernel", "--help"], &["kernel", "-h"]] {
        let printed = print(&[&["rehal"], words].concat());
        assert!(printed.starts_with("Usage: rehal kernel VERB"), "{printed}");
        let listed: Vec<_> = printed.lines().filter_map(|it| it.strip_prefix("  kernel ")).collect();
        assert_eq!(listed.len(), help.matches("\n  kernel ").count(), "{printed}");
        let summary = listed[0].strip_prefix("stub ").unwrap_or_default().trim_start();
        assert!(!summary.is_empty() && help.contains(summary), "{printed}");
    }
    let guides = print(&["rehal", "kernel", "--agents_md"]);
    assert!(guides.contains("rehal kernel stub") && guides.contains("rehal kernel replay"), "{guides}");
    assert!(fail(&["rehal", "kernels2", "--help"]).contains("unknown verb 'kernels2'"));
    // A verb that has subcommands has flags of its own.
    assert!(print(&["rehal", "profile", "--help"]).contains("Usage: rehal profile [flags]"));
}

#[test]
fn a_full_directory_for_temporary_files_is_not_blamed_on_the_source() {
    let scratch = Scratch::new();
    let source = scratch.file("kernel.c", "");
    let output = scratch.path("kernel.so");
    for (message, advice) in [
        ("ld: final link failed: No space left on device", "try: make room for temporary files, "),
        ("kernel.c:1:1: error: expected an expression", "try: correct the source"),
    ] {
        let script = scratch.file("compiler", format!("echo '{message}' >&2\nexit 1\n"));
        let mut tool = command("rehal");
        tool.args(["kernel", "build", &source, "-o", output.to_str().unwrap()]);
        let ran = ran(tool.env("CC", format!("sh {script}")).output().unwrap());
        assert_eq!(ran.status, Some(1), "{ran:?}");
        assert!(ran.stderr.contains(message) && ran.stderr.contains(advice), "{ran:?}");
    }
}

#[test]
fn a_stub_of_a_kernel_for_vulkan_names_a_slice() {
    const ABS: &str = "abs_dispatch_0_elementwise";
    let scratch = Scratch::new();
    let capture = fixture("vulkan/captures/simple_abs.abs.ireereplay");
    let text = stub(&["--no_run"], ABS, &capture, &scratch.path("kernel.c"));
    for command in [
        format!(
            "rehal slice --device=vulkan --function={ABS} simple_abs.abs.ireereplay -o dispatch.ireereplay"
        ),
        format!("--device=local-task --replay_executable_substitution={ABS}=kernel.c dispatch.ireereplay"),
    ] {
        assert!(text.contains(&command), "{command} is not in\n{text}");
    }
}

/// The error of a replay with a replacement of the function, and that of a comparison.
fn refused(path: &str, replacement: &str) -> [String; 2] {
    let substitution = format!("--replay_executable_substitution={ADD}={replacement}");
    let (function, with) = (format!("--function={ADD}"), format!("--with={replacement}"));
    [
        fail(&["iree-run-replay", "--device=local-sync", &substitution, path]),
        fail(&["rehal", "compare", "--device=local-sync", &function, &with, path]),
    ]
}

#[test]
fn replacements_that_do_not_fit_are_refused_with_what_to_do() {
    let scratch = Scratch::new();
    let (native, bytecode) = (capture("add4.add.local-sync"), capture("add4.vmvx.local-sync"));
    let broken = scratch.file("broken.c", "int x = ;\n");
    for error in refused(&native, &broken) {
        assert!(error.contains("broken.c' does not compile"), "{error}");
        let place = format!("\n  at: the substitute for function or executable '{ADD}'\n");
        assert!(error.contains(&place), "{error}");
    }
    let other = scratch.file("other.c", "int other(void) { return 0; }\n");
    for error in refused(&native, &other) {
        for part in [
            &format!("; a function of '{other}' has other parameters\n"),
            &format!("the substitute for function or executable '{ADD}'"),
            "define void other(void *binding_0, void *binding_1, void *binding_2), or begin with a stub of the kernel",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!error.contains("/proc/self/fd"), "{error}");
    }
    let renamed = scratch.path("renamed.c");
    let text = stub(&["--no_run"], ADD, &native, &renamed);
    fs::write(&renamed, text.replace(ADD, "another")).unwrap();
    for error in refused(&native, renamed.to_str().unwrap()) {
        assert!(
            error.contains("it has: another\n") && error.contains("\n  try: a stub of the kernel"),
            "{error}"
        );
    }
    let of_native = scratch.path("of_native.c");
    stub(&["--no_run"], ADD, &native, &of_native);
    for error in refused(&bytecode, of_native.to_str().unwrap()) {
        assert!(error.contains("workgroup_size=[0,0,0]"), "{error}");
        assert!(error.contains("\n  try: the executable is VMVX bytecode"), "{error}");
    }
    for (name, bytes) in [("text.so", "text"), ("unknown.so", "\u{1}\u{2}\u{3}\u{4}")] {
        let [run, compare] = refused(&native, &scratch.file(name, bytes));
        assert!(run.contains("if it is of another format, name that: WHICH@FORMAT=PATH"), "{run}");
        assert!(
            compare.contains(
                "\n  try: name a source (.c, .rs, .cu), a dispatch as the compiler dumps it (.mlir)"
            ),
            "{compare}"
        );
        assert!(!compare.contains("FORMAT"), "{compare}");
    }
}

#[test]
fn names_of_functions_cannot_look_like_lines_of_a_report() {
    let scratch = Scratch::new();
    let name = b"add_0\nINTERNAL; \x1b[2J";
    let mut name = name.to_vec();
    name.resize(ADD.len(), b'x');
    let bytes = fs::read(capture("add4.add.local-sync")).unwrap();
    let path = scratch.file("capture.ireereplay", crate::common::patched(&bytes, ADD.as_bytes(), &name));
    let stub = scratch.path("kernel.c");
    let function = format!("--function={}", str::from_utf8(&name).unwrap());
    print(&["rehal", "kernel", "stub", &function, "--no_run", &path, "-o", stub.to_str().unwrap()]);
    for (index, replacement) in
        [stub.to_str().unwrap(), &fixture("cts/affine.embedded.elf")].iter().enumerate()
    {
        let substitution = format!("--replay_executable_substitution=4={replacement}");
        let directory = format!("--directory={}", scratch.path(&format!("kernels {index}")).display());
        for tool in [&["rehal", "verify"][..], &["rehal", "run"], &["rehal", "kernel", "record", &directory]]
        {
            let error = fail(&[tool, &["--device=local-sync", &substitution, &path]].concat());
            assert!(error.contains("'add_0\\nINTERNAL; \\u{1b}[2J"), "{tool:?}: {error}");
            let lines: Vec<_> = error.lines().skip(1).collect();
            assert!(lines.iter().all(|it| it.starts_with("  ")), "{tool:?}: {error}");
            assert!(!error.contains('\u{1b}'), "{tool:?}: {error}");
        }
    }
}

/// A compiler for other processors refuses the flag; one that is dropped without a word makes slower code.
#[test]
fn a_compiler_without_a_native_processor_says_so() {
    let scratch = Scratch::new();
    let (source, library) = (scratch.path("k.c"), scratch.path("k.so"));
    write_kernel(
        &source,
        &capture("add4.add.local-sync"),
        ADD,
        "binding_2[i] = binding_0[i] + binding_1[i];",
    );
    let script = "case \"$*\" in *-march=native*) echo \"cc: unknown value 'native' for '-march'\" >&2; exit 1;; esac\nexec cc \"$@\"\n";
    let compiler = format!("sh {}", scratch.file("cc", script));
    let build = |compiler: &str| {
        let mut tool = command("rehal");
        tool.args(["kernel", "build"]).arg(&source).arg("-o").arg(&library).env("CC", compiler);
        ran(tool.output().unwrap())
    };
    let note = "refuses -march=native: compiled for its default processor";
    for (compiler, is_noted) in [("cc", false), (&compiler, true)] {
        let built = build(compiler);
        assert!(built.status == Some(0) && built.stderr.contains(note) == is_noted, "{built:?}");
    }
    fs::write(&source, "int march(void) { return nothing_here; }").unwrap();
    let failed = build(&compiler);
    assert!(failed.status == Some(1) && failed.stderr.contains("nothing_here"), "{failed:?}");
}
