//! `cargo xtask fuzz`: builds and runs the fuzz targets on the pinned stable toolchain.
//!
//! Needs neither `cargo-fuzz` nor nightly: the coverage that guides libFuzzer comes from LLVM's own pass,
//! which stable `rustc` runs with the right `-C` flags. AddressSanitizer would need nightly; the targets look
//! for panics, hangs and memory out of proportion to the input, which do not need it.

use crate::run::{cargo, succeed};
use crate::{Outcome, root};
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

/// A fuzz target: program, directory and file extensions of its seeds, maximum input size.
struct Target {
    name: &'static str,
    seeds: &'static str,
    endings: &'static [&'static str],
    max_len_bytes: usize,
}

const CAPTURES: &str = "fixtures/captures";
const GPU: &str = "fixtures/gpu";
const PARAMETERS: &str = "crates/params/tests/data";

const TARGETS: &[Target] = &[
    target("capture", CAPTURES, &[".ireereplay"], 64),
    target("plan", CAPTURES, &[".ireereplay"], 64),
    target("profile", "crates/profile/tests/data", &[".ireeprof"], 32),
    target("executable", "fixtures/cts", &[".elf", ".so", ".vmfb"], 32),
    target("gpu_executable", GPU, &[".cda1", ".hip1", ".amd1"], 16),
    target("ptx", GPU, &[".ptx"], 8),
    target("simt", "crates/simt/tests/ptx", &[".ptx"], 8),
    target("hsaco", GPU, &[".hsaco"], 16),
    target("cubin", "crates/formats/tests/data", &[".cubin"], 16),
    target("fatbin", "crates/formats/tests/data", &[".fatbin"], 8),
    target("vulkan_executable", "fixtures/vulkan/executables", &[".vk1", ".spv"], 16),
    target("irpa", PARAMETERS, &[".irpa"], 16),
    target("gguf", PARAMETERS, &[".gguf"], 16),
    target("safetensors", PARAMETERS, &[".safetensors"], 16),
    target("ledger", "crates/judge/tests/data", &[".ledger"], 16),
    target("kernel_descriptor", "crates/kernels/tests/data", &[".json"], 8),
    target("diff", CAPTURES, &[".ireereplay"], 64),
    target("redact", CAPTURES, &[".ireereplay"], 64),
    target("module", "fixtures/vm", &[".vmfb"], 16),
    target("interpreter", "fixtures/vm", &[".vmfb"], 8),
    target("input", "crates/values/tests/data", &[".input"], 4),
    target("npy", "fixtures/inputs", &[".npy"], 16),
];

/// A target whose inputs have at most `max_len_kib` KiB.
const fn target(
    name: &'static str,
    seeds: &'static str,
    endings: &'static [&'static str],
    max_len_kib: usize,
) -> Target {
    Target { name, seeds, endings, max_len_bytes: max_len_kib << 10 }
}

/// Timeout of one input.
const TIMEOUT_S: u32 = 10;
/// Memory limit of one input: inputs are small, so their memory must be too.
const RSS_LIMIT_MB: u32 = 1024;

