//! Unix.

mod at_start;

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rehal_base::platform::reopen_path;
use rustix::fs::{AtFlags, CWD, Mode, RawMode};
use rustix::process::{getegid, umask};

pub use self::at_start::main_without_runtime;
pub(crate) use self::at_start::stdout_was_closed;

/// Files that the process creates from now on are accessible only for those (of the owner, the group and
/// others) who may read the capture: slices, ledgers and records of kernels have its data. By the umask,
/// since libraries and processes of the tools create some of these files and their directories. Several
/// captures add up.
pub(crate) fn keep_private(capture: &Path) {
    let Ok(metadata) = fs::metadata(capture) else { return };
    let mode = Mode::from_raw_mode(metadata.permissions().mode() as RawMode);
    let mut denied = Mode::empty();
    // New files have the group of the process: if that is not the capture's, its members read the capture as
    // others.
    let is_group = metadata.gid() == getegid().as_raw();
    let others_read = mode.contains(Mode::ROTH);
    let group_reads = if is_group { mode.contains(Mode::RGRP) } else { others_read };
    denied.set(Mode::RWXG, !group_reads);
    denied.set(Mode::RWXO, !others_read);
    if !denied.is_empty() {
        // Reading the umask sets it, here to the strictest in between.
        let before = umask(Mode::RWXG | Mode::RWXO);
        umask(before | denied);
    }
}

/// A file in a directory that has no name, with the permissions of an existing one; `None` if the file system
/// has no such files, or they cannot get a name.
pub(crate) fn unnamed_file(directory: &Path, existing: Option<&Metadata>) -> Option<File> {
    let mode = mode(existing);
    let file = rehal_base::platform::unnamed_file(directory, mode)?;
    // Without the bits of the umask, which an existing file may have.
    if existing.is_some() {
        file.set_permissions(Permissions::from_mode(mode)).ok()?;
    }
    fs::metadata(reopen_path(&file).ok()?).ok()?;
    Some(file)
}

/// The permissions of a file that replaces another.
pub(crate) fn permissions(existing: Option<&Metadata>) -> Option<Permissions> {
    Some(Permissions::from_mode(mode(existing)))
}

fn mode(existing: Option<&Metadata>) -> u32 {
    existing.map_or(0o666, |it| it.permissions().mode())
}

/// Makes standard output of this process another name of its standard error.
pub(crate) fn print_to_stderr() -> io::Result<()> {
    Ok(rustix::stdio::dup2_stdout(io::stderr())?)
}

/// Gives a name to a file that has none.
pub(crate) fn name_file(file: &File, path: &Path) -> io::Result<()> {
    Ok(rustix::fs::linkat(CWD, reopen_path(file)?, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}
