//! `rehal profile report`: a page that shows a profile or a capture.
//!
//! Events are JSON with columns of numbers, and `page.rs` fills the template; style and
//! script are files of our own (`page/`). The page has a content security policy by which nothing is loaded
//! and only this script runs, and the script creates text nodes only, so that names in captures stay text.

mod page;

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rehal::capture::BufferColumns;
use rehal_base::{FileKind, Result};
use rehal_devices::{ProfileFile, drivers};
use rehal_hal::OptionSet;
use rehal_kernels::function_costs;
use rehal_profile::activity::{self, Activity, SessionText, TrackKind};

use self::page::{Page, PageFile, visible};
use super::info;
use crate::flags::{Flag, Group};
use crate::output_file::{OUTPUT, OutputFile};
use crate::progress::Progress;
use crate::{Invocation, Operands, Tool, captures};

/// See the [module](self).
pub const PROFILE_REPORT: Tool = Tool {
    name: "rehal profile report",
    verb: "profile report",
    summary: "writes a page that shows a profile or a capture: timeline, functions, dispatches, memory, semaphores",
    about: "Writes one HTML file that loads nothing else, for any current browser: a timeline to zoom and pan, functions by \
            their total time, dispatches to sort and filter, memory over time, and what the file contains.\n\n\
            A profile (.ireeprof) is shown on a time axis. A capture (.ireereplay) contains no times: it is shown in the \
            order of its records, with the graph of its semaphores and the contents that `rehal info` prints. Nothing in it \
            is executed.\n\n\
            A truncated file is shown up to its last complete record, which the page says.",
    operands: Operands::One {
        what: "profile or capture",
        form: "FILE.ireeprof|FILE.ireereplay -o report.html",
    },
    groups: &[&REPORT],
    examples: &[
        ("Show where the time goes", "{tool} run.ireeprof -o report.html"),
        ("Show what a capture contains", "{tool} model.ireereplay -o report.html"),
    ],
    guide: include_str!("../../guides/profile_report.md"),
    answer: |_, _, _| None,
    run,
};

const MAX_EVENTS: Flag<usize> = Flag::number(
    "max_events",
    500_000,
    (1, i64::MAX),
    |count| count as usize,
    "The most events that the page contains. What is left out is counted on the page.",
);

const REPORT: Group = Group { title: "Report", flags: &[&OUTPUT, &MAX_EVENTS] };

/// The file to show, the page, and its limit.
struct Options {
    path: PathBuf,
    output: OutputFile,
    max_events: usize,
}

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let path = invocation.operand();
    let output = OutputFile::from_flags(flags, "report.html")?;
    report(&Options { path, output, max_events: flags.get(&MAX_EVENTS) })
}

fn report(options: &Options) -> Result<()> {
    match kind_of(&options.path) {
        Some(FileKind::Capture) => capture(options),
        // If it cannot be read, opening it says why.
        Some(FileKind::Profile) | None => profile(options),
        Some(other) => {
            let error =
                other.refuse_as(&format!("'{}'", options.path.display()), "a device profile or a capture");
            Err(error.advise("name a device profile (.ireeprof) or a capture (.ireereplay)"))
        }
    }
}

/// The kind of the file by its first bytes, if they can be read and tell it.
fn kind_of(path: &Path) -> Option<FileKind> {
    let mut head = Vec::new();
    let file = File::open(path).ok()?;
    file.take(FileKind::HEAD_BYTES as u64).read_to_end(&mut head).ok()?;
    FileKind::from_head(&head)
}

fn profile(options: &Options) -> Result<()> {
    let profile = ProfileFile::open(&options.path)?;
    super::profile::warn_of_end(&profile, &options.path);
    let mut notes: Vec<_> =
        super::profile::end_of(&profile).map(|what| format!("This profile {what}.")).into_iter().collect();
    let activity = profile.activity(options.max_events)?;
    notes.extend(activity_notes(&activity, options));
    notes.extend(note_of_workers(&activity));
    let (major, minor) = profile.version()?;
    let page = Page {
        title: title(&options.path),
        notes,
        activity: (&activity).into(),
        graph: activity.submissions.as_slice().into(),
        file: PageFile::Profile {
            version: format!("{major}.{minor}"),
            size_bytes: profile.size_bytes(),
            sessions: activity.sessions.iter().map(SessionText::from).collect(),
        },
    };
    options.output.write(|sink| page::write(&page, sink))
}

