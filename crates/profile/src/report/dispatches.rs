//! Dispatches and queue events, totalled per function, command buffer and queue.

use rehal_base::{Error, Result};
use zerocopy::little_endian::U32;

use super::out::{Out, object};
use super::{Deviation, Report, ReportOptions, add, nanoseconds, ticks};
use crate::clock::ClockFit;
use crate::layout;
use crate::model::{FunctionKey, Model, QueueKey, queue_of};
use crate::rows;
use crate::table::Table;
use crate::{Bundle, ContentType, QueueEventType, Record};

/// Number of the longest dispatches that are kept.
const LONGEST: usize = 8;

/// Prints the report `executable`, `dispatch`, `command` or `queue`.
pub fn print(bundle: &Bundle<'_>, options: &ReportOptions, out: &mut Out<'_>) -> Result<()> {
    let mut dispatches = Dispatches { model: super::model(bundle)?, ..Dispatches::default() };
    for record in bundle.records() {
        dispatches.add(&record?, options, Some(&mut *out))?;
        out.check()?;
    }
    if options.dispatch_events {
        super::dispatch::print_summary(&dispatches, options, out);
        return Ok(());
    }
    match options.report {
        Report::Executable => super::executable::print(&dispatches, options, out),
        Report::Command => super::command::print(&dispatches, options, out),
        Report::Queue => super::queue::print(&dispatches, options, out),
        _ => super::dispatch::print(&dispatches, options, out),
    }
}

/// What the reports about dispatches print.
#[derive(Default)]
pub struct Dispatches<'a> {
    pub model: Model<'a>,
    pub device_counts: Counts,
    pub host_counts: Counts,
    pub functions: Table<(u32, FunctionKey), FunctionTicks>,
    pub executions: Table<ExecutionKey, Span>,
    pub submissions: Table<(QueueKey, u64), Span>,
    pub host_functions: Table<(u32, FunctionKey), HostFunction>,
    pub host_executions: Table<ExecutionKey, HostSpan>,
    pub longest: Vec<Longest<'a>>,
    pub longest_host: Vec<LongestHost<'a>>,
    pub queue_events: Vec<&'a layout::QueueEvent>,
    pub queue_device_events: Vec<&'a layout::QueueDeviceEvent>,
    pub host_events: Vec<&'a layout::HostExecutionEvent>,
    /// Chunks of the three kinds of queue events whose producer dropped rows.
    pub truncated_chunks: u64,
    /// The rows that were dropped.
    pub dropped_rows: u64,
}

/// An execution of a command buffer: the command buffer, the submission and the queue.
pub type ExecutionKey = (u64, u64, QueueKey);

/// How many dispatches there are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub total: u64,
    pub matched: u64,
    pub valid: u64,
    pub invalid: u64,
}

/// The dispatches of a function that a device timed.
pub struct FunctionTicks {
    pub device: u32,
    pub function: FunctionKey,
    pub count: u64,
    pub invalid: u64,
    pub minimum: u64,
    pub maximum: u64,
    pub total: u64,
    pub deviation: Deviation,
    pub workgroup_count: [U32; 3],
    pub workgroup_size: [U32; 3],
}

/// The dispatches of a submission, or of a command buffer in it, that a device timed.
pub struct Span {
    pub command_buffer: u64,
    pub submission: u64,
    pub queue: QueueKey,
    pub count: u64,
    pub valid: u64,
    pub invalid: u64,
    pub start: u64,
    pub end: u64,
    pub total: u64,
}

/// The dispatches of a function that the host executed.
pub struct HostFunction {
    pub device: u32,
    pub function: FunctionKey,
    pub count: u64,
    pub invalid: u64,
    pub minimum: i64,
    pub maximum: i64,
    pub total: i64,
    pub tiles: u64,
    pub tiles_ns: i64,
    pub deviation: Deviation,
    pub workgroup_count: [U32; 3],
    pub workgroup_size: [U32; 3],
}

