//! Checks that the crates compile for a processor that CI does not have: nothing but `PLATFORM` may require
//! x86-64.

use crate::run::{cargo, succeed};
use crate::{NotRun, Outcome, root};
use std::process::Command;

/// The other platform.
pub const TARGET: &str = "aarch64-unknown-linux-gnu";

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
    let mut rustup = Command::new("rustup");
    if let Err(why) = succeed(rustup.args(["target", "add", TARGET]).current_dir(root())) {
        println!("setup: it cannot be installed here: {why}");
    }
}

/// Checks all packages of the workspace but the absent ones.
pub fn check() -> Outcome {
    if !is_installed() {
        return Err(NotRun(format!("the standard library is missing: rustup target add {TARGET}")).into());
    }
    let absent = ABSENT.iter().flat_map(|(name, _)| ["--exclude", name]);
    let mut cargo = cargo(&["check", "--quiet", "--target", TARGET, "--workspace"]);
    cargo.args(absent);
    // Nothing links the C of some crates, so that this machine's compiler will do. It would not compile what
    // blake3 has for the vectors of the other processor.
    cargo.env("CC_aarch64_unknown_linux_gnu", "cc").env("CARGO_FEATURE_NO_NEON", "1");
    succeed(&mut cargo)
}

fn is_installed() -> bool {
    let found = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .current_dir(root())
        .output();
    found.is_ok_and(|output| std::path::Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}
