//! `explain`: the bottlenecks of a run, with evidence.

use std::collections::HashMap;

use rehal_base::Result;

use super::dispatches::{Dispatches, Longest, LongestHost};
use super::memory::{DeviceMemory, Memory};
use super::out::{Fixed, Out, fields, object, text};
use super::summary::{Summary, print_failure};
use super::{Report, ReportOptions, add, status_name};
use crate::clock::ClockFit;
use crate::layout;
use crate::model::{DeviceClock, FunctionKey, QueueKey};
use crate::{Bundle, ContentType, DependencyStrategy, MemoryEventType, QueueEventType};

/// Number of functions that are printed.
const TOP_FUNCTIONS: usize = 10;

pub fn print(bundle: &Bundle<'_>, options: &ReportOptions, out: &mut Out<'_>) -> Result<()> {
    let explain = Explain::from_bundle(bundle, options)?;
    let is_text = options.is_text();
    if is_text {
        explain.print_header(out)
    } else {
        explain.print_summary(out)
    }
    explain.print_devices(is_text, out)?;
    explain.print_queues(is_text, out)?;
    explain.print_functions(is_text, out)?;
    explain.print_dispatches(is_text, out)?;
    explain.print_operations(is_text, out);
    explain.print_memory(is_text, out);
    explain.print_hints(is_text, out);
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
        let mut dispatches = Dispatches::default();
        for record in bundle.records() {
            let record = record?;
            summary.add(&record)?;
            dispatches.model.add(&record)?;
        }
        dispatches.merge(options);
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
        dispatches.longest.sort_by_key(|longest| std::cmp::Reverse(longest.ticks));
        dispatches.longest_host.sort_by_key(|longest| std::cmp::Reverse(longest.ns));
        Ok(Self { summary, dispatches, memory })
    }

    fn print_header(&self, out: &mut Out<'_>) {
        let summary = &self.summary;
        text!(
            out,
            "IREE HAL profile explain\nhealth: records={} chunks={} ",
            summary.records,
            summary.chunks
        );
        text!(out, "unknown_records={} ", summary.unknown_records);
        text!(out, "unknown_chunks={} ", summary.unknown_chunks);
        text!(
            out,
            "truncated_chunks={} dropped_records={}\n",
            summary.truncated_chunks,
            summary.dropped_rows
        );
        if let Some(failure) = summary.first_failure {
            text!(out, "session_status: non_ok_session_end={} ", summary.failed_sessions);
            text!(out, "first_session_id={} first_stream_id={} ", failure.session, failure.stream);
            text!(out, "first_event_id={} first_status_code={} ", failure.event, failure.code);
            text!(out, "first_status={}\n", status_name(failure.code));
        }
        let (device, host) = (self.dispatches.device_counts, self.dispatches.host_counts);
        text!(out, "coverage: dispatches={} valid={} ", device.matched, device.valid);
        text!(out, "invalid={} host_dispatches={} ", device.invalid, host.matched);
        text!(out, "valid_host={} invalid_host={} ", host.valid, host.invalid);
        let model = &self.dispatches.model;
        text!(out, "queues={} queue_events={} ", model.queues.len(), self.dispatches.queue_events.len());
        text!(out, "command_buffers={} ", model.command_buffers.len());
        text!(out, "command_operations={} memory_events={}\n", model.operations.len(), self.memory.matched);
    }

    fn print_summary(&self, out: &mut Out<'_>) {
        let (summary, model) = (&self.summary, &self.dispatches.model);
        let (device, host) = (self.dispatches.device_counts, self.dispatches.host_counts);
        let mut object = out.object("explain_summary");
        fields!(
            object,
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
        print_failure(summary.first_failure, &mut object);
        object.end();
    }

    fn print_devices(&self, is_text: bool, out: &mut Out<'_>) -> Result<()> {
        let mut spans: HashMap<u32, (u64, u64)> = HashMap::new();
        for span in self.dispatches.submissions.values().iter().filter(|span| span.valid != 0) {
            let (start, end) = spans.entry(span.queue.0).or_insert((span.start, span.end));
            (*start, *end) = ((*start).min(span.start), (*end).max(span.end));
        }
        let mut totals: HashMap<u32, u64> = HashMap::new();
        for group in self.dispatches.functions.values() {
            add(totals.entry(group.device).or_default(), group.total)?;
        }
        if is_text {
            text!(out, "devices:\n");
        }
        for device in self.dispatches.model.clocks.values() {
            let (start, end) = spans.get(&device.ordinal).copied().unwrap_or_default();
            let total = totals.get(&device.ordinal).copied().unwrap_or_default();
            print_device(device, (end - start) as f64, total, is_text, out);
        }
        Ok(())
    }

    fn print_queues(&self, is_text: bool, out: &mut Out<'_>) -> Result<()> {
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
        if is_text {
            text!(out, "queues:\n");
        }
        let has_gaps = !self.dispatches.queue_events.is_empty();
        for queue in self.dispatches.model.queues.values() {
            let key = crate::model::queue_of!(queue);
            let totals = totals.remove(&key).unwrap_or_default();
            print_queue(key, totals, self.dispatches.model.clock_fit(key.0), has_gaps, is_text, out);
        }
        Ok(())
    }

    /// The functions by total time, the longest first.
    fn ranks(&self) -> Vec<Rank> {
        let dispatches = &self.dispatches;
        let mut ranks = Vec::new();
        if dispatches.device_counts.valid == 0 && dispatches.host_counts.valid != 0 {
            for group in dispatches.host_functions.values().iter().filter(|group| group.valid() != 0) {
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
            for group in dispatches.functions.values().iter().filter(|group| group.valid() != 0) {
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

    fn print_functions(&self, is_text: bool, out: &mut Out<'_>) -> Result<()> {
        if is_text {
            text!(out, "top functions by total dispatch time:\n");
        }
        for (index, rank) in self.ranks().iter().take(TOP_FUNCTIONS).enumerate() {
            let key = self.dispatches.model.function_key(rank.device, rank.function.0, rank.function.1)?;
            if is_text {
                rank.print_text(index + 1, &key, out)
            } else {
                rank.print_jsonl(index + 1, &key, out)
            }
        }
        Ok(())
    }

    fn print_dispatches(&self, is_text: bool, out: &mut Out<'_>) -> Result<()> {
        let dispatches = &self.dispatches;
        if is_text {
            text!(out, "top individual dispatches:\n");
        }
        for (index, longest) in dispatches.longest.iter().enumerate() {
            let (device, event) = (longest.queue.0, longest.event);
            let key = dispatches.model.function_key(
                device,
                event.executable_id.get(),
                event.function_ordinal.get(),
            )?;
            let ns = dispatches.model.clock_fit(device).and_then(|fit| fit.duration_ns(longest.ticks));
            print_longest(index + 1, longest, &key, ns, is_text, out);
        }
        if !dispatches.longest.is_empty() {
            return Ok(());
        }
        for (index, longest) in dispatches.longest_host.iter().enumerate() {
            let (device, event) = (longest.event.physical_device_ordinal.get(), longest.event);
            let key = dispatches.model.function_key(
                device,
                event.executable_id.get(),
                event.function_ordinal.get(),
            )?;
            print_longest_host(index + 1, longest, &key, is_text, out);
        }
        Ok(())
    }

    fn print_operations(&self, is_text: bool, out: &mut Out<'_>) {
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
        let strategies =
            [Strategy::NONE, Strategy::INLINE, Strategy::DEVICE_BARRIER, Strategy::SOFTWARE_DEFER];
        let strategies = strategies.map(strategy);
        let bytes = [Type::COPY, Type::FILL, Type::UPDATE, Type::READ, Type::WRITE].map(bytes);
        let counts =
            [Type::DISPATCH, Type::EXECUTE, Type::ALLOCA, Type::DEALLOCA, Type::HOST_CALL].map(count);
        if is_text {
            let [none, inline, barrier, defer] = strategies;
            text!(out, "queue operations: events={} ", events.len());
            text!(
                out,
                "strategies none/inline/device_barrier/software_defer={none}/{inline}/{barrier}/{defer}\n"
            );
            let [copy, fill, update, read, write] = bytes;
            text!(out, "  transfer_payload_bytes copy/fill/update/read/write=");
            text!(out, "{copy}/{fill}/{update}/{read}/{write}\n");
            let [dispatch, execute, alloca, dealloca, call] = counts;
            text!(out, "  operation_counts dispatch/execute/alloca/dealloca/host_call=");
            text!(out, "{dispatch}/{execute}/{alloca}/{dealloca}/{call}\n");
            return;
        }
        object!(
            out,
            "explain_queue_operations",
            events: events.len(),
            strategy_none: strategies[0],
            strategy_inline: strategies[1],
            strategy_device_barrier: strategies[2],
            strategy_software_defer: strategies[3],
            copy_bytes: bytes[0],
            fill_bytes: bytes[1],
            update_bytes: bytes[2],
            read_bytes: bytes[3],
            write_bytes: bytes[4],
            dispatches: counts[0],
            executes: counts[1],
            allocas: counts[2],
            deallocas: counts[3],
            host_calls: counts[4],
        );
    }

    fn print_memory(&self, is_text: bool, out: &mut Out<'_>) {
        if is_text {
            text!(out, "memory pressure:\n");
        }
        self.memory.devices.values().iter().for_each(|device| print_device_memory(device, is_text, out));
    }

    fn print_hints(&self, is_text: bool, out: &mut Out<'_>) {
        let (summary, dispatches) = (&self.summary, &self.dispatches);
        let has_unknown = summary.unknown_records != 0 || summary.unknown_chunks != 0;
        let (device, host) = (dispatches.device_counts, dispatches.host_counts);
        let has_waits = |device: &DeviceMemory| device.count(MemoryEventType::POOL_WAIT) != 0;
        let has_waits = self.memory.devices.values().iter().any(has_waits);
        if is_text {
            text!(out, "hints:\n");
        }
        print_hint(has_unknown, ["warning", "format", UNKNOWN], is_text, out);
        print_hint(summary.truncated_chunks != 0, ["error", "format", TRUNCATED], is_text, out);
        self.print_failures(is_text, out);
        print_hint(device.invalid != 0, ["warning", "dispatch", INVALID], is_text, out);
        print_hint(host.invalid != 0, ["warning", "dispatch", INVALID_HOST], is_text, out);
        print_hint(dispatches.queue_events.is_empty(), ["info", "queue", NO_QUEUE_EVENTS], is_text, out);
        print_hint(has_waits, ["warning", "memory", WAITS], is_text, out);
        print_hint(device.valid == 0 && host.valid != 0, ["info", "dispatch", HOST_ONLY], is_text, out);
        print_hint(device.valid == 0 && host.valid == 0, ["info", "dispatch", NO_DISPATCHES], is_text, out);
    }

    fn print_failures(&self, is_text: bool, out: &mut Out<'_>) {
        let (Some(failure), count) = (self.summary.first_failure, self.summary.failed_sessions) else {
            return;
        };
        let (code, name) = (failure.code, status_name(failure.code));
        if is_text {
            text!(out, "  [error] session: {count} profiling session end record(s) reported non-OK status; ");
            text!(out, "first session_id={} stream_id={} ", failure.session, failure.stream);
            text!(out, "event_id={} status={name}({code})\n", failure.event);
            return;
        }
        let mut object = out.object("explain_hint");
        fields!(
            object,
            severity: "error",
            category: "session",
            message: "profiling session end records reported non-OK status",
            non_ok_session_end_records: count,
        );
        print_failure(Some(failure), &mut object);
        object.end();
    }
}

/// Prints severity, category and message of a hint that applies.
fn print_hint(applies: bool, hint: [&str; 3], is_text: bool, out: &mut Out<'_>) {
    let [severity, category, message] = hint;
    match (applies, is_text) {
        (false, _) => {}
        (true, true) => text!(out, "  [{severity}] {category}: {message}\n"),
        (true, false) => {
            object!(out, "explain_hint", severity: severity, category: category, message: message);
        }
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

fn print_device(device: &DeviceClock, span: f64, total: u64, is_text: bool, out: &mut Out<'_>) {
    let fit = device.samples.fit();
    let ratio = if span > 0.0 { total as f64 / span } else { 0.0 };
    let total_ns = fit.filter(|_| total != 0).and_then(|fit| fit.duration_ns(total));
    let scale = fit.map_or(0.0, |fit| fit.ns_per_tick());
    let frequency = Fixed(fit.map_or(0.0, |fit| fit.frequency_hz()), 3);
    if is_text {
        text!(out, "  device[{}]: clock_fit={} ", device.ordinal, fit.is_some());
        text!(out, "clock_samples={} visible_span_ticks={} ", device.samples.count, Fixed(span, 3));
        text!(out, "active_dispatch_ticks={total} active_over_visible={}\n", Fixed(ratio, 3));
        if let Some(total_ns) = total_ns {
            text!(out, "    visible_span_ns={} ", Fixed(span * scale, 3));
            text!(out, "active_dispatch_ns={total_ns} tick_frequency_hz={frequency}\n");
        }
        return;
    }
    object!(
        out,
        "explain_device",
        physical_device_ordinal: device.ordinal,
        clock_fit_available: fit.is_some(),
        clock_samples: device.samples.count,
        visible_span_ticks: Fixed(span, 3),
        active_dispatch_ticks: total,
        active_over_visible: Fixed(ratio, 6),
        tick_frequency_hz: frequency,
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

fn print_queue(
    key: QueueKey,
    totals: QueueTotals,
    fit: Option<ClockFit>,
    has_gaps: bool,
    is_text: bool,
    out: &mut Out<'_>,
) {
    let QueueTotals { submissions, valid_submissions: valid, invalid_submissions: invalid, .. } = totals;
    let total_ns = fit.filter(|_| valid != 0).and_then(|fit| fit.duration_ns(totals.total_ticks));
    let scale = fit.map_or(0.0, |fit| fit.ns_per_tick());
    let (busy, total_ticks) = (Busy::from_intervals(totals.intervals), totals.total_ticks);
    let ns = |ticks: f64| Fixed(ticks * scale, 3);
    if is_text {
        let (device, queue, stream) = key;
        text!(out, "  queue device={device} ordinal={queue} stream={stream}: ");
        text!(out, "submissions={submissions} valid={valid} invalid={invalid} ");
        text!(out, "busy_ticks={} total_dispatch_ticks={total_ticks}", Fixed(busy.ticks, 3));
        if let Some(total_ns) = total_ns {
            text!(out, " busy_ns={} total_dispatch_ns={total_ns}", ns(busy.ticks));
        }
        if !has_gaps {
            text!(out, " gaps=unavailable_without_queue_events\n");
            return;
        }
        text!(out, " gaps={} total_gap_ticks={} ", busy.gaps, Fixed(busy.gap_ticks, 3));
        text!(out, "max_gap_ticks={}", Fixed(busy.longest_gap_ticks, 3));
        if fit.is_some() {
            text!(out, " total_gap_ns={} max_gap_ns={}", ns(busy.gap_ticks), ns(busy.longest_gap_ticks));
        }
        text!(out, "\n");
        return;
    }
    let shown = if has_gaps { (busy.gaps, busy.gap_ticks, busy.longest_gap_ticks) } else { (0, 0.0, 0.0) };
    object!(
        out,
        "explain_queue",
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
    /// What functions are ranked by: nanoseconds, or ticks if these are unknown.
    fn score(&self) -> f64 {
        self.ns.map_or(self.total_ticks as f64, |(_, total)| total as f64)
    }

    fn print_text(&self, rank: usize, key: &[u8], out: &mut Out<'_>) {
        text!(out, "  #{rank} ");
        out.name(key);
        let (device, (executable, function)) = (self.device, self.function);
        text!(out, " device={device} executable={executable} function={function} ");
        text!(out, "count={} valid={} invalid={} ", self.count, self.valid, self.invalid);
        text!(out, "timing_source={}", source(self.is_host));
        if self.is_host {
            text!(out, " total_tile_count={} total_tile_duration_sum_ns={}", self.tiles, self.tiles_ns);
        } else {
            text!(out, " total_ticks={} max_ticks={}", self.total_ticks, self.maximum_ticks);
        }
        if let Some((maximum, total)) = self.ns {
            text!(out, " total_ns={total} avg_ns={} max_ns={maximum}", Fixed(self.average_ns, 3));
        }
        text!(out, "\n");
    }

    fn print_jsonl(&self, rank: usize, key: &[u8], out: &mut Out<'_>) {
        let (maximum, total) = self.ns.unwrap_or_default();
        object!(
            out,
            "explain_top_function",
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

fn print_longest(
    rank: usize,
    longest: &Longest<'_>,
    key: &[u8],
    ns: Option<i64>,
    is_text: bool,
    out: &mut Out<'_>,
) {
    let (event, (device, queue, stream)) = (longest.event, longest.queue);
    if is_text {
        text!(out, "  #{rank} event={} submission={} ", event.event_id, event.submission_id);
        out.name(key);
        text!(out, " device={device} queue={queue} stream={stream} timing_source={}", source(false));
        text!(out, " duration_ticks={}", longest.ticks);
        if let Some(ns) = ns {
            text!(out, " duration_ns={ns}");
        }
        text!(out, "\n");
        return;
    }
    object!(
        out,
        "explain_top_dispatch",
        rank: rank,
        event { event_id, submission_id },
        physical_device_ordinal: device,
        queue_ordinal: queue,
        stream_id: stream,
        key: key,
        timing_source: source(false),
        duration_ticks: longest.ticks,
        duration_ns_available: ns.is_some(),
        duration_ns: ns.unwrap_or(0),
        tile_count: 0_u64,
        tile_duration_sum_ns: 0_u64,
    );
}

fn print_longest_host(rank: usize, longest: &LongestHost<'_>, key: &[u8], is_text: bool, out: &mut Out<'_>) {
    let event: &layout::HostExecutionEvent = longest.event;
    if is_text {
        text!(out, "  #{rank} event={} submission={} ", event.event_id, event.submission_id);
        out.name(key);
        text!(out, " device={} queue={} ", event.physical_device_ordinal, event.queue_ordinal);
        text!(out, "stream={} timing_source={} ", event.stream_id, source(true));
        text!(out, "duration_ns={} tile_count={} ", longest.ns, event.tile_count);
        text!(out, "tile_duration_sum_ns={}", event.tile_duration_sum_ns);
        if event.command_buffer_id.get() != 0 {
            text!(out, " command_buffer={} command_index={}", event.command_buffer_id, event.command_index);
        }
        text!(out, "\n");
        return;
    }
    object!(
        out,
        "explain_top_dispatch",
        rank: rank,
        event {
            event_id, submission_id, physical_device_ordinal, queue_ordinal, stream_id, command_buffer_id, command_index,
        },
        key: key,
        timing_source: source(true),
        duration_ticks: 0_u64,
        duration_ns_available: true,
        duration_ns: longest.ns,
        event { tile_count, tile_duration_sum_ns },
    );
}

fn print_device_memory(device: &DeviceMemory, is_text: bool, out: &mut Out<'_>) {
    let waits = device.count(MemoryEventType::POOL_WAIT);
    let (slab, reserved) = (device.slabs.high_water_bytes, device.reservations.high_water_bytes);
    let materialized = device.materializations.high_water_bytes;
    let (inflight, buffer) = (device.queue_allocations.high_water_bytes, device.buffers.high_water_bytes);
    if is_text {
        text!(out, "  device[{}]: slab_high_water={slab} ", device.device);
        text!(out, "pool_reserved_high_water={reserved} pool_materialized_high_water={materialized} ");
        text!(out, "queue_inflight_high_water={inflight} buffer_high_water={buffer} pool_waits={waits}\n");
        return;
    }
    object!(
        out,
        "explain_memory_pressure",
        physical_device_ordinal: device.device,
        slab_high_water_bytes: slab,
        pool_reserved_high_water_bytes: reserved,
        pool_materialized_high_water_bytes: materialized,
        queue_inflight_high_water_bytes: inflight,
        buffer_high_water_bytes: buffer,
        pool_waits: waits,
    );
}
