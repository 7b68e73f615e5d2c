use std::sync::Arc;
use std::time::Duration;

use rehal_base::{Error, Result, StatusCode};
use rehal_cts::late::LateDevice;
use rehal_hal::{Device, DeviceGroup, Executable};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{
    ExecutableRecord, HostRead, Observer, Plan, PlanOptions, RecordLocation, Replay, ReplayOptions,
    ReplayOrder, Scope,
};

use super::{Ran, Stepped, TestDevice, stepped};

/// The notifications of an observer and the log of the device.
#[derive(Debug, Default)]
pub struct Observed {
    /// `begin:NAME` and `end:NAME`.
    pub scopes: Vec<String>,
    pub reads: Vec<Read>,
    /// The ids of the executables and the names of their substitutes.
    pub executables: Vec<(u64, String)>,
    /// The ordinals of the steps.
    pub steps: Vec<u32>,
    /// The log of the test device.
    pub ran: Vec<Ran>,
    /// The observer returns an error when this scope begins.
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
    /// The dispatches of the log, except those that preceded a run.
    pub fn dispatches(&self) -> Vec<&Ran> {
        self.ran.iter().filter(|ran| matches!(ran, Ran::Dispatch { .. })).collect()
    }

    /// The bytes of every read.
    pub fn bytes(&self) -> Vec<&[u8]> {
        self.reads.iter().map(|read| read.bytes.as_slice()).collect()
    }
}

impl Observer for Observed {
    fn scope_begin(&mut self, scope: &Scope<'_>) -> Result<()> {
        let name = String::from_utf8_lossy(scope.name);
        if self.fail_in.is_some_and(|it| it == name) {
            return Err(Error::new(StatusCode::Aborted, "aborted by the observer"));
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
            ordinal: read.location.ordinal,
            scope: read.scope.map(|name| String::from_utf8_lossy(name).into_owned()),
            buffer_id: read.buffer_id,
            offset: read.offset,
            bytes: read.to_vec(),
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

    fn step(&mut self, location: RecordLocation) -> Result<()> {
        self.steps.push(location.ordinal);
        Ok(())
    }
}

/// Plans a capture and runs it once on a test device.
pub fn run(bytes: &[u8]) -> Result<Observed> {
    run_with(bytes, &ReplayOptions::default())
}

/// Like [`run`], with options.
pub fn run_with(bytes: &[u8], options: &ReplayOptions) -> Result<Observed> {
    replay(bytes, options, 1).map(|mut runs| runs.remove(0))
}

/// Plans a capture once and runs it `count` times, on as many test devices as it uses. What the devices
/// logged during setup precedes the first run.
///
/// A capture without executables also runs on `local-sync`, with the same outcome; and in captured order, on
/// a device that completes work late.
///
/// One more run performs operations one by one, with the same outcome: the reads, and the dispatches of the
/// device, which are those that an observer sees.
pub fn replay(bytes: &[u8], options: &ReplayOptions, count: usize) -> Result<Vec<Observed>> {
    let plan = Arc::new(Plan::compile(bytes.to_vec(), PlanOptions::default())?);
    let (devices, logs): (Vec<_>, Vec<_>) = (0..plan.device_count()).map(|_| TestDevice::create()).unzip();
    let take_logs = || logs.iter().flat_map(|log| std::mem::take(&mut *log.lock().unwrap())).collect();
    let runs = replay_on(&plan, devices, options, count, take_logs);
    assert_stepped_alike(&plan, options, &runs);
    if plan.executables().len() == 0 {
        let devices = (0..plan.device_count()).map(|_| LocalSync::create(Plugins::default())).collect();
        assert_alike(&runs, &replay_on(&plan, devices, options, count, Vec::new));
        let late =
            |seed| LateDevice::over(LocalSync::create(Plugins::default()), seed, Duration::from_micros(100));
        let devices = (0..plan.device_count() as u64).map(late).collect();
        let options = options.clone().order(ReplayOrder::Captured);
        assert_alike(&runs, &replay_on(&plan, devices, &options, count, Vec::new));
    }
    runs
}

fn replay_on(
    plan: &Arc<Plan>,
    devices: Vec<Device>,
    options: &ReplayOptions,
    count: usize,
    take_logs: impl Fn() -> Vec<Ran>,
) -> Result<Vec<Observed>> {
    let replay = Replay::new(plan.clone(), &DeviceGroup::new(devices)?, options)?;
    let run = || {
        let mut observed = Observed::default();
        replay.run(&mut [&mut observed])?;
        observed.ran = take_logs();
        Ok(observed)
    };
    (0..count).map(|_| run()).collect()
}

/// Runs a plan with an observer of operations.
#[track_caller]
fn assert_stepped_alike(plan: &Arc<Plan>, options: &ReplayOptions, runs: &Result<Vec<Observed>>) {
    let mut operations = Stepped::default();
    let observed = stepped(plan, options, &mut operations);
    if let (Ok(observed), Ok(runs)) = (&observed, runs) {
        assert_eq!(observed.dispatches(), runs[0].dispatches());
        if plan.device_count() == 1 {
            assert_eq!(observed.dispatches(), operations.dispatches.iter().collect::<Vec<_>>());
        }
    }
    assert_alike(runs, &observed.map(|observed| vec![observed]));
}

#[track_caller]
fn assert_alike(ours: &Result<Vec<Observed>>, others: &Result<Vec<Observed>>) {
    match (ours, others) {
        (Ok(ours), Ok(others)) => {
            for (ours, other) in ours.iter().zip(others) {
                assert_eq!(ours.reads, other.reads);
                assert_eq!((&ours.scopes, &ours.steps), (&other.scopes, &other.steps));
            }
        }
        // Only the test device checks events.
        (Err(ours), _) if ours.code() == StatusCode::Aborted => {}
        (Err(ours), Err(other)) => assert_eq!(ours.code(), other.code(), "{ours:?} {other:?}"),
        _ => panic!("the outcome differs on local-sync: {ours:?} {others:?}"),
    }
}

/// The error of planning a capture. Its context must be `place` as a tool prints it, with the operation and
/// the objects, and it must contain each of `words`.
#[track_caller]
pub fn refusal(bytes: &[u8], location: RecordLocation, words: &[&str]) -> Error {
    let error = match Plan::compile(bytes.to_vec(), PlanOptions::default()) {
        Ok(_) => panic!("the capture is planned; expected {words:?}"),
        Err(error) => error,
    };
    let report = error.report();
    let at = format!("record #{}, offset {}: ", location.ordinal, location.offset);
    for word in [at.as_str()].iter().chain(words) {
        assert!(report.contains(word), "'{word}' is not in: {report}");
    }
    error
}
