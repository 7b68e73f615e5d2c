//! `rehal info`: summarizes a capture, on one screen or as JSON.

mod contents;
mod text;

pub(super) use contents::Contents;

use std::path::{Path, PathBuf};

use contents::{Info, Substitutes};
use rehal::capture::CaptureFile;
use rehal_base::Result;
use rehal_devices::{CrashReports, DeviceOptions, idle_devices};
use rehal_hal::DeviceGroup;
use rehal_replay::{Code, FileRemap, Replay, ReplayOptions, Substitution};

use super::compiler_flags::{COMPILING, SubstituteCompiler};
use super::replay_flags::FILE_REMAP;
use super::report_format::{self, Format};
use crate::flags::{Access, Flag, Group, List, with_devices};
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
    groups: with_devices![&REPORT, &COMPILING],
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

const SUBSTITUTE: List<Substitution> = List::parsed(
    "substitute",
    "WHICH[@FORMAT]=PATH",
    "WHICH[@FORMAT]=PATH",
    |value| Ok(Substitution::parse(value)?),
    "Also says whether replays would accept this file in place of an executable, or of a function: its functions, their \
     bindings, constants and workgroup sizes, its processor, and whether the emulator takes it. It is only read, so that no \
     device is needed; sources are compiled. WHICH is as in --replay_executable_substitution of rehal run. If it is not \
     accepted, the exit status is 1.",
)
.files(|substitution, _| match &substitution.replacement.code {
    Code::File(path) => vec![Access::Read.to(path)],
    Code::Bytes(_) => Vec::new(),
});

const REPORT: Group = Group { title: "Report", flags: &[&FORMAT, &LOAD, &SUBSTITUTE, &FILE_REMAP] };

/// The capture to report on, and the format.
struct Options {
    path: PathBuf,
    format: Format,
    load: bool,
    file_remaps: Vec<FileRemap>,
    /// Whether replays accept the replacements, if there are any.
    substitutes: Option<Substitutes>,
    devices: DeviceOptions,
}

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let substitutions = flags.list(&SUBSTITUTE);
    let refused = match substitutions[..] {
        [] => None,
        // Also compiles, which confined code cannot.
        _ => Some(check_substitutes(invocation, &substitutions).err()),
    };
    if let Some(Some(_)) = refused {
        invocation.set_status(1);
    }
    let options = Options {
        path: invocation.operand(),
        format: flags.get(&FORMAT),
        load: flags.get(&LOAD),
        file_remaps: flags.list(&FILE_REMAP),
        substitutes: refused.map(|error| Substitutes { accepted: error.is_none(), error }),
        devices: devices::options(flags)?,
    };
    // Otherwise no code runs.
    let confinement = invocation.confinement().describe();
    let report = || report(&options, invocation, &confinement);
    match options.load || devices::names_plugins(flags) {
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
    let mut info = Info::new(path, &capture, &survey, &verdict, confinement);
    info.substitutes.clone_from(&options.substitutes);
    invocation.print(&info, options.format, subject)
}

/// Fails unless replays would accept the replacements: their code is only read.
fn check_substitutes(invocation: &Invocation, substitutions: &[Substitution]) -> Result<()> {
    let flags = &invocation.flags;
    let plan = captures::open(&invocation.operand(), &captures::options(true))?.plan()?;
    let devices = idle_devices(&devices::registry(flags), &plan)?;
    let own_names = || rehal_replay::own_names(&plan, &devices);
    let substitutions = SubstituteCompiler::for_sources(flags).resolve(substitutions, &plan, &own_names)?;
    let replaced = ReplayOptions::default().file_remaps(flags.list(&FILE_REMAP)).substitutions(substitutions);
    Replay::new(plan.clone(), &devices, &replaced)?.check_executables()
}

/// The report on a capture in each format, for the fuzzer.
pub(super) fn reports(capture: &CaptureFile, devices: &DeviceGroup) -> Result<[String; 2]> {
    let (survey, verdict) = (capture.survey()?, capture.verdict(devices, &[]));
    report::formats(&Info::new(Path::new("capture"), capture, &survey, &verdict, ""))
}
