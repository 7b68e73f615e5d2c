//! Dispatches and queue events, totalled per function, command buffer and queue.

use std::borrow::Cow;
use std::collections::HashMap;

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
    dispatches.merge(options);
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
    /// The executables whose functions are totalled as those of another.
    merged: HashMap<u64, u64>,
    pub device_counts: Counts,
    pub host_counts: Counts,
    pub functions: Table<(u32, FunctionKey), Function<u64>>,
    pub executions: Table<ExecutionKey, Span<u64>>,
    pub submissions: Table<(QueueKey, u64), Span<u64>>,
    pub host_functions: Table<(u32, FunctionKey), Function<i64>>,
    pub host_executions: Table<ExecutionKey, Span<i64>>,
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

/// A time of dispatches: ticks of a device (`u64`), or nanoseconds of the host (`i64`).
pub trait Time: Copy + Ord + Default {
    const MAX: Self;

    fn as_f64(self) -> f64;

    /// Adds to a total, and fails if that overflows.
    fn add_to(self, total: &mut Self) -> Result<()>;
}

/// The dispatches of a function.
pub struct Function<T> {
    pub device: u32,
    pub function: FunctionKey,
    pub count: u64,
    pub invalid: u64,
    minimum: T,
    pub maximum: T,
    pub total: T,
    /// Of the host.
    pub tiles: u64,
    pub tiles_ns: i64,
    pub deviation: Deviation,
    pub workgroup_count: [U32; 3],
    pub workgroup_size: [U32; 3],
}

/// The dispatches of a submission, or of a command buffer in it.
pub struct Span<T> {
    pub command_buffer: u64,
    pub submission: u64,
    pub queue: QueueKey,
    pub count: u64,
    pub valid: u64,
    pub invalid: u64,
    pub start: T,
    pub end: T,
    pub total: T,
    /// Of the host.
    pub tiles: u64,
    pub tiles_ns: i64,
}

/// A dispatch, as totals count it.
struct Timed<T> {
    start: T,
    end: T,
    /// From the start to the end, if these are valid.
    length: Option<T>,
    tiles: u64,
    tiles_ns: i64,
    workgroup_count: [U32; 3],
    workgroup_size: [U32; 3],
}

/// What a dispatch refers to.
struct References {
    queue: QueueKey,
    submission: u64,
    command_buffer: u64,
    function: FunctionKey,
    event: u64,
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

/// The [`References`] of an event in a queue.
macro_rules! references {
    ($event:expr, $queue:expr) => {
        References {
            queue: $queue,
            submission: $event.submission_id.get(),
            command_buffer: $event.command_buffer_id.get(),
            function: ($event.executable_id.get(), $event.function_ordinal.get()),
            event: $event.event_id.get(),
        }
    };
}

impl<'a> Dispatches<'a> {
    /// From now on, totals executables that are loaded again as one, if the options say so. The model must be
    /// complete.
    pub fn merge(&mut self, options: &ReportOptions) {
        if options.merge_executables {
            self.merged = self.model.reloaded();
        }
    }

    /// The function that the dispatches of another are totalled as.
    fn merged(&self, (executable, ordinal): FunctionKey) -> FunctionKey {
        (self.merged.get(&executable).copied().unwrap_or(executable), ordinal)
    }

