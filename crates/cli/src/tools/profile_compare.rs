//! `rehal profile compare`: compares the times of functions in two profiles.

mod print;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use rehal_base::platform::OsStrExt;
use rehal_base::{Context, Error, Result, glob, plural};
use rehal_devices::ProfileFile;
use rehal_judge::{ProfileComparison, ProfileSide};
use rehal_profile::times::FunctionTimes;

use super::report_format::{self, TableFormat};
use super::{compare, profile};
use crate::flags::{Flag, Group};
use crate::report::{self, Subject};
use crate::{Invocation, Operands, Tool, output};

/// See the [module](self).
pub const PROFILE_COMPARE: Tool = Tool {
    name: "rehal profile compare",
    verb: "profile compare",
    summary: "compares the times of functions in two device profiles",
    about: "Prints for each function the median time of a dispatch before and after, the ratio of both with its 95 % interval, \
            the number of dispatches, and by how much the function changed the time of all dispatches: the most first. Functions \
            are matched by name, and a function that only one side has is listed with its whole time.\n\n\
            A side is one profile or several, each of a process of its own: separated by commas, or a pattern in quotes with \
            * and ? in the name of the file. The memory that a process happens to get may make a function slower by some \
            percent, so that each profile is one sample, the median of its dispatches: one profile on a side, however long, \
            proves nothing ('cannot tell'). It takes 4 of each side for one function, 8 for 30, and a difference of more than --margin. Intervals are wider the \
            more functions are compared, so that no function that is the same is called faster or slower, in 95 % of all \
            comparisons.\n\n\
            If a side has more iterations, as after a benchmark that runs for a time, the functions with most of \
            the time were dispatched more often by one factor. Then the time before is multiplied by it, which the \
            report says. What else the number of dispatches changed is shown apart from what their mean time did.",
    operands: Operands::Two { what: "profile", form: "BEFORE.ireeprof[,...] AFTER.ireeprof[,...]" },
    groups: &[&REPORT],
    examples: &[
        (
            "Compare two versions of a model, in processes that run by turns",
            "for i in 1 2 3 4 5 6 7 8; do for side in before after; do\n  \
               iree-benchmark-module --module=$side.vmfb --function=main --benchmark_min_time=20x \\\n    \
                 --device_profiling_mode=host-execution,executable-metadata --device_profiling_output=$side-$i.ireeprof\n\
             done; done\n\
             {tool} 'before-*.ireeprof' 'after-*.ireeprof'",
        ),
        (
            "List the functions that became slower",
            "{tool} --format=json 'before-*.ireeprof' 'after-*.ireeprof' \\\n  \
             | jq -r '.functions[] | select(.verdict==\"slower\") | [.change_ns, .ratio, .name] | @tsv'",
        ),
        ("Open it as a spreadsheet", "{tool} --format=csv before.ireeprof after.ireeprof > change.csv"),
    ],
    guide: include_str!("../guides/profile_compare.md"),
    answer: |_, _, _| None,
    run,
};

const FORMAT: Flag<TableFormat> = report_format::table_flag(
    "text: a table for people. json: an object. csv: a line per function. Times of json and csv are in nanoseconds.",
);

const MARGIN: Flag<f64> = compare::percent_flag(
    "margin",
    "5%",
    "What is faster or slower is proved to be so by more than this: the machine itself changes by some percent within minutes. \
     Name a smaller one for profiles that were recorded by turns.",
);

const REPORT: Group = Group { title: "Report", flags: &[&MARGIN, &FORMAT] };

fn run(invocation: &Invocation) -> Result<()> {
    let mut sides = invocation.files().iter().map(|path| side(path)).collect::<Result<Vec<_>>>()?.into_iter();
    let (Some(before), Some(after)) = (sides.next(), sides.next()) else {
        unreachable!("the tool has two operands");
    };
    let comparison = ProfileComparison::from_sides(before, after, invocation.flags.get(&MARGIN));
    match invocation.flags.get(&FORMAT) {
        TableFormat::Report(format) => invocation.print(&comparison, format, Subject::default()),
        TableFormat::Csv => output::print(&print::csv(&comparison)),
    }
}

