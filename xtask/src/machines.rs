//! Runs what is compiled for another processor under an emulator: the tests of crates that depend on it, and
//! the end-to-end programs on the CPU devices, which check their own results.

use crate::portable::TARGET;
use crate::run::{cargo, succeed, target};
use crate::{NotRun, Outcome, root, setup};
use oracle::e2e::{Compiled, DEVICES, FAILURES, Program, ours};
use oracle::reference::Reference;
use oracle::tool::run_within;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

const EMULATOR: &str = "qemu-aarch64-static";
const LINKER: &str = "aarch64-linux-gnu-gcc";
/// The C library of the processor.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";

/// The packages whose unit tests run, and the other tests of the CPU devices, without those that take
/// minutes, or of files for another processor. One of the devices runs the conformance suite.
const PACKAGES: [&str; 3] = ["rehal-crash", "rehal-local", "rehal-vm"];
const TESTS: [&str; 8] = ["conformance", "elf", "guard", "library", "plugin", "profile", "task", "vmvx"];
const SKIPPED: [&str; 9] = [
    "pool::",
    "link::",
    "truncated_anywhere",
    "discrete/",
    "task/",
    "task_of_one/",
    "task_placed/",
    // The emulator's vfork(2) returns before the child has its process group.
    "a_process_group_is_killed",
    // Its limit of 30 ms is shorter than loading may take.
    "a_dispatch_that_never_ends_is_named",
];

/// A processor that lacks some features.
const PLAIN: &str = "cortex-a72";

/// The kernels of the conformance suite, and the flags for each format.
const KERNELS: [&str; 6] = ["affine", "constants", "crash", "entry_points", "indirect", "workgroups"];
const FORMATS: [(&str, &[&str]); 2] = [
    ("embedded.elf", &[]),
    (
        "system.so",
        &["--iree-llvmcpu-link-embedded=false", "--iree-llvmcpu-system-linker-path=aarch64-linux-gnu-ld"],
    ),
];

/// Flags of programs for x86-64, and those in their place.
const FLAGS: [(&str, &str); 2] = [
    (
        "--iree-llvmcpu-target-triple=x86_64-unknown-linux-gnu",
        "--iree-llvmcpu-target-triple=aarch64-unknown-linux-gnu",
    ),
    ("--iree-llvmcpu-target-cpu=x86-64", "--iree-llvmcpu-target-cpu=generic"),
];

/// How long a program or the tests of a binary may take, which take seconds.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs both.
pub fn test() -> Outcome {
    if let Some(missing) = [EMULATOR, LINKER].iter().find(|program| !setup::answers(program, &["--version"]))
    {
        return Err(NotRun(format!("{missing} is missing: cargo xtask setup installs it")).into());
    }
    succeed(&mut for_target(&["build", "--quiet", "--package", "rehal-cli"], PLAIN))?;
    let programs = programs()?;
    let reference = Reference::find(&root())?;
    let count = programs.len();
    let failed = each(programs, |program| {
        check(&reference, &program).map_err(|why| format!("\n  {}: {why}", program.name))
    })?;
    println!("{TARGET}: {} of {count} programs pass on {}", count - failed.len(), DEVICES.join(" and "));
    if !failed.is_empty() {
        return Err(format!("programs for {TARGET} failed:{}", failed.concat()).into());
    }
    let kernels = compile_kernels(&reference)?;
    let packages = PACKAGES.iter().flat_map(|package| ["--package", package]);
    // The emulator may hang when a process that has busy threads starts a compiler.
    let skipped =
        || ["--", "--test-threads=1"].into_iter().chain(SKIPPED.iter().flat_map(|name| ["--skip", name]));
    succeed(for_target(&["test", "--quiet", "--lib"], "max").args(packages).args(skipped()))?;
    let mut tests = for_target(&["test", "--quiet", "--package", "rehal-local"], PLAIN);
    tests.args(TESTS.iter().flat_map(|test| ["--test", test])).args(skipped());
    succeed(tests.env("REHAL_TEST_KERNELS", kernels))
}

/// Does work on each item, on all processors. Returns the failures.
pub fn each<T: Send>(
    items: Vec<T>,
    work: impl Fn(T) -> Result<(), String> + Sync,
) -> Result<Vec<String>, Box<dyn Error>> {
    let (items, failed) = (Mutex::new(items.into_iter()), Mutex::new(Vec::new()));
    let next = || items.lock().ok()?.next();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(item) = next() {
                    if let Err(why) = work(item)
                        && let Ok(mut failed) = failed.lock()
                    {
                        failed.push(why);
                    }
                }
            });
        }
    });
    Ok(failed.into_inner().unwrap_or_default())
}

