//! Runs a tool, ours or the reference's, and captures its output.

use crate::captures::repository;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Timeout of a tool: far above the duration of any test.
const LIMIT: Duration = Duration::from_secs(120);

/// The result of a finished tool.
#[derive(Debug)]
pub struct Ended {
    /// The exit status, unless killed by a signal.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

impl Ended {
    /// Whether it exited with status 0.
    pub fn succeeded(&self) -> bool {
        self.code == Some(0)
    }

    /// The status code name on standard error, e.g. `INVALID_ARGUMENT`: at the start of a line, or after the
    /// source location that the reference's tools print first.
    pub fn status_name(&self) -> Option<String> {
        let said = String::from_utf8_lossy(&self.stderr);
        said.lines().find_map(|line| {
            let (before, _) = line.split_once("; ")?;
            let name = before.rsplit_once(": ").map_or(before, |(_, name)| name);
            let is_name =
                name.len() > 1 && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
            is_name.then(|| name.to_owned())
        })
    }

    /// Exit status and the start of the output, for a message.
    pub fn summary(&self) -> String {
        let how = match (self.code, self.signal) {
            (Some(code), _) => format!("status {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or_default()),
        };
        let said = String::from_utf8_lossy(&self.stderr);
        format!("{how}: {}", said.chars().take(600).collect::<String>())
    }
}

/// Runs `program` in `directory`; fails if it does not start or exceeds the timeout.
pub fn run<S: AsRef<OsStr>>(program: &Path, arguments: &[S], directory: &Path) -> io::Result<Ended> {
    run_within(LIMIT, program, arguments, directory)
}

/// Like [`run`], with another timeout: a compiler on a busy machine takes longer than any tool.
pub fn run_within<S: AsRef<OsStr>>(
    limit: Duration,
    program: &Path,
    arguments: &[S],
    directory: &Path,
) -> io::Result<Ended> {
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))?;
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let status = wait(&mut child, limit)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))?;
    Ok(Ended {
        code: status.code(),
        signal: status.signal(),
        stdout: stdout.join().unwrap_or_default(),
        stderr: stderr.join().unwrap_or_default(),
    })
}

fn drain<R: io::Read + Send + 'static>(pipe: Option<R>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // Output read before an error is still worth comparing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn wait(child: &mut Child, limit: Duration) -> io::Result<std::process::ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("timed out after {} s", limit.as_secs()),
            ));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Our tool `name` from `cargo build --package rehal-cli`, or from the directory `REHAL_TOOLS`,
/// which may be relative to the repository.
pub fn ours(name: &str) -> Result<PathBuf, String> {
    let directory = match std::env::var_os("REHAL_TOOLS") {
        Some(directory) if !directory.is_empty() => repository().join(directory),
        _ => {
            let target = std::env::var_os("CARGO_TARGET_DIR")
                .map_or_else(|| repository().join("target"), PathBuf::from);
            target.join("debug")
        }
    };
    let path = directory.join(name);
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!("{} is not built; run `cargo build --package rehal-cli`", path.display()))
    }
}
