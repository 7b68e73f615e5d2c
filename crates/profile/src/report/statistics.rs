//! `statistics`: totals per operation and function.

use std::collections::HashMap;
use std::fmt;

use rehal_base::Result;

use super::numbers::add;
use super::out::{Out, row};
use crate::clock::ClockSamples;
use crate::event::{Event, EventRow, Times};
use crate::layout::NONE;
use crate::rows;
use crate::table::Table;
use crate::{Bundle, ContentType, MemoryEventType, QueueEventType, Record};

pub fn print(bundle: &Bundle<'_>, out: &mut Out<'_>) -> Result<()> {
    let mut statistics = Statistics::default();
    for record in bundle.records() {
        statistics.add(&record?)?;
    }
    statistics.print_summary(out)?;
    statistics.rows.values().iter().for_each(|row| print_row(&statistics, row, out));
    Ok(())
}

/// The events that a row totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
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
    fn domain(self) -> Domain {
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
enum Domain {
    None = 0,
    DeviceTick = 1,
    HostTime = 2,
}

/// The properties that all events of a row share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    kind: Kind,
    device: u32,
    queue: u32,
    event_type: u32,
    executable: u64,
    command_buffer: u64,
    function: u32,
    command: u32,
}

/// The totals of events.
#[derive(Clone, Copy, Debug)]
struct Totals {
    key: Key,
    flags: u32,
    sample_count: u64,
    invalid_sample_count: u64,
    operation_count: u64,
    payload_bytes: u64,
    tile_count: u64,
    tile_duration_sum_ns: u64,
    first_start_time: u64,
    last_end_time: u64,
    total_duration: u64,
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

/// All totals of a bundle.
#[derive(Default)]
struct Statistics<'a> {
    rows: Table<Key, Totals>,
    functions: HashMap<(u64, u32), &'a [u8]>,
    clocks: HashMap<u32, ClockSamples>,
    dropped_rows: u64,
}

impl<'a> Statistics<'a> {
    fn add(&mut self, record: &Record<'a>) -> Result<()> {
        if record.record_type() == crate::RecordType::CHUNK {
            add(&mut self.dropped_rows, record.header.dropped_record_count.get())?;
        }
        match record.content() {
            Some(ContentType::CommandRegionEvents | ContentType::EventRelationships) => Ok(()),
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
            _ => record.for_each_event(|event| self.add_event(&event)),
        }
    }

