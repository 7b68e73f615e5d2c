/// How files imported from disk are stored in a capture. Files over memory are always stored whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilePolicy {
    /// By reference: the path and how to validate it.
    #[default]
    Reference,
    /// The bytes read by queues.
    CaptureRanges,
    /// The whole file.
    CaptureAll,
    /// Not at all: importing a file fails with `FAILED_PRECONDITION`.
    Fail,
}

/// How a replay validates that a file stored by reference is the recorded one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileValidation {
    /// By device, inode and modification time.
    #[default]
    Identity,
    /// By a digest of the contents, which are read on import.
    Digest,
}

/// The results of the program that a capture contains, so that replays can be verified against it. Other
/// readers skip it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LedgerRecording {
    /// Nothing.
    #[default]
    Off,
    /// A digest of what each map for reading saw.
    Reads,
    /// The same, and what the recorder's [`DispatchWatcher`](super::DispatchWatcher) says of each dispatch;
    /// see [`Recorder::watch`](super::Recorder::watch).
    Dispatches,
}

/// Options of a recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordOptions {
    /// How files on disk are stored.
    pub file_policy: FilePolicy,
    /// How files stored by reference are validated.
    pub file_validation: FileValidation,
    /// The recorded results of the program.
    pub ledger: LedgerRecording,
    /// Writes all records to the file before each submission, so that the capture of a program that crashes
    /// in a kernel has the submission of that kernel.
    pub flushes_submissions: bool,
    /// Numbers threads in the order of their first record, in place of the ids of the system.
    pub renumber_threads: bool,
}

rehal_base::setters!(RecordOptions {
    file_policy: FilePolicy,
    file_validation: FileValidation,
    ledger: LedgerRecording,
    flushes_submissions: bool,
    renumber_threads: bool,
});
