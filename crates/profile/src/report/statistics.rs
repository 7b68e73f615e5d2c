//! `statistics`: totals per operation and function.

use std::collections::HashMap;

use rehal_base::Result;

use super::out::{Out, object};
use super::{ReportOptions, add, nanoseconds, statistics_text};
use crate::clock::ClockSamples;
use crate::layout::{self, NONE};
use crate::rows;
use crate::table::Table;
use crate::{Bundle, ContentType, MemoryEventType, QueueEventType, Record};

pub fn print(bundle: &Bundle<'_>, options: &ReportOptions, out: &mut Out<'_>) -> Result<()> {
    let mut statistics = Statistics::default();
    for record in bundle.records() {
        statistics.add(&record?)?;
    }
    if options.is_text() {
        return statistics_text::print(&statistics, out);
    }
    let (row_count, dropped_record_count) = (statistics.rows.len(), statistics.dropped_rows);
    object!(
        out,
        "statistics_summary",
        row_count: row_count,
        dropped_record_count: dropped_record_count,
    );
    statistics.rows.values().iter().for_each(|row| print_row(&statistics, row, out));
    Ok(())
}

/// What a row totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    DispatchFunction = 1,
    DispatchCommandBuffer = 2,
    DispatchCommandOperation = 3,
    QueueDeviceOperation = 4,
    QueueHostOperation = 5,
    HostExecutionFunction = 6,
    HostExecutionCommandBuffer = 7,
    HostExecutionCommandOperation = 8,
    HostExecutionQueueOperation = 9,
    MemoryLifecycle = 10,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::DispatchFunction => "dispatch_function",
            Self::DispatchCommandBuffer => "dispatch_command_buffer",
            Self::DispatchCommandOperation => "dispatch_command_operation",
            Self::QueueDeviceOperation => "queue_device_operation",
            Self::QueueHostOperation => "queue_host_operation",
            Self::HostExecutionFunction => "host_execution_function",
            Self::HostExecutionCommandBuffer => "host_execution_command_buffer",
            Self::HostExecutionCommandOperation => "host_execution_command_operation",
            Self::HostExecutionQueueOperation => "host_execution_queue_operation",
            Self::MemoryLifecycle => "memory_lifecycle",
        }
    }

    /// The clock of its times.
    pub fn domain(self) -> Domain {
        match self {
            Self::DispatchFunction
            | Self::DispatchCommandBuffer
            | Self::DispatchCommandOperation
            | Self::QueueDeviceOperation => Domain::DeviceTick,
            Self::MemoryLifecycle => Domain::None,
            _ => Domain::HostTime,
        }
    }
}

/// A clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    None = 0,
    DeviceTick = 1,
    HostTime = 2,
}

/// What the events of a row have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub kind: Kind,
    pub device: u32,
    pub queue: u32,
    pub event_type: u32,
    pub executable: u64,
    pub command_buffer: u64,
    pub function: u32,
    pub command: u32,
}

/// The totals of events.
#[derive(Clone, Copy, Debug)]
pub struct Totals {
    pub key: Key,
    flags: u32,
    pub sample_count: u64,
    pub invalid_sample_count: u64,
    pub operation_count: u64,
    pub payload_bytes: u64,
    pub tile_count: u64,
    pub tile_duration_sum_ns: u64,
    first_start_time: u64,
    last_end_time: u64,
    pub total_duration: u64,
    minimum_duration: u64,
    maximum_duration: u64,
}

/// [`Totals::flags`]: it has times.
const TIMING: u32 = 1;
/// [`Totals::flags`]: it has bytes.
const PAYLOAD_BYTES: u32 = 1 << 1;
/// [`Totals::flags`]: it has operations.
const OPERATION_COUNT: u32 = 1 << 2;
/// [`Totals::flags`]: it has tiles.
const TILE_TOTALS: u32 = 1 << 3;

/// What an event adds to a row.
#[derive(Clone, Copy, Default)]
struct Sample {
    /// Start and end, unless they are missing or reversed.
    times: Option<(u64, u64)>,
    operations: u64,
    bytes: u64,
    tiles: u64,
    tiles_ns: u64,
}

