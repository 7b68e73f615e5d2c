//! Histories: reports that are kept in a file, one a line, and the times that became slower since the last of
//! them.

use rehal_base::escaped;
use serde::{Deserialize, Serialize};

use crate::judge::{Clock, TimingVerdict, judge_processes};
use crate::stats::{self, Interval};

/// A time, in each process that had it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredTime {
    /// Its name.
    pub name: String,
    /// The median of the processes, in nanoseconds.
    pub median_ns: f64,
    /// The clock that measures it.
    #[serde(default)]
    pub timed_by: Clock,
    /// Nanoseconds of each process; none of a line that an earlier version has written.
    #[serde(default)]
    pub processes_ns: Vec<f64>,
}

impl MeasuredTime {
    /// A time of this process.
    pub fn new(name: String, median_ns: f64, timed_by: Clock) -> Self {
        Self { name, median_ns, timed_by, processes_ns: vec![median_ns] }
    }

    /// Adds the median of another process.
    pub fn add_process(&mut self, time_ns: f64) {
        self.processes_ns.push(time_ns);
        self.median_ns = stats::median(&self.processes_ns);
    }
}

/// A report of a history: a line of JSON, of which other keys are ignored.
#[derive(Debug, Deserialize)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// The origin of its times.
    pub header: HistoryOrigin,
    /// The settings that change times, such as flags.
    pub settings: Vec<String>,
    /// Its times.
    pub measured: Vec<MeasuredTime>,
}

/// The machine, the code and the capture of a report.
#[derive(Debug, Deserialize)]
#[non_exhaustive]
pub struct HistoryOrigin {
    /// The kind and version of the report.
    pub schema: String,
    /// The digest of the capture, if it is of one.
    pub capture_digest: Option<String>,
    /// The names of the devices, if something ran.
    pub device: Option<Vec<String>>,
    /// The name of the processor.
    pub cpu: String,
    /// The name of the machine.
    pub host: String,
    /// The load of the machine before the run.
    pub load: HistoryLoad,
    /// The commit of the program that measured.
    #[serde(default)]
    pub commit: String,
}

/// The load of a machine.
#[derive(Debug, Deserialize)]
#[non_exhaustive]
pub struct HistoryLoad {
    /// Over 1, 5 and 15 minutes.
    pub average: Option<[f64; 3]>,
    /// Its processors.
    pub processors: u64,
}

impl HistoryEntry {
    /// The reports of a history, and why other lines are none.
    pub fn parse(text: &str) -> (Vec<Self>, Vec<String>) {
        let (mut entries, mut skipped) = (Vec::new(), Vec::new());
        for (line, number) in text.lines().zip(1_u64..).filter(|(line, _)| !line.trim().is_empty()) {
            let entry = serde_json::from_str::<Self>(line).map_err(|error| error.to_string());
            let entry = entry.and_then(|entry| match entry.measured.iter().find(|it| it.median_ns <= 0.0) {
                Some(it) => Err(format!("the time of '{}' is not above 0", escaped(&it.name))),
                None => Ok(entry),
            });
            match entry {
                Ok(entry) => entries.push(entry),
                Err(why) => skipped.push(format!("line {number} is not a report: {why}")),
            }
        }
        (entries, skipped)
    }

    /// Whether their times compare.
    fn is_like(&self, other: &Self) -> bool {
        fn key(it: &HistoryEntry) -> impl PartialEq {
            let HistoryOrigin { schema, capture_digest, device, cpu, host, .. } = &it.header;
            (schema, capture_digest, device, cpu, host, &it.settings)
        }
        key(self) == key(other)
    }
}

impl HistoryLoad {
    /// The average of the last minute for each processor.
    pub fn of_processor(&self) -> Option<f64> {
        Some(self.average?[0] / self.processors.max(1) as f64)
    }
}

/// A time, and the last one of its name.
#[non_exhaustive]
pub struct HistoryPair<'m> {
    /// The report of the earlier time.
    pub entry: &'m HistoryEntry,
    /// The earlier time.
    pub old: &'m MeasuredTime,
    /// The time that is judged.
    pub new: &'m MeasuredTime,
    /// The new median as a fraction of the old one.
    pub ratio: f64,
    /// Its interval, corrected for the number of times; `None` with too few processes.
    pub interval: Option<Interval>,
    /// The verdict; of times of two clocks, it cannot be told.
    pub verdict: TimingVerdict,
}

/// The times of a report with the last ones of their names.
#[non_exhaustive]
pub struct HistoryComparison<'m> {
    /// The times that have an earlier one, in the order of the report.
    pub pairs: Vec<HistoryPair<'m>>,
    /// The number of times of the report.
    pub new_count: usize,
}

