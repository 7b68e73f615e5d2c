mod files;
mod live_names;
mod objects;
mod redzones;
mod releases;
mod stepping;
mod stepping_state;

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use bumpalo::Bump;
use parking_lot::Mutex;
use rehal_base::{Error, Result};
use rehal_capture::{Capture, OpenOptions};
use rehal_hal::profile::set_replayed_record;
use rehal_hal::{
    Buffer, BufferParams, CreateOp, Device, DeviceGroup, HostOp, ImportFile, Indexed, MemoryAccess,
    PrepareExecutable, QueueOp, RangeOp, SemaphoreFlags, WorkgroupSchedule, new_memory, transfer,
};
use serde::{Deserialize, Serialize};

use self::objects::get;
use self::redzones::Redzones;
use self::releases::Releases;
use self::stepping_state::Stepping;
use crate::evictions::{self, Evictions};
use crate::files::{FileRemap, FileWrites};
use crate::flight::{Flight, Issue};
use crate::plan::{Completion, RecordLocation, Release, Step, StepOp};
use crate::prepare::{self, Prepared};
use crate::region::Region;
use crate::replacements::Replacements;
use crate::schedule::Schedule;
use crate::substitute::{Layer, Substitute, Substitution};
use crate::{ExecutableRecord, HostRead, Observer, Plan, Scope, WrittenBindings, message, scopes};

pub(crate) use self::files::{FileBytes, ReplayFiles};
pub(crate) use self::live_names::LiveNames;
pub(crate) use self::objects::{Objects, State};
pub(crate) use self::stepping_state::each_object;

/// Options of a replay.
///
/// ```
/// use rehal_replay::{ReplayOptions, ReplayOrder};
///
/// let options = ReplayOptions::default().order(ReplayOrder::Captured);
/// ```
#[derive(Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReplayOptions {
    /// Path remappings for the capture's files.
    pub file_remaps: Vec<FileRemap>,
    /// The bytes that writes to external files change.
    pub file_writes: FileWrites,
    /// Executables to substitute.
    pub substitutions: Vec<Substitution>,
    /// Called for each executable; its result takes precedence over [`ReplayOptions::substitutions`].
    #[serde(
        skip_deserializing,
        skip_serializing_if = "Option::is_none",
        serialize_with = "message::callback"
    )]
    pub substitute: Option<Substitute>,
    /// When the host waits.
    pub order: ReplayOrder,
    /// Which bindings the functions of a captured executable may write, if its format says so: in captured
    /// order the host then does not wait between kernels that read the same bytes. Of replacements, nothing
    /// is known.
    #[serde(skip)]
    pub written_bindings: Option<FindWritten>,
    /// Before each entry of the scopes of this name, waits for all work in flight, and then evicts from the
    /// CPU's caches the bytes of buffers and of the capture that the entry touches: before
    /// [`Observer::scope_begin`].
    pub cold_scope: Option<Vec<u8>>,
    /// Bytes before and after each buffer, so that observers see accesses outside of it: a buffer is then a
    /// part of its allocation ([`Buffer::whole_allocation`]). 0 for none; a multiple of 4096, so that
    /// alignments are kept.
    ///
    /// [`Buffer::whole_allocation`]: rehal_hal::Buffer::whole_allocation
    pub redzone_bytes: u64,
    /// Which workgroups of each dispatch run, and in which order.
    pub workgroups: WorkgroupSchedule,
    /// The executable's name in crash reports and errors of drivers, for a capture that has one executable,
    /// such as the slice of a dispatch, in which ids are not those of its capture. By default `executable`
    /// with its id.
    pub executable_label: Option<String>,
    /// Whether all runs use the executables that were prepared first, so that none loads code. Variables of a
    /// library then keep their values from run to run.
    pub keeps_executables: bool,
}

rehal_base::setters!(ReplayOptions {
    file_remaps: Vec<FileRemap>,
    file_writes: FileWrites,
    substitutions: Vec<Substitution>,
    substitute: Option<Substitute>,
    order: ReplayOrder,
    written_bindings: Option<FindWritten>,
    cold_scope: Option<Vec<u8>>,
    redzone_bytes: u64,
    workgroups: WorkgroupSchedule,
    executable_label: Option<String>,
    keeps_executables: bool,
});

