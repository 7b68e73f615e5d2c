//! The replays of a catalog of kernels: some measure, and the last reads what is bound, which would warm
//! caches.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Instant;

use rehal_base::{ElementType, Error, Range, Result, glob};
use rehal_devices::CrashReports;
use rehal_hal::profile::ProcessorTime;
use rehal_judge::{Clock, DispatchSpans, Monitor, stats, type_in_name};
use rehal_replay::{
    AccessKind, AccessedRange, ChangeTracker, Observer, Operation, RecordLocation, Replay, distinct_bytes,
};

use super::ranking::{Rounds, typical_interval, typical_time};
use super::{Access, Groups, Kernel, KernelOptions, KernelProcessor, Key, Launch, Traffic, bindings};

/// The times of all dispatches.
pub(super) struct Measured {
    pub total_ns: u64,
    /// The clock that measures them.
    pub times: Clock,
    pub sample_count: u64,
    pub is_order_stable: bool,
    pub is_interrupted: bool,
    pub warnings: Vec<String>,
}

/// Adds the dispatches of a replay, with their times, which are the lower quartiles of as many replays as the
/// options ask for.
pub(super) fn measure(replay: &Replay, groups: &mut Groups, options: &KernelOptions) -> Result<Measured> {
    let (mut monitor, mut rounds) = (Monitor::begin(), Rounds::begin());
    // A device that cannot report spans is measured from the host.
    let spans = DispatchSpans::begin(replay.devices());
    let first = sample(replay, groups, &spans, true, None)?;
    let how = first.clock();
    let is_listed = |kernel: &Kernel| {
        options.function.as_ref().is_none_or(|pattern| glob::matches(pattern, &kernel.name))
    };
    let listed: Vec<_> = groups.kernels.iter().map(is_listed).collect();
    let mut times: Vec<Vec<f64>> = first.of_kernels(how)?.iter().map(|time| vec![*time]).collect();
    let mut spent: Vec<Vec<Spent>> = first.spent.iter().map(|it| vec![*it]).collect();
    let mut sample_count = 1;
    loop {
        let considered: Vec<_> = times.iter().zip(&listed).filter(|it| *it.1).map(|it| &it.0[..]).collect();
        if !rounds.continues(&considered, options) {
            break;
        }
        monitor.sample();
        let next = sample(replay, groups, &spans, false, None)?;
        times.iter_mut().zip(next.of_kernels(how)?).for_each(|(times, time)| times.push(*time));
        spent.iter_mut().zip(&next.spent).for_each(|(spent, it)| spent.push(*it));
        sample_count += 1;
    }
    spans.end()?;
    let mut total_ns = 0;
    for ((kernel, times), spent) in groups.kernels.iter_mut().zip(times).zip(spent) {
        let time_ns = typical_time(&times).round() as u64;
        kernel.time_ns = Some(time_ns);
        kernel.interval_ns = typical_interval(&times);
        kernel.processor = (how != Clock::Wall).then(|| Spent::typical(&spent)).flatten();
        total_ns += time_ns;
    }
    let (is_order_stable, is_interrupted) = (rounds.is_stable, rounds.is_interrupted);
    let warnings = monitor.end().warnings;
    Ok(Measured { total_ns, times: how, sample_count, is_order_stable, is_interrupted, warnings })
}

/// The time of all dispatches of each kernel in a replay, in nanoseconds.
pub(super) struct Sample {
    /// Of the device.
    clock: Clock,
    device_ns: Option<Vec<f64>>,
    host_ns: Vec<f64>,
    spent: Vec<Spent>,
}

/// The processor's time for all dispatches of a kernel in a replay.
#[derive(Clone, Copy, Default)]
struct Spent {
    /// Number of dispatches that the host executed.
    dispatch_count: u64,
    cpu_ns: u64,
    thread_count: u64,
    longest_cpu_ns: u64,
    /// The sum of what the threads of a dispatch spent on average.
    mean_cpu_ns: f64,
}

impl Spent {
    fn add(&mut self, it: ProcessorTime) {
        self.dispatch_count += 1;
        self.cpu_ns += it.cpu_ns;
        self.thread_count += u64::from(it.thread_count);
        self.longest_cpu_ns += it.longest_cpu_ns;
        self.mean_cpu_ns += it.cpu_ns as f64 / f64::from(it.thread_count.max(1));
    }

