//! The other end of a job: the process that performs it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use rehal_base::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::platform::Channel;

/// A message of a worker, as a line. After all lines, it says its exit status, as a byte.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    Milestone,
    Question(Value),
    Answer(Value),
}

/// Most bytes of a message, with the end of its line.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Whether this process has taken the request of a worker.
static IS_WORKER: AtomicBool = AtomicBool::new(false);

/// Whether this process is a worker, whose requests are those of the process that started it.
pub fn is_worker() -> bool {
    IS_WORKER.load(Ordering::Relaxed)
}

/// A process that performs a job of this program.
#[derive(Debug)]
pub struct Worker {
    request: Value,
    channel: Channel,
}

impl Worker {
    /// The first argument of a worker's process.
    pub const VERB: &'static str = "worker";

    /// Takes the request of this process from its standard input, which is empty afterwards. Fails if this is
    /// not a worker's process.
    ///
    /// # Safety
    ///
    /// The process that started this one vouches for what it asks for, such as plugins: from here on,
    /// [`is_worker`] says so.
    #[allow(unsafe_code, reason = "trust boundary of native code, forwarded to the caller")]
    pub unsafe fn from_stdin() -> io::Result<Self> {
        let channel = Channel::of_stdin()?;
        let mut line = String::new();
        BufReader::new(&channel).read_line(&mut line)?;
        let request = serde_json::from_str(&line)?;
        // A kernel must not find it.
        Channel::empty_stdin()?;
        IS_WORKER.store(true, Ordering::Relaxed);
        Ok(Self { request, channel })
    }

    #[cfg(test)]
    pub(crate) fn with_request(request: Value, channel: Channel) -> Self {
        Self { request, channel }
    }

    /// The request to it.
    pub fn request<T: DeserializeOwned>(&self) -> io::Result<T> {
        Ok(T::deserialize(&self.request)?)
    }

    /// Says that the limit until the milestone no longer applies.
    pub fn reach_milestone(&self) -> io::Result<()> {
        self.say(&Message::Milestone)
    }

    /// Sends its answer. If it sends several, the last one counts. Fails with
    /// [`FileTooLarge`](io::ErrorKind::FileTooLarge) if it has more than 64 MiB.
    pub fn answer(&self, answer: &impl Serialize) -> io::Result<()> {
        self.say(&Message::Answer(serde_json::to_value(answer)?))
    }

    /// Where it writes the exit status with which it is about to end, as a byte, after its answer.
    fn exit_status(&self) -> io::Result<File> {
        self.channel.to_file()
    }

    /// The way to ask the process that started it.
    pub fn asker(&self) -> io::Result<Asker> {
        Ok(Asker { channel: self.channel.try_clone()? })
    }

    fn say(&self, message: &Message) -> io::Result<()> {
        say(&self.channel, message)
    }
}

/// Asks the process that started a worker: see [`Job::converse`](crate::Job::converse).
#[derive(Debug)]
pub struct Asker {
    channel: Channel,
}

impl Asker {
    /// Asks, and waits for the answer.
    pub fn ask<T: DeserializeOwned>(&mut self, question: &impl Serialize) -> io::Result<T> {
        say(&self.channel, &Message::Question(serde_json::to_value(question)?))?;
        let mut line = String::new();
        // An answer is all that is sent after a question.
        if BufReader::new(&self.channel).read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&line)?)
    }
}

/// Does work in a worker's process: says with which status it is about to end. `report` gets its error.
pub fn announced(worker: &Worker, work: impl FnOnce() -> Result<u8>, report: fn(&Error)) -> Result<u8> {
    let cannot = |error: io::Error| Error::io("passing an exit status", &error);
    let mut to = worker.exit_status().map_err(cannot)?;
    rehal_crash::announce_exits(to.try_clone().map_err(cannot)?.into());
    let status = work().unwrap_or_else(|error| {
        report(&error);
        1
    });
    to.write_all(&[status]).map_err(cannot)?;
    Ok(status)
}

/// The messages of a worker so far. A kernel may have found the socket: a line that is not a message is
/// ignored, and so is all that follows a line that is too long for one.
#[derive(Default)]
pub(crate) struct WorkerMessages {
    pub(crate) is_past_milestone: bool,
    pub(crate) answer: Option<Value>,
    /// The questions that have no answer yet.
    pub(crate) questions: VecDeque<Value>,
    /// The start of a line, or the exit status.
    pub(crate) rest: Vec<u8>,
    is_too_long: bool,
}

impl WorkerMessages {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.is_too_long {
                return;
            }
            // Lines are not empty: an exit status 10 is not the end of one, and is not the last byte if more
            // follows.
            if self.rest == b"\n" {
                self.rest.clear();
            }
            self.rest.extend_from_slice(line);
            self.is_too_long = self.rest.len() > MAX_MESSAGE_BYTES;
            if let [message @ .., b'\n'] = &self.rest[..]
                && !message.is_empty()
            {
                match serde_json::from_slice(message) {
                    Ok(Message::Milestone) => self.is_past_milestone = true,
                    Ok(Message::Question(question)) => self.questions.push_back(question),
                    Ok(Message::Answer(answer)) => self.answer = Some(answer),
                    Err(_) => {}
                }
                self.rest.clear();
            }
        }
    }

    /// The exit status, once all is read.
    pub(crate) fn exit_status(&self) -> Option<u8> {
        match self.rest[..] {
            [status] if !self.is_too_long => Some(status),
            _ => None,
        }
    }
}

fn say(mut channel: &Channel, message: &Message) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    if line.len() > MAX_MESSAGE_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the answer has more than 64 MiB"));
    }
    channel.write_all(&line)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Without it, a worker may announce another status than that of its work.
    #[test]
    fn a_worker_announces_its_status_last() {
        for (outcome, status) in [(Ok(0), 0), (Ok(7), 7), (Err(Error::not_found("nothing")), 1)] {
            let (mut own, other) = UnixStream::pair().unwrap();
            let worker = Worker::with_request(Value::from("way"), Channel(other));
            own.write_all(b"11\n").unwrap();
            assert_eq!(worker.request::<String>().unwrap(), "way");
            assert_eq!(worker.asker().unwrap().ask::<u32>(&"more").unwrap(), 11);
            let work = || -> Result<u8> {
                worker.answer(&5).unwrap();
                outcome
            };
            assert_eq!(announced(&worker, work, |_| {}).unwrap(), status);
            let expected = [&b"{\"Question\":\"more\"}\n{\"Answer\":5}\n"[..], &[status]].concat();
            let mut said = vec![0; expected.len()];
            own.read_exact(&mut said).unwrap();
            assert_eq!(said, expected);
        }
    }
}
