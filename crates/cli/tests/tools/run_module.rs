//! `iree-run-module`: all forms of inputs and results, and exit statuses.

mod arrays;

use std::process::Stdio;

use crate::common::{Ran, Scratch, command, fail, fixture, print, ran, run};

/// Calls a function of a fixture module.
fn call(module: &str, function: &str, words: &[&str]) -> Ran {
    let module = format!("--module={}", fixture(&format!("modules/{module}.vmfb")));
    run(&[&["iree-run-module", &module, &format!("--function={function}")], words].concat())
}

/// Calls a function of `values.vmfb`, which must succeed; returns the output after the `EXEC` line.
fn values(function: &str, words: &[&str]) -> String {
    let ran = call("values", function, words);
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{function} {words:?}");
    let rest = ran.stdout.strip_prefix(&format!("EXEC @{function}\n"));
    rest.unwrap_or_else(|| panic!("{}", ran.stdout)).to_string()
}

/// Calls an identity function of `values.vmfb`; returns the printed tensor.
fn echo(element_type: &str, elements: &str) -> String {
    let text = values(&format!("echo_{element_type}"), &[&format!("--input={elements}")]);
    let tensor = text.strip_prefix("result[0]: hal.buffer_view\n").and_then(|text| text.strip_suffix('\n'));
    tensor.unwrap_or_else(|| panic!("{text}")).to_string()
}

/// The commands of the reference that ended well, and what it printed.
#[test]
fn programs_print_what_the_reference_printed() {
    let scratch = Scratch::new();
    let mut count = 0;
    for entry in std::fs::read_dir(fixture("expected")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let Some(text) = text.strip_prefix("$ ").and_then(|it| it.strip_suffix("[status 0]\n")) else {
            continue;
        };
        let (line, printed) = text.split_once('\n').unwrap();
        let mut words = shlex::split(line).unwrap();
        let recording = words.iter_mut().find(|it| it.starts_with("--device_replay_output=")).unwrap();
        *recording = format!("--device_replay_output={}", scratch.path(&count.to_string()).display());
        let mut command = command(&words[0]);
        let ran = ran(command.args(&words[1..]).current_dir(fixture("")).output().unwrap());
        assert_eq!((ran.status, &*ran.stdout), (Some(0), printed), "{}: {}", path.display(), ran.stderr);
        count += 1;
    }
    assert!(count > 60, "only {count} commands");
}

#[test]
fn tensors_of_every_element_type() {
    for (element_type, given, printed) in [
        ("i1", "4xi1=true false 1 00", "4xi1=01 00 01 00"),
        ("i4", "5xi4=1 -2 7 -8 15", "5xi4=1 -2 7 -8 -1"),
        ("i8", "3xi8=-128 127 255", "3xi8=-128 127 -1"),
        ("ui8", "3xui8=0 127 255", "3xui8=0 127 255"),
        ("i16", "2xi16=-32768 0x7fff", "2xi16=-32768 32767"),
        ("si16", "2xsi16=-32768 32767", "2xsi16=-32768 32767"),
        ("i32", "2xi32=[1,-2]", "2xi32=1 -2"),
        ("ui32", "1xui32=4294967295", "1xui32=4294967295"),
        ("i64", "2xi64=9223372036854775807 -1", "2xi64=9223372036854775807 -1"),
        ("f16", "4xf16=1.5 65519 65520 6e-8", "4xf16=1.5 65504 INF 5.96046E-08"),
        ("bf16", "3xbf16=300 -inf nan", "3xbf16=300 -INF NAN"),
        ("f32", "4xf32=0.1 1e-5 1234567 123456", "4xf32=0.1 1E-05 1.23457E+06 123456"),
        ("f64", "2xf64=1e300 0x1.8p3", "2xf64=1E+300 12"),
        ("f8E4M3FN", "3xf8E4M3FN=0.3 449 1e9", "3xf8E4M3FN=0.3125 448 NAN"),
        ("f8E5M2", "2xf8E5M2=0.3 1e9", "2xf8E5M2=0.3125 INF"),
        ("f8E4M3FNUZ", "2xf8E4M3FNUZ=240 -0", "2xf8E4M3FNUZ=240 0"),
        ("f8E5M2FNUZ", "2xf8E5M2FNUZ=1 inf", "2xf8E5M2FNUZ=1 NAN"),
        ("f8E8M0FNU", "2xf8E8M0FNU=1 3", "2xf8E8M0FNU=1 4"),
        ("cf64", "2xcf64=1-2i 0000803F00000000", "2xcf64=0000803F000000C0 0000803F00000000"),
        ("f32", "0xf32=", "0xf32="),
        ("f32", "\" 3xf32 \"", "3xf32=0 0 0"),
        ("i4", "4xi4=21 43", "4xi4=1 2 3 4"),
    ] {
        assert_eq!(echo(element_type, given), printed, "{given}");
    }
}

#[test]
fn numbers() {
    let words = ["--input=-1", "--input=0x10", "--input=1e-7", "--input=1e300", "--input=true", "--input=-3"];
    let text = "result[0]: i32=-1\nresult[1]: i64=16\nresult[2]: f32=1e-07\nresult[3]: f64=1e+300\n\
                result[4]: i32=1\nresult[5]: i32=-3\n";
    assert_eq!(values("scalars", &words), text);
    let zeros = values("scalars", &["--input=(null)"; 6]);
    assert_eq!(zeros.matches("=0\n").count(), 6, "{zeros}");
}

