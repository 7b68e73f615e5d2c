//! `cargo xtask miri`: runs the tests of the foundation crates under Miri, which finds undefined behaviour,
//! and those of shared memory and of devices with workers under ThreadSanitizer, which finds data races.
//!
//! Both need a nightly toolchain in addition to the pinned one; nothing else does. Tests that Miri cannot run
//! (memory-mapped files, tests that would take hours) are marked in the source, with the reason:
//! `cfg_attr(miri, ignore = "…")`.

use crate::run::{cargo, succeed};
use crate::{NotRun, Outcome, root};

/// Crates whose library tests run under Miri, and a part of the names of those that do, if not all.
const CRATES: [(&str, Option<&str>); 5] = [
    ("base", None),
    ("hal", None),
    ("capture", None),
    ("vm", None),
    // Most of its tests run machine code, or map files.
    ("local", Some("without_a_data_race")),
];

/// `miri [--thread-sanitizer] [--short] [CRATE…]`: all crates by default.
pub fn main(arguments: &[String]) -> Outcome {
    let (options, wanted): (Vec<_>, Vec<_>) = arguments.iter().partition(|it| it.starts_with('-'));
    let names = CRATES.map(|(name, _)| name);
    if let Some(unknown) = wanted.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(format!("unknown crate {unknown:?} (expected one of {})", names.join(", ")).into());
    }
    match options.first().map(|option| option.as_str()) {
        None => under_miri(&wanted),
        Some("--short") => short(),
        Some("--thread-sanitizer") => under_thread_sanitizer(),
        Some(other) => {
            Err(format!("unknown option {other:?} (expected --thread-sanitizer or --short)").into())
        }
    }
}

fn under_miri(wanted: &[&String]) -> Outcome {
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|it| *it == name);
    interpret(CRATES.iter().copied().filter(|(name, _)| is_wanted(name)))
}

/// The run of CI, within a minute: copies of shared memory, which the bytes of all devices take.
fn short() -> Outcome {
    interpret([("base", Some("memory::copy"))].into_iter())
}

fn interpret(crates: impl Iterator<Item = (&'static str, Option<&'static str>)>) -> Outcome {
    require(&["miri", "--version"], Some("miri"))?;
    for (name, tests) in crates {
        println!("rehal-{name} under Miri");
        let package = format!("rehal-{name}");
        let mut cargo = cargo(&["+nightly", "miri", "test", "--lib", "--package", &package]);
        // Tests read fixtures, the clock and the temporary directory.
        succeed(cargo.args(tests).env("MIRIFLAGS", "-Zmiri-disable-isolation"))?;
    }
    Ok(())
}

/// Tests that run under ThreadSanitizer: packages, their test targets and which of their tests.
///
/// Not the unit tests of `local`: loom switches stacks in its models, which the sanitizer cannot follow.
const SANITIZED: [(&str, &[&str], &[&str]); 3] = [
    // That test limits the address space, of which the sanitizer needs terabytes. Another takes all ranges of
    // files that a process may map.
    ("base", &["--lib"], &["memory::", "--test-threads=1", "--skip", "large_reads_work_without_threads"]),
    ("local", &["--test", "task", "--test", "queue", "--test", "pending"], &[]),
    // The tests of the devices that have workers.
    ("local", &["--test", "conformance"], &["task"]),
];

/// Rust maps memory by system calls that the sanitizer does not see, so that an image of an executable in
/// pages that another thread had mapped and unmapped looks like a race.
const SUPPRESSIONS: &str = "race:rehal_local::executable::elf::\n";

fn under_thread_sanitizer() -> Outcome {
    require(&["--version"], Some("rust-src"))?;
    let target = root().join("target/thread-sanitizer");
    std::fs::create_dir_all(&target)?;
    let suppressions = target.join("suppressions.txt");
    std::fs::write(&suppressions, SUPPRESSIONS)?;
    for (name, targets, tests) in SANITIZED {
        println!("rehal-{name} under ThreadSanitizer: {}", targets.join(" "));
        let package = format!("rehal-{name}");
        let mut cargo = cargo(&["+nightly", "test", "-Zbuild-std", "--target", "x86_64-unknown-linux-gnu"]);
        cargo.args(["--package", &package]).args(targets).arg("--").args(tests);
        // The sanitizer does not instrument assembly, so it runs the portable equivalent.
        cargo.env("RUSTFLAGS", "-Zsanitizer=thread --cfg=rehal_portable_memory");
        // Tests allocate more than there is, which must fail and not abort.
        let options = format!("allocator_may_return_null=1 suppressions={}", suppressions.display());
        succeed(cargo.env("TSAN_OPTIONS", options).env("CARGO_TARGET_DIR", &target))?;
    }
    Ok(())
}

/// Fails without a nightly toolchain, or if it lacks `component`, as shown by running `cargo` with these
/// arguments.
pub fn require(arguments: &[&str], component: Option<&str>) -> Outcome {
    let output = cargo(&["+nightly"]).args(arguments).output()?;
    if output.status.success() {
        return Ok(());
    }
    let (what, options) = match component {
        Some(component) => (format!(" with {component}"), " --component miri,rust-src"),
        None => (String::new(), ""),
    };
    let missing = format!("a nightly toolchain{what} is missing: rustup toolchain install nightly{options}");
    Err(NotRun(missing).into())
}
