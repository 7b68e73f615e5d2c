//! Reports that are kept in a file, one a line, and what became slower since the last of them.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use rehal_base::{Context, Error, Result, StatusCode};
use rehal_session::Interval;
use serde::{Deserialize, Serialize};

use crate::flags::{Access, Flag, Flags, Group};
use crate::report::{Report, Subject};
use crate::tools::profile_compare::time;
use crate::{Invocation, output};

pub(super) const HISTORY: Flag<Option<PathBuf>> = Flag::path(
    "history",
    "Appends the report to this file, as JSON on a line, with what it was measured on.",
)
.files(|path, _| path.iter().map(|path| Access::AppendResult.to(path)).collect());

pub(super) const AGAINST: Flag<Option<PathBuf>> = Flag::path(
    "against",
    "Compares with the last report of this file, which --history has written, of the same capture, CPU and devices. The exit status is \
     3 if a median is higher by more than --fail_if_slower, and the intervals are apart.",
)
.files(|path, _| path.iter().map(|path| Access::ReadFirst.to(path)).collect());

/// Both flags, of tools that have `--fail_if_slower`.
pub(super) const REPORTS: Group = Group { title: "History", flags: &[&HISTORY, &AGAINST] };

/// The exit status if something is slower.
const SLOWER: u8 = 3;

/// A time of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Measured {
    pub name: String,
    pub median_ns: f64,
    /// `None` with too few samples.
    pub interval_ns: Option<[f64; 2]>,
}

impl Measured {
    pub(super) fn new(name: String, median_ns: f64, interval_ns: Option<Interval>) -> Self {
        Self { name, median_ns, interval_ns: interval_ns.map(<[f64; 2]>::from) }
    }
}

/// A report with its times, as a line of the file has it.
#[derive(Serialize)]
struct Line<'a, R> {
    #[serde(flatten)]
    report: &'a R,
    measured: &'a [Measured],
}

/// What is read of a line.
#[derive(Deserialize)]
struct Entry {
    header: Origin,
    measured: Vec<Measured>,
}

/// What has to be the same for times to compare.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Origin {
    schema: String,
    capture_digest: Option<String>,
    device: Option<Vec<String>>,
    cpu: String,
    #[serde(default)]
    commit: String,
}

impl Origin {
    fn is_like(&self, other: &Self) -> bool {
        let key =
            |it: &Self| (it.schema.clone(), it.capture_digest.clone(), it.device.clone(), it.cpu.clone());
        key(self) == key(other)
    }
}

/// Whether the flags are given.
pub(super) fn is_asked(flags: &Flags) -> bool {
    flags.get(&HISTORY).is_some() || flags.get(&AGAINST).is_some()
}

/// Fails if there is nothing to compare with, so that nothing is measured in vain.
pub(super) fn check(flags: &Flags) -> Result<()> {
    entries(flags).map(drop)
}

/// The reports of the file to compare with.
fn entries(flags: &Flags) -> Result<Vec<Entry>> {
    let Some(path) = flags.get(&AGAINST) else { return Ok(Vec::new()) };
    // The first report of a new history has none before it.
    let may_be_absent = flags.get(&HISTORY).as_ref() == Some(&path);
    read(&path, may_be_absent)
        .and_then(|text| parse(&text))
        .context(|| format!("--against={}", path.display()))
}

/// Compares a report with the last one like it, and appends it, if flags say so.
pub(super) fn keep<R: Report>(
    invocation: &Invocation,
    report: &R,
    measured: &[Measured],
    margin: f64,
    subject: Subject<'_>,
) -> Result<()> {
    let flags = &invocation.flags;
    if !is_asked(flags) {
        return Ok(());
    }
    let line = invocation.line(R::SCHEMA, &Line { report, measured }, subject)?;
    let (history, against) = (flags.get(&HISTORY), flags.get(&AGAINST));
    if against.is_some() {
        let new: Entry = serde_json::from_str(&line).map_err(|error| {
            Error::new(StatusCode::Internal, format!("the report cannot be read: {error}"))
        })?;
        let like = |it: &Entry| it.header.is_like(&new.header);
        match entries(flags)?.into_iter().rfind(like) {
            Some(old) => {
                let slower = slower(&old.measured, measured, margin);
                output::note(&told(&old.header.commit, &slower, measured.len(), margin));
                if !slower.is_empty() {
                    invocation.set_status(SLOWER);
                }
            }
            None => output::note("note: --against: the file has no report of this capture, CPU and devices"),
        }
    }
    match &history {
        Some(path) => append(path, &line).context(|| format!("--history={}", path.display())),
        None => Ok(()),
    }
}