#[test]
fn specials_and_dots() {
    let text = values("matrix", &[]);
    assert_eq!(
        text,
        "result[0]: hal.buffer_view\n\
         3x4xf32=[0 1 -2.5 1E+10][INF -INF NAN 1E-10][1.00053E-42 123457 0.1 -0]\n"
    );
    let text = values("matrix", &["--output_max_element_count=5"]);
    assert_eq!(text, "result[0]: hal.buffer_view\n3x4xf32=[0 1 -2.5 1E+10][INF...][...]\n");
    assert!(values("matrix", &["--output_max_element_count=-1"]).contains("-0]"));
}

#[test]
fn all_object_types() {
    assert_eq!(values("view", &["--input=(null)"]), "result[0]: (null)\n");
    assert_eq!(values("buffer", &["--input=&4xf32"]), "result[0]: hal.buffer\n(no printer)\n");
    assert_eq!(values("bytes", &[]), "result[0]: vm.buffer\n(no printer)\n");
    let list =
        "vm.list\nchild_list[0]: i32=7\nchild_list[1]: hal.buffer_view\n2xf32=1 1\nchild_list[2]: f32=0.5\n";
    assert_eq!(values("list", &["--input=2xf32=1"]), format!("result[0]: {list}\n"));
    let nested = values("nested", &["--input=2xf32=1"]);
    assert_eq!(nested, format!("result[0]: vm.list\nchild_list[0]: (null)\nchild_list[1]: {list}\n\n"));
}

#[test]
fn results_in_place() {
    let text = values("in_place", &["--input=4xf32=1 2 3 4", "--input=&4xf32=9"]);
    assert_eq!(text, "result[0]: hal.buffer_view\n4xf32=2 4 6 8\n");
}

#[test]
fn files_in_and_out() {
    let scratch = Scratch::new();
    let path = |name: &str| scratch.path(name).to_str().unwrap().to_string();
    let (arrays, bytes) = (path("arrays.npy"), path("bytes.bin"));
    for (how, elements) in [("@", "1 2"), ("+", "3 4 5"), ("+", "6")] {
        let count = elements.split(' ').count();
        let input = format!("--input={count}xf32={elements}");
        for output in [&arrays, &bytes] {
            assert_eq!(values("echo_f32", &[&input, &format!("--output={how}{output}")]), "");
        }
    }
    assert_eq!(std::fs::metadata(&arrays).unwrap().len(), 3 * 128 + 24);
    assert_eq!(std::fs::read(&bytes).unwrap()[16..20], 5f32.to_le_bytes());
    // `@` twice reads the same array; `+` reads the next one.
    assert_eq!(echo("f32", &format!("@{arrays}")), "2xf32=1 2");
    let module = format!("--module={}", fixture("modules/add4.vmfb"));
    let two =
        [&format!("--input=4xf32=@{bytes}"), &format!("--input=4xf32=@{bytes}")].map(|it| it.to_string());
    let sum = print(&["iree-run-module", &module, "--function=add", &two[0], &two[1]]);
    assert!(sum.ends_with("4xf32=2 4 6 8\n"), "{sum}");
    let next = format!("--input=2xf32=+{bytes}");
    let difference = [&format!("--input=1xf32=@{bytes}")].map(|it| it.to_string());
    assert_eq!(echo("f32", &format!("4xf32=+{bytes}")), "4xf32=1 2 3 4");
    let values = format!("--module={}", fixture("modules/values.vmfb"));
    let number = run(&["iree-run-module", &values, "--function=echo_f32", "--input=2xf32=+7 8"]);
    assert!(number.stderr.contains("opening '7 8'") && number.stderr.contains("without it"), "{number:?}");
    let ran = call("values", "echo_f32", &[&difference[0], &next]);
    assert!(ran.stderr.contains("expected 1 value, found more"), "{}", ran.stderr);
    let ran = call("values", "echo_f32", &[&format!("--input=*{arrays}")]);
    assert!(ran.stderr.contains("expected 1 value, found more"), "{}", ran.stderr);
}

#[test]
fn outputs_are_written_to_their_targets() {
    let scratch = Scratch::new();
    let path = scratch.path("scalars.npy");
    let path = path.to_str().unwrap();
    let inputs = ["--input=1", "--input=2", "--input=3.5", "--input=4.5", "--input=1", "--input=0"];
    let outputs =
        [format!("--output=@{path}"), format!("--output=+{path}"), "--output=".into(), "--output=-".into()];
    let mut words = inputs.to_vec();
    words.extend(outputs.iter().map(String::as_str));
    words.extend(["--output=", "--output=-"]);
    assert_eq!(values("scalars", &words), "f64=4.5\ni32=0\n");
    assert_eq!(std::fs::read(path).unwrap().len(), 128 + 4 + 128 + 8);
    let null = scratch.path("null.npy");
    assert_eq!(values("view", &["--input=(null)", &format!("--output=@{}", null.display())]), "");
    assert!(
        String::from_utf8_lossy(&std::fs::read(null).unwrap())
            .contains("'|i1', 'fortran_order': False, 'shape': (0,)")
    );
    // An unsupported type leaves the file unchanged.
    let file = scratch.file("kept.npy", "kept");
    let ran = call("values", "echo_i4", &["--input=2xi4=1", &format!("--output=@{file}")]);
    assert!(ran.stderr.contains(".npy files have no type for i4"), "{}", ran.stderr);
    assert_eq!(std::fs::read(file).unwrap(), b"kept");
}

