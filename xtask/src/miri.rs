//! `cargo xtask miri`: runs the tests of the crates that others stand on under Miri, which finds undefined behaviour,
//! and those of shared memory under the thread sanitizer, which finds data races.
//!
//! Both need a nightly toolchain beside the pinned one; nothing else here does. What Miri cannot run (memory maps of
//! files, tests that would take hours) is marked in the tests themselves, with the reason: `cfg_attr(miri, ignore = "…")`.

use crate::{Outcome, root};
use std::process::Command;

/// Crates whose tests Miri runs, those of the library and not of its examples.
const CRATES: [&str; 4] = ["base", "hal", "capture", "vm"];

/// `miri [--thread-sanitizer] [CRATE…]`: all crates unless some are named.
pub fn main(arguments: &[String]) -> Outcome {
    let (options, wanted): (Vec<_>, Vec<_>) = arguments.iter().partition(|it| it.starts_with('-'));
    if let Some(unknown) = wanted.iter().find(|name| !CRATES.contains(&name.as_str())) {
        return Err(format!("Miri does not run {unknown:?}; it runs {}", CRATES.join(", ")).into());
    }
    match options.first().map(|option| option.as_str()) {
        None => under_miri(&wanted),
        Some("--thread-sanitizer") => under_thread_sanitizer(),
        Some(other) => Err(format!("no option {other:?}; there is --thread-sanitizer").into()),
    }
}

fn under_miri(wanted: &[&String]) -> Outcome {
    require(&["miri", "--version"], "miri")?;
    for name in CRATES.iter().filter(|name| wanted.is_empty() || wanted.iter().any(|it| it == *name)) {
        println!("rehal-{name} under Miri");
        let status = Command::new("cargo")
            .args(["+nightly", "miri", "test", "--lib", "--package", &format!("rehal-{name}")])
            .current_dir(root())
            // Tests read fixtures, the clock and the directory for temporary files.
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .status()?;
        if !status.success() {
            return Err(format!("rehal-{name} fails under Miri").into());
        }
    }
    Ok(())
}

fn under_thread_sanitizer() -> Outcome {
    require(&["--version"], "rust-src")?;
    println!("shared memory under the thread sanitizer");
    let status = Command::new("cargo")
        .args(["+nightly", "test", "-Zbuild-std", "--target", "x86_64-unknown-linux-gnu", "--lib"])
        .args(["--package", "rehal-base", "memory::"])
        .current_dir(root())
        // The sanitizer does not see what assembly does, so it gets the code that the assembly stands for.
        .env("RUSTFLAGS", "-Zsanitizer=thread --cfg=rehal_portable_memory")
        .env("CARGO_TARGET_DIR", root().join("target/thread-sanitizer"))
        .status()?;
    if status.success() { Ok(()) } else { Err("shared memory fails under the thread sanitizer".into()) }
}

/// Fails where the nightly toolchain lacks `component`, which `cargo` with these arguments shows.
fn require(arguments: &[&str], component: &str) -> Outcome {
    let output = Command::new("cargo").arg("+nightly").args(arguments).current_dir(root()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let install = format!("rustup toolchain install nightly --component {component}");
    Err(format!("a nightly toolchain with {component} is missing: {install}").into())
}
