//! Compiles the examples and other programs in C and C++ with all warnings, and runs them with the shared
//! library under AddressSanitizer.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const FLAGS: [&str; 6] = ["-Wall", "-Wextra", "-Werror", "-g", "-O1", "-fsanitize=address"];

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn fixture(path: &str) -> PathBuf {
    at("../../fixtures").join(path)
}

/// Compiles a program.
fn compiled(source: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    // Cargo builds the library beside this test.
    let test = std::env::current_exe().unwrap();
    let library = test.parent().unwrap().join("librehal_capi.so");
    for name in ["librehal.so", "librehal.so.0"] {
        symlink(&library, directory.path().join(name)).unwrap();
    }
    let (compiler, standard) = match source.ends_with(".cpp") {
        true => ("c++", "-std=c++17"),
        false => ("cc", "-std=c11"),
    };
    let program = directory.path().join("program");
    let output = Command::new(compiler)
        .arg(standard)
        .args(FLAGS)
        // For fork and its like.
        .args(["-D_DEFAULT_SOURCE", "-pthread"])
        .arg("-I")
        .arg(at("include"))
        .arg(at(source))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(directory.path())
        .arg("-lrehal")
        .arg(format!("-Wl,-rpath,{}", directory.path().display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (directory, program)
}

fn output(program: &Path, arguments: &[&Path]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

/// The output of a program that succeeds.
fn printed(program: &Path, arguments: &[&Path]) -> String {
    let output = output(program, arguments);
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_capture_is_replayed() {
    let (_directory, program) = compiled("examples/replay.c");
    let capture = fixture("captures/add4.add.local-sync.ireereplay");
    let printed = printed(&program, &[&capture]);
    assert!(printed.contains("scope execute begins at record #"), "{printed}");
    assert!(printed.contains("binding 0: 16 bytes"), "{printed}");
    assert!(printed.contains(" host reads\n") && !printed.contains("\n0 host reads"), "{printed}");
    let failed = output(&program, &[&fixture("modules/add4.vmfb")]);
    assert_eq!(failed.status.code(), Some(1));
    let said = String::from_utf8(failed.stderr).unwrap();
    assert!(said.starts_with("INVALID_ARGUMENT; "), "{said}");
}

#[test]
fn work_is_recorded_and_replayed() {
    let (directory, program) = compiled("examples/record.c");
    let capture = directory.path().join("work.ireereplay");
    let printed = printed(&program, &[&fixture("cts/affine.embedded.elf"), &capture]);
    let expected = "computed 4 7\nreplayed 4 7\nkernel affine: 1 dispatch\n";
    assert_eq!(printed, expected);
}

#[test]
fn a_program_is_called() {
    let (_directory, program) = compiled("examples/call.c");
    let module = fixture("modules/simple_abs.vmfb");
    let printed = printed(&program, &[&module, Path::new("abs"), Path::new("-2.5")]);
    assert!(printed.ends_with("abs(-2.5) = 2.5\n1 result\n"), "{printed}");
    assert!(printed.starts_with("sync func @abs("), "{printed}");
    let failed = output(&program, &[&module, Path::new("none"), Path::new("1")]);
    assert!(String::from_utf8_lossy(&failed.stderr).contains("the module has: abs"), "{failed:?}");
}

#[test]
fn a_replay_is_recorded_to_functions_in_cpp() {
    let (_directory, program) = compiled("examples/record.cpp");
    let printed = printed(&program, &[&fixture("captures/add4.add.local-sync.ireereplay")]);
    let (first, again) = printed.trim_end().split_once(" bytes read, again ").unwrap();
    assert!(first == again && first != "0", "{printed}");
}

#[test]
fn what_the_examples_leave_out_works() {
    let (directory, program) = compiled("tests/rest.c");
    assert_eq!(printed(&program, &[&at("../../fixtures"), directory.path()]), "ok\n");
}

#[test]
fn own_work_of_every_kind_is_recorded_and_replayed() {
    let (directory, program) = compiled("tests/work.c");
    let fixtures = at("../../fixtures");
    assert_eq!(printed(&program, &[&fixtures, directory.path()]), "ok\n");
    // The driver that the loader opens leaks.
    let kernel = "vulkan/executables/affine.descriptors.vk1";
    let on_vulkan = Command::new(program)
        .args([&fixtures, directory.path(), Path::new(kernel)])
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .output()
        .unwrap();
    assert_eq!((&on_vulkan.stdout[..], &on_vulkan.stderr[..]), (&b"ok\n"[..], &b""[..]), "{on_vulkan:?}");
}

#[test]
fn a_capture_that_is_truncated_meanwhile_is_an_error_unless_it_is_being_read() {
    use std::os::unix::process::ExitStatusExt;
    const SIGBUS: i32 = 7;
    let (directory, program) = compiled("tests/truncated.c");
    let capture = directory.path().join("truncated.ireereplay");
    let copy = || std::fs::copy(fixture("captures/bench.mlp.5.local-sync.ireereplay"), &capture).unwrap();
    copy();
    assert_eq!(printed(&program, &[&capture]), "ok\n");
    copy();
    let mut reading = Command::new(program);
    reading.arg(&capture).arg("run").env("ASAN_OPTIONS", "handle_sigbus=0");
    let output = reading.output().unwrap();
    assert_eq!(output.status.signal(), Some(SIGBUS), "{output:?}");
}

#[test]
fn handles_of_the_parent_are_refused_after_fork() {
    let (directory, program) = compiled("tests/wrong.c");
    assert_eq!(printed(&program, &[&directory.path().join("parent.ireereplay")]), "ok\n");
}

/// A child's abilities depend on the threads of its parent, not on when it is forked.
#[test]
fn a_child_makes_handles_of_its_own_or_is_refused() {
    let (_directory, program) = compiled("tests/fork.c");
    let capture = fixture("captures/add4.add.local-sync.ireereplay");
    let child = |arguments: &[&str]| {
        let mut all = vec![capture.as_path()];
        all.extend(arguments.iter().map(Path::new));
        printed(&program, &all)
    };
    for _ in 0..20 {
        assert_eq!(child(&["local-task", "local-task"]), "refused\n");
        assert_eq!(child(&["local-sync", "local-task"]), "works\n");
    }
    assert_eq!(child(&["local-task", "local-sync"]), "refused\n");
    assert_eq!(child(&["local-sync", "local-sync", "busy"]), "refused\nworks\n");
    assert_eq!(child(&["local-sync", "local-sync", "callback"]), "works\n");
}

#[test]
fn records_are_iterated_and_results_compared() {
    let (directory, program) = compiled("tests/compare.c");
    let kernels = [("right", "0.0f"), ("wrong", "1.0f")].map(|it| kernel(directory.path(), it));
    let captures = ["add4.add", "control.collatz"]
        .map(|name| fixture(&format!("captures/{name}.local-sync.ireereplay")));
    let function = Path::new("add_dispatch_0_elementwise_4_f32");
    let arguments: [&Path; 6] = [&captures[0], &captures[1], function, &kernels[0], &kernels[1], &rehal()];
    assert_eq!(printed(&program, &arguments), "ok\n");
}

/// A library of the kernel whose sum has this offset.
fn kernel(directory: &Path, (name, offset): (&str, &str)) -> PathBuf {
    let library = directory.join(format!("{name}.so"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC", "-include", "unistd.h", &format!("-DOFFSET={offset}")]);
    assert!(compiler.arg(at("tests/kernel.c")).arg("-o").arg(&library).status().unwrap().success());
    library
}

/// The program `rehal`, which cargo builds beside tests of the workspace; built if it is not there.
fn rehal() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("rehal");
    if !program.is_file() {
        let built = Command::new(env!("CARGO")).args(["build", "-p", "rehal-cli"]).status().unwrap();
        assert!(built.success());
    }
    program
}

#[test]
fn kernels_that_end_or_hold_their_process_are_errors() {
    let (directory, program) = compiled("tests/isolate.c");
    // It is right as long as it is confined.
    let reaches = "({ extern int open(const char *, int, ...), socket(int, int, int); const int child = fork(); \
                   if (child == 0) _exit(0); \
                   (float)((open(\"/etc/passwd\", 0) >= 0) + (socket(2, 1, 0) >= 0) + (child > 0)); })";
    let kernels = [
        ("right", reaches),
        ("crashes", "*(volatile float *)8"),
        ("exits", "(_exit(0), 0.0f)"),
        ("hangs", "({ for (volatile int q = 0;; ++q) {} 0.0f; })"),
        ("picky", "(dispatch->bindings[0][at] != at + 1 ? *(volatile float *)8 : 0.0f)"),
    ]
    .map(|it| kernel(directory.path(), it));
    let capture = fixture("captures/add4.add.local-sync.ireereplay");
    let function = Path::new("add_dispatch_0_elementwise_4_f32");
    let rehal = rehal();
    let mut arguments: Vec<&Path> = vec![&rehal, &capture, function];
    arguments.extend(kernels.iter().map(PathBuf::as_path));
    assert_eq!(printed(&program, &arguments), "ok\n");
}

#[test]
fn a_callback_that_throws_ends_the_process() {
    use std::os::unix::process::ExitStatusExt;
    let (_directory, program) = compiled("tests/throws.cpp");
    let output = output(&program, &[&fixture("captures/add4.add.local-sync.ireereplay")]);
    assert!(output.status.signal().is_some() || output.status.code() != Some(0), "{output:?}");
    assert!(output.stdout.is_empty(), "it came back: {output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("Rust cannot catch foreign exceptions"),
        "{output:?}"
    );
}
