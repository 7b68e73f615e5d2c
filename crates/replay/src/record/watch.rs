//! Watches what each dispatch of a recorded program writes: performs the program's work one operation at a
//! time.
//!
//! The bindings of a dispatch are compared before and after it, and nothing else may write meanwhile. So the
//! recorder performs the program's submissions itself, one at a time, in the order in which their waits are
//! reached (`PendingSubmissions`), with commands in command buffers of their own. On a synchronous device
//! (`DeviceInfo::is_synchronous`), the thread that makes a submission ready performs it; for others one
//! thread does, which waits for nothing but work that can run. The `Promise` of a submission settles its
//! signals, after the digests are in the stream and without the lock. Allocations, barriers and host calls
//! are forwarded.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::Builder;

use bumpalo::Bump;
use parking_lot::Mutex;
use rehal_base::{Error, Range, Result};
use rehal_capture::layout;
use rehal_hal::{
    Binding, BufferRef, Command, Device, Dispatch, Executable, Indexed, KeptSubmission, Live,
    PendingSubmissions, QueueOp, Rename, Store, StoredNames, Submission, WHOLE_BUFFER,
};

use super::stream::{Stream, status_of};
use crate::effects::{ChangeTracker, Effect, written_by_kernels};
use crate::ids::Ids;
use crate::one_by_one::{OneByOne, Walker, recorded, walk};
use crate::operation::AccessedRange;

/// Describes what each dispatch of a recorded program writes. Called for one dispatch after the other, on any
/// thread.
///
/// An error does not disturb the program: the dispatch has no record, and
/// [`Recorder::close`](crate::Recorder::close) reports the first one.
pub trait DispatchWatcher: Send {
    /// Called after a dispatch with what it changed, unless it failed. Returns the payload of an optional
    /// record of the capture.
    fn dispatched(&mut self, dispatch: &WatchedDispatch<'_>, changes: &ChangeTracker) -> Result<&[u8]>;
}

/// A dispatch of a recorded program.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WatchedDispatch<'a> {
    /// Ordinal of its record: that of the command, or of the submission.
    pub record: u32,
    /// Ordinal of the record of its submission.
    pub submission: u32,
    /// The name of the function.
    pub function: &'a str,
}

/// Performs submissions one at a time, and each dispatch by itself.
///
/// Only so the bytes that a dispatch changes are its own: commands that run together, or work of other
/// queues, may write to the same range. Submissions are performed in the order in which their waits are
/// reached, which is an order that the program allows; no other thread ever waits for them to be performed
/// than one that waits for their signals.
pub(super) struct Watch {
    stream: Arc<Stream>,
    performer: Mutex<Performer>,
    /// Submissions of devices that run work on threads of their own; the thread of the watch takes them.
    jobs: OnceLock<Sender<Message>>,
}

/// The performer of submissions.
struct Performer {
    watcher: Box<dyn DispatchWatcher>,
    changes: ChangeTracker,
    /// The first error of the watcher.
    error: Option<Error>,
}

enum Message {
    Job(Box<Job>),
    /// Everything before it has been performed.
    Drained(Sender<()>),
}

/// A submission whose waits are reached, by the objects of its base device.
struct Job {
    watch: Arc<Watch>,
    device: Device,
    kept: KeptSubmission,
    details: Details,
}

/// Details of a submission that the objects of its base device do not have.
struct Details {
    /// Ordinal and offset of its record; `None` once the capture is closed.
    record: Option<(u32, u64)>,
    /// The captured ids of its binding table, or of the bindings of its dispatch.
    buffer_ids: Vec<u64>,
    /// The commands that it executes.
    commands: Option<Arc<Mutex<WatchedCommands>>>,
}

/// The submissions of a device whose waits are not reached.
pub(super) struct WatchedQueue {
    watch: Arc<Watch>,
    device: Device,
    pending: PendingSubmissions,
    /// By key, which is the first word of the note of a submission.
    details: Arc<Mutex<WaitingDetails>>,
}

#[derive(Default)]
struct WaitingDetails {
    next_key: u64,
    by_key: HashMap<u64, Details>,
}

/// The commands of a command buffer, by the objects of its base device.
#[derive(Default)]
pub(super) struct WatchedCommands {
    store: Store,
    commands: Vec<WatchedCommand>,
}

struct WatchedCommand {
    /// Ordinal of its record.
    record: u32,
    command: Command<Indexed>,
    /// The captured ids of the bindings of a dispatch; 0 for slots.
    buffer_ids: Box<[u64]>,
}

