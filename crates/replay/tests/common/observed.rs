use rehal_base::{Error, Result};
use rehal_capture::{Capture, OpenOptions};
use rehal_hal::{DeviceGroup, Executable};
use rehal_replay::{
    ExecutableRecord, HostRead, Observer, Place, Plan, PlanOptions, Replay, ReplayOptions, Scope,
};

use super::{Ran, TestDevice};

/// What an observer was told, and what the device ran.
#[derive(Debug, Default)]
pub struct Observed {
    /// `begin:NAME` and `end:NAME`.
    pub scopes: Vec<String>,
    pub reads: Vec<Read>,
    /// The ids of the executables, and the names of what stood for them.
    pub executables: Vec<(u64, String)>,
    /// The ordinals of the steps.
    pub steps: Vec<u32>,
    /// What the test device ran.
    pub ran: Vec<Ran>,
    /// An error to give when this scope begins.
    pub fail_in: Option<&'static str>,
}

/// A host read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub ordinal: u32,
    pub scope: Option<String>,
    pub buffer_id: u64,
    pub offset: u64,
    pub bytes: Vec<u8>,
}

impl Observed {
    /// The bytes of each read.
    pub fn bytes(&self) -> Vec<&[u8]> {
        self.reads.iter().map(|read| read.bytes.as_slice()).collect()
    }
}

impl Observer for Observed {
    fn scope_begin(&mut self, scope: &Scope<'_>) -> Result<()> {
        let name = String::from_utf8_lossy(scope.name);
        if self.fail_in.is_some_and(|it| it == name) {
            return Err(Error::new(rehal_base::StatusCode::Aborted, "the observer has seen enough"));
        }
        self.scopes.push(format!("begin:{name}"));
        Ok(())
    }

    fn scope_end(&mut self, scope: &Scope<'_>) -> Result<()> {
        self.scopes.push(format!("end:{}", String::from_utf8_lossy(scope.name)));
        Ok(())
    }

    fn wants_host_reads(&self) -> bool {
        true
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        self.reads.push(Read {
            ordinal: read.place.ordinal,
            scope: read.scope.map(|name| String::from_utf8_lossy(name).into_owned()),
            buffer_id: read.buffer_id,
            offset: read.offset,
            bytes: read.bytes.to_vec(),
        });
        Ok(())
    }

    fn executable(&mut self, record: &ExecutableRecord<'_>, executable: &Executable) -> Result<()> {
        self.executables.push((record.id, executable.backend().name().to_string()));
        Ok(())
    }

    fn wants_steps(&self) -> bool {
        true
    }

    fn step(&mut self, place: Place) -> Result<()> {
        self.steps.push(place.ordinal);
        Ok(())
    }
}

/// Plans a capture and runs it once on a test device.
pub fn run(bytes: &[u8]) -> Result<Observed> {
    run_with(bytes, &ReplayOptions::default())
}

/// As [`run`], with options.
pub fn run_with(bytes: &[u8], options: &ReplayOptions) -> Result<Observed> {
    replay(bytes, options, 1).map(|mut runs| runs.remove(0))
}

/// Plans a capture once and runs it `count` times, on as many test devices as it uses. What the
/// devices ran while the replay was set up is before the first run.
pub fn replay(bytes: &[u8], options: &ReplayOptions, count: usize) -> Result<Vec<Observed>> {
    let capture = Capture::open(bytes, OpenOptions::default())?;
    let plan = Plan::compile(&capture, bytes, PlanOptions::default())?;
    let (devices, logs): (Vec<_>, Vec<_>) = (0..plan.device_count()).map(|_| TestDevice::create()).unzip();
    let replay = Replay::new(&plan, &DeviceGroup::new(devices)?, options)?;
    let mut runs = Vec::new();
    for _ in 0..count {
        let mut observed = Observed::default();
        replay.run(&mut [&mut observed])?;
        for log in &logs {
            observed.ran.append(&mut log.lock().unwrap());
        }
        runs.push(observed);
    }
    Ok(runs)
}

/// The error that planning a capture ends with. It must name `place` as a tool prints it, with the
/// operation and the objects, and give each of `words`.
#[track_caller]
pub fn refusal(bytes: &[u8], place: Place, words: &[&str]) -> Error {
    let capture = Capture::open(bytes, OpenOptions::default()).unwrap();
    let error = match Plan::compile(&capture, bytes, PlanOptions::default()) {
        Ok(_) => panic!("the capture is planned; expected {words:?}"),
        Err(error) => error,
    };
    let report = error.report();
    let at = format!("record #{}, offset {}: ", place.ordinal, place.offset);
    for word in [at.as_str()].iter().chain(words) {
        assert!(report.contains(word), "'{word}' is not in: {report}");
    }
    error
}
