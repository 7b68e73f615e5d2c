//! Runs a compiler. What it prints is bounded, and what it starts and leaves behind is not waited for.

use std::io::{self, PipeReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::temporary::ProcessGroup;

/// Maximum number of bytes of messages that are kept.
const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// Maximum number of bytes that are read once the compiler has ended: the pipe holds no more by default.
const MAX_LAST_BYTES: usize = 64 << 10;
/// How often a compiler that prints nothing is asked whether it has ended.
const INTERVAL: Duration = Duration::from_millis(20);

/// A compiler that has ended.
pub(super) struct CompilerRun {
    pub status: ExitStatus,
    /// What it printed on standard output and standard error.
    pub messages: String,
}

impl CompilerRun {
    /// Runs a command to its end. The error is that of starting it, or of reading what it prints.
    pub(super) fn of(mut command: Command) -> io::Result<Self> {
        let (mut reader, writer) = io::pipe()?;
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let mut group = ProcessGroup::spawn(&mut command)?;
        // The writing end, which would keep the pipe open.
        drop(command);
        let mut messages = Messages::default();
        let ended = messages.read(&mut reader, group.child());
        if ended.is_err() {
            group.kill();
        }
        // After the end of the messages: one that closes its output may still run.
        let status = group.child().wait()?;
        ended.map(|()| Self { status, messages: messages.text() })
    }
}

/// The begin of what a compiler prints.
#[derive(Default)]
struct Messages {
    bytes: Vec<u8>,
    omitted_count: u64,
}

impl Messages {
    /// Reads until the pipe or the compiler ends. A process that it has started may keep the pipe open.
    fn read(&mut self, reader: &mut PipeReader, child: &mut Child) -> io::Result<()> {
        let mut last_count = 0;
        let mut has_ended = false;
        loop {
            let timeout = if has_ended { Duration::ZERO } else { INTERVAL };
            if is_readable(reader, timeout)? {
                let count = self.read_some(reader)?;
                last_count += if has_ended { count } else { 0 };
                if count == 0 || last_count >= MAX_LAST_BYTES {
                    return Ok(());
                }
            } else if has_ended {
                return Ok(());
            }
            has_ended = has_ended || child.try_wait()?.is_some();
        }
    }

    fn read_some(&mut self, reader: &mut PipeReader) -> io::Result<usize> {
        let mut chunk = [0; 8 << 10];
        let count = loop {
            match reader.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => break outcome?,
            }
        };
        let kept = count.min(MAX_MESSAGE_BYTES - self.bytes.len());
        self.bytes.extend_from_slice(&chunk[..kept]);
        self.omitted_count += (count - kept) as u64;
        Ok(count)
    }

    fn text(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.bytes).into_owned();
        if self.omitted_count != 0 {
            text.push_str(&format!("\n({} more bytes of messages)\n", self.omitted_count));
        }
        text
    }
}

fn is_readable(reader: &PipeReader, timeout: Duration) -> io::Result<bool> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
    let mut polled = [PollFd::new(reader, PollFlags::IN)];
    let count = rustix::io::retry_on_intr(|| poll(&mut polled, Some(&timeout)))?;
    Ok(count != 0)
}
