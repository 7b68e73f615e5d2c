//! `explain`: the bottlenecks of a run, with evidence.

use std::cmp::Reverse;
use std::collections::HashMap;

use rehal_base::Result;

use super::dispatches::Dispatches;
use super::memory::{DeviceMemory, Memory};
use super::numbers::add;
use super::options::{Report, ReportOptions};
use super::out::{Fixed, Out, columns, row};
use super::summary::{Summary, failure_columns};
use crate::clock::ClockFit;
use crate::event::Event;
use crate::model::{DeviceClock, FunctionKey, Model, QueueKey};
use crate::{Bundle, ContentType, DependencyStrategy, MemoryEventType, QueueEventType};

/// Number of functions that are printed.
const TOP_FUNCTIONS: usize = 10;

pub fn print(bundle: &Bundle<'_>, options: &ReportOptions, out: &mut Out<'_>) -> Result<()> {
    let explain = Explain::from_bundle(bundle, options)?;
    explain.print_summary(out);
    out.heading("devices:\n");
    explain.print_devices(out)?;
    out.heading("queues:\n");
    explain.print_queues(out)?;
    out.heading("top functions by total dispatch time:\n");
    explain.print_functions(out)?;
    out.heading("top individual dispatches:\n");
    explain.print_dispatches(out)?;
    explain.print_operations(out);
    out.heading("memory pressure:\n");
    explain.memory.devices.values().iter().for_each(|device| print_device_memory(device, out));
    out.heading("hints:\n");
    explain.print_hints(out);
    Ok(())
}

/// All that the report is about.
struct Explain<'a> {
    summary: Summary,
    dispatches: Dispatches<'a>,
    memory: Memory,
}

/// The dispatches of a queue.
#[derive(Default)]
struct QueueTotals {
    submissions: u64,
    valid_submissions: u64,
    invalid_submissions: u64,
    total_ticks: u64,
    /// From the first start to the last end of each submission.
    intervals: Vec<(u64, u64)>,
}

/// The time in which a queue is busy, and the gaps in it.
#[derive(Default)]
struct Busy {
    ticks: f64,
    gaps: u64,
    gap_ticks: f64,
    longest_gap_ticks: f64,
}

/// The dispatches of a function on a device.
struct Rank {
    is_host: bool,
    device: u32,
    function: FunctionKey,
    count: u64,
    valid: u64,
    invalid: u64,
    maximum_ticks: u64,
    total_ticks: u64,
    tiles: u64,
    tiles_ns: i64,
    average_ns: f64,
    /// Longest and total time, if they are known in nanoseconds.
    ns: Option<(i64, i64)>,
}

impl<'a> Explain<'a> {
    fn from_bundle(bundle: &Bundle<'a>, options: &ReportOptions) -> Result<Self> {
        let mut summary = Summary::default();
        let mut model = Model::default();
        for record in bundle.records() {
            let record = record?;
            summary.add(&record)?;
            model.add(&record)?;
        }
        let mut dispatches = Dispatches::new(model, options);
        let mut memory = Memory::default();
        let all = ReportOptions::default();
        let by_event = ReportOptions { report: Report::Dispatch, ..options.clone() };
        for record in bundle.records() {
            let record = record?;
            dispatches.add(&record, &by_event, None)?;
            if record.content() == Some(ContentType::QueueEvents) {
                dispatches.add_queue_events(&record, &all)?;
            }
            memory.add(&record, &all, None)?;
        }
        dispatches.device.longest.sort_by_key(|longest| Reverse(longest.length));
        dispatches.host.longest.sort_by_key(|longest| Reverse(longest.length));
        Ok(Self { summary, dispatches, memory })
    }