impl Watch {
    pub fn new(stream: &Arc<Stream>, watcher: Box<dyn DispatchWatcher>) -> Arc<Self> {
        let performer = Mutex::new(Performer { watcher, changes: ChangeTracker::default(), error: None });
        Arc::new(Self { stream: stream.clone(), performer, jobs: OnceLock::new() })
    }

    /// Waits until the submissions that are ready have been performed; returns the first error of the
    /// watcher.
    pub fn finish(&self) -> Result<()> {
        if let Some(jobs) = self.jobs.get() {
            let (sender, drained) = channel();
            if jobs.send(Message::Drained(sender)).is_ok() {
                // An error says the same: the thread has ended.
                let _ = drained.recv();
            }
        }
        self.performer.lock().error.take().map_or(Ok(()), Err)
    }

    /// Starts the thread that performs submissions, unless it runs.
    fn start(self: &Arc<Self>) -> Result<()> {
        if self.jobs.get().is_some() {
            return Ok(());
        }
        let (sender, jobs) = channel();
        let failed = |error| Error::io("starting the thread that watches dispatches", &error);
        Builder::new().name("rehal-watch".into()).spawn(move || perform_all(&jobs)).map_err(failed)?;
        // Devices are wrapped by one thread.
        let _ = self.jobs.set(sender);
        Ok(())
    }

    /// Performs a submission and settles its signals.
    fn perform(job: &Job) -> Result<()> {
        let this = &job.watch;
        let promise = job.kept.promise();
        let outcome = {
            let mut performer = this.performer.lock();
            let outcome = performer.submission(&this.stream, job);
            // The program may write or free its buffers from here on.
            performer.changes.release();
            outcome
        };
        if let (Err(_), Some((_, offset)), 0) =
            (&outcome, job.details.record, job.kept.submission().signals.count)
        {
            this.stream.with_log(|log| log.set_status(offset, status_of(&outcome)));
        }
        // Without the lock: signals call back.
        promise.settle(&outcome);
        outcome
    }
}

/// Performs submissions until the recorder, its devices and all submissions are gone.
fn perform_all(jobs: &Receiver<Message>) {
    for message in jobs {
        match message {
            // Its signals have the outcome.
            Message::Job(job) => drop(Watch::perform(&job)),
            Message::Drained(sender) => drop(sender.send(())),
        }
    }
}

impl WatchedQueue {
    /// The queues of a base device.
    pub fn new(watch: &Arc<Watch>, device: &Device) -> Result<Self> {
        let details = Arc::<Mutex<WaitingDetails>>::default();
        let is_synchronous = device.info().is_synchronous;
        if !is_synchronous {
            watch.start()?;
        }
        let ready = {
            let (watch, device, details) = (watch.clone(), device.clone(), details.clone());
            move |kept: KeptSubmission| {
                let Some(details) = details.lock().by_key.remove(&kept.note()[0]) else { return };
                let job = Job { watch: watch.clone(), device: device.clone(), kept, details };
                match watch.jobs.get().filter(|_| !is_synchronous) {
                    None => drop(Watch::perform(&job)),
                    // Dropped if the thread has ended, which fails its signals.
                    Some(jobs) => drop(jobs.send(Message::Job(Box::new(job)))),
                }
            }
        };
        Ok(Self {
            watch: watch.clone(),
            device: device.clone(),
            pending: PendingSubmissions::new(ready),
            details,
        })
    }

    /// Whether a submission is performed by the watch: allocations, barriers and host calls write no bytes.
    pub fn takes(op: &QueueOp<Live<'_>>) -> bool {
        !matches!(
            op,
            QueueOp::Alloca { .. }
                | QueueOp::Dealloca { .. }
                | QueueOp::Barrier { .. }
                | QueueOp::HostCall { .. }
        )
    }

    /// Performs a submission, whose names are those of the base device, once its waits are reached.
    pub fn submit(
        &self,
        base: &Submission<Live<'_>>,
        ids: &Submission<Ids<'_>>,
        commands: Option<Arc<Mutex<WatchedCommands>>>,
        record: Option<(u32, u64)>,
    ) -> Result<()> {
        let buffer_ids = match &ids.op {
            QueueOp::Dispatch(dispatch) => ids_of(dispatch.bindings),
            QueueOp::Execute { bindings, .. } => ids_of(bindings),
            _ => Vec::new(),
        };
        let details = Details { record, buffer_ids, commands };
        let mut is_ready = true;
        for wait in base.waits {
            match wait.semaphore.query() {
                Ok(value) => is_ready &= value >= wait.value,
                // The device refuses it.
                Err(_) => return self.device.backend().submit(base).map(drop),
            }
        }
        if is_ready && self.device.info().is_synchronous {
            let mut kept = KeptSubmission::empty();
            kept.keep(base, [0, 0])?;
            let (watch, device) = (self.watch.clone(), self.device.clone());
            return Watch::perform(&Job { watch, device, kept, details });
        }
        let key = {
            let mut waiting = self.details.lock();
            waiting.next_key += 1;
            let key = waiting.next_key;
            waiting.by_key.insert(key, details);
            key
        };
        let kept = self.pending.keep(base, [key, 0], |_| true);
        if kept.is_err() {
            self.details.lock().by_key.remove(&key);
        }
        kept
    }

