//! `memory`: allocations and high-water marks.

use std::collections::HashMap;

use rehal_base::{Error, Result};

use super::out::{Object, Out, fields, object};
use super::{ReportOptions, memory_text, ticks};
use crate::layout;
use crate::model::Model;
use crate::rows;
use crate::table::Table;
use crate::{Bundle, ContentType, MemoryEventType, QueueEventType, Record};

/// [`layout::MemoryEvent::flags`]: the event is of a reservation of a pool.
pub const POOL_RESERVATION: u32 = 1 << 3;
/// [`layout::MemoryEvent::flags`]: it has the statistics of the pool.
pub const POOL_STATS: u32 = 1 << 4;
/// [`layout::MemoryEvent::flags`]: the memory is not the device's own.
const EXTERNALLY_OWNED: u32 = 1 << 5;

pub fn print(bundle: &Bundle<'_>, options: &ReportOptions, out: &mut Out<'_>) -> Result<()> {
    let mut memory = Memory::default();
    // Only reports that print allocations look up when the device executed them.
    let mut lifetimes = (!options.is_text() || options.id >= 0).then(Lifetimes::default);
    for record in bundle.records() {
        let record = record?;
        if let Some(lifetimes) = &mut lifetimes {
            lifetimes.add(&record)?;
        }
        let rows = if options.is_text() { None } else { Some(&mut *out) };
        memory.add(&record, options, rows)?;
        out.check()?;
    }
    match lifetimes {
        Some(lifetimes) if !options.is_text() => print_jsonl(&memory, &lifetimes, options, out),
        lifetimes => memory_text::print(&memory, lifetimes.as_ref(), options, out),
    }
    Ok(())
}

/// What an allocation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Slab,
    PoolReservation,
    QueueAllocation,
    BufferAllocation,
    ImportedBuffer,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Slab => "slab",
            Self::PoolReservation => "pool_reservation",
            Self::QueueAllocation => "queue_allocation",
            Self::BufferAllocation => "buffer_allocation",
            Self::ImportedBuffer => "imported_buffer",
        }
    }

    pub fn from_event_type(event_type: MemoryEventType) -> Option<Self> {
        use MemoryEventType as Type;
        match event_type {
            Type::SLAB_ACQUIRE | Type::SLAB_RELEASE => Some(Self::Slab),
            Type::POOL_RESERVE | Type::POOL_MATERIALIZE | Type::POOL_RELEASE | Type::POOL_WAIT => {
                Some(Self::PoolReservation)
            }
            Type::QUEUE_ALLOCA | Type::QUEUE_DEALLOCA => Some(Self::QueueAllocation),
            Type::BUFFER_ALLOCATE | Type::BUFFER_FREE => Some(Self::BufferAllocation),
            Type::BUFFER_IMPORT | Type::BUFFER_UNIMPORT => Some(Self::ImportedBuffer),
            _ => None,
        }
    }
}

/// What was opened and closed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Balance {
    pub current_count: u64,
    pub high_water_count: u64,
    pub total_open_count: u64,
    pub total_close_count: u64,
    pub partial_close_count: u64,
    pub current_bytes: u64,
    pub high_water_bytes: u64,
    pub total_open_bytes: u64,
    pub total_close_bytes: u64,
    pub partial_close_bytes: u64,
}

impl Balance {
    fn open(&mut self, bytes: u64) -> Option<()> {
        self.total_open_count = self.total_open_count.checked_add(1)?;
        self.current_count = self.current_count.checked_add(1)?;
        self.total_open_bytes = self.total_open_bytes.checked_add(bytes)?;
        self.current_bytes = self.current_bytes.checked_add(bytes)?;
        self.high_water_count = self.high_water_count.max(self.current_count);
        self.high_water_bytes = self.high_water_bytes.max(self.current_bytes);
        Some(())
    }

