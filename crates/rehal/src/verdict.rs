use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use rehal_base::{Error, Remedy, Result};
use rehal_hal::{Device, DeviceGroup};
use rehal_replay::{
    ExecutableRecord, FileContents, FileRemap, MemoryNeeds, PlanCheck, Plannable, Replay, ReplayOptions,
    dump::Progress, resolve_path,
};

use crate::capture::{CaptureFile, Survey};
use crate::survey::Surveyor;

/// The result of checking whether a capture can be replayed on a device of this machine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Verdict {
    /// The device, by its driver's name.
    pub device: String,
    /// The reasons that prevent a replay; empty if it is possible.
    pub reasons: Vec<Error>,
    /// The external files of the capture; empty if the capture cannot be planned.
    pub files: Vec<FileState>,
    /// The warnings of a replay, and where each comes first.
    pub warnings: Vec<String>,
    /// The memory that its buffers need on a CPU device; `None` if the capture cannot be planned.
    pub memory: Option<MemoryNeeds>,
    /// Whether its executables were loaded; see [`Verdict::load`].
    pub is_loaded: bool,
}

/// The state of an external file on this machine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileState {
    /// Its id in the capture.
    pub id: u64,
    /// Its remapped path.
    pub path: PathBuf,
    /// Why it cannot be used, if so.
    pub problem: Option<Error>,
}

impl CaptureFile {
    /// Whether it can be replayed on `devices` with its files remapped by `remaps`. Executes nothing; reads
    /// files that are validated by digest.
    pub fn verdict(&self, devices: &DeviceGroup, remaps: &[FileRemap]) -> Verdict {
        self.verdict_with(devices, remaps, &mut |_| {})
    }

    /// Like [`CaptureFile::verdict`], calling `progress` every few megabytes of the capture.
    pub fn verdict_with(
        &self,
        devices: &DeviceGroup,
        remaps: &[FileRemap],
        progress: &mut dyn FnMut(Progress),
    ) -> Verdict {
        let mut check = PlanCheck::new(&self.bytes);
        let walk = |capture| {
            self.walk(&capture, &mut |record| check.add(record), progress)?;
            check.finish(&self.bytes, &capture)
        };
        Verdict::new(self, self.capture().and_then(walk), devices, remaps)
    }

    /// Both [`CaptureFile::survey`] and [`CaptureFile::verdict`], in one pass over the records.
    pub fn survey_and_verdict(
        &self,
        devices: &DeviceGroup,
        remaps: &[FileRemap],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Survey, Verdict)> {
        let (mut surveyor, mut check, mut planned) =
            (Surveyor::default(), PlanCheck::new(&self.bytes), Ok(()));
        let walk = |capture| {
            let mut both = |record: &_| {
                if planned.is_ok() {
                    planned = check.add(record);
                }
                surveyor.add(record)
            };
            self.walk(&capture, &mut both, progress)?;
            Ok(planned.and_then(|()| check.finish(&self.bytes, &capture)))
        };
        let checked = self.capture().and_then(walk).map_err(|error| self.blame_damage(error))?;
        Ok((surveyor.finish(), Verdict::new(self, checked, devices, remaps)))
    }
}

/// The reason why a replay may end without memory on a device that uses that of this machine, if it may.
pub fn memory_warning(needs: &MemoryNeeds) -> Option<String> {
    let own = needs.own_bytes;
    let limit = rehal_devices::memory_bytes().filter(|limit| own > *limit)?;
    Some(format!("its buffers need {own} bytes of memory at a time, of which this process may use {limit}"))
}

impl Verdict {
    /// Whether nothing prevents a replay.
    pub fn is_replayable(&self) -> bool {
        self.reasons.is_empty()
    }

    /// The state of the external file with this id.
    pub fn file(&self, id: u64) -> Option<&FileState> {
        self.files.iter().find(|file| file.id == id)
    }

    /// Of a capture whose records have been checked.
    fn new(
        capture: &CaptureFile,
        checked: Result<Plannable>,
        devices: &DeviceGroup,
        remaps: &[FileRemap],
    ) -> Self {
        let device = &devices.devices()[0];
        let mut this = Self {
            device: device.info().driver.clone(),
            reasons: Vec::new(),
            files: Vec::new(),
            warnings: Vec::new(),
            memory: None,
            is_loaded: false,
        };
        if let Some(tear) = capture.tear() {
            let torn = format!("the capture is truncated at offset {}", tear.offset);
            this.reasons.push(Error::data_loss(torn).advise(Remedy::RecoverTruncated));
        }
        this.reasons.extend(capture.damage_error());
        match checked {
            Ok(checked) => this.check(capture, &checked, device, remaps),
            Err(error) => this.reasons.push(capture.explain(error)),
        }
        this
    }

