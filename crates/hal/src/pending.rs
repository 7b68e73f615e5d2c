//! Submissions whose waits a device cannot resolve itself.
//!
//! Ownership is acyclic: the device owns its pending submissions, and these own the semaphores that they
//! signal, not those that they wait for. There is no process-wide list: a cycle of submissions over several
//! devices ends with one of the devices.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use rehal_base::{Error, Result, StatusCode};
use smallvec::SmallVec;

use super::promise::Promise;
use super::sync::{Mutex, MutexGuard, Ordering};
use crate::profile::ProfiledSubmission;
use crate::stranded::{Claim, stranded};
use crate::{
    Buffer, Indexed, Live, QueueAffinity, QueueOp, Registration, Rename, Semaphore, Span, Store, Submission,
    Timepoint, unwind,
};

/// The submissions of a device that wait for timepoints which the device cannot wait for itself.
///
/// A driver has one per device. It decides in [`PendingSubmissions::keep`] which waits are resolved here, on
/// the host: all of them for a device without queues of its own, only foreign semaphores for one with its
/// own. When the last is reached, `ready` receives the submission, on the thread that reached it: it executes
/// the work there, or hands it to an executor of its own ([`KeptSubmission`] is `Send`).
///
/// # Contract
///
/// - Each submission has exactly one outcome: `ready` receives it, or its signals fail. A failed wait fails
///   them immediately with its error, whether or not the other waits are reached.
/// - Submissions made ready by one signal are passed on in the order in which they were kept, if only one
///   thread signals. Nothing else orders them.
/// - A dropped semaphore fails the waits for values that it has not reached (see
///   [`SemaphoreBackend::on_reached`](crate::SemaphoreBackend::on_reached)): waits do not keep it alive.
///   Semaphores that a submission signals are kept alive. Deadlocked submissions of this device, which only
///   wait for one another (the smallest case waits for 1 and signals 2 of a semaphore that the program has
///   dropped), are found and failed with `ABORTED` when the number of waiting submissions has doubled since
///   the last search, and by [`PendingSubmissions::fail_stranded`].
/// - Dropping this, with the device, fails the waiting submissions with `ABORTED`. A kept submission does not
///   keep its device alive.
///
/// ```
/// use rehal_hal::PendingSubmissions;
///
/// // A driver that executes ready submissions on a thread of its own.
/// let (queue, work) = std::sync::mpsc::channel();
/// let pending = PendingSubmissions::new(move |kept| drop(queue.send(kept)));
/// let worker = std::thread::spawn(move || {
///     for kept in work {
///         let promise = kept.promise();
///         // ... run `kept.op()` with the objects of `kept.store()` ...
///         promise.settle(&Ok(()));
///     }
/// });
/// assert_eq!(pending.count(), 0);
/// drop(pending);
/// worker.join().unwrap();
/// ```
pub struct PendingSubmissions {
    shared: Arc<Shared>,
}

/// A submission that is ready to execute, with all objects that it names, and the obligation to settle its
/// signals: dropping it fails them.
pub struct KeptSubmission {
    store: Store,
    submission: Submission<Indexed>,
    note: Note,
    /// Whether a [`Promise`] has taken over the obligation.
    is_promised: AtomicBool,
    /// Where the memory of its lists is kept for the next.
    home: Weak<Shared>,
}

/// A driver's note about a submission that it keeps.
#[derive(Clone, Default)]
pub struct Note {
    /// The driver's own words.
    pub words: [u64; 2],
    /// The submission in a profile.
    pub profile: Option<Box<ProfiledSubmission>>,
    /// The buffer of an alloca, as the driver created it: without its device.
    pub created: Option<Buffer>,
}

struct Shared {
    ready: Box<dyn Fn(KeptSubmission) + Send + Sync>,
    registry: Mutex<Registry>,
    /// Empty stores, kept for their memory.
    spares: Mutex<Vec<Store>>,
}

/// Maximum number of spare stores, and the capacity in bytes up to which one is kept.
const SPARE_LIMIT: usize = 64;
const SPARE_BYTES: usize = 64 << 10;

#[derive(Default)]
struct Registry {
    waiting: BTreeMap<u64, Arc<Waiting>>,
    next_key: u64,
    /// The number of submissions after the last search for stranded ones.
    searched: usize,
}

/// Threshold below which a search for stranded submissions is not worthwhile.
const SEARCH_MINIMUM: usize = 64;

