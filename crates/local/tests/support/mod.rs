//! Compiles the tests' libraries with the C compiler that Rust links with.
#![allow(dead_code, reason = "each test binary uses a part")]

pub mod commands;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// The formats of this machine.
pub const EMBEDDED: &str =
    if cfg!(target_arch = "aarch64") { "embedded-elf-arm_64" } else { "embedded-elf-x86_64" };
pub const SYSTEM: &str =
    if cfg!(target_arch = "aarch64") { "system-elf-arm_64" } else { "system-elf-x86_64" };
/// The number of this machine in ELF images, its name, and those of another one.
pub const MACHINES: [(u8, &str); 2] = if cfg!(target_arch = "aarch64") {
    [(183, "arm_64"), (62, "x86_64")]
} else {
    [(62, "x86_64"), (183, "arm_64")]
};

/// How a library is linked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// For our own ELF loader: without imports.
    Embedded,
    /// For the system's dynamic loader.
    System,
}

/// This program, to be started again: an emulated process cannot start a program for its processor.
pub fn own_program() -> Command {
    let own = std::env::current_exe().unwrap();
    let emulator = std::env::var("REHAL_TEST_EMULATOR").unwrap_or_default();
    let mut words = emulator.split_whitespace();
    let Some(program) = words.next() else { return Command::new(own) };
    let mut emulated = Command::new(program);
    emulated.args(words).arg(own);
    emulated
}

/// The bytes of `tests/sources/SOURCE` compiled with these options.
pub fn compile(source: &str, link: Link, options: &[&str]) -> Vec<u8> {
    let path = compile_to("so", source, link, options);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    bytes
}

/// Likewise, as a file with the given extension.
pub fn compile_to(extension: &str, source: &str, link: Link, options: &[&str]) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{source}-{}-{number}.{extension}", std::process::id());
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sources").join(source);
    // Under an emulator, `cc` is the compiler for another processor.
    let own = if cfg!(target_arch = "aarch64") { "aarch64-linux-gnu-gcc" } else { "cc" };
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or(own.into()));
    compiler.args(["-shared", "-fPIC", "-O1", "-w", "-fvisibility=hidden", "-fno-stack-protector"]);
    compiler.args(["-fcf-protection=none", "-fno-asynchronous-unwind-tables"]);
    if cfg!(target_arch = "aarch64") {
        // As it is by default for x86-64.
        compiler.args(["-mno-outline-atomics", "-Wl,-z,separate-code"]);
    }
    if link == Link::Embedded {
        compiler.args(["-nostdlib", "-ffreestanding"]);
    }
    let result =
        compiler.args(options).args([OsStr::new("-o"), output.as_os_str(), source.as_os_str()]).output();
    let result = result.expect("a C compiler, which Rust needs as its linker too");
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    output
}
