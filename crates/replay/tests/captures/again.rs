//! Captures of the reference, replayed on recorded devices: the new capture must match.

use std::path::{Path, PathBuf};

use rehal_base::Result;
use rehal_hal::DeviceGroup;
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{
    FileRemap, FileValidation, HostRead, Observer, Plan, PlanOptions, RecordOptions, Recorder, Replay,
    ReplayOptions, Scope,
};

use crate::comparable::{Apart, lines};
use crate::written::Memory;

/// Repeats the scopes of the capture in the recorder, and its host reads.
struct Program<'r>(&'r Recorder);

impl Observer for Program<'_> {
    fn scope_begin(&mut self, scope: &Scope<'_>) -> Result<()> {
        self.0.scope_begin(str::from_utf8(scope.name).unwrap())
    }

    fn scope_end(&mut self, scope: &Scope<'_>) -> Result<()> {
        self.0.scope_end(str::from_utf8(scope.name).unwrap())
    }

    fn wants_host_reads(&self) -> bool {
        true
    }

    fn host_read(&mut self, _: &HostRead<'_>) -> Result<()> {
        Ok(())
    }
}

/// Replays a capture on recorded devices and returns the capture of the replay.
fn record_again(bytes: &[u8], remaps: Vec<FileRemap>, options: RecordOptions) -> Result<Vec<u8>> {
    let plan = Plan::compile(bytes.to_vec(), PlanOptions::default())?;
    let devices = (0..plan.device_count()).map(|_| LocalSync::create(Plugins::default())).collect();
    let memory = Memory::default();
    let recorder = Recorder::to(memory.clone(), options)?;
    let group = recorder.wrap(&DeviceGroup::new(devices)?)?;
    let options = ReplayOptions::default().file_remaps(remaps);
    Replay::new(plan, &group, &options)?.run(&mut [&mut Program(&recorder)])?;
    recorder.close()?;
    Ok(memory.bytes())
}

/// Excluded captures, by a part of their name, and why.
const LEFT_OUT: [(&str, &str); 2] =
    [("crash.", "its kernels end the process"), ("torn.", "it was never closed")];

pub fn replays_are_recorded_identically(set: &Path) {
    let (mut compared, mut refused) = (0, 0);
    for (path, remaps) in captures(set) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        // Matrix products take the interpreter of an unoptimised build a minute.
        let is_slow = name.starts_with("matmul") && name.contains(".vmvx.");
        if is_slow || LEFT_OUT.iter().any(|(part, _)| name.contains(part)) {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let file_validation = match name.contains(".digest.") {
            true => FileValidation::Digest,
            false => FileValidation::Identity,
        };
        let options = RecordOptions::default().file_validation(file_validation);
        match record_again(&bytes, remaps, options) {
            Ok(again) => {
                let apart = Apart {
                    replayed: true,
                    task: name.contains(".local-task") || name.contains("two_devices"),
                };
                assert_alike(name, &lines(&bytes, apart), &lines(&again, apart));
                compared += 1;
            }
            // The file is a copy, so its identity differs.
            Err(error) => {
                assert!(
                    error.message().contains("not the file that was captured"),
                    "{name}: {}",
                    error.report()
                );
                refused += 1;
            }
        }
    }
    assert!(compared > 50 && refused > 0, "{compared} captures compared, {refused} refused");
}

fn assert_alike(name: &str, was: &[String], is: &[String]) {
    let Some(at) = was.iter().zip(is).position(|(was, is)| was != is) else {
        return assert_eq!(was.len(), is.len(), "{name}");
    };
    // A replay allocates, maps, writes and unmaps memory that the program imported; all other lines must
    // match.
    let imported =
        was[at].contains("allocator.import_buffer") && is[at].contains("allocator.allocate_buffer");
    assert!(imported, "{name}, line {at}:\n{}\n{}", was[at], is[at]);
    assert_eq!(was[at + 2..], is[at + 4..], "{name}");
}

/// The captures of a set, with remaps for the files that they refer to.
pub fn captures(set: &Path) -> impl Iterator<Item = (PathBuf, Vec<FileRemap>)> {
    const PLACES: [(&str, &str); 3] =
        [("/tmp/rehal-fixtures/", ""), ("/models/data/", "params/"), ("/models/onnx/", "models/")];
    let remaps =
        PLACES.map(|(captured, here)| FileRemap { captured: captured.into(), here: set.join(here).into() });
    testing::captures(set).into_iter().map(move |path| (path, remaps.to_vec()))
}
