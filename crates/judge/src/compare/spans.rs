use std::sync::Arc;

use parking_lot::Mutex;
use rehal_base::{Result, StatusCode};
use rehal_hal::profile::{
    ClockSample, DispatchEvent, HostExecution, ProcessorTime, ProfileData, ProfileFilter, ProfileRequest,
    ProfileSink, greatest_common_divisor, resolution_ns,
};
use rehal_hal::{Device, DeviceGroup};

use crate::Clock;

/// When a dispatch ran, as its device reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DispatchTime {
    /// When its first workgroup began, in nanoseconds of the host.
    pub start_ns: i64,
    /// When its last workgroup ended.
    pub end_ns: i64,
    /// The processor's time for it, if the host executed it.
    pub processor: Option<ProcessorTime>,
}

impl DispatchTime {
    /// From the first workgroup to the last.
    pub fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.end_ns.saturating_sub(self.start_ns)).unwrap_or(0)
    }

    /// Whether a thread that executed it was kept from running: in the sections in which it executed
    /// workgroups, or between them.
    pub fn is_preempted(&self) -> bool {
        /// More is neither the cost of reading clocks nor that of handing work to a thread.
        const MOST_NS: u64 = 20_000;
        /// Less is.
        const LEAST_NS: u64 = 1_000;
        self.processor.is_some_and(|processor| {
            let lost_ns = processor.elapsed_ns.saturating_sub(processor.cpu_ns);
            let between_ns = self.elapsed_ns().saturating_sub(processor.longest_elapsed_ns);
            lost_ns.max(between_ns) > MOST_NS || (lost_ns > LEAST_NS && lost_ns > processor.elapsed_ns / 50)
        })
    }

    /// How long it takes if nothing else runs: from the first workgroup to the last, or what the thread that
    /// computed longest spent on it if a thread was preempted.
    pub fn busy_ns(&self) -> u64 {
        match self.processor {
            Some(it) if self.is_preempted() => it.longest_cpu_ns,
            _ => self.elapsed_ns(),
        }
    }
}

/// The times of dispatches, as devices report them. Devices are profiled until it is dropped.
pub struct DispatchSpans {
    profiled: Vec<Profiled>,
}

/// A device, and the spans that it has reported.
struct Profiled {
    device: Device,
    spans: Arc<Spans>,
    /// Whether spans are in ticks of its clock, and reported once it is asked for them.
    has_ticks: bool,
}

impl DispatchSpans {
    /// Begins to profile the devices that can report spans.
    pub fn begin(devices: &DeviceGroup) -> Self {
        Self { profiled: devices.devices().iter().filter_map(Profiled::begin).collect() }
    }

    /// The times since the last call, by their begin. Those of devices with a clock of their own are exact in
    /// length.
    pub fn take(&self) -> Vec<DispatchTime> {
        let mut times: Vec<_> = self.profiled.iter().flat_map(Profiled::take).collect();
        times.sort_by_key(|it| (it.start_ns, it.end_ns));
        times
    }

    /// The steps in which the clocks of the spans advance, in nanoseconds: of several clocks, the largest.
    /// That of a device with a clock of its own is known from the spans it has reported; until then, and
    /// without spans, it is the host's.
    pub fn resolution_ns(&self) -> f64 {
        let largest = self.profiled.iter().map(Profiled::resolution_ns).fold(0.0, f64::max);
        if largest > 0.0 { largest } else { resolution_ns() }
    }

    /// The clock that measures the spans, if there are any.
    pub fn clock(&self) -> Clock {
        match &self.profiled[..] {
            [] => Clock::Wall,
            all if all.iter().any(|it| it.has_ticks) => Clock::Device,
            _ => Clock::Processor,
        }
    }

    /// Ends the profiles; returns the times since the last call of [`DispatchSpans::take`].
    pub fn end(mut self) -> Result<Vec<DispatchTime>> {
        let spans = self.take();
        let ended = std::mem::take(&mut self.profiled).into_iter().map(|it| it.device.end_profiling());
        // All are ended, also after one that fails.
        ended.fold(Ok(()), Result::and).map(|()| spans)
    }
}

