//! Runs other programs and captures their output; builds our tools.

use crate::{Outcome, root};
use std::error::Error;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};

/// The result of a finished program.
pub struct Ended {
    /// `status N` or `signal N`.
    pub how: String,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// Runs `program` in `directory` and captures its output; the error names a program that cannot be started.
pub fn collect(program: &Path, arguments: &[String], directory: &Path) -> io::Result<Ended> {
    let Output { status, stdout, stderr } = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))?;
    Ok(Ended { how: ending(status), stdout, stderr })
}

/// Builds our tools in a profile: `release`, or `dev-release`, which builds faster. Returns their directory.
pub fn build_tools(profile: &str) -> Result<PathBuf, Box<dyn Error>> {
    build(profile, &["--bins"])
}

/// Builds `rehal` alone. Returns its directory.
pub fn build_rehal(profile: &str) -> Result<PathBuf, Box<dyn Error>> {
    build(profile, &["--bin", "rehal"])
}

/// Arguments of Cargo that select `rehal` alone, which has the verbs of all tools.
pub const REHAL: [&str; 4] = ["--package", "rehal-cli", "--bin", "rehal"];

fn build(profile: &str, which: &[&str]) -> Result<PathBuf, Box<dyn Error>> {
    let arguments = ["build", "--profile", profile, "--quiet", "--package", "rehal-cli"];
    succeed(cargo(&arguments).args(which))?;
    Ok(target().join(profile))
}

/// Cargo with these arguments, in the root of the repository.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args(arguments).current_dir(root());
    cargo
}

/// Runs a program, which must succeed.
pub fn succeed(command: &mut Command) -> Outcome {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let status = command.status().map_err(|error| format!("{words}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{words}: {status}").into()) }
}

/// The directory of what Cargo builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// `status N` for an exit, `signal N` for a killed process.
pub fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".to_owned(),
    }
}
