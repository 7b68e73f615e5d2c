//! Running another program and keeping what it said.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Output};

/// What a program that has ended left behind.
pub struct Ended {
    /// `status N` or `signal N`.
    pub how: String,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// Runs `program` in `folder` and collects its output; the error says what could not be started.
pub fn collect(program: &Path, arguments: &[String], folder: &Path) -> io::Result<Ended> {
    let Output { status, stdout, stderr } = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))?;
    Ok(Ended { how: ending(status), stdout, stderr })
}

/// `status N` for an exit, `signal N` for a death.
pub fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".to_owned(),
    }
}