    fn print_summary(&self, out: &mut Out<'_>) {
        let (summary, model) = (&self.summary, &self.dispatches.model);
        let (device, host) = (self.dispatches.device.counts, self.dispatches.host.counts);
        let mut row = out.row(
            "explain_summary",
            "IREE HAL profile explain\nhealth: records={file_records} chunks={chunk_records} \
             unknown_records={unknown_records} unknown_chunks={unknown_chunks} truncated_chunks={truncated_chunks} \
             dropped_records={dropped_records}\n{first_non_ok_status?session_status: \
             non_ok_session_end={non_ok_session_end_records} first_session_id={first_non_ok_session_id} \
             first_stream_id={first_non_ok_stream_id} first_event_id={first_non_ok_event_id} \
             first_status_code={first_non_ok_status_code} first_status={first_non_ok_status}\n}coverage: \
             dispatches={dispatches} valid={valid_dispatches} invalid={invalid_dispatches} \
             host_dispatches={host_dispatches} valid_host={valid_host_dispatches} invalid_host={invalid_host_dispatches} \
             queues={queues} queue_events={queue_events} command_buffers={command_buffers} \
             command_operations={command_operations} memory_events={memory_events}\n",
        );
        columns!(
            row,
            file_records: summary.records,
            chunk_records: summary.chunks,
            unknown_records: summary.unknown_records,
            unknown_chunks: summary.unknown_chunks,
            truncated_chunks: summary.truncated_chunks,
            dropped_records: summary.dropped_rows,
            non_ok_session_end_records: summary.failed_sessions,
            dispatches: device.matched,
            valid_dispatches: device.valid,
            invalid_dispatches: device.invalid,
            host_dispatches: host.matched,
            valid_host_dispatches: host.valid,
            invalid_host_dispatches: host.invalid,
            queues: model.queues.len(),
            queue_events: self.dispatches.queue_events.len(),
            command_buffers: model.command_buffers.len(),
            command_operations: model.operations.len(),
            memory_events: self.memory.matched,
        );
        failure_columns(summary.first_failure, &mut row);
        row.end();
    }

    fn print_devices(&self, out: &mut Out<'_>) -> Result<()> {
        let mut spans: HashMap<u32, (u64, u64)> = HashMap::new();
        for span in self.dispatches.submissions.values().iter().filter(|span| span.valid != 0) {
            let (start, end) = spans.entry(span.queue.0).or_insert((span.start, span.end));
            (*start, *end) = ((*start).min(span.start), (*end).max(span.end));
        }
        let mut totals: HashMap<u32, u64> = HashMap::new();
        for group in self.dispatches.device.functions.values() {
            add(totals.entry(group.device).or_default(), group.total)?;
        }
        for device in self.dispatches.model.clocks.values() {
            let (start, end) = spans.get(&device.ordinal).copied().unwrap_or_default();
            let total = totals.get(&device.ordinal).copied().unwrap_or_default();
            print_device(device, (end - start) as f64, total, out);
        }
        Ok(())
    }

    fn print_queues(&self, out: &mut Out<'_>) -> Result<()> {
        let mut totals: HashMap<QueueKey, QueueTotals> = HashMap::new();
        for span in self.dispatches.submissions.values() {
            let queue = totals.entry(span.queue).or_default();
            queue.submissions += 1;
            add(&mut queue.total_ticks, span.total)?;
            if span.valid != 0 {
                queue.valid_submissions += 1;
                queue.intervals.push((span.start, span.end));
            }
            queue.invalid_submissions += u64::from(span.invalid != 0);
        }
        let has_gaps = !self.dispatches.queue_events.is_empty();
        for queue in self.dispatches.model.queues.values() {
            let key = crate::model::queue_of!(queue);
            let totals = totals.remove(&key).unwrap_or_default();
            print_queue(key, totals, self.dispatches.model.clock_fit(key.0), has_gaps, out);
        }
        Ok(())
    }

