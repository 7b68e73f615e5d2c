//! Where a tool runs the code of captures and modules: in a confined copy of its process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rehal::work::{SideReplay, SideWork, WorkOptions};
use rehal_base::platform::free_bytes;
use rehal_base::{Error, Result, StatusCode};
use rehal_crash::HeldSignals;
use rehal_devices::{CrashReports, DeviceOptions};
use rehal_jobs::{Confinement, CopyEnd, JobEnd, JobOutcome, PROGRESS_TIME, Sandbox, interrupts, supervise};
use rehal_kernels::StagedKernelRecords;
use rehal_replay::{FileWrites, Plan, own_names};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::flags::{Access, DEVICE_TIMEOUT, Flag, Group};
use crate::kernel_recording::Recording;
use crate::output_file::OutputFile;
use crate::tools::replay_flags::{FILE_REMAP, FILE_WRITES};
use crate::{Invocation, advice, devices, files, findings, output, output_file, platform};

pub(crate) const SANDBOX: Flag<Sandbox> = Flag::choice(
    "sandbox",
    "on",
    &[("on", Sandbox::On), ("off", Sandbox::Off), ("require", Sandbox::Require)],
    "Confines the code of captures, modules and replacements: it reads the files that are named, writes to the outputs that are named, \
     and has no network, no other processes and no other files. on: as far as the system can, with a warning if that is not all. \
     require: what the system lacks is an error. off: the code may do what the user may do. The environment variable REHAL_SANDBOX \
     sets it, too.",
)
.variable_with_prefix("REHAL_");

const MEMORY: Flag<u64> = limit(
    "sandbox_memory",
    "The most bytes of private memory of the code and its replay, besides mapped files; 0: twice the memory of the machine.",
);

const THREADS: Flag<u64> = limit(
    "sandbox_threads",
    "The most threads of the code and its replay, besides those that the machine has; 0: 16384. The system does not limit root.",
);

const FILE_SIZE: Flag<u64> = limit(
    "sandbox_file_size",
    "The most bytes of each file that is written; 0: what is free on the disk, but for a twentieth.",
);

const CORE_DUMPS: Flag<bool> =
    Flag::switch("sandbox_core_dumps", false, "A crash may leave a core dump, as the system is set up.");

/// Of tools that run code of captures and modules.
pub(crate) const GROUP: Group =
    Group { title: "Sandbox", flags: &[&SANDBOX, &MEMORY, &THREADS, &FILE_SIZE, &CORE_DUMPS] };

/// The variable with the directory of files that a worker shares with the process that asks it.
const SHARED: &str = "REHAL_SHARED_DIRECTORY";

const fn limit(name: &'static str, help: &'static str) -> Flag<u64> {
    Flag::number(name, 0, (0, i64::MAX), |value| value as u64, help)
}

/// The reach of confined code, besides the files that flags and operands name.
#[derive(Default)]
pub(crate) struct Reach<'p> {
    /// The plans of captures that are replayed, whose external files are used.
    pub plans: Vec<&'p Plan>,
    /// The devices that are opened.
    pub devices: Vec<&'p DeviceOptions>,
    /// Files that are read.
    pub reads: Vec<PathBuf>,
    /// Files that are recorded, and directories in which files are, besides those that flags name.
    pub records: Vec<PathBuf>,
    /// Kernels that are recorded.
    pub directories: Vec<Recording>,
}

impl<'p> Reach<'p> {
    /// That of a replay.
    pub(crate) fn of_replay(plan: &'p Plan, devices: &'p DeviceOptions) -> Self {
        Self { plans: vec![plan], devices: vec![devices], ..Self::default() }
    }

    /// That of a program, or of an executable.
    pub(crate) fn of_devices(devices: &'p DeviceOptions) -> Self {
        Self { devices: vec![devices], ..Self::default() }
    }
}