    /// Of several replays; `None` if a device of its own executes the kernel.
    fn typical(replays: &[Self]) -> Option<KernelProcessor> {
        let of = |number: fn(&Self) -> f64| {
            stats::median(&replays.iter().filter(|it| it.dispatch_count > 0).map(number).collect::<Vec<_>>())
        };
        replays.iter().any(|it| it.dispatch_count > 0).then(|| KernelProcessor {
            cpu_ns: typical_time(&replays.iter().map(|it| it.cpu_ns as f64).collect::<Vec<_>>()).round()
                as u64,
            thread_count: of(|it| it.thread_count as f64 / it.dispatch_count as f64),
            imbalance: of(|it| match it.mean_cpu_ns {
                0.0 => 1.0,
                mean_cpu_ns => it.longest_cpu_ns as f64 / mean_cpu_ns,
            }),
        })
    }
}

impl Sample {
    /// The clock that measures them best: the wall clock, with submission, if the device does not.
    pub(super) fn clock(&self) -> Clock {
        if self.device_ns.is_some() { self.clock } else { Clock::Wall }
    }

    /// The times by this clock. Fails if the device did not report them.
    pub(super) fn of_kernels(&self, clock: Clock) -> Result<&[f64]> {
        match (clock, &self.device_ns) {
            (Clock::Wall, _) => Ok(&self.host_ns),
            (_, Some(times)) => Ok(times),
            (_, None) => Err(Error::failed_precondition(
                "the device reported the times of all dispatches of one replay, but not of the next",
            )),
        }
    }
}

/// Replays once, with one more observer.
pub(super) fn sample(
    replay: &Replay,
    groups: &mut Groups,
    spans: &DispatchSpans,
    is_first: bool,
    observer: Option<&mut dyn Observer>,
) -> Result<Sample> {
    let mut timer = Timer { groups, is_first, begun: Instant::now(), dispatches: Vec::new() };
    let mut reports = CrashReports::records();
    let mut observers: Vec<&mut dyn Observer> = vec![&mut reports, &mut timer];
    if let Some(observer) = observer {
        observers.push(observer);
    }
    replay.run(&mut observers)?;
    let Timer { dispatches, .. } = timer;
    let (clock, spans) = (spans.clock(), spans.take());
    let count = groups.kernels.len();
    let (mut host_ns, mut device_ns, mut spent) =
        (vec![0.0; count], vec![0.0; count], vec![Spent::default(); count]);
    // Operations run one by one, so both are in the same order.
    let has_spans = spans.len() == dispatches.len();
    for (number, (kernel, time_ns)) in dispatches.into_iter().enumerate() {
        // What only later replays dispatch is not listed.
        let Some(kernel) = kernel else { continue };
        host_ns[kernel] += time_ns as f64;
        if has_spans {
            device_ns[kernel] += spans[number].busy_ns() as f64;
            if let Some(processor) = spans[number].processor {
                spent[kernel].add(processor);
            }
        }
    }
    Ok(Sample { clock, device_ns: has_spans.then_some(device_ns), host_ns, spent })
}

/// Sets which bindings the first dispatch of each kernel changes. `replay` runs with an observer.
pub(super) fn inspect(
    kernels: &mut [Kernel],
    replay: impl FnOnce(&mut dyn Observer) -> Result<()>,
) -> Result<()> {
    let sites = kernels.iter().zip(0..);
    let sites = sites.map(|(kernel, index)| ((kernel.location.ordinal, kernel.occurrence), index)).collect();
    let mut inspector = Inspector { kernels, sites, changes: ChangeTracker::default() };
    match inspector.sites.is_empty() {
        true => Ok(()),
        false => replay(&mut inspector),
    }
}

/// The properties by which a dispatch is the same as others; `None` for other operations.
pub(super) fn seen<'o>(operation: &Operation<'o>) -> Option<Launch<'o>> {
    let dispatch = operation.dispatch.as_ref()?;
    let ranges = operation.bindings().iter();
    let ranges = ranges.map(|it| (it.buffer_id, it.offset, it.length, it.access)).collect();
    let key = Key {
        executable_id: dispatch.executable.id,
        function: dispatch.function,
        workgroup_count: Some(dispatch.workgroup_count),
        workgroup_size: dispatch.workgroup_size,
        dynamic_local_memory: dispatch.dynamic_local_memory,
        constants: dispatch.constants.to_vec(),
        bindings: bindings(ranges),
    };
    let (location, occurrence) = (operation.location, operation.occurrence);
    Some(Launch { key, name: dispatch.name, location, occurrence, device: Some(operation.device) })
}

