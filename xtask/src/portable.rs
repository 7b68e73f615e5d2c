//! Checks that the crates compile for a processor that CI does not have: nothing but `PLATFORM` may require
//! x86-64.

use crate::{NotRun, Outcome, root};
use std::process::Command;

/// The other platform.
const TARGET: &str = "aarch64-unknown-linux-gnu";

/// The packages that need not compile for it, and why.
const ABSENT: [(&str, &str); 2] = [
    ("oracle", "the reference release, with which it compares, is that of this machine"),
    ("xtask", "it runs on this machine"),
];

/// Installs the standard library of the other platform, if it can be.
pub fn set_up() {
    if is_installed() {
        return;
    }
    println!("setup: installing the standard library for {TARGET}");
    let status = Command::new("rustup").args(["target", "add", TARGET]).current_dir(root()).status();
    if !status.is_ok_and(|status| status.success()) {
        println!("setup: it cannot be installed here: rustup target add {TARGET} fails");
    }
}

/// Checks all packages of the workspace but the absent ones.
pub fn check() -> Outcome {
    if !is_installed() {
        return Err(NotRun(format!("the standard library is missing: rustup target add {TARGET}")).into());
    }
    let absent = ABSENT.iter().flat_map(|(name, _)| ["--exclude", name]);
    let mut cargo = Command::new("cargo");
    cargo.args(["check", "--quiet", "--target", TARGET, "--workspace"]).args(absent);
    // Nothing links the C of some crates, so that this machine's compiler will do. It would not compile what
    // blake3 has for the vectors of the other processor.
    cargo.env("CC_aarch64_unknown_linux_gnu", "cc").env("CARGO_FEATURE_NO_NEON", "1");
    let status = cargo.current_dir(root()).status()?;
    if status.success() { Ok(()) } else { Err(format!("the crates do not compile for {TARGET}").into()) }
}

fn is_installed() -> bool {
    let found = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .current_dir(root())
        .output();
    found.is_ok_and(|output| std::path::Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}
