//! Dispatches and queue events, totalled per function, command buffer and queue.

use std::borrow::Cow;
use std::collections::HashMap;

use rehal_base::{Error, Result};
use zerocopy::little_endian::U32;

use super::numbers::{Deviation, add};
use super::options::{Report, ReportOptions};
use super::out::{Out, row};
use crate::clock::ClockFit;
use crate::event::{Event, EventRow, Times, nanoseconds, ticks};
use crate::layout;
use crate::model::{FunctionKey, Model, QueueKey, queue_of};
use crate::rows;
use crate::table::Table;
use crate::{ContentType, QueueEventType, Record};

/// Number of the longest dispatches that are kept.
const LONGEST: usize = 8;

/// The totals and events that the reports about dispatches print.
#[derive(Default)]
pub struct Dispatches<'a> {
    pub model: Model<'a>,
    /// The executables whose functions are totalled as those of another.
    merged: HashMap<u64, u64>,
    pub device: Totals<'a, u64>,
    pub host: Totals<'a, i64>,
    pub submissions: Table<(QueueKey, u64), Span<u64>>,
    pub queue_events: Vec<&'a layout::QueueEvent>,
    pub queue_device_events: Vec<&'a layout::QueueDeviceEvent>,
    pub host_events: Vec<&'a layout::HostExecutionEvent>,
    /// Chunks of the three kinds of queue events whose producer dropped rows.
    pub truncated_chunks: u64,
    /// The rows that were dropped.
    pub dropped_rows: u64,
}

/// The dispatches that devices timed, or those that the host executed.
#[derive(Default)]
pub struct Totals<'a, T> {
    pub counts: Counts,
    pub functions: Table<(u32, FunctionKey), Function<T>>,
    pub executions: Table<ExecutionKey, Span<T>>,
    pub longest: Vec<Longest<'a, T>>,
}

/// One of the longest dispatches.
#[derive(Clone, Copy)]
pub struct Longest<'a, T> {
    pub length: T,
    pub event: Event<'a>,
}

/// An execution of a command buffer: the command buffer, the submission and the queue.
pub type ExecutionKey = (u64, u64, QueueKey);