/// Groups dispatches, and measures them from the host.
struct Timer<'g> {
    groups: &'g mut Groups,
    /// Whether the dispatches are added to the groups; later replays repeat them.
    is_first: bool,
    begun: Instant,
    /// The kernel of each dispatch, and its time in nanoseconds.
    dispatches: Vec<(Option<usize>, u64)>,
}

impl Observer for Timer<'_> {
    fn wants_operations(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if let Some(seen) = seen(operation) {
            let kernel = match self.is_first {
                true => Some(self.groups.add(seen, 1).0),
                false => self.groups.indices.get(&seen.key).copied(),
            };
            self.dispatches.push((kernel, 0));
        }
        self.begun = Instant::now();
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        let time = self.begun.elapsed();
        if let (Some(_), Some((_, time_ns))) = (&operation.dispatch, self.dispatches.last_mut()) {
            *time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Compares what is bound to the first dispatch of each kernel before and after it.
struct Inspector<'k> {
    kernels: &'k mut [Kernel],
    /// The kernel whose first dispatch has this record and occurrence.
    sites: HashMap<(u32, u64), usize>,
    changes: ChangeTracker,
}

impl Observer for Inspector<'_> {
    fn wants_operations(&self) -> bool {
        true
    }

    fn wants_zeroed_memory(&self) -> bool {
        true
    }

    fn wants_command(&mut self, location: RecordLocation, occurrence: u64) -> bool {
        self.sites.contains_key(&(location.ordinal, occurrence))
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if self.sites.contains_key(&site(operation)) {
            self.changes.begin(operation.bindings())?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        let Some(kernel) = self.sites.remove(&site(operation)) else {
            return Ok(ControlFlow::Continue(()));
        };
        self.changes.end()?;
        let kernel = &mut self.kernels[kernel];
        kernel.touched = Vec::with_capacity(operation.bindings().len());
        let element_bytes = type_in_name(&kernel.name).and_then(ElementType::whole_bytes);
        let mut read = Vec::new();
        let (mut written, mut only_written) = (0, 0);
        let bindings = operation.bindings();
        for (index, it) in bindings.iter().enumerate() {
            let mut changed = Changed::default();
            if let Some(tracked) = self.changes.binding(index as u32) {
                let unit = element_bytes.filter(|bytes| it.length.is_multiple_of(*bytes)).unwrap_or(1);
                // What several bindings have is counted once.
                let counts = |offset| {
                    let place = it.offset + offset;
                    let has = |other: &AccessedRange<'_>| {
                        other.access == AccessKind::Binds
                            && other.buffer_id == it.buffer_id
                            && (other.offset..other.offset + other.length).contains(&place)
                    };
                    !bindings[..index].iter().any(has)
                };
                for range in tracked.changes {
                    let after = &tracked.after[range.offset as usize..range.end() as usize];
                    changed.add(range.offset, (&tracked.before(*range), after), unit, counts);
                }
            }
            kernel.touched.push(Access {
                buffer_id: it.buffer_id,
                range: it.range(),
                changed: changed.elements.take(),
                accessed: None,
            });
            let Some(binding) = kernel.bindings.get_mut(index) else { break };
            let is_changed = changed.range.is_some();
            let sharing = bindings.iter().filter(|other| shares(it, other)).count();
            if it.access == AccessKind::Binds {
                // Which of several bindings of the same bytes a kernel writes is unknown.
                binding.is_written = (!is_changed || sharing <= 1).then_some(is_changed);
            }
            binding.changed = changed.range;
            written += changed.bytes;
            match !is_changed || sharing > 1 {
                true => read.push((it.buffer_id, it.range())),
                false => only_written += changed.bytes,
            }
        }
        if written == 0 {
            // It writes something, which was there already.
            let bindings = kernel.bindings.iter_mut().zip(operation.bindings());
            let written = bindings.filter(|(_, it)| it.access == AccessKind::Binds);
            written.for_each(|(binding, _)| binding.is_written = None);
        }
        let both = distinct_bytes(read) + only_written;
        let bound = distinct_bytes(operation.bindings().iter().map(|it| (it.buffer_id, it.range())));
        self.changes.release();
        kernel.traffic = Some(Traffic { read: both.saturating_sub(written), written, bound, accessed: None });
        match self.sites.is_empty() {
            true => Ok(ControlFlow::Break(())),
            false => Ok(ControlFlow::Continue(())),
        }
    }
}