    /// The functions by total time, the longest first.
    fn ranks(&self) -> Vec<Rank> {
        let dispatches = &self.dispatches;
        let mut ranks = Vec::new();
        if dispatches.device.counts.valid == 0 && dispatches.host.counts.valid != 0 {
            for group in dispatches.host.functions.values().iter().filter(|group| group.valid() != 0) {
                ranks.push(Rank {
                    is_host: true,
                    device: group.device,
                    function: group.function,
                    count: group.count,
                    valid: group.valid(),
                    invalid: group.invalid,
                    maximum_ticks: 0,
                    total_ticks: 0,
                    tiles: group.tiles,
                    tiles_ns: group.tiles_ns,
                    average_ns: group.deviation.mean,
                    ns: Some((group.maximum, group.total)),
                });
            }
        } else {
            for group in dispatches.device.functions.values().iter().filter(|group| group.valid() != 0) {
                let fit = dispatches.model.clock_fit(group.device);
                let ns = fit
                    .and_then(|fit| Some((fit.duration_ns(group.maximum)?, fit.duration_ns(group.total)?)));
                let scale = fit.filter(|_| ns.is_some()).map_or(0.0, |fit| fit.ns_per_tick());
                ranks.push(Rank {
                    is_host: false,
                    device: group.device,
                    function: group.function,
                    count: group.count,
                    valid: group.valid(),
                    invalid: group.invalid,
                    maximum_ticks: group.maximum,
                    total_ticks: group.total,
                    tiles: 0,
                    tiles_ns: 0,
                    average_ns: group.deviation.mean * scale,
                    ns,
                });
            }
        }
        ranks.sort_by(|a, b| b.score().total_cmp(&a.score()));
        ranks
    }

    fn print_functions(&self, out: &mut Out<'_>) -> Result<()> {
        for (index, rank) in self.ranks().iter().take(TOP_FUNCTIONS).enumerate() {
            let key = self.dispatches.model.function_key(rank.device, rank.function.0, rank.function.1)?;
            rank.print(index + 1, &key, out);
        }
        Ok(())
    }

    fn print_dispatches(&self, out: &mut Out<'_>) -> Result<()> {
        let dispatches = &self.dispatches;
        for (index, longest) in dispatches.device.longest.iter().enumerate() {
            let ns = dispatches.model.clock_fit(longest.event.queue.0);
            let ns = ns.and_then(|fit| fit.duration_ns(longest.length));
            self.print_longest(index + 1, &longest.event, longest.length, ns, out)?;
        }
        if dispatches.device.longest.is_empty() {
            for (index, longest) in dispatches.host.longest.iter().enumerate() {
                self.print_longest(index + 1, &longest.event, 0, Some(longest.length), out)?;
            }
        }
        Ok(())
    }

    fn print_longest(
        &self,
        rank: usize,
        event: &Event<'_>,
        ticks: u64,
        ns: Option<i64>,
        out: &mut Out<'_>,
    ) -> Result<()> {
        let is_host = event.is_host_dispatch();
        let (device, queue, stream) = event.queue;
        let key = self.dispatches.model.function_key(device, event.executable, event.function)?;
        let mut row = out.row(
            "explain_top_dispatch",
            "  #{rank} event={event_id} submission={submission_id} {key} device={physical_device_ordinal} \
             queue={queue_ordinal} stream={stream_id} timing_source={timing_source}{is_host! \
             duration_ticks={duration_ticks}}{duration_ns_available? duration_ns={duration_ns}}{is_host? \
             tile_count={tile_count} tile_duration_sum_ns={tile_duration_sum_ns}}{command_buffer_id? \
             command_buffer={command_buffer_id} command_index={command_index}}\n",
        );
        columns!(
            row,
            rank: rank,
            event_id: event.id,
            submission_id: event.submission,
            physical_device_ordinal: device,
            queue_ordinal: queue,
            stream_id: stream,
            @is_host: is_host,
        );
        if is_host {
            columns!(row, command_buffer_id: event.command_buffer, command_index: event.command);
        }
        columns!(
            row,
            key: key,
            timing_source: source(is_host),
            duration_ticks: ticks,
            duration_ns_available: ns.is_some(),
            duration_ns: ns.unwrap_or(0),
            tile_count: event.tile_count,
            tile_duration_sum_ns: event.tile_duration_ns,
        );
        row.end();
        Ok(())
    }