/// Tells which bindings the functions of a captured executable may write.
pub type FindWritten = Arc<dyn Fn(&ExecutableRecord<'_>) -> WrittenBindings + Send + Sync>;

/// The bindings that the functions of each executable may write, as the options tell.
fn written_of(
    plan: &Plan,
    options: &ReplayOptions,
    is_replaced: impl Fn((usize, &ExecutableRecord<'_>)) -> bool,
) -> Vec<WrittenBindings> {
    let Some(written) = &options.written_bindings else { return Vec::new() };
    let mut all = plan.written_by(&**written);
    for (index, record) in plan.executables().enumerate() {
        if is_replaced((index, &record)) {
            all[index].clear();
        }
    }
    all
}

/// When the host of a replay waits for the work that it issues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplayOrder {
    /// It waits for each submission before the next operation, as the reference's replay does.
    #[default]
    Serialized,
    /// Submissions are issued as the program issued them, and only timepoints order the devices. The host
    /// waits before it accesses bytes that work in flight accesses, before a submission that only a wait of
    /// the host can have ordered after such work, at the end of timed scopes ([`Observer::times_scope`]), and
    /// at the end.
    Captured,
}

impl ReplayOrder {
    /// `serialized` or `captured`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Serialized => "serialized",
            Self::Captured => "captured",
        }
    }
}

/// A plan bound to the devices that run it: files are opened and validated, substitutes are loaded.
///
/// It shares the plan and holds the devices, so that it can be stored, sent to another thread and run
/// concurrently.
///
/// A run issues the captured calls one after another on the calling thread, whichever threads issued them in
/// the program, and waits as [`ReplayOptions::order`] says.
pub struct Replay {
    plan: Arc<Plan>,
    devices: DeviceGroup,
    /// Set for the captured order.
    schedule: Option<Schedule>,
    evictions: Evictions,
    replacements: Replacements,
    redzones: Redzones,
    own_names: Vec<String>,
    workgroups: WorkgroupSchedule,
    executable_label: Option<String>,
    /// If executables are kept: those that were prepared, by their index in the plan.
    kept: Option<Mutex<HashMap<u32, Prepared>>>,
    file_remaps: Vec<FileRemap>,
    files: ReplayFiles,
}

