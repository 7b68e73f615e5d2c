//! Whether a capture can be replayed here, found without running anything of it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use rehal_base::{Error, MappedFile};
use rehal_capture::Capture;
use rehal_hal::{Device, DeviceGroup};
use rehal_replay::{ExecutableRecord, FileContents, FileRemap, Plan, resolve_path};

use crate::tools::replay_flags;

/// What stands in the way of a replay on a device.
pub(super) struct Verdict {
    /// The device, by its driver's name.
    pub device: String,
    /// Nothing, or each thing that does.
    pub reasons: Vec<Error>,
    /// What is known of each external file, by its id.
    pub files: HashMap<u64, FileState>,
}

/// An external file as it is here.
pub(super) struct FileState {
    /// Where it is looked for.
    pub path: PathBuf,
    /// What is wrong with it, if anything.
    pub problem: Option<Error>,
}

impl Verdict {
    /// The verdict for `capture`, which is in `file`, on `devices` with these files.
    pub fn of(
        file: &Arc<MappedFile>,
        capture: &Capture<'_>,
        devices: &DeviceGroup,
        remaps: &[FileRemap],
    ) -> Self {
        let device = &devices.devices()[0];
        let mut this =
            Self { device: device.info().driver.clone(), reasons: Vec::new(), files: HashMap::new() };
        if let Some(tear) = capture.tear() {
            let torn = format!("the capture is torn at offset {}", tear.offset);
            this.reasons.push(Error::data_loss(torn).advise("--recover replays the records before the tear"));
        }
        match replay_flags::compile_opened(file, true) {
            Ok(plan) => this.check(&plan, device, remaps),
            Err(error) => this.reasons.push(error),
        }
        this
    }

    fn check(&mut self, plan: &Plan, device: &Device, remaps: &[FileRemap]) {
        self.reasons.extend(plan.executables().filter_map(|it| check_format(&it, device)));
        for record in plan.files() {
            let FileContents::External { path, .. } = record.source.contents else { continue };
            let path = resolve_path(path, remaps);
            let problem = record.check(remaps).err();
            self.reasons.extend(problem.clone());
            self.files.insert(record.id, FileState { path, problem });
        }
    }
}

fn check_format(record: &ExecutableRecord<'_>, device: &Device) -> Option<Error> {
    let format = String::from_utf8_lossy(record.format);
    if device.can_prepare_executable(&format) {
        return None;
    }
    let (id, driver) = (record.id, &device.info().driver);
    Some(
        Error::incompatible(format!(
            "executable {id} is '{format}', which {driver} cannot run on this machine"
        ))
        .context(record.location.to_string())
        .advise(format!(
            "compile it for this machine, and replay with --replay_executable_substitution={id}=PATH"
        )),
    )
}
