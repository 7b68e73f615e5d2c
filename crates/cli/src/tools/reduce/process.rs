//! Checks as processes: their command lines, their time, and what they print.

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rehal_base::{Error, Result};
use rehal_session::ProcessGroup;

use crate::kernel_recording;

/// How much of what a process prints is kept: its end.
const KEPT_BYTES: usize = 16 << 10;
/// How long what a process prints is awaited after it has ended.
const LAST_OUTPUT: Duration = Duration::from_millis(500);
/// The longest time between two looks at a process.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// What stands for the capture in a command.
const PLACE: &str = "{}";

/// A command that checks a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckCommand {
    /// A program and its arguments.
    Words(Vec<String>),
    /// A line for `sh -c`.
    Shell(String),
}

impl CheckCommand {
    /// Parses a command. It is split into words as a shell does; if it has syntax of a shell outside of quotes, a shell runs it.
    pub(super) fn parse(text: &str) -> Result<Self> {
        if is_shell_syntax(text) {
            if !text.contains(PLACE) {
                return Err(Error::invalid_argument(
                    "the command of --check needs a shell, and does not contain {}",
                )
                .advise("write {} where the path of the capture belongs"));
            }
            return Ok(Self::Shell(text.to_string()));
        }
        let mut words: Vec<String> = shlex::split(text).ok_or_else(|| {
            Error::invalid_argument(format!("--check={text}: a quotation mark is not closed"))
                .advise("close it, or put a backslash before it")
        })?;
        if words.is_empty() {
            return Err(Error::invalid_argument("--check is empty")
                .advise("give crash, wrong, slow, or a command with {} in place of the capture"));
        }
        if !words.iter().any(|word| word.contains(PLACE)) {
            words.push(PLACE.to_string());
        }
        Ok(Self::Words(words))
    }

    /// The command for a capture. It does not record kernels: the second one would find the records of the first, and fail.
    pub(super) fn on(&self, capture: &Path) -> Result<Command> {
        let mut command = self.with(capture)?;
        command.env_remove(kernel_recording::VARIABLE);
        Ok(command)
    }

    fn with(&self, capture: &Path) -> Result<Command> {
        Ok(match self {
            Self::Words(words) => {
                let mut words = words.iter().map(|word| replaced(word, capture.as_os_str()));
                let mut command = Command::new(words.next().unwrap_or_default());
                command.args(words);
                command
            }
            Self::Shell(line) => {
                let quoted = shlex::bytes::try_quote(capture.as_os_str().as_bytes())
                    .map_err(|_| Error::invalid_argument("the path of the capture contains a NUL"))?;
                let mut command = Command::new("/bin/sh");
                command.arg("-c").arg(replaced(line, OsStr::from_bytes(&quoted)));
                command
            }
        })
    }

    /// What runs: the program, or the shell.
    pub(super) fn program(&self) -> &str {
        match self {
            Self::Words(words) => &words[0],
            Self::Shell(_) => "/bin/sh",
        }
    }
}

fn replaced(text: &str, path: &OsStr) -> OsString {
    let pieces: Vec<&[u8]> = text.split(PLACE).map(str::as_bytes).collect();
    OsString::from_vec(pieces.join(path.as_bytes()))
}

/// Whether a shell would do more with a text than split it into words.
fn is_shell_syntax(text: &str) -> bool {
    let mut quote = None;
    let mut characters = text.chars().peekable();
    let mut starts_word = true;
    while let Some(it) = characters.next() {
        match (quote, it) {
            (None, '\'' | '"') => quote = Some(it),
            (Some(open), it) if it == open => quote = None,
            (None | Some('"'), '\\') => drop(characters.next()),
            (None | Some('"'), '$' | '`') => return true,
            (None, '|' | '&' | ';' | '<' | '>' | '(' | ')' | '*' | '?' | '\n') => return true,
            (None, '~' | '#' | '!') if starts_word => return true,
            _ => {}
        }
        starts_word = quote.is_none() && it.is_ascii_whitespace();
    }
    // A variable is set for the command.
    let first = text.split_ascii_whitespace().next().unwrap_or_default();
    let name = first.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// A process that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub end: End,
    /// What it printed on standard output, at the end.
    pub stdout: Vec<u8>,
    /// The same of standard error.
    pub stderr: Vec<u8>,
    /// Whether it was about to end by itself, for a process that says so.
    pub is_announced: bool,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Exited(ExitStatus),
    TimedOut,
    Interrupted,
}

