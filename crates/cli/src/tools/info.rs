//! `rehal info`: one screen about a capture, for a person.

mod json;
mod survey;
mod text;
mod verdict;

use std::path::{Path, PathBuf};

use rehal_base::Result;
use rehal_capture::Capture;
use rehal_replay::FileRemap;

use super::replay_flags::FILE_REMAP;
use crate::devices::{self, DeviceOptions};
use crate::flags::{DEVICES, Flag, Group, LOCAL, OTHER_DRIVERS, TASK};
use crate::{Invocation, Operands, Tool, input, output};

use survey::Survey;
use verdict::Verdict;

/// See the [module](self).
pub const INFO: Tool = Tool {
    name: "rehal info",
    verb: "info",
    summary: "summarizes a capture, what it needs, and whether it can be replayed here",
    about: "Reads the whole capture and prints one screen: version and size, whether it was closed, \
            devices, scopes, executables with their functions and dispatch counts, bytes by kind, external \
            files and whether they are available, and whether it can be replayed on the given devices \
            (default: local-sync). Nothing in the capture is executed, so problems that appear only when \
            code is loaded, such as a missing CPU feature, are not detected.",
    operands: Operands::One { what: "capture", form: "CAPTURE.ireereplay" },
    groups: &[&REPORT, &DEVICES, &LOCAL, &TASK, &OTHER_DRIVERS],
    examples: &[
        ("Summarize a capture", "{tool} model.ireereplay"),
        ("The same as JSON", "{tool} --format=json model.ireereplay | jq .replay"),
        (
            "With the parameters in another directory",
            "{tool} --replay_file_remap=/mnt/train=/data model.ireereplay",
        ),
    ],
    guide: include_str!("../guides/info.md"),
    answer: devices::answer,
    run,
};

/// How the report looks.
#[derive(Clone, Copy)]
enum Format {
    Text,
    Json,
}

const FORMAT: Flag<Format> = Flag::choice(
    "format",
    "text",
    &[("text", Format::Text), ("json", Format::Json)],
    "text: a screen for people. json: an object for programs.",
);

const REPORT: Group = Group { title: "Report", flags: &[&FORMAT, &FILE_REMAP] };

/// Which capture to report on, and how.
struct Options {
    path: PathBuf,
    format: Format,
    file_remaps: Vec<FileRemap>,
    devices: DeviceOptions,
}

/// All that is known of a capture.
struct Report<'a> {
    path: &'a Path,
    capture: &'a Capture<'a>,
    survey: Survey<'a>,
    verdict: Verdict,
}

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    report(&Options {
        path: invocation.operand(),
        format: flags.get(&FORMAT),
        file_remaps: flags.list(&FILE_REMAP),
        devices: DeviceOptions::from_flags(flags),
    })
}

fn report(options: &Options) -> Result<()> {
    let path = &options.path;
    let file = input::map(path)?;
    let capture = input::open(&file, true)?;
    let survey = Survey::of(&file, &capture).map_err(|error| input::explain(&file, error))?;
    let devices = options.devices.create()?;
    let verdict = Verdict::of(&file, &capture, &devices, &options.file_remaps);
    let report = Report { path, capture: &capture, survey, verdict };
    output::print(&match options.format {
        Format::Text => text::show(&report),
        Format::Json => json::show(&report),
    })
}