impl<'m> HistoryComparison<'m> {
    /// Compares a report with earlier ones, the oldest first, of the same origin and settings. A time is
    /// slower if it is so by more than `margin`, a fraction.
    pub fn new(earlier: &'m [HistoryEntry], report: &'m HistoryEntry, margin: f64) -> Self {
        let like: Vec<_> = earlier.iter().rev().filter(|it| it.is_like(report)).collect();
        let last = |new: &'m MeasuredTime| {
            let of = |entry: &&'m HistoryEntry| {
                Some((*entry, entry.measured.iter().find(|it| it.name == new.name)?, new))
            };
            like.iter().find_map(of)
        };
        let found: Vec<_> = report.measured.iter().filter_map(last).collect();
        let pair = |&(entry, old, new): &(&'m HistoryEntry, &'m MeasuredTime, &'m MeasuredTime)| {
            let judgment = judge_processes(&old.processes_ns, &new.processes_ns, margin, found.len());
            let ratio = new.median_ns / old.median_ns;
            let verdict = match old.timed_by == new.timed_by {
                true => judgment.verdict,
                false => TimingVerdict::CannotTell,
            };
            HistoryPair { entry, old, new, ratio, interval: judgment.interval, verdict }
        };
        Self { pairs: found.iter().map(pair).collect(), new_count: report.measured.len() }
    }

    /// The pairs with this verdict.
    pub fn of(&self, verdict: TimingVerdict) -> impl Iterator<Item = &HistoryPair<'m>> {
        self.pairs.iter().filter(move |it| it.verdict == verdict)
    }

    /// The verdict on the whole report.
    pub fn verdict(&self) -> TimingVerdict {
        let has = |verdict| self.of(verdict).next().is_some();
        match has(TimingVerdict::Slower) {
            true => TimingVerdict::Slower,
            false if self.pairs.is_empty() || has(TimingVerdict::CannotTell) => TimingVerdict::CannotTell,
            false => TimingVerdict::NotSlower,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Eight processes that differ by this fraction; none without it.
    fn measured(name: &str, median_ns: f64, spread: Option<f64>) -> MeasuredTime {
        let at =
            |spread: f64| (0..8).map(|it| median_ns * (1.0 + spread * (f64::from(it) - 3.5) / 3.5)).collect();
        MeasuredTime {
            processes_ns: spread.map_or_else(Vec::new, at),
            ..MeasuredTime::new(name.into(), median_ns, Clock::Wall)
        }
    }

    fn line(commit: &str, measured: &[MeasuredTime]) -> Value {
        json!({
            "header": {
                "schema": "s/1", "capture_digest": "1", "device": ["d"], "cpu": "c", "host": "h", "commit": commit, "more": 1,
                "load": {"average": [0.1, 0.1, 0.1], "processors": 2},
            },
            "settings": ["--a"],
            "measured": measured,
            "more": [],
        })
    }

    fn entries(lines: &[Value]) -> Vec<HistoryEntry> {
        let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
        let (entries, skipped) = HistoryEntry::parse(&lines.join("\n"));
        assert_eq!(skipped, [""; 0]);
        entries
    }

    /// A report of this many times, of which each process takes up to 6 % more for its placement.
    fn random(random: &mut fastrand::Rng, count: usize, factor: f64) -> Value {
        let mut of = |index: usize| {
            let mut time = || 100.0 * factor * (1.0 + 0.06 * random.f64()) * (1.0 + 0.02 * random.f64());
            let processes_ns: Vec<f64> = (0..8).map(|_| time()).collect();
            let median_ns = stats::median(&processes_ns);
            MeasuredTime { processes_ns, ..MeasuredTime::new(format!("f{index}"), median_ns, Clock::Wall) }
        };
        line("c", &(0..count).map(&mut of).collect::<Vec<_>>())
    }

    #[test]
    fn a_report_of_the_same_is_slower_in_at_most_five_of_a_hundred() {
        for (count, margin) in [(1, 0.0), (1, 0.05), (30, 0.0), (30, 0.05)] {
            let mut generator = fastrand::Rng::with_seed(5);
            let mut is_slower = |factor: f64| {
                let all =
                    entries(&[random(&mut generator, count, 1.0), random(&mut generator, count, factor)]);
                HistoryComparison::new(&all[..1], &all[1], margin).verdict() == TimingVerdict::Slower
            };
            let wrong = (0..100).filter(|_| is_slower(1.0)).count();
            let found = (0..100).filter(|_| is_slower(1.25)).count();
            assert!(wrong <= 5 && found >= 95, "{wrong} and {found} of 100 with {count} times and {margin}");
        }
    }

    #[test]
    fn reports_of_the_same_machine_and_flags_are_alike() {
        let same = line("c", &[measured("a", 1.0, None)]);
        let with = |pointer: &str, value: Value| {
            let mut other = same.clone();
            *other.pointer_mut(pointer).unwrap() = value;
            other
        };
        let others = [
            ("/header/schema", json!("s/2")),
            ("/header/capture_digest", json!("2")),
            ("/header/device", json!(["d", "e"])),
            ("/header/cpu", json!("x")),
            ("/header/host", json!("x")),
            ("/settings", json!(["--a", "--b"])),
        ];
        let mut lines = vec![same.clone(), with("/header/commit", json!("x"))];
        lines.extend(others.map(|(pointer, value)| with(pointer, value)));
        let entries = entries(&lines);
        let alike: Vec<_> = entries.iter().map(|it| it.is_like(&entries[0])).collect();
        assert_eq!(alike, [true, true, false, false, false, false, false, false]);
    }

    #[test]
    fn lines_that_are_not_reports_are_skipped() {
        let good = line("c", &[measured("a", 1.0, None)]);
        let zero = line("c", &[measured("a", 0.0, None)]);
        let (entries, skipped) = HistoryEntry::parse(&format!("{good}\n{{}}\n\n{good}\n{zero}\n{{\"header"));
        assert_eq!((entries.len(), skipped.len()), (2, 3));
        assert!(skipped[0].starts_with("line 2 is not a report: "), "{skipped:?}");
        assert_eq!(skipped[1], "line 5 is not a report: the time of 'a' is not above 0");
    }

    #[test]
    fn lines_without_processes_are_read() {
        let old = r#"{"name":"a","median_ns":2.0,"interval_ns":[1.0,3.0]}"#;
        let read: MeasuredTime = serde_json::from_str(old).unwrap();
        let expected =
            MeasuredTime { processes_ns: Vec::new(), ..MeasuredTime::new("a".into(), 2.0, Clock::Wall) };
        assert_eq!(read, expected);
    }
}