#[test]
fn a_wrong_number_of_outputs_is_refused_before_the_call() {
    let scratch = Scratch::new();
    let kept = scratch.file("kept.npy", "kept");
    let output = format!("--output=@{kept}");
    for (words, expected) in [
        (&[&*output, "--output=-"][..], "OUT_OF_RANGE; expected 1 value, found 2\n  at: --output, "),
        (&["--expected_output=*ARRAYS"], "expected 1 value, found 0\n  at: --expected_output, "),
        (
            &["--expected_output=2xf32=1", "--expected_output=(ignored)"],
            "expected 1 value, found more\n  at: ",
        ),
    ] {
        let none = scratch.file("none.npy", "");
        let words: Vec<_> = words.iter().map(|word| word.replace("ARRAYS", &none)).collect();
        let words: Vec<_> = ["--input=2xf32=1"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let ran = call("values", "view", &words);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""), "{words:?}");
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
    assert_eq!(std::fs::read(kept).unwrap(), b"kept");
    let numbers = ["--input=1", "--input=2", "--input=3", "--input=4", "--input=1", "--input=1"];
    let ran = call("values", "scalars", &[&numbers[..], &["--output=-"]].concat());
    assert!(ran.stderr.starts_with("OUT_OF_RANGE; expected 6 values, found 1\n  at: --output, "));
    let ran = call("values", "scalars", &[&numbers[..], &["--expected_output=1"]].concat());
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.starts_with("OUT_OF_RANGE; expected 6 values, found 1\n  at: --expected_output, "));
}

/// The attributes of the missing device are 700 characters of the compiler.
#[test]
fn a_module_for_another_target_says_for_which() {
    let error = |tool: &str, module: &str, device: &str| {
        let module = format!("--module={}", fixture(&format!("modules/{module}.vmfb")));
        fail(&[tool, &module, "--function=abs", "--input=f32=-1", device])
    };
    let here = std::env::consts::ARCH;
    // Drivers that do not work here are not named.
    let has_vulkan = rehal_devices::drivers().find("vulkan").unwrap().availability().is_ok();
    let targets = if has_vulkan { "local, or =vulkan" } else { "local" };
    for tool in ["iree-run-module", "iree-benchmark-module"] {
        assert_eq!(
            error(tool, "simple_abs.cuda", "--device=local-sync").lines().collect::<Vec<_>>(),
            [
                &*format!(
                    "INCOMPATIBLE; compiled for cuda (cuda-nvptx-fb, sm_80); here: local-sync ({here})"
                ),
                "  at: module.__init+0000018A (programs/simple_abs.mlir:0:0)",
                &*format!(
                    "  try: use --device=cuda://emulator, which emulates it slowly; without a device, rehal info, dump, diff, kernels, executables, \
                     redact, slice, kernel stub and kernel disassemble read captures; to run it, compile the program for \
                     this machine: iree-compile --iree-hal-target-device={targets}"
                ),
            ]
        );
    }
    let arm = error("iree-run-module", "simple_abs.aarch64", "--device=local-task");
    let compiled = "INCOMPATIBLE; compiled for local (embedded-elf-arm_64); here: local-task (x86_64)\n";
    assert!(
        arm.starts_with(compiled)
            && arm.contains("try: compile the program for this machine's processor: ")
            && arm.contains(" --iree-llvmcpu-target-triple=x86_64-linux-gnu"),
        "{arm}"
    );
}

const SUCCESS: &str = "[SUCCESS] all function outputs matched their expected values.\n";

#[test]
fn matching_results() {
    let input = "--input=4xf32=1 2 3 4";
    for expected in [
        &["--expected_output=4xf32=1 2 3 4"][..],
        &["--expected_output=4xf32=1.00005 2 3 4"],
        &["--expected_output=4xf32=1.005 2 3 4", "--expected_f32_threshold=0.01"],
        &["--expected_output=4xf32=1.005 2 3 4", "--expected_rtol=0.01"],
        &["--expected_output=4xf32=1 2 3 4", "--equality_mode=exact"],
        &["--expected_output=(ignored)"],
    ] {
        assert_eq!(values("view", &[&[input], expected].concat()), SUCCESS, "{expected:?}");
    }
    // Scalars are compared as well, which the reference does not support.
    let inputs = ["--input=1", "--input=2", "--input=3.5", "--input=nan", "--input=1", "--input=0"];
    let expected = inputs.map(|input| input.replace("input", "expected_output"));
    let mut words = inputs.to_vec();
    words.extend(expected.iter().map(String::as_str));
    assert_eq!(values("scalars", &words), SUCCESS);
}