/// Ranges of changed elements that are kept.
const MAX_RANGES: usize = 4096;

/// The changes of a binding by a dispatch.
#[derive(Debug, PartialEq, Eq)]
struct Changed {
    /// From the first to the last element.
    range: Option<Range>,
    /// The elements, joined; `None` if they are too many ranges.
    elements: Option<Vec<Range>>,
    /// Number of bytes of changed elements that count.
    bytes: u64,
}

impl Default for Changed {
    fn default() -> Self {
        Self { range: None, elements: Some(Vec::new()), bytes: 0 }
    }
}

impl Changed {
    /// Adds what differs from `start` on, before and after, in elements of `unit` bytes; `counts` is asked
    /// for the first byte of each.
    fn add(&mut self, start: u64, sides: (&[u8], &[u8]), unit: u64, counts: impl Fn(u64) -> bool) {
        let elements = sides.0.chunks(unit as usize).zip(sides.1.chunks(unit as usize));
        let offsets = (start..).step_by(unit as usize);
        for (offset, (_, new)) in offsets.zip(elements).filter(|(_, (old, new))| old != new) {
            let length = new.len() as u64;
            let start = self.range.map_or(offset, |it| it.offset);
            self.range = Some(Range { offset: start, length: offset + length - start });
            self.bytes += if counts(offset) { length } else { 0 };
            let Some(elements) = &mut self.elements else { continue };
            let count = elements.len();
            match elements.last_mut() {
                Some(last) if last.end() == offset => last.length += length,
                _ if count < MAX_RANGES => elements.push(Range { offset, length }),
                _ => self.elements = None,
            }
        }
    }
}

fn shares(one: &AccessedRange<'_>, other: &AccessedRange<'_>) -> bool {
    one.buffer_id == other.buffer_id && one.range().overlaps(other.range())
}

fn site(operation: &Operation<'_>) -> (u32, u64) {
    (operation.location.ordinal, operation.occurrence)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this test, the time of the processor may be that of a part of the threads.
    #[test]
    fn what_threads_spend_is_that_of_all_dispatches() {
        let time = |thread_count, cpu_ns, longest_cpu_ns| {
            let mut time = ProcessorTime::default();
            (time.thread_count, time.cpu_ns, time.longest_cpu_ns) = (thread_count, cpu_ns, longest_cpu_ns);
            time
        };
        let mut spent = Spent::default();
        assert_eq!(Spent::typical(&[spent]), None);
        spent.add(time(2, 100, 60));
        spent.add(time(4, 400, 190));
        let expected = KernelProcessor { cpu_ns: 500, thread_count: 3.0, imbalance: 250.0 / 150.0 };
        assert_eq!(Spent::typical(&[spent]), Some(expected));
        let mut idle = Spent::default();
        idle.add(time(0, 0, 0));
        assert_eq!(Spent::typical(&[idle]).unwrap().imbalance, 1.0);
    }

    #[test]
    fn changes_are_whole_elements_or_bytes() {
        let numbers = |values: &[f32]| values.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
        let before = numbers(&[0.0; 23]);
        let mut after = before.clone();
        let of = |after: &[u8], unit, counts: fn(u64) -> bool| {
            let mut changed = Changed::default();
            changed.add(0, (&before, after), unit, counts);
            changed
        };
        assert_eq!(of(&after, 4, |_| true), Changed::default());
        for index in [5, 6, 22] {
            after[4 * index..][..4].copy_from_slice(&2.0_f32.to_le_bytes());
        }
        let changed = |offset, length, bytes, elements: &[(u64, u64)]| Changed {
            range: Some(Range { offset, length }),
            elements: Some(elements.iter().map(|&(offset, length)| Range { offset, length }).collect()),
            bytes,
        };
        let elements = [(20, 8), (88, 4)];
        assert_eq!(of(&after, 4, |_| true), changed(20, 72, 12, &elements));
        assert_eq!(of(&after, 4, |offset| offset != 24), changed(20, 72, 8, &elements));
        // 2.0 is 00 00 00 40.
        assert_eq!(of(&after, 1, |_| true), changed(23, 69, 3, &[(23, 1), (27, 1), (91, 1)]));
    }
}
