//! Records of kernels, for `rehal kernel record` and for the tools that run work: the flags of these, which
//! are also environment variables, and the report.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rehal::capture::CaptureOptions;
use rehal::program::RecordingOptions;
use rehal_base::{Advice, Context, Error, Remedy, Result, StatusCode};
use rehal_devices::{CrashReports, DeviceOptions, NamedPath};
use rehal_jobs::temporary_name;
use rehal_kernels::{
    KernelOptions, KernelRecordOptions, KernelRecording, KernelRecords, StagedKernelRecords,
    check_kernel_records,
};
use rehal_replay::{Replay, ReplayOptions};

use crate::flags::{Access, Flag, Flags, Group, Refusal};
use crate::output::{self, escaped};
use crate::output_file::{OutputFile, refuse_stdout};
use crate::{captures, interrupts};

/// Range of the memory size in bytes.
pub(crate) const MAX_MEMORY: (i64, i64) = (1, i64::MAX);

const ON: Flag<bool> = Flag::switch(
    "rehal_kernel_record",
    false,
    "Records the kernels of this run, as rehal kernel record does for a capture. Programs are recorded to a capture in the \
     directory, which is removed once its kernels are recorded.",
)
.variable();

const DIRECTORY: Flag<PathBuf> = Flag::parsed(
    "rehal_kernel_record_dir",
    "PATH",
    ".",
    "a path",
    |value| match value.is_empty() {
        true => Err(Refusal::Unexpected),
        false => Ok(PathBuf::from(value)),
    },
    "The directory for records of kernels. It is created if it does not exist.",
)
.variable();

const REPORT: Flag<bool> =
    Flag::switch("rehal_kernel_record_report", false, "Prints a report of the recorded kernels at the end.")
        .variable();

const REPORT_FILENAME: Flag<Option<String>> = Flag::parsed(
    "rehal_kernel_record_report_filename",
    "NAME",
    "",
    "the name of a file, without a directory",
    file_name,
    "Writes the report to a file of this name in the directory.",
)
.variable()
.files(|name, flags| match flags.get(&ON) {
    true => name.iter().map(|name| Access::Write.to(flags.get(&DIRECTORY).join(name))).collect(),
    false => Vec::new(),
});

const OUTPUT: Flag<bool> = Flag::switch(
    "rehal_kernel_record_output",
    true,
    "Records the memory after each dispatch, which rehal kernel replay --verify compares with.",
)
.variable();

const MEMORY_SIZE: Flag<u64> = Flag::number(
    "rehal_kernel_record_memsize",
    8 << 30,
    MAX_MEMORY,
    |bytes| bytes as u64,
    "Maximum number of bytes that are bound to a recorded kernel; more is an error.",
)
.variable();

const FORCE: Flag<bool> = Flag::switch(
    "rehal_kernel_record_force",
    false,
    "Records into a directory that has records. Those of the same kernels are replaced.",
)
.variable();

/// Records of the kernels of a run. Each flag is also an environment variable, in capitals.
pub(crate) const KERNEL_RECORDING: Group = Group {
    title: "Kernel records (each flag is also an environment variable, in capitals)",
    flags: &[&ON, &DIRECTORY, &REPORT, &REPORT_FILENAME, &OUTPUT, &MEMORY_SIZE, &FORCE],
};

/// The kernels that are recorded, and where.
#[derive(Clone)]
pub(crate) struct Recording {
    pub directory: PathBuf,
    pub report: Report,
    pub has_output: bool,
    pub memory_limit_bytes: u64,
    pub force: bool,
    /// The flag that names the directory.
    pub place: &'static str,
    /// The flag that allows to replace records.
    pub force_by: &'static str,
    /// The flag that allows more memory.
    pub memory_by: &'static str,
}

/// The name of the directory, in that of the records, in which confined code writes them.
fn name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| temporary_name(StagedKernelRecords::PREFIX))
}

/// Where the report goes.
#[derive(Clone)]
pub(crate) struct Report {
    pub is_printed: bool,
    /// The name of a file in the directory.
    pub file: Option<String>,
}

/// The records of a program, which is recorded to captures first.
#[derive(Clone)]
pub(crate) struct ProgramRecording {
    recording: Recording,
    /// The captures: several if the tests of a module are recorded.
    captures: Arc<Mutex<Vec<PathBuf>>>,
    /// Whether the captures are only for the records.
    is_temporary: bool,
}