#[test]
fn differing_results() {
    for (expected, printed) in [
        (
            "4xf32=1 2 3 5",
            "[FAILED] result[0]: element at index 3 (4) does not match the expected (5); expected that the view is \
             equal to contents of a view of 4xf32\n  expected:\n4xf32=1 2 3 5\n  actual:\n4xf32=1 2 3 4\n",
        ),
        (
            "2x2xf32=1 2 3 4",
            "[FAILED] result[0]: metadata is 4xf32; expected that the view matches 2x2xf32; expected that the view is \
             equal to contents of a view of 2x2xf32\n  expected:\n2x2xf32=[1 2][3 4]\n  actual:\n4xf32=1 2 3 4\n",
        ),
        (
            "&4xf32",
            "[FAILED] result[0]: variant types mismatch; expected hal.buffer but got hal.buffer_view\n",
        ),
    ] {
        let expected = format!("--expected_output={expected}");
        let ran = call("values", "view", &["--input=4xf32=1 2 3 4", &expected]);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), &*format!("EXEC @view\n{printed}")));
        assert!(ran.stderr.starts_with("FAILED_PRECONDITION; results differ"), "{}", ran.stderr);
    }
    let ran = call("values", "fails", &["--input=9", "--expected_output=8"]);
    let text = "EXEC @fails\n[FAILED] result[0]: i32 values differ\n  expected: 8\n  actual: 9\n";
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), text));
}

#[test]
fn a_program_that_fails() {
    assert_eq!(values("fails", &["--input=9"]), "result[0]: i32=9\n");
    let ran = call("values", "fails", &["--input=10"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), "EXEC @fails\n"));
    for part in
        ["FAILED_PRECONDITION; x must be below ten", "`sync func @fails(%input0: i32) -> (%output0: i32)`"]
    {
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
}

#[test]
fn a_crash_report_names_the_module() {
    for tool in ["iree-run-module", "iree-benchmark-module"] {
        let module = format!("--module={}", fixture("modules/crash.vmfb"));
        let ran =
            run(&[tool, &module, "--function=gather", "--input=16xf32=1", "--input=4xi64=1099511627776"]);
        assert_eq!(ran.status, Some(86), "{}", ran.stderr);
        let advice =
            "try: the kernel accessed memory out of bounds of its bindings: check the module's inputs";
        assert!(ran.stderr.contains(advice) && !ran.stderr.contains("capture"), "{}", ran.stderr);
    }
}

#[test]
fn a_recording_of_a_program_that_crashes_has_the_dispatch() {
    let (module, scratch) = (fixture("modules/crash.vmfb"), tempfile::tempdir().unwrap());
    for device in ["local-sync", "local-task"] {
        let path = scratch.path().join(device).display().to_string();
        let ran = run(&[
            "iree-run-module",
            &format!("--device={device}"),
            &format!("--module={module}"),
            "--function=gather",
            "--input=16xf32=1",
            "--input=4xi64=1099511627776",
            &format!("--device_replay_output={path}"),
        ]);
        assert_eq!(ran.status, Some(86), "{}", ran.stderr);
        let dump = print(&["iree-dump-replay", "--recover", &path]);
        assert!(dump.contains("queue_execute("), "{device}: {dump}");
        let ran = run(&["iree-run-replay", "--recover", &format!("--device={device}"), &path]);
        assert_eq!(ran.status, Some(86), "{}", ran.stderr);
    }
}

#[test]
fn the_only_function_needs_no_name() {
    let module = fixture("modules/simple_abs.vmfb");
    let text = "EXEC @abs\nresult[0]: hal.buffer_view\nf32=4\n";
    for mode in ["preload", "mmap"] {
        let words = [&format!("--module={module}"), &format!("--module_mode={mode}")];
        assert_eq!(print(&["iree-run-module", words[0], words[1], "--input=f32=-4"]), text);
    }
    assert_eq!(print(&["rehal", "run-module", &format!("--module={module}"), "--input=f32=-4"]), text);
    let stdin = std::fs::File::open(&module).unwrap();
    let mut piped = command("iree-run-module");
    let output = piped.args(["--module=-", "--input=f32=-4"]).stdin(Stdio::from(stdin)).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), text);
}

#[test]
fn asynchronous_functions_are_awaited() {
    let module = format!("--module={}", fixture("modules/mlp.async.vmfb"));
    let plain = format!("--module={}", fixture("modules/mlp.vmfb"));
    let inputs = ["mlp_x", "mlp_w0", "mlp_w1", "mlp_w2"]
        .map(|name| format!("--input=@{}", fixture(&format!("inputs/{name}.npy"))));
    let run = |module: &str| {
        let mut words = vec!["iree-run-module", module];
        words.extend(inputs.iter().map(String::as_str));
        print(&words)
    };
    assert_eq!(run(&module), run(&plain));
}

#[test]
fn parameters_from_a_file() {
    let words = [
        format!("--module={}", fixture("modules/params.vmfb")),
        format!("--parameters=model={}", fixture("params/model.irpa")),
        format!("--input=@{}", fixture("inputs/params_x.npy")),
    ];
    let mut texts = Vec::new();
    for mode in ["file", "mmap", "preload"] {
        let mode = format!("--parameter_mode={mode}");
        texts.push(print(&["iree-run-module", &words[0], &words[1], &words[2], &mode, "--function=forward"]));
    }
    assert!(
        texts[0].contains("result[0]: hal.buffer_view\n4x16xf32=[")
            && texts.iter().all(|text| *text == texts[0])
    );
}