impl Replay {
    /// Fails if the number of devices differs from the capture's, a file is missing or does not match, or a
    /// substitution selects no executable. Replacements that need other workgroups are prepared, to find
    /// which of their functions run.
    pub fn new(plan: impl Into<Arc<Plan>>, devices: &DeviceGroup, options: &ReplayOptions) -> Result<Self> {
        let plan = plan.into();
        Self::from_plan(plan.clone(), devices, options).map_err(|error| plan.in_file(error))
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The devices that it runs on.
    pub fn devices(&self) -> &DeviceGroup {
        &self.devices
    }

    fn from_plan(plan: Arc<Plan>, devices: &DeviceGroup, options: &ReplayOptions) -> Result<Self> {
        plan.check_not_empty()?;
        prepare::check_devices(&plan, devices)?;
        let mut replacements = Replacements::open(&options.substitutions, &plan)?;
        if let Some(substitute) = &options.substitute {
            let ops = prepare::preparations(&plan);
            let own_name = |index: usize| prepare::own_name(&plan, devices.devices(), ops[index]);
            replacements.ask(substitute, &plan, &own_name)?;
        }
        let mut own_names = Vec::new();
        if replacements.need_own_names(&plan) {
            own_names = prepare::own_names(&plan, devices)?;
            replacements.check_names(&plan, &own_names)?;
        }
        // What can run on a synchronous device has run when it is issued, so there is nothing to wait for.
        let is_synchronous = devices.devices().iter().all(|device| device.info().is_synchronous);
        let schedule = (options.order == ReplayOrder::Captured).then(|| match is_synchronous {
            true => Schedule::default(),
            false => {
                let is_replaced = |(index, record): (usize, &ExecutableRecord<'_>)| {
                    let own_name = own_names.get(index).map_or("", String::as_str);
                    !replacements.layers(index, record, own_name).is_empty()
                };
                Schedule::from_plan(&plan, written_of(&plan, options, is_replaced))
            }
        });
        let evictions = match &options.cold_scope {
            Some(name) => Evictions::from_plan(&plan, &scopes::entries(&plan, name)?),
            None => Evictions::default(),
        };
        let redzones = Redzones::new(options.redzone_bytes)?;
        let devices = devices.clone();
        let file_remaps = options.file_remaps.clone();
        let files = ReplayFiles::open(&plan, devices.devices(), &file_remaps, options.file_writes)?;
        let mut this = Self {
            plan,
            devices,
            schedule,
            evictions,
            replacements,
            redzones,
            own_names,
            workgroups: options.workgroups,
            executable_label: options.executable_label.clone(),
            kept: options.keeps_executables.then(Mutex::default),
            file_remaps,
            files,
        };
        if let Some(changed) = this.plan_with_workgroups()? {
            this.plan = Arc::new(changed);
        }
        Ok(this)
    }

    /// The plan with the workgroups that replacements need; `None` if these are the captured ones. The code
    /// that runs for a function decides. Fails if a dispatched function needs an unknown count.
    fn plan_with_workgroups(&self) -> Result<Option<Plan>> {
        let mut needed = vec![Vec::new(); self.plan.executables.len()];
        for op in prepare::preparations(&self.plan) {
            let index = op.created as usize;
            let record = self.plan.executables[index].record(self.plan.bytes());
            let layers = self.layers(op.created);
            if layers.iter().all(|it| it.replacement.keeps_workgroups(record.data)) {
                continue;
            }
            let device = &self.devices.devices()[op.cache as usize];
            let format = str::from_utf8(record.format).ok().and_then(|it| device.info().format(it));
            let found = self
                .prepare(op, device)
                .and_then(|prepared| prepared.workgroups(&layers, record.data, format));
            needed[index] = found.map_err(|error| self.plan.locate(error, record.location))?;
        }
        self.plan.with_workgroups(&needed)
    }

    /// The number of waits of the host that a run in captured order inserts between submissions because they
    /// access the same bytes and no timepoint orders them: both within one entry of the scopes of a name, or
    /// anywhere. 0 in serialized order, which waits for each submission.
    ///
    /// The program's host waited there, or may not have: captures do not contain its waits, nor (but for
    /// [`ReplayOptions::written_bindings`]) which bytes a kernel only reads.
    /// Fails if a scope of that name does not end.
    pub fn inserted_wait_count(&self, scope: Option<&[u8]>) -> Result<u64> {
        let Some(schedule) = &self.schedule else { return Ok(0) };
        let Some(scope) = scope else { return Ok(schedule.order_wait_count(0..u32::MAX)) };
        let entries = scopes::entries(&self.plan, scope).map_err(|error| self.plan.in_file(error))?;
        Ok(entries.iter().map(|entry| schedule.order_wait_count(entry.begin..entry.end)).sum())
    }

    /// Runs the plan once, creating and releasing all of its objects. The system ends the process (SIGBUS) if
    /// the capture's file is truncated: [`Replay::check_capture`] says whether it has been.
    pub fn run(&self, observers: &mut [&mut dyn Observer]) -> Result<()> {
        let mut run = Run::new(self, observers, State::new(&self.plan), None);
        run.all(0..self.plan.steps.len() as u32).map_err(|error| self.plan.in_file(error))
    }

    /// Fails if the file of the capture has been truncated since it was opened. It costs a system call, so
    /// runs do not ask.
    pub fn check_capture(&self) -> Result<()> {
        self.plan.capture().check_present().map_err(|error| self.plan.in_file(error))
    }

    /// Evicts from the CPU's caches the data of the capture that a run reads: all that exists before it.
    /// Fails if this CPU has no instruction for that.
    pub fn evict(&self) -> Result<()> {
        evictions::evict_data(&self.plan)
    }

    /// Prepares an executable of the plan, or its substitute.
    pub(crate) fn prepare(&self, op: &PrepareExecutable<Indexed>, device: &Device) -> Result<Prepared> {
        let kept = self.kept.as_ref().map(Mutex::lock);
        if let Some(prepared) = kept.as_ref().and_then(|it| it.get(&op.created)) {
            return Ok(prepared.clone());
        }
        let layers = self.layers(op.created);
        let label = self.executable_label.as_deref();
        let prepared = prepare::prepare(&self.plan, op, device, &layers, self.workgroups, label)?;
        if let Some(mut kept) = kept {
            kept.insert(op.created, prepared.clone());
        }
        Ok(prepared)
    }

    /// The replacements of an executable of the plan.
    fn layers(&self, executable: u32) -> Vec<Layer<'_>> {
        let record = self.plan.executables[executable as usize].record(self.plan.bytes());
        let own_name = self.own_names.get(executable as usize).map_or("", String::as_str);
        self.replacements.layers(executable as usize, &record, own_name)
    }

