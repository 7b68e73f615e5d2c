//! Every dispatch of a capture, cut out: the slice replays here and in the reference, and both compute the
//! bytes of the whole capture. On Vulkan the reference's bytes are not seen (`probe`).

mod probe;

use self::probe::{Cutout, Probe};
use crate::replays::arguments;
use crate::{Outcome, Pair, ensure, per_capture, words};
use libtest_mimic::{Failed, Trial};
use oracle::captures::{self, Capture};
use oracle::tool;
use rehal_base::{Error, Result};
use rehal_hal::{Device, DeviceGroup, Driver, FileContents, FileIdentity, OptionSet, Validation};
use rehal_local::executable::Plugins;
use rehal_local::{LocalSync, LocalTask, LocalTaskOptions};
use rehal_replay::{
    FileRemap, Plan, PlanOptions, Replay, ReplayOptions, Slice, SliceOptions, SliceSet, resolve_path,
};
use rehal_vulkan::{VULKAN, VulkanDriver};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The captures that the reference does not replay, and why. Nothing is cut out of them either.
const REFUSED: [(&str, &str); 4] = [
    ("crash.divide-by-zero.local-sync", "its kernel divides by zero"),
    ("crash.gather-outside.local-sync", "its kernel reads memory that is not mapped"),
    ("torn.divide.local-sync", "it ends within a record"),
    ("torn.gather.local-sync", "it ends within a record"),
];

/// Adds a test for each capture, those on Vulkan included.
pub fn add(captures: &[Capture], trials: &mut Vec<Trial>) -> io::Result<()> {
    for capture in captures.iter().chain(&captures::on_vulkan()?) {
        match REFUSED.iter().any(|(name, _)| *name == capture.short_name()) {
            true => per_capture(trials, "slices", capture, no_slice),
            false => per_capture(trials, "slices", capture, slices),
        }
    }
    Ok(())
}

/// The device of the program, which slices are cut and replayed on.
fn device_of(capture: &Capture) -> &'static str {
    match capture {
        _ if capture.name.starts_with("vulkan/") => VULKAN,
        _ if capture.short_name().contains(".local-task") => "local-task",
        _ => "local-sync",
    }
}

/// The reference fails, too. A crash in a kernel exits with the status of a crashed replay, and leaves no
/// file.
fn no_slice(capture: &Capture) -> Outcome {
    let theirs = Pair::find("iree-run-replay")?.theirs;
    let replayed = tool::run(&theirs, &arguments(capture), &capture.directory)?;
    ensure(!replayed.succeeded(), || "the reference replays it: test it like the others".to_owned())?;
    let scratch = tempfile::tempdir()?;
    let slice = scratch.path().join("slice.ireereplay");
    let path = capture.path.display().to_string();
    let output = slice.display().to_string();
    let arguments = words(["slice", "--device=local-sync", "--function=*", &path, "-o", &output]);
    let ended = tool::run(&tool::ours("rehal")?, &arguments, scratch.path())?;
    let status = if capture.short_name().starts_with("crash.") { 86 } else { 1 };
    ensure(ended.code == Some(status), || ended.summary())?;
    ensure(!slice.exists(), || "a slice is written".to_owned())
}

fn slices(capture: &Capture) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let remaps = capture.remaps.iter().map(FileRemap::parse);
    let remaps = remaps.collect::<Result<Vec<_>>>().map_err(failed)?;
    let device = device_of(capture);
    let bytes = with_files_here(fs::read(&capture.path)?, &remaps)?;
    let whole = scratch.path().join("whole.ireereplay");
    fs::write(&whole, &bytes)?;
    let run = Pair::find("iree-run-replay")?;
    let mut arguments = on_devices(&whole, device)?;
    arguments.extend(capture.remaps.iter().map(|remap| format!("--replay_file_remap={remap}")));
    let replayed = tool::run(&run.theirs, &arguments, &capture.directory)?;
    ensure(replayed.succeeded(), || format!("the reference does not replay it: {}", replayed.summary()))?;

    let replay = open(bytes, device, remaps).map_err(failed)?;
    let dispatches = dispatches(&replay).map_err(failed)?;
    let dispatches: Vec<_> = dispatches.iter().collect();
    let variants: &[bool] = if replay.plan().files().len() == 0 { &[false] } else { &[false, true] };
    // References are what the same bytes are read from.
    for keep_references in variants {
        let mut options = SliceOptions::default();
        options.keep_references = *keep_references;
        // The pages that the work accesses.
        rehal_crash::install();
        options.watch = Some(std::sync::Arc::new(rehal_local::watch_buffer));
        check(&run.theirs, &replay, device, &dispatches, &options)?;
    }
    Ok(())
}