/// A waiting submission.
struct Waiting {
    shared: Weak<Shared>,
    key: u64,
    state: Mutex<State>,
}

struct State {
    /// Taken by the thread that completes the submission.
    kept: Option<KeptSubmission>,
    waits: SmallVec<[HostWait; 2]>,
    /// Unreached waits, plus one while they are being registered.
    left: usize,
}

struct HostWait {
    /// Its id.
    semaphore: u64,
    registration: Registration,
    is_reached: bool,
}

impl PendingSubmissions {
    /// An empty set. `ready` receives each submission whose waits are reached; it must not own this set,
    /// not even indirectly: neither would ever be freed.
    pub fn new(ready: impl Fn(KeptSubmission) + Send + Sync + 'static) -> Self {
        let (registry, spares) = (Mutex::default(), Mutex::default());
        Self { shared: Arc::new(Shared { ready: Box::new(ready), registry, spares }) }
    }

    /// Keeps `submission` until the waits selected by `on_host` are reached. The remaining waits are the
    /// driver's: they are the waits of the kept submission, which has `note`.
    pub fn keep(
        &self,
        submission: &Submission<Live<'_>>,
        note: impl Into<Note>,
        on_host: impl Fn(&Timepoint<&Semaphore>) -> bool,
    ) -> Result<()> {
        type Waits<'a> = SmallVec<[Timepoint<&'a Semaphore>; 4]>;
        let (host, device): (Waits<'_>, Waits<'_>) =
            submission.waits.iter().copied().partition(|wait| on_host(wait));
        let mut kept = KeptSubmission::empty();
        kept.store = self.shared.spares.lock().pop().unwrap_or_default();
        kept.home = Arc::downgrade(&self.shared);
        kept.refill(submission, &device, note.into())?;
        self.keep_until(&host, kept);
        Ok(())
    }

    /// Keeps a submission until `waits` are reached.
    pub(super) fn keep_until(&self, waits: &[Timepoint<&Semaphore>], kept: KeptSubmission) {
        let waiting = self.shared.admit(kept, waits);
        {
            let registering = Registering { waiting: &waiting, is_complete: Cell::new(false) };
            for (index, wait) in waits.iter().enumerate() {
                let arrive = Box::new({
                    let waiting = waiting.clone();
                    move |outcome| waiting.arrive(Some(index), outcome)
                });
                let registration = wait.semaphore.on_reached(wait.value, arrive);
                waiting.add_registration(index, registration);
            }
            registering.is_complete.set(true);
        }
        let registry = self.shared.registry.lock();
        let is_due = registry.waiting.len() >= SEARCH_MINIMUM.max(2 * registry.searched);
        drop(registry);
        if is_due {
            self.fail_stranded();
        }
    }

    /// The number of waiting submissions.
    pub fn count(&self) -> usize {
        self.shared.registry.lock().waiting.len()
    }

    /// Fails the submissions that only wait for one another: no other handles to the semaphores that they
    /// wait for exist. Returns their number.
    pub fn fail_stranded(&self) -> usize {
        let failed = self.shared.take_stranded();
        let error = Error::new(
            StatusCode::Aborted,
            "deadlock: the submission waits for a semaphore that only other stranded submissions signal",
        );
        let count = failed.len();
        unwind::for_each(failed, |(kept, _waits)| kept.promise().settle(&Err(error.clone())));
        count
    }
}

impl Drop for PendingSubmissions {
    fn drop(&mut self) {
        let waiting = std::mem::take(&mut self.shared.registry.lock().waiting);
        let error = Error::new(StatusCode::Aborted, "the device was released while the submission waited");
        unwind::for_each(waiting.into_values(), |waiting| {
            // Two statements, so that the lock is released before the signals run callbacks.
            let taken = waiting.state.lock().take();
            if let Some((kept, _waits)) = taken {
                kept.promise().settle(&Err(error.clone()));
            }
        });
    }
}

impl KeptSubmission {
    /// No submission: a barrier without signals. For drivers that reuse the memory of kept submissions
    /// ([`KeptSubmission::keep`]).
    pub fn empty() -> Self {
        let none = Submission {
            device: 0,
            affinity: QueueAffinity::default(),
            waits: Span::new(0, 0),
            signals: Span::new(0, 0),
            op: QueueOp::Barrier { flags: 0 },
        };
        Self::new(Store::default(), none)
    }