/// The dispatches of a command buffer in a submission that the host executed.
pub struct HostSpan {
    pub command_buffer: u64,
    pub submission: u64,
    pub queue: QueueKey,
    pub count: u64,
    pub valid: u64,
    pub invalid: u64,
    pub start: i64,
    pub end: i64,
    pub total: i64,
    pub tiles: u64,
    pub tiles_ns: i64,
}

/// One of the longest dispatches that a device timed.
#[derive(Clone, Copy)]
pub struct Longest<'a> {
    pub queue: QueueKey,
    pub ticks: u64,
    pub event: &'a layout::DispatchEvent,
}

/// One of the longest dispatches that the host executed.
#[derive(Clone, Copy)]
pub struct LongestHost<'a> {
    pub ns: i64,
    pub event: &'a layout::HostExecutionEvent,
}

impl<'a> Dispatches<'a> {
    /// Adds the events of a record. With `dispatch_events`, each dispatch is printed to `out` instead of being totalled.
    pub fn add(
        &mut self,
        record: &Record<'a>,
        options: &ReportOptions,
        mut out: Option<&mut Out<'_>>,
    ) -> Result<()> {
        if options.report == Report::Queue {
            self.add_queue_events(record, options)?;
        }
        match record.content() {
            Some(ContentType::DispatchEvents) => {
                self.model.clock_mut(record.header.physical_device_ordinal.get());
                for row in record.rows::<rows::DispatchEvent<'_>>() {
                    self.add_dispatch(record, row?.header, options, out.as_deref_mut())?;
                }
            }
            Some(ContentType::HostExecutionEvents) => {
                for row in record.rows::<rows::HostExecutionEvent<'_>>() {
                    self.add_host_dispatch(row?.header, options, out.as_deref_mut())?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds the queue events of a record that the options select by submission and type.
    pub fn add_queue_events(&mut self, record: &Record<'a>, options: &ReportOptions) -> Result<()> {
        let kinds =
            [ContentType::QueueEvents, ContentType::QueueDeviceEvents, ContentType::HostExecutionEvents];
        let Some(content) = record.content().filter(|content| kinds.contains(content)) else { return Ok(()) };
        if record.is_truncated() {
            self.truncated_chunks += 1;
            self.dropped_rows = self.dropped_rows.wrapping_add(record.header.dropped_record_count.get());
        }
        let selects = |event_type: U32, submission: u64| {
            let name = QueueEventType(event_type.get()).name();
            options.selects_id(&[submission]) && options.selects(name.as_bytes())
        };
        match content {
            ContentType::QueueEvents => {
                for row in record.rows::<rows::QueueEvent<'_>>() {
                    let event = row?.header;
                    if selects(event.event_type, event.submission_id.get()) {
                        self.model.check_queue(
                            "a queue event",
                            queue_of!(event),
                            event.submission_id.get(),
                        )?;
                        self.queue_events.push(event);
                    }
                }
            }
            ContentType::QueueDeviceEvents => {
                for row in record.rows::<rows::QueueDeviceEvent<'_>>() {
                    let event = row?.header;
                    if selects(event.event_type, event.submission_id.get()) {
                        let submission = event.submission_id.get();
                        self.model.check_queue("a queue event of a device", queue_of!(event), submission)?;
                        self.queue_device_events.push(event);
                    }
                }
            }
            _ => {
                for row in record.rows::<rows::HostExecutionEvent<'_>>() {
                    let event = row?.header;
                    if selects(event.event_type, event.submission_id.get()) {
                        let submission = event.submission_id.get();
                        self.model.check_queue("a host execution", queue_of!(event), submission)?;
                        self.host_events.push(event);
                    }
                }
            }
        }
        Ok(())
    }

    fn add_dispatch(
        &mut self,
        record: &Record<'a>,
        event: &'a layout::DispatchEvent,
        options: &ReportOptions,
        out: Option<&mut Out<'_>>,
    ) -> Result<()> {
        self.device_counts.total += 1;
        let function = (event.executable_id.get(), event.function_ordinal.get());
        let (submission, command_buffer) = (event.submission_id.get(), event.command_buffer_id.get());
        let id = match options.report {
            Report::Executable => function.0,
            Report::Command => command_buffer,
            Report::Queue => submission,
            _ => event.event_id.get(),
        };
        if !options.selects_id(&[id]) {
            return Ok(());
        }
        let queue = queue_of!(record.header);
        self.check_metadata("a dispatch", queue, submission, command_buffer, options)?;
        let key = self.model.function_key(queue.0, function.0, function.1)?;
        if !options.selects(&key) {
            return Ok(());
        }
        let ticks = ticks(event.start_tick.get(), event.end_tick.get());
        self.device_counts.match_one(ticks.is_some());
        if let Some(ticks) = ticks {
            keep_longest(&mut self.longest, Longest { queue, ticks, event }, |it| it.ticks);
        }
        if options.dispatch_events {
            if let Some(out) = out {
                print_dispatch(queue, event, &key, ticks, self.model.clock_fit(queue.0), out);
            }
            return Ok(());
        }
        self.functions
            .entry((queue.0, function), || FunctionTicks::new(queue.0, function))
            .add(event, ticks)?;
        let span = |command_buffer| move || Span::new(command_buffer, submission, queue);
        if command_buffer != 0 {
            let key = (command_buffer, submission, queue);
            self.executions.entry(key, span(command_buffer)).add(event, ticks)?;
        }
        self.submissions.entry((queue, submission), span(0)).add(event, ticks)
    }

    fn add_host_dispatch(
        &mut self,
        event: &'a layout::HostExecutionEvent,
        options: &ReportOptions,
        out: Option<&mut Out<'_>>,
    ) -> Result<()> {
        if QueueEventType(event.event_type.get()) != QueueEventType::DISPATCH {
            return Ok(());
        }
        self.host_counts.total += 1;
        let function = (event.executable_id.get(), event.function_ordinal.get());
        let (submission, command_buffer) = (event.submission_id.get(), event.command_buffer_id.get());
        let id = match options.report {
            Report::Executable => function.0,
            Report::Command => command_buffer,
            Report::Queue => submission,
            _ => event.event_id.get(),
        };
        if !options.selects_id(&[id]) {
            return Ok(());
        }
        let queue = queue_of!(event);
        self.check_metadata("a dispatch on the host", queue, submission, command_buffer, options)?;
        let key = self.model.function_key(queue.0, function.0, function.1)?;
        if !options.selects(&key) {
            return Ok(());
        }
        let ns = nanoseconds(event.start_host_time_ns.get(), event.end_host_time_ns.get());
        self.host_counts.match_one(ns.is_some());
        if let Some(ns) = ns {
            keep_longest(&mut self.longest_host, LongestHost { ns, event }, |it| it.ns);
        }
        if options.dispatch_events {
            if let Some(out) = out {
                print_host_dispatch(event, &key, ns, out);
            }
            return Ok(());
        }
        self.host_functions
            .entry((queue.0, function), || HostFunction::new(queue.0, function))
            .add(event, ns)?;
        if command_buffer != 0 {
            let key = (command_buffer, submission, queue);
            let make = || HostSpan::new(command_buffer, submission, queue);
            self.host_executions.entry(key, make).add(event, ns)?;
        }
        Ok(())
    }

    fn check_metadata(
        &self,
        event: &str,
        queue: QueueKey,
        submission: u64,
        command_buffer: u64,
        options: &ReportOptions,
    ) -> Result<()> {
        self.model.check_queue(event, queue, submission)?;
        let needs_command_buffer = options.report == Report::Command && command_buffer != 0;
        if needs_command_buffer && self.model.command_buffers.get(&command_buffer).is_none() {
            return Err(Error::data_loss(format!(
                "{event} of submission {submission} refers to command buffer {command_buffer}, which the bundle does not \
                 describe"
            )));
        }
        Ok(())
    }
}

