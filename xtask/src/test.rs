//! `cargo xtask test`: everything that CI runs, from setup to fuzzing, as timed sections.

use crate::{Outcome, fuzz, root, run, setup, tidy};
use std::ffi::OsStr;
use std::process::Command;
use std::time::{Duration, Instant};

/// Duration of each fuzz target in the full test.
const FUZZ_SECONDS: u64 = 10;

/// A section: name, outcome and duration.
struct Section {
    name: &'static str,
    failure: Option<String>,
    took: Duration,
}

/// Runs all sections, or those whose names start with `--only`'s argument, continuing after failures, and
/// fails if any did. `--no-fuzz` excludes the last one.
pub fn main(arguments: &[String]) -> Outcome {
    let mut fuzz_too = true;
    let mut only = "";
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        match argument {
            "--no-fuzz" => fuzz_too = false,
            "--only" => only = arguments.next().ok_or("--only needs the name of a section")?,
            _ => {
                return Err(
                    format!("unknown argument {argument:?} (expected --no-fuzz or --only SECTION)").into()
                );
            }
        }
    }
    let nextest = setup::answers("cargo", &["nextest", "--version"]);
    let mut sections = Vec::new();
    let mut section = |name: &'static str, run: &dyn Fn() -> Outcome| {
        if !name.starts_with(only) {
            return;
        }
        println!("\n==== {name} ====");
        let start = Instant::now();
        let failure = run().err().map(|error| error.to_string());
        if let Some(failure) = &failure {
            println!("{name}: FAILED: {failure}");
        }
        sections.push(Section { name, failure, took: start.elapsed() });
    };
    section("setup", &|| setup::main(&[]));
    section("format", &|| cargo(&["fmt", "--all", "--check"]));
    section("clippy", &|| {
        cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])
    });
    section("tidy", &|| tidy::main(&[]));
    section("dependencies", &dependencies);
    section("tests", &|| cargo(&tests(nextest, &["--workspace", "--exclude", "oracle"])));
    section("documented examples", &|| cargo(&["test", "--doc", "--workspace", "--quiet"]));
    // The oracle's tests run the tools as users do: optimized, without debug assertions, in separate processes.
    section("oracle", &|| {
        let tools = run::build_tools("oracle")?;
        cargo_with(&tests(nextest, &["--package", "oracle"]), &[("REHAL_TOOLS", tools.as_os_str())])
    });
    if fuzz_too {
        section("fuzz", &|| fuzz::main(&["--seconds".to_owned(), FUZZ_SECONDS.to_string()]));
    }
    if sections.is_empty() {
        return Err(format!("no section starts with {only:?}").into());
    }
    summary(&sections)
}

/// Checks that no dependency is unused, and that all comply with the licences, versions and sources in
/// `deny.toml`. Security advisories are not checked: the database would have to be fetched for each run.
fn dependencies() -> Outcome {
    // Under `cargo run`, which sets this variable, machete takes its own name for a directory to search.
    let machete = &mut Command::new("cargo");
    succeed(machete.args(["machete", "--skip-target-dir"]).env_remove("CARGO_PKG_NAME"))?;
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let deny = ["deny", "--locked", "--config", "deny.toml", "--manifest-path", manifest, "check"];
        cargo(&[&deny[..], &["bans", "licenses", "sources"]].concat())?;
    }
    Ok(())
}

/// The arguments that run tests with the available runner.
fn tests<'a>(nextest: bool, which: &[&'a str]) -> Vec<&'a str> {
    let runner: &[&str] = if nextest {
        &["nextest", "run", "--no-fail-fast"]
    } else {
        &["test", "--no-fail-fast", "--all-targets"]
    };
    [runner, which].concat()
}

fn cargo(arguments: &[&str]) -> Outcome {
    cargo_with(arguments, &[])
}

fn cargo_with(arguments: &[&str], environment: &[(&str, &OsStr)]) -> Outcome {
    succeed(Command::new("cargo").args(arguments).envs(environment.iter().copied()))
}

fn succeed(cargo: &mut Command) -> Outcome {
    let status = cargo.current_dir(root()).status()?;
    if status.success() {
        return Ok(());
    }
    let arguments: Vec<_> = cargo.get_args().map(OsStr::to_string_lossy).collect();
    Err(format!("cargo {}: {status}", arguments.join(" ")).into())
}

fn summary(sections: &[Section]) -> Outcome {
    println!("\n==== summary ====");
    for section in sections {
        let how = if section.failure.is_some() { "FAILED" } else { "ok" };
        println!("{:>7.1} s  {:<22} {how}", section.took.as_secs_f64(), section.name);
    }
    let failed: Vec<&str> =
        sections.iter().filter(|section| section.failure.is_some()).map(|s| s.name).collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", ")).into()) }
}