    /// Closes what may have been opened before the session: then it is closed in part.
    fn close(&mut self, bytes: u64) -> Option<()> {
        self.total_close_count = self.total_close_count.checked_add(1)?;
        self.total_close_bytes = self.total_close_bytes.checked_add(bytes)?;
        let is_partial = self.current_count == 0 || bytes > self.current_bytes;
        let partial_bytes = bytes.saturating_sub(self.current_bytes);
        self.current_count = self.current_count.saturating_sub(1);
        self.current_bytes = self.current_bytes.saturating_sub(bytes);
        if is_partial {
            self.partial_close_count = self.partial_close_count.checked_add(1)?;
            self.partial_close_bytes = self.partial_close_bytes.checked_add(partial_bytes)?;
        }
        Some(())
    }
}

/// The memory of a device.
#[derive(Debug, Default)]
pub struct DeviceMemory {
    pub device: u32,
    pub events: u64,
    counts: [u64; 13],
    pub slabs: Balance,
    pub reservations: Balance,
    pub materializations: Balance,
    pub queue_allocations: Balance,
    pub buffers: Balance,
    pub imports: Balance,
}

/// A pool.
#[derive(Debug)]
pub struct Pool {
    pub kind: Kind,
    pub device: u32,
    pub id: u64,
    pub memory_type: u64,
    pub buffer_usage: u64,
    pub events: u64,
    pub waits: u64,
    pub materializes: u64,
    pub lifecycle: Balance,
    pub materialized: Balance,
    pub stats: PoolStats,
}

/// Statistics that a pool reports: the last values, and the extremes.
#[derive(Clone, Copy, Debug, Default)]
pub struct PoolStats {
    pub pool_stats_samples: u64,
    pub pool_bytes_reserved: u64,
    pub pool_bytes_reserved_high_water: u64,
    pub pool_bytes_free: u64,
    pub pool_bytes_free_low_water: u64,
    pub pool_bytes_committed: u64,
    pub pool_bytes_committed_high_water: u64,
    pub pool_budget_limit: u64,
    pub pool_reservation_count: u32,
    pub pool_reservation_high_water_count: u32,
    pub pool_slab_count: u32,
    pub pool_slab_high_water_count: u32,
}

/// An allocation.
#[derive(Debug)]
pub struct Allocation {
    pub kind: Kind,
    pub device: u32,
    pub id: u64,
    pub pool: u64,
    pub backing: u64,
    flags: u32,
    memory_type: u64,
    buffer_usage: u64,
    pub events: u64,
    pub waits: u64,
    pub materializes: u64,
    pub first_event: u64,
    pub last_event: u64,
    first_ns: i64,
    last_ns: i64,
    first_submission: u64,
    last_submission: u64,
    first_queue: u32,
    last_queue: u32,
    pub lifecycle: Balance,
    pub materialized: Balance,
}

/// What the memory events of a bundle amount to.
#[derive(Debug, Default)]
pub struct Memory {
    pub total: u64,
    pub matched: u64,
    pub truncated_chunks: u64,
    pub dropped_rows: u64,
    pub truncated_matched: u64,
    pub devices: Table<u32, DeviceMemory>,
    pub pools: Table<(Kind, u32, u64, u64), Pool>,
    pub allocations: Table<(Kind, u32, u64, u64), Allocation>,
    /// Pool of the last allocation of a queue, by device and id.
    latest_pools: HashMap<(u32, u64), u64>,
}

