//! Reports that are kept in a file, one a line, and what became slower since the last of them.

use std::fmt::Write;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use rehal_base::{Context, Error, Result, StatusCode, plural};
use rehal_judge::{
    HistoryComparison, HistoryEntry, HistoryLoad, HistoryPair, Interval, LineFile, MeasuredTime,
    TimingVerdict, time,
};
use serde::Serialize;

use crate::flags::{Access, Flag, Flags, Group};
use crate::output_file::OutputFile;
use crate::report::{Report, Subject};
use crate::{Invocation, output};

pub(super) const HISTORY: Flag<Option<PathBuf>> = Flag::path(
    "history",
    "Appends the report to this file, as JSON on a line, with what it was measured on, and each time in each of the processes \
     that measure it.",
)
.files(|path, _| path.iter().map(|path| Access::AppendResult.to(path)).collect());

pub(super) const AGAINST: Flag<Option<PathBuf>> = Flag::path(
    "against",
    "Compares each time with the last one of its name in this file, which --history has written, of the same capture, host, CPU, \
     devices and flags: several processes with several, with an interval that is corrected for the number of times. The exit \
     status is 0 if all are proved not to be slower by more than --fail_if_slower, 3 if one is slower by more, and 4 if that \
     cannot be told of one.",
)
.files(|path, _| path.iter().map(|path| Access::ReadFirst.to(path)).collect());

/// Both flags, of tools that have `--fail_if_slower`.
pub(super) const REPORTS: Group = Group { title: "History", flags: &[&HISTORY, &AGAINST] };

/// A longer file is refused.
const MAX_BYTES: u64 = 1 << 28;

/// A machine is loaded if more than this part of its processors was busy before a run.
const LOADED: f64 = 0.25;

/// Whether a flag changes times, and not only how many there are, what is printed, or the names of the times.
fn changes_times(flag: &str) -> bool {
    const OTHERS: [&str; 13] = [
        "against",
        "dispatch",
        "export",
        "export_commands",
        "fail_if_slower",
        "flagfile",
        "format",
        "function",
        "history",
        "max_time",
        "processes",
        "repetitions",
        "replay_scope",
    ];
    !OTHERS.contains(&flag) && !flag.starts_with("benchmark_")
}

/// A report with its times, as a line of the file has it.
#[derive(Serialize)]
struct Line<'a, R> {
    #[serde(flatten)]
    report: &'a R,
    settings: &'a [String],
    measured: &'a [MeasuredTime],
}

/// Whether the flags are given.
pub(super) fn is_asked(flags: &Flags) -> bool {
    flags.get(&HISTORY).is_some() || flags.get(&AGAINST).is_some()
}

/// The files of the flags.
pub(super) struct History {
    /// The file to append to, and what precedes a line there. Confined code must not have it open.
    kept: Option<(OutputFile, &'static str)>,
    /// The reports to compare with.
    earlier: Option<Vec<HistoryEntry>>,
}

impl History {
    /// Reads and opens the files. Fails before anything is measured in vain.
    pub(super) fn open(invocation: &Invocation) -> Result<Self> {
        if invocation.worker.is_some() {
            return Ok(Self { kept: None, earlier: None });
        }
        let flags = &invocation.flags;
        let (history, against) = (flags.get(&HISTORY), flags.get(&AGAINST));
        let earlier = match &against {
            Some(path) => {
                // The first report of a new history has none before it.
                let may_be_empty = history.as_ref() == Some(path);
                Some(read(path, may_be_empty).context(|| format!("--against={}", path.display()))?)
            }
            None => None,
        };
        let kept = match history {
            Some(path) if path == Path::new("-") => {
                return Err(Error::invalid_argument("--history appends to a file, not to standard output")
                    .advise("name a file"));
            }
            Some(path) => {
                let place = || format!("--history={}", path.display());
                let file = LineFile::open(&path).context(place)?;
                check(&file).context(place)?;
                let separator = file.separator();
                Some((OutputFile::appending(HISTORY.name(), path)?, separator))
            }
            None => None,
        };
        Ok(Self { kept, earlier })
    }

