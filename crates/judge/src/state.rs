use crate::{
    Counter, Counters, Measuring, Pulse,
    clock::{Clock, Timer},
    samples::{MAX_SAMPLES_PER_RUN, Sample},
};

/// The clock that decides when to stop, and divides rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// CPU time of the thread, or of the process:
    /// [`measure_process_cpu_time`](crate::Benchmark::measure_process_cpu_time).
    #[default]
    CpuTime,
    /// Wall-clock time between the first and the last iteration, excluding pauses.
    RealTime,
    /// The time set by [`State::set_iteration_time_ns`]; reported as real time.
    ManualTime,
}

/// One call of a benchmark's body: the requested iterations, and what the body reports.
pub struct State<'a> {
    // Fields accessed by every iteration come first.
    /// Iterations left of this sample. Samples are batches, so that the loop reads no clock per iteration.
    remaining: u64,
    /// Iterations left after this sample.
    later: u64,
    /// Iterations by which the last batch exceeded the request.
    excess: u64,
    phase: Phase,
    max_iterations: u64,
    measure: Measure,
    pub(crate) timer: Timer<'a>,
    pub(crate) samples: Vec<Sample>,
    /// The iterations and the time of all samples so far.
    sampled: Sample,
    pub(crate) counters: Counters,
    pub(crate) error: Option<String>,
    pulse: &'a Pulse,
    /// The time that is measured, if that and not the iterations is given.
    min_time_ns: Option<f64>,
    /// Whether the pulse ended the measurement.
    pub(crate) is_interrupted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Before,
    Running,
    Finished,
}