    /// The files of the capture.
    pub(crate) fn files(&self) -> &ReplayFiles {
        &self.files
    }

    /// The path remappings for the capture's files.
    pub(crate) fn file_remaps(&self) -> &[FileRemap] {
        &self.file_remaps
    }

    /// Prepares and drops each executable or its substitute, so that executables which a run would reject are
    /// found before anything is issued.
    pub fn check_executables(&self) -> Result<()> {
        for op in prepare::preparations(&self.plan) {
            let device = &self.devices.devices()[op.cache as usize];
            let location = self.plan.executables[op.created as usize].location;
            self.prepare(op, device).map_err(|error| self.plan.in_file(self.plan.locate(error, location)))?;
        }
        Ok(())
    }
}

impl Plan {
    /// Adds the capture's path to an error that does not have it: work may run in a replay of its own.
    pub(crate) fn in_file(&self, error: Error) -> Error {
        let Some(path) = self.capture().path() else { return error };
        let shown = format!("'{}'", path.display());
        match error.context_lines().contains(&shown) {
            true => error,
            false => error.context(shown),
        }
    }

    /// Adds the record, its operation and its objects to an error.
    pub(crate) fn locate(&self, error: Error, location: RecordLocation) -> Error {
        match Capture::open(self.bytes(), OpenOptions { recover: true }) {
            Ok(capture) => location.find_in(&capture, error),
            Err(_) => location.on(error),
        }
    }
}

/// One run of a plan, or of a part of it.
pub(crate) struct Run<'r, 'l, 'o> {
    plan: &'r Plan,
    /// The bytes of the capture, indexed by spans.
    bytes: &'r [u8],
    replay: &'r Replay,
    pub state: State,
    observers: &'l mut [&'o mut dyn Observer],
    wants_host_reads: bool,
    zeroes_memory: bool,
    flight: Flight<'r>,
    /// If set, submissions may be performed one operation at a time.
    stepping: Option<Box<Stepping<'r>>>,
    /// If set, only its objects are released.
    region: Option<&'l Region>,
    /// Open scopes that an observer times.
    timed_scopes: u32,
}

