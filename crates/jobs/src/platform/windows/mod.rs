//! Windows: a tool that runs captured code starts its own program again, and says how that process ended.
//! There are no copies of processes, and no confinement.

mod channel;
mod conversation;
mod group;
pub mod interrupts;

use std::env;
use std::ffi::{OsString, c_int};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rehal_base::platform::reopen_path;
use rehal_base::{Error, Result, StatusCode};
use rehal_crash::HeldSignals;
use serde::Serialize;
use serde::de::DeserializeOwned;
use windows_sys::Win32::Foundation::STATUS_CONTROL_C_EXIT;
use windows_sys::Win32::Storage::FileSystem::FILE_FLAG_DELETE_ON_CLOSE;

use self::group::ProcessGroup;
use crate::confine::ProcessLimits;
use crate::platform::Reach;
use crate::temporary_name;

pub(crate) use self::channel::Channel;
pub use self::conversation::Conversation;

/// The longest time of a copy without progress, unless a user knows better.
pub const PROGRESS_TIME: Duration = Duration::from_secs(60);

/// The variable that tells a process that another one waits for its end.
const CHILD: &str = "REHAL_CHILD";

/// Has no effect: the process has no copies.
pub fn note_emulator_threads() {}

/// Runs the same tool with the same arguments in a process of its own, and returns the exit status with
/// which this one is to end; `None` if this is that process. `report` gets the error of a crash.
#[doc(hidden)]
pub fn run_in_child(report: fn(&Error)) -> Result<Option<u8>> {
    if env::var_os(CHILD).is_some() {
        return Ok(None);
    }
    let cannot = |error: io::Error| Error::io("starting a process for kernels", &error);
    let mut command = Command::new(env::current_exe().map_err(cannot)?);
    command.args(env::args_os().skip(1)).env(CHILD, "1");
    let mut group = ProcessGroup::spawn(&mut command, None).map_err(cannot)?;
    // Ctrl-C reaches both: this process ends after that one.
    let _waiting = interrupts::wait_for_child();
    let code = group.child.wait().map_err(cannot)?.code().unwrap_or_default();
    match u8::try_from(code) {
        Ok(status) => Ok(Some(status)),
        Err(_) if code == STATUS_CONTROL_C_EXIT => std::process::exit(code),
        Err(_) => {
            let error = format!("captured code ended its process by {}", exception(code as u32));
            report(
                &Error::new(StatusCode::Aborted, error)
                    .advise("replay it on Linux, where the kernel and its record are named"),
            );
            Ok(Some(rehal_crash::EXIT_STATUS as u8))
        }
    }
}

/// An exception as which a process ended.
fn exception(code: u32) -> String {
    let name = match code {
        0xC000_0005 => " (an access to memory that is not there)",
        0xC000_001D => " (an instruction that this processor lacks)",
        0xC000_0094 => " (a division by zero)",
        0xC000_00FD => " (a stack overflow)",
        _ => "",
    };
    format!("exception {code:#010x}{name}")
}

/// How work of a tool ended.
#[derive(Clone, Copy, Debug)]
pub enum CopyEnd<T> {
    /// With its outcome.
    Done(T),
    /// With this exit status, for a reason that it has reported.
    Exited(u8),
    /// By this signal, which is to [end](end_by) this process, too.
    Signaled(c_int),
}

/// Does work in this process, which is already one for captured code.
pub fn supervise<T: Serialize + DeserializeOwned>(
    _held: HeldSignals,
    work: impl FnOnce() -> Result<T>,
    _limit: Duration,
    _report: fn(&Error),
) -> Result<CopyEnd<T>> {
    work().map(CopyEnd::Done)
}

/// The exit status in the place of a signal.
pub fn end_by(signal: c_int) -> u8 {
    rehal_crash::status_of_signal(signal)
}

/// Has no effect: processes are not limited.
pub(crate) fn enter_limits(_of: &ProcessLimits, _mapped_bytes: u64) -> Result<()> {
    Ok(())
}

/// Has no effect: the process is in a job object of its parent, and inherits no handles.
pub(crate) fn leave_parent(_kept: &[i32]) -> Result<()> {
    Ok(())
}

pub(crate) fn can_confine() -> bool {
    false
}

/// Has no effect, which the user has been told.
pub(crate) fn restrict_files(_reach: &Reach<'_>) -> Result<()> {
    Ok(())
}

/// Has no effect.
pub(crate) fn filter_calls(_controls_devices: bool, _changes_names: bool) -> Result<()> {
    Ok(())
}

pub(crate) fn describe_confinement() -> String {
    "not at all: this build has no confinement for Windows".into()
}

/// A temporary file, and its path, by which other processes of the user open it.
pub fn shared_file() -> io::Result<(File, OsString)> {
    let file = temporary_file(&env::temp_dir())?;
    let path = reopen_path(&file)?;
    Ok((file, path.into()))
}

/// Fails: no process is confined.
pub(crate) fn memory_file() -> io::Result<File> {
    Err(ErrorKind::Unsupported.into())
}

/// A file in a directory that is removed when nothing has it open. It can be opened by its name.
pub(crate) fn temporary_file(directory: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create_new(true).custom_flags(FILE_FLAG_DELETE_ON_CLOSE);
    options.open(directory.join(temporary_name("rehal-")))
}

/// Directories have the permissions of the one that they are in.
pub(crate) fn private_directory() -> Option<Permissions> {
    None
}

/// The directory for temporary files is the user's.
pub(crate) fn is_own(_metadata: &Metadata) -> bool {
    true
}

/// The program: a library is not told apart from it.
pub(crate) fn own_library() -> Option<PathBuf> {
    None
}
