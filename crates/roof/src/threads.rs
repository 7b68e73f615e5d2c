//! Repeats work on threads at the same time, and keeps the best rate.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::Rate;

/// The duration of a repetition: long compared with a read of the clock, short compared with a time slice of
/// the scheduler.
const REPETITION_NS: u64 = 200_000;
/// Fewer repetitions are too few, also if time is up, and so are fewer at the same time.
const MIN_REPETITIONS: usize = 5;
/// Threads ran at the same time if all ended within this multiple of the longest processor time.
const CONCURRENT: f64 = 1.1;

/// Work of a thread: performs a number of rounds.
pub(crate) type Work<'w> = Box<dyn FnMut(u64) + Send + 'w>;

/// A repetition of a thread.
struct Span {
    begin: Instant,
    end: Instant,
    cpu_ns: u64,
    rounds: u64,
}

/// The best rate of these threads, whose rounds do `amount` each. `works` has one for each thread. Fails if a
/// thread cannot be started.
pub(crate) fn best(works: Vec<Work<'_>>, amount: f64, time: Duration) -> io::Result<Rate> {
    let (threads, begun) = (works.len(), Instant::now());
    let (gate, is_over) = (Gate::new(threads), AtomicBool::new(false));
    let repeat = |mut work: Work<'_>, is_first: bool| {
        let rounds = calibrate(&mut work);
        let mut spans = Vec::new();
        loop {
            if is_first && spans.len() >= MIN_REPETITIONS && begun.elapsed() >= time {
                is_over.store(true, Ordering::Relaxed);
            }
            // What the first thread stored before is seen by all after the gate.
            let is_complete = gate.pass();
            if !is_complete || is_over.load(Ordering::Relaxed) {
                return spans;
            }
            spans.push(span(&mut work, rounds));
            // None may reach the next gate before all have read the flag.
            gate.pass();
        }
    };
    let spans = std::thread::scope(|scope| -> io::Result<Vec<Vec<Span>>> {
        let mut works = works.into_iter();
        let first = works.next();
        let start = |work| std::thread::Builder::new().spawn_scoped(scope, || repeat(work, false));
        let others: io::Result<Vec<_>> = works.map(start).collect();
        // Those that were started must not wait for it.
        let others = others.inspect_err(|_| gate.break_open())?;
        let first = first.map(|work| repeat(work, true));
        let joined =
            others.into_iter().map(|it| it.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        Ok(first.into_iter().chain(joined).collect())
    })?;
    let count = spans.iter().map(Vec::len).min().unwrap_or(0);
    let repetitions = (0..count).map(|index| spans.iter().map(|it| &it[index]).collect::<Vec<_>>());
    let concurrent: Vec<f64> = repetitions.filter_map(|it| together(&it)).collect();
    let apart = || -> f64 { spans.iter().map(|it| it.iter().map(alone).fold(0.0, f64::max)).sum() };
    let is_concurrent = threads == 1 || concurrent.len() >= MIN_REPETITIONS;
    let rounds_per_second = match threads > 1 && is_concurrent {
        true => concurrent.into_iter().fold(0.0, f64::max),
        false => apart(),
    };
    Ok(Rate { threads, per_second: amount * rounds_per_second, is_concurrent })
}

/// The number of rounds that take as long as a repetition.
fn calibrate(work: &mut Work<'_>) -> u64 {
    let mut rounds = 1;
    loop {
        let cpu_ns = span(work, rounds).cpu_ns;
        if cpu_ns >= REPETITION_NS / 2 || rounds >= 1 << 40 {
            let scale = REPETITION_NS as f64 / cpu_ns.max(1) as f64;
            return ((rounds as f64 * scale) as u64).max(1);
        }
        rounds *= 2;
    }
}

fn span(work: &mut Work<'_>, rounds: u64) -> Span {
    let (begin, cpu_begin) = (Instant::now(), cpu_ns());
    work(rounds);
    Span { begin, cpu_ns: cpu_ns().saturating_sub(cpu_begin), end: Instant::now(), rounds }
}