impl Recording {
    /// The records that flags or environment variables request.
    pub(crate) fn from_flags(flags: &Flags) -> Option<Self> {
        flags.get(&ON).then(|| Self {
            directory: flags.get(&DIRECTORY),
            report: Report::new(flags.get(&REPORT), flags.get(&REPORT_FILENAME)),
            has_output: flags.get(&OUTPUT),
            memory_limit_bytes: flags.get(&MEMORY_SIZE),
            force: flags.get(&FORCE),
            place: DIRECTORY.name(),
            force_by: "REHAL_KERNEL_RECORD_FORCE=1",
            memory_by: "REHAL_KERNEL_RECORD_MEMSIZE",
        })
    }

    /// As [`Recording::checked`], for a tool that runs work only if its flags say so. Says that nothing is
    /// recorded otherwise.
    pub(crate) fn for_run(flags: &Flags, runs: bool) -> Result<Option<Self>> {
        if runs {
            return Self::checked(flags);
        }
        if flags.get(&ON) {
            output::note("note: no kernels are recorded: nothing runs");
        }
        Ok(None)
    }

    /// As [`Recording::from_flags`], after [`Recording::check`].
    pub(crate) fn checked(flags: &Flags) -> Result<Option<Self>> {
        let this = Self::from_flags(flags);
        this.as_ref().map_or(Ok(()), Self::check)?;
        Ok(this)
    }

    /// Fails if the directory has files that would be replaced. Nothing is written.
    pub(crate) fn check(&self) -> Result<()> {
        refuse_stdout(self.place, &self.directory, "a directory")?;
        let report = self.report.file.as_ref().map(|name| self.directory.join(name));
        let checked = match report {
            Some(report) if !self.force && report.symlink_metadata().is_ok() => {
                let message = format!("the report '{}' exists", report.display());
                Err(Error::new(StatusCode::AlreadyExists, message))
            }
            _ => check_kernel_records(&self.directory, &self.options()),
        };
        self.explain(checked)
    }

    /// The records, for the process that has confined code write them.
    pub(crate) fn directory(&self) -> Self {
        self.clone()
    }

    /// Begins to have a confined copy of this process write them.
    pub(crate) fn stage(&self) -> Result<StagedKernelRecords> {
        interrupts::handle();
        self.check()?;
        self.explain(StagedKernelRecords::begin(&self.directory, name(), &self.options()))
    }

    /// The directory in which confined code writes them.
    pub(crate) fn staging(&self) -> PathBuf {
        let staging = StagedKernelRecords::staging(&self.directory, name());
        std::path::absolute(&staging).unwrap_or(staging)
    }

    /// Records the kernels of a replay, and reports them.
    pub(crate) fn record(&self, replay: &Replay, kernels: &KernelOptions) -> Result<KernelRecords> {
        if let Some(path) = replay.plan().capture().path() {
            crate::platform::keep_private(path);
        }
        self.record_all(|recording| recording.add(replay, kernels))
    }

    /// Records and reports the kernels that `add` adds.
    fn record_all(&self, add: impl FnOnce(&mut KernelRecording) -> Result<()>) -> Result<KernelRecords> {
        let records = self.add_all(add)?;
        self.report.write(&self.directory, &records)?;
        Ok(records)
    }

    fn add_all(&self, add: impl FnOnce(&mut KernelRecording) -> Result<()>) -> Result<KernelRecords> {
        let mut recording = self.explain(KernelRecording::begin(&self.staging(), &self.options()))?;
        self.explain(add(&mut recording))?;
        let absolute = std::path::absolute(&self.directory).unwrap_or_else(|_| self.directory.clone());
        let mut records = recording.finish();
        records.directory = absolute;
        Ok(records)
    }

    fn options(&self) -> KernelRecordOptions {
        let mut options = KernelRecordOptions::default();
        options.has_output = self.has_output;
        options.memory_limit_bytes = self.memory_limit_bytes;
        options.force = self.force;
        options
    }

    /// Adds where an error is, and what to do in the words of the tool.
    fn explain<T>(&self, outcome: Result<T>) -> Result<T> {
        let outcome = outcome.context(|| format!("--{}={}", self.place, self.directory.display()));
        outcome.map_err(|error| match (error.code(), error.advice()) {
            (_, Some(Advice::Remedy(Remedy::SetOption { name, value })))
                if name == KernelRecordOptions::MEMORY_LIMIT =>
            {
                let advice = format!("allow that many bytes or more: {}={value}", self.memory_by);
                error.replace_advice(advice)
            }
            (StatusCode::AlreadyExists, _) => {
                error.advise(format!("name another directory, or replace them with {}", self.force_by))
            }
            (StatusCode::ResourceExhausted, _) => error.advise("free memory and disk space"),
            _ => error,
        })
    }