    fn add_event(&mut self, event: &Event<'_>) -> Result<()> {
        let (device, queue, _) = event.queue;
        let operation = match event.row {
            EventRow::DeviceOperation(_) => Some(Kind::QueueDeviceOperation),
            EventRow::Submission(_) => Some(Kind::QueueHostOperation),
            EventRow::HostExecution(_) => Some(Kind::HostExecutionQueueOperation),
            EventRow::Memory(_) => Some(Kind::MemoryLifecycle),
            _ => None,
        };
        if let Some(kind) = operation {
            let Event { event_type, command_buffer, .. } = *event;
            self.row(Key { event_type, command_buffer, ..Key::new(kind, device, queue) }).add(event)?;
        }
        let [of_function, of_command_buffer, of_command] = match event.row {
            EventRow::Dispatch(..) => {
                [Kind::DispatchFunction, Kind::DispatchCommandBuffer, Kind::DispatchCommandOperation]
            }
            EventRow::HostExecution(_) => [
                Kind::HostExecutionFunction,
                Kind::HostExecutionCommandBuffer,
                Kind::HostExecutionCommandOperation,
            ],
            _ => return Ok(()),
        };
        let Event { executable, function, command_buffer, command, .. } = *event;
        if event.function().is_some() {
            self.row(Key { executable, function, ..Key::new(of_function, device, queue) }).add(event)?;
        }
        if command_buffer != 0 {
            self.row(Key { command_buffer, ..Key::new(of_command_buffer, device, queue) }).add(event)?;
            if command != NONE {
                let key = Key::new(of_command, device, queue);
                self.row(Key { executable, function, command_buffer, command, ..key }).add(event)?;
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
    fn function_name(&self, key: &Key) -> Option<&'a [u8]> {
        self.functions.get(&(key.executable, key.function)).copied().filter(|name| !name.is_empty())
    }

    /// A duration of a row with times in nanoseconds, if the clock is known.
    fn ns(&self, totals: &Totals, duration: u64) -> Option<u64> {
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
    fn event_name(&self) -> Option<&'static str> {
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
    fn add(&mut self, event: &Event<'_>) -> Result<()> {
        add(&mut self.sample_count, 1)?;
        for (total, value, flag) in [
            (&mut self.operation_count, event.operation_count.into(), OPERATION_COUNT),
            (&mut self.payload_bytes, event.bytes, PAYLOAD_BYTES),
            (&mut self.tile_count, event.tile_count, TILE_TOTALS),
        ] {
            if value != 0 {
                add(total, value)?;
                self.flags |= flag;
            }
        }
        if event.tile_count != 0 {
            add(&mut self.tile_duration_sum_ns, u64::try_from(event.tile_duration_ns).unwrap_or(0))?;
        }
        let (start, end) = match event.times.valid() {
            Some(Times::Host(start, end)) if self.key.kind.domain() == Domain::HostTime => {
                (start.unsigned_abs(), end.unsigned_abs())
            }
            Some(Times::Device(start, end)) => (start, end),
            _ => return add(&mut self.invalid_sample_count, 1),
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
    fn has_times(&self) -> bool {
        self.flags & TIMING != 0
    }
}

/// Nanoseconds in a unit that suits them.
struct Duration(u64);

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(ns) = self;
        match ns {
            1_000_000.. => write!(f, "{}.{:03} ms", ns / 1_000_000, ns % 1_000_000 / 1_000),
            1_000.. => write!(f, "{}.{:03} us", ns / 1_000, ns % 1_000),
            _ => write!(f, "{ns} ns"),
        }
    }
}

/// The kinds whose rows the text of the summary adds up.
const SUMMED: [Kind; 5] = [
    Kind::DispatchFunction,
    Kind::HostExecutionFunction,
    Kind::HostExecutionQueueOperation,
    Kind::QueueDeviceOperation,
    Kind::QueueHostOperation,
];

impl Statistics<'_> {
    fn print_summary(&self, out: &mut Out<'_>) -> Result<()> {
        let (mut sums, mut unscaled) = ([0; 5], 0_u64);
        for row in self.rows.values().iter().filter(|_| out.is_text()) {
            let ns = self.ns(row, row.total_duration);
            unscaled += u64::from(row.has_times() && ns.is_none());
            if let Some(at) = SUMMED.iter().position(|kind| *kind == row.key.kind) {
                add(&mut sums[at], ns.unwrap_or(0))?;
            }
        }
        let [dispatches, host_dispatches, host_operations, device_operations, submissions] =
            sums.map(Duration);
        row!(
            out,
            "statistics_summary",
            "\nIREE HAL device statistics:\n{is_empty?  no profiling records captured\n}{is_empty!  \
             aggregate_rows={row_count}\n{dropped_record_count?  dropped_records={dropped_record_count}\n}{row_count?  \
             dispatch_function_total={dispatches}\n  host_execution_function_total={host_dispatches}\n  \
             host_execution_queue_total={host_operations}\n  device_queue_total={device_operations}\n  \
             host_queue_ready_total={submissions}\n{unscaled?  unscaled_timing_rows={unscaled}\n}}}",
            row_count: self.rows.len(),
            dropped_record_count: self.dropped_rows,
            @is_empty: self.rows.len() == 0 && self.dropped_rows == 0,
            @dispatches: dispatches,
            @host_dispatches: host_dispatches,
            @host_operations: host_operations,
            @device_operations: device_operations,
            @submissions: submissions,
            @unscaled: unscaled,
        );
        Ok(())
    }

    /// A duration of a row in a unit that suits it.
    fn shown(&self, totals: &Totals, duration: u64) -> String {
        match self.ns(totals, duration) {
            Some(ns) => Duration(ns).to_string(),
            None if totals.has_times() && totals.key.kind.domain() == Domain::DeviceTick => {
                format!("{duration} ticks")
            }
            None => "-".to_owned(),
        }
    }
}

/// The text of the rows of functions.
const OF_FUNCTION: &str = "  {label} {has_name?{function_name}}{has_name!executable={executable_id} \
    function={function_ordinal}}  count={sample_count} total={total} avg={average}{invalid_sample_count? \
    invalid={invalid_sample_count}}{tile_count? tiles={tile_count} tile_sum={tile_sum}}\n";

/// The text of the rows of queues.
const OF_QUEUE: &str = "  {label} p={physical_device_ordinal} q={queue_ordinal} {event_name}  count={sample_count} \
    total={total} avg={average}{invalid_sample_count? invalid={invalid_sample_count}}{operation_count? \
    operations={operation_count}}{tile_count? tiles={tile_count} tile_sum={tile_sum}}{payload_bytes? \
    payload={payload_bytes}B}\n";

/// The text of the rows of memory.
const OF_MEMORY: &str = "  {label} p={physical_device_ordinal} q={queue_ordinal} {event_name} count={sample_count} \
    bytes={payload_bytes}\n";

fn print_row(statistics: &Statistics<'_>, totals: &Totals, out: &mut Out<'_>) {
    let (key, has_times) = (&totals.key, totals.has_times());
    let (domain, unit) = match key.kind.domain() {
        Domain::None => ("none", "none"),
        Domain::DeviceTick => ("device_tick", "device_tick"),
        Domain::HostTime => ("iree_host_time_ns", "ns"),
    };
    let times = |value: u64| if has_times { value } else { 0 };
    let (label, template) = match key.kind {
        Kind::DispatchFunction => ("dispatch", OF_FUNCTION),
        Kind::HostExecutionFunction => ("host_execute", OF_FUNCTION),
        Kind::HostExecutionQueueOperation => ("host_execute_queue", OF_QUEUE),
        Kind::QueueDeviceOperation => ("device_queue", OF_QUEUE),
        Kind::QueueHostOperation => ("host_queue", OF_QUEUE),
        Kind::MemoryLifecycle => ("memory", OF_MEMORY),
        _ => ("", ""),
    };
    row!(
        out,
        "statistics_row",
        template,
        @label: label,
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
        @has_name: statistics.function_name(key).is_some(),
        totals {
            sample_count, invalid_sample_count, operation_count, payload_bytes, tile_count, tile_duration_sum_ns,
        },
        @tile_sum: Duration(totals.tile_duration_sum_ns),
        @total: statistics.shown(totals, totals.total_duration),
        @average: statistics.shown(totals, totals.total_duration / totals.sample_count.max(1)),
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