    /// Fails submissions that only wait for one another.
    pub fn fail_stranded(&self) {
        self.pending.fail_stranded();
    }
}

impl WatchedCommands {
    pub fn clear(&mut self) {
        self.store.clear();
        self.commands.clear();
    }

    /// Keeps a command that the base device has accepted.
    pub fn push(&mut self, record: u32, base: &Command<Live<'_>>, ids: &Command<Ids<'_>>) -> Result<()> {
        let buffer_ids = match ids {
            Command::Dispatch(dispatch) => ids_of(dispatch.bindings).into(),
            _ => Box::default(),
        };
        let command = base.reborrow()?.rename(&mut self.store)?;
        self.commands.push(WatchedCommand { record, command, buffer_ids });
        Ok(())
    }
}

fn ids_of(references: &[layout::BufferRef]) -> Vec<u64> {
    references.iter().map(|reference| reference.buffer_id.get()).collect()
}

/// A submission that is being performed.
struct Performed<'j> {
    job: &'j Job,
    store: &'j Store,
    parts: OneByOne,
}

/// Where a dispatch comes from.
struct Site<'s> {
    record: Option<u32>,
    store: &'s Store,
    dispatch: &'s Dispatch<Indexed>,
    buffer_ids: &'s [u64],
    table: &'s [BufferRef<u32>],
}

impl Performer {
    fn submission(&mut self, stream: &Arc<Stream>, job: &Job) -> Result<()> {
        let affinity = job.kept.submission().affinity;
        let parts = OneByOne::new(&job.device, affinity)?;
        let performed = Performed { job, store: job.kept.store(), parts };
        match (job.kept.op(), &job.details.commands) {
            (QueueOp::Dispatch(dispatch), _) => {
                let site = Site {
                    record: job.details.record.map(|(ordinal, _)| ordinal),
                    store: performed.store,
                    dispatch,
                    buffer_ids: &job.details.buffer_ids,
                    table: &[],
                };
                self.dispatch(stream, &mut { performed }, &site, Performed::whole)
            }
            (QueueOp::Execute { bindings, .. }, Some(commands)) => {
                let table = bindings.of(&performed.store.lists.buffer_refs);
                let commands = &*commands.lock();
                let store = &commands.store;
                let walker = &mut Commands { performer: self, stream, performed, store, table };
                walk(walker, &commands.commands).map(drop)
            }
            _ => { performed }.whole(),
        }
    }

    /// Performs a dispatch, with the calls of the watcher before and after it.
    fn dispatch<'j>(
        &mut self,
        stream: &Arc<Stream>,
        performed: &mut Performed<'j>,
        site: &Site<'_>,
        perform: impl FnOnce(&mut Performed<'j>) -> Result<()>,
    ) -> Result<()> {
        let places = site.record.zip(performed.job.details.record.map(|(ordinal, _)| ordinal));
        // One that cannot be resolved is an error of the device.
        let (Some((record, submission)), Ok(bindings)) = (places, site.bindings(performed)) else {
            self.changes.release();
            return perform(performed);
        };
        let before = self.changes.begin(&bindings);
        let is_watched = before.is_ok();
        if !is_watched {
            self.changes.release();
        }
        self.keep_error(before);
        perform(performed)?;
        if is_watched {
            let function = site.executable().function(site.dispatch.function)?.name.as_str();
            let dispatch = WatchedDispatch { record, submission, function };
            let payload = self.changes.end().and_then(|()| self.watcher.dispatched(&dispatch, &self.changes));
            let written = payload.map(|payload| stream.with_log(|log| log.dispatch_digests(payload)));
            self.keep_error(written);
        }
        Ok(())
    }

    fn keep_error(&mut self, outcome: Result<()>) {
        if let (Err(error), None) = (outcome, &self.error) {
            self.error = Some(error.context("the digests of a dispatch".to_owned()));
        }
    }
}

