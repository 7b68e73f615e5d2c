//! The channel between a worker and the process that started it: two pipes, of which the worker reads one as
//! its standard input, and inherits the other.

use std::env;
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::windows::io::{AsHandle, AsRawHandle, FromRawHandle};
use std::process::Command;

use windows_sys::Win32::Foundation::{HANDLE, HANDLE_FLAG_INHERIT, SetHandleInformation};

/// The variable with the number of the handle that a worker writes to.
const HANDLE_NAME: &str = "REHAL_WORKER_HANDLE";

/// The end of the worker.
#[derive(Debug)]
pub(crate) struct Channel {
    input: File,
    output: File,
}

impl Channel {
    pub(crate) fn of_stdin() -> io::Result<Self> {
        let handle = env::var(HANDLE_NAME).ok().and_then(|it| it.parse::<usize>().ok());
        let handle =
            handle.ok_or_else(|| io::Error::new(ErrorKind::NotConnected, "no process asks for work"))?;
        let input = io::stdin().as_handle().try_clone_to_owned()?.into();
        // SAFETY: the process that has started this one made the handle for it, and nothing else uses it.
        let output = unsafe { File::from_raw_handle(std::ptr::with_exposed_provenance_mut(handle)) };
        Ok(Self { input, output })
    }

    /// Has no effect: embedded executables read no standard input.
    #[allow(clippy::unnecessary_wraps, reason = "fails on other systems")]
    pub(crate) fn empty_stdin() -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { input: self.input.try_clone()?, output: self.output.try_clone()? })
    }

    /// Another handle, to write to.
    pub(crate) fn to_file(&self) -> io::Result<File> {
        self.output.try_clone()
    }

    /// Makes the process of a command a worker. Returns what this process writes to and reads, and the end of
    /// the latter, which is to be closed once the process has begun.
    pub(super) fn give_to(command: &mut Command) -> io::Result<(PipeWriter, PipeReader, PipeWriter)> {
        let ((stdin, requests), (answers, output)) = (io::pipe()?, io::pipe()?);
        // SAFETY: the handle is open.
        if unsafe {
            SetHandleInformation(output.as_raw_handle() as HANDLE, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT)
        } == 0
        {
            return Err(io::Error::last_os_error());
        }
        command.stdin(stdin).env(HANDLE_NAME, output.as_raw_handle().addr().to_string());
        Ok((requests, answers, output))
    }
}

impl Read for &Channel {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        (&self.input).read(bytes)
    }
}

impl Write for &Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.output).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