fn read(path: &Path, may_be_absent: bool) -> Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound && may_be_absent => Ok(String::new()),
        text => text.map_err(|error| {
            Error::io("reading it", &error).advise("name a file that --history has written")
        }),
    }
}

fn append(path: &Path, line: &str) -> Result<()> {
    let file = OpenOptions::new().append(true).create(true).open(path);
    // In one call, so that lines of several processes do not mix.
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .map_err(|error| Error::io("appending to it", &error))
}

fn parse(text: &str) -> Result<Vec<Entry>> {
    let entry = |(line, number): (&str, u64)| {
        serde_json::from_str(line).map_err(|error| {
            Error::invalid_argument(format!("line {number} is not a report: {error}"))
                .advise("name a file that --history has written")
        })
    };
    text.lines().zip(1..).filter(|(line, _)| !line.is_empty()).map(entry).collect()
}

/// What is slower: before and after.
fn slower<'m>(old: &'m [Measured], new: &'m [Measured], margin: f64) -> Vec<(&'m Measured, &'m Measured)> {
    let pairs = new.iter().filter_map(|new| Some((old.iter().find(|old| old.name == new.name)?, new)));
    let is_slower = |(old, new): &(&Measured, &Measured)| {
        let is_apart = match (old.interval_ns, new.interval_ns) {
            (Some([_, high]), Some([low, _])) => low > high,
            _ => true,
        };
        is_apart && new.median_ns > old.median_ns * (1.0 + margin)
    };
    pairs.filter(is_slower).collect()
}

fn told(commit: &str, slower: &[(&Measured, &Measured)], count: usize, margin: f64) -> String {
    let (percent, of) = (margin * 100.0, output::plural(count as u64, "time"));
    let mut text =
        format!("note: {} of {of} are slower by more than {percent} % than at commit {commit}", slower.len());
    for (old, new) in slower {
        let doubt = match (old.interval_ns, new.interval_ns) {
            (Some(_), Some(_)) => "",
            _ => ", of too few samples for an interval",
        };
        text.push_str(&format!(
            "\n  {}: {:.3} times as long, {} instead of {}{doubt}",
            output::escaped(&new.name),
            new.median_ns / old.median_ns,
            time(new.median_ns),
            time(old.median_ns)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &str, median_ns: f64, spread: Option<f64>) -> Measured {
        let interval_ns = spread.map(|it| [median_ns * (1.0 - it), median_ns * (1.0 + it)]);
        Measured { name: name.into(), median_ns, interval_ns }
    }

    #[test]
    fn only_what_is_slower_by_the_margin_and_apart_is_slower() {
        let old: Vec<_> =
            ["same", "noisy", "slow", "few", "gone"].map(|name| measured(name, 100.0, Some(0.01))).into();
        let new = [
            measured("same", 104.0, Some(0.01)),
            measured("noisy", 120.0, Some(0.3)),
            measured("slow", 120.0, Some(0.01)),
            measured("few", 120.0, None),
            measured("new", 500.0, None),
        ];
        let found = slower(&old, &new, 0.05);
        assert_eq!(found.iter().map(|(_, new)| &*new.name).collect::<Vec<_>>(), ["slow", "few"]);
        let text = told("abc", &found, new.len(), 0.05);
        assert!(
            text.starts_with("note: 2 of 5 times are slower by more than 5 % than at commit abc\n"),
            "{text}"
        );
        assert!(text.contains("\n  slow: 1.200 times as long, 120 ns instead of 100 ns\n"), "{text}");
        assert!(text.ends_with(", of too few samples for an interval"), "{text}");
        assert!(slower(&old, &new, 0.25).is_empty());
    }

    #[test]
    fn reports_of_the_same_machine_are_alike() {
        let line = |cpu: &str, digest: &str, median_ns: f64| {
            serde_json::json!({
                "header": {"schema": "s/1", "capture_digest": digest, "device": ["d"], "cpu": cpu, "commit": "c", "more": 1},
                "measured": [measured("a", median_ns, None)],
                "more": [],
            })
            .to_string()
        };
        let text = [line("x", "1", 1.0), line("x", "1", 2.0), line("y", "1", 3.0), line("x", "2", 4.0)];
        let entries = parse(&text.join("\n")).unwrap();
        let alike = |it: &Entry| entries.iter().filter(|other| it.header.is_like(&other.header)).count();
        assert_eq!(entries.iter().map(alike).collect::<Vec<_>>(), [2, 2, 1, 1]);
        let error = parse(&format!("{}\n{{}}", text.join("\n"))).err().unwrap();
        assert!(error.message().starts_with("line 5 is not a report"), "{error}");
    }
}