/// A comparison of a profile with itself in each format, for the fuzzer.
pub(super) fn reports(profile: &ProfileFile) -> Result<[String; 3]> {
    let functions = profile.dispatch_times()?.functions;
    let side = || ProfileSide::new(vec![("profile".into(), functions.clone())]);
    let comparison = ProfileComparison::from_sides(side(), side(), 0.0);
    let [text, json] = report::formats(&comparison)?;
    Ok([text, json, print::csv(&comparison)])
}

/// The profiles of a side: paths that are separated by commas, unless a file has this path as a whole.
fn side(operand: &Path) -> Result<ProfileSide> {
    let paths = match operand.exists() {
        true => vec![operand.to_owned()],
        false => {
            let parts = operand.as_os_str().as_bytes().split(|byte| *byte == b',');
            let parts = parts.map(|part| matching(Path::new(OsStr::from_bytes(part))));
            parts.collect::<Result<Vec<_>>>().context(|| format!("'{}'", operand.display()))?.concat()
        }
    };
    for (index, path) in paths.iter().enumerate() {
        if paths[..index].contains(path) {
            let message = format!("'{}' is named twice: a process is one sample", path.display());
            return Err(Error::invalid_argument(message).advise("name each profile once"));
        }
    }
    Ok(ProfileSide::new(paths.iter().map(|path| times(path)).collect::<Result<_>>()?))
}

/// The files of a pattern, by name; a path without `*` and `?` is itself.
fn matching(path: &Path) -> Result<Vec<PathBuf>> {
    let Some(name) = path.file_name() else {
        let message = format!("'{}' is not the path of a profile", path.display());
        return Err(Error::invalid_argument(message).advise("separate paths by one comma"));
    };
    if path.exists() || !name.as_bytes().iter().any(|byte| b"*?".contains(byte)) {
        return Ok(vec![path.to_owned()]);
    }
    let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
    let entries = fs::read_dir(directory.unwrap_or(Path::new(".")));
    let entries = entries.map_err(|error| Error::io("listing its directory", &error))?;
    let names = entries.filter_map(|it| Some(it.ok()?.file_name()));
    let mut names: Vec<_> = names.filter(|it| glob::matches_bytes(name.as_bytes(), it.as_bytes())).collect();
    names.sort();
    match names.is_empty() {
        true => Err(Error::not_found(format!("no file matches '{}'", path.display()))
            .advise("name profiles, or a pattern with * and ? in the name of the file")),
        false => Ok(names.iter().map(|it| directory.map_or_else(|| it.into(), |of| of.join(it))).collect()),
    }
}

/// A profile: its path, and the times of its functions.
fn times(path: &Path) -> Result<(String, Vec<FunctionTimes>)> {
    let profile = ProfileFile::open(path)?;
    profile::warn_of_end(&profile, path);
    let times = profile.dispatch_times()?;
    let shown = path.display();
    match times.untimed_count {
        0 if times.functions.is_empty() => output::note(&format!(
            "warning: '{shown}' has no times of dispatches: record them with --device_profiling_mode=host-execution, or \
             dispatch-events for devices that support it"
        )),
        0 => {}
        count if times.functions.is_empty() => {
            return Err(without_times(path, count, times.uncorrelated_count));
        }
        count => output::note(&format!(
            "warning: '{shown}' has {} without valid times, which are left out",
            plural(count, "dispatch")
        )),
    }
    Ok((shown.to_string(), times.functions))
}

/// No dispatch of a profile has a time.
fn without_times(path: &Path, count: u64, uncorrelated_count: u64) -> Error {
    let (shown, dispatches) = (path.display(), plural(count, "dispatch"));
    if uncorrelated_count == 0 {
        let message = format!("'{shown}' has {dispatches}, none of which has a valid time");
        return Error::failed_precondition(message).advise("record the profile again");
    }
    let message = format!(
        "'{shown}' has {dispatches} without times: the device's ticks cannot be converted to times, which needs two \
         clock samples of it that do not contradict each other"
    );
    Error::failed_precondition(message).advise(
        "record the profile again: a program that was killed needs 0.2 s for the second sample. rehal profile summary \
         prints the number of samples",
    )
}