/// All totals of a bundle.
#[derive(Default)]
pub struct Statistics<'a> {
    pub rows: Table<Key, Totals>,
    functions: HashMap<(u64, u32), &'a [u8]>,
    clocks: HashMap<u32, ClockSamples>,
    pub dropped_rows: u64,
}

impl<'a> Statistics<'a> {
    fn add(&mut self, record: &Record<'a>) -> Result<()> {
        if record.record_type() == crate::RecordType::CHUNK {
            add(&mut self.dropped_rows, record.header.dropped_record_count.get())?;
        }
        match record.content() {
            Some(ContentType::DispatchEvents) => {
                let header = record.header;
                let queue = (header.physical_device_ordinal.get(), header.queue_ordinal.get());
                record
                    .rows::<rows::DispatchEvent<'_>>()
                    .try_for_each(|row| self.add_dispatch(queue, row?.header))
            }
            Some(ContentType::QueueDeviceEvents) => record
                .rows::<rows::QueueDeviceEvent<'_>>()
                .try_for_each(|row| self.add_device_event(row?.header)),
            Some(ContentType::QueueEvents) => {
                record.rows::<rows::QueueEvent<'_>>().try_for_each(|row| self.add_queue_event(row?.header))
            }
            Some(ContentType::HostExecutionEvents) => record
                .rows::<rows::HostExecutionEvent<'_>>()
                .try_for_each(|row| self.add_host_event(row?.header)),
            Some(ContentType::MemoryEvents) => {
                record.rows::<rows::MemoryEvent<'_>>().try_for_each(|row| self.add_memory_event(row?.header))
            }
            Some(ContentType::ClockCorrelations) => {
                record.rows::<rows::ClockCorrelation<'_>>().try_for_each(|row| {
                    let sample = row?.header;
                    self.clocks.entry(sample.physical_device_ordinal.get()).or_default().add(sample);
                    Ok(())
                })
            }
            Some(ContentType::Functions) => record.rows::<rows::Function<'_>>().try_for_each(|row| {
                let row = row?;
                let key = (row.executable_id.get(), row.function_ordinal.get());
                self.functions.entry(key).or_insert(row.name);
                Ok(())
            }),
            _ => Ok(()),
        }
    }

    fn add_dispatch(&mut self, (device, queue): (u32, u32), event: &layout::DispatchEvent) -> Result<()> {
        let (start, end) = (event.start_tick.get(), event.end_tick.get());
        let sample =
            Sample { times: Some((start, end)).filter(|_| start != 0 && end >= start), ..Sample::default() };
        let work = Work::new(
            event.executable_id,
            event.function_ordinal,
            event.command_buffer_id,
            event.command_index,
        );
        let kinds = [Kind::DispatchFunction, Kind::DispatchCommandBuffer, Kind::DispatchCommandOperation];
        self.add_work(kinds, device, queue, work, &sample)
    }

    fn add_device_event(&mut self, event: &layout::QueueDeviceEvent) -> Result<()> {
        let (start, end) = (event.start_tick.get(), event.end_tick.get());
        let sample = Sample {
            times: Some((start, end)).filter(|_| start != 0 && end >= start),
            operations: event.operation_count.get().into(),
            bytes: event.payload_length.get(),
            ..Sample::default()
        };
        let key = Key {
            event_type: event.event_type.get(),
            command_buffer: event.command_buffer_id.get(),
            ..Key::new(
                Kind::QueueDeviceOperation,
                event.physical_device_ordinal.get(),
                event.queue_ordinal.get(),
            )
        };
        self.row(key).add(&sample)
    }

    fn add_queue_event(&mut self, event: &layout::QueueEvent) -> Result<()> {
        let sample = Sample {
            times: host_times(event.host_time_ns.get(), event.ready_host_time_ns.get()),
            operations: event.operation_count.get().into(),
            bytes: event.payload_length.get(),
            ..Sample::default()
        };
        let key = Key {
            event_type: event.event_type.get(),
            command_buffer: event.command_buffer_id.get(),
            ..Key::new(
                Kind::QueueHostOperation,
                event.physical_device_ordinal.get(),
                event.queue_ordinal.get(),
            )
        };
        self.row(key).add(&sample)
    }

    fn add_host_event(&mut self, event: &layout::HostExecutionEvent) -> Result<()> {
        let sample = Sample {
            times: host_times(event.start_host_time_ns.get(), event.end_host_time_ns.get()),
            operations: event.operation_count.get().into(),
            bytes: event.payload_length.get(),
            tiles: event.tile_count.get(),
            tiles_ns: u64::try_from(event.tile_duration_sum_ns.get()).unwrap_or(0),
        };
        let (device, queue) = (event.physical_device_ordinal.get(), event.queue_ordinal.get());
        let key = Key {
            event_type: event.event_type.get(),
            command_buffer: event.command_buffer_id.get(),
            ..Key::new(Kind::HostExecutionQueueOperation, device, queue)
        };
        self.row(key).add(&sample)?;
        let work = Work::new(
            event.executable_id,
            event.function_ordinal,
            event.command_buffer_id,
            event.command_index,
        );
        let kinds = [
            Kind::HostExecutionFunction,
            Kind::HostExecutionCommandBuffer,
            Kind::HostExecutionCommandOperation,
        ];
        self.add_work(kinds, device, queue, work, &sample)
    }

    fn add_memory_event(&mut self, event: &layout::MemoryEvent) -> Result<()> {
        let sample = Sample { bytes: event.length.get(), ..Sample::default() };
        let (device, queue) = (event.physical_device_ordinal.get(), event.queue_ordinal.get());
        let key =
            Key { event_type: event.event_type.get(), ..Key::new(Kind::MemoryLifecycle, device, queue) };
        self.row(key).add(&sample)
    }

    /// Adds to the rows of the function, the command buffer and the command.
    fn add_work(
        &mut self,
        kinds: [Kind; 3],
        device: u32,
        queue: u32,
        work: Work,
        sample: &Sample,
    ) -> Result<()> {
        let Work { executable, function, command_buffer, command } = work;
        if executable != 0 && function != NONE {
            self.row(Key { executable, function, ..Key::new(kinds[0], device, queue) }).add(sample)?;
        }
        if command_buffer != 0 {
            self.row(Key { command_buffer, ..Key::new(kinds[1], device, queue) }).add(sample)?;
            if command != NONE {
                let key = Key::new(kinds[2], device, queue);
                self.row(Key { executable, function, command_buffer, command, ..key }).add(sample)?;
            }
        }
        Ok(())
    }

    fn row(&mut self, key: Key) -> &mut Totals {
        self.rows.entry(key, || Totals {
            key,
            flags: 0,
            sample_count: 0,
            invalid_sample_count: 0,
            operation_count: 0,
            payload_bytes: 0,
            tile_count: 0,
            tile_duration_sum_ns: 0,
            first_start_time: u64::MAX,
            last_end_time: 0,
            total_duration: 0,
            minimum_duration: u64::MAX,
            maximum_duration: 0,
        })
    }

    /// The name of the function of a row, if the bundle has one.
    pub fn function_name(&self, key: &Key) -> Option<&'a [u8]> {
        self.functions.get(&(key.executable, key.function)).copied().filter(|name| !name.is_empty())
    }

    /// A duration of a row with times in nanoseconds, if the clock is known.
    pub fn ns(&self, totals: &Totals, duration: u64) -> Option<u64> {
        match totals.key.kind.domain() {
            _ if !totals.has_times() => None,
            Domain::None => None,
            Domain::HostTime => Some(duration),
            Domain::DeviceTick => {
                self.clocks.get(&totals.key.device)?.fit_any()?.duration_unsigned_ns(duration)
            }
        }
    }
}