    /// Adds the events of a record. With `dispatch_events`, each dispatch is printed to `out` instead of
    /// being totalled.
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
        macro_rules! keep {
            ($rows:ident, $what:literal, $kept:ident) => {
                for row in record.rows::<rows::$rows<'_>>() {
                    let event = row?.header;
                    let submission = event.submission_id.get();
                    if selects(event.event_type, submission) {
                        self.model.check_queue($what, queue_of!(event), submission)?;
                        self.$kept.push(event);
                    }
                }
            };
        }
        match content {
            ContentType::QueueEvents => keep!(QueueEvent, "a queue event", queue_events),
            ContentType::QueueDeviceEvents => {
                keep!(QueueDeviceEvent, "a queue event of a device", queue_device_events);
            }
            _ => keep!(HostExecutionEvent, "a host execution", host_events),
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
        let references = references!(event, queue_of!(record.header));
        let Some(key) = self.select("a dispatch", &references, options)? else { return Ok(()) };
        let timed = Timed::by_device(event);
        self.device_counts.match_one(timed.length.is_some());
        let References { queue, submission, function, .. } = references;
        if let Some(ticks) = timed.length {
            keep_longest(&mut self.longest, Longest { queue, ticks, event }, |it| it.ticks);
        }
        if options.dispatch_events {
            if let Some(out) = out {
                print_dispatch(queue, event, &key, timed.length, self.model.clock_fit(queue.0), out);
            }
            return Ok(());
        }
        let function = self.merged(function);
        self.functions.entry((queue.0, function), || Function::new(queue.0, function)).add(&timed)?;
        add_to_execution(&mut self.executions, &references, &timed)?;
        self.submissions.entry((queue, submission), || Span::new(0, submission, queue)).add(&timed)
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
        let references = references!(event, queue_of!(event));
        let Some(key) = self.select("a dispatch on the host", &references, options)? else { return Ok(()) };
        let timed = Timed::by_host(event);
        self.host_counts.match_one(timed.length.is_some());
        if let Some(ns) = timed.length {
            keep_longest(&mut self.longest_host, LongestHost { ns, event }, |it| it.ns);
        }
        if options.dispatch_events {
            if let Some(out) = out {
                print_host_dispatch(event, &key, timed.length, out);
            }
            return Ok(());
        }
        let (device, function) = (references.queue.0, self.merged(references.function));
        self.host_functions.entry((device, function), || Function::new(device, function)).add(&timed)?;
        add_to_execution(&mut self.host_executions, &references, &timed)
    }

    /// The name of a dispatch's function, if the options select it. Fails if the bundle does not describe
    /// what it refers to.
    fn select(
        &self,
        what: &str,
        references: &References,
        options: &ReportOptions,
    ) -> Result<Option<Cow<'a, [u8]>>> {
        let References { queue, submission, command_buffer, function, event } = *references;
        let id = match options.report {
            Report::Executable => function.0,
            Report::Command => command_buffer,
            Report::Queue => submission,
            _ => event,
        };
        if !options.selects_id(&[id]) {
            return Ok(None);
        }
        self.model.check_queue(what, queue, submission)?;
        let needs_command_buffer = options.report == Report::Command && command_buffer != 0;
        if needs_command_buffer && self.model.command_buffers.get(&command_buffer).is_none() {
            return Err(Error::data_loss(format!(
                "{what} of submission {submission} refers to command buffer {command_buffer}, which the bundle does not \
                 describe"
            )));
        }
        let key = self.model.function_key(queue.0, function.0, function.1)?;
        Ok(options.selects(&key).then_some(key))
    }
}