impl Drop for DispatchSpans {
    fn drop(&mut self) {
        for it in &self.profiled {
            // What failed is reported by what is being done.
            let _ = it.device.end_profiling();
        }
    }
}

impl Profiled {
    /// `None` if the device reports neither the host's executions nor dispatches.
    fn begin(device: &Device) -> Option<Self> {
        let by_host = ProfileData::HOST_EXECUTION;
        let kinds = [by_host | ProfileData::PROCESSOR_TIME, by_host, ProfileData::DISPATCH_EVENTS];
        kinds.into_iter().find_map(|data| {
            let spans = Arc::new(Spans::default());
            let request = ProfileRequest {
                data,
                filter: ProfileFilter::default(),
                counters: Vec::new(),
                sink: spans.clone(),
            };
            let began = device.begin_profiling(&request).is_ok();
            let has_ticks = data == ProfileData::DISPATCH_EVENTS;
            began.then(|| Self { device: device.clone(), spans, has_ticks })
        })
    }

    /// 0 if it is not known.
    fn resolution_ns(&self) -> f64 {
        if !self.has_ticks {
            return resolution_ns();
        }
        self.spans.reported.lock().step_ns()
    }

    fn take(&self) -> Vec<DispatchTime> {
        // Without what is still to be reported, the host's clock measures.
        if self.has_ticks && self.device.flush_profiling().is_err() {
            return Vec::new();
        }
        let mut reported = self.spans.reported.lock();
        let ticks = std::mem::take(&mut reported.ticks);
        let mut spans = std::mem::take(&mut reported.spans);
        if let Some((first, last)) = reported.clocks {
            let at = |tick| host(first, last, tick);
            let time = |(start, end)| DispatchTime { start_ns: at(start), end_ns: at(end), processor: None };
            spans.extend(ticks.into_iter().map(time));
        }
        spans
    }
}

/// The host's time in nanoseconds at a tick of the device, between two samples of both clocks.
fn host(first: ClockSample, last: ClockSample, tick: u64) -> i64 {
    let middle = |it: ClockSample| i128::midpoint(it.host_before_ns.into(), it.host_after_ns.into());
    let ticks = |it: u64| i128::from(it) - i128::from(first.device_tick);
    let elapsed = (middle(last) - middle(first)).max(0);
    let since = ticks(tick) * elapsed / ticks(last.device_tick).max(1);
    i64::try_from(middle(first) + since).unwrap_or(i64::MAX)
}

/// Nanoseconds of a tick of the device, between two samples of both clocks; 0 if they are the same.
fn ns_per_tick(first: ClockSample, last: ClockSample) -> f64 {
    match last.device_tick.saturating_sub(first.device_tick) {
        0 => 0.0,
        ticks => {
            host(first, last, last.device_tick).saturating_sub(host(first, last, first.device_tick)) as f64
                / ticks as f64
        }
    }
}

#[derive(Default)]
struct Spans {
    reported: Mutex<Reported>,
}

/// The reports of a device.
#[derive(Default)]
struct Reported {
    /// In nanoseconds of the host.
    spans: Vec<DispatchTime>,
    /// In ticks of the device.
    ticks: Vec<(u64, u64)>,
    /// By how many ticks the clock of the device advances at a time: the lengths of all spans are multiples
    /// of it.
    step_ticks: u64,
    /// The first and the last sample of the clocks.
    clocks: Option<(ClockSample, ClockSample)>,
}

impl Reported {
    /// The steps of the device's clock; 0 if nothing says.
    fn step_ns(&self) -> f64 {
        self.step_ticks as f64 * self.clocks.map_or(0.0, |(first, last)| ns_per_tick(first, last))
    }
}

