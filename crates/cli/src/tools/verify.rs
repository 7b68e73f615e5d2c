//! `rehal verify`: compares a replay with a ledger, or with another replay.

mod text;

use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rehal::capture::CaptureOptions;
use rehal::work::{ReplaySetup, SideReplay, SideWork};
use rehal_base::{Advice, Error, Remedy, Result, StatusCode};
use rehal_devices::{CrashReports, DeviceSettings, StaticMemoryWatch};
use rehal_hal::WorkgroupSchedule;
use rehal_judge::{
    Difference, Ledger, Outcome, Pulse, REDZONE_BYTES, Tolerance, Verification, VerifyOptions, VerifySides,
    verify_against, verify_captures, verify_elements, verify_lockstep, watch_memory,
};
use rehal_replay::{ObservedReplay, Observer, Plan, RecordLocation, Replay, ReplayOptions, Substitution};
use serde::Serialize;

use super::compiler_flags::{COMPILING, SubstituteCompiler, WORKGROUPS};
use super::report_format::{self, Format};
use super::{ledger_flags, replay_flags};
use crate::devices::Expectations;
use crate::flags::{DEVICE_TIMEOUT, Flag, Flags, Group, List, Refusal, device_uri, read, with_devices};
use crate::kernel_recording::{KERNEL_RECORDING, Recording};
use crate::progress::Progress;
use crate::report::{Report, Subject};
use crate::sandbox::Reach;
use crate::table::Layout;
use crate::{Invocation, Operands, Tool, advice, captures, devices, interrupts, output};

/// See the [module](self).
pub const VERIFY: Tool = Tool {
    name: "rehal verify",
    verb: "verify",
    summary: "finds the first dispatch of a replay that differs",
    about: "Replays a capture, and compares what each dispatch writes and each host read sees: with a ledger of a trusted \
            replay (--against, as `rehal run --replay_ledger` writes it), or in lockstep with a second replay on another \
            device (--other_device), with other executables (--replay_executable_substitution) or of another capture of the \
            program (--against_capture). It names the first dispatch \
            that differs, with binding, bytes and elements. --watch_memory finds accesses outside of bindings and reads of \
            memory that was never written. Exit status 0 if everything is the same, 2 if something differs, 1 if that cannot be told.\n\n\
            What differs within a tolerance, or by what rounding explains, is replaced by the expected bytes, so that errors do not accumulate and each \
            dispatch is judged on the expected inputs.",
    operands: Operands::One { what: "capture", form: "CAPTURE.ireereplay" },
    groups: with_devices![&VERIFICATION, &SIDES, &COMPILING, &KERNEL_RECORDING],
    examples: &[
        (
            "Check a replay on another machine, or of another build, against a trusted one",
            "rehal run --replay_ledger=model.ledger --replay_ledger_kept_bytes=65536 model.ireereplay\n\
             {tool} --against=model.ledger --element_type=f32 model.ireereplay",
        ),
        (
            "Check a kernel against the captured one, with a tolerance instead of what rounding explains",
            "{tool} --replay_executable_substitution=matmul_0=kernel.so --tolerance='*:f32:ulp=4' --element_type=f32 \
             model.ireereplay",
        ),
        (
            "Find the first dispatch in which two devices differ",
            "{tool} --device=local-sync --other_device=local-task model.ireereplay",
        ),
        (
            "Compare a program that was compiled for a GPU with the same one compiled for the CPU",
            "{tool} --device=vulkan --against_capture=cpu.ireereplay --other_device=local-task gpu.ireereplay",
        ),
        (
            "Find accesses of a kernel outside of its bindings",
            "{tool} --watch_memory --replay_executable_substitution=matmul_0=kernel.so model.ireereplay",
        ),
    ],
    guide: include_str!("../guides/verify.md"),
    answer: devices::answer,
    run,
};

const AGAINST: Flag<Option<PathBuf>> =
    Flag::path("against", "Compares with this ledger, which must be of the same capture.").files(read);

const OTHER_DEVICE: List<String> = List::parsed(
    "other_device",
    "URI",
    "a driver or a device URI",
    device_uri,
    "The device of a second replay, which is compared with that on --device after each dispatch; with --against_capture, the one \
     that this capture runs on. Repeat it once for each device of the capture, in the same order.",
);