impl Memory {
    /// Adds the memory events of a record that the options select, and prints each to `out`.
    pub fn add(
        &mut self,
        record: &Record<'_>,
        options: &ReportOptions,
        mut out: Option<&mut Out<'_>>,
    ) -> Result<()> {
        if record.content() != Some(ContentType::MemoryEvents) {
            return Ok(());
        }
        if record.is_truncated() {
            self.truncated_chunks += 1;
            self.dropped_rows = self.dropped_rows.wrapping_add(record.header.dropped_record_count.get());
        }
        for row in record.rows::<rows::MemoryEvent<'_>>() {
            let event = row?.header;
            self.total += 1;
            let name = MemoryEventType(event.event_type.get()).name();
            let ids = [event.event_id.get(), event.allocation_id.get()];
            if !options.selects_id(&ids) || !options.selects(name.as_bytes()) {
                continue;
            }
            self.matched += 1;
            self.truncated_matched += u64::from(record.is_truncated());
            self.account(event).ok_or_else(|| {
                Error::out_of_range(format!("the bytes of memory event {} overflow a total", event.event_id))
            })?;
            if let Some(out) = out.as_deref_mut() {
                let mut object = out.object("memory_event");
                print_event_fields(event, &mut object);
                object.end();
            }
        }
        Ok(())
    }

    fn account(&mut self, event: &layout::MemoryEvent) -> Option<()> {
        let closes_materialization = self.closes_materialization(event);
        let device = event.physical_device_ordinal.get();
        let make = || DeviceMemory { device, ..DeviceMemory::default() };
        self.devices.entry(device, make).add(event, closes_materialization)?;
        let Some(kind) = Kind::from_event_type(MemoryEventType(event.event_type.get())) else {
            return self.sample_pool(event);
        };
        let id = self.pool_of(event, kind);
        self.pool(kind, event, id).add(event, closes_materialization)?;
        self.sample_pool(event)?;
        if kind == Kind::PoolReservation && event.flags.get() & POOL_RESERVATION == 0 {
            return Some(());
        }
        let id = self.pool_of(event, kind);
        let allocation_id = event.allocation_id.get();
        let latest = &mut self.latest_pools;
        let allocation = self.allocations.entry((kind, device, allocation_id, id), || {
            if kind == Kind::QueueAllocation {
                latest.insert((device, allocation_id), id);
            }
            Allocation::new(kind, device, allocation_id, id)
        });
        allocation.add(event, closes_materialization)
    }

    /// The pool of an event; that of the last allocation with its id if a queue's event names none.
    fn pool_of(&self, event: &layout::MemoryEvent, kind: Kind) -> u64 {
        let (id, device) = (event.pool_id.get(), event.physical_device_ordinal.get());
        if id != 0 || kind != Kind::QueueAllocation {
            return id;
        }
        self.latest_pools.get(&(device, event.allocation_id.get())).copied().unwrap_or(0)
    }

    /// Whether an event releases a reservation that has been materialized.
    fn closes_materialization(&self, event: &layout::MemoryEvent) -> bool {
        let event_type = MemoryEventType(event.event_type.get());
        if event_type != MemoryEventType::POOL_RELEASE || event.flags.get() & POOL_RESERVATION == 0 {
            return false;
        }
        let device = event.physical_device_ordinal.get();
        let key = (Kind::PoolReservation, device, event.allocation_id.get(), event.pool_id.get());
        let balance = self.allocations.get(&key).map(|allocation| allocation.materialized);
        balance.is_some_and(|balance| balance.current_count != 0 || balance.current_bytes != 0)
    }

    fn pool(&mut self, kind: Kind, event: &layout::MemoryEvent, id: u64) -> &mut Pool {
        let (device, memory_type) = (event.physical_device_ordinal.get(), event.memory_type.get());
        self.pools.entry((kind, device, id, memory_type), || Pool::new(kind, device, id, memory_type))
    }

    fn sample_pool(&mut self, event: &layout::MemoryEvent) -> Option<()> {
        if event.flags.get() & POOL_STATS == 0 || event.pool_id.get() == 0 {
            return Some(());
        }
        let pool = self.pool(Kind::PoolReservation, event, event.pool_id.get());
        pool.buffer_usage |= event.buffer_usage.get();
        pool.stats.add(event)
    }

    /// Allocations with bytes that were not released.
    pub fn open_allocations(&self) -> usize {
        self.allocations.values().iter().filter(|allocation| allocation.is_open()).count()
    }

    /// Releases of more than was allocated.
    pub fn partial_closes(&self) -> u64 {
        let closes = |it: &Allocation| it.lifecycle.partial_close_count + it.materialized.partial_close_count;
        self.allocations.values().iter().map(closes).sum()
    }
}

