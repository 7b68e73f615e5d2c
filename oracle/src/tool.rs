//! Running a tool, ours or the reference's, and keeping what it said.

use crate::captures::repository;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Nothing that the tests run takes nearly this long; what does is a hang.
const LIMIT: Duration = Duration::from_secs(120);

/// What a tool that has ended left behind.
#[derive(Debug)]
pub struct Ended {
    /// The exit status, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

impl Ended {
    /// Whether it ended with status 0.
    pub fn succeeded(&self) -> bool {
        self.code == Some(0)
    }

    /// The name of the status code that standard error begins with, e.g. `INVALID_ARGUMENT`: at the start of a line, or
    /// after the place in the source that the reference's tools name first.
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

    /// How it ended and the start of what it said, for a message.
    pub fn summary(&self) -> String {
        let how = match (self.code, self.signal) {
            (Some(code), _) => format!("status {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or_default()),
        };
        let said = String::from_utf8_lossy(&self.stderr);
        format!("{how}: {}", said.chars().take(600).collect::<String>())
    }
}

/// Runs `program` in `directory`; an error if it does not start or does not end in time.
pub fn run<S: AsRef<OsStr>>(program: &Path, arguments: &[S], folder: &Path) -> io::Result<Ended> {
    run_within(LIMIT, program, arguments, folder)
}

/// As [`run`], with a limit of its own: a compiler on a busy machine takes longer than any tool.
pub fn run_within<S: AsRef<OsStr>>(
    limit: Duration,
    program: &Path,
    arguments: &[S],
    folder: &Path,
) -> io::Result<Ended> {
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
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
            // What was read before an error is still worth comparing.
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
                format!("did not end within {} s", limit.as_secs()),
            ));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Our tool `name`, as `cargo build --package rehal-cli` leaves it; `REHAL_TOOLS` names another directory.
pub fn ours(name: &str) -> Result<PathBuf, String> {
    let folder = match std::env::var_os("REHAL_TOOLS") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => {
            let target = std::env::var_os("CARGO_TARGET_DIR")
                .map_or_else(|| repository().join("target"), PathBuf::from);
            target.join("debug")
        }
    };
    let path = folder.join(name);
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!("{} is not built; run `cargo build --package rehal-cli`", path.display()))
    }
}