const AGAINST_CAPTURE: Flag<Option<PathBuf>> = Flag::path(
    "against_capture",
    "Compares with a replay of this capture of the same program, such as one for another target: dispatches with those of the \
     same function, and host reads, in the order of both. --other_device is its device; by default that of --device.",
)
.files(read);

const WATCH_MEMORY: Flag<bool> = Flag::switch(
    "watch_memory",
    false,
    "Finds dispatches that write outside of their bindings, or whose results depend on bytes that were never written: replays twice, \
     in lockstep, with redzones around buffers and with different contents of new memory.",
);

/// Also of `rehal compare`.
pub(super) const TOLERANCE: List<Tolerance> = List::parsed(
    "tolerance",
    "GLOB:TYPE:LIMIT",
    "GLOB:TYPE:ulp=N,abs=X,rel=X with one or more of the limits",
    |value| Ok(Tolerance::parse(value.to_str().ok_or(Refusal::Unexpected)?)?),
    "Elements of this type that functions whose name matches GLOB write are the same if they are within any of the limits: \
     units in the last place, absolute error, or error relative to the expected element. Without one, floating-point results of a dispatch may \
     differ by what rounding explains, which is measured. The last one that matches counts; \
     one with GLOB * also applies to host reads. Without --element_type, a function has the type \
     in its name; if these are none or several, that of a GLOB of more than *.",
);

const KEEP_GOING: Flag<bool> = Flag::switch(
    "keep_going",
    false,
    "Continues after a difference. If the expected bytes are known, they replace what differs, so that what follows is judged \
     by itself; digests alone cannot do that.",
);

/// Also of `rehal compare`.
pub(super) const ELEMENTS: Flag<usize> = Flag::number(
    "max_elements",
    8,
    (0, 1 << 20),
    |count| count as usize,
    "Maximum number of elements to print of each difference.",
);

const FORMAT: Flag<Format> = report_format::flag("text: a paragraph per difference. json: an object.");

const VERIFICATION: Group = Group {
    title: "Verification",
    flags: &[&TOLERANCE, &ledger_flags::ELEMENT_TYPE, &KEEP_GOING, &ELEMENTS, &FORMAT],
};

const SIDES: Group = Group {
    title: "Replays",
    flags: &[
        &AGAINST,
        &AGAINST_CAPTURE,
        &OTHER_DEVICE,
        &WATCH_MEMORY,
        &replay_flags::SUBSTITUTION,
        &WORKGROUPS,
        &replay_flags::FILE_REMAP,
        &replay_flags::FILE_WRITES,
        &replay_flags::RECOVER,
    ],
};

/// Exit status: something differs.
const DIFFERENT: u8 = 2;
/// Exit status: it cannot be told.
const INCONCLUSIVE: u8 = 1;

/// The other side of a comparison with a replay, as the flags say.
enum Other {
    Ledger(PathBuf),
    Replay(DeviceSettings),
    /// A replay of another capture.
    Capture(PathBuf, DeviceSettings),
    /// The results that the recorder added to the capture.
    Recorded,
    /// The same replay with other contents of new memory.
    Memory,
}

/// The same, opened.
enum Expected {
    Ledger(Ledger),
    Replay(DeviceSettings),
    Capture(Arc<Plan>, DeviceSettings),
    Memory,
}