    /// Replaces the submission, whose signals are settled, by one without unmet waits. Reuses the memory of
    /// earlier ones and allocates only if it is too small. If this fails, nothing is kept.
    pub fn keep(&mut self, submission: &Submission<Live<'_>>, note: impl Into<Note>) -> Result<()> {
        self.refill(submission, &[], note.into())
    }

    fn refill<'a>(
        &mut self,
        submission: &Submission<Live<'a>>,
        device_waits: &[Timepoint<&'a Semaphore>],
        note: Note,
    ) -> Result<()> {
        self.clear();
        let store = &mut self.store;
        let mut kept = Submission { waits: &[][..], ..*submission }.rename(store)?;
        for wait in device_waits {
            let wait = Timepoint { semaphore: store.semaphore(wait.semaphore)?, value: wait.value };
            store.lists.timepoints.push(wait);
        }
        let first = store.lists.timepoints.len() - device_waits.len();
        kept.waits = Span::new(first as u64, device_waits.len() as u64);
        // See `of`.
        store.devices.clear();
        (self.submission, self.note) = (kept, note);
        self.is_promised = AtomicBool::new(false);
        Ok(())
    }

    /// Drops the objects and keeps the memory; fails signals that are not settled.
    pub fn clear(&mut self) {
        drop(self.promise());
        self.store.clear();
        self.submission.signals = Span::new(0, 0);
        self.submission.op = QueueOp::Barrier { flags: 0 };
        (self.note.profile, self.note.created) = (None, None);
    }

    /// Drops the objects that the operation names, but not the signals.
    pub fn release_operands(&mut self) {
        self.store.release_operands();
        self.submission.op = QueueOp::Barrier { flags: 0 };
    }

    /// A submission and the objects that its indices refer to.
    pub(super) fn new(mut store: Store, submission: Submission<Indexed>) -> Self {
        // Pending work belongs to its device. If it also kept the device alive, neither would ever be freed.
        store.devices.clear();
        let (note, is_promised) = (Note::default(), AtomicBool::new(false));
        Self { store, submission, note, is_promised, home: Weak::new() }
    }

    /// The operation.
    pub fn op(&self) -> &QueueOp<Indexed> {
        &self.submission.op
    }

    /// The submission. Its waits are those left to the device; its device has no index.
    pub fn submission(&self) -> &Submission<Indexed> {
        &self.submission
    }

    /// The words that the driver noted at submission.
    pub fn note(&self) -> [u64; 2] {
        self.note.words
    }

    /// The submission in a profile, if it is profiled.
    pub fn profile(&self) -> Option<&ProfiledSubmission> {
        self.note.profile.as_deref()
    }

    /// The buffer of an alloca, if the driver noted it.
    pub fn created(&self) -> Option<&Buffer> {
        self.note.created.as_ref()
    }

    /// The objects that the submission names.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The obligation to settle the signals, once.
    pub fn promise(&self) -> Promise<'_> {
        let signals = if self.is_promised.swap(true, Ordering::AcqRel) {
            &[]
        } else {
            self.submission.signals.of(&self.store.lists.timepoints)
        };
        Promise::from_kept(signals, &self.store.semaphores)
    }
}

impl From<[u64; 2]> for Note {
    fn from(words: [u64; 2]) -> Self {
        Self { words, profile: None, created: None }
    }
}

impl Drop for KeptSubmission {
    fn drop(&mut self) {
        drop(self.promise());
        if let Some(home) = self.home.upgrade() {
            home.keep_memory(std::mem::take(&mut self.store));
        }
    }
}

impl Shared {
    /// Keeps the memory of a store for the next submission.
    fn keep_memory(&self, mut store: Store) {
        if store.capacity_bytes() > SPARE_BYTES {
            return;
        }
        // Without the lock: what is dropped may keep submissions itself.
        store.clear();
        let mut spares = self.spares.lock();
        if spares.len() < SPARE_LIMIT {
            spares.push(store);
        }
    }

