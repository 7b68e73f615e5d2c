//! Confinement: what a process that runs captured code may use of the system.
//!
//! A process confines itself before it opens devices and starts threads, and cannot undo that. On Linux,
//! Landlock denies all files but those that are listed, TCP, abstract sockets, and signals to others. A
//! filter of system calls denies what Landlock does not know: processes, sockets, the memory of others,
//! modes and times of files. Neither needs privileges.
//!
//! Descriptors that are opened before stay usable; inherited ones are closed.

use std::ffi::OsString;
use std::path::PathBuf;

use rehal_base::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::platform::{
    Reach, can_confine, describe_confinement, enter_limits, filter_calls, leave_parent, restrict_files,
};

/// Whether captured code is confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sandbox {
    /// As far as the system can.
    #[default]
    On,
    /// Not at all.
    Off,
    /// In full: what the system lacks is an error.
    Require,
}

/// Limits of a confined process; `None` for those of the process that starts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLimits {
    /// Bytes of private memory, besides pages of files that are mapped: those of each file a few times.
    pub memory_bytes: Option<u64>,
    /// Number of threads, besides those that the machine has.
    pub thread_count: Option<u64>,
    /// Bytes of each file.
    pub file_bytes: Option<u64>,
    /// Whether a crash may leave a core dump.
    pub dumps_core: bool,
}

/// The reach of confined work.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Confinement {
    /// Whether it is confined.
    pub sandbox: Sandbox,
    /// Its limits.
    pub limits: ProcessLimits,
    // Any path is a message as an `OsString`.
    reads: Vec<OsString>,
    writes: Vec<OsString>,
    /// Files of drivers, which are also controlled.
    controls: Vec<OsString>,
    /// Whether all files that drivers use are listed.
    is_complete: bool,
    /// Inherited descriptors that it uses.
    descriptors: Vec<i32>,
}

impl Default for Confinement {
    fn default() -> Self {
        Self::new(Sandbox::default())
    }
}

impl Confinement {
    /// A confinement with the default limits, that lists no files.
    pub fn new(sandbox: Sandbox) -> Self {
        let limits = ProcessLimits {
            memory_bytes: Some(rehal_base::memory_bytes().saturating_mul(2)),
            thread_count: Some(16384),
            ..ProcessLimits::default()
        };
        Self {
            sandbox,
            limits,
            reads: Vec::new(),
            writes: Vec::new(),
            controls: Vec::new(),
            is_complete: true,
            descriptors: Vec::new(),
        }
    }

    /// Adds a file that is read, or a directory with all that it contains. What does not exist is left out.
    pub fn read(&mut self, path: impl Into<PathBuf>) {
        self.reads.push(path.into().into());
    }

    /// Adds a file that is written, or a directory in which files are created, written and removed. It must
    /// exist by then.
    pub fn write(&mut self, path: impl Into<PathBuf>) {
        self.writes.push(path.into().into());
    }

    /// Adds a file that a driver opens, such as a device file, or a directory with such files.
    pub fn control(&mut self, path: impl Into<PathBuf>) {
        self.controls.push(path.into().into());
    }

    /// Adds a descriptor that the process has inherited. Besides these, it keeps standard output and error.
    pub fn keep_descriptor(&mut self, descriptor: i32) {
        self.descriptors.push(descriptor);
    }

    /// Says that a driver uses files that are not listed. It may then read all, and work that must be
    /// confined in full is refused.
    pub fn leave_incomplete(&mut self) {
        self.is_complete = false;
    }

    /// The lack of this system, in words; `None` if it can enforce all, or nothing is asked for.
    pub fn lacks(&self) -> Option<String> {
        let is_full = self.sandbox == Sandbox::Off || can_confine();
        (!is_full).then(|| self.describe())
    }

    /// The part of it that this system enforces, in words.
    pub fn describe(&self) -> String {
        if self.sandbox == Sandbox::Off { "not at all".to_owned() } else { describe_confinement() }
    }

    /// Confines this process, which has one thread, for good. Returns what has failed although the system
    /// [has](Self::lacks) it, such as a call that a container denies: the rest confines. Fails if it must be
    /// confined in full and the system cannot.
    pub fn enter(&self) -> Result<Option<Error>> {
        enter_limits(&self.limits, self.mapped_bytes())?;
        if self.sandbox == Sandbox::Off {
            return Ok(None);
        }
        let must = self.sandbox == Sandbox::Require;
        let unknown =
            (!self.is_complete).then(|| "what the driver of a device uses of the system is unknown".into());
        if must && let Some(missing) = self.lacks().or(unknown) {
            let message = format!("captured code cannot be confined in full: {missing}");
            return Err(Error::failed_precondition(message).advise(LOWER));
        }
        leave_parent(&self.descriptors)?;
        let reach = Reach {
            reads: &self.reads,
            writes: &self.writes,
            controls: &self.controls,
            is_complete: self.is_complete,
        };
        let files = restrict_files(&reach);
        match files.and(filter_calls(!self.controls.is_empty(), !self.writes.is_empty())) {
            Err(error) if must => Err(error.advise(LOWER)),
            confined => Ok(confined.err()),
        }
    }

    /// The bytes of mappings of the files that are read: the system counts those that may be written as
    /// memory, and each replay of a process has its own.
    fn mapped_bytes(&self) -> u64 {
        const MAPPINGS: u64 = 8;
        let length = |path| std::fs::metadata(path).ok().filter(|it| it.is_file()).map(|it| it.len());
        self.reads.iter().filter_map(length).fold(0, u64::saturating_add).saturating_mul(MAPPINGS)
    }
}

const LOWER: &str = "confine it as far as this system can, or run it in a virtual machine";
