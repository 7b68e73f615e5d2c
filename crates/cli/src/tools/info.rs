//! `rehal info`: summarizes a capture, on one screen or as JSON.

mod contents;
mod text;

pub(super) use contents::Contents;

use std::path::{Path, PathBuf};

use contents::Info;
use rehal::capture::CaptureFile;
use rehal_base::Result;
use rehal_devices::{CrashReports, DeviceOptions};
use rehal_hal::DeviceGroup;
use rehal_replay::FileRemap;

use super::replay_flags::FILE_REMAP;
use super::report_format::{self, Format};
use crate::flags::{Flag, Group, with_devices};
use crate::progress::Progress;
use crate::report::{self, Subject};
use crate::sandbox::Reach;
use crate::{Invocation, Operands, Tool, captures, devices, output};

/// See the [module](self).
pub const INFO: Tool = Tool {
    name: "rehal info",
    verb: "info",
    summary: "summarizes a capture and its requirements, and checks whether it can be replayed here",
    about: "Reads the whole capture and prints one screen: version and size, whether it was closed, \
            devices, scopes, executables with their functions and dispatch counts, bytes by kind, external \
            files and whether they are available, and whether it can be replayed on the given devices \
            (default: local-task). Nothing in the capture is executed, so problems that appear only when \
            code is loaded, such as a missing import or CPU feature, are not detected without \
            --load_executables.",
    operands: Operands::One { what: "capture", form: "CAPTURE.ireereplay" },
    groups: with_devices![&REPORT],
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

const FORMAT: Flag<Format> = report_format::flag("text: a summary. json: an object.");

const LOAD: Flag<bool> = Flag::switch(
    "load_executables",
    false,
    "Loads the executables to find missing imports and CPU features. This runs code of the capture.",
);

const REPORT: Group = Group { title: "Report", flags: &[&FORMAT, &LOAD, &FILE_REMAP] };

/// The capture to report on, and the format.
struct Options {
    path: PathBuf,
    format: Format,
    load: bool,
    file_remaps: Vec<FileRemap>,
    devices: DeviceOptions,
}

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let options = Options {
        path: invocation.operand(),
        format: flags.get(&FORMAT),
        load: flags.get(&LOAD),
        file_remaps: flags.list(&FILE_REMAP),
        devices: devices::options(flags)?,
    };
    // Otherwise nothing of the capture runs.
    let confinement = invocation.confinement().describe();
    let report = || report(&options, invocation, &confinement);
    match options.load {
        true => invocation.confined(&Reach::of_devices(&options.devices), report),
        false => report(),
    }
}

/// `confinement` is that of the code on this machine, which a confined process cannot ask for.
fn report(options: &Options, invocation: &Invocation, confinement: &str) -> Result<()> {
    let path = &options.path;
    let capture = captures::open(path, &captures::options(true))?;
    capture.damage_with(&mut Progress::new("verifying").teller())?;
    let devices = options.devices.open()?;
    let mut progress = Progress::new("reading").teller();
    let (survey, mut verdict) = capture.survey_and_verdict(&devices, &options.file_remaps, &mut progress)?;
    drop(progress);
    if options.load {
        CrashReports::install();
        output::note("note: loading the executables, which runs code of the capture");
        verdict.load(&capture, &devices, &options.file_remaps);
    }
    let subject = Subject { capture: Some(capture.bytes()), devices: Some(&devices) };
    invocation.print(&Info::new(path, &capture, &survey, &verdict, confinement), options.format, subject)
}

/// The report on a capture in each format, for the fuzzer.
pub(super) fn reports(capture: &CaptureFile, devices: &DeviceGroup) -> Result<[String; 2]> {
    let (survey, verdict) = (capture.survey()?, capture.verdict(devices, &[]));
    report::formats(&Info::new(Path::new("capture"), capture, &survey, &verdict, ""))
}