    fn print_operations(&self, out: &mut Out<'_>) {
        let events = &self.dispatches.queue_events;
        let of_type = |event_type: QueueEventType| {
            events.iter().filter(move |event| event.event_type.get() == event_type.0)
        };
        let count = |event_type| of_type(event_type).count();
        let bytes = |event_type| {
            of_type(event_type).fold(0_u64, |sum, event| sum.wrapping_add(event.payload_length.get()))
        };
        let strategy = |strategy: DependencyStrategy| {
            events.iter().filter(|event| event.dependency_strategy.get() == strategy.0).count()
        };
        use DependencyStrategy as Strategy;
        use QueueEventType as Type;
        row!(
            out,
            "explain_queue_operations",
            "queue operations: events={events} strategies none/inline/device_barrier/software_defer={strategy_none}/\
             {strategy_inline}/{strategy_device_barrier}/{strategy_software_defer}\n  transfer_payload_bytes \
             copy/fill/update/read/write={copy_bytes}/{fill_bytes}/{update_bytes}/{read_bytes}/{write_bytes}\n  \
             operation_counts dispatch/execute/alloca/dealloca/host_call=\
             {dispatches}/{executes}/{allocas}/{deallocas}/{host_calls}\n",
            events: events.len(),
            strategy_none: strategy(Strategy::NONE),
            strategy_inline: strategy(Strategy::INLINE),
            strategy_device_barrier: strategy(Strategy::DEVICE_BARRIER),
            strategy_software_defer: strategy(Strategy::SOFTWARE_DEFER),
            copy_bytes: bytes(Type::COPY),
            fill_bytes: bytes(Type::FILL),
            update_bytes: bytes(Type::UPDATE),
            read_bytes: bytes(Type::READ),
            write_bytes: bytes(Type::WRITE),
            dispatches: count(Type::DISPATCH),
            executes: count(Type::EXECUTE),
            allocas: count(Type::ALLOCA),
            deallocas: count(Type::DEALLOCA),
            host_calls: count(Type::HOST_CALL),
        );
    }

    fn print_hints(&self, out: &mut Out<'_>) {
        let (summary, dispatches) = (&self.summary, &self.dispatches);
        let has_unknown = summary.unknown_records != 0 || summary.unknown_chunks != 0;
        let (device, host) = (dispatches.device.counts, dispatches.host.counts);
        let has_waits = |device: &DeviceMemory| device.count(MemoryEventType::POOL_WAIT) != 0;
        let has_waits = self.memory.devices.values().iter().any(has_waits);
        print_hint(has_unknown, ["warning", "format", UNKNOWN], out);
        print_hint(summary.truncated_chunks != 0, ["error", "format", TRUNCATED], out);
        self.print_failures(out);
        print_hint(device.invalid != 0, ["warning", "dispatch", INVALID], out);
        print_hint(host.invalid != 0, ["warning", "dispatch", INVALID_HOST], out);
        print_hint(dispatches.queue_events.is_empty(), ["info", "queue", NO_QUEUE_EVENTS], out);
        print_hint(has_waits, ["warning", "memory", WAITS], out);
        print_hint(device.valid == 0 && host.valid != 0, ["info", "dispatch", HOST_ONLY], out);
        print_hint(device.valid == 0 && host.valid == 0, ["info", "dispatch", NO_DISPATCHES], out);
    }

    fn print_failures(&self, out: &mut Out<'_>) {
        let (Some(failure), count) = (self.summary.first_failure, self.summary.failed_sessions) else {
            return;
        };
        let mut row = out.row(
            "explain_hint",
            "  [{severity}] {category}: {non_ok_session_end_records} profiling session end record(s) reported non-OK \
             status; first session_id={first_non_ok_session_id} stream_id={first_non_ok_stream_id} \
             event_id={first_non_ok_event_id} status={first_non_ok_status}({first_non_ok_status_code})\n",
        );
        columns!(
            row,
            severity: "error",
            category: "session",
            message: "profiling session end records reported non-OK status",
            non_ok_session_end_records: count,
        );
        failure_columns(Some(failure), &mut row);
        row.end();
    }
}

/// Prints severity, category and message of a hint that applies.
fn print_hint(applies: bool, hint: [&str; 3], out: &mut Out<'_>) {
    let [severity, category, message] = hint;
    if applies {
        row!(
            out,
            "explain_hint",
            "  [{severity}] {category}: {message}\n",
            severity: severity,
            category: category,
            message: message,
        );
    }
}

const UNKNOWN: &str =
    "unknown records or chunks were present; newer producer data may be missing from this analysis";
