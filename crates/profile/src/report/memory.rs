//! `memory`: allocations and high-water marks.

use std::collections::HashMap;
use std::fmt;

use rehal_base::{Error, Result};

use super::options::ReportOptions;
use super::out::{Out, Row, columns, row};
use crate::event::ticks;
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
        memory.add(&record, options, Some(&mut *out))?;
        out.check()?;
    }
    memory.print(options, out);
    for allocation in memory.allocations.values() {
        if let Some(lifetimes) = &lifetimes {
            print_allocation(allocation, lifetimes.of(allocation), out);
        }
    }
    Ok(())
}

/// The kind of an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    #[default]
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

/// The bytes and allocations that were opened and closed.
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
#[derive(Debug, Default)]
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
#[derive(Debug, Default)]
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

/// The totals of the memory events of a bundle.
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
                let mut row = out.row("memory_event", "");
                event_columns(event, &mut row);
                row.end();
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
        Self { kind, device, id, memory_type, ..Self::default() }
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
        let none = layout::NONE;
        Self { kind, device, id, pool, first_queue: none, last_queue: none, ..Self::default() }
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

    /// Nanoseconds from its first to its last event.
    pub fn duration_ns(&self) -> i64 {
        if self.last_ns >= self.first_ns { self.last_ns.wrapping_sub(self.first_ns) } else { 0 }
    }
}

/// The times at which devices executed the allocations and deallocations of queues.
#[derive(Default)]
pub struct Lifetimes<'a> {
    model: Model<'a>,
    /// By device, queue, type, submission and allocation; of several, that with the lowest id.
    events: HashMap<(u32, u32, QueueEventType, u64, u64), &'a layout::QueueDeviceEvent>,
}

/// The times at which a device executed an allocation and its deallocation.
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

    /// The times at which the device executed an allocation.
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