    /// Loads each executable unless something else prevents a replay: this finds missing imports and CPU
    /// features, and corrupt machine code. Loading runs code of the capture with the privileges of the
    /// process, such as constructors of its libraries.
    pub fn load(&mut self, capture: &CaptureFile, devices: &DeviceGroup, remaps: &[FileRemap]) {
        if self.is_replayable() {
            self.reasons.extend(load_executables(capture, devices, remaps).err());
            self.is_loaded = true;
        }
    }

    fn check(&mut self, capture: &CaptureFile, checked: &Plannable, device: &Device, remaps: &[FileRemap]) {
        self.memory = Some(checked.memory());
        if device.info().uses_host_memory {
            self.warnings.extend(memory_warning(&checked.memory()));
        }
        self.reasons.extend(checked.check_not_empty().err());
        self.reasons.extend(checked.executables().filter_map(|it| check_format(&it, device).err()));
        let unread = self.check_limits(capture, device).err();
        self.reasons.extend(unread);
        for record in checked.files() {
            let FileContents::External { path, .. } = record.source.contents else { continue };
            let path = resolve_path(path, remaps);
            let problem = record.check(remaps).err();
            self.reasons.extend(problem.clone());
            self.files.push(FileState { id: record.id, path, problem });
        }
    }

    /// Compares dispatches with the limits that the device states: that takes a plan.
    fn check_limits(&mut self, capture: &CaptureFile, device: &Device) -> Result<()> {
        let Some(limits) = device.info().limits else { return Ok(()) };
        let plan = capture.plan()?;
        let mut by_address: HashMap<u64, Vec<bool>> = HashMap::new();
        let mut found = HashSet::new();
        plan.distinct_dispatches(|dispatch, _| {
            let (executable, function) = (&dispatch.executable, dispatch.function as usize);
            let by_address = by_address.entry(executable.id).or_insert_with(|| {
                let name = str::from_utf8(executable.format).unwrap_or_default();
                let format = device.info().format(name).and_then(|it| it.binds_addresses);
                format.map_or_else(Vec::new, |it| it(name, executable.data))
            });
            let largest = dispatch.bindings.iter().map(|it| it.length).max().unwrap_or(0);
            let largest = if by_address.get(function).copied().unwrap_or(false) { 0 } else { largest };
            let place = format!("{}, function '{}'", dispatch.location, dispatch.name.escape_ascii());
            for exceeded in limits.exceeded(dispatch.workgroup_count, largest) {
                if !found.insert(exceeded.clone()) {
                    continue;
                }
                match limits.serves_more {
                    true => self.warnings.push(format!("{place}: {exceeded}")),
                    false => self.reasons.push(Error::out_of_range(exceeded).context(place.clone())),
                }
            }
            Ok(())
        })
    }
}

fn load_executables(capture: &CaptureFile, devices: &DeviceGroup, remaps: &[FileRemap]) -> Result<()> {
    let plan = capture.plan()?;
    // Like the rest of the verdict, it answers for as many devices as the capture has.
    let given = devices.devices();
    let used = (0..plan.device_count()).map(|index| given.get(index).unwrap_or(&given[0]).clone());
    let options = ReplayOptions::default().file_remaps(remaps.to_vec());
    Replay::new(plan, &DeviceGroup::new(used.collect())?, &options)?.check_executables()
}

fn check_format(record: &ExecutableRecord<'_>, device: &Device) -> Result<()> {
    let format = String::from_utf8_lossy(record.format);
    if device.can_prepare_executable(&format) {
        return Ok(());
    }
    let (id, driver) = (record.id, &device.info().driver);
    let remedy = match device.info().format(&format) {
        None => Remedy::UseDeviceForFormat { format: format.to_string() },
        Some(_) => Remedy::SubstituteExecutable { id },
    };
    Err(Error::incompatible(format!(
        "executable {id} is '{format}', which {driver} cannot run on this machine"
    ))
    .context(record.location.to_string())
    .advise(remedy))
}
