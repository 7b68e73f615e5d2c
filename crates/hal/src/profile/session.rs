use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rehal_base::{Error, Result};

use super::clock::{SectionClock, now_ns};
use super::{
    MemoryEvent, MemoryEventKind, PoolReservation, ProfileData, ProfileFilter, ProfileRequest, ProfileSink,
    ProfiledOperation,
};
use crate::BufferParams;

/// The profiling state of a device: off, or a session.
#[derive(Default)]
pub struct Profiler {
    /// The bits of [`ProfileData`] that the session reports; 0 without one.
    data: AtomicU32,
    active: Mutex<Option<Active>>,
}

/// The session of a device, and the id of its last submission.
struct Active {
    session: Arc<ProfileSession>,
    last_submission: u64,
}

/// A session of one device.
pub struct ProfileSession {
    pub(super) request: ProfileRequest,
    /// Unique in the process.
    pub(super) id: u64,
    /// Whether there is a filter.
    pub(super) is_filtered: bool,
    /// Whether the filter selects a function, for those that were dispatched.
    pub(super) selected: Mutex<HashMap<(u64, u32), bool>>,
    /// Held while an object is described, so that no other thread reports events of it before.
    pub(super) describing: Mutex<()>,
}

/// An allocation of a session, which is reported when it is freed.
pub struct ProfiledAllocation {
    session: Arc<ProfileSession>,
    event: MemoryEvent,
    /// Whether a dealloca frees it, which is an event of its own.
    is_deallocated: AtomicBool,
    /// The memory of a pool that it is in.
    reservation: OnceLock<PoolReservation>,
}

impl Profiler {
    /// Begins a session. Fails if there is one.
    pub fn begin(&self, request: &ProfileRequest) -> Result<()> {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        let mut active = self.active.lock();
        if active.is_some() {
            return Err(Error::failed_precondition("the device is being profiled")
                .advise("end that session before another begins"));
        }
        let mut request = request.clone();
        if request.data.contains(ProfileData::PROCESSOR_TIME) {
            // Its events have it.
            request.data |= ProfileData::HOST_EXECUTION;
            SectionClock::prepare();
        }
        let named = ProfileData::HOST_EXECUTION | ProfileData::COMMAND_REGIONS | ProfileData::DISPATCH_EVENTS;
        // These events name executables, which only their metadata describes.
        if request.data.intersects(named) {
            request.data |= ProfileData::EXECUTABLE_METADATA;
        }
        let data = request.data.bits();
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed) + 1;
        let is_filtered = request.filter != ProfileFilter::default();
        let session = Arc::new(ProfileSession {
            request,
            id,
            is_filtered,
            selected: Mutex::default(),
            describing: Mutex::default(),
        });
        *active = Some(Active { session, last_submission: 0 });
        self.data.store(data, Ordering::Release);
        Ok(())
    }

    /// Whether there is a session.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.data.load(Ordering::Relaxed) != 0
    }

    /// Whether there is a session that reports any of these kinds of data.
    #[inline]
    pub fn reports(&self, data: ProfileData) -> bool {
        self.data.load(Ordering::Relaxed) & data.bits() != 0
    }

    /// The session, if there is one that reports any of these kinds of data.
    #[inline]
    pub fn session(&self, data: ProfileData) -> Option<Arc<ProfileSession>> {
        if !self.reports(data) {
            return None;
        }
        self.active.lock().as_ref().map(|active| active.session.clone())
    }

    /// The session, and the id of a new submission of it.
    pub(super) fn next_submission(&self) -> Option<(Arc<ProfileSession>, u64)> {
        let mut active = self.active.lock();
        let active = active.as_mut()?;
        active.last_submission += 1;
        Some((active.session.clone(), active.last_submission))
    }

    /// Ends the session, if there is one. Work that is still executing may report to it a little longer.
    pub fn end(&self) {
        self.data.store(0, Ordering::Release);
        *self.active.lock() = None;
    }
}

impl ProfileSession {
    /// Whether the session reports any of these kinds of data.
    pub fn wants(&self, data: ProfileData) -> bool {
        self.request.data.intersects(data)
    }

    /// The sink of the session.
    pub fn sink(&self) -> &dyn ProfileSink {
        &*self.request.sink
    }

    /// Reports an allocation, and what frees it if that is known.
    pub fn allocation(
        self: &Arc<Self>,
        kind: MemoryEventKind,
        buffer_id: u64,
        params: &BufferParams,
        size_bytes: u64,
    ) -> Option<ProfiledAllocation> {
        if !self.wants(ProfileData::MEMORY_EVENTS) {
            return None;
        }
        let event = MemoryEvent {
            kind,
            time_ns: now_ns(),
            allocation_id: buffer_id,
            submission_id: 0,
            queue_ordinal: None,
            memory_type: params.memory_type,
            usage: params.usage,
            size_bytes,
            alignment: params.min_alignment.max(1),
            reservation: None,
        };
        self.sink().memory_event(&event);
        Some(ProfiledAllocation::new(self, event))
    }
}

impl ProfiledAllocation {
    pub(super) fn new(session: &Arc<ProfileSession>, event: MemoryEvent) -> Self {
        let is_deallocated = AtomicBool::new(false);
        Self { session: session.clone(), event, is_deallocated, reservation: OnceLock::new() }
    }

    /// Reports that the allocation is in this memory of a pool.
    pub fn reserve(&self, reservation: PoolReservation) {
        if self.reservation.set(reservation).is_err() {
            return;
        }
        let (submission_id, queue_ordinal) = (self.event.submission_id, self.event.queue_ordinal);
        for kind in [MemoryEventKind::PoolReserve, MemoryEventKind::PoolMaterialize] {
            self.report_pool(kind, submission_id, queue_ordinal);
        }
    }

    /// Reports that `operation` has released the memory of a pool that the allocation was in, if it was in
    /// one.
    pub fn release(&self, operation: &ProfiledOperation) {
        self.report_pool(
            MemoryEventKind::PoolRelease,
            operation.submission_id,
            Some(operation.queue_ordinal),
        );
    }

    fn report_pool(&self, kind: MemoryEventKind, submission_id: u64, queue_ordinal: Option<u32>) {
        if let Some(reservation) = self.reservation.get() {
            self.session.sink().memory_event(&MemoryEvent {
                kind,
                time_ns: now_ns(),
                submission_id,
                queue_ordinal,
                size_bytes: reservation.length_bytes,
                reservation: Some(*reservation),
                ..self.event
            });
        }
    }

    /// Notes that a dealloca frees the allocation.
    pub fn deallocate(&self) {
        self.is_deallocated.store(true, Ordering::Relaxed);
    }
}

impl Drop for ProfiledAllocation {
    fn drop(&mut self) {
        if *self.is_deallocated.get_mut() {
            return;
        }
        let kind = match self.event.kind {
            MemoryEventKind::Import => MemoryEventKind::Release,
            MemoryEventKind::QueueAlloca => MemoryEventKind::QueueDealloca,
            _ => MemoryEventKind::Free,
        };
        // The host does it.
        self.session.sink().memory_event(&MemoryEvent {
            kind,
            time_ns: now_ns(),
            submission_id: 0,
            queue_ordinal: None,
            ..self.event
        });
        self.report_pool(MemoryEventKind::PoolRelease, 0, None);
    }
}