/// Cargo for the target, whose programs it starts in the emulator of a processor.
fn for_target(arguments: &[&str], processor: &str) -> Command {
    let mut cargo = cargo(arguments);
    cargo.args(["--target", TARGET]);
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
    cargo.env("CC_aarch64_unknown_linux_gnu", LINKER);
    // A process in the emulator cannot start another one there.
    let emulator = format!("{EMULATOR} -L {LIBRARIES} -cpu {processor}");
    cargo.env("REHAL_TEST_EMULATOR", &emulator);
    // What hangs there would take all the time of CI.
    let runner = format!("timeout --kill-after=5 {} {emulator}", LIMIT.as_secs());
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    cargo
}

/// Compiles the kernels of the conformance suite. Returns their directory.
fn compile_kernels(reference: &Reference) -> Result<PathBuf, Box<dyn Error>> {
    let (sources, directory) = (root().join("fixtures/cts"), target().join("cts").join(TARGET));
    std::fs::create_dir_all(&directory)?;
    for (name, (end, flags)) in KERNELS.iter().flat_map(|name| FORMATS.map(|format| (name, format))) {
        let mut compiler = Command::new(reference.tool("iree-compile"));
        compiler.args([
            "--compile-mode=hal-executable",
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=llvm-cpu",
            "--iree-llvmcpu-debug-symbols=false",
        ]);
        compiler.args(FLAGS.map(|(_, flag)| flag)).args(flags).arg(sources.join(format!("{name}.mlir")));
        succeed(compiler.arg("-o").arg(directory.join(format!("{name}.{end}"))))?;
    }
    let mut compiler = Command::new(LINKER);
    compiler.args(["-O1", "-shared", "-fPIC", "-nostdlib", "-fvisibility=hidden", "-mno-outline-atomics"]);
    succeed(compiler.arg(sources.join("native.c")).arg("-o").arg(directory.join("native.so")))?;
    Ok(directory)
}

/// Our programs for plain processors and for bytecode, compiled for the target.
fn programs() -> std::io::Result<Vec<Program>> {
    let programs = ours(&root().join("fixtures/e2e"))?.into_iter();
    let is_plain = |program: &Program| {
        ["llvm-cpu.x86_64", "llvm-cpu.system", "vmvx.plain", "vmvx.microkernels"]
            .iter()
            .any(|target| program.name.starts_with(&format!("ours/{target}/")))
    };
    let for_target = |mut program: Program| {
        for flag in &mut program.flags {
            if let Some((_, other)) = FLAGS.iter().find(|(of_x86, _)| of_x86 == flag) {
                *flag = (*other).to_owned();
            }
        }
        if program.name.contains("llvm-cpu.system") {
            program.flags.push(format!("--iree-llvmcpu-system-linker-path={LINKER}"));
        }
        program.name = program.name.replace("x86_64", "arm_64");
        program
    };
    Ok(programs.filter(is_plain).map(for_target).collect())
}

/// Compiles a program, and runs its tests on all devices. Those of one fail, as they should.
fn check(reference: &Reference, program: &Program) -> Result<(), String> {
    let module = match program.compile(reference, &target().join("e2e")).map_err(|error| error.to_string())? {
        Compiled::Module(module) => module,
        Compiled::Refused(why) => return Err(why),
    };
    let rehal = target().join(TARGET).join("debug/rehal").display().to_string();
    let module = format!("--module={}", module.display());
    let fails = program.name.ends_with(FAILURES);
    let (expected, report) = (i32::from(fails), if fails { " 6 FAILED TESTS" } else { "[  PASSED  ]" });
    for device in DEVICES {
        let device = format!("--device={device}");
        let arguments = ["-L", LIBRARIES, &rehal, "check-module", &device, &module];
        let ended = run_within(LIMIT, Path::new(EMULATOR), &arguments, &root());
        let ended = ended.map_err(|error| error.to_string())?;
        // A refusal has the status of failed tests, and no report.
        if ended.code != Some(expected) || !String::from_utf8_lossy(&ended.stdout).contains(report) {
            return Err(format!("{device}: {}", ended.summary()));
        }
    }
    Ok(())
}