#[test]
fn overlapping_copies_move_bytes() {
    let scratch = Scratch::new();
    for device in ["local-sync", "local-task"] {
        let capture = scratch.path(&format!("{device}.ireereplay"));
        let flags = [format!("--device={device}"), format!("--device_replay_output={}", capture.display())];
        let flags = flags.each_ref().map(String::as_str);
        let words = [&flags[..], &["--input=1xf32=1", "--input=1xf32=2", "--output_max_element_count=4"]];
        let ran = call("overlap", "delay", &words.concat());
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{device}");
        assert!(ran.stdout.ends_with("\n1001xf32=2 1 0 0...\n"), "{}", ran.stdout);
        let ran = call(
            "overlap",
            "roll",
            &[&flags[..], &["--input=1x3xf32=1 2 3", "--input=1x3xf32=4 5 6"]].concat(),
        );
        assert!(ran.stdout.ends_with("\n4x3xf32=[0 0 0][0 0 0][1 2 3][4 5 6]\n"), "{}", ran.stdout);
        for other in ["local-sync", "local-task"] {
            let capture = capture.to_str().unwrap();
            let reads =
                print(&["iree-run-replay", &format!("--device={other}"), "--replay_host_reads=-", capture]);
            // The window: two rows of zeros, then 1 to 6.
            let rows = "0000803f0000004000004040000080400000a0400000c040";
            assert!(reads.contains(&format!("\"{}{rows}\"", "0".repeat(48))), "{reads}");
        }
    }
}

#[test]
fn recorded_calls_replay() {
    let scratch = Scratch::new();
    let capture = scratch.path("add4.ireereplay");
    let output = format!("--device_replay_output={}", capture.display());
    let ran = call("add4", "add", &["--input=4xf32=1 2 3 4", "--input=4xf32=10", &output]);
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
    assert!(ran.stdout.ends_with("4xf32=11 12 13 14\n"));
    let capture = capture.to_str().unwrap();
    let info: serde_json::Value =
        serde_json::from_str(&print(&["rehal", "info", "--format=json", capture])).unwrap();
    let scopes: Vec<_> =
        info["scopes"].as_array().unwrap().iter().map(|scope| scope["name"].clone()).collect();
    assert_eq!(scopes, ["init", "execute", "deinit"]);
    let reads = print(&["iree-run-replay", "--replay_host_reads=-", capture]);
    assert!(reads.contains("00003041000040410000504100006041"), "{reads}");
    // Without a call, there is no scope deinit.
    assert_eq!(call("add4", "zzz", &[&output]).status, Some(1));
    assert!(print(&["iree-dump-replay", capture]).contains("scopes: begin=1 end=1"));
    // The capture of a failed call is complete.
    let ran = call("dtypes", "f32", &["--input=4xf64=1", &output]);
    assert_eq!(ran.status, Some(1));
    assert!(print(&["rehal", "info", capture]).contains("yes"));
}

/// Modules and parameters are mapped while they are used, and a capture would truncate them. Inputs are read
/// after the capture is created.
#[test]
fn captures_do_not_overwrite_inputs() {
    let scratch = Scratch::new();
    let bytes = std::fs::read(fixture("modules/params.vmfb")).unwrap();
    let module = scratch.file("params.vmfb", &bytes);
    let archive = std::fs::read(fixture("params/model.irpa")).unwrap();
    let parameters = scratch.file("model.irpa", &archive);
    let array = std::fs::read(fixture("inputs/params_x.npy")).unwrap();
    let input = scratch.file("x.npy", &array);
    let link = scratch.path("link.npy");
    std::fs::hard_link(&input, &link).unwrap();
    for output in [&module, &parameters, &input, link.to_str().unwrap()] {
        let stderr = fail(&[
            "iree-run-module",
            "--device=local-sync",
            &format!("--module={module}"),
            &format!("--parameters=model={parameters}"),
            "--function=forward",
            &format!("--input=@{input}"),
            &format!("--device_replay_output={output}"),
        ]);
        assert!(stderr.contains("which is read"), "{stderr}");
    }
    assert!(std::fs::read(&module).unwrap() == bytes && std::fs::read(&parameters).unwrap() == archive);
    assert!(std::fs::read(&input).unwrap() == array);
}

/// Neither do results and reports.
#[test]
fn results_do_not_overwrite_modules() {
    let scratch = Scratch::new();
    let bytes = std::fs::read(fixture("modules/add4.vmfb")).unwrap();
    let module = scratch.file("add4.vmfb", &bytes);
    for (tool, output) in [
        ("iree-run-module", format!("--output=@{module}")),
        ("iree-run-module", format!("--output=+{module}")),
        ("iree-run-module", format!("--instrument_file={module}")),
        ("iree-benchmark-module", format!("--benchmark_out={module}")),
    ] {
        let flag = format!("--module={module}");
        let words = [tool, &flag, "--function=add", "--input=4xf32=1", "--input=4xf32=2", &output];
        let stderr = fail(&words);
        assert!(stderr.contains("which is read"), "{stderr}");
        assert!(std::fs::read(&module).unwrap() == bytes);
    }
}