/// Adds an event to the balances of its pool or allocation.
fn balance(
    event: &layout::MemoryEvent,
    closes_materialization: bool,
    lifecycle: &mut Balance,
    materialized: &mut Balance,
) -> Option<()> {
    use MemoryEventType as Type;
    let bytes = event.length.get();
    match MemoryEventType(event.event_type.get()) {
        Type::SLAB_ACQUIRE | Type::BUFFER_ALLOCATE | Type::BUFFER_IMPORT | Type::QUEUE_ALLOCA => {
            lifecycle.open(bytes)
        }
        Type::POOL_RESERVE if event.flags.get() & POOL_RESERVATION != 0 => lifecycle.open(bytes),
        Type::SLAB_RELEASE | Type::BUFFER_FREE | Type::BUFFER_UNIMPORT | Type::QUEUE_DEALLOCA => {
            lifecycle.close(bytes)
        }
        Type::POOL_MATERIALIZE => materialized.open(bytes),
        Type::POOL_RELEASE => {
            lifecycle.close(bytes)?;
            if closes_materialization { materialized.close(bytes) } else { Some(()) }
        }
        _ => Some(()),
    }
}

impl DeviceMemory {
    /// Number of events of a type.
    pub fn count(&self, event_type: MemoryEventType) -> u64 {
        self.counts.get(event_type.0 as usize).copied().unwrap_or(0)
    }

    fn add(&mut self, event: &layout::MemoryEvent, closes_materialization: bool) -> Option<()> {
        self.events += 1;
        let event_type = MemoryEventType(event.event_type.get());
        if let Some(count) = self.counts.get_mut(event_type.0 as usize) {
            *count += 1;
        }
        let Some(kind) = Kind::from_event_type(event_type) else { return Some(()) };
        let lifecycle = match kind {
            Kind::Slab => &mut self.slabs,
            Kind::PoolReservation => &mut self.reservations,
            Kind::QueueAllocation => &mut self.queue_allocations,
            Kind::BufferAllocation => &mut self.buffers,
            Kind::ImportedBuffer => &mut self.imports,
        };
        balance(event, closes_materialization, lifecycle, &mut self.materializations)
    }
}

impl Pool {
    fn new(kind: Kind, device: u32, id: u64, memory_type: u64) -> Self {
        let (buffer_usage, events, waits, materializes) = (0, 0, 0, 0);
        let (lifecycle, materialized, stats) = Default::default();
        Self {
            kind,
            device,
            id,
            memory_type,
            buffer_usage,
            events,
            waits,
            materializes,
            lifecycle,
            materialized,
            stats,
        }
    }

    fn add(&mut self, event: &layout::MemoryEvent, closes_materialization: bool) -> Option<()> {
        self.events += 1;
        self.buffer_usage |= event.buffer_usage.get();
        let event_type = MemoryEventType(event.event_type.get());
        self.waits += u64::from(event_type == MemoryEventType::POOL_WAIT);
        self.materializes += u64::from(event_type == MemoryEventType::POOL_MATERIALIZE);
        balance(event, closes_materialization, &mut self.lifecycle, &mut self.materialized)
    }
}

impl PoolStats {
    fn add(&mut self, event: &layout::MemoryEvent) -> Option<()> {
        let is_first = self.pool_stats_samples == 0;
        let (reserved, free) = (event.pool_bytes_reserved.get(), event.pool_bytes_free.get());
        let committed = event.pool_bytes_committed.get();
        let (reservations, slabs) = (event.pool_reservation_count.get(), event.pool_slab_count.get());
        *self = Self {
            pool_stats_samples: self.pool_stats_samples.checked_add(1)?,
            pool_bytes_reserved: reserved,
            pool_bytes_reserved_high_water: self.pool_bytes_reserved_high_water.max(reserved),
            pool_bytes_free: free,
            pool_bytes_free_low_water: if is_first { free } else { self.pool_bytes_free_low_water.min(free) },
            pool_bytes_committed: committed,
            pool_bytes_committed_high_water: self.pool_bytes_committed_high_water.max(committed),
            pool_budget_limit: event.pool_budget_limit.get(),
            pool_reservation_count: reservations,
            pool_reservation_high_water_count: self.pool_reservation_high_water_count.max(reservations),
            pool_slab_count: slabs,
            pool_slab_high_water_count: self.pool_slab_high_water_count.max(slabs),
        };
        Some(())
    }
}