impl Expected {
    /// Whether this machine runs the captured kernels, in lockstep.
    fn is_replay(&self) -> bool {
        matches!(self, Self::Replay(_) | Self::Capture(..))
    }
}

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let guards_buffers = flags.get(&WATCH_MEMORY) || !flags.list(&replay_flags::SUBSTITUTION).is_empty();
    let settings = devices::settings(flags, Expectations { judges_results: true, guards_buffers })?;
    let devices = settings.to_options()?;
    let other = other(flags, &settings)?;
    let mut options = VerifyOptions::default();
    options.tolerances = flags.list(&TOLERANCE);
    options.element_types = flags.list(&ledger_flags::ELEMENT_TYPE);
    options.keep_going = flags.get(&KEEP_GOING);
    options.max_elements = flags.get(&ELEMENTS);
    let recover = captures::options(flags.get(&replay_flags::RECOVER));
    let capture = captures::open(&invocation.operand(), &recover)?;
    let plan = replay_flags::compile(&capture)?;
    plan.check_not_empty()?;
    let kernels = Recording::checked(flags)?;
    let expected = expected(other, &plan, &recover)?;
    let substitutions = flags.list(&replay_flags::SUBSTITUTION);
    let own_names = invocation.own_names(&plan, &devices);
    let substitutions = SubstituteCompiler::from_flags(flags).resolve(&substitutions, &plan, &own_names)?;
    let mut reach = Reach::of_replay(&plan, &devices);
    if let Expected::Capture(other, _) = &expected {
        reach.plans.push(other);
    }
    let other_devices = match &expected {
        Expected::Replay(devices) | Expected::Capture(_, devices) => Some(devices.to_options()?),
        Expected::Ledger(_) | Expected::Memory => None,
    };
    reach.devices.extend(&other_devices);
    reach.directories.extend(kernels.as_ref().map(Recording::directory));
    // Until now, a signal ends the tool.
    let interrupted = interrupts::flag()?;
    options.pulse = until(interrupted.clone());
    let limit = Cell::default();
    let target = Target {
        invocation,
        reach: &reach,
        plan: plan.clone(),
        settings,
        options,
        substitutions,
        interrupted,
        limit,
    };
    let outcome = target.outcome(&expected).map_err(cannot_tell)?;
    let (Found::Compared(found) | Found::Watched(found) | Found::Memory(found)) = &outcome;
    let status = match found.outcome() {
        Outcome::Same => 0,
        Outcome::Different => DIFFERENT,
        Outcome::Inconclusive => INCONCLUSIVE,
    };
    let format = flags.get(&FORMAT);
    invocation.confined(&reach, || {
        // The replays have closed theirs.
        let devices = matches!(format, Format::Json).then(|| devices.open()).transpose()?;
        let subject = Subject { capture: Some(capture.bytes()), devices: devices.as_ref() };
        invocation.print(&FoundReport::new(&outcome), format, subject)?;
        match &outcome {
            Found::Compared(outcome) | Found::Watched(outcome) => add_notes(outcome),
            // The tolerances apply to results, which are not compared.
            Found::Memory(_) => {}
        }
        let verified = Side::Verified(WorkgroupSchedule::All);
        Recording::of_capture(kernels.as_ref(), None, || target.replay(verified))
    })?;
    invocation.set_status(status);
    Ok(())
}

/// The plan to verify, with devices and options.
///
/// Replays whose results are compared run in processes of their own, each side in another, and are compared
/// in this one: what the kernels of a side do to their process changes no verdict. Accesses are watched
/// within a process.
struct Target<'f> {
    invocation: &'f Invocation,
    reach: &'f Reach<'f>,
    plan: Arc<Plan>,
    settings: DeviceSettings,
    options: VerifyOptions,
    /// With their sources compiled.
    substitutions: Vec<Substitution>,
    interrupted: Arc<AtomicBool>,
    /// How long a kernel may run.
    limit: Cell<Option<Duration>>,
}

/// Continues until it is interrupted.
fn until(interrupted: Arc<AtomicBool>) -> Pulse {
    Pulse::new(move |_| match interrupted.load(Ordering::Relaxed) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    })
}

/// The findings of a verification.
#[derive(Serialize)]
#[serde(untagged)]
enum Found {
    /// By comparing what dispatches write.
    Compared(Verification),
    /// By watching memory, as requested.
    Watched(Verification),
    /// Memory errors of replacements.
    Memory(Verification),
}