/// The confinement of the code of an invocation.
fn confinement(invocation: &Invocation, reach: &Reach<'_>) -> Confinement {
    let flags = &invocation.flags;
    let mut confinement = invocation.confinement();
    reach.devices.iter().for_each(|devices| devices.confine(&mut confinement));
    let remaps = if flags.takes(FILE_REMAP.name()) { flags.list(&FILE_REMAP) } else { Vec::new() };
    let in_place = flags.takes(FILE_WRITES.name()) && flags.get(&FILE_WRITES) == FileWrites::InPlace;
    for path in reach.plans.iter().flat_map(|plan| plan.external_files(&remaps)) {
        if in_place { confinement.write(path) } else { confinement.read(path) }
    }
    // Values that pass between a worker and the process that asks it, such as one of Python.
    if invocation.worker.is_some()
        && let Some(shared) = std::env::var_os(SHARED)
    {
        confinement.write(shared);
    }
    let named = flags.files();
    let (written, read): (Vec<_>, Vec<_>) = named.iter().partition(|(_, file)| file.access.writes());
    for path in invocation.files().iter().chain(read.iter().map(|(_, file)| &file.path)).chain(&reach.reads) {
        confinement.read(path);
        // Planning has found those of captures.
        if reach.plans.is_empty() {
            // They could name a directory to read all of it.
            let referred = files::references(path, &remaps).into_iter().filter(|path| !path.is_dir());
            referred.for_each(|path| confinement.read(path));
        }
    }
    // By the names that the system has for them, such as those of a shell's `<(...)`.
    for argument in flags.arguments() {
        let argument = argument.to_string_lossy();
        let number = argument.rsplit_once("/fd/").and_then(|(_, number)| number.parse().ok());
        let is_stdin = argument == "-" || argument.ends_with("=-") || argument.contains("/dev/stdin");
        number.into_iter().chain(is_stdin.then_some(0)).for_each(|it| confinement.keep_descriptor(it));
    }
    for (_, file) in written {
        // Other files are replaced or appended to once another is complete. Pipes and devices are opened when
        // they are written.
        if file.access == Access::Record || (output_file::is_in_place(&file.path) && !file.path.is_dir()) {
            confinement.write(&file.path);
        }
    }
    let staging = reach.directories.iter().map(Recording::staging);
    let records: Vec<_> = staging.chain(reach.records.iter().cloned()).collect();
    records.iter().for_each(|path| confinement.write(path));
    let written = named.iter().filter(|(_, file)| file.access.writes()).map(|(_, file)| &file.path);
    let given = Some(flags.get(&FILE_SIZE)).filter(|limit| *limit != 0);
    confinement.limits.file_bytes = given.or_else(|| room(written.chain(&records)));
    confinement
}

/// The size that a file may reach on the largest disk of these, or of temporary files if there are none: what
/// it has, and what is free but for a twentieth. `None` if the system does not say.
fn room<'p>(written: impl Iterator<Item = &'p PathBuf>) -> Option<u64> {
    let of = |path: &Path| {
        // Pipes and devices have no size.
        if fs::metadata(path).is_ok_and(|it| !it.is_file() && !it.is_dir()) {
            return None;
        }
        let existing = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
        let free = free_bytes(existing)?;
        let length = fs::metadata(path).map_or(0, |metadata| metadata.len());
        Some(length.saturating_add(free / 20 * 19))
    };
    written.filter_map(|path| of(path)).max().or_else(|| of(&std::env::temp_dir()))
}

/// The files that are created for confined code, which could not create them.
#[derive(Default)]
struct Created(Vec<PathBuf>);

impl Created {
    fn create(invocation: &Invocation, reach: &Reach<'_>) -> Self {
        let mut this = Self::default();
        let named = invocation.flags.files().into_iter().filter(|(_, file)| file.access == Access::Record);
        for path in named.map(|(_, file)| file.path).chain(reach.records.iter().cloned()) {
            // If that fails, the recorder says why.
            let is_missing = !path.exists();
            if is_missing && fs::File::options().write(true).create(true).truncate(false).open(&path).is_ok()
            {
                // A link may have named it.
                this.0.push(fs::canonicalize(&path).unwrap_or(path));
            }
        }
        this
    }
}