impl Allocation {
    fn new(kind: Kind, device: u32, id: u64, pool: u64) -> Self {
        let (lifecycle, materialized) = Default::default();
        Self {
            kind,
            device,
            id,
            pool,
            backing: 0,
            flags: 0,
            memory_type: 0,
            buffer_usage: 0,
            events: 0,
            waits: 0,
            materializes: 0,
            first_event: 0,
            last_event: 0,
            first_ns: 0,
            last_ns: 0,
            first_submission: 0,
            last_submission: 0,
            first_queue: layout::NONE,
            last_queue: layout::NONE,
            lifecycle,
            materialized,
        }
    }

    fn add(&mut self, event: &layout::MemoryEvent, closes_materialization: bool) -> Option<()> {
        let (id, ns) = (event.event_id.get(), event.host_time_ns.get());
        if self.first_event == 0 {
            (self.first_event, self.first_ns) = (id, ns);
        }
        (self.last_event, self.last_ns) = (id, ns);
        let (submission, queue) = (event.submission_id.get(), event.queue_ordinal.get());
        if submission != 0 {
            if self.first_submission == 0 {
                (self.first_submission, self.first_queue) = (submission, queue);
            }
            (self.last_submission, self.last_queue) = (submission, queue);
        }
        if self.backing == 0 {
            self.backing = event.backing_id.get();
        }
        self.flags |= event.flags.get();
        self.memory_type |= event.memory_type.get();
        self.buffer_usage |= event.buffer_usage.get();
        self.events += 1;
        let event_type = MemoryEventType(event.event_type.get());
        self.waits += u64::from(event_type == MemoryEventType::POOL_WAIT);
        self.materializes += u64::from(event_type == MemoryEventType::POOL_MATERIALIZE);
        balance(event, closes_materialization, &mut self.lifecycle, &mut self.materialized)
    }

    /// Whether it has bytes that were not released.
    pub fn is_open(&self) -> bool {
        self.lifecycle.current_bytes != 0 || self.materialized.current_bytes != 0
    }

    /// Whether its memory is not the device's own.
    pub fn is_externally_owned(&self) -> bool {
        self.flags & EXTERNALLY_OWNED != 0
    }

    /// Nanoseconds from its first to its last event.
    pub fn duration_ns(&self) -> i64 {
        if self.last_ns >= self.first_ns { self.last_ns.wrapping_sub(self.first_ns) } else { 0 }
    }
}

/// When devices executed the allocations and deallocations of queues.
#[derive(Default)]
pub struct Lifetimes<'a> {
    model: Model<'a>,
    /// By device, queue, type, submission and allocation; of several, that with the lowest id.
    events: HashMap<(u32, u32, QueueEventType, u64, u64), &'a layout::QueueDeviceEvent>,
}

/// When a device executed an allocation and its deallocation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lifetime {
    pub alloca_event: u64,
    pub dealloca_event: u64,
    /// First and last tick, if both are known.
    pub span: Option<(u64, u64)>,
    /// Its length, if the device's clock is known.
    pub ns: Option<i64>,
}

impl Lifetime {
    /// Ticks from the allocation to the deallocation.
    pub fn ticks(&self) -> u64 {
        self.span.map_or(0, |(start, end)| end - start)
    }
}

