//! `cargo xtask test`: everything that CI runs, from setup to fuzzing, as timed sections.

use crate::run::{self, cargo, succeed};
use crate::zig::Zig;
use crate::{
    NotRun, Outcome, api, asan, bench, fuzz, machines, miri, packages, portable, python, setup, tidy, wine,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// Duration of each fuzz target in the full test.
const FUZZ_SECONDS: u64 = 5;

/// A section: name, outcome and duration.
struct Section {
    name: &'static str,
    ended: Ended,
    took: Duration,
}

/// How a section ended.
#[derive(Debug, PartialEq)]
enum Ended {
    Passed,
    /// Why. Further lines name what failed.
    Failed(String),
    /// The missing program, and how it is installed.
    NotRun(String),
}

impl From<Outcome> for Ended {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Ok(()) => Self::Passed,
            Err(error) if error.is::<NotRun>() => Self::NotRun(error.to_string()),
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

/// Runs all sections, or those whose names start with `--only`'s argument, continuing after failures, and
/// fails if any did. `--no-fuzz` excludes the last one. With `--all`, a section that cannot run is a failure,
/// too. With `--any-versions`, as in CI, counts of instructions are compared whatever they were counted with.
pub fn main(arguments: &[String]) -> Outcome {
    let (mut all, mut any_versions) = (false, false);
    let mut fuzz_too = true;
    let mut only = "";
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        match argument {
            "--all" => all = true,
            "--any-versions" => any_versions = true,
            "--no-fuzz" => fuzz_too = false,
            "--only" => only = arguments.next().ok_or("--only needs the name of a section")?,
            _ => {
                let expected = "--all, --any-versions, --no-fuzz or --only SECTION";
                return Err(format!("unknown argument {argument:?} (expected {expected})").into());
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
        let ended = Ended::from(run());
        match &ended {
            Ended::Passed => {}
            Ended::Failed(why) => println!("{name}: FAILED: {why}"),
            Ended::NotRun(why) => println!("{name}: did not run: {why}"),
        }
        sections.push(Section { name, ended, took: start.elapsed() });
    };
    section("setup", &|| setup::main(&[]));
    section("format", &|| succeed(&mut cargo(&["fmt", "--all", "--check"])));
    // What later sections build in other directories. The compiler leaves one of two processors idle for much
    // of the time of the sections from here to the tests. Those sections build it again, and say why not.
    if only.is_empty() {
        thread::spawn(move || {
            let _ = run::build_tools("dev-release");
            if fuzz_too {
                let _ = fuzz::build();
            }
        });
    }
    section("clippy", &|| {
        let clippy = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
        succeed(&mut cargo(&clippy))
    });
    section("aarch64", &|| portable::check(|| Ok(Zig::find()?.tool("cargo-zigbuild"))));
    section("tidy", &|| tidy::main(&[]));
    section("api", &|| api::main(&[]));
    section("dependencies", &dependencies);
    section("packages", &packages::check);
    section("tests", &|| tests(nextest));
    section("documented examples", &|| succeed(&mut cargo(&["test", "--doc", "--workspace", "--quiet"])));
    section("python", &python::test);
    // The oracle's tests run the tools as users do: optimized, and without debug assertions.
    section("oracle", &|| oracle(nextest, &run::build_tools("dev-release")?));
    section("machines", &machines::test);
    section("machines: Windows", &wine::test);
    let counts = ["--instructions", "--any-versions"].map(ToOwned::to_owned);
    section("instructions", &|| bench::main(if any_versions { &counts } else { &counts[..1] }));
    section("miri", &|| miri::main(&["--short".to_owned()]));
    section("asan", &|| asan::main(&["--short".to_owned()]));
    if fuzz_too {
        section("fuzz", &|| fuzz::main(&["--seconds".to_owned(), FUZZ_SECONDS.to_string()]));
    }
    if sections.is_empty() {
        return Err(format!("no section starts with {only:?}").into());
    }
    summary(&sections, all)
}

/// Checks that no dependency is unused, and that all comply with the licences, versions and sources in
/// `deny.toml`. Security advisories are not checked: the database would have to be fetched for each run.
fn dependencies() -> Outcome {
    // Under `cargo run`, which sets this variable, machete takes its own name for a directory to search.
    succeed(cargo(&["machete", "--skip-target-dir"]).env_remove("CARGO_PKG_NAME"))?;
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let deny = ["deny", "--locked", "--config", "deny.toml", "--manifest-path", manifest, "check"];
        succeed(cargo(&deny).args(["bans", "licenses", "sources"]))?;
    }
    Ok(())
}

/// Runs the tests but those of the oracle, with nextest if it is there.
fn tests(nextest: bool) -> Outcome {
    let runner: &[&str] = if nextest {
        // Thousands of tests that pass would hide those that fail from who sees only the end of a log.
        &[
            "nextest",
            "run",
            "--no-fail-fast",
            "--status-level=slow",
            "--final-status-level=slow",
            "--failure-output=final",
            // The whole workspace, whichever tests run: with fewer packages, dependencies have fewer
            // features, and everything above them would be built again.
            "--workspace",
            "--filterset=not binary_id(oracle::oracle)",
        ]
    } else {
        &["test", "--no-fail-fast", "--all-targets", "--workspace", "--exclude", "oracle"]
    };
    let mut child = cargo(runner).stderr(Stdio::piped()).spawn()?;
    let mut failed = Vec::new();
    if let Some(output) = child.stderr.take() {
        for_lines(output, |line, text| {
            failed.extend(failed_by_nextest(text));
            std::io::stderr().write_all(line)
        })?;
    }
    outcome(child.wait()?.success(), failed)
}

/// Runs the tests of the oracle in one process: they start the tools, and to start 4,000 processes more takes
/// as long as all that the tools do.
fn oracle(nextest: bool, tools: &Path) -> Outcome {
    let selected: &[&str] =
        if nextest { &["--workspace", "--test", "oracle"] } else { &["--package", "oracle"] };
    succeed(&mut cargo(&["build", "--profile", "dev-release", "--quiet", "--package", "libcuda-double"]))?;
    let mut cargo = cargo(&["test"]);
    let mut child = cargo.args(selected).env("REHAL_TOOLS", tools).stdout(Stdio::piped()).spawn()?;
    let mut failed = Vec::new();
    if let Some(output) = child.stdout.take() {
        for_lines(output, |line, text| {
            failed.extend(failed_by_libtest(text));
            let passed = text.starts_with("test ") && text.trim_end().ends_with(" ok");
            if passed { Ok(()) } else { std::io::stdout().write_all(line) }
        })?;
    }
    outcome(child.wait()?.success(), failed)
}

/// Calls `line` with each line, as bytes and as text.
fn for_lines(
    output: impl Read,
    mut line: impl FnMut(&[u8], &str) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut output = BufReader::new(output);
    let mut bytes = Vec::new();
    while output.read_until(b'\n', &mut bytes)? > 0 {
        line(&bytes, &String::from_utf8_lossy(&bytes))?;
        bytes.clear();
    }
    Ok(())
}

/// Of tests, some of which `failed`. The failure names them.
fn outcome(success: bool, mut failed: Vec<String>) -> Outcome {
    if success {
        return Ok(());
    }
    if failed.is_empty() {
        return Err("the tests do not build, or failed as shown above".into());
    }
    failed.sort_unstable();
    failed.dedup();
    let names: String = failed.iter().map(|test| format!("\n  {test}")).collect();
    Err(format!("tests failed:{names}").into())
}

/// The binary and the name of the test that a line of nextest reports as failed, in whatever way.
fn failed_by_nextest(line: &str) -> Option<String> {
    let (status, rest) = line.trim_start().split_once(" [")?;
    let status = status.split_whitespace().next()?;
    let fails =
        ["FAIL", "TIMEOUT", "ABORT", "XFAIL", "LEAK-FAIL"].contains(&status) || status.starts_with("SIG");
    let test = rest.split_once(']')?.1.trim();
    // A counter may precede the name.
    let test =
        test.strip_prefix('(').and_then(|rest| rest.split_once(") ")).map_or(test, |(_, name)| name.trim());
    (fails && !test.is_empty()).then(|| test.to_owned())
}

/// The name of the test that a line of `cargo test` reports as failed.
fn failed_by_libtest(line: &str) -> Option<String> {
    let test = line.trim_end().strip_prefix("test ")?.strip_suffix("FAILED")?.trim_end();
    Some(test.strip_suffix("...")?.trim_end().to_owned())
}

fn summary(sections: &[Section], all: bool) -> Outcome {
    println!("\n==== summary ====");
    for section in sections {
        let how = match section.ended {
            Ended::Passed => "ok",
            Ended::Failed(_) => "FAILED",
            Ended::NotRun(_) => "DID NOT RUN",
        };
        println!("{:>7.1} s  {:<22} {how}", section.took.as_secs_f64(), section.name);
    }
    for section in sections {
        match &section.ended {
            Ended::Passed => {}
            Ended::Failed(why) | Ended::NotRun(why) => println!("{}: {why}", section.name),
        }
    }
    verdict(sections, all).map_err(Into::into)
}

/// Whether the sections passed. With `all`, one that did not run has failed.
fn verdict(sections: &[Section], all: bool) -> Result<(), String> {
    let names = |is_named: fn(&Ended) -> bool| {
        let named = sections.iter().filter(|section| is_named(&section.ended));
        named.map(|section| section.name).collect::<Vec<_>>()
    };
    let failed = names(|it| matches!(it, Ended::Failed(_)));
    let not_run = names(|it| matches!(it, Ended::NotRun(_)));
    let is_fatal = all || not_run.len() == sections.len();
    let mut said = Vec::new();
    if !failed.is_empty() {
        said.push(format!("failed: {}", failed.join(", ")));
    }
    if !not_run.is_empty() && is_fatal {
        said.push(format!("did not run: {}", not_run.join(", ")));
    }
    if said.is_empty() { Ok(()) } else { Err(said.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Ended, Section, failed_by_libtest, failed_by_nextest, verdict};
    use crate::NotRun;

    #[test]
    fn a_section_that_did_not_run_has_not_passed() {
        let missing = || "a toolchain is missing".to_owned();
        assert_eq!(Ended::from(Err(NotRun(missing()).into())), Ended::NotRun(missing()));
        assert_eq!(Ended::from(Err(missing().into())), Ended::Failed(missing()));
        assert_eq!(Ended::from(Ok(())), Ended::Passed);
    }

    #[test]
    fn sections_that_did_not_run_are_failures_of_all() {
        let section = |name, ended| Section { name, ended, took: Duration::ZERO };
        let passed = || section("tests", Ended::Passed);
        let not_run = || section("miri", Ended::NotRun("a toolchain is missing".to_owned()));
        let failed = || section("tidy", Ended::Failed("2 problems".to_owned()));
        assert_eq!(verdict(&[passed(), not_run()], false), Ok(()));
        assert_eq!(verdict(&[passed(), not_run()], true), Err("did not run: miri".to_owned()));
        assert_eq!(verdict(&[not_run()], false), Err("did not run: miri".to_owned()));
        assert_eq!(verdict(&[passed(), not_run(), failed()], false), Err("failed: tidy".to_owned()));
        let both = "failed: tidy; did not run: miri".to_owned();
        assert_eq!(verdict(&[passed(), not_run(), failed()], true), Err(both));
        assert_eq!(verdict(&[passed()], true), Ok(()));
    }

    #[test]
    fn names_failed_tests() {
        let name = failed_by_nextest;
        assert_eq!(name("        FAIL [   0.555s] (19/44) a::b c::d\n").as_deref(), Some("a::b c::d"));
        assert_eq!(name("     SIGABRT [   0.031s] ( 7/44) a::b c::d\n").as_deref(), Some("a::b c::d"));
        assert_eq!(name("     TIMEOUT [  60.000s] a c::d\n").as_deref(), Some("a c::d"));
        assert_eq!(name("        PASS [   0.555s] (19/44) a::b c::d\n"), None);
        assert_eq!(name("        SLOW [> 60.000s] (─────) a::b c::d\n"), None);
        assert_eq!(name("     Summary [   0.555s] 44 tests run: 42 passed, 2 failed, 0 skipped\n"), None);
        assert_eq!(name("error: test run failed\n"), None);
        let name = failed_by_libtest;
        assert_eq!(name("test dump_text::add4 ... FAILED\n").as_deref(), Some("dump_text::add4"));
        assert_eq!(name("test dump_text::add4 ... ok\n"), None);
        assert_eq!(name("test result: FAILED. 1 passed; 1 failed\n"), None);
    }
}
