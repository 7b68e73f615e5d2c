//! `rehal info`: one screen about a capture, for a person.

mod json;
mod text;

use std::path::Path;

use rehal_base::{Error, Result};
use rehal_session::{CaptureFile, CaptureOptions, Survey, Verdict};

use super::replay_flags;
use crate::flags::{DEVICES, Flag, Group, LOCAL, OTHER_DRIVERS, TASK};
use crate::progress::Progress;
use crate::{Invocation, Tool, devices, output};

/// See the [module](self).
pub const INFO: Tool = Tool {
    name: "rehal info",
    verb: "info",
    summary: "tells what a capture is, what it needs, and whether it can be replayed here",
    about: "Reads the whole capture and prints one screen: version and size, whether it was closed, \
            devices, scopes, executables with their functions and how often each is dispatched, bytes by \
            kind, files it needs from outside and whether they are here, and whether it can be replayed on \
            the named device (on local-sync if none is named). Nothing of the capture is run, so what only \
            shows when code is loaded, such as a missing CPU feature, is not found here.",
    operands: "CAPTURE.ireereplay",
    groups: &[&REPORT, &DEVICES, &LOCAL, &TASK, &OTHER_DRIVERS],
    examples: &[
        ("See what a capture is", "{tool} model.ireereplay"),
        ("The same for a program", "{tool} --format=json model.ireereplay | jq .replay"),
        (
            "With the parameters where they are here",
            "{tool} --replay_file_remap=/mnt/train=/data model.ireereplay",
        ),
    ],
    guide: include_str!("../guides/info.md"),
    answer: devices::answer,
    run,
};

const REPORT: Group = Group {
    title: "Report",
    flags: &[
        Flag::text(
            "format",
            "FORMAT",
            "text",
            "text: a screen for a person. json: one object for a program.",
        ),
        replay_flags::FILE_REMAP,
    ],
};

/// All that is known of a capture.
struct Report<'a> {
    path: &'a Path,
    capture: &'a CaptureFile,
    survey: Survey,
    verdict: Verdict,
}

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let path = invocation.capture_path()?;
    let show = match flags.text("format") {
        "text" => text::show,
        "json" => json::show,
        other => {
            return Err(Error::invalid_argument(format!("'{other}' is no format of a report"))
                .context("--format")
                .advise("text or json"));
        }
    };
    let options = replay_flags::remaps(flags)?;
    let mut recover = CaptureOptions::default();
    recover.recover = true;
    let capture = CaptureFile::open(path, &recover)?;
    let survey = capture.survey_with(&mut Progress::new("reading").teller())?;
    let devices = devices::from_flags(flags)?;
    let verdict = capture.verdict_with(&devices, &options, &mut Progress::new("reading").teller());
    output::print(&show(&Report { path, capture: &capture, survey, verdict }))
}