impl<'a> Lifetimes<'a> {
    fn add(&mut self, record: &Record<'a>) -> Result<()> {
        self.model.add(record)?;
        for row in record.rows::<rows::QueueDeviceEvent<'_>>() {
            let event = row?.header;
            let event_type = QueueEventType(event.event_type.get());
            if event_type != QueueEventType::ALLOCA && event_type != QueueEventType::DEALLOCA {
                continue;
            }
            let (device, queue) = (event.physical_device_ordinal.get(), event.queue_ordinal.get());
            let (submission, allocation) = (event.submission_id.get(), event.allocation_id.get());
            let key = (device, queue, event.stream_id.get());
            self.model.check_queue("a queue event of a device", key, submission)?;
            let kept =
                self.events.entry((device, queue, event_type, submission, allocation)).or_insert(event);
            if event.event_id.get() < kept.event_id.get() {
                *kept = event;
            }
        }
        Ok(())
    }

    /// When the device executed an allocation.
    pub fn of(&self, allocation: &Allocation) -> Lifetime {
        let mut lifetime = Lifetime::default();
        if allocation.kind != Kind::QueueAllocation {
            return lifetime;
        }
        let find = |event_type, submission: u64, queue: u32| {
            let key = (allocation.device, queue, event_type, submission, allocation.id);
            self.events.get(&key).copied().filter(|_| submission != 0 && queue != layout::NONE)
        };
        let alloca = find(QueueEventType::ALLOCA, allocation.first_submission, allocation.first_queue);
        let dealloca = find(QueueEventType::DEALLOCA, allocation.last_submission, allocation.last_queue);
        lifetime.alloca_event = alloca.map_or(0, |event| event.event_id.get());
        lifetime.dealloca_event = dealloca.map_or(0, |event| event.event_id.get());
        if let (Some(alloca), Some(dealloca)) = (alloca, dealloca)
            && [alloca, dealloca].iter().all(|it| ticks(it.start_tick.get(), it.end_tick.get()).is_some())
            && dealloca.end_tick.get() >= alloca.start_tick.get()
        {
            lifetime.span = Some((alloca.start_tick.get(), dealloca.end_tick.get()));
            let fit = self.model.clock_fit(allocation.device);
            lifetime.ns = fit.and_then(|fit| fit.duration_ns(lifetime.ticks()));
        }
        lifetime
    }
}

/// Prints the fields of a memory event.
pub fn print_event_fields(event: &layout::MemoryEvent, object: &mut Object<'_, '_>) {
    let flags = event.flags.get();
    fields!(
        object,
        event { event_id },
        event_type: MemoryEventType(event.event_type.get()).name(),
        event_type_value: event.event_type,
        event { flags, result, host_time_ns, allocation_id },
        host_time_domain: "iree_host_time_ns",
        event {
            pool_id, backing_id, submission_id, physical_device_ordinal, queue_ordinal, frontier_entry_count, memory_type,
            buffer_usage, offset, length, alignment,
        },
        externally_owned: flags & EXTERNALLY_OWNED != 0,
        pool_stats_available: flags & POOL_STATS != 0,
        event {
            pool_bytes_reserved, pool_bytes_free, pool_bytes_committed, pool_budget_limit, pool_reservation_count,
            pool_slab_count,
        },
    );
}

fn print_jsonl(memory: &Memory, lifetimes: &Lifetimes<'_>, options: &ReportOptions, out: &mut Out<'_>) {
    object!(
        out,
        "memory_summary",
        filter: options.filter.as_str(),
        id_filter: options.id,
        total_events: memory.total,
        matched_events: memory.matched,
        truncated_chunks: memory.truncated_chunks,
        dropped_records: memory.dropped_rows,
        truncated_matched_events: memory.truncated_matched,
        devices: memory.devices.len(),
        pools: memory.pools.len(),
        allocation_lifecycles: memory.allocations.len(),
        open_allocation_lifecycles: memory.open_allocations(),
        partial_lifecycle_closes: memory.partial_closes(),
    );
    memory.devices.values().iter().for_each(|device| print_device(device, out));
    memory.pools.values().iter().for_each(|pool| print_pool(pool, out));
    for allocation in memory.allocations.values() {
        print_allocation(allocation, lifetimes.of(allocation), out);
    }
}

fn print_balance(prefix: &str, balance: &Balance, object: &mut Object<'_, '_>) {
    object.prefixed(prefix, "_current_count", &balance.current_count);
    object.prefixed(prefix, "_high_water_count", &balance.high_water_count);
    object.prefixed(prefix, "_total_open_count", &balance.total_open_count);
    object.prefixed(prefix, "_total_close_count", &balance.total_close_count);
    object.prefixed(prefix, "_partial_close_count", &balance.partial_close_count);
    object.prefixed(prefix, "_current_bytes", &balance.current_bytes);
    object.prefixed(prefix, "_high_water_bytes", &balance.high_water_bytes);
    object.prefixed(prefix, "_total_open_bytes", &balance.total_open_bytes);
    object.prefixed(prefix, "_total_close_bytes", &balance.total_close_bytes);
    object.prefixed(prefix, "_partial_close_bytes", &balance.partial_close_bytes);
}

