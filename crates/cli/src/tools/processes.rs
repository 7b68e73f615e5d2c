//! `--processes`: measures again in fresh processes, since the memory that a process happens to get may make
//! what it runs slower by some percent, however often it is repeated there.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use rehal_base::{Error, Result, StatusCode};
use rehal_jobs::{Job, JobEnd};
use rehal_judge::{MeasuredTime, stats, time};
use serde::{Deserialize, Serialize};

use super::history;
use crate::flags::{Flag, Flags, Refusal, text};
use crate::progress::Progress;
use crate::{Invocation, interrupts, output};

/// The processes of a history. Two such sets tell the difference of one of 300 times.
const OF_HISTORY: u64 = 8;

pub(super) const PROCESSES: Flag<Option<u64>> = Flag::parsed(
    "processes",
    "N",
    "",
    "a number of processes from 1 to 1000",
    |value| match &*text(value)? {
        "" => Ok(None),
        text => text.parse().ok().filter(|it| (1..=1000).contains(it)).map(Some).ok_or(Refusal::Unexpected),
    },
    "Measures in so many processes, one after the other, with all limits for each: the memory that a process happens to get may \
     make it slower by some percent. Standard error says how they differ. By default 1; 8 with --history or --against, which \
     are enough to judge 300 times.",
);

/// The request to a process.
#[derive(Serialize)]
struct Request {}

/// In how many processes the flags say to measure.
pub(super) fn count(flags: &Flags) -> u64 {
    let of_history = || flags.takes(history::HISTORY.name()) && history::is_asked(flags);
    flags.get(&PROCESSES).unwrap_or_else(|| if of_history() { OF_HISTORY } else { 1 })
}

/// Refuses files that each process would write again. To be called before anything is measured in vain.
pub(super) fn check(flags: &Flags) -> Result<()> {
    /// Only the first process writes them.
    const OF_FIRST: [&str; 4] = ["history", "against", "benchmark_out", "export"];
    let is_wrong = |name: &str, writes: bool| writes && !OF_FIRST.contains(&name);
    let written = flags.files().into_iter().find(|(name, it)| is_wrong(name, it.access.writes()));
    let written = written.map(|it| it.0).or_else(|| flags.changed(|name| name == "rehal_kernel_record"));
    match written {
        Some(name) if count(flags) > 1 => Err(Error::invalid_argument(format!(
            "--{name} is for one process, and --history, --against and --processes measure in several"
        ))
        .advise("leave it out, or give --processes=1")),
        _ => Ok(()),
    }
}

/// The times of other processes.
pub(super) type OtherTimes = Vec<Vec<MeasuredTime>>;

/// Adds the times of other processes. One of them answers with its times instead.
pub(super) fn add(invocation: &Invocation, others: &OtherTimes, measured: &mut [MeasuredTime]) -> Result<()> {
    if let Some(worker) = &invocation.worker {
        return worker.answer(&measured).map_err(|error| Error::io("answering with times", &error));
    }
    for time in &mut *measured {
        for other in others.iter().flatten().filter(|other| other.name == time.name).collect::<Vec<_>>() {
            time.add_process(other.median_ns);
        }
    }
    Ok(())
}

/// Has other processes measure the same, as often as the flags say. Before this one, which is then confined
/// and starts no processes.
pub(super) fn measure(invocation: &Invocation) -> Result<OtherTimes> {
    let count = count(&invocation.flags);
    if count == 1 || invocation.worker.is_some() {
        return Ok(Vec::new());
    }
    let cannot = |error| Error::io("starting a process that measures", &error);
    let interrupted = interrupts::flag()?;
    let (mut progress, mut measured) = (Progress::new("processes"), OtherTimes::new());
    for index in 1..count {
        progress.set(index, count);
        let job = Job::for_worker(invocation.program.clone(), invocation.arguments(), &Request {});
        let mut watch = |_| match interrupted.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let outcome = job.map_err(cannot)?.run(&mut watch).map_err(cannot)?;
        let place = || format!("process {} of {count}", index + 1);
        if outcome.end == JobEnd::Interrupted {
            return Err(Error::new(StatusCode::Cancelled, "interrupted: what was measured is not kept")
                .context(place()));
        }
        let answer = outcome.answer.as_ref().and_then(|it| Vec::<MeasuredTime>::deserialize(it).ok());
        let Some(times) = answer.filter(|_| outcome.is_success()) else {
            let said = String::from_utf8_lossy(&outcome.stderr.bytes);
            let message = format!("it ended {} without a time: {}", outcome.end, said.trim());
            return Err(Error::new(StatusCode::Aborted, message).context(place()));
        };
        measured.push(times);
    }
    progress.clear();
    Ok(measured)
}

/// How the processes differ.
pub(super) fn note(measured: &[MeasuredTime]) {
    for it in measured.iter().filter(|it| it.processes_ns.len() > 1) {
        output::note(&told(it));
    }
}

fn told(it: &MeasuredTime) -> String {
    let end =
        |of: fn(f64, f64) -> f64| it.processes_ns.iter().copied().reduce(of).map_or_else(String::new, time);
    let interval = stats::median_interval(&it.processes_ns, 0.05);
    let interval = interval
        .map_or_else(String::new, |it| format!(", 95 % interval {} to {}", time(it.low), time(it.high)));
    format!(
        "note: {}: by {}, median {} of {} processes{interval}; from {} to {}",
        output::escaped(&it.name),
        it.timed_by.told(),
        time(it.median_ns),
        it.processes_ns.len(),
        end(f64::min),
        end(f64::max)
    )
}

#[cfg(test)]
mod tests {
    use rehal_judge::Clock;

    use super::*;

    #[test]
    fn a_time_is_the_median_of_processes_and_has_their_range() {
        let mut it = MeasuredTime::new("f".into(), 1500.0, Clock::Processor);
        for time_ns in [1000.0, 2000.0] {
            it.add_process(time_ns);
        }
        assert_eq!((it.median_ns, &it.processes_ns[..]), (1500.0, &[1500.0, 1000.0, 2000.0][..]));
        assert_eq!(
            told(&it),
            "note: f: by the CPU time of all threads, median 1.50 us of 3 processes; from 1.00 us to 2.00 us"
        );
        [1100.0, 1200.0, 1900.0].into_iter().for_each(|time_ns| it.add_process(time_ns));
        let text = told(&it);
        assert!(text.contains("1.35 us of 6 processes, 95 % interval 1.00 us to 2.00 us; from"), "{text}");
    }
}