    fn admit(self: &Arc<Self>, kept: KeptSubmission, waits: &[Timepoint<&Semaphore>]) -> Arc<Waiting> {
        let waits = waits.iter().map(|wait| HostWait {
            semaphore: wait.semaphore.id(),
            registration: Registration::done(),
            is_reached: false,
        });
        let waits: SmallVec<_> = waits.collect();
        let left = waits.len() + 1;
        let state = Mutex::new(State { kept: Some(kept), waits, left });
        let mut registry = self.registry.lock();
        let key = registry.next_key;
        registry.next_key += 1;
        let waiting = Arc::new(Waiting { shared: Arc::downgrade(self), key, state });
        registry.waiting.insert(key, waiting.clone());
        waiting
    }

    /// Takes the submissions that only wait for one another.
    fn take_stranded(&self) -> Vec<(KeptSubmission, SmallVec<[HostWait; 2]>)> {
        let mut registry = self.registry.lock();
        let all: Vec<_> = registry.waiting.values().cloned().collect();
        // Counts all at once: one that left between the counts would look like a handle of the program's, or
        // like none.
        let mut states: Vec<_> = all.iter().map(|waiting| waiting.state.lock()).collect();
        let found =
            stranded(&states.iter().map(|state| state.claim()).collect::<Vec<_>>(), &outside(&states));
        let taken = found.iter().filter_map(|index| states[*index].take()).collect();
        for index in &found {
            registry.waiting.remove(&all[*index].key);
        }
        registry.searched = registry.waiting.len();
        drop(states);
        taken
    }
}

/// Returns whether a semaphore has handles other than those of these submissions.
fn outside(states: &[MutexGuard<'_, State>]) -> impl Fn(u64) -> bool {
    let mut spare_handles = HashMap::new();
    for kept in states.iter().filter_map(|state| state.kept.as_ref()) {
        for semaphore in &kept.store.semaphores {
            *spare_handles.entry(semaphore.id()).or_insert_with(|| semaphore.handle_count()) -= 1;
        }
    }
    // The program has handles of a semaphore that no submission holds, or it is dropped and its callbacks are
    // pending.
    move |id| spare_handles.get(&id).is_none_or(|handles| *handles != 0)
}

impl State {
    fn take(&mut self) -> Option<(KeptSubmission, SmallVec<[HostWait; 2]>)> {
        self.kept.take().map(|kept| (kept, std::mem::take(&mut self.waits)))
    }

    fn claim(&self) -> Claim<u64> {
        let waits = self.waits.iter().filter(|wait| !wait.is_reached).map(|wait| wait.semaphore);
        let signals = self.kept.iter().flat_map(|kept| {
            let signals = kept.submission.signals.of(&kept.store.lists.timepoints);
            signals.iter().map(|signal| kept.store.semaphores[signal.semaphore as usize].id())
        });
        Claim { waits: waits.collect(), signals: signals.collect() }
    }
}

impl Waiting {
    /// Keeps the registration of wait `index` while it may be needed.
    fn add_registration(&self, index: usize, registration: Registration) {
        let mut state = self.state.lock();
        match state.waits.get_mut(index) {
            Some(wait) if !wait.is_reached => wait.registration = registration,
            _ => drop(state),
        }
    }

    /// Called when wait `index` is reached or failed, or when all are registered.
    fn arrive(&self, index: Option<usize>, outcome: Result<()>) {
        let mut state = self.state.lock();
        if let Some(wait) = index.and_then(|index| state.waits.get_mut(index)) {
            wait.is_reached = true;
        }
        state.left -= 1;
        if state.left != 0 && outcome.is_ok() {
            return;
        }
        let taken = state.take();
        drop(state);
        let Some((kept, waits)) = taken else { return };
        drop(waits);
        let shared = self.shared.upgrade();
        if let Some(shared) = &shared {
            shared.registry.lock().waiting.remove(&self.key);
        }
        match (outcome, shared) {
            (Ok(()), Some(shared)) => (shared.ready)(kept),
            // The device is dropped, so the submission cannot run.
            (Ok(()), None) => drop(kept),
            (Err(error), _) => kept.promise().settle(&Err(error)),
        }
    }
}

/// The wait that [`PendingSubmissions::keep`] adds while it registers the others.
struct Registering<'a> {
    waiting: &'a Waiting,
    /// Whether all waits are registered; false if the thread unwinds before.
    is_complete: Cell<bool>,
}

impl Drop for Registering<'_> {
    fn drop(&mut self) {
        let outcome = match self.is_complete.get() {
            true => Ok(()),
            false => Err(Error::new(StatusCode::Internal, "the submitting thread panicked")),
        };
        self.waiting.arrive(None, outcome);
    }
}
