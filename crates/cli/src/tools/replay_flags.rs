//! What the tools that replay have in common: their flags, and the way from flags to a replay.

use std::sync::Arc;

use rehal_base::{Context, MappedFile, Result};
use rehal_local::executable::guard;
use rehal_replay::{FileRemap, Plan, PlanOptions, Replay, ReplayOptions, Substitution};

use crate::flags::{Flag, Flags};
use crate::progress::Progress;
use crate::{devices, input};

/// Opens torn captures.
pub(crate) const RECOVER: Flag = Flag::switch(
    "recover",
    false,
    "Takes what is whole of a capture that was cut, or whose program was killed before it closed it.",
);

/// Where files are here.
pub(crate) const FILE_REMAP: Flag = Flag::list(
    "replay_file_remap",
    "CAPTURED=HERE",
    "Where files that the capture refers to are on this machine: paths that start with CAPTURED start \
     with HERE instead. Of several that fit, the longest counts. The file must still be the captured one, \
     by length and identity or digest.",
);

/// Other code in the place of captured code.
pub(crate) const SUBSTITUTION: Flag = Flag::list(
    "replay_executable_substitution",
    "WHICH[@FORMAT]=PATH",
    "Replaces an executable of the capture by a compiled executable, a raw embedded ELF or a native \
     library. WHICH is an executable's id (iree-dump-replay prints it), the name of one of its functions or \
     its own name, or all. FORMAT, such as embedded-elf-x86_64, is needed where the file does not tell. \
     The replacement must take the same arguments: functions, constants, bindings, parameters and \
     workgroup sizes are compared before anything runs.",
);

/// Compiles the capture's plan, telling how far it is, and says where a torn capture ends.
pub(crate) fn compile(file: &Arc<MappedFile>, recover: bool) -> Result<Plan> {
    if recover && let Some(tear) = input::open(file, true)?.tear() {
        input::note_tear(file, &tear);
    }
    compile_opened(file, recover)
}

/// As [`compile`]; a tear is left to the caller.
pub(crate) fn compile_opened(file: &Arc<MappedFile>, recover: bool) -> Result<Plan> {
    let mut progress = Progress::new("reading");
    let mut tell = |done_bytes: u64, total_bytes: u64| progress.set(done_bytes, total_bytes);
    Plan::compile(file.clone(), PlanOptions { recover, progress: Some(&mut tell) })
        .map_err(|error| input::explain(file, error))
}

/// How the flags want the capture to be replayed.
pub(crate) fn options(flags: &Flags) -> Result<ReplayOptions> {
    let substitutions = flags.list("replay_executable_substitution").map(Substitution::parse);
    let substitutions = substitutions.collect::<Result<_>>();
    Ok(ReplayOptions {
        file_remaps: remaps(flags)?,
        substitutions: substitutions.context(|| "--replay_executable_substitution".into())?,
    })
}

/// A plan on the devices that the flags name. From here on a kernel that crashes is reported.
pub(crate) fn prepare(
    flags: &Flags,
    file: &MappedFile,
    plan: Plan,
    options: &ReplayOptions,
) -> Result<Replay> {
    guard::install();
    let replay = Replay::new(plan, &devices::from_flags(flags)?, options);
    let replay = replay.context(|| input::place(file))?;
    if !options.substitutions.is_empty() {
        // A mismatch shall show before the first dispatch, also of executables that come late.
        replay.check_executables().context(|| input::place(file))?;
    }
    Ok(replay)
}

/// Where the flags say that files are here.
pub(crate) fn remaps(flags: &Flags) -> Result<Vec<FileRemap>> {
    let remaps = flags.list("replay_file_remap").map(FileRemap::parse).collect::<Result<_>>();
    remaps
        .context(|| "--replay_file_remap".into())
        .advise(|| "--replay_file_remap=CAPTURED_PREFIX=PREFIX_HERE".into())
}
