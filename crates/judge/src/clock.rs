use std::time::Instant;

use rehal_base::platform::{process_cpu_ns, thread_cpu_ns};

use crate::machine::{Machine, Snapshot};

/// The source of a benchmark's times; a trait so that tests can count iterations instead of waiting.
pub(crate) trait Clock {
    /// Nanoseconds of wall-clock time since an arbitrary origin.
    fn real_ns(&self) -> u64;
    /// CPU time of all threads of the process, in nanoseconds.
    fn process_cpu_ns(&self) -> u64;
    /// CPU time of this thread, in nanoseconds.
    fn thread_cpu_ns(&self) -> u64;
    /// How the CPUs have been used so far, if the system says so.
    fn machine(&self) -> Option<Snapshot>;
}

/// The system's monotonic and CPU-time clocks. CPU times start at zero and never decrease.
pub(crate) struct SystemClock {
    start: Instant,
    machine: Machine,
}

impl SystemClock {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), machine: Machine::here() }
    }
}

impl Clock for SystemClock {
    fn real_ns(&self) -> u64 {
        // Does not overflow for 584 years.
        self.start.elapsed().as_nanos() as u64
    }

    fn process_cpu_ns(&self) -> u64 {
        process_cpu_ns() as u64
    }

    fn thread_cpu_ns(&self) -> u64 {
        thread_cpu_ns() as u64
    }

    fn machine(&self) -> Option<Snapshot> {
        self.machine.snapshot(self.real_ns(), self.process_cpu_ns())
    }
}

/// Accumulates the times of one run of a benchmark.
pub(crate) struct Timer<'a> {
    clock: &'a dyn Clock,
    process_time: bool,
    started: Option<(u64, u64)>,
    /// Wall-clock time between starts and stops.
    pub(crate) real_ns: u64,
    /// CPU time between starts and stops.
    pub(crate) cpu_ns: u64,
    /// The time set by the benchmark.
    pub(crate) manual_ns: u64,
}

impl<'a> Timer<'a> {
    pub(crate) fn new(clock: &'a dyn Clock, process_time: bool) -> Self {
        Self { clock, process_time, started: None, real_ns: 0, cpu_ns: 0, manual_ns: 0 }
    }

    /// Starts the timer unless it is running.
    pub(crate) fn start(&mut self) {
        if self.started.is_none() {
            self.started = Some((self.clock.real_ns(), self.cpu_now_ns()));
        }
    }

    /// Stops and accumulates if it is running. Reads the wall clock first: reading a CPU clock is a system
    /// call.
    pub(crate) fn stop(&mut self) {
        if let Some((real_ns, cpu_ns)) = self.started.take() {
            self.real_ns += self.clock.real_ns().saturating_sub(real_ns);
            self.cpu_ns += self.cpu_now_ns().saturating_sub(cpu_ns);
        }
    }

    /// Wall-clock time so far, including that of a running timer.
    pub(crate) fn real_so_far_ns(&self) -> u64 {
        let running = self.started.map_or(0, |(real_ns, _)| self.clock.real_ns().saturating_sub(real_ns));
        self.real_ns + running
    }

    /// CPU time so far, including that of a running timer.
    pub(crate) fn cpu_so_far_ns(&self) -> u64 {
        let running = self.started.map_or(0, |(_, cpu_ns)| self.cpu_now_ns().saturating_sub(cpu_ns));
        self.cpu_ns + running
    }

    fn cpu_now_ns(&self) -> u64 {
        if self.process_time { self.clock.process_cpu_ns() } else { self.clock.thread_cpu_ns() }
    }
}

#[cfg(test)]
pub(crate) mod fake {
    use std::{cell::Cell, rc::Rc};

    use super::Clock;
    use crate::machine::Snapshot;

    /// A clock that advances only on request. While busy, process time runs at twice and thread time at half
    /// of real time.
    #[derive(Default)]
    pub(crate) struct FakeClock {
        real_ns: Cell<u64>,
        busy_ns: Cell<u64>,
    }

    impl FakeClock {
        pub(crate) fn advance_ns(&self, ns: u64) {
            self.sleep_ns(ns);
            self.busy_ns.set(self.busy_ns.get() + ns);
        }

        pub(crate) fn sleep_ns(&self, ns: u64) {
            self.real_ns.set(self.real_ns.get() + ns);
        }
    }

    impl Clock for Rc<FakeClock> {
        fn real_ns(&self) -> u64 {
            self.real_ns.get()
        }
        fn process_cpu_ns(&self) -> u64 {
            self.busy_ns.get() * 2
        }
        fn thread_cpu_ns(&self) -> u64 {
            self.busy_ns.get() / 2
        }
        fn machine(&self) -> Option<Snapshot> {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::{fake::FakeClock, *};

    #[test]
    fn counts_only_between_start_and_stop() {
        let clock = Rc::new(FakeClock::default());
        let mut timer = Timer::new(&clock, true);
        clock.advance_ns(100);
        timer.start();
        clock.advance_ns(10);
        timer.start();
        clock.advance_ns(20);
        timer.stop();
        timer.stop();
        clock.advance_ns(1000);
        timer.start();
        clock.advance_ns(1);
        timer.stop();
        assert_eq!((timer.real_ns, timer.cpu_ns), (31, 62));
    }

    #[test]
    fn the_system_clocks_are_monotonic() {
        let clock = SystemClock::new();
        let before = (clock.real_ns(), clock.process_cpu_ns(), clock.thread_cpu_ns());
        let mut spins = 0u64;
        while clock.thread_cpu_ns() == before.2 {
            spins = std::hint::black_box(spins + 1);
        }
        assert!(clock.real_ns() > before.0);
        assert!(clock.process_cpu_ns() > before.1);
    }
}