/// Keeps the longest of the events: a longer one replaces the first of the shortest.
fn keep_longest<T, K: Ord>(kept: &mut Vec<T>, event: T, length: impl Fn(&T) -> K) {
    if kept.len() < LONGEST {
        kept.push(event);
    } else if let Some(shortest) = kept.iter_mut().min_by_key(|kept| length(kept))
        && length(&event) > length(shortest)
    {
        *shortest = event;
    }
}

impl Counts {
    fn match_one(&mut self, is_valid: bool) {
        self.matched += 1;
        *(if is_valid { &mut self.valid } else { &mut self.invalid }) += 1;
    }
}

impl FunctionTicks {
    fn new(device: u32, function: FunctionKey) -> Self {
        Self {
            device,
            function,
            count: 0,
            invalid: 0,
            minimum: u64::MAX,
            maximum: 0,
            total: 0,
            deviation: Deviation::default(),
            workgroup_count: Default::default(),
            workgroup_size: Default::default(),
        }
    }

    fn add(&mut self, event: &layout::DispatchEvent, ticks: Option<u64>) -> Result<()> {
        self.count += 1;
        (self.workgroup_count, self.workgroup_size) = (event.workgroup_count, event.workgroup_size);
        let Some(ticks) = ticks else {
            self.invalid += 1;
            return Ok(());
        };
        (self.minimum, self.maximum) = (self.minimum.min(ticks), self.maximum.max(ticks));
        self.deviation.add(ticks as f64);
        add(&mut self.total, ticks)
    }