/// Appends the columns of a memory event.
pub fn event_columns(event: &layout::MemoryEvent, row: &mut Row<'_, '_>) {
    let flags = event.flags.get();
    columns!(
        row,
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

impl Memory {
    /// Prints all but the allocations.
    fn print(&self, options: &ReportOptions, out: &mut Out<'_>) {
        row!(
            out,
            "memory_summary",
            "IREE HAL profile memory summary\nfilter: {filter}\n{has_id?id_filter: {id_filter}\n}events: \
             total={total_events} matched={matched_events} truncated_chunks={truncated_chunks} \
             dropped_records={dropped_records} truncated_matched={truncated_matched_events} devices={devices} \
             pools={pools} allocation_lifecycles={allocation_lifecycles} open_lifecycles={open_allocation_lifecycles} \
             partial_closes={partial_lifecycle_closes}\n",
            filter: options.filter.as_str(),
            @has_id: options.id >= 0,
            id_filter: options.id,
            total_events: self.total,
            matched_events: self.matched,
            truncated_chunks: self.truncated_chunks,
            dropped_records: self.dropped_rows,
            truncated_matched_events: self.truncated_matched,
            devices: self.devices.len(),
            pools: self.pools.len(),
            allocation_lifecycles: self.allocations.len(),
            open_allocation_lifecycles: self.open_allocations(),
            partial_lifecycle_closes: self.partial_closes(),
        );
        self.devices.values().iter().for_each(|device| print_device(device, out));
        self.pools.values().iter().for_each(|pool| print_pool(pool, out));
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { current_count, high_water_count, current_bytes, high_water_bytes, .. } = self;
        write!(f, "open_at_end={current_count} peak_open={high_water_count} current_bytes={current_bytes} ")?;
        let Self { total_open_bytes, total_close_bytes, partial_close_count, partial_close_bytes, .. } = self;
        write!(f, "high_water_bytes={high_water_bytes} opened_bytes={total_open_bytes} ")?;
        write!(f, "closed_bytes={total_close_bytes} partial_closes={partial_close_count} ")?;
        write!(f, "partial_close_bytes={partial_close_bytes}")
    }
}

/// Appends the columns of a balance, which is also one as text.
fn balance_columns(prefix: &'static str, balance: &Balance, row: &mut Row<'_, '_>) {
    row.prefix = prefix;
    columns!(
        row,
        @balance: balance,
        balance {
            current_count, high_water_count, total_open_count, total_close_count, partial_close_count, current_bytes,
            high_water_bytes, total_open_bytes, total_close_bytes, partial_close_bytes,
        },
    );
    row.prefix = "";
}

fn print_device(device: &DeviceMemory, out: &mut Out<'_>) {
    use MemoryEventType as Type;
    let mut row = out.row(
        "memory_device",
        "device[{physical_device_ordinal}]: events={events} slab_acquire/release={slab_acquires}/{slab_releases} \
         pool_reserve/materialize/release/wait={pool_reserves}/{pool_materializes}/{pool_releases}/{pool_waits} \
         queue_alloca/dealloca={queue_allocas}/{queue_deallocas} \
         buffer_allocate/free={buffer_allocates}/{buffer_frees} \
         buffer_import/unimport={buffer_imports}/{buffer_unimports}\n  slab_provider_events: {slab_balance}\n  \
         pool_reservations: {pool_reserved_balance}\n  pool_materializations: {pool_materialized_balance}\n  \
         queue_inflight_allocations: {queue_inflight_balance}\n  buffer_allocations: {buffer_balance}\n  \
         buffer_imports: {imported_buffer_balance}\n",
    );
    columns!(
        row,
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
    balance_columns("slab_", &device.slabs, &mut row);
    balance_columns("pool_reserved_", &device.reservations, &mut row);
    balance_columns("pool_materialized_", &device.materializations, &mut row);
    balance_columns("queue_inflight_", &device.queue_allocations, &mut row);
    balance_columns("buffer_", &device.buffers, &mut row);
    balance_columns("imported_buffer_", &device.imports, &mut row);
    row.end();
}

fn print_pool(pool: &Pool, out: &mut Out<'_>) {
    let mut row = out.row(
        "memory_pool",
        "pool[{kind} device={physical_device_ordinal} id={pool_id} memory_type={memory_type}]: events={events} \
         waits={waits} materializes={materializes} {lifecycle_balance}{is_reservation? \
         materialized_at_end={materialized_current_count} \
         materialized_high_water_bytes={materialized_high_water_bytes}}{pool_stats_available? \
         pool_stats_samples={pool_stats_samples} pool_bytes_reserved={pool_bytes_reserved} \
         pool_bytes_reserved_high_water={pool_bytes_reserved_high_water} pool_bytes_free={pool_bytes_free} \
         pool_bytes_free_low_water={pool_bytes_free_low_water} pool_bytes_committed={pool_bytes_committed} \
         pool_bytes_committed_high_water={pool_bytes_committed_high_water} pool_budget_limit={pool_budget_limit} \
         pool_reservations={pool_reservation_count} pool_reservation_high_water={pool_reservation_high_water_count} \
         pool_slabs={pool_slab_count} pool_slab_high_water={pool_slab_high_water_count}}\n",
    );
    let stats = &pool.stats;
    columns!(
        row,
        kind: pool.kind.name(),
        @is_reservation: pool.kind == Kind::PoolReservation,
        physical_device_ordinal: pool.device,
        pool_id: pool.id,
        pool { memory_type, buffer_usage, events, waits, materializes },
    );
    balance_columns("lifecycle_", &pool.lifecycle, &mut row);
    balance_columns("materialized_", &pool.materialized, &mut row);
    columns!(
        row,
        pool_stats_available: stats.pool_stats_samples != 0,
        stats {
            pool_stats_samples, pool_bytes_reserved, pool_bytes_reserved_high_water, pool_bytes_free,
            pool_bytes_free_low_water, pool_bytes_committed, pool_bytes_committed_high_water, pool_budget_limit,
            pool_reservation_count, pool_reservation_high_water_count, pool_slab_count, pool_slab_high_water_count,
        },
    );
    row.end();
}

fn print_allocation(allocation: &Allocation, lifetime: Lifetime, out: &mut Out<'_>) {
    let (start, end) = lifetime.span.unwrap_or_default();
    let mut row = out.row(
        "memory_allocation",
        "allocation[{kind} device={physical_device_ordinal} id={allocation_id} pool={pool_id} backing={backing_id} \
         externally_owned={externally_owned}]: events={events} waits={waits} materializes={materializes} \
         open_at_end={open_at_end} current_bytes={lifecycle_current_bytes} \
         high_water_bytes={lifecycle_high_water_bytes} opened_bytes={lifecycle_total_open_bytes} \
         closed_bytes={lifecycle_total_close_bytes} partial_closes={lifecycle_partial_close_count} \
         partial_close_bytes={lifecycle_partial_close_bytes} first_event={first_event_id} last_event={last_event_id} \
         duration_ns={duration_ns}\n{is_of_queue?  device_lifetime: available={device_lifetime_available} \
         alloca_event={alloca_device_event_id} dealloca_event={dealloca_device_event_id} \
         duration_ticks={device_lifetime_duration_ticks}{device_lifetime_time_ns_available? \
         duration_ns={device_lifetime_duration_ns}}\n}",
    );
    columns!(
        row,
        kind: allocation.kind.name(),
        @is_of_queue: allocation.kind == Kind::QueueAllocation,
        physical_device_ordinal: allocation.device,
        allocation_id: allocation.id,
        pool_id: allocation.pool,
        backing_id: allocation.backing,
        externally_owned: allocation.flags & EXTERNALLY_OWNED != 0,
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
    balance_columns("lifecycle_", &allocation.lifecycle, &mut row);
    balance_columns("materialized_", &allocation.materialized, &mut row);
    row.end();
}
