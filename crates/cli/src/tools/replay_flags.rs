//! Shared by the tools that replay: flags, options, and the creation of a replay from them.

use std::path::PathBuf;
use std::sync::Arc;

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal::work::ReplaySetup;
use rehal_base::Result;
use rehal_devices::{CrashReports, DeviceOptions, written_bindings};
use rehal_hal::DeviceGroup;
use rehal_judge::Side;
use rehal_replay::{Code, FileRemap, FileWrites, Plan, Replay, ReplayOptions, ReplayOrder, Substitution};

use super::compiler_flags::SubstituteCompiler;
use crate::devices::Expectations;
use crate::flags::{Access, Flag, Flags, List, Refusal};
use crate::progress::Progress;
use crate::{Invocation, captures, devices, profiling};

/// Accepts truncated and damaged captures.
pub(crate) const RECOVER: Flag<bool> = Flag::switch(
    "recover",
    false,
    "Uses the complete records of a truncated capture, or of one whose program was killed before closing it, and \
     what can be read of a damaged one.",
);

/// Maps captured paths to paths on this machine.
pub(crate) const FILE_REMAP: List<FileRemap> = List::parsed(
    "replay_file_remap",
    "CAPTURED=HERE",
    "CAPTURED_PREFIX=PREFIX_HERE",
    |value| FileRemap::parse(value).map_err(|_| Refusal::Unexpected),
    "Replaces a prefix of the paths of external files: a path that starts with CAPTURED starts with HERE \
     instead. The longest matching prefix counts. The file must still be the captured one, by length and by \
     identity or digest.",
)
.files(|remap, _| vec![Access::Read.to(&remap.here)]);

/// The files that writes to external files change.
pub(crate) const FILE_WRITES: Flag<FileWrites> = Flag::choice(
    "replay_file_writes",
    "copy",
    &[("copy", FileWrites::Copy), ("in-place", FileWrites::InPlace), ("fail", FileWrites::Fail)],
    "What writes to external files change; rehal info lists these files. copy: private copies in memory, each replay its own. \
     in-place: the files, unless they are validated only by their length. fail: such captures are refused.",
);

/// Substitutes executables.
pub(crate) const SUBSTITUTION: List<Substitution> = List::parsed(
    "replay_executable_substitution",
    "WHICH[@FORMAT]=PATH",
    "WHICH[@FORMAT]=PATH",
    |value| Ok(Substitution::parse(value)?),
    "Replaces an executable of the capture by a compiled executable, a raw embedded ELF, a native library, a SPIR-V module, or the \
     source of a kernel in C or Rust (.c, .rs) or a dispatch as the compiler dumps it (.mlir), which is compiled first and replaces \
     only the functions that it has. \
     WHICH is the id of an executable (iree-dump-replay prints it; 31 or 0x1f), the name of one of its functions, of its \
     dispatch, or its own name, with or without the prefixes of dumped files; a part of the name of one function, a pattern with * \
     and ? for all that match; or all. all=DIRECTORY takes each file for the \
     executable of its name. With the name of a function, only that function is replaced; otherwise a compiled file must \
     have them all. FORMAT, such as embedded-elf-x86_64, is needed if it cannot be detected. The signature must match: \
     constants, bindings, parameters and workgroup sizes are compared before anything runs.",
)
.files(|substitution, _| match &substitution.replacement.code {
    Code::File(path) => vec![Access::Read.to(path)],
    Code::Bytes(_) => Vec::new(),
});

/// When the host waits.
pub(crate) const ORDER: Flag<ReplayOrder> = Flag::choice(
    "replay_order",
    "serialized",
    &[("serialized", ReplayOrder::Serialized), ("captured", ReplayOrder::Captured)],
    "serialized: waits for each submission before the next operation, as the reference does. captured: submits as the \
     program did and lets the captured semaphores order the work; the host waits only before it accesses bytes that \
     work in flight accesses, before a submission that only a wait of the program's host can have ordered after such \
     work, and at the end of the timed scope.",
);

/// The capture to replay, and how.
pub(crate) struct Options {
    pub path: PathBuf,
    pub capture: CaptureOptions,
    pub devices: DeviceOptions,
    pub replay: ReplayOptions,
    pub compiler: SubstituteCompiler,
}

impl Options {
    /// The options set by the flags and the operand, of a tool that has [`ORDER`].
    pub(crate) fn from_invocation(invocation: &Invocation) -> Result<Self> {
        Self::in_order(invocation, invocation.flags.get(&ORDER))
    }

    /// The same, of a tool that has its own flag for the order.
    pub(crate) fn in_order(invocation: &Invocation, order: ReplayOrder) -> Result<Self> {
        Self::in_order_with(invocation, order, &[])
    }

    /// The same, of a tool that has more substitutions than [`SUBSTITUTION`].
    pub(crate) fn in_order_with(
        invocation: &Invocation,
        order: ReplayOrder,
        with: &[Substitution],
    ) -> Result<Self> {
        let flags = &invocation.flags;
        let substitutions = flags.list(&SUBSTITUTION);
        let all: Vec<_> = substitutions.iter().chain(with).cloned().collect();
        Ok(Self {
            path: invocation.operand(),
            capture: captures::options(flags.get(&RECOVER)),
            devices: devices_for(flags, &all)?,
            replay: files(flags)
                .substitutions(substitutions)
                .order(order)
                .written_bindings(Some(Arc::new(written_bindings))),
            compiler: SubstituteCompiler::from_flags(flags),
        })
    }
}