/// Rounds per second of all threads; `None` if they did not run at the same time.
fn together(spans: &[&Span]) -> Option<f64> {
    let (begin, end) = (spans.iter().map(|it| it.begin).min()?, spans.iter().map(|it| it.end).max()?);
    let cpu_ns = spans.iter().map(|it| it.cpu_ns).max()?.max(1) as f64;
    let elapsed_ns = end.duration_since(begin).as_nanos() as f64;
    let rounds: u64 = spans.iter().map(|it| it.rounds).sum();
    (elapsed_ns <= cpu_ns * CONCURRENT).then(|| rounds as f64 * 1e9 / elapsed_ns)
}

/// Rounds per second of a thread, by its processor time.
fn alone(span: &Span) -> f64 {
    span.rounds as f64 * 1e9 / span.cpu_ns.max(1) as f64
}

pub(crate) fn cpu_ns() -> u64 {
    // Processor times start at zero and never decrease.
    rehal_base::platform::thread_cpu_ns() as u64
}

/// Lets threads pass together, and within less than a microsecond if each has a processor.
struct Gate {
    threads: usize,
    arrived: AtomicUsize,
    passed: AtomicUsize,
    is_broken: AtomicBool,
}

impl Gate {
    /// Looks after which a thread yields its processor.
    const SPINS: u32 = 20_000;

    fn new(threads: usize) -> Self {
        Self {
            threads,
            arrived: AtomicUsize::new(0),
            passed: AtomicUsize::new(0),
            is_broken: AtomicBool::new(false),
        }
    }

    /// Lets all pass from now on.
    fn break_open(&self) {
        self.is_broken.store(true, Ordering::Release);
    }

    /// Returns whether all threads have come.
    fn pass(&self) -> bool {
        let round = self.passed.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            self.passed.store(round + 1, Ordering::Release);
            return true;
        }
        let mut spins = 0;
        while self.passed.load(Ordering::Acquire) == round {
            if self.is_broken.load(Ordering::Acquire) {
                return false;
            }
            spins += 1;
            match spins < Self::SPINS {
                true => std::hint::spin_loop(),
                false => std::thread::yield_now(),
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_ran_apart_do_not_count_as_concurrent() {
        let origin = Instant::now();
        let at = |us| origin + Duration::from_micros(us);
        let span = |begin, end, cpu_us: u64| Span {
            begin: at(begin),
            end: at(end),
            cpu_ns: cpu_us * 1000,
            rounds: 10,
        };
        // 20 rounds in 100 us.
        let (one, other) = (span(0, 98, 98), span(2, 100, 98));
        assert!((together(&[&one, &other]).unwrap() - 2e5).abs() < 1.0);
        assert_eq!(together(&[&one, &span(60, 158, 98)]), None, "the second began later");
        assert_eq!(together(&[&one, &span(0, 150, 98)]), None, "the second was preempted");
        assert!((alone(&span(0, 150, 100)) - 1e5).abs() < 1.0, "processor time counts");
    }

    #[test]
    fn threads_pass_a_gate_together() {
        let (gate, count) = (Gate::new(3), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 1..=100 {
                        count.fetch_add(1, Ordering::Relaxed);
                        gate.pass();
                        assert_eq!(count.load(Ordering::Relaxed), 3 * round);
                        gate.pass();
                    }
                });
            }
        });
    }

    #[test]
    fn a_broken_gate_holds_no_thread() {
        let gate = Gate::new(3);
        std::thread::scope(|scope| {
            let waiting = [0; 2].map(|_| scope.spawn(|| gate.pass()));
            gate.break_open();
            assert_eq!(waiting.map(|it| it.join().unwrap()), [false; 2]);
        });
    }

    #[test]
    fn rates_are_of_all_rounds() {
        // Work of known duration: a round spins for 10 us of processor time.
        let work = || -> Work<'static> {
            Box::new(|rounds| {
                let end = cpu_ns() + rounds * 10_000;
                while cpu_ns() < end {
                    std::hint::spin_loop();
                }
            })
        };
        let rate = best(vec![work()], 7.0, Duration::from_millis(5)).unwrap();
        assert!(rate.is_concurrent && rate.threads == 1);
        // 7 units in each of 100,000 rounds in a second.
        assert!((6.5e5..=7.0e5).contains(&rate.per_second), "{rate:?}");
        let both = best(vec![work(), work()], 7.0, Duration::from_millis(5)).unwrap();
        assert!(both.threads == 2 && (1.2e6..=1.41e6).contains(&both.per_second), "{both:?}");
    }
}