/// The command that an event executed.
#[derive(Clone, Copy)]
struct Work {
    executable: u64,
    function: u32,
    command_buffer: u64,
    command: u32,
}

impl Work {
    fn new(
        executable: zerocopy::little_endian::U64,
        function: zerocopy::little_endian::U32,
        command_buffer: zerocopy::little_endian::U64,
        command: zerocopy::little_endian::U32,
    ) -> Self {
        Self {
            executable: executable.get(),
            function: function.get(),
            command_buffer: command_buffer.get(),
            command: command.get(),
        }
    }
}

fn host_times(start: i64, end: i64) -> Option<(u64, u64)> {
    nanoseconds(start, end).map(|_| (start.unsigned_abs(), end.unsigned_abs()))
}

impl Key {
    fn new(kind: Kind, device: u32, queue: u32) -> Self {
        Self {
            kind,
            device,
            queue,
            event_type: 0,
            executable: 0,
            command_buffer: 0,
            function: NONE,
            command: NONE,
        }
    }

    /// The name of its events' type, if they have one.
    pub fn event_name(&self) -> Option<&'static str> {
        match self.kind {
            Kind::QueueDeviceOperation | Kind::QueueHostOperation | Kind::HostExecutionQueueOperation => {
                Some(QueueEventType(self.event_type).name())
            }
            Kind::MemoryLifecycle => Some(MemoryEventType(self.event_type).name()),
            _ => None,
        }
    }
}