    /// Compares the times with the last ones like them, and appends them, if flags say so.
    pub(super) fn keep<R: Report>(
        &self,
        invocation: &Invocation,
        report: &R,
        measured: Vec<MeasuredTime>,
        margin: f64,
        subject: Subject<'_>,
    ) -> Result<()> {
        if self.kept.is_none() && self.earlier.is_none() {
            return Ok(());
        }
        // A time below a step of the clock is 0, which has no ratio.
        let measured: Vec<_> = measured.into_iter().filter(|it| it.median_ns > 0.0).collect();
        let settings = invocation.flags.settings(changes_times);
        let line = Line { report, settings: &settings, measured: &measured };
        let line = invocation.line(R::SCHEMA, &line, subject)?;
        if let Some(earlier) = &self.earlier {
            let new: HistoryEntry = serde_json::from_str(&line).map_err(|error| {
                Error::new(StatusCode::Internal, format!("the report cannot be read: {error}"))
            })?;
            let compared = HistoryComparison::new(earlier, &new, margin);
            output::note(&told(&compared, &new, margin));
            invocation.set_status(compared.verdict().status());
        }
        match &self.kept {
            Some(_) if measured.is_empty() => {
                output::note("note: --history: nothing is appended, since nothing was timed");
                Ok(())
            }
            Some((file, separator)) => file.write(|sink| {
                let written = write!(sink, "{separator}{line}");
                written.map_err(|error| Error::io("appending to it", &error))
            }),
            None => Ok(()),
        }
    }
}

/// The reports of a file, which may be a pipe.
fn read(path: &Path, may_be_empty: bool) -> Result<Vec<HistoryEntry>> {
    const ADVICE: &str = "name a file that --history has written";
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes)) {
        Err(error) if error.kind() == ErrorKind::NotFound && may_be_empty => {}
        result => {
            result.map_err(|error| Error::io("reading it", &error).advise(ADVICE))?;
        }
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Error::invalid_argument(format!("it is longer than {MAX_BYTES} bytes")).advise(ADVICE));
    }
    let (entries, skipped) = HistoryEntry::parse(&String::from_utf8_lossy(&bytes));
    match (&entries[..], &skipped[..]) {
        ([], []) if may_be_empty => {}
        ([], []) => return Err(Error::invalid_argument("it has no report").advise(ADVICE)),
        ([], [first, ..]) => return Err(Error::invalid_argument(first).advise(ADVICE)),
        (_, []) => {}
        (_, [first, rest @ ..]) => {
            let rest = match rest.len() as u64 {
                0 => String::new(),
                count => format!("; nor are {} after it", plural(count, "line")),
            };
            output::note(&format!("note: --against: skipped: {first}{rest}"));
        }
    }
    Ok(entries)
}

/// Fails if it is a regular file of something else than reports.
fn check(file: &LineFile) -> Result<()> {
    let Some(bytes) = file.contents(MAX_BYTES + 1)? else { return Ok(()) };
    match HistoryEntry::parse(&String::from_utf8_lossy(&bytes)) {
        (entries, skipped) if entries.is_empty() && !skipped.is_empty() => {
            Err(Error::invalid_argument(format!("it is not a history: {}", skipped[0]))
                .advise("name a file that --history has written, or one that does not exist"))
        }
        _ => Ok(()),
    }
}

/// A load as text.
fn load_text(load: &HistoryLoad) -> String {
    let average = load.average.map_or_else(|| "unknown".into(), |it| format!("{:.2}", it[0]));
    format!("{average} on {}", plural(load.processors, "processor"))
}

