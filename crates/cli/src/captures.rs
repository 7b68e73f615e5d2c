//! Opening the capture that a tool operates on.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal_base::Result;
use rustix::fs::{Mode, RawMode};
use rustix::process::{getegid, umask};

use crate::output;
use crate::progress::Progress;

/// The options for opening a capture.
pub(crate) fn options(recover: bool) -> CaptureOptions {
    let mut options = CaptureOptions::default();
    options.recover = recover;
    options
}

/// Opens the capture of a tool that writes some of its data to files: see [`keep_private`].
pub(crate) fn open(path: &Path, options: &CaptureOptions) -> Result<CaptureFile> {
    let capture = CaptureFile::open(path, options)?;
    keep_private(path);
    note_version(&capture);
    Ok(capture)
}

/// Says which release wrote a capture of an earlier version, and what runs it.
fn note_version(capture: &CaptureFile) {
    let version = capture.version();
    if let Some(releases) = version.earlier_releases() {
        output::note(&format!(
            "note: {} is of version {}.{}, which the reference's {releases} wrote: these releases run it, and rehal does; later ones \
             refuse it. It does not name functions: select executables by their ids",
            place(capture),
            version.major,
            version.minor
        ));
    }
}

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

/// Prints notes about truncation and damage of a capture that is opened with `--recover`.
pub(crate) fn note_recovered(capture: &CaptureFile) -> Result<()> {
    const MAX_PARTS: usize = 8;
    if !capture.is_recovered() {
        return Ok(());
    }
    note_tear(capture);
    let damage = capture.damage_with(&mut Progress::new("verifying").teller())?;
    for part in damage.iter().take(MAX_PARTS) {
        output::note(&format!("note: {} is damaged: {part}", place(capture)));
    }
    if let Some(count @ 1..) = damage.len().checked_sub(MAX_PARTS) {
        output::note(&format!("note: {} is damaged in {count} more places: see rehal info", place(capture)));
    }
    Ok(())
}

fn note_tear(capture: &CaptureFile) {
    if let Some(tear) = capture.tear() {
        output::note(&format!(
            "note: {} is truncated: using the {} records before offset {}, ignoring {} bytes",
            place(capture),
            tear.record_count,
            tear.offset,
            tear.lost_bytes
        ));
    }
}

/// The capture's name in errors.
pub(crate) fn place(capture: &CaptureFile) -> String {
    capture.path().map_or_else(String::new, |path| format!("'{}'", path.display()))
}