impl ProfileSink for Spans {
    fn host_execution(&self, event: &HostExecution) {
        if event.dispatch.is_some() && event.status == StatusCode::Ok {
            let HostExecution { start_ns, end_ns, processor, .. } = *event;
            self.reported.lock().spans.push(DispatchTime { start_ns, end_ns, processor });
        }
    }

    fn dispatch_event(&self, event: &DispatchEvent) {
        let mut reported = self.reported.lock();
        let length = event.end_tick.saturating_sub(event.start_tick);
        reported.step_ticks = greatest_common_divisor(reported.step_ticks, length);
        reported.ticks.push((event.start_tick, event.end_tick));
    }

    fn clock_sample(&self, sample: &ClockSample) {
        let mut reported = self.reported.lock();
        let first = reported.clocks.map_or(*sample, |(first, _)| first);
        reported.clocks = Some((first, *sample));
    }
}

#[cfg(test)]
mod tests {
    use rehal_hal::profile::SectionTime;

    use super::*;

    #[test]
    fn time_in_which_threads_do_not_run_is_left_out() {
        let time = |elapsed_ns: i64, threads: &[(u64, u64)]| {
            let of = |&(cpu_ns, elapsed_ns): &(u64, u64)| SectionTime { cpu_ns, elapsed_ns };
            let processor = Some(ProcessorTime::of(threads.iter().map(of)));
            let time = DispatchTime { start_ns: -5, end_ns: elapsed_ns - 5, processor };
            (time.busy_ns(), time.is_preempted())
        };
        assert_eq!(time(50_000, &[(49_200, 50_000)]), (50_000, false));
        assert_eq!(time(50_000, &[(48_900, 50_000)]), (48_900, true));
        assert_eq!(time(2_000, &[(1_100, 2_000)]), (2_000, false), "the cost of reading clocks");
        assert_eq!(time(10_000_000, &[(9_981_000, 10_000_000)]), (10_000_000, false));
        assert_eq!(time(10_000_000, &[(9_979_000, 10_000_000)]), (9_979_000, true));
        // Two threads: one in a section, one between sections.
        assert_eq!(time(90_000, &[(80_000, 80_000), (70_000, 85_000)]), (80_000, true));
        assert_eq!(time(99_000, &[(80_000, 80_000), (70_000, 70_000)]), (99_000, false));
        assert_eq!(time(101_000, &[(80_000, 80_000), (70_000, 70_000)]), (80_000, true));
        let of_device = DispatchTime { start_ns: 5, end_ns: 9, processor: None };
        assert_eq!((of_device.busy_ns(), of_device.is_preempted()), (4, false));
    }

    #[test]
    fn ticks_are_placed_between_samples_of_the_clocks() {
        let sample = |device_tick, host: i64| ClockSample {
            device_tick,
            host_before_ns: host - 10,
            host_after_ns: host + 10,
        };
        let (first, last) = (sample(1_000, 50_000), sample(2_000, 90_000));
        assert_eq!([1_000, 1_250, 2_000].map(|tick| host(first, last, tick)), [50_000, 60_000, 90_000]);
        assert_eq!(ns_per_tick(first, last), 40.0);
        assert_eq!(ns_per_tick(first, first), 0.0);
        // Samples of the same moment have no rate.
        assert_eq!(host(first, first, 1_500), 50_000);
    }

    /// A device's clock may have shorter steps than the host's, and its own decide.
    #[test]
    fn the_steps_of_a_device_are_known_from_its_spans() {
        let spans = Spans::default();
        let sample = |device_tick, host_ns| ClockSample {
            device_tick,
            host_before_ns: host_ns,
            host_after_ns: host_ns,
        };
        assert_eq!(spans.reported.lock().step_ns(), 0.0);
        spans.clock_sample(&sample(0, 0));
        spans.clock_sample(&sample(1_000_000, 250_000));
        for (length, expected) in [(48, 12.0), (36, 3.0), (2, 0.5)] {
            let mut reported = spans.reported.lock();
            reported.step_ticks = greatest_common_divisor(reported.step_ticks, length);
            assert_eq!(reported.step_ns(), expected);
        }
    }
}