/// How the times of a report compare with the last ones.
fn told(comparison: &HistoryComparison<'_>, report: &HistoryEntry, margin: f64) -> String {
    /// Of those of which it cannot be told.
    const MOST: usize = 5;
    let (compared, percent) = (comparison.pairs.len(), margin * 100.0);
    let mut text = format!(
        "note: --against: {compared} compared, {} without an earlier time",
        comparison.new_count - compared
    );
    if compared == 0 {
        text.push_str(
            ": the file has none of the same capture, host, CPU, devices and flags, so that it cannot be told what is slower",
        );
        return text;
    }
    let is_slower = match comparison.of(TimingVerdict::Slower).count() {
        0 => format!("none of {} is", plural(compared as u64, "time")),
        1 => format!("1 of {} is", plural(compared as u64, "time")),
        count => format!("{count} of {compared} times are"),
    };
    let _ = write!(text, "; {is_slower} slower by more than {percent} % than at {}", commits(comparison));
    for pair in comparison.of(TimingVerdict::Slower) {
        let _ = write!(text, "\n  {}", pair_text(pair));
    }
    let unknown: Vec<_> = comparison.of(TimingVerdict::CannotTell).collect();
    if !unknown.is_empty() {
        let _ = write!(text, "\n  it cannot be told of {}:", unknown.len());
        for pair in unknown.iter().take(MOST) {
            let _ = write!(text, "\n    {}", pair_text(pair));
        }
        if unknown.len() > MOST {
            text.push_str("\n    ...");
        }
    }
    let now = &report.header.load;
    let loads = comparison.pairs.iter().map(|it| &it.entry.header.load);
    let before =
        loads.max_by(|a, b| a.of_processor().unwrap_or(0.0).total_cmp(&b.of_processor().unwrap_or(0.0)));
    if let Some(before) = before
        && [before, now].iter().any(|it| it.of_processor().is_some_and(|load| load > LOADED))
    {
        let _ = write!(
            text,
            "\n  load when it was measured: before {}, now {}",
            load_text(before),
            load_text(now)
        );
    }
    text.push_str(
        "\n  intervals do not cover how the machine changed since; rehal benchmark --with compares within one run",
    );
    text
}

/// Where the earlier times are from.
fn commits(comparison: &HistoryComparison<'_>) -> String {
    let mut commits: Vec<_> =
        comparison.pairs.iter().map(|it| output::escaped(&it.entry.header.commit)).collect();
    commits.sort();
    commits.dedup();
    let noun = if commits.len() == 1 { "commit" } else { "commits" };
    format!("{noun} {}", commits.join(", "))
}

/// A pair as text.
fn pair_text(pair: &HistoryPair<'_>) -> String {
    let HistoryPair { old, new, .. } = pair;
    let interval = match pair.interval {
        _ if old.timed_by != new.timed_by => " (measured by another clock)".to_owned(),
        Some(Interval { low, high }) => format!(" ({low:.3} to {high:.3})"),
        None => {
            let [old, new] = [old, new].map(|it| it.processes_ns.len() as u64);
            format!(" (too few processes: {old} before, {new} now)")
        }
    };
    format!(
        "{}: {:.3} times as long{interval}, {} instead of {}",
        output::escaped(&new.name),
        pair.ratio,
        time(new.median_ns),
        time(old.median_ns)
    )
}

#[cfg(test)]
mod tests {
    use rehal_judge::Clock;
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