/// Results would overwrite the capture or be printed into it, or the capture would not be seekable.
#[test]
fn captures_need_a_separate_regular_file() {
    let scratch = Scratch::new();
    let record = |output: &str, more: &[&str]| {
        let output = format!("--device_replay_output={output}");
        let flags = [&["--input=4xf32=1", "--input=4xf32=2", &output], more].concat();
        let ran = call("add4", "add", &flags);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
        ran.stderr
    };
    let path = scratch.path("sum.npy");
    let path = path.to_str().unwrap();
    for other in [format!("--output=@{path}"), format!("--output=+{path}")] {
        assert!(record(path, &[&other]).contains("which is written as well"));
        assert!(!std::fs::exists(path).unwrap());
    }
    // Standard output is a pipe here.
    assert!(record("/dev/stdout", &[]).contains("not seekable"));
    let printed = std::fs::File::create(scratch.path("printed")).unwrap();
    let module = format!("--module={}", fixture("modules/add4.vmfb"));
    let mut tool = command("iree-run-module");
    tool.args([&module, "--function=add", "--input=4xf32=1", "--input=4xf32=2"])
        .arg("--device_replay_output=/dev/stdout")
        .stdout(printed);
    let ran = ran(tool.output().unwrap());
    assert!(
        ran.status == Some(1) && ran.stderr.contains("is the file that output is printed to"),
        "{}",
        ran.stderr
    );
    let pipe = scratch.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(record(pipe.to_str().unwrap(), &[]).contains("not seekable"));
}

#[test]
fn traces_go_to_standard_error() {
    let ran = call("values", "fails", &["--input=3", "--trace_execution"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "EXEC @fails\nresult[0]: i32=3\n"));
    let lines: Vec<_> = ran.stderr.lines().filter(|line| line.starts_with("[module.fails+")).collect();
    assert!(
        lines[0].contains("]    %i1 = vm.const.i32 1 ") && lines.last().unwrap().contains("vm.return %i0"),
        "{lines:?}"
    );
    assert!(ran.stderr.contains("[module.__init+00000001]"), "{}", ran.stderr);
}

#[test]
fn statistics_go_to_standard_error() {
    let ran = call("add4", "add", &["--input=4xf32=1", "--input=4xf32=2", "--print_statistics"]);
    assert_eq!(
        ran.stderr,
        "Device: local-task\n[[ iree_hal_allocator_t memory statistics ]]\n  \
         HOST_LOCAL:           16B peak /           16B allocated /           16B freed /            0B live\n\
         DEVICE_LOCAL:           48B peak /           48B allocated /           48B freed /            0B live\n\n"
    );
}

#[test]
fn work_of_deinitializers_is_recorded_and_counted() {
    let scratch = Scratch::new();
    let capture = scratch.path("ends.ireereplay").display().to_string();
    let record = format!("--device_replay_output={capture}");
    let ran = call("ends", "nothing", &["--print_statistics", &record]);
    let counted = "64B peak /           64B allocated /           64B freed /            0B live";
    assert!(ran.status == Some(0) && ran.stderr.contains(counted), "{}", ran.stderr);
    let dump = print(&["iree-dump-replay", &capture]);
    let scopes = dump.lines().filter_map(|line| {
        ["scope_begin", "scope_end", "allocate_buffer"].into_iter().find(|operation| line.contains(operation))
    });
    let (begin, end) = ("scope_begin", "scope_end");
    assert_eq!(scopes.collect::<Vec<_>>(), [begin, end, begin, end, begin, "allocate_buffer", end], "{dump}");
    // Globals are freed as well.
    let ran = call("globals", "step", &["--input=4xf32=1", "--print_statistics"]);
    assert!(
        ran.stderr.lines().all(|line| !line.contains("live") || line.contains(" 0B live")),
        "{}",
        ran.stderr
    );
}

#[test]
fn several_modules_and_devices() {
    let modules =
        ["values", "simple_abs"].map(|name| format!("--module={}", fixture(&format!("modules/{name}.vmfb"))));
    let text = print(&["iree-run-module", &modules[0], &modules[1], "--input=f32=-4"]);
    assert!(text.ends_with("f32=4\n"), "{text}");
    let two = format!("--module={}", fixture("modules/two_devices.vmfb"));
    let devices = ["--device=local-sync", "--device=local-sync"];
    let text = print(&["iree-run-module", &two, devices[0], devices[1], "--input=32xf32=3"]);
    assert!(text.contains("32xf32="), "{text}");
    let lead = "--device_lead_allocator=1";
    assert_eq!(print(&["iree-run-module", &two, devices[0], devices[1], lead, "--input=32xf32=3"]), text);
    let ran = run(&[
        "iree-run-module",
        &two,
        devices[0],
        devices[1],
        "--device_lead_allocator=2",
        "--input=32xf32=3",
    ]);
    assert!(ran.status == Some(1) && ran.stderr.contains("expected an index below 2"), "{}", ran.stderr);
    let scratch = Scratch::new();
    let devices_of_inputs = ["0", "1"].map(|lead| {
        let capture = scratch.path(&format!("{lead}.ireereplay")).display().to_string();
        let (record, lead) =
            (format!("--device_replay_output={capture}"), format!("--device_lead_allocator={lead}"));
        let words = ["iree-run-module", &two, devices[0], devices[1], "--input=32xf32=3", &record, &lead];
        assert_eq!(print(&words), text, "{lead}");
        let dump = print(&["iree-dump-replay", &capture]);
        let allocation = dump.lines().find(|line| line.contains("allocator.allocate_buffer")).unwrap();
        allocation.split(' ').find(|word| word.starts_with("dev=")).unwrap().to_string()
    });
    assert_ne!(devices_of_inputs[0], devices_of_inputs[1]);
    let lead = "--device_lead_allocator=2";
    refused(&[&two, devices[0], devices[1], "--input=32xf32=3", lead], "expected an index below 2");
}