fn print_device(device: &DeviceMemory, out: &mut Out<'_>) {
    use MemoryEventType as Type;
    let mut object = out.object("memory_device");
    fields!(
        object,
        physical_device_ordinal: device.device,
        events: device.events,
        slab_acquires: device.count(Type::SLAB_ACQUIRE),
        slab_releases: device.count(Type::SLAB_RELEASE),
        pool_reserves: device.count(Type::POOL_RESERVE),
        pool_materializes: device.count(Type::POOL_MATERIALIZE),
        pool_releases: device.count(Type::POOL_RELEASE),
        pool_waits: device.count(Type::POOL_WAIT),
        queue_allocas: device.count(Type::QUEUE_ALLOCA),
        queue_deallocas: device.count(Type::QUEUE_DEALLOCA),
        buffer_allocates: device.count(Type::BUFFER_ALLOCATE),
        buffer_frees: device.count(Type::BUFFER_FREE),
        buffer_imports: device.count(Type::BUFFER_IMPORT),
        buffer_unimports: device.count(Type::BUFFER_UNIMPORT),
    );
    print_balance("slab", &device.slabs, &mut object);
    print_balance("pool_reserved", &device.reservations, &mut object);
    print_balance("pool_materialized", &device.materializations, &mut object);
    print_balance("queue_inflight", &device.queue_allocations, &mut object);
    print_balance("buffer", &device.buffers, &mut object);
    print_balance("imported_buffer", &device.imports, &mut object);
    object.end();
}

fn print_pool(pool: &Pool, out: &mut Out<'_>) {
    let mut object = out.object("memory_pool");
    fields!(
        object,
        kind: pool.kind.name(),
        physical_device_ordinal: pool.device,
        pool_id: pool.id,
        pool { memory_type, buffer_usage, events, waits, materializes },
    );
    print_balance("lifecycle", &pool.lifecycle, &mut object);
    print_balance("materialized", &pool.materialized, &mut object);
    let stats = &pool.stats;
    fields!(
        object,
        pool_stats_available: stats.pool_stats_samples != 0,
        stats {
            pool_stats_samples, pool_bytes_reserved, pool_bytes_reserved_high_water, pool_bytes_free,
            pool_bytes_free_low_water, pool_bytes_committed, pool_bytes_committed_high_water, pool_budget_limit,
            pool_reservation_count, pool_reservation_high_water_count, pool_slab_count, pool_slab_high_water_count,
        },
    );
    object.end();
}

fn print_allocation(allocation: &Allocation, lifetime: Lifetime, out: &mut Out<'_>) {
    let (start, end) = lifetime.span.unwrap_or_default();
    let mut object = out.object("memory_allocation");
    fields!(
        object,
        kind: allocation.kind.name(),
        physical_device_ordinal: allocation.device,
        allocation_id: allocation.id,
        pool_id: allocation.pool,
        backing_id: allocation.backing,
        externally_owned: allocation.is_externally_owned(),
        allocation { memory_type, buffer_usage, events, waits, materializes },
        open_at_end: allocation.is_open(),
        first_event_id: allocation.first_event,
        last_event_id: allocation.last_event,
        first_host_time_ns: allocation.first_ns,
        last_host_time_ns: allocation.last_ns,
        host_time_domain: "iree_host_time_ns",
        duration_ns: allocation.duration_ns(),
        first_submission_id: allocation.first_submission,
        last_submission_id: allocation.last_submission,
        first_queue_ordinal: allocation.first_queue,
        last_queue_ordinal: allocation.last_queue,
        alloca_device_event_id: lifetime.alloca_event,
        dealloca_device_event_id: lifetime.dealloca_event,
        device_lifetime_available: lifetime.span.is_some(),
        device_lifetime_start_tick: start,
        device_lifetime_end_tick: end,
        device_lifetime_duration_ticks: lifetime.ticks(),
        device_lifetime_time_ns_available: lifetime.ns.is_some(),
        device_lifetime_duration_ns: lifetime.ns.unwrap_or(0),
    );
    print_balance("lifecycle", &allocation.lifecycle, &mut object);
    print_balance("materialized", &allocation.materialized, &mut object);
    object.end();
}