impl Drop for Created {
    /// Removes what nothing was written to.
    fn drop(&mut self) {
        for path in &self.0 {
            if fs::metadata(path).is_ok_and(|it| it.len() == 0) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

impl Invocation {
    /// The confinement of code that other processes run, without the files of their work.
    pub(crate) fn confinement(&self) -> Confinement {
        let mut confinement = Confinement::new(self.flags.get(&SANDBOX));
        let given = |flag| Some(self.flags.get(flag)).filter(|limit| *limit != 0);
        let limits = &mut confinement.limits;
        limits.dumps_core = self.flags.get(&CORE_DUMPS);
        limits.thread_count = given(&THREADS).or(limits.thread_count);
        limits.memory_bytes = given(&MEMORY).or(limits.memory_bytes);
        limits.file_bytes = given(&FILE_SIZE).or_else(|| room(std::iter::empty()));
        confinement
    }

    /// The names by which the executables of a capture call themselves, which their code says.
    pub(crate) fn own_names<'i>(
        &'i self,
        plan: &'i Plan,
        devices: &'i DeviceOptions,
    ) -> impl Fn() -> Result<Vec<String>> + 'i {
        move || self.confined_value(&Reach::of_replay(plan, devices), || own_names(plan, &devices.open()?))
    }

    /// Starts a process that replays a plan.
    pub(crate) fn side(&self, plan: &Arc<Plan>, work: &SideWork) -> Result<SideReplay> {
        let mut options = WorkOptions::default();
        options.progress_time = Some(self.progress_time());
        options.confinement = self.confinement();
        SideReplay::start(plan.clone(), work, None, &options)
    }

    /// Prints the messages of a process that a crash has ended, as which this one ends; the error of others,
    /// since a kernel can end its process with any status.
    pub(crate) fn said(&self, outcome: &JobOutcome, error: Error) -> Error {
        let of_crash = [CrashReports::EXIT_STATUS, CrashReports::TRUNCATED_STATUS];
        let end = match outcome.end {
            JobEnd::Exited(status) if of_crash.contains(&status) => CopyEnd::Exited(status as u8),
            JobEnd::Signaled(signal) => CopyEnd::Signaled(signal),
            _ => return error,
        };
        output::note(String::from_utf8_lossy(&outcome.stderr.bytes).trim_end());
        self.end_with(end)
    }

    /// The longest time without progress; zero for no limit.
    fn progress_time(&self) -> Duration {
        let given =
            if self.flags.takes(DEVICE_TIMEOUT.name()) { self.flags.get(&DEVICE_TIMEOUT) } else { None };
        // The device ends a kernel after a given time, unless its code prevents that.
        given.map_or(
            PROGRESS_TIME,
            |limit| if limit.is_zero() { limit } else { limit + Duration::from_secs(5) },
        )
    }

    /// Does work that runs captured code, in a confined copy of this process. The outputs that it finishes
    /// appear after it.
    pub(crate) fn confined(&self, reach: &Reach<'_>, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let status = self.supervised(reach, true, || work().map(|()| self.status()))?;
        self.set_status(status);
        Ok(())
    }

    /// The same of work with a value, which passes to this process. It reports nothing: what it prints
    /// appears on standard error, so that no kernel prints a report in the place of the tool.
    pub(crate) fn confined_value<T: Serialize + DeserializeOwned>(
        &self,
        reach: &Reach<'_>,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.supervised(reach, false, work)
    }

    fn supervised<T: Serialize + DeserializeOwned>(
        &self,
        reach: &Reach<'_>,
        prints: bool,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let staged = reach.directories.iter().map(Recording::stage).collect::<Result<Vec<_>>>()?;
        let publish = || staged.iter().try_for_each(StagedKernelRecords::publish);
        // Tests run in threads.
        if cfg!(test) {
            let outcome = work();
            return publish().and(outcome);
        }
        let confinement = confinement(self, reach);
        let warns = confinement.sandbox == Sandbox::On && self.is_first_warning();
        let lacking = if warns { confinement.lacks() } else { None };
        let held = HeldSignals::hold();
        let _created = Created::create(self, reach);
        for (flag, file) in self.flags.files() {
            if file.access.writes() && file.access != Access::Record {
                OutputFile::prepare(flag, file.path, file.access == Access::AppendResult);
            }
        }
        let confined = || {
            if !prints {
                let printed = platform::print_to_stderr();
                printed.map_err(|error| Error::io("passing standard output on", &error))?;
            }
            devices::open_perf_files(&self.flags)?;
            let failed = confinement.enter()?.filter(|_| warns);
            let parts: Vec<_> =
                lacking.into_iter().chain(failed.map(|error| error.message().to_owned())).collect();
            if !parts.is_empty() {
                output::note(&format!("warning: captured code is confined in part: {}", parts.join("; ")));
            }
            // Landlock confines threads that are started from now on.
            interrupts::handle();
            output_file::leave_to_parent();
            let outcome = work();
            let found = findings::report(self, prints);
            Ok((found.and_then(|found| Ok((outcome?, found))), output_file::finished()))
        };
        let ended =
            supervise(held, confined, self.progress_time(), advice::print).map_err(|error| {
                match error.code() {
                    StatusCode::DeadlineExceeded => {
                        error.advise("allow more time, or any: --device_timeout=TIME, or 0")
                    }
                    _ => error,
                }
            });
        let is_of_user = |signal| interrupts::SIGNALS.contains(&signal);
        let published = match ended {
            Ok(CopyEnd::Signaled(signal)) if is_of_user(signal) => Ok(()),
            _ => publish(),
        };
        match ended? {
            CopyEnd::Done((outcome, finished)) => {
                output_file::persist(&finished)?;
                let (value, found) = published.and(outcome)?;
                self.note_findings(found);
                Ok(value)
            }
            CopyEnd::Exited(status) => Err(self.end_with(CopyEnd::Exited(status))),
            CopyEnd::Signaled(signal) => Err(self.end_with(CopyEnd::Signaled(signal))),
        }
    }
}
