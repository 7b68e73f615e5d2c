//! The channel between a worker and the process that started it: a socket, which is the worker's standard
//! input.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// The end of the worker.
#[derive(Debug)]
pub(crate) struct Channel(pub(crate) UnixStream);

impl Channel {
    pub(crate) fn of_stdin() -> io::Result<Self> {
        Ok(Self(io::stdin().as_fd().try_clone_to_owned()?.into()))
    }

    /// Makes standard input empty.
    pub(crate) fn empty_stdin() -> io::Result<()> {
        Ok(rustix::stdio::dup2_stdin(File::open("/dev/null")?)?)
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Another handle, to write to.
    pub(crate) fn to_file(&self) -> io::Result<File> {
        self.0.try_clone().map(|it| OwnedFd::from(it).into())
    }
}

impl Read for &Channel {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(bytes)
    }
}

impl Write for &Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
