use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rehal_base::platform::modified;
use rehal_base::{Error, FileId, MappedFile, Result};
use rehal_devices::{DeviceSettings, written_bindings};
use rehal_jobs::Confinement;
use rehal_replay::{
    Code, FileWrites, Plan, Replacement, Replay, ReplayOptions, ResolvedSubstitutions, own_names,
};
use serde::{Deserialize, Serialize};

use crate::capture::{CaptureFile, CaptureOptions};

/// A replay as data.
#[derive(Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReplaySetup {
    // Any path is a message as an `OsString`.
    capture: OsString,
    /// The file of a plan, which the path may no longer lead to where the setup is used.
    planned: Option<FileState>,
    /// Whether the complete records of a truncated or damaged capture are used.
    pub recover: bool,
    /// The devices.
    pub devices: DeviceSettings,
    /// The options. Names that substitutions select are resolved in the capture.
    pub options: ReplayOptions,
}

/// The state of a file: which it is, and when it was modified.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct FileState {
    id: FileId,
    length: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
}

impl FileState {
    fn of(file: &MappedFile) -> Result<Self> {
        let it = file.metadata()?;
        Ok(Self { id: file.id()?, length: it.len(), modified: modified(&it) })
    }
}

impl ReplaySetup {
    /// A replay of the capture at this path, with the defaults.
    pub fn new(capture: impl Into<PathBuf>) -> Self {
        Self { capture: capture.into().into(), ..Self::default() }
    }

    /// A replay of the capture of a plan, with the defaults. Fails if it is not in a file. The replay uses
    /// what the plan does, also of a truncated or damaged capture, and fails if the file was replaced or
    /// modified.
    pub fn of_plan(plan: &Plan) -> Result<Self> {
        let file = plan.capture().file().ok_or_else(|| {
            Error::failed_precondition("the capture is in memory, where no other process reads it")
                .advise("write it to a file, or replay it in this process")
        })?;
        Ok(Self { recover: true, planned: Some(FileState::of(file)?), ..Self::new(file.path()) })
    }

    /// The path of the capture.
    pub fn capture(&self) -> &Path {
        Path::new(&self.capture)
    }

    /// The same of another capture, which is complete.
    pub fn of_capture(&self, capture: &Path) -> Self {
        Self { capture: capture.into(), recover: false, planned: None, ..self.clone() }
    }

    /// Opens the capture and plans it.
    pub fn plan(&self) -> Result<Arc<Plan>> {
        let capture = CaptureFile::open(self.capture(), &CaptureOptions { recover: self.recover })?;
        if let Some((planned, file)) = self.planned.as_ref().zip(capture.bytes().file()) {
            let current = FileState::of(file)?;
            if current != *planned {
                let how = if current.id == planned.id { "modified" } else { "replaced by another file" };
                let message = format!("'{}' has been {how} since it was planned", file.path().display());
                return Err(Error::failed_precondition(message).advise("open the capture again, and plan it"));
            }
        }
        capture.plan()
    }

    /// Adds the files of a replay of a plan of the capture to what confined work uses.
    pub(crate) fn confine(&self, plan: &Plan, confinement: &mut Confinement) {
        confinement.read(self.capture());
        let in_place = self.options.file_writes == FileWrites::InPlace;
        for path in plan.external_files(&self.options.file_remaps) {
            if in_place { confinement.write(path) } else { confinement.read(path) }
        }
        self.options.substitutions.iter().for_each(|it| add_code(&it.replacement, confinement));
        // What is wrong with them is said when they are opened.
        if let Ok(devices) = self.devices.to_options() {
            devices.confine(confinement);
        }
    }

    /// Opens the devices, and prepares the replay of a plan of the capture.
    pub fn replay(&self, plan: Arc<Plan>) -> Result<Replay> {
        // What a replacement writes outside of its bindings must not change other memory (docs/unsafe.md).
        let mut devices = self.devices.clone();
        devices.common.guards_buffers |= !self.options.substitutions.is_empty();
        let devices = devices.to_options()?.open()?;
        let mut options = self.options.clone().written_bindings(Some(Arc::new(written_bindings)));
        if options.substitutions.is_empty() {
            return Replay::new(plan, &devices, &options);
        }
        let own_names = || own_names(&plan, &devices);
        let found = ResolvedSubstitutions::in_capture(&plan, &options.substitutions, &own_names)?;
        options.substitutions = found.substitutions;
        let replay = Replay::new(plan, &devices, &options)?;
        // Reports a signature mismatch before the first dispatch.
        replay.check_executables()?;
        Ok(replay)
    }
}

/// Adds the file of a replacement.
pub(super) fn add_code(replacement: &Replacement, confinement: &mut Confinement) {
    if let Code::File(path) = &replacement.code {
        confinement.read(path);
    }
}