/// A program on two devices with workers of their own, its capture on two such devices in both orders, and on
/// others.
#[test]
fn devices_with_parameters_have_their_own_workers() {
    let two = format!("--module={}", fixture("modules/two_devices.vmfb"));
    let plain = ["--device=local-task", "--device=local-task"];
    let last = std::thread::available_parallelism().unwrap().get() - 1;
    let own = [0, last].map(|cpu| {
        format!("--device=local-task://?task_topology_cpu_ids={cpu},&task_worker_local_memory=65536")
    });
    let own = own.each_ref().map(String::as_str);
    let text = print(&["iree-run-module", &two, plain[0], plain[1], "--input=32xf32=3"]);
    let scratch = Scratch::new();
    let capture = scratch.path("two.ireereplay").display().to_string();
    let record = format!("--device_replay_output={capture}");
    assert_eq!(print(&["iree-run-module", &two, own[0], own[1], "--input=32xf32=3", &record]), text);
    let reads = |devices: [&str; 2], order: &str| {
        let path = scratch.path("reads.jsonl").display().to_string();
        let (reads, order) = (format!("--replay_host_reads={path}"), format!("--replay_order={order}"));
        print(&["iree-run-replay", devices[0], devices[1], &order, &reads, &capture]);
        std::fs::read_to_string(path).unwrap()
    };
    let expected = reads(plain, "serialized");
    assert!(!expected.is_empty());
    for devices in [own, [own[1], plain[0]]] {
        for order in ["serialized", "captured"] {
            assert_eq!(reads(devices, order), expected, "{devices:?}, {order}");
        }
    }
    for (uri, words) in [
        ("local-task://?task_topology_cpu_ids=65000", "CPU 65000 does not exist"),
        (
            "local-task://?task_topology_cpu_ids=1-0",
            "unexpected value '1-0' (expected numbers of logical CPUs, such as 0,2 or 0-3)",
        ),
        ("local-task://?task_topology_cpus=0", "did you mean 'task_topology_cpu_ids'?"),
        ("local-task://?task_topology_max_group_count=0", "no CPU that matches"),
    ] {
        let device = format!("--device={uri}");
        refused(&[&two, own[0], &device, "--input=32xf32=3"], words);
    }
}

#[test]
fn instrumentation_data_is_written() {
    let scratch = Scratch::new();
    let path = scratch.path("measured.bin").display().to_string();
    let file = format!("--instrument_file={path}");
    let ran = call("instruments", "main", &["--input=4xi32=1 2 3 4", &file]);
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
    assert!(ran.stdout.ends_with("4xi32=1 4 9 16\n"), "{}", ran.stdout);
    let expected: Vec<u8> = [1, 2, 3, 4].iter().flat_map(|number: &i32| number.to_le_bytes()).collect();
    assert_eq!(std::fs::read(&path).unwrap(), [b"MEASURED", &expected[..]].concat());
    // Without instrumentation data, the file is truncated.
    values("matrix", &[&file]);
    assert_eq!(std::fs::read(&path).unwrap(), b"");
    let ran = call("instruments", "main", &["--input=4xi32=1 2 3 4", "--instrument_file=/nowhere/file"]);
    assert!(
        ran.status == Some(1) && ran.stderr.contains("the directory '/nowhere' does not exist"),
        "{}",
        ran.stderr
    );
}

/// Runs a tool that must exit with status 1 and print an error with `expected` on standard error; standard
/// output may only have the `EXEC` line.
#[track_caller]
fn refused(words: &[&str], expected: &str) {
    let ran = run(&[&["iree-run-module"], words].concat());
    assert_eq!(ran.status, Some(1), "{words:?}: {}", ran.stderr);
    assert!(ran.stdout.is_empty() || ran.stdout.starts_with("EXEC @"), "{words:?}: {}", ran.stdout);
    assert!(ran.stderr.contains(expected), "{words:?}: {}", ran.stderr);
    let first = ran.stderr.lines().next().unwrap_or_default();
    assert!(first.contains("; ") && ran.stderr.lines().count() <= 3, "{words:?}: {}", ran.stderr);
}