    #[test]
    fn only_what_processes_prove_is_slower() {
        let old = ["same", "noisy", "slow", "old", "gone"].map(|name| measured(name, 100.0, Some(0.01)));
        let new = [
            measured("same", 102.0, Some(0.01)),
            measured("noisy", 120.0, Some(0.5)),
            measured("slow", 120.0, Some(0.01)),
            measured("old", 120.0, None),
            measured("new", 500.0, None),
        ];
        let all = entries(&[line("abc", &old), line("d\nef", &new)]);
        let (old, new) = (&all[..1], &all[1]);
        let found = HistoryComparison::new(old, new, 0.05);
        assert_eq!((found.verdict(), found.verdict().status()), (TimingVerdict::Slower, 3));
        let text = told(&found, new, 0.05);
        let start = "note: --against: 4 compared, 1 without an earlier time; 1 of 4 times is slower by more than 5 % than at \
                     commit abc\n  slow: 1.200 times as long (1.1";
        let rest = [
            "), 120 ns instead of 100 ns\n  it cannot be told of 2:\n    noisy: 1.200 times as long (0.",
            "\n    old: 1.200 times as long (too few processes: 8 before, 0 now), 120 ns instead of 100 ns\n  intervals",
        ];
        assert!(text.starts_with(start) && rest.iter().all(|it| text.contains(it)), "{text}");
        // It is slower, but not by more than the margin.
        let slow = &HistoryComparison::new(old, new, 0.25).pairs[2];
        assert_eq!((&*slow.new.name, slow.verdict), ("slow", TimingVerdict::NotSlower));
        assert_eq!(HistoryComparison::new(old, new, 0.2).pairs[2].verdict, TimingVerdict::CannotTell);
        // Vice versa, all medians are lower.
        let (old, new) = (&all[1..], &all[0]);
        let found = HistoryComparison::new(old, new, 0.0);
        let text = told(&found, new, 0.0);
        assert!(
            text.contains("none of 4 times is slower by more than 0 % than at commit d\\nef\n"),
            "{text}"
        );
        assert_eq!(found.pairs[2].verdict, TimingVerdict::Faster);
    }

    #[test]
    fn without_processes_or_earlier_times_it_cannot_be_told() {
        let of = |name, median_ns, spread| line("c", &[measured(name, median_ns, spread)]);
        let all = entries(&[of("a", 100.0, None), of("a", 200.0, Some(0.01)), of("b", 1.0, None)]);
        let status = |old: usize, new: usize| {
            HistoryComparison::new(&all[old..=old], &all[new], 0.05).verdict().status()
        };
        assert_eq!([status(0, 1), status(1, 0), status(0, 2), status(1, 1)], [4, 4, 4, 0]);
        let mut other = of("a", 500.0, Some(0.01));
        other["measured"][0]["timed_by"] = "processor".into();
        let other = entries(&[other]);
        let found = HistoryComparison::new(&all[1..2], &other[0], 0.05);
        assert_eq!(found.verdict(), TimingVerdict::CannotTell);
        assert!(told(&found, &other[0], 0.05).contains(" as long (measured by another clock), "));
        let text = told(&HistoryComparison::new(&all[..1], &all[2], 0.05), &all[2], 0.05);
        assert!(text.starts_with("note: --against: 0 compared, 1 without an earlier time: "), "{text}");
    }

    #[test]
    fn each_time_has_the_last_one_of_its_name() {
        let of = |commit, names: &[(&str, f64)]| {
            line(commit, &names.iter().map(|it| measured(it.0, it.1, Some(0.01))).collect::<Vec<_>>())
        };
        let all = entries(&[
            of("first", &[("a", 100.0), ("b", 100.0)]),
            of("second", &[("a", 200.0)]),
            of("third", &[]),
            of("now", &[("a", 200.0), ("b", 200.0)]),
        ]);
        let mut now = all;
        let mut new = now.pop().unwrap();
        new.header.load =
            serde_json::from_value(json!({"average": [3.0, 0.0, 0.0], "processors": 2})).unwrap();
        let found = HistoryComparison::new(&now, &new, 0.05);
        let slower = found.of(TimingVerdict::Slower).map(|it| &*it.new.name);
        assert_eq!(slower.collect::<Vec<_>>(), ["b"]);
        let text = told(&found, &new, 0.05);
        assert!(
            text.contains("1 of 2 times is slower by more than 5 % than at commits first, second\n"),
            "{text}"
        );
        assert!(text.contains("before 0.10 on 2 processors, now 3.00 on 2 processors\n"), "{text}");
    }
}