impl<'r, 'l, 'o> Run<'r, 'l, 'o> {
    /// A run that continues from `state`: all of the plan, or `region`.
    pub(crate) fn new(
        replay: &'r Replay,
        observers: &'l mut [&'o mut dyn Observer],
        state: State,
        region: Option<&'l Region>,
    ) -> Self {
        let plan = &*replay.plan;
        let (first, position) = region.map_or((0, 0), |region| (region.steps.start, region.position));
        let stepping = Stepping::new(plan, observers);
        let schedule = replay.schedule.as_ref().filter(|_| stepping.is_none());
        Self {
            plan,
            bytes: plan.bytes(),
            replay,
            state,
            wants_host_reads: observers.iter().any(|it| it.wants_host_reads()),
            zeroes_memory: observers.iter().any(|it| it.wants_zeroed_memory()),
            observers,
            flight: Flight::new(plan, schedule, replay.devices.devices(), first, position),
            stepping,
            region,
            timed_scopes: 0,
        }
    }

    /// Performs steps, and waits for all runnable work.
    pub(crate) fn all(&mut self, steps: Range<u32>) -> Result<()> {
        let outcome = self.steps(steps);
        // Work in flight uses the objects of this run, so it must complete first.
        match (outcome, self.flight.abort()) {
            (Ok(()), None) => self.replay.files.check_unchanged(self.plan, &self.replay.file_remaps),
            (_, Some((location, error))) => Err(self.plan.locate(error, location)),
            (Err(error), None) => Err(error),
        }
    }

    fn steps(&mut self, steps: Range<u32>) -> Result<()> {
        let plan = self.plan;
        let stepping: Vec<usize> =
            (0..self.observers.len()).filter(|&index| self.observers[index].wants_steps()).collect();
        let profiles_records = self.observers.iter().any(|it| it.profiles_records());
        let extended = self.stepping.as_ref().map(|stepping| stepping.releases(plan));
        let mut releases = Releases::new(extended.as_ref().unwrap_or(&plan.releases), steps.start);
        let mut scratch = Bump::with_capacity(4096);
        let all = &plan.steps[steps.start as usize..steps.end as usize];
        for (number, step) in steps.clone().zip(all) {
            rehal_crash::note_step();
            if profiles_records {
                set_replayed_record(Some(step.location.ordinal.into()));
            }
            for &index in &stepping {
                self.observers[index].step(step.location)?;
            }
            let flow =
                self.perform(number, step, &scratch).map_err(|error| plan.locate(error, step.location))?;
            if flow.is_break() || self.complete(number, &scratch)?.is_break() {
                return Ok(());
            }
            let is_timed = self.timed_scopes != 0;
            while let Some(release) = releases.next(number, is_timed, |it| self.state.objects.bytes_of(it)) {
                self.release(release);
            }
            if self.flight.holds() {
                self.release_held()?;
            }
            // Other steps allocate nothing in it.
            if !matches!(step.op, StepOp::Host(_)) {
                scratch.reset();
            }
        }
        self.flight.drain()?;
        releases.rest(steps.end).for_each(|release| self.release(release));
        self.release_held()
    }

    /// Releases the objects whose work is complete.
    fn release_held(&mut self) -> Result<()> {
        while let Some(release) = self.flight.next_released()? {
            self.state.objects.release(release);
        }
        Ok(())
    }

    fn perform(&mut self, number: u32, step: &Step, scratch: &Bump) -> Result<ControlFlow<()>> {
        self.flight.before(number)?;
        match step.op {
            StepOp::Submission(index) => return self.submit(index, true, step.location, scratch),
            StepOp::Deferred(index) => return self.submit(index, false, step.location, scratch),
            StepOp::Command(index) => self.record(index, step.location, scratch)?,
            StepOp::Host(index) => {
                self.evict(number)?;
                self.host_op(&self.plan.host_ops[index as usize], step.location)?;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Completes the deferred submissions that a step makes runnable.
    #[inline]
    fn complete(&mut self, step: u32, scratch: &Bump) -> Result<ControlFlow<()>> {
        while let Some(completion) = self.flight.next_runnable(step) {
            let outcome = self.complete_one(completion, scratch);
            if outcome.map_err(|error| self.plan.locate(error, completion.location))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    #[inline(never)]
    fn complete_one(&mut self, completion: &'r Completion, scratch: &Bump) -> Result<ControlFlow<()>> {
        let Some(mut stepping) = self.stepping.take() else {
            return self.flight.complete(completion.submission).map(ControlFlow::Continue);
        };
        let outcome = self.complete_stepping(&mut stepping, completion, scratch);
        self.stepping = Some(stepping);
        outcome
    }

    /// An object's last use is issued.
    fn release(&mut self, release: Release) {
        if self.region.is_none_or(|region| region.creates(release)) {
            let objects = &mut self.state.objects;
            match self.flight.is_empty() {
                true => objects.release(release),
                false => self.flight.hold(release, objects.bytes_of(release)),
            }
        }
    }

    /// Evicts what the scope that begins with this step touches, if it is timed with cold caches.
    fn evict(&mut self, step: u32) -> Result<()> {
        let evictions = &self.replay.evictions;
        if !evictions.has(step) {
            return Ok(());
        }
        self.flight.drain()?;
        let buffers = &self.state.objects.buffers;
        evictions.evict(step, self.bytes, |buffer| buffers[buffer as usize].as_ref())
    }

    /// Creates the object of an earlier step again: one that the part of the plan to be repeated has
    /// deallocated.
    pub(crate) fn create_again(&mut self, step: StepOp) -> Result<()> {
        let plan = self.plan;
        match step {
            StepOp::Host(index) => self.host_op(&plan.host_ops[index as usize], RecordLocation::default()),
            StepOp::Submission(index) | StepOp::Deferred(index) => {
                let submission = &plan.submissions[index as usize];
                let QueueOp::Alloca { params, size, flags, created } = submission.op else { return Ok(()) };
                let device = self.device(submission.device);
                let done = device.create_semaphore(submission.affinity, 0, SemaphoreFlags::default())?;
                let signals = [done.at(1)];
                let (params, whole_size) = self.replay.redzones.around(params, size)?;
                let buffer =
                    device.queue(submission.affinity).signal(&signals).alloca(params, whole_size, flags)?;
                device.flush(submission.affinity)?;
                done.wait(1, None)?;
                self.state.objects.buffers[created as usize] =
                    Some(self.replay.redzones.inside(buffer, size)?);
                Ok(())
            }
            StepOp::Command(_) => Ok(()),
        }
    }

    /// Creates a semaphore again, with another payload.
    pub(crate) fn create_semaphore_again(&mut self, step: StepOp, payload: u64) -> Result<()> {
        if let StepOp::Host(index) = step
            && let HostOp::Create(CreateOp::Semaphore { device, affinity, flags, created, .. }) =
                self.plan.host_ops[index as usize]
        {
            let semaphore = self.device(device).create_semaphore(affinity, payload, flags)?;
            self.state.objects.semaphores[created as usize] = Some(semaphore);
        }
        Ok(())
    }

    /// Issues a submission, or performs its operations one by one, if it can `run` at once; otherwise it is
    /// deferred.
    #[inline]
    fn submit(
        &mut self,
        index: u32,
        runs: bool,
        location: RecordLocation,
        scratch: &Bump,
    ) -> Result<ControlFlow<()>> {
        match self.stepping.is_none() && self.state.refused_commands.is_empty() {
            true => self.issue(index, runs, location, scratch).map(ControlFlow::Continue),
            false => self.submit_otherwise(index, runs, location, scratch),
        }
    }

    /// If commands have been refused, or observers want operations.
    #[inline(never)]
    fn submit_otherwise(
        &mut self,
        index: u32,
        runs: bool,
        location: RecordLocation,
        scratch: &Bump,
    ) -> Result<ControlFlow<()>> {
        let submission = &self.plan.submissions[index as usize];
        if let QueueOp::Execute { command_buffer, .. } = submission.op
            && let Some(error) = self.state.refused_commands.get(&command_buffer)
        {
            return Err(error.clone());
        }
        match self.stepping.take() {
            None => self.issue(index, runs, location, scratch).map(ControlFlow::Continue),
            Some(mut stepping) => {
                let outcome = self.submit_stepping(&mut stepping, index, runs, location, scratch);
                self.stepping = Some(stepping);
                outcome
            }
        }
    }

    /// Issues a submission, which can `run` at once or is deferred.
    fn issue(&mut self, index: u32, runs: bool, location: RecordLocation, scratch: &Bump) -> Result<()> {
        let submission = &self.plan.submissions[index as usize];
        // The program did not need to know when it completes, but the run does.
        let own = match submission.signals.count {
            0 => {
                let device = self.device(submission.device);
                Some(device.create_semaphore(submission.affinity, 0, SemaphoreFlags::default())?)
            }
            _ => None,
        };
        let own = own.as_ref().map(|semaphore| semaphore.at(1));
        let mut live = submission.rename(&mut LiveNames::new(
            self.plan,
            self.replay.devices.devices(),
            &self.state.objects,
            scratch,
        ));
        // Used where it is: a submission is large.
        let live = match live {
            Ok(ref mut live) => live,
            Err(error) => return Err(error),
        };
        if let Some(own) = &own {
            live.signals = std::slice::from_ref(own);
        }
        let redzones = &self.replay.redzones;
        if let QueueOp::Alloca { params, size, .. } = &mut live.op {
            (*params, *size) = redzones.around(*params, *size)?;
        }
        let buffer = match self.zeroes_memory {
            true => new_memory::zeroed(live, |it| it.submit())?,
            false => live.submit()?,
        };
        match runs && self.flight.is_serialized() {
            true => Flight::flush_and_wait(live.device, live.affinity, live.signals)?,
            false => self.flight.issued(&Issue {
                device: submission.device,
                affinity: live.affinity,
                signals: live.signals,
                planned_signals: submission.signals.of(&self.plan.lists.timepoints),
                location,
                deferred: (!runs).then_some(index),
            })?,
        }
        if let (&QueueOp::Alloca { size, created, .. }, Some(buffer)) = (&submission.op, buffer) {
            self.state.objects.buffers[created as usize] = Some(redzones.inside(buffer, size)?);
        }
        Ok(())
    }

    /// Records a command. If it is rejected, the error is returned only if the command would run, as in the
    /// planner.
    fn record(&mut self, index: u32, location: RecordLocation, scratch: &Bump) -> Result<()> {
        let (into, command) = self.plan.commands[index as usize];
        let command_buffer = get(&self.state.objects.command_buffers, into)?;
        let outcome = command_buffer.record(&command.rename(&mut self.names(scratch))?);
        match outcome {
            Err(error) if !self.plan.inline_command_buffers[into as usize] => {
                let error = self.plan.locate(error, location);
                self.state.refused_commands.entry(into).or_insert(error);
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn names<'s>(&'s self, scratch: &'s Bump) -> LiveNames<'s> {
        LiveNames::new(self.plan, self.replay.devices.devices(), &self.state.objects, scratch)
    }

    fn device(&self, index: u32) -> &Device {
        &self.replay.devices.devices()[index as usize]
    }

    fn host_op(&mut self, op: &HostOp<Indexed>, location: RecordLocation) -> Result<()> {
        match *op {
            HostOp::Create(ref op) => self.create(op)?,
            HostOp::BeginCommandBuffer { command_buffer } => {
                get(&self.state.objects.command_buffers, command_buffer)?.begin()?;
            }
            HostOp::EndCommandBuffer { command_buffer } => {
                get(&self.state.objects.command_buffers, command_buffer)?.end()?;
            }
            HostOp::Map(range) | HostOp::Invalidate(range) => self.host_read(&range, location)?,
            HostOp::Unmap(range, data) | HostOp::Flush(range, data) => {
                // An empty write needs no write access.
                if let Some(data) = data.filter(|data| data.count != 0) {
                    let buffer = get(&self.state.objects.buffers, range.buffer)?;
                    // The range was mapped as a whole; the bytes are the written part of it.
                    let mapped = rehal_base::Range { offset: range.offset, length: range.length };
                    self.plan.write_data(buffer, range.access, mapped, data)?;
                }
            }
            HostOp::FlushQueue { device } => self.device(device).flush(rehal_hal::QUEUE_AFFINITY_ANY)?,
            HostOp::ScopeBegin { name } => {
                self.state.open_scopes.push(name);
                let scope = Scope { name: name.of(self.bytes), location };
                self.timed_scopes += u32::from(self.observers.iter().any(|it| it.times_scope(&scope)));
                self.observers.iter_mut().try_for_each(|it| it.scope_begin(&scope))?;
            }
            HostOp::ScopeEnd { name } => {
                let scope = Scope { name: name.of(self.bytes), location };
                if self.observers.iter().any(|it| it.times_scope(&scope)) {
                    self.timed_scopes = self.timed_scopes.saturating_sub(1);
                    self.flight.drain()?;
                }
                self.observers.iter_mut().try_for_each(|it| it.scope_end(&scope))?;
                // Those of a name share a span. Scopes may overlap instead of nesting, and an end may lack a
                // begin.
                let open_scopes = &mut self.state.open_scopes;
                if open_scopes.pop_if(|open| open.start == name.start).is_none()
                    && let Some(open) = open_scopes.iter().rposition(|open| open.start == name.start)
                {
                    open_scopes.remove(open);
                }
            }
            HostOp::Trim { device } | HostOp::TrimAllocator { allocator: device } => {
                self.device(device).trim()?;
            }
        }
        Ok(())
    }

    fn create(&mut self, op: &CreateOp<Indexed>) -> Result<()> {
        match *op {
            CreateOp::Semaphore { device, affinity, initial_value, flags, created } => {
                let semaphore = self.device(device).create_semaphore(affinity, initial_value, flags)?;
                self.state.objects.semaphores[created as usize] = Some(semaphore);
            }
            CreateOp::CommandBuffer { device, params, created } => {
                let params = if self.stepping.is_some() { Stepping::params(params) } else { params };
                let command_buffer = self.device(device).create_command_buffer(params)?;
                self.state.objects.command_buffers[created as usize] = Some(command_buffer);
            }
            CreateOp::Event { device, affinity, flags, created } => {
                let event = self.device(device).create_event(affinity, flags)?;
                self.state.objects.events[created as usize] = Some(event);
            }
            CreateOp::Executable(ref op) => {
                let replay = self.replay;
                let device = self.device(op.cache);
                let prepared = replay.prepare(op, device)?;
                let record = &self.plan.executables[op.created as usize].record(self.bytes);
                for part in prepared.parts() {
                    self.observers.iter_mut().try_for_each(|it| it.executable(record, part))?;
                }
                self.state.objects.executables[op.created as usize] = Some(prepared);
            }
            CreateOp::File(ref op) => self.import_file(op)?,
            CreateOp::Buffer { allocator, params, size, created } => {
                let buffer = self.allocate(allocator, params, size, created)?;
                self.state.objects.buffers[created as usize] = Some(buffer);
            }
            CreateOp::ImportedBuffer { allocator, params, size, data, created, .. } => {
                let buffer = self.allocate(allocator, params, size, created)?;
                let access = MemoryAccess::WRITE | (MemoryAccess::DISCARD & buffer.params().access);
                let whole = rehal_base::Range { offset: 0, length: data.count };
                self.plan.write_data(&buffer, access, whole, data)?;
                self.state.objects.buffers[created as usize] = Some(buffer);
            }
            // They exist before the run.
            CreateOp::Device { .. } | CreateOp::Allocator { .. } | CreateOp::ExecutableCache { .. } => {}
        }
        Ok(())
    }

    /// Allocates the buffer of index `created`.
    fn allocate(&mut self, device: u32, params: BufferParams, size: u64, created: u32) -> Result<Buffer> {
        let redzones = &self.replay.redzones;
        let (params, whole_size) = redzones.around(params, size)?;
        let whole = self.device(device).allocate_buffer(params, whole_size)?;
        if self.zeroes_memory {
            new_memory::zero(self.device(device), &whole)?;
        }
        let buffer = redzones.inside(whole, size)?;
        self.allocated(created, &buffer)?;
        Ok(buffer)
    }

    /// Calls the observers after an allocation.
    fn allocated(&mut self, index: u32, buffer: &Buffer) -> Result<()> {
        let buffer_id = self.plan.buffer_ids[index as usize];
        self.observers.iter_mut().try_for_each(|it| it.allocated(buffer_id, buffer))
    }

    fn import_file(&mut self, op: &ImportFile<Indexed>) -> Result<()> {
        let record = &self.plan.files[op.created as usize].record(self.bytes);
        let file = self.replay.files.import(op, record, self.device(op.device), &self.state.copies)?;
        self.state.objects.files[op.created as usize] = file;
        Ok(())
    }

    fn host_read(&mut self, range: &RangeOp<Indexed>, location: RecordLocation) -> Result<()> {
        if !self.wants_host_reads || !range.access.contains(MemoryAccess::READ) {
            return Ok(());
        }
        let buffer = get(&self.state.objects.buffers, range.buffer)?;
        let scope = self.state.open_scopes.last().map(|name| name.of(self.bytes));
        let buffer_id = self.plan.buffer_ids[range.buffer as usize];
        let observers = &mut *self.observers;
        // A benchmark does not copy them otherwise.
        observers.iter_mut().for_each(|it| it.pause_timing());
        let viewed = transfer::view(buffer, range.offset, range.length, |memory| {
            let read = HostRead { location, scope, buffer_id, offset: range.offset, memory };
            observers.iter_mut().filter(|it| it.wants_host_reads()).try_for_each(|it| it.host_read(&read))
        });
        self.observers.iter_mut().for_each(|it| it.resume_timing());
        viewed
    }
}
