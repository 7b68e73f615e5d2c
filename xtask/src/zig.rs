//! Builds for an old C library, with the linker of Zig: what a package needs of the system does not depend on
//! the machine that builds it.

use crate::portable::WINDOWS;
use crate::run::{self, succeed};
use crate::{root, venv};
use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The programs that build packages: for an old C library, the linker is that of Zig.
const PACKAGES: [&str; 3] = ["maturin==1.16.0", "cargo-zigbuild==0.24.1", "ziglang==0.17.1"];

/// The GNU C library that packages need, which is that of manylinux_2_28.
pub const LIBC: &str = "2.28";

/// The tools that build packages.
pub struct Zig {
    bin: PathBuf,
    /// With the tools first.
    path: OsString,
}

impl Zig {
    /// Finds the tools, which are installed by pip at the first time.
    pub fn find() -> Result<Self> {
        let python = venv::environment("wheel", |python| {
            python.args(PACKAGES);
        })?;
        let bin = python.parent().ok_or("an environment has a directory of programs")?.to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([bin.clone()].into_iter().chain(std::env::split_paths(&path)))?;
        Ok(Self { bin, path })
    }

    /// One of the tools, in the root of the repository.
    pub fn tool(&self, name: &str) -> Command {
        let mut tool = Command::new(self.bin.join(name));
        tool.env("PATH", &self.path).current_dir(root());
        tool
    }

    /// Builds what the arguments of Cargo select; for Windows, with the compiler of its own. Returns the
    /// directory that it is in.
    pub fn build(&self, target: &str, profile: &str, arguments: &[&str]) -> Result<PathBuf> {
        let mut cargo = match target {
            WINDOWS => run::cargo(&["build"]),
            _ => self.tool("cargo-zigbuild"),
        };
        let mut name = target.to_owned();
        if target != WINDOWS {
            cargo.arg("zigbuild");
            if target.ends_with("-gnu") {
                name.push_str(&format!(".{LIBC}"));
            }
        }
        cargo.args(["--quiet", "--profile", profile]).args(arguments);
        succeed(cargo.args(["--target", &name]))?;
        Ok(directory(&run::target(), target, profile))
    }
}

/// The file of the program that is built for a target.
pub fn program_name(target: &str) -> &'static str {
    if target == WINDOWS { "rehal.exe" } else { "rehal" }
}

/// Where Cargo puts what it builds for a target.
pub fn directory(built: &Path, target: &str, profile: &str) -> PathBuf {
    built.join(target).join(if profile == "dev" { "debug" } else { profile })
}

/// The version of the GNU C library that a program needs: the newest that it asks for. Fails if [`LIBC`] is
/// older.
pub fn needed_libc(program: &[u8]) -> Result<String> {
    let newest = newest_glibc(program).ok_or("the program names no version of the C library")?;
    let [_, oldest] = LIBC.split('.').collect::<Vec<_>>()[..] else {
        return Err("a version has two parts".into());
    };
    match newest <= oldest.parse()? {
        true => Ok(format!("2.{newest}")),
        false => Err(format!("the program needs glibc 2.{newest}, and packages are for {LIBC}").into()),
    }
}

/// The newest version 2.N of the GNU C library that a program asks for.
fn newest_glibc(program: &[u8]) -> Option<u32> {
    const PREFIX: &[u8] = b"GLIBC_2.";
    let starts = program.windows(PREFIX.len()).enumerate().filter(|(_, it)| *it == PREFIX);
    let minor = |(at, _): (usize, _)| {
        let digits: Vec<u8> =
            program[at + PREFIX.len()..].iter().copied().take_while(u8::is_ascii_digit).collect();
        String::from_utf8(digits).ok()?.parse::<u32>().ok()
    };
    starts.filter_map(minor).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_the_c_library_counts() {
        assert_eq!(needed_libc(b"GLIBC_2.2.5\0GLIBC_2.17\0GLIBC_2.4\0").unwrap(), "2.17");
        assert_eq!(needed_libc(b"GLIBC_2.28\0").unwrap(), "2.28");
        let error = needed_libc(b"GLIBC_2.2.5\0GLIBC_2.34\0").unwrap_err().to_string();
        assert_eq!(error, "the program needs glibc 2.34, and packages are for 2.28");
        assert!(needed_libc(b"GLIBC_PRIVATE").is_err());
    }

    #[test]
    fn cargo_has_a_directory_for_each_target_and_profile() {
        let of = |profile| directory(Path::new("target"), "aarch64", profile);
        assert_eq!(of("dev"), Path::new("target/aarch64/debug"));
        assert_eq!(of("capi"), Path::new("target/aarch64/capi"));
    }
}