impl Target<'_> {
    /// The findings. Accesses of replacements are watched even if only their results are to be compared:
    /// what they write outside of their bindings may have any consequence, and what they read there may
    /// happen to be what is expected.
    fn outcome(&self, expected: &Expected) -> Result<Found> {
        if let Expected::Memory = expected {
            let found = self.verify(expected, WorkgroupSchedule::All)?;
            return Ok(
                match self.race_behind(&found, &self.settings, Side::Watched, || {
                    self.verify(expected, WorkgroupSchedule::All)
                })? {
                    Some(race) => Found::Compared(race),
                    None => Found::Watched(found),
                },
            );
        }
        let mut memory = None;
        if !self.substitutions.is_empty() {
            self.limit_time(expected)?;
            memory = self.memory_errors(expected)?;
        }
        if let Some(memory) = memory.take_if(|it| it.out_of_bounds_write_count != 0) {
            return Ok(Found::Memory(memory));
        }
        if let Some(memory) = &memory
            && let Some(race) =
                self.race_behind(memory, &self.settings, Side::Watched, || self.watched(Side::Watched))?
        {
            return Ok(Found::Compared(race));
        }
        let outcome = self.verify_in_any_order(expected)?;
        if let Some(memory) = memory.filter(|_| outcome.outcome() != Outcome::Different) {
            return Ok(Found::Memory(memory));
        }
        let devices = match expected {
            Expected::Replay(other) => Some(other),
            Expected::Capture(..) => Some(&self.settings),
            Expected::Ledger(_) | Expected::Memory => None,
        };
        let race = match devices.filter(|_| !self.substitutions.is_empty()) {
            Some(devices) => {
                let verified = Side::Verified(WorkgroupSchedule::All);
                self.race_behind(&outcome, devices, verified, || {
                    self.verify(expected, WorkgroupSchedule::All)
                })?
            }
            None => None,
        };
        Ok(Found::Compared(race.unwrap_or(outcome)))
    }

    /// Tells differences by chance from others: how two replays of the same side, with the same contents of
    /// new memory, differ, if they do, or that `again` does not find the same as before. Only if something
    /// was found to differ, or if workgroups share static variables.
    fn race_behind(
        &self,
        found: &Verification,
        devices: &DeviceSettings,
        side: Side,
        again: impl FnOnce() -> Result<Verification>,
    ) -> Result<Option<Verification>> {
        /// By chance, a race may show in none of these.
        const ATTEMPTS: usize = 4;
        let differs = !found.differences.is_empty();
        if !differs && found.static_writes.is_empty()
            || found.out_of_bounds_write_count != 0
            || found.depends_on_order
            || found.is_interrupted
        {
            return Ok(None);
        }
        // Bits that differ are not rounding: both sides run the same code.
        let mut options = self.options.clone();
        options.tolerances.clear();
        options.measures_rounding = false;
        for _ in 0..ATTEMPTS {
            let mut again = match side {
                Side::Watched => self.beside_itself(side, |sides| verify_lockstep(sides, &options))?,
                _ => {
                    let expected = self.side(&self.plan, devices, side)?;
                    let actual = self.side(&self.plan, devices, side)?;
                    self.compared(&expected, &actual, |sides| verify_lockstep(sides, &options))?
                }
            };
            if again.outcome() == Outcome::Different {
                again.is_race = true;
                again.static_writes.clone_from(&found.static_writes);
                return Ok(Some(again));
            }
            if again.is_interrupted {
                return Ok(None);
            }
        }
        if !differs {
            return Ok(None);
        }
        let again = again()?;
        let is_same = |one: &Difference, other: &Difference| {
            let key = |it: &Difference| {
                let first = it.elements.as_ref().map(|it| it.first.clone());
                (it.place.clone(), it.binding, it.different, first)
            };
            key(one) == key(other)
        };
        let is_found = |it: &Difference| again.differences.iter().any(|other| is_same(it, other));
        if again.is_interrupted || found.differences.iter().all(is_found) {
            return Ok(None);
        }
        let mut race = found.clone();
        race.is_race = true;
        Ok(Some(race))
    }

    /// Ends the process when a dispatch takes hundreds of times as long as the captured kernels together,
    /// unless a flag has a limit.
    fn limit_time(&self, expected: &Expected) -> Result<()> {
        const BASE: Duration = Duration::from_secs(30);
        /// This machine may not run the captured kernels.
        const UNKNOWN: Duration = Duration::from_secs(600);
        if self.invocation.flags.get(&DEVICE_TIMEOUT).is_some() {
            return Ok(());
        }
        self.limit.set(Some(match expected.is_replay() {
            true => {
                let elapsed = self.invocation.confined_value(self.reach, || {
                    let captured = self.replay(Side::Captured)?;
                    let begun = Instant::now();
                    let mut steps = Steps::showing("timing", &self.plan).until(interrupts::flag()?);
                    captured.run(&mut [&mut steps])?;
                    Ok(begun.elapsed())
                });
                BASE.saturating_add(elapsed?.saturating_mul(1000))
            }
            false => UNKNOWN,
        }));
        Ok(())
    }

    /// Runs two replays of the same side in a copy of this process.
    fn beside_itself(
        &self,
        side: Side,
        verify: impl FnOnce(VerifySides<'_, '_, '_>) -> Result<Verification>,
    ) -> Result<Verification> {
        let (mut found, place) = self.invocation.confined_value(self.reach, || {
            self.limit.get().map_or(Ok(()), rehal_crash::end_after)?;
            let (expected, actual) = (self.replay(side)?, self.replay(side)?);
            let mut statics = StaticMemoryWatch::default();
            let mut found = side_by_side((&expected, &actual), Some(&mut statics), verify)?;
            found.static_writes = statics.into_writes();
            // Of which its JSON has only the record.
            let place = found.first_unwritten_read.clone();
            Ok((found, place))
        })?;
        found.first_unwritten_read = place;
        // The signal was that of the copy.
        self.interrupted.fetch_or(found.is_interrupted, Ordering::Relaxed);
        Ok(found)
    }

    /// All memory errors of a side.
    fn watched(&self, side: Side) -> Result<Verification> {
        /// Errors of captured kernels are not reported, and must not leave out others.
        const MAX_FINDINGS: usize = 10_000;
        let mut options = self.options.clone();
        (options.keep_going, options.max_differences) = (true, MAX_FINDINGS);
        self.watch(side, options)
    }

    fn watch(&self, side: Side, mut options: VerifyOptions) -> Result<Verification> {
        self.beside_itself(side, |sides| {
            options.pulse = until(interrupts::flag()?);
            watch_memory(sides, &options)
        })
    }

    /// The memory errors of the replacements that the captured kernels do not make, if there are any.
    fn memory_errors(&self, expected: &Expected) -> Result<Option<Verification>> {
        let mut found = match self.watched(Side::Watched) {
            Ok(found) => found,
            // Of devices that cannot be watched.
            Err(error) if error.code() == StatusCode::Unimplemented => return Ok(None),
            Err(error) => return Err(error),
        };
        if found.out_of_bounds_writes.is_empty() && found.differences.is_empty() || found.is_interrupted {
            return Ok(None);
        }
        match expected.is_replay() {
            true => found = found.memory_errors_beside(&self.watched(Side::WatchedCaptured)?),
            // The captured kernels may do the same, and this machine may not run them.
            false => found.differences.clear(),
        }
        let found = found.only_memory_errors();
        Ok(Some(found).filter(|it| it.outcome() == Outcome::Different))
    }

    /// Of replays in lockstep that are the same, a second time with workgroups in reverse order: if that
    /// differs, they race.
    fn verify_in_any_order(&self, expected: &Expected) -> Result<Verification> {
        let outcome = self.verify(expected, WorkgroupSchedule::All)?;
        if !expected.is_replay() || outcome.outcome() != Outcome::Same || !self.has_workgroups()? {
            return Ok(outcome);
        }
        let mut reversed = self.verify(expected, WorkgroupSchedule::Reversed)?;
        if reversed.is_interrupted {
            return Ok(reversed);
        }
        if reversed.outcome() != Outcome::Different {
            return Ok(outcome);
        }
        let first = |outcome: &Verification| outcome.differences.first().map(|it| it.place.clone());
        let again = self.verify(expected, WorkgroupSchedule::Reversed)?;
        match first(&again) == first(&reversed) {
            true => reversed.depends_on_order = true,
            false => reversed.is_unreproduced = true,
        }
        Ok(reversed)
    }

    /// Whether a dispatch may have several workgroups.
    fn has_workgroups(&self) -> Result<bool> {
        let mut has = false;
        self.plan.distinct_dispatches(|it, _| {
            has |= it.workgroup_count.is_none_or(|count| count.iter().any(|count| *count > 1));
            Ok(())
        })?;
        Ok(has)
    }

    /// Workgroups of the verified side run as scheduled.
    fn verify(&self, expected: &Expected, workgroups: WorkgroupSchedule) -> Result<Verification> {
        let Self { settings, options, plan, .. } = self;
        let verified = Side::Verified(workgroups);
        match expected {
            Expected::Ledger(ledger) => {
                let actual = self.side(plan, settings, verified)?;
                let mut steps = Steps::showing("verifying", plan);
                let found = verify_against(&actual, ledger, options, &mut [&mut steps]);
                let mut found = self.ended(found, &[&actual]).map_err(|error| match error.code() {
                    // Its entries are read meanwhile.
                    StatusCode::DataLoss => error.advise(ledger_flags::MAKE_LEDGER),
                    _ => error,
                })?;
                found.static_writes = actual.static_writes();
                if self.substitutions.is_empty() || found.digested_bytes == 0 {
                    return Ok(found);
                }
                // This machine may not run the captured executables, which name the elements.
                let Ok(captured) = self.side(plan, settings, Side::Captured) else { return Ok(found) };
                self.compared(&captured, &actual, |sides| verify_elements(found, sides, ledger, options))
            }
            Expected::Replay(other) => {
                let expected = self.side(plan, settings, Side::Captured)?;
                let has_other = !self.invocation.flags.list(&OTHER_DEVICE).is_empty();
                let of_other = |error| if has_other { of_other_device(error, false) } else { error };
                let actual = self.side(plan, other, verified).map_err(of_other)?;
                self.compared(&expected, &actual, |sides| verify_lockstep(sides, options)).map_err(of_other)
            }
            Expected::Capture(other_plan, other) => {
                let expected = self.side(other_plan, other, Side::Captured);
                let expected =
                    expected.map_err(|error| of_other_device(error.context("the expected replay"), true))?;
                let actual = self.side(plan, settings, verified)?;
                let found = self.compared(&expected, &actual, |sides| verify_captures(sides, options));
                found.map_err(|error| of_other_device(error, true))
            }
            Expected::Memory => self.watch(Side::Watched, options.clone()),
        }
    }

    /// Compares replays of other processes.
    fn compared(
        &self,
        expected: &SideReplay,
        actual: &SideReplay,
        verify: impl FnOnce(VerifySides<'_, '_, '_>) -> Result<Verification>,
    ) -> Result<Verification> {
        let found = side_by_side((expected, actual), None, verify);
        let mut found = self.ended(found, &[expected, actual])?;
        found.static_writes = actual.static_writes();
        Ok(found)
    }

    /// The error of a process that has said why it ended.
    fn ended(&self, found: Result<Verification>, sides: &[&SideReplay]) -> Result<Verification> {
        found.map_err(|error| match sides.iter().find_map(|it| it.ended()) {
            Some(outcome) => self.invocation.said(&outcome, error),
            None => error,
        })
    }

    /// A replay of a plan in a process of its own.
    fn side(&self, plan: &Arc<Plan>, devices: &DeviceSettings, side: Side) -> Result<SideReplay> {
        let mut setup = ReplaySetup::of_plan(plan)?;
        setup.devices = devices.clone();
        setup.options = self.options_of(side);
        let mut work = SideWork::new(setup);
        work.kernel_limit = self.limit.get();
        self.invocation.side(plan, &work)
    }

    /// A replay of this process, on devices of its own.
    fn replay(&self, side: Side) -> Result<Replay> {
        let options = self.options_of(side);
        let replay = Replay::new(self.plan.clone(), &self.settings.to_options()?.open()?, &options)?;
        if matches!(side, Side::Verified(_) | Side::Watched) && !self.substitutions.is_empty() {
            replay.check_executables()?;
        }
        Ok(replay)
    }

    fn options_of(&self, side: Side) -> ReplayOptions {
        let flags = &self.invocation.flags;
        let substitutions = match side {
            Side::Captured | Side::WatchedCaptured => Vec::new(),
            Side::Verified(_) | Side::Watched => self.substitutions.clone(),
        };
        replay_flags::files(flags)
            .substitutions(substitutions)
            .redzone_bytes(match side {
                Side::Watched | Side::WatchedCaptured => REDZONE_BYTES,
                Side::Captured | Side::Verified(_) => 0,
            })
            .workgroups(match side {
                Side::Verified(workgroups) => workgroups,
                Side::Captured | Side::Watched | Side::WatchedCaptured => WorkgroupSchedule::All,
            })
    }
}

/// Advice about a device of the other replay names the flag of that device. `is_expected` says whether that
/// replay is the expected one.
fn of_other_device(error: Error, is_expected: bool) -> Error {
    let is_of_other = error.context_lines().iter().any(|it| it == "the expected replay") == is_expected;
    match advice::of(&error) {
        Some(advice) if is_of_other && advice.starts_with("use --device=") => {
            error.replace_advice(advice.replacen("--device=", "--other_device=", 1))
        }
        _ => error,
    }
}

fn other(flags: &Flags, devices: &DeviceSettings) -> Result<Other> {
    let uris = flags.list(&OTHER_DEVICE);
    let has_substitution = !flags.list(&replay_flags::SUBSTITUTION).is_empty();
    let capture = flags.get(&AGAINST_CAPTURE);
    if flags.get(&WATCH_MEMORY) {
        return match (flags.get(&AGAINST), &capture, uris.is_empty()) {
            (None, None, true) => Ok(Other::Memory),
            _ => Err(Error::invalid_argument("--watch_memory compares a replay with itself").advise(
                "leave out --against, --against_capture and --other_device, and verify again without --watch_memory",
            )),
        };
    }
    let other_devices = || -> Result<DeviceSettings> {
        let mut other = devices.clone();
        if !uris.is_empty() {
            devices::find_all(flags, OTHER_DEVICE.name(), &uris)?;
            other.uris.clone_from(&uris);
        }
        Ok(other)
    };
    match flags.get(&AGAINST) {
        Some(_) if capture.is_some() => {
            let error = Error::invalid_argument("--against and --against_capture are both given");
            Err(error.advise(
                "leave out one of them: a replay is compared with a ledger or with a replay of another capture",
            ))
        }
        Some(_) if !uris.is_empty() => {
            let error = Error::invalid_argument("--against and --other_device are both given");
            Err(error
                .advise("leave out one of them: a replay is compared with a ledger or with another replay"))
        }
        Some(path) => Ok(Other::Ledger(path)),
        None => match capture {
            Some(path) => Ok(Other::Capture(path, other_devices()?)),
            None if uris.is_empty() && !has_substitution => Ok(Other::Recorded),
            None => Ok(Other::Replay(other_devices()?)),
        },
    }
}

/// Opens what a replay of `plan` is compared with, before any device is opened.
fn expected(other: Other, plan: &Plan, recover: &CaptureOptions) -> Result<Expected> {
    Ok(match other {
        Other::Recorded => Expected::Ledger(Ledger::from_plan(plan)?.ok_or_else(nothing_to_compare)?),
        Other::Ledger(path) => Expected::Ledger(ledger_flags::open(&path, plan)?),
        Other::Replay(devices) => Expected::Replay(devices),
        Other::Capture(path, devices) => {
            let plan = replay_flags::compile(&captures::open(&path, recover)?)?;
            plan.check_not_empty()?;
            Expected::Capture(plan, devices)
        }
        Other::Memory => Expected::Memory,
    })
}

/// Warns of tolerances that applied to nothing.
pub(super) fn note_unused_tolerances(outcome: &Verification) {
    for Tolerance { function, element_type, .. } in &outcome.unused_tolerances {
        output::note(&format!(
            "warning: --tolerance={}:{element_type}:... applied to nothing: of the functions that match, and of host reads, none \
             is known to have elements of type {element_type}; see --element_type and rehal kernels",
            output::escaped(function)
        ));
    }
}

/// An error that says nothing about results.
fn cannot_tell(error: Error) -> Error {
    let Some(Advice::Remedy(Remedy::StateWorkgroups)) = error.advice() else { return error };
    let told = Error::new(error.code(), format!("cannot tell: {}", error.message()));
    let lines = error.context_lines().iter().cloned();
    lines.fold(told, Error::context).advise(Remedy::StateWorkgroups)
}

/// Notes what an exit status does not say.
fn add_notes(outcome: &Verification) {
    note_unused_tolerances(outcome);
    if let Some(remedy) = outcome.remedy() {
        output::note(&format!("  try: {}", advice::in_flags(&remedy)));
    }
    if outcome.compared_count() == 0 && outcome.outcome() == Outcome::Inconclusive {
        output::note(
            "  try: compare with a ledger of dispatches (rehal run --replay_ledger=PATH CAPTURE), or record a program that \
             dispatches work or reads results",
        );
    }
}

fn nothing_to_compare() -> Error {
    Error::invalid_argument("nothing to compare with: the capture has no expected results").advise(
        "name a ledger with --against=PATH (rehal run --replay_ledger=PATH writes one), another device with \
         --other_device, another executable with --replay_executable_substitution, or another capture with \
         --against_capture; use --watch_memory; or record with --device_replay_ledger=dispatches",
    )
}

/// Which replay of a verification.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// With the captured executables.
    Captured,
    /// With the substitutions, and workgroups as scheduled.
    Verified(WorkgroupSchedule),
    /// With the substitutions and redzones.
    Watched,
    /// With the captured executables and redzones.
    WatchedCaptured,
}

