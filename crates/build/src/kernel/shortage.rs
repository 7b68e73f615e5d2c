use std::io::ErrorKind;
use std::path::Path;

use rehal_base::{Error, StatusCode};
use rehal_jobs::JobEnd;

use rehal_jobs::full_directory;

use crate::platform;
pub use crate::platform::memory_limit;

/// The resource that a compiler lacked that has failed, as far as it or its directory tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Space for temporary files.
    Disk,
    /// The limit of the size of a file.
    FileSize,
    /// Memory, or threads, whose stacks are memory.
    Memory,
}

/// The messages of compilers, loaders and C libraries about memory that is not there.
const OF_MEMORY: [&str; 9] = [
    "out of memory",
    "MemoryError",
    "bad_alloc",
    "failed to map segment",
    "virtual memory exhausted",
    "memory allocation of",
    // The stack of a thread.
    "pthread_create failed",
    "what():  Resource temporarily unavailable",
    "thread constructor failed",
];

impl Shortage {
    /// Finds it in how a compiler ended, in its messages, and in its directory, which may still be full.
    pub fn find(end: JobEnd, messages: &str, directory: Option<&Path>) -> Option<Self> {
        let told = platform::shortage(end, messages);
        if told == Some(Self::FileSize) || messages.contains("File size limit exceeded") {
            return Some(Self::FileSize);
        }
        if told == Some(Self::Disk) || directory.is_some_and(is_full) {
            return Some(Self::Disk);
        }
        told.or_else(|| OF_MEMORY.iter().any(|text| messages.contains(text)).then_some(Self::Memory))
    }

    /// The error of a compilation that failed for it, with what to do.
    pub fn explain(self, message: String) -> Error {
        let error = Error::new(StatusCode::ResourceExhausted, message);
        match self {
            Self::Disk => full_directory(error, &std::env::temp_dir()),
            Self::FileSize => error.advise("raise the limit of the size of files: ulimit -f"),
            Self::Memory => match memory_limit() {
                Some((bytes, flag)) => error.advise(format!(
                    "raise the limit of the memory of a process, which is {bytes} bytes: ulimit -{flag}"
                )),
                None => error.advise("compile on a machine with more memory, or a smaller program"),
            },
        }
    }
}

/// Whether a directory has no room, or the quota is used up.
fn is_full(directory: &Path) -> bool {
    /// More than a file system keeps in the record of a file.
    const PROBE_BYTES: usize = 64 << 10;
    let path = directory.join("probe");
    let written = std::fs::write(&path, vec![1; PROBE_BYTES]);
    let _ = std::fs::remove_file(path);
    written.is_err_and(|it| matches!(it.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_compiler_lacked_is_found_in_its_messages() {
        let failed = JobEnd::Exited(1);
        for (end, messages, expected) in [
            (
                failed,
                "LLVM ERROR: IO failure on output stream: No space left on device",
                Some(Shortage::Disk),
            ),
            (failed, "cc1: error: x.s: Disk quota exceeded", Some(Shortage::Disk)),
            (
                failed,
                "iree-compile: error while loading shared libraries: x.so: failed to map segment from shared object",
                Some(Shortage::Memory),
            ),
            (JobEnd::Signaled(6), "LLVM ERROR: out of memory\nAllocation failed", Some(Shortage::Memory)),
            (
                failed,
                "cc1: out of memory allocating 65536 bytes after a total of 0 bytes",
                Some(Shortage::Memory),
            ),
            (failed, "terminate called\n  what():  Resource temporarily unavailable", Some(Shortage::Memory)),
            (JobEnd::Signaled(25), "", Some(Shortage::FileSize)),
            (
                failed,
                "gcc: fatal error: File size limit exceeded signal terminated program as",
                Some(Shortage::FileSize),
            ),
            (failed, "IO failure on output stream: File too large", Some(Shortage::FileSize)),
            (failed, "a.mlir:1:1: error: use of undeclared SSA value name", None),
            (JobEnd::Signaled(11), "Stack dump:", None),
        ] {
            assert_eq!(Shortage::find(end, messages, Some(&std::env::temp_dir())), expected, "{messages}");
        }
        let error = Shortage::Disk.explain("m".into());
        assert_eq!(error.code(), StatusCode::ResourceExhausted);
        assert!(error.report().contains("TMPDIR=PATH"), "{}", error.report());
    }
}