#[test]
fn invalid_modules_and_flags() {
    let scratch = Scratch::new();
    let values = format!("--module={}", fixture("modules/values.vmfb"));
    let text = format!("--module={}", scratch.file("text.vmfb", "not a module, however long it may be read"));
    let empty = format!("--module={}", scratch.file("empty.vmfb", ""));
    let whole = std::fs::read(fixture("modules/values.vmfb")).unwrap();
    let torn = format!("--module={}", scratch.file("torn.vmfb", &whole[..whole.len() / 2]));
    for (words, expected) in [
        (&[][..], "--module is missing"),
        (&["--module=/nonexistent/x.vmfb"], "NOT_FOUND; opening '/nonexistent/x.vmfb'"),
        (&["--module=/"], "is a directory"),
        (&["--module=/dev/zero"], "is a character or block device"),
        (&["--module=x.so"], "modules in native code"),
        (&[&text], "is a text file, not a compiled module"),
        (&[&empty], "is empty, not a compiled module"),
        (&[&torn], "module"),
        (&[&values], "try: name one with --function="),
        (&[&values, "--function=nope"], "function 'nope' not found"),
        (&[&values, "--function=matrix", "--device=nope"], "driver 'nope' does not exist"),
        (
            &[&values, "--function=matrix", "--device_profiling_mode=counters"],
            "the families counters and counter-ranges require --device_profiling_counter",
        ),
        (&[&values, "--function=matrix", "--device_replay_output=/nonexistent/x"], "/nonexistent/x"),
        (&[&values, "--function=matrix", "4xf32=1"], "takes only flags"),
        (&[&values, "--function=matrix", "--inputs=1"], "did you mean --input?"),
        (
            &[&values, "--function=matrix", "--output=@/nonexistent/x"],
            "the directory '/nonexistent' does not exist",
        ),
        (
            &[&values, "--function=matrix", "--output=-", "--output=-"],
            "expected 1 value, found 2\n  at: --output",
        ),
        (&[&values, "--function=list", "--input=f32=1", "--output=@x.bin"], "a vm.list cannot be written"),
    ] {
        refused(words, expected);
    }
}

#[test]
fn invalid_inputs() {
    let scratch = Scratch::new();
    let module = format!("--module={}", fixture("modules/values.vmfb"));
    let short = scratch.file("short.bin", [0; 12]);
    let text = scratch.file("text.npy", "no array");
    let big = scratch
        .file("big.npy", b"\x93NUMPY\x01\x00\x36\x00{'descr':'<f4','fortran_order':False,'shape':(1<<60,)}");
    let huge = scratch.file(
        "huge.npy",
        b"\x93NUMPY\x01\x00\x47\x00{'descr':'<f4','fortran_order':False,'shape':(1152921504606846976,)}     ",
    );
    for (input, expected) in [
        ("", "needs a value"),
        ("4", "invalid tensor '4': the type is missing"),
        ("4xf32=1 2 3", "expected 4 elements for 4xf32, found 3"),
        ("1152921504606846976xi8=1", "cannot allocate"),
        ("1152921504606846976xi8", "cannot allocate"),
        ("@/nonexistent/x.npy", "opening '/nonexistent/x.npy'"),
        ("4xf32=@/nonexistent/x.bin", "opening '/nonexistent/x.bin'"),
        (&format!("4xf32=@{short}"), "16 bytes are needed and 12 are left"),
        (&format!("1152921504606846976xi8=@{short}"), "are needed and 12 are left"),
        (&format!("@{text}"), "not an .npy file"),
        (&format!("@{big}"), "malformed .npy header"),
        (&format!("@{huge}"), "overflows 64 bits"),
        ("4xf32=@/", "is a directory"),
    ] {
        refused(&[&module, "--function=echo_f32", &format!("--input={input}")], expected);
    }
    for (inputs, expected) in [
        (&[][..], "expected 1 input, found 0"),
        (&["--input=1xf32=1", "--input=1xf32=1"][..], "expected 1 value, found more"),
        (&["--input=1xf32=1", "--input=4"][..], "expected 1 value, found more"),
    ] {
        refused(&[&[&*module, "--function=echo_f32"], inputs].concat(), expected);
    }
    let dtypes = format!("--module={}", fixture("modules/dtypes.vmfb"));
    refused(
        &[&dtypes, "--function=f32", "--input=4xf64=1"],
        "expected f32 (21000020) but have f64 (21000040)",
    );
    refused(&[&dtypes, "--function=f32", "--input=5xf32=1"], "expected");
    for (input, expected) in [
        ("1.5", "'1.5' is not an integer (expected an i32)"),
        ("4xi32=1", "(expected an i32)"),
        ("@a.npy", "expected an i32, found a tensor"),
    ] {
        refused(&[&module, "--function=fails", &format!("--input={input}")], expected);
    }
}

#[test]
fn a_recording_that_cannot_be_written_to_its_end_is_named_and_can_be_recovered() {
    let scratch = Scratch::new();
    let path = scratch.path("capture.ireereplay").display().to_string();
    let module = fixture("modules/bigconst.vmfb");
    let tool = command("iree-run-module");
    // Blocks have 512 bytes or 1024, by the shell. The signal would end the program.
    let limited = "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", limited]).arg(tool.get_program()).args([
        "--device=local-sync",
        &format!("--module={module}"),
        "--function=scale",
        "--input=768xf32=2",
        &format!("--device_replay_output={path}"),
    ]);
    let ran = ran(shell.output().unwrap());
    assert_eq!(ran.status, Some(1), "{ran:?}");
    for part in ["; writing the capture: ", &format!("\n  at: '{path}', "), "rehal run --recover CAPTURE"] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    let recovered = run(&["rehal", "info", &path]);
    assert!(recovered.stdout.contains("never closed: ends at offset "), "{recovered:?}");
    print(&["rehal", "run", "--device=local-sync", "--recover", &path]);
    let full = fail(&["iree-run-module", &format!("--module={module}"), "--device_replay_output=/dev/full"]);
    assert!(full.contains("--device_replay_output=/dev/full\n  try: make room for the capture"), "{full}");
}