impl Totals {
    fn add(&mut self, sample: &Sample) -> Result<()> {
        add(&mut self.sample_count, 1)?;
        for (total, value, flag) in [
            (&mut self.operation_count, sample.operations, OPERATION_COUNT),
            (&mut self.payload_bytes, sample.bytes, PAYLOAD_BYTES),
            (&mut self.tile_count, sample.tiles, TILE_TOTALS),
        ] {
            if value != 0 {
                add(total, value)?;
                self.flags |= flag;
            }
        }
        if sample.tiles != 0 {
            add(&mut self.tile_duration_sum_ns, sample.tiles_ns)?;
        }
        let Some((start, end)) = sample.times else {
            return add(&mut self.invalid_sample_count, 1);
        };
        let duration = end - start;
        add(&mut self.total_duration, duration)?;
        self.flags |= TIMING;
        self.first_start_time = self.first_start_time.min(start);
        self.last_end_time = self.last_end_time.max(end);
        self.minimum_duration = self.minimum_duration.min(duration);
        self.maximum_duration = self.maximum_duration.max(duration);
        Ok(())
    }

    /// Whether any of its events has times.
    pub fn has_times(&self) -> bool {
        self.flags & TIMING != 0
    }
}

fn print_row(statistics: &Statistics<'_>, totals: &Totals, out: &mut Out<'_>) {
    let (key, has_times) = (&totals.key, totals.has_times());
    let (domain, unit) = match key.kind.domain() {
        Domain::None => ("none", "none"),
        Domain::DeviceTick => ("device_tick", "device_tick"),
        Domain::HostTime => ("iree_host_time_ns", "ns"),
    };
    let times = |value: u64| if has_times { value } else { 0 };
    object!(
        out,
        "statistics_row",
        row_type: key.kind.name(),
        row_type_value: key.kind as u32,
        time_domain: domain,
        time_domain_value: key.kind.domain() as u32,
        duration_unit: unit,
        flags: totals.flags,
        has_timing: has_times,
        has_payload_bytes: totals.flags & PAYLOAD_BYTES != 0,
        has_operation_count: totals.flags & OPERATION_COUNT != 0,
        has_tile_totals: totals.flags & TILE_TOTALS != 0,
        physical_device_ordinal: key.device,
        queue_ordinal: key.queue,
        event_type: key.event_type,
        event_name: key.event_name(),
        executable_id: key.executable,
        command_buffer_id: key.command_buffer,
        function_ordinal: key.function,
        command_index: key.command,
        function_name: statistics.function_name(key),
        totals {
            sample_count, invalid_sample_count, operation_count, payload_bytes, tile_count, tile_duration_sum_ns,
        },
        first_start_time: times(totals.first_start_time),
        last_end_time: times(totals.last_end_time),
        total_duration: totals.total_duration,
        minimum_duration: times(totals.minimum_duration),
        maximum_duration: times(totals.maximum_duration),
        total_duration_ns: statistics.ns(totals, totals.total_duration),
        minimum_duration_ns: statistics.ns(totals, totals.minimum_duration),
        maximum_duration_ns: statistics.ns(totals, totals.maximum_duration),
    );
}