/// Numbers of dispatches.
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

    /// The start and the end of an event, and its length if these are valid.
    fn of(event: &Event<'_>) -> (Self, Self, Option<Self>);

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

impl<'a> Dispatches<'a> {
    /// No totals yet. Executables that are loaded again are totalled as one, if the options say so.
    pub fn new(model: Model<'a>, options: &ReportOptions) -> Self {
        let merged = if options.merge_executables { model.reloaded() } else { HashMap::new() };
        Self { model, merged, ..Self::default() }
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
            }
            Some(ContentType::HostExecutionEvents) => {}
            _ => return Ok(()),
        }
        record.for_each_event(|event| self.add_event(&event, options, out.as_deref_mut()))
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

    fn add_event(
        &mut self,
        event: &Event<'a>,
        options: &ReportOptions,
        mut out: Option<&mut Out<'_>>,
    ) -> Result<()> {
        let what = match event.row {
            EventRow::Dispatch(..) => "a dispatch",
            _ if event.is_host_dispatch() => "a dispatch on the host",
            _ => return Ok(()),
        };
        let total = if event.is_host_dispatch() { &mut self.host.counts } else { &mut self.device.counts };
        total.total += 1;
        let Some(key) = self.select(what, event, options)? else { return Ok(()) };
        let executable = self.merged.get(&event.executable).copied().unwrap_or(event.executable);
        let function = (!options.dispatch_events).then_some((executable, event.function));
        match event.row {
            EventRow::Dispatch(row, queue) => {
                let ticks = self.device.add(event, function)?;
                if function.is_some() {
                    let make = || Span::new(0, event.submission, queue);
                    return self.submissions.entry((queue, event.submission), make).add(event);
                }
                if let Some(out) = &mut out {
                    print_dispatch(queue, row, &key, ticks, self.model.clock_fit(queue.0), out);
                }
            }
            EventRow::HostExecution(row) => {
                let ns = self.host.add(event, function)?;
                if let Some(out) = out.filter(|_| function.is_none()) {
                    print_host_dispatch(row, &key, ns, out);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The name of a dispatch's function, if the options select it. Fails if the bundle does not describe
    /// what it refers to.
    fn select(
        &self,
        what: &str,
        event: &Event<'a>,
        options: &ReportOptions,
    ) -> Result<Option<Cow<'a, [u8]>>> {
        let Event { queue, submission, command_buffer, executable, .. } = *event;
        let id = match options.report {
            Report::Executable => executable,
            Report::Command => command_buffer,
            Report::Queue => submission,
            _ => event.id,
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
        let key = self.model.function_key(queue.0, executable, event.function)?;
        Ok(options.selects(&key).then_some(key))
    }
}

impl<'a, T: Time> Totals<'a, T> {
    /// Adds a dispatch, to the totals of a function if there is one. Returns its length, if its times are
    /// valid.
    fn add(&mut self, event: &Event<'a>, function: Option<FunctionKey>) -> Result<Option<T>> {
        let (.., length) = T::of(event);
        self.counts.match_one(length.is_some());
        if let Some(length) = length {
            keep_longest(&mut self.longest, Longest { length, event: *event });
        }
        if let Some(function) = function {
            let device = event.queue.0;
            self.functions.entry((device, function), || Function::new(device, function)).add(event)?;
            let Event { queue, submission, command_buffer, .. } = *event;
            if command_buffer != 0 {
                let make = || Span::new(command_buffer, submission, queue);
                self.executions.entry((command_buffer, submission, queue), make).add(event)?;
            }
        }
        Ok(length)
    }
}

/// Keeps the longest of the events: a longer one replaces the first of the shortest.
fn keep_longest<'a, T: Time>(kept: &mut Vec<Longest<'a, T>>, event: Longest<'a, T>) {
    if kept.len() < LONGEST {
        kept.push(event);
    } else if let Some(shortest) = kept.iter_mut().min_by_key(|kept| kept.length)
        && event.length > shortest.length
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

impl Time for u64 {
    const MAX: Self = Self::MAX;

    fn of(event: &Event<'_>) -> (Self, Self, Option<Self>) {
        let Times::Device(start, end) = event.times else { return (0, 0, None) };
        (start, end, ticks(start, end))
    }

    fn as_f64(self) -> f64 {
        self as f64
    }

    fn add_to(self, total: &mut Self) -> Result<()> {
        add(total, self)
    }
}

impl Time for i64 {
    const MAX: Self = Self::MAX;

    fn of(event: &Event<'_>) -> (Self, Self, Option<Self>) {
        let Times::Host(start, end) = event.times else { return (0, 0, None) };
        (start, end, nanoseconds(start, end))
    }

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

    fn add(&mut self, event: &Event<'_>) -> Result<()> {
        self.count += 1;
        (self.workgroup_count, self.workgroup_size) = (event.workgroup_count, event.workgroup_size);
        let (.., Some(length)) = T::of(event) else {
            self.invalid += 1;
            return Ok(());
        };
        (self.minimum, self.maximum) = (self.minimum.min(length), self.maximum.max(length));
        self.deviation.add(length.as_f64());
        length.add_to(&mut self.total)?;
        event.tile_duration_ns.add_to(&mut self.tiles_ns)?;
        event.tile_count.add_to(&mut self.tiles)
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

    fn add(&mut self, event: &Event<'_>) -> Result<()> {
        self.count += 1;
        let (start, end, Some(length)) = T::of(event) else {
            self.invalid += 1;
            return Ok(());
        };
        self.valid += 1;
        self.start = self.start.min(start);
        self.end = self.end.max(end);
        length.add_to(&mut self.total)?;
        event.tile_duration_ns.add_to(&mut self.tiles_ns)?;
        event.tile_count.add_to(&mut self.tiles)
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
    row!(
        out,
        "dispatch_event",
        "",
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
    row!(
        out,
        "host_dispatch_event",
        "",
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