/// The options of the flags for files: [`FILE_REMAP`] and [`FILE_WRITES`].
pub(crate) fn files(flags: &Flags) -> ReplayOptions {
    ReplayOptions::default().file_remaps(flags.list(&FILE_REMAP)).file_writes(flags.get(&FILE_WRITES))
}

/// The replay of the flags and the operand as data, without substitutions.
pub(crate) fn setup(invocation: &Invocation, expected: Expectations) -> Result<ReplaySetup> {
    let flags = &invocation.flags;
    let mut setup = ReplaySetup::new(invocation.operand());
    setup.recover = flags.get(&RECOVER);
    setup.devices = devices::settings(flags, expected)?;
    setup.options = files(flags);
    Ok(setup)
}

/// The devices of a replay: what replacements write next to a buffer is not to reach other memory of the
/// process.
pub(crate) fn devices_for(flags: &Flags, substitutions: &[Substitution]) -> Result<DeviceOptions> {
    let guards_buffers = !substitutions.is_empty();
    devices::options_expecting(flags, Expectations { guards_buffers, ..Expectations::default() })
}

/// Plans the capture, shows progress, and prints notes about truncation and damage that `--recover`
/// tolerates.
pub(crate) fn compile(capture: &CaptureFile) -> Result<Arc<Plan>> {
    captures::note_recovered(capture)?;
    capture.plan_with(&mut Progress::new("reading").teller())
}

/// Begins profiling the devices of a replay, if flags request it.
pub(crate) fn begin_profiling(
    options: Option<&profiling::Options>,
    replay: &Replay,
) -> Result<profiling::Session> {
    profiling::Session::begin(options, Some(replay.devices()))
}

/// Compiles the replacements of the options.
pub(crate) fn resolve(options: &mut Options, invocation: &Invocation, plan: &Plan) -> Result<()> {
    let own_names = invocation.own_names(plan, &options.devices);
    let substitutions = &options.replay.substitutions;
    options.replay.substitutions = options.compiler.resolve(substitutions, plan, &own_names)?;
    Ok(())
}

/// Prepares a replay of the plan on the devices of the options, and installs crash reports. As an observer,
/// these name the record.
pub(crate) fn prepare(options: &Options, plan: Arc<Plan>) -> Result<(Replay, CrashReports)> {
    let (mut replays, reports) = prepare_each(options, plan, &[options.replay.order])?;
    Ok((replays.swap_remove(0), reports))
}

/// The same, of a replay in each of these orders, all on the same devices.
pub(crate) fn prepare_each(
    options: &Options,
    plan: Arc<Plan>,
    orders: &[ReplayOrder],
) -> Result<(Vec<Replay>, CrashReports)> {
    let reports = CrashReports::install();
    let devices = options.devices.open()?;
    let prepare = |order: &ReplayOrder| {
        let replay = Replay::new(plan.clone(), &devices, &options.replay.clone().order(*order))?;
        if !options.replay.substitutions.is_empty() {
            // Reports a signature mismatch before the first dispatch, also of executables that are prepared
            // late.
            replay.check_executables()?;
        }
        Ok(replay)
    };
    Ok((orders.iter().map(prepare).collect::<Result<_>>()?, reports))
}

/// Two replays as the options say, each with more substitutions, on the same devices. Both keep their
/// executables: code that one side loads in each run would disturb what is timed next to it.
pub(crate) struct Sides {
    plan: Arc<Plan>,
    pub devices: DeviceGroup,
    captured: ReplayOptions,
    replaced: ReplayOptions,
}

impl Sides {
    /// A new replay of a side.
    pub(crate) fn replay(&self, side: Side) -> Result<Replay> {
        let options = match side {
            Side::Captured => &self.captured,
            Side::Replaced => &self.replaced,
        };
        let replay = Replay::new(self.plan.clone(), &self.devices, options)?;
        // Reports a signature mismatch before the first dispatch.
        replay.check_executables()?;
        Ok(replay)
    }
}

/// The options of both sides, with the substitutions of each, whose sources are compiled.
pub(crate) fn resolve_sides(
    options: &Options,
    invocation: &Invocation,
    plan: &Plan,
    of_sides: [&[Substitution]; 2],
) -> Result<[ReplayOptions; 2]> {
    let both = options.replay.clone().keeps_executables(true);
    let own_names = invocation.own_names(plan, &options.devices);
    let lists = [&both.substitutions[..], of_sides[0], of_sides[1]];
    let [of_both, captured, replaced] = options.compiler.resolve_each(lists, plan, &own_names)?;
    Ok([captured, replaced].map(|it| both.clone().substitutions([&of_both[..], &it].concat())))
}

/// Prepares both sides.
pub(crate) fn prepare_sides(
    options: &Options,
    plan: Arc<Plan>,
    [captured, replaced]: [ReplayOptions; 2],
) -> Result<(Sides, CrashReports)> {
    let reports = CrashReports::install();
    let devices = options.devices.open()?;
    let sides = Sides { plan, devices, captured, replaced };
    sides.replay(Side::Captured)?;
    sides.replay(Side::Replaced)?;
    Ok((sides, reports))
}