    /// Number of dispatches with times.
    pub fn valid(&self) -> u64 {
        self.deviation.count
    }

    /// The shortest dispatch, or zero.
    pub fn minimum(&self) -> u64 {
        if self.valid() == 0 { 0 } else { self.minimum }
    }

    /// The shortest, longest and total time in nanoseconds.
    pub fn ns(&self, fit: Option<ClockFit>) -> Option<(i64, i64, i64)> {
        let fit = fit.filter(|_| self.valid() != 0)?;
        Some((fit.duration_ns(self.minimum)?, fit.duration_ns(self.maximum)?, fit.duration_ns(self.total)?))
    }

    /// Ticks of a dispatch on average, by total and number.
    pub fn average(&self) -> f64 {
        if self.valid() == 0 { 0.0 } else { self.total as f64 / self.valid() as f64 }
    }
}

impl Span {
    fn new(command_buffer: u64, submission: u64, queue: QueueKey) -> Self {
        let (count, valid, invalid, total) = (0, 0, 0, 0);
        Self { command_buffer, submission, queue, count, valid, invalid, start: u64::MAX, end: 0, total }
    }

    fn add(&mut self, event: &layout::DispatchEvent, ticks: Option<u64>) -> Result<()> {
        self.count += 1;
        let Some(ticks) = ticks else {
            self.invalid += 1;
            return Ok(());
        };
        self.valid += 1;
        self.start = self.start.min(event.start_tick.get());
        self.end = self.end.max(event.end_tick.get());
        add(&mut self.total, ticks)
    }

    /// Ticks from the first start to the last end.
    pub fn ticks(&self) -> f64 {
        self.end.saturating_sub(self.start) as f64
    }

    /// The sum of all dispatches in nanoseconds.
    pub fn total_ns(&self, fit: Option<ClockFit>) -> Option<i64> {
        fit.filter(|_| self.valid != 0)?.duration_ns(self.total)
    }
}

impl HostFunction {
    fn new(device: u32, function: FunctionKey) -> Self {
        Self {
            device,
            function,
            count: 0,
            invalid: 0,
            minimum: i64::MAX,
            maximum: 0,
            total: 0,
            tiles: 0,
            tiles_ns: 0,
            deviation: Deviation::default(),
            workgroup_count: Default::default(),
            workgroup_size: Default::default(),
        }
    }