    /// Records the kernels of the capture that a tool has replayed in its own way, by a replay as `replay`
    /// makes it.
    pub(crate) fn of_capture(
        this: Option<&Self>,
        function: Option<String>,
        replay: impl FnOnce() -> Result<Replay>,
    ) -> Result<()> {
        let Some(this) = this else { return Ok(()) };
        let _reports = CrashReports::install();
        let mut kernels = KernelOptions::default();
        kernels.function = function;
        this.record(&replay()?, &kernels).map(drop)
    }

    /// Records the kernels of a replay that the tool runs next: a kernel that crashes then would end the
    /// process before it is recorded.
    pub(crate) fn before<'r>(this: Option<&'r Self>, replay: &Replay) -> RecordedFirst<'r> {
        let record =
            |it: &'r Self| (it, it.add_all(|recording| recording.add(replay, &KernelOptions::default())));
        RecordedFirst(this.map(record))
    }

    /// As [`Recording::record`], after a replay with this outcome, whose error counts.
    pub(crate) fn after(this: Option<&Self>, replay: &Replay, outcome: Result<()>) -> Result<()> {
        let Some(this) = this else { return outcome };
        // A replay that ended early has kernels too.
        first(outcome, this.record(replay, &KernelOptions::default()).map(drop))
    }
}

/// Says that a tool does not record although the environment requests it; `instead` is what to do.
pub(crate) fn warn_that_nothing_is_recorded(instead: &str) {
    if is_requested() {
        output::note(&format!("warning: {VARIABLE} has no effect here: {instead}"));
    }
}

/// The variable of [`ON`].
pub(crate) const VARIABLE: &str = "REHAL_KERNEL_RECORD";

/// Whether the environment requests records, for a tool without the flags: whether a value is valid, those
/// with them decide.
fn is_requested() -> bool {
    let value = std::env::var_os(VARIABLE).unwrap_or_default();
    !["", "0", "false"].contains(&value.to_string_lossy().to_ascii_lowercase().as_str())
}

/// The outcome of [`Recording::before`].
pub(crate) struct RecordedFirst<'r>(Option<(&'r Recording, Result<KernelRecords>)>);

impl RecordedFirst<'_> {
    /// Reports the kernels after a run with this outcome, whose error counts.
    pub(crate) fn report(self, outcome: Result<()>) -> Result<()> {
        let Some((recording, records)) = self.0 else { return outcome };
        first(outcome, records.and_then(|it| recording.report.write(&recording.directory, &it)))
    }
}

impl ProgramRecording {
    /// The records of a program that may be recorded anyway; otherwise `recording` is set.
    pub(crate) fn from_flags(flags: &Flags, recording: &mut Option<RecordingOptions>) -> Option<Self> {
        let kernels = Recording::from_flags(flags)?;
        let is_temporary = recording.is_none();
        let recording = recording.get_or_insert_with(|| {
            let capture = kernels.staging().join(format!("recording-{}.ireereplay", std::process::id()));
            let name = format!("--{}={}", kernels.place, kernels.directory.display());
            RecordingOptions::new(NamedPath::from(capture).named(name))
        });
        // A kernel that crashes is recorded from what the file has then.
        recording.record.flushes_submissions = true;
        let captures = Arc::new(Mutex::new(vec![recording.path.path().to_path_buf()]));
        Some(Self { recording: kernels, captures, is_temporary })
    }

    /// The records, for the process that has confined code write them.
    pub(crate) fn directory(&self) -> Recording {
        self.recording.clone()
    }

    /// Whether the captures are only for the records.
    pub(crate) fn is_temporary(&self) -> bool {
        self.is_temporary
    }

    /// Adds a capture that the tool has written.
    pub(crate) fn add_capture(&self, path: PathBuf) {
        let mut captures = self.captures.lock().unwrap_or_else(PoisonError::into_inner);
        if !captures.contains(&path) {
            captures.push(path);
        }
    }