impl<'a> State<'a> {
    pub(crate) fn new(
        max_iterations: u64,
        clock: &'a dyn Clock,
        process_time: bool,
        measure: Measure,
        (pulse, min_time_ns): (&'a Pulse, Option<f64>),
    ) -> Self {
        Self {
            remaining: 0,
            later: max_iterations,
            excess: 0,
            phase: Phase::Before,
            max_iterations,
            measure,
            samples: Vec::with_capacity(max_iterations.min(MAX_SAMPLES_PER_RUN) as usize),
            sampled: Sample::default(),
            timer: Timer::new(clock, process_time),
            counters: Counters::new(),
            error: None,
            pulse,
            min_time_ns,
            is_interrupted: false,
        }
    }

    /// The condition of the measured loop: `while state.keep_running() { … }`. The first call starts the
    /// timer; the last one, which returns false, stops it.
    #[inline]
    pub fn keep_running(&mut self) -> bool {
        if self.phase == Phase::Running && self.remaining > 0 {
            self.remaining -= 1;
            return true;
        }
        self.start_or_finish()
    }

    /// Like [`Self::keep_running`], for a loop that does `batch` iterations at a time (at least one): the
    /// last batch may exceed the request, and counts in full.
    #[inline]
    pub fn keep_running_batch(&mut self, batch: u64) -> bool {
        let batch = batch.max(1);
        if !self.keep_running() {
            return false;
        }
        // One iteration of the batch is already counted.
        let rest = batch - 1;
        self.excess = rest.saturating_sub(self.remaining + self.later);
        let of_later = rest.saturating_sub(self.remaining).min(self.later);
        self.later -= of_later;
        self.remaining = self.remaining.saturating_sub(rest);
        true
    }

    #[cold]
    fn start_or_finish(&mut self) -> bool {
        match self.phase {
            Phase::Before if self.error.is_none() => {
                self.phase = Phase::Running;
                self.next_sample();
                self.timer.start();
                true
            }
            Phase::Running if self.later > 0 => {
                self.end_sample();
                if self.continues() {
                    self.next_sample();
                    return true;
                }
                self.max_iterations -= self.later;
                self.later = 0;
                self.finish()
            }
            _ => {
                if self.phase == Phase::Running && self.error.is_none() {
                    self.timer.stop();
                    self.end_sample();
                }
                self.finish()
            }
        }
    }

    fn finish(&mut self) -> bool {
        self.timer.stop();
        self.phase = Phase::Finished;
        false
    }

    /// Asks the pulse.
    fn continues(&mut self) -> bool {
        let Sample { iterations, time_ns } = self.sampled;
        let done = match self.min_time_ns {
            Some(least) => time_ns as f64 / least,
            None => iterations as f64 / self.max_iterations as f64,
        };
        // The end of a run is not that of the repetition.
        let measuring = Measuring { sample_count: iterations, done: done.min(0.999) };
        self.is_interrupted = self.pulse.beat(measuring).is_break();
        !self.is_interrupted
    }

    /// Begins the first iteration of the next sample; at least one is left.
    fn next_sample(&mut self) {
        let count = self.max_iterations.div_ceil(MAX_SAMPLES_PER_RUN).min(self.later);
        self.later -= count;
        self.remaining = count - 1;
    }

    fn end_sample(&mut self) {
        let time_ns = match self.measure {
            Measure::CpuTime => self.timer.cpu_so_far_ns(),
            Measure::RealTime => self.timer.real_so_far_ns(),
            Measure::ManualTime => self.timer.manual_ns,
        };
        let total = Sample { iterations: self.iterations(), time_ns };
        self.samples.push(Sample {
            iterations: total.iterations - self.sampled.iterations,
            time_ns: total.time_ns - self.sampled.time_ns,
        });
        self.sampled = total;
    }

    /// Stops the clocks until [`Self::resume_timing`], to exclude per-iteration setup from the measurement.
    /// Costs two clock reads, so unsuitable for iterations below a microsecond.
    pub fn pause_timing(&mut self) {
        self.timer.stop();
    }

    /// Restarts the clocks.
    pub fn resume_timing(&mut self) {
        if self.phase == Phase::Running && self.error.is_none() {
            self.timer.start();
        }
    }

    /// Sets the time of the iteration, for a benchmark with manual time. Accumulates over calls.
    pub fn set_iteration_time_ns(&mut self, duration_ns: u64) {
        self.timer.manual_ns = self.timer.manual_ns.saturating_add(duration_ns);
    }

    /// The number of iterations requested, or performed if the measurement was interrupted.
    pub fn max_iterations(&self) -> u64 {
        self.max_iterations
    }

    /// The number of iterations started; all of them after the loop. Zero once skipped.
    pub fn iterations(&self) -> u64 {
        if self.error.is_some() { 0 } else { self.max_iterations - self.remaining - self.later + self.excess }
    }

    /// Reports `items_per_second` from the items processed by all iterations together.
    pub fn set_items_processed(&mut self, items: u64) {
        self.set_counter("items_per_second", Counter::rate(items as f64));
    }

    /// Reports another value in addition to the times.
    pub fn set_counter(&mut self, name: impl Into<String>, counter: Counter) {
        self.counters.insert(name.into(), counter);
    }

    /// Ends the loop and reports this run as failed; later benchmarks still run.
    pub fn skip_with_error(&mut self, message: impl Into<String>) {
        self.error.get_or_insert_with(|| message.into());
        (self.remaining, self.later) = (0, 0);
        self.timer.stop();
    }

    /// Whether the loop ran to its end or gave a reason not to.
    pub(crate) fn ran_to_end(&self) -> bool {
        self.error.is_some() || (self.phase == Phase::Finished && self.remaining + self.later == 0)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::rc::Rc;

    use super::*;
    use crate::clock::fake::FakeClock;

    fn new(iterations: u64, clock: &Rc<FakeClock>) -> State<'_> {
        let pulse = Box::leak(Box::new(Pulse::default()));
        State::new(iterations, clock, false, Measure::RealTime, (pulse, None))
    }

    #[test]
    fn a_pulse_ends_the_loop_after_a_sample() {
        let clock = Rc::new(FakeClock::default());
        let pulse = Pulse::new(|it| {
            assert_eq!(it.done, it.sample_count as f64 / 300.0);
            if it.sample_count < 6 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        // Samples of three iterations.
        let mut state = State::new(300, &clock, false, Measure::RealTime, (&pulse, None));
        let mut count = 0;
        while state.keep_running() {
            count += 1;
            clock.advance_ns(10);
        }
        assert_eq!((count, state.iterations(), state.max_iterations()), (6, 6, 6));
        assert_eq!((state.samples.len(), state.timer.real_ns), (2, 60));
        assert!(state.ran_to_end() && state.is_interrupted && !state.keep_running());
    }

    #[test]
    fn runs_the_requested_iterations_and_times_only_the_loop() {
        let clock = Rc::new(FakeClock::default());
        let mut state = new(3, &clock);
        clock.advance_ns(1000);
        let mut count = 0;
        while state.keep_running() {
            count += 1;
            assert_eq!(state.iterations(), count);
            clock.advance_ns(10);
            state.pause_timing();
            clock.advance_ns(500);
            state.resume_timing();
            state.set_iteration_time_ns(4);
        }
        clock.advance_ns(1000);
        assert!(!state.keep_running(), "it stays finished");
        assert_eq!((count, state.iterations()), (3, 3));
        assert_eq!((state.timer.real_ns, state.timer.cpu_ns, state.timer.manual_ns), (30, 15, 12));
        assert!(state.ran_to_end());
    }

    #[test]
    fn batches_count_in_full() {
        for (asked, batch, calls, iterations) in [(7, 5, 2, 10), (20, 4, 5, 20), (1, 6, 1, 6), (3, 0, 3, 3)] {
            let clock = Rc::new(FakeClock::default());
            let mut state = new(asked, &clock);
            let mut count = 0;
            while state.keep_running_batch(batch) {
                count += 1;
                clock.advance_ns(10);
            }
            assert_eq!((count, state.iterations()), (calls, iterations));
            assert_eq!(state.timer.real_ns, calls * 10);
            assert!(state.ran_to_end());
        }
    }

    #[test]
    fn skipping_ends_the_loop() {
        let clock = Rc::new(FakeClock::default());
        let mut state = new(5, &clock);
        while state.keep_running() {
            clock.advance_ns(10);
            state.skip_with_error("broken");
            state.skip_with_error("a later message does not replace the first");
            state.resume_timing();
            clock.advance_ns(10);
        }
        assert_eq!(state.error.as_deref(), Some("broken"));
        assert_eq!((state.iterations(), state.timer.real_ns), (0, 10));
        assert!(state.ran_to_end());
    }

    #[test]
    fn skipping_before_the_loop_runs_nothing() {
        let clock = Rc::new(FakeClock::default());
        let mut state = new(5, &clock);
        state.skip_with_error("not here");
        assert!(!state.keep_running());
        assert!(state.ran_to_end());
    }

    #[test]
    fn leaving_the_loop_early_is_detected() {
        let clock = Rc::new(FakeClock::default());
        let mut state = new(5, &clock);
        assert!(!state.ran_to_end());
        assert!(state.keep_running());
        assert!(!state.ran_to_end());
    }
}