const TRUNCATED: &str = "truncated chunks were present; timing and lifecycle totals may be incomplete";
const INVALID: &str =
    "some dispatch events had missing or reversed timestamps and were excluded from timing totals";
const INVALID_HOST: &str = "some host execution dispatch spans had missing or reversed timestamps and were excluded from timing totals";
const NO_QUEUE_EVENTS: &str = "queue event records are absent; queue dependency and gap hints are limited to dispatch timestamp intervals";
const WAITS: &str =
    "pool wait events were observed; allocation readiness affected the captured queue schedule";
const HOST_ONLY: &str =
    "device dispatch events are absent; top dispatch analysis is using host execution dispatch spans";
const NO_DISPATCHES: &str = "no valid dispatch events were captured; enable queue profiling on a producer that emits device timestamps";

fn print_device(device: &DeviceClock, span: f64, total: u64, out: &mut Out<'_>) {
    let fit = device.samples.fit();
    let ratio = if span > 0.0 { total as f64 / span } else { 0.0 };
    let total_ns = fit.filter(|_| total != 0).and_then(|fit| fit.duration_ns(total));
    let scale = fit.map_or(0.0, |fit| fit.ns_per_tick());
    row!(
        out,
        "explain_device",
        "  device[{physical_device_ordinal}]: clock_fit={clock_fit_available} clock_samples={clock_samples} \
         visible_span_ticks={visible_span_ticks} active_dispatch_ticks={active_dispatch_ticks} \
         active_over_visible={short_ratio}\n{active_dispatch_time_ns_available?    visible_span_ns={visible_span_ns} \
         active_dispatch_ns={active_dispatch_ns} tick_frequency_hz={tick_frequency_hz}\n}",
        @short_ratio: Fixed(ratio, 3),
        physical_device_ordinal: device.ordinal,
        clock_fit_available: fit.is_some(),
        clock_samples: device.samples.count,
        visible_span_ticks: Fixed(span, 3),
        active_dispatch_ticks: total,
        active_over_visible: Fixed(ratio, 6),
        tick_frequency_hz: Fixed(fit.map_or(0.0, |fit| fit.frequency_hz()), 3),
        visible_span_ns: Fixed(span * scale, 3),
        active_dispatch_time_ns_available: total_ns.is_some(),
        active_dispatch_ns: total_ns.unwrap_or(0),
    );
}

impl Busy {
    /// The union of intervals.
    fn from_intervals(mut intervals: Vec<(u64, u64)>) -> Self {
        intervals.sort_unstable();
        let mut busy = Self::default();
        let mut intervals = intervals.into_iter();
        let Some((mut start, mut end)) = intervals.next() else { return busy };
        for (next_start, next_end) in intervals {
            if next_start <= end {
                end = end.max(next_end);
                continue;
            }
            busy.ticks += (end - start) as f64;
            let gap = (next_start - end) as f64;
            busy.gaps += 1;
            busy.gap_ticks += gap;
            busy.longest_gap_ticks = busy.longest_gap_ticks.max(gap);
            (start, end) = (next_start, next_end);
        }
        busy.ticks += (end - start) as f64;
        busy
    }
}

