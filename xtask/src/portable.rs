//! Checks that the crates compile for a processor and a system that CI does not have: nothing but `platform`
//! may require others.

use crate::run::{cargo, succeed};
use crate::{NotRun, Outcome, root};
use std::error::Error;
use std::process::Command;

/// The other processor.
pub const TARGET: &str = "aarch64-unknown-linux-gnu";

/// The other system, for whose C code the compiler of Zig has headers.
const SYSTEM: &str = "aarch64-apple-darwin";

/// The system of what [Wine](crate::wine) runs.
pub const WINDOWS: &str = "x86_64-pc-windows-gnu";

/// The packages that need not compile for it, and why.
const ABSENT: [(&str, &str); 2] = [
    ("oracle", "the reference release, with which it compares, is that of this machine"),
    ("xtask", "it runs on this machine"),
];

/// Installs the standard libraries of the other platforms, if they can be.
pub fn set_up() {
    for target in [TARGET, SYSTEM, WINDOWS].into_iter().filter(|it| !is_installed(it)) {
        println!("setup: installing the standard library for {target}");
        let mut rustup = Command::new("rustup");
        if let Err(why) = succeed(rustup.args(["target", "add", target]).current_dir(root())) {
            println!("setup: it cannot be installed here: {why}");
        }
    }
}

/// Checks all packages of the workspace but the absent ones. `zig` finds Cargo with the compiler of Zig.
pub fn check(zig: impl FnOnce() -> Result<Command, Box<dyn Error>>) -> Outcome {
    if let Some(target) = [TARGET, SYSTEM].into_iter().find(|it| !is_installed(it)) {
        return Err(NotRun(format!("the standard library is missing: rustup target add {target}")).into());
    }
    let absent = ABSENT.iter().flat_map(|(name, _)| ["--exclude", name]);
    let mut cargo = cargo(&["check", "--quiet", "--target", TARGET, "--workspace"]);
    cargo.args(absent.clone());
    // Nothing links the C of some crates, so that this machine's compiler will do. It would not compile what
    // blake3 has for the vectors of the other processor.
    cargo.env("CC_aarch64_unknown_linux_gnu", "cc").env("CARGO_FEATURE_NO_NEON", "1");
    succeed(&mut cargo)?;
    let mut zig = zig()?;
    // Its program, and not the module of Python, for which PyO3 looks for an interpreter there.
    zig.args(["check", "--quiet", "--target", SYSTEM, "--workspace", "--exclude", "rehal-python"]);
    succeed(zig.args(absent))
}

/// Whether the standard library of a platform is here.
pub fn is_installed(target: &str) -> bool {
    let found = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", target])
        .current_dir(root())
        .output();
    found.is_ok_and(|output| std::path::Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}