/// A note on tracks that one expects in the profile of a device with workers, and that it lacks.
fn note_of_workers(activity: &Activity) -> Option<String> {
    let drivers = drivers();
    let has_workers = activity.sessions.iter().any(|session| {
        let driver = std::str::from_utf8(&session.name).ok().and_then(|name| drivers.find(name).ok());
        driver.is_some_and(|it| it.backend().describe_workers(&OptionSet::default()).is_some())
    });
    let has_tracks = activity.tracks.iter().any(|track| track.kind == TrackKind::Worker);
    // What is left out may be theirs.
    let is_missing = has_workers && !has_tracks && activity.omitted_count == 0 && !activity.events.is_empty();
    is_missing.then(|| {
        "What each worker executed is not in this profile: --device_profiling_mode=command-region-events records it.".into()
    })
}

fn capture(options: &Options) -> Result<()> {
    let capture = captures::open(&options.path, &captures::options(true))?;
    captures::note_recovered(&capture)?;
    let survey = capture.survey_with(&mut Progress::new("reading").teller())?;
    let mut shown = capture.activity(options.max_events, &mut Progress::new("reading").teller())?;
    let mut notes = Vec::new();
    if let Some(tear) = capture.tear() {
        notes.push(format!(
            "This capture is truncated: the {} records before offset {} are shown, and {} bytes are ignored.",
            tear.record_count, tear.offset, tear.lost_bytes
        ));
    }
    let damage = capture.damage()?;
    if !damage.is_empty() {
        notes.push(format!(
            "This capture does not match its checksums in {} places, first: {}.",
            damage.len(),
            damage[0]
        ));
    }
    notes.extend(activity_notes(&shown.activity, options));
    if shown.omitted_count != 0 {
        notes.push(format!("{} submissions and buffers are left out.", shown.omitted_count));
    }
    // Of a capture that no replay can run, too.
    let costs = capture.plan().and_then(|plan| function_costs(&plan)).unwrap_or_else(|error| {
        notes.push(format!("What functions bind is unknown: {}.", error.message()));
        Vec::new()
    });
    let bound: HashMap<_, _> = costs.iter().flat_map(|it| &it.records).copied().collect();
    let dispatches = shown.activity.events.iter_mut().filter(|it| it.function != u32::MAX);
    for event in dispatches {
        event.bytes = u32::try_from(event.id).ok().and_then(|it| bound.get(&it)).copied().unwrap_or(0);
    }
    let costs = serde_json::to_value(costs).expect("a cost has text keys only");
    let contents = serde_json::to_value(info::Contents::from_survey(&options.path, &capture, &survey))
        .expect("a summary has text keys only");
    let page = Page {
        title: title(&options.path),
        notes,
        activity: (&shown.activity).into(),
        graph: shown.activity.submissions.as_slice().into(),
        file: PageFile::Capture {
            buffers: Box::new(BufferColumns::from(shown.buffers.as_slice())),
            costs: visible(costs),
            contents: visible(contents),
        },
    };
    options.output.write(|sink| page::write(&page, sink))
}

/// The notes of a page on events that it does not show.
fn activity_notes(activity: &Activity, options: &Options) -> Vec<String> {
    let mut notes = Vec::new();
    if activity.omitted_count != 0 {
        notes.push(format!(
            "{} events after the first {} are left out (--max_events).",
            activity.omitted_count, options.max_events
        ));
    }
    if activity.dropped_count != 0 {
        notes.push(format!("The producer of this profile dropped {} rows.", activity.dropped_count));
    }
    if activity.tracks.iter().any(|track| !track.is_correlated) {
        notes.push(
            "Without two clock correlations of a device, its events are not aligned with others: they start at 0, and a \
             tick is shown as 1 ns."
                .to_owned(),
        );
    }
    match activity.events.iter().filter(|event| !event.is_timed).count() {
        0 => {}
        count => notes.push(format!("{count} events have no valid times: they are only in the table.")),
    }
    notes
}

fn title(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    activity::text(name.as_encoded_bytes())
}