fn print_queue(key: QueueKey, totals: QueueTotals, fit: Option<ClockFit>, has_gaps: bool, out: &mut Out<'_>) {
    let QueueTotals { submissions, valid_submissions: valid, invalid_submissions: invalid, .. } = totals;
    let total_ns = fit.filter(|_| valid != 0).and_then(|fit| fit.duration_ns(totals.total_ticks));
    let scale = fit.map_or(0.0, |fit| fit.ns_per_tick());
    let (busy, total_ticks) = (Busy::from_intervals(totals.intervals), totals.total_ticks);
    let ns = |ticks: f64| Fixed(ticks * scale, 3);
    let shown = if has_gaps { (busy.gaps, busy.gap_ticks, busy.longest_gap_ticks) } else { (0, 0.0, 0.0) };
    row!(
        out,
        "explain_queue",
        "  queue device={physical_device_ordinal} ordinal={queue_ordinal} stream={stream_id}: submissions={submissions} \
         valid={valid_submissions} invalid={invalid_submissions} busy_ticks={busy_ticks} \
         total_dispatch_ticks={total_dispatch_ticks}{total_dispatch_time_ns_available? busy_ns={busy_ns} \
         total_dispatch_ns={total_dispatch_ns}} {gap_analysis_available!gaps=unavailable_without_queue_events\n\
         }{gap_analysis_available?gaps={gaps} total_gap_ticks={total_gap_ticks} \
         max_gap_ticks={max_gap_ticks}{clock_fit_available? total_gap_ns={total_gap_ns} max_gap_ns={max_gap_ns}}\n}",
        physical_device_ordinal: key.0,
        queue_ordinal: key.1,
        stream_id: key.2,
        submissions: submissions,
        valid_submissions: valid,
        invalid_submissions: invalid,
        busy_ticks: Fixed(busy.ticks, 3),
        total_dispatch_ticks: total_ticks,
        clock_fit_available: fit.is_some(),
        busy_ns: ns(busy.ticks),
        total_dispatch_time_ns_available: total_ns.is_some(),
        total_dispatch_ns: total_ns.unwrap_or(0),
        gap_analysis_available: has_gaps,
        gaps: shown.0,
        total_gap_ticks: Fixed(shown.1, 3),
        max_gap_ticks: Fixed(shown.2, 3),
        total_gap_ns: ns(shown.1),
        max_gap_ns: ns(shown.2),
    );
}

fn source(is_host: bool) -> &'static str {
    if is_host { "host_execution_event" } else { "device_dispatch_event" }
}

impl Rank {
    /// The key by which functions are ranked: nanoseconds, or ticks if these are unknown.
    fn score(&self) -> f64 {
        self.ns.map_or(self.total_ticks as f64, |(_, total)| total as f64)
    }

    fn print(&self, rank: usize, key: &[u8], out: &mut Out<'_>) {
        let (maximum, total) = self.ns.unwrap_or_default();
        row!(
            out,
            "explain_top_function",
            "  #{rank} {key} device={physical_device_ordinal} executable={executable_id} function={function_ordinal} \
             count={dispatches} valid={valid} invalid={invalid} timing_source={timing_source}{is_host? \
             total_tile_count={total_tile_count} total_tile_duration_sum_ns={total_tile_duration_sum_ns}}{is_host! \
             total_ticks={total_ticks} max_ticks={max_ticks}}{duration_ns_available? total_ns={total_ns} \
             avg_ns={avg_ns} max_ns={max_ns}}\n",
            @is_host: self.is_host,
            rank: rank,
            physical_device_ordinal: self.device,
            executable_id: self.function.0,
            function_ordinal: self.function.1,
            key: key,
            dispatches: self.count,
            valid: self.valid,
            invalid: self.invalid,
            total_ticks: self.total_ticks,
            max_ticks: self.maximum_ticks,
            timing_source: source(self.is_host),
            duration_ns_available: self.ns.is_some(),
            total_ns: total,
            avg_ns: Fixed(self.average_ns, 3),
            max_ns: maximum,
            total_tile_count: self.tiles,
            total_tile_duration_sum_ns: self.tiles_ns,
        );
    }
}

fn print_device_memory(device: &DeviceMemory, out: &mut Out<'_>) {
    row!(
        out,
        "explain_memory_pressure",
        "  device[{physical_device_ordinal}]: slab_high_water={slab_high_water_bytes} \
         pool_reserved_high_water={pool_reserved_high_water_bytes} \
         pool_materialized_high_water={pool_materialized_high_water_bytes} \
         queue_inflight_high_water={queue_inflight_high_water_bytes} buffer_high_water={buffer_high_water_bytes} \
         pool_waits={pool_waits}\n",
        physical_device_ordinal: device.device,
        slab_high_water_bytes: device.slabs.high_water_bytes,
        pool_reserved_high_water_bytes: device.reservations.high_water_bytes,
        pool_materialized_high_water_bytes: device.materializations.high_water_bytes,
        queue_inflight_high_water_bytes: device.queue_allocations.high_water_bytes,
        buffer_high_water_bytes: device.buffers.high_water_bytes,
        pool_waits: device.count(MemoryEventType::POOL_WAIT),
    );
}