/// `fuzz [--seconds N] [TARGET…]`: runs each target for N seconds (60), one per processor at a time.
pub fn main(arguments: &[String]) -> Outcome {
    let (seconds, wanted) = parse(arguments)?;
    build()?;
    let directory = root().join("fuzz");
    let programs = directory.join("target").join(host_triple()?).join("release");
    let chosen = |target: &&Target| wanted.is_empty() || wanted.iter().any(|name| name == target.name);
    let targets = Mutex::new(TARGETS.iter().filter(chosen));
    let failures = Mutex::new(Vec::new());
    let next = || targets.lock().ok()?.next();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(target) = next() {
                    match run(&directory, &programs, target, seconds) {
                        Ok(progress) => println!("fuzz: {} for {seconds} s\n  {progress}", target.name),
                        Err(error) => failures
                            .lock()
                            .unwrap_or_else(|poisoned| poisoned.into_inner())
                            .push(error.to_string()),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner()?;
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

fn parse(arguments: &[String]) -> Result<(u64, Vec<String>), String> {
    let (mut seconds, mut wanted) = (60, Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--seconds" {
            seconds = rest.next().and_then(|n| n.parse().ok()).ok_or("--seconds takes a number")?;
        } else if TARGETS.iter().any(|target| target.name == argument) {
            wanted.push(argument.clone());
        } else {
            let names = TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
            return Err(format!("unknown fuzz target {argument:?} (expected one of {names})"));
        }
    }
    Ok((seconds, wanted))
}

/// Builds the fuzz targets.
pub fn build() -> Outcome {
    // One codegen unit per crate: with several, stable's thin-local LTO runs before the pass and loses the
    // counters.
    let flags = [
        "-Cpasses=sancov-module",
        "-Cllvm-args=-sanitizer-coverage-level=4",
        "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
        "-Cllvm-args=-sanitizer-coverage-pc-table",
        "-Cllvm-args=-sanitizer-coverage-trace-compares",
        "-Ccodegen-units=1",
        "--cfg=fuzzing",
    ];
    let triple = host_triple()?;
    // With --target the flags do not apply to build scripts, which have no counters.
    let mut cargo = cargo(&["build", "--quiet", "--release", "--bins", "--target", &triple]);
    succeed(cargo.current_dir(root().join("fuzz")).env("RUSTFLAGS", flags.join(" ")))
}

fn host_triple() -> Result<String, Box<dyn Error>> {
    let said = String::from_utf8(Command::new("rustc").arg("-vV").output()?.stdout)?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("`rustc -vV` did not report a host")?.to_owned())
}

/// Runs a target on its corpus; returns libFuzzer's last line of progress.
fn run(directory: &Path, programs: &Path, target: &Target, seconds: u64) -> Result<String, Box<dyn Error>> {
    let corpus = directory.join("corpus").join(target.name);
    let artifacts = directory.join("artifacts").join(target.name);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&artifacts)?;
    seed(target, &corpus)?;
    let output = Command::new(programs.join(target.name))
        .arg(&corpus)
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={}", target.max_len_bytes))
        .arg(format!("-timeout={TIMEOUT_S}"))
        .arg(format!("-rss_limit_mb={RSS_LIMIT_MB}"))
        .args(["-print_final_stats=1", "-verbosity=1"])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let lines: Vec<&str> = said.lines().collect();
        let tail = lines[lines.len().saturating_sub(40)..].join("\n  ");
        return Err(format!(
            "{}: {}; the input is in {}\n  {tail}",
            target.name,
            output.status,
            artifacts.display()
        )
        .into());
    }
    progress(target, &said)
}

/// Copies the fixtures into the seed corpus.
fn seed(target: &Target, corpus: &Path) -> Outcome {
    for entry in fs::read_dir(root().join(target.seeds))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let small = fs::metadata(&path)?.len() <= target.max_len_bytes as u64;
        if small && target.endings.iter().any(|ending| name.ends_with(ending)) {
            fs::copy(&path, corpus.join(name))?;
        }
    }
    Ok(())
}

/// The last line of progress. Fails for a run without coverage counters, which would prove nothing.
fn progress(target: &Target, said: &str) -> Result<String, Box<dyn Error>> {
    let last = said.lines().rfind(|line| line.contains(" cov: ")).ok_or("libFuzzer reported no coverage")?;
    let coverage: u64 =
        last.split(" cov: ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap_or_default();
    if coverage < 100 {
        return Err(
            format!("{}: only {coverage} edges covered: the build has no counters", target.name).into()
        );
    }
    Ok(last.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_checked() {
        let words = |text: &str| text.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
        assert_eq!(parse(&words("--seconds 5 capture")), Ok((5, vec!["capture".to_owned()])));
        assert!(parse(&words("--seconds x")).is_err());
        assert!(parse(&words("nothing")).unwrap_err().contains("expected one of capture, plan, profile"));
    }

    #[test]
    fn a_run_without_counters_fails() {
        assert!(progress(&TARGETS[0], "#2 INITED cov: 3 ft: 3 corp: 1/1b\n").is_err());
        assert!(progress(&TARGETS[0], "#2 DONE cov: 300 ft: 3 corp: 1/1b\n").is_ok());
        assert!(progress(&TARGETS[0], "").is_err());
    }
}