/// Runs a process, with all that it starts, for at most `timeout` and until `interrupted`.
pub(super) fn run(mut command: Command, timeout: Duration, interrupted: &AtomicBool) -> io::Result<Ended> {
    let (out, out_writer) = io::pipe()?;
    let (err, err_writer) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(out_writer).stderr(err_writer);
    let begun = Instant::now();
    let mut group = ProcessGroup::spawn(&mut command)?;
    // Its ends of the pipes, which would keep them open.
    drop(command);
    let (out, err) = (kept(out)?, kept(err)?);
    let end = wait(group.child(), begun, timeout, interrupted);
    // What it has started ends with it, whatever way it ended.
    group.kill();
    let end = match end {
        Ok(End::Exited(status)) => End::Exited(status),
        other => {
            group.child().wait()?;
            other?
        }
    };
    let text = |receiver: Receiver<Vec<u8>>| receiver.recv_timeout(LAST_OUTPUT).unwrap_or_default();
    Ok(Ended { end, stdout: text(out), stderr: text(err), is_announced: false })
}

fn wait(child: &mut Child, begun: Instant, timeout: Duration, interrupted: &AtomicBool) -> io::Result<End> {
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(End::Exited(status));
        }
        if interrupted.load(Ordering::Relaxed) {
            return Ok(End::Interrupted);
        }
        if begun.elapsed() >= timeout {
            return Ok(End::TimedOut);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Reads a pipe on a thread, and passes on its end once it is closed. A process that left the group may keep it open.
fn kept(mut pipe: PipeReader) -> io::Result<Receiver<Vec<u8>>> {
    let (sender, receiver) = channel();
    let read = move || {
        let mut bytes = Vec::new();
        let mut piece = [0; 8 << 10];
        while let Ok(count @ 1..) = pipe.read(&mut piece) {
            bytes.extend_from_slice(&piece[..count]);
            if bytes.len() > 2 * KEPT_BYTES {
                bytes.drain(..bytes.len() - KEPT_BYTES);
            }
        }
        // The receiver may no longer wait.
        let _ = sender.send(bytes);
    };
    thread::Builder::new().name("check_output".into()).spawn(read)?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        match CheckCommand::parse(text).unwrap() {
            CheckCommand::Words(words) => words,
            CheckCommand::Shell(line) => panic!("a shell runs {line}"),
        }
    }

    #[test]
    fn commands_are_split_into_words() {
        assert_eq!(words("a 'b c' \"d e\" f\\ g {}"), ["a", "b c", "d e", "f g", "{}"]);
        assert_eq!(words("a --x={}.txt '{}'"), ["a", "--x={}.txt", "{}"]);
        assert_eq!(words("check.sh"), ["check.sh", "{}"]);
        assert_eq!(words("grep 'a|b*' {}"), ["grep", "a|b*", "{}"]);
        assert!(CheckCommand::parse("a 'b").is_err() && CheckCommand::parse("  ").is_err());
    }

    #[test]
    fn syntax_of_a_shell_needs_one() {
        for line in
            ["a {} | b", "! a {}", "a {} && b", "A=1 a {}", "a {} > b", "a $B {}", "a \"$B\" {}", "a `b` {}"]
        {
            assert_eq!(CheckCommand::parse(line).unwrap(), CheckCommand::Shell(line.into()));
        }
        assert!(CheckCommand::parse("a | b").is_err());
    }

    #[test]
    fn paths_are_quoted_for_a_shell_only() {
        let path = Path::new("/a b/'c'");
        let of = |text: &str| {
            let command = CheckCommand::parse(text).unwrap().on(path).unwrap();
            command.get_args().map(|it| it.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(of("x -{}- {}"), ["-/a b/'c'-", "/a b/'c'"]);
        let shown = run(
            CheckCommand::parse("printf %s {} | cat").unwrap().on(path).unwrap(),
            Duration::from_secs(60),
            &AtomicBool::new(false),
        );
        assert_eq!(shown.unwrap().stdout, b"/a b/'c'");
    }

    #[test]
    fn a_process_ends_with_all_that_it_has_started() {
        let run_for = |text: &str, timeout, interrupted| {
            let command = CheckCommand::parse(text).unwrap().on(Path::new("x")).unwrap();
            run(command, timeout, &AtomicBool::new(interrupted)).unwrap()
        };
        let begun = Instant::now();
        let ended = run_for("sleep 600 & sleep 600; : {}", Duration::from_millis(50), false);
        assert_eq!(ended.end, End::TimedOut);
        let ended =
            run_for("sleep 600 & echo out; echo err >&2; exit 3; : {}", Duration::from_secs(600), false);
        assert!(matches!(ended.end, End::Exited(status) if status.code() == Some(3)), "{ended:?}");
        assert_eq!((&*ended.stdout, &*ended.stderr), (&b"out\n"[..], &b"err\n"[..]));
        let ended = run_for("sleep 600; : {}", Duration::from_secs(600), true);
        assert_eq!(ended.end, End::Interrupted);
        assert!(begun.elapsed() < Duration::from_secs(300));
    }
}