    /// Runs a program that is recorded, and then records its kernels on new devices. The program's error
    /// counts.
    pub(crate) fn run(
        this: Option<&Self>,
        devices: &DeviceOptions,
        program: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let Some(this) = this else { return program() };
        let outcome = program();
        let recorded = this.record(devices);
        first(outcome, recorded)
    }

    fn captures(&self) -> Vec<PathBuf> {
        self.captures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn record(&self, devices: &DeviceOptions) -> Result<()> {
        let captures = self.captures();
        // A program that fails early, or uses no device, has none.
        let captures: Vec<_> = captures.into_iter().filter(|path| path.exists()).collect();
        let record = |recording: &mut KernelRecording| {
            captures.iter().try_for_each(|capture| add_capture(recording, capture, devices))
        };
        let recorded = self.recording.record_all(record).map(drop);
        if self.is_temporary {
            match &recorded {
                Ok(()) => {
                    let remove = |path: &PathBuf| {
                        std::fs::remove_file(path)
                            .map_err(|error| Error::io(format!("removing '{}'", path.display()), &error))
                    };
                    captures.iter().try_for_each(remove)?;
                }
                // The process that has confined this one moves them.
                Err(_) => captures.iter().filter_map(|path| path.file_name()).for_each(|name| {
                    let path = self.recording.directory.join(name);
                    output::note(&format!(
                        "note: the recording of the program is kept: '{}'",
                        path.display()
                    ));
                }),
            }
        }
        recorded
    }
}

/// Records the kernels of a capture on new devices.
fn add_capture(recording: &mut KernelRecording, capture: &Path, devices: &DeviceOptions) -> Result<()> {
    let mut options = CaptureOptions::default();
    // A program that fails may leave one that is not closed.
    options.recover = true;
    let plan = captures::open(capture, &options)?.plan()?;
    if plan.device_count() == 0 {
        return Ok(());
    }
    let _reports = CrashReports::install();
    let replay = Replay::new(plan, &devices.open()?, &ReplayOptions::default())?;
    recording.add(&replay, &KernelOptions::default())
}

/// The error of the work, of which that of recording its kernels may be a result; otherwise that.
fn first(work: Result<()>, recorded: Result<()>) -> Result<()> {
    match (work, recorded) {
        (Err(error), Err(other)) => {
            output::note(&format!("note: kernels were not recorded: {}", other.message()));
            Err(error)
        }
        (work, recorded) => work.and(recorded),
    }
}

impl Report {
    /// A report that is printed, or in a file of this name in the directory; `-` is standard output.
    pub(crate) fn new(is_printed: bool, file: Option<String>) -> Self {
        match file.as_deref() {
            Some("-") => Self { is_printed: true, file: None },
            _ => Self { is_printed, file },
        }
    }

    /// Prints the report, or writes it to a file in the directory.
    fn write(&self, directory: &Path, records: &KernelRecords) -> Result<()> {
        if let Some(name) = &self.file {
            let path = directory.join(name);
            let text = text(directory, records)?;
            let written = |error: std::io::Error| Error::io("writing the report", &error);
            let output = OutputFile::new("report_filename", path)?;
            return output.write(|sink| sink.write_all(text.as_bytes()).map_err(written));
        }
        match self.is_printed {
            true => output::print(&text(directory, records)?),
            false => Ok(()),
        }
    }
}

/// The report in the form of LLVM's.
fn text(directory: &Path, records: &KernelRecords) -> Result<String> {
    let absolute = std::path::absolute(directory);
    let absolute = absolute.map_err(|error| Error::io("resolving the name of the directory", &error))?;
    let mut text = "=== Kernel Record Report ===\n".to_string();
    let _ = writeln!(text, "Directory: {}", absolute.display());
    let _ = writeln!(text, "Total Instances: {}", records.kernels.len());
    text.push_str("JSON Filename, Kernel Name, Time (ns), Occurrences:\n");
    for kernel in &records.kernels {
        let name = escaped(&kernel.name);
        let _ = writeln!(text, "{}, {name}, {}, {}", kernel.file, kernel.time_ns, kernel.occurrences);
    }
    text.push_str("=== End Kernel Record Report ===\n");
    Ok(text)
}

/// The name of a file in a directory that another flag names; empty for none.
pub(crate) fn file_name(value: &OsStr) -> Result<Option<String>, Refusal> {
    match value.to_str() {
        Some("") => Ok(None),
        Some(name) if Path::new(name).file_name() == Some(value) => Ok(Some(name.to_string())),
        _ => Err(Refusal::Unexpected),
    }
}