/// Also of `rehal compare`.
pub(super) use text::{first_difference, first_memory_error, memory_report, report, tolerated, within};

/// The report of a verification.
#[derive(Serialize)]
struct FoundReport<'a>(&'a Found);

impl<'a> FoundReport<'a> {
    fn new(found: &'a Found) -> Self {
        Self(found)
    }
}

impl Report for FoundReport<'_> {
    const SCHEMA: &'static str = Verification::SCHEMA;
    const IS_ON_A_LINE: bool = true;

    fn text(&self, layout: Layout) -> String {
        layout.wrap(&match self.0 {
            Found::Watched(outcome) | Found::Memory(outcome) => memory_report(outcome),
            Found::Compared(outcome) => report(outcome),
        })
    }
}

/// Runs two replays, with crash reports for both.
pub(super) fn side_by_side(
    (expected, actual): (&dyn ObservedReplay, &dyn ObservedReplay),
    statics: Option<&mut StaticMemoryWatch>,
    verify: impl FnOnce(VerifySides<'_, '_, '_>) -> Result<Verification>,
) -> Result<Verification> {
    let (mut steps, mut expected_steps) = (Steps::showing("verifying", actual.plan()), Steps::silent());
    let mut observers: Vec<&mut dyn Observer> = vec![&mut steps];
    observers.extend(statics.map(|it| it as &mut dyn Observer));
    verify(VerifySides {
        expected,
        actual,
        expected_observers: &mut [&mut expected_steps],
        observers: &mut observers,
    })
}

/// Sets the record for crash reports, on the thread of the replay, and shows progress on a terminal.
pub(super) struct Steps {
    /// Installed on the thread of the replay.
    reports: Option<CrashReports>,
    progress: Progress,
    done: u64,
    total: u64,
    /// Ends the replay with an error.
    interrupted: Option<Arc<AtomicBool>>,
}

impl Steps {
    pub(super) fn showing(what: &'static str, plan: &Plan) -> Self {
        let total = plan.step_count() as u64;
        Self { progress: Progress::new(what), total, ..Self::silent() }
    }

    fn silent() -> Self {
        Self { reports: None, progress: Progress::silent(), done: 0, total: 0, interrupted: None }
    }

    /// The same, which fails once it is interrupted.
    pub(super) fn until(self, interrupted: Arc<AtomicBool>) -> Self {
        Self { interrupted: Some(interrupted), ..self }
    }
}

impl Observer for Steps {
    fn wants_steps(&self) -> bool {
        true
    }

    fn step(&mut self, location: RecordLocation) -> Result<()> {
        // A second run begins again.
        self.done = if self.done == self.total { 1 } else { self.done + 1 };
        self.command_step(location)
    }

    fn command_step(&mut self, location: RecordLocation) -> Result<()> {
        if self.interrupted.as_ref().is_some_and(|it| it.load(Ordering::Relaxed)) {
            return Err(Error::new(StatusCode::Cancelled, format!("interrupted at {location}"))
                .advise("leave it time to finish"));
        }
        self.progress.set(self.done, self.total);
        self.reports.get_or_insert_with(CrashReports::install).step(location)
    }
}