/// Adds a dispatch to the execution of its command buffer, if it has one.
fn add_to_execution<T: Time>(
    executions: &mut Table<ExecutionKey, Span<T>>,
    references: &References,
    timed: &Timed<T>,
) -> Result<()> {
    let References { queue, submission, command_buffer, .. } = *references;
    if command_buffer == 0 {
        return Ok(());
    }
    let make = || Span::new(command_buffer, submission, queue);
    executions.entry((command_buffer, submission, queue), make).add(timed)
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

impl Timed<u64> {
    fn by_device(event: &layout::DispatchEvent) -> Self {
        let (start, end) = (event.start_tick.get(), event.end_tick.get());
        Self {
            start,
            end,
            length: ticks(start, end),
            tiles: 0,
            tiles_ns: 0,
            workgroup_count: event.workgroup_count,
            workgroup_size: event.workgroup_size,
        }
    }
}

impl Timed<i64> {
    fn by_host(event: &layout::HostExecutionEvent) -> Self {
        let (start, end) = (event.start_host_time_ns.get(), event.end_host_time_ns.get());
        Self {
            start,
            end,
            length: nanoseconds(start, end),
            tiles: event.tile_count.get(),
            tiles_ns: event.tile_duration_sum_ns.get(),
            workgroup_count: event.workgroup_count,
            workgroup_size: event.workgroup_size,
        }
    }
}

impl Time for u64 {
    const MAX: Self = Self::MAX;

    fn as_f64(self) -> f64 {
        self as f64
    }

    fn add_to(self, total: &mut Self) -> Result<()> {
        add(total, self)
    }
}

impl Time for i64 {
    const MAX: Self = Self::MAX;

    fn as_f64(self) -> f64 {
        self as f64
    }

    /// Fails for a negative duration, too.
    fn add_to(self, total: &mut Self) -> Result<()> {
        let sum = total.checked_add(self).filter(|_| self >= 0);
        *total =
            sum.ok_or_else(|| Error::out_of_range(format!("a duration of {self} ns cannot be totalled")))?;
        Ok(())
    }
}

impl<T: Time> Function<T> {
    fn new(device: u32, function: FunctionKey) -> Self {
        Self {
            device,
            function,
            count: 0,
            invalid: 0,
            minimum: T::MAX,
            maximum: T::default(),
            total: T::default(),
            tiles: 0,
            tiles_ns: 0,
            deviation: Deviation::default(),
            workgroup_count: Default::default(),
            workgroup_size: Default::default(),
        }
    }

    fn add(&mut self, timed: &Timed<T>) -> Result<()> {
        self.count += 1;
        (self.workgroup_count, self.workgroup_size) = (timed.workgroup_count, timed.workgroup_size);
        let Some(length) = timed.length else {
            self.invalid += 1;
            return Ok(());
        };
        (self.minimum, self.maximum) = (self.minimum.min(length), self.maximum.max(length));
        self.deviation.add(length.as_f64());
        length.add_to(&mut self.total)?;
        timed.tiles_ns.add_to(&mut self.tiles_ns)?;
        timed.tiles.add_to(&mut self.tiles)
    }

    /// Number of dispatches with times.
    pub fn valid(&self) -> u64 {
        self.deviation.count
    }

    /// The shortest dispatch, or zero.
    pub fn minimum(&self) -> T {
        if self.valid() == 0 { T::default() } else { self.minimum }
    }
}

impl Function<u64> {
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

impl<T: Time> Span<T> {
    fn new(command_buffer: u64, submission: u64, queue: QueueKey) -> Self {
        let (count, valid, invalid, tiles, tiles_ns) = (0, 0, 0, 0, 0);
        let (start, end, total) = (T::MAX, T::default(), T::default());
        Self { command_buffer, submission, queue, count, valid, invalid, start, end, total, tiles, tiles_ns }
    }

    fn add(&mut self, timed: &Timed<T>) -> Result<()> {
        self.count += 1;
        let Some(length) = timed.length else {
            self.invalid += 1;
            return Ok(());
        };
        self.valid += 1;
        self.start = self.start.min(timed.start);
        self.end = self.end.max(timed.end);
        length.add_to(&mut self.total)?;
        timed.tiles_ns.add_to(&mut self.tiles_ns)?;
        timed.tiles.add_to(&mut self.tiles)
    }
}

impl Span<u64> {
    /// Ticks from the first start to the last end.
    pub fn ticks(&self) -> f64 {
        self.end.saturating_sub(self.start) as f64
    }

    /// The sum of all dispatches in nanoseconds.
    pub fn total_ns(&self, fit: Option<ClockFit>) -> Option<i64> {
        fit.filter(|_| self.valid != 0)?.duration_ns(self.total)
    }
}

impl Span<i64> {
    /// Nanoseconds from the first start to the last end.
    pub fn ns(&self) -> i64 {
        if self.valid == 0 { 0 } else { self.end - self.start }
    }
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