/// The commands of a submission.
struct Commands<'c, 'j> {
    performer: &'c mut Performer,
    stream: &'c Arc<Stream>,
    performed: Performed<'j>,
    store: &'c Store,
    table: &'c [BufferRef<u32>],
}

impl Walker for Commands<'_, '_> {
    type Item = WatchedCommand;

    fn command<'i>(&'i self, item: &'i WatchedCommand) -> &'i Command<Indexed> {
        &item.command
    }

    fn is_single(&mut self, item: &WatchedCommand) -> bool {
        matches!(item.command, Command::Dispatch(_))
    }

    fn together(&mut self, items: &[WatchedCommand]) -> Result<()> {
        self.performer.changes.release();
        self.performed.part(self.store, items)
    }

    fn single(&mut self, item: &WatchedCommand) -> Result<ControlFlow<()>> {
        if let Command::Dispatch(dispatch) = &item.command {
            let (record, buffer_ids) = (Some(item.record), &item.buffer_ids);
            let site = Site { record, store: self.store, dispatch, buffer_ids, table: self.table };
            let perform = |it: &mut Performed<'_>| it.part(self.store, std::slice::from_ref(item));
            self.performer.dispatch(self.stream, &mut self.performed, &site, perform)?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl<'s> Site<'s> {
    fn executable(&self) -> &'s Executable {
        &self.store.executables[self.dispatch.executable as usize]
    }

    /// The bindings by ordinal, as ranges of buffers.
    fn bindings<'a>(&'a self, performed: &Performed<'a>) -> Result<Vec<AccessedRange<'a>>> {
        let references = self.dispatch.bindings.of(&self.store.lists.buffer_refs);
        let bindings = references.iter().zip(self.buffer_ids).map(|(reference, id)| {
            let (buffer, buffer_id, range) = match reference.binding {
                Binding::Direct(index) => {
                    let buffer = &self.store.buffers[index as usize];
                    (buffer, *id, buffer.resolve(reference.offset, reference.length)?)
                }
                Binding::Slot(slot) => {
                    let ids = &performed.job.details.buffer_ids;
                    let entry = self.table.get(slot as usize).zip(ids.get(slot as usize));
                    let Some((BufferRef { binding: Binding::Direct(index), offset, length }, id)) = entry
                    else {
                        return Err(Error::invalid_argument(format!("nothing is bound to slot {slot}")));
                    };
                    let buffer = &performed.store.buffers[*index as usize];
                    (buffer, *id, part_of(buffer.resolve(*offset, *length)?, reference)?)
                }
            };
            let params = buffer.params();
            let effect = if written_by_kernels(params) { Effect::Bind } else { Effect::Read };
            let Range { offset, length } = range;
            Ok(AccessedRange { access: effect.into(), buffer_id, buffer, offset, length })
        });
        bindings.collect()
    }
}

/// A range of what is bound to a slot.
fn part_of(bound: Range, reference: &BufferRef<u32>) -> Result<Range> {
    let length = match reference.length {
        WHOLE_BUFFER => bound.length.saturating_sub(reference.offset),
        length => length,
    };
    match Range::new(reference.offset, length).filter(|range| range.fits(bound.length)) {
        Some(range) => Ok(Range { offset: bound.offset + range.offset, ..range }),
        None => Err(Error::out_of_range(format!("{length} bytes exceed a binding of {}", bound.length))),
    }
}

impl Performed<'_> {
    /// Performs the operation of the submission as it is, and waits.
    fn whole(&mut self) -> Result<()> {
        let scratch = Bump::new();
        let op = self.job.kept.op().rename(&mut StoredNames::new(self.store, &scratch))?;
        let affinity = self.job.kept.submission().affinity;
        self.parts.perform(&self.job.device, affinity, |queue| queue.submit(op).map(drop))
    }

    /// Executes commands in a command buffer of their own, with the binding table of the submission, and
    /// waits.
    fn part(&mut self, store: &Store, commands: &[WatchedCommand]) -> Result<()> {
        let QueueOp::Execute { command_buffer, bindings, flags } = *self.job.kept.op() else { return Ok(()) };
        let (device, affinity) = (&self.job.device, self.job.kept.submission().affinity);
        let whole = &self.store.command_buffers[command_buffer as usize];
        let own = recorded(device, *whole.params(), commands, |own, it, scratch| {
            own.record(&it.command.rename(&mut StoredNames::new(store, scratch))?)
        })?;
        let scratch = Bump::new();
        let bindings = StoredNames::new(self.store, &scratch).buffer_refs(bindings)?;
        self.parts.perform(device, affinity, |queue| queue.execute(&own, bindings, flags))
    }
}
