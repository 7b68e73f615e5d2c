//! What the tools that replay have in common: their flags, the options that follow, and the way from
//! these to a replay.

use std::path::PathBuf;
use std::sync::Arc;

use rehal_base::{Context, MappedFile, Result};
use rehal_local::executable::guard;
use rehal_replay::{FileRemap, Plan, PlanOptions, Replay, ReplayOptions, Substitution};

use crate::devices::DeviceOptions;
use crate::flags::{Flag, List, Refusal};
use crate::progress::Progress;
use crate::{Invocation, input};

/// Opens truncated captures.
pub(crate) const RECOVER: Flag<bool> = Flag::switch(
    "recover",
    false,
    "Uses the complete records of a truncated capture, or of one whose program was killed before closing it.",
);

/// Where files are on this machine.
pub(crate) const FILE_REMAP: List<FileRemap> = List::parsed(
    "replay_file_remap",
    "CAPTURED=HERE",
    "CAPTURED_PREFIX=PREFIX_HERE",
    |value| FileRemap::parse(value).map_err(|_| Refusal::Unexpected),
    "Replaces a prefix of the paths of external files: a path that starts with CAPTURED starts with HERE \
     instead. The longest matching prefix counts. The file must still be the captured one, by length and by \
     identity or digest.",
);

/// Other code in place of captured code.
pub(crate) const SUBSTITUTION: List<Substitution> = List::parsed(
    "replay_executable_substitution",
    "WHICH[@FORMAT]=PATH",
    "WHICH[@FORMAT]=PATH",
    |value| Ok(Substitution::parse(value)?),
    "Replaces an executable of the capture by a compiled executable, a raw embedded ELF or a native library. \
     WHICH is the id of an executable (iree-dump-replay prints it), the name of one of its functions or its \
     own name, or all. FORMAT, such as embedded-elf-x86_64, is needed if it cannot be detected. The signature \
     must match: functions, constants, bindings, parameters and workgroup sizes are compared before \
     anything runs.",
);

/// What capture is replayed, and how.
pub(crate) struct Options {
    pub path: PathBuf,
    pub recover: bool,
    pub devices: DeviceOptions,
    pub replay: ReplayOptions,
}

impl Options {
    /// What the flags and the operand say.
    pub(crate) fn of(invocation: &Invocation) -> Self {
        let flags = &invocation.flags;
        Self {
            path: invocation.operand(),
            recover: flags.get(&RECOVER),
            devices: DeviceOptions::from_flags(flags),
            replay: ReplayOptions {
                file_remaps: flags.list(&FILE_REMAP),
                substitutions: flags.list(&SUBSTITUTION),
            },
        }
    }
}

/// Compiles the capture's plan, shows progress, and notes where a truncated capture ends.
pub(crate) fn compile(file: &Arc<MappedFile>, recover: bool) -> Result<Plan> {
    if recover && let Some(tear) = input::open(file, true)?.tear() {
        input::note_tear(file, &tear);
    }
    compile_opened(file, recover)
}

/// As [`compile`]; the caller notes where it ends.
pub(crate) fn compile_opened(file: &Arc<MappedFile>, recover: bool) -> Result<Plan> {
    let mut progress = Progress::new("reading");
    let mut tell = |done_bytes: u64, total_bytes: u64| progress.set(done_bytes, total_bytes);
    Plan::compile(file.clone(), PlanOptions { recover, progress: Some(&mut tell) })
        .map_err(|error| input::explain(file, error))
}

/// A plan on the devices of the options. From here on, crashes of kernels are reported.
pub(crate) fn prepare(options: &Options, file: &MappedFile, plan: Plan) -> Result<Replay> {
    guard::install();
    let replay = Replay::new(plan, &options.devices.create()?, &options.replay);
    let replay = replay.context(|| input::place(file))?;
    if !options.replay.substitutions.is_empty() {
        // A signature mismatch is reported before the first dispatch, also of executables that come late.
        replay.check_executables().context(|| input::place(file))?;
    }
    Ok(replay)
}