    fn add(&mut self, event: &layout::HostExecutionEvent, ns: Option<i64>) -> Result<()> {
        self.count += 1;
        (self.workgroup_count, self.workgroup_size) = (event.workgroup_count, event.workgroup_size);
        let Some(ns) = ns else {
            self.invalid += 1;
            return Ok(());
        };
        (self.minimum, self.maximum) = (self.minimum.min(ns), self.maximum.max(ns));
        self.deviation.add(ns as f64);
        add_ns(&mut self.total, ns)?;
        add_ns(&mut self.tiles_ns, event.tile_duration_sum_ns.get())?;
        add(&mut self.tiles, event.tile_count.get())
    }

    /// Number of dispatches with times.
    pub fn valid(&self) -> u64 {
        self.deviation.count
    }

    /// The shortest dispatch, or zero.
    pub fn minimum(&self) -> i64 {
        if self.valid() == 0 { 0 } else { self.minimum }
    }
}

impl HostSpan {
    fn new(command_buffer: u64, submission: u64, queue: QueueKey) -> Self {
        let (count, valid, invalid, total, tiles, tiles_ns) = (0, 0, 0, 0, 0, 0);
        let (start, end) = (i64::MAX, 0);
        Self { command_buffer, submission, queue, count, valid, invalid, start, end, total, tiles, tiles_ns }
    }

    fn add(&mut self, event: &layout::HostExecutionEvent, ns: Option<i64>) -> Result<()> {
        self.count += 1;
        let Some(ns) = ns else {
            self.invalid += 1;
            return Ok(());
        };
        self.valid += 1;
        self.start = self.start.min(event.start_host_time_ns.get());
        self.end = self.end.max(event.end_host_time_ns.get());
        add_ns(&mut self.total, ns)?;
        add_ns(&mut self.tiles_ns, event.tile_duration_sum_ns.get())?;
        add(&mut self.tiles, event.tile_count.get())
    }

    /// Nanoseconds from the first start to the last end.
    pub fn ns(&self) -> i64 {
        if self.valid == 0 { 0 } else { self.end - self.start }
    }
}

/// Adds to a total of nanoseconds, and fails for a negative duration and where it overflows.
fn add_ns(total: &mut i64, ns: i64) -> Result<()> {
    let sum = total.checked_add(ns).filter(|_| ns >= 0);
    *total = sum.ok_or_else(|| Error::out_of_range(format!("a duration of {ns} ns cannot be totalled")))?;
    Ok(())
}

fn print_dispatch(
    queue: QueueKey,
    event: &layout::DispatchEvent,
    key: &[u8],
    ticks: Option<u64>,
    fit: Option<ClockFit>,
    out: &mut Out<'_>,
) {
    let ns = ticks.and_then(|ticks| fit?.duration_ns(ticks));
    object!(
        out,
        "dispatch_event",
        physical_device_ordinal: queue.0,
        queue_ordinal: queue.1,
        stream_id: queue.2,
        event { event_id, submission_id, command_buffer_id, command_index, executable_id, function_ordinal },
        key: key,
        event { flags, workgroup_count, workgroup_size, start_tick, end_tick },
        duration_ticks: ticks.unwrap_or(0),
        valid: ticks.is_some(),
        clock_fit_available: fit.is_some(),
        device_tick_domain: "device_tick",
        duration_time_domain: "device_tick_duration_ns",
        duration_ns: ns.unwrap_or(0),
    );
}

fn print_host_dispatch(event: &layout::HostExecutionEvent, key: &[u8], ns: Option<i64>, out: &mut Out<'_>) {
    object!(
        out,
        "host_dispatch_event",
        timing_source: "host_execution_event",
        time_domain: "iree_host_time_ns",
        duration_time_domain: "iree_host_duration_ns",
        event {
            physical_device_ordinal, queue_ordinal, stream_id, event_id, submission_id, command_buffer_id, command_index,
            executable_id, function_ordinal,
        },
        key: key,
        event { flags, status_code, workgroup_count, workgroup_size, start_host_time_ns, end_host_time_ns },
        duration_ns: ns.unwrap_or(0),
        valid: ns.is_some(),
        event { tile_count, tile_duration_sum_ns },
    );
}