/// Cuts out dispatches in one replay, and replays them, here and by the reference.
fn check(
    program: &Path,
    replay: &Replay,
    device: &str,
    dispatches: &[&Dispatch],
    options: &SliceOptions,
) -> Outcome {
    if dispatches.is_empty() {
        return Ok(());
    }
    let scratch = tempfile::tempdir()?;
    let mut cut = Cut { directory: scratch.path(), cutouts: Vec::new() };
    let sites: Vec<_> = dispatches.iter().map(|it| it.site).collect();
    replay.slices(&sites, options, &mut cut, &mut []).map_err(failed)?;
    let mut cutouts = cut.cutouts;
    cutouts.sort_by_key(|it| it.index);
    let cut: Vec<_> = cutouts.iter().map(|it| it.index).collect();
    ensure(cut == (0..dispatches.len()).collect::<Vec<_>>(), || format!("the slices are {cut:?}"))?;
    let dump = Pair::find("iree-dump-replay")?.theirs;
    let firsts = || cutouts.iter().filter(|it| dispatches[it.index].is_first);
    for it in firsts() {
        let site = dispatches[it.index].site;
        let theirs = tool::run(program, &on_devices(&it.path, device)?, scratch.path())?;
        ensure(theirs.succeeded(), || format!("{site:?}: theirs ends with {}", theirs.summary()))?;
        let dumped = tool::run(&dump, &[it.path.display().to_string()], scratch.path())?;
        ensure(dumped.succeeded(), || format!("{site:?}: their dump ends with {}", dumped.summary()))?;
    }
    let probe = Probe::record(&cutouts, device, scratch.path())?;
    let theirs = probe.run(program)?;
    for (it, theirs) in cutouts.iter().zip(&theirs) {
        ensure(*theirs == it.written(), || {
            format!("{:?}: the reference computes other bytes", dispatches[it.index].site)
        })?;
    }
    Ok(())
}

/// Writes slices to files.
struct Cut<'d> {
    directory: &'d Path,
    cutouts: Vec<Cutout>,
}

impl Cut<'_> {
    fn path(&self, index: usize) -> PathBuf {
        self.directory.join(format!("{index}.ireereplay"))
    }
}

impl SliceSet for Cut<'_> {
    type Sink = File;

    fn sink(&mut self, index: usize, _name: &str) -> Result<File> {
        File::create(self.path(index)).map_err(|error| Error::io("creating a slice", &error))
    }

    fn finished(&mut self, index: usize, slice: Slice) -> Result<()> {
        let path = self.path(index);
        self.cutouts.push(Cutout { index, path, reads: slice.reads });
        Ok(())
    }
}

fn failed(error: Error) -> Failed {
    error.report().into()
}

/// The capture with the identities of the files here in place of those on the machine that recorded it: the
/// same captures name their contents by digest, and the reference has no flag to leave out the comparison.
fn with_files_here(mut bytes: Vec<u8>, remaps: &[FileRemap]) -> Result<Vec<u8>, Failed> {
    let Ok(plan) = Plan::compile(bytes.clone(), PlanOptions::default()) else { return Ok(bytes) };
    for file in plan.files() {
        let FileContents::External { path, validation: Validation::Identity } = file.source.contents else {
            continue;
        };
        let metadata = fs::metadata(resolve_path(path, remaps))?;
        let mtime_ns = metadata.mtime() as u64 * 1_000_000_000 + metadata.mtime_nsec() as u64;
        let here = FileIdentity { device: metadata.dev(), inode: metadata.ino(), mtime_ns };
        let fields = |it: FileIdentity| [it.device, it.inode, it.mtime_ns].map(u64::to_le_bytes).concat();
        let captured = fields(file.source.identity);
        let record = file.location.offset as usize;
        let at = bytes[record..].windows(captured.len()).position(|it| it == captured);
        let at = record + at.ok_or("a record of a file has no identity")?;
        bytes[at..at + captured.len()].copy_from_slice(&fields(here));
    }
    Ok(bytes)
}

fn open(bytes: Vec<u8>, device: &str, file_remaps: Vec<FileRemap>) -> Result<Replay> {
    let plan = Plan::compile(bytes, PlanOptions::default())?;
    let devices = devices(plan.device_count(), device)?;
    Replay::new(plan, &devices, &ReplayOptions::default().file_remaps(file_remaps))
}

fn devices(count: usize, name: &str) -> Result<DeviceGroup> {
    /// Its instance is shared: to create one takes longer than a slice.
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    let device = |_| -> Result<Device> {
        match name {
            "local-task" => LocalTask::create(LocalTaskOptions::default()),
            VULKAN => DRIVER
                .get_or_init(|| Driver::new(VulkanDriver::default()))
                .create_device("", &OptionSet::default()),
            _ => Ok(LocalSync::create(Plugins::default())),
        }
    };
    DeviceGroup::new((0..count).map(device).collect::<Result<_>>()?)
}

/// The arguments for a capture, with as many devices as it uses.
fn on_devices(path: &Path, device: &str) -> Result<Vec<String>, Failed> {
    let plan = Plan::compile(fs::read(path)?, PlanOptions::default()).map_err(failed)?;
    let mut arguments = vec![format!("--device={device}"); plan.device_count()];
    arguments.push(path.display().to_string());
    Ok(arguments)
}

/// A dispatch of a capture.
struct Dispatch {
    /// Its record, and how often that has been performed before.
    site: (u32, u64),
    /// Whether none before has the same function, workgroups, constants and lengths.
    is_first: bool,
}

/// Every dispatch, in the order of a replay.
fn dispatches(replay: &Replay) -> Result<Vec<Dispatch>> {
    let (mut seen, mut dispatches) = (HashSet::new(), Vec::new());
    replay.plan().dispatches(|it| {
        let lengths: Vec<u64> = it.bindings.iter().map(|binding| binding.length).collect();
        let key = (it.executable.id, it.function, it.workgroup_count, it.constants.to_vec(), lengths);
        let site = (it.location.ordinal, it.occurrence);
        dispatches.push(Dispatch { site, is_first: seen.insert(key) });
        Ok(())
    })?;
    Ok(dispatches)
}
