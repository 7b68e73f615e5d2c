//! `rehal profile compare`: compares the times of functions in two profiles.

mod comparison;
mod print;

use std::ffi::OsStr;
use std::path::Path;

use rehal_base::{Error, Result, plural};
use rehal_session::{FunctionTimes, ProfileFile};

use super::profile;
use super::report_format::{self, TableFormat};
use crate::flags::{Flag, Group};
use crate::report::{self, Subject};
use crate::{Invocation, Operands, Tool, output};
use comparison::{Comparison, Side};
use print::Compared;

/// Also of `rehal compare`.
pub(super) use print::time;

/// See the [module](self).
pub const PROFILE_COMPARE: Tool = Tool {
    name: "rehal profile compare",
    verb: "profile compare",
    summary: "compares the times of functions in two device profiles",
    about: "Prints for each function the mean time of a dispatch before and after, with 95 % intervals, the number of \
            dispatches, and by how much the function changed the time of all dispatches: the most first. A change is \
            'noise' if the interval of the ratio of both means includes 1, and 'few' with fewer than 8 dispatches on a \
            side. These intervals are wider the more functions are compared, so that no function that is the same seems to \
            have changed, in 95 % of all comparisons. Functions are matched by name, and a function that only one profile has is listed with its whole \
            time.\n\n\
            If one profile has more iterations, as after a benchmark that runs for a time, the functions with most of \
            the time were dispatched more often by one factor. Then the time before is multiplied by it, which the \
            report says. What else the number of dispatches changed is shown apart from what their mean time did.\n\n\
            An interval covers the variation within a profile, of phases up to a sixth of it, but not that between \
            runs, which may be larger: compare profiles of the same version first.",
    operands: Operands::Two { what: "profile", form: "BEFORE.ireeprof AFTER.ireeprof" },
    groups: &[&REPORT],
    examples: &[
        ("Compare two versions of a model", "{tool} before.ireeprof after.ireeprof"),
        (
            "List the functions that became slower",
            "{tool} --format=json before.ireeprof after.ireeprof \\\n  \
             | jq -r '.functions[] | select(.verdict==\"slower\") | [.change_ns, .ratio, .name] | @tsv'",
        ),
        ("Open it as a spreadsheet", "{tool} --format=csv before.ireeprof after.ireeprof > change.csv"),
    ],
    guide: include_str!("../guides/profile_compare.md"),
    answer: |_, _, _| None,
    runs_kernels: false,
    run,
};

const FORMAT: Flag<TableFormat> = report_format::table_flag(
    "text: a table for people. json: an object. csv: a line per function. Times of json and csv are in nanoseconds.",
);

const REPORT: Group = Group { title: "Report", flags: &[&FORMAT] };

fn run(invocation: &Invocation) -> Result<()> {
    let mut sides = invocation.files().iter().map(|path| side(path)).collect::<Result<Vec<_>>>()?.into_iter();
    let (Some(before), Some(after)) = (sides.next(), sides.next()) else {
        unreachable!("the tool has two operands");
    };
    let comparison = Comparison::from_sides(before, after);
    let report = Compared::new(&comparison);
    match invocation.flags.get(&FORMAT) {
        TableFormat::Report(format) => invocation.print(&report, format, Subject::default()),
        TableFormat::Csv => output::print(&print::csv(&comparison)),
    }
}

/// A comparison of a profile with itself in each format, for the fuzzer.
pub(super) fn reports(profile: &ProfileFile) -> Result<[String; 3]> {
    let functions = profile.dispatch_times()?.functions;
    let side = || Side::new(vec![("profile".into(), functions.clone())]);
    let comparison = Comparison::from_sides(side(), side());
    let [text, json] = report::formats(&Compared::new(&comparison))?;
    Ok([text, json, print::csv(&comparison)])
}

/// The profiles of a side, whose paths are separated by commas.
fn side(paths: &Path) -> Result<Side> {
    use std::os::unix::ffi::OsStrExt;
    let paths = paths.as_os_str().as_bytes().split(|byte| *byte == b',');
    let paths = paths.map(|path| Path::new(OsStr::from_bytes(path)));
    Ok(Side::new(paths.map(times).collect::<Result<_>>()?))
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
