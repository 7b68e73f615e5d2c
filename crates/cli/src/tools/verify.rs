//! `rehal verify`: compares a replay with a ledger, or with another replay.

mod text;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rehal::capture::CaptureOptions;
use rehal_base::{Advice, Error, Remedy, Result, StatusCode};
use rehal_devices::{CrashReports, DeviceOptions, StaticMemoryWatch};
use rehal_hal::WorkgroupSchedule;
use rehal_judge::{
    Difference, Ledger, Outcome, Pulse, REDZONE_BYTES, Tolerance, Verification, VerifyOptions, VerifySides,
    verify_against, verify_captures, verify_elements, verify_lockstep, watch_memory,
};
use rehal_replay::{Observer, Plan, RecordLocation, Replay, Substitution};
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
    Replay(DeviceOptions),
    /// A replay of another capture.
    Capture(PathBuf, DeviceOptions),
    /// The results that the recorder added to the capture.
    Recorded,
    /// The same replay with other contents of new memory.
    Memory,
}

/// The same, opened.
enum Expected {
    Ledger(Ledger),
    Replay(DeviceOptions),
    Capture(Arc<Plan>, DeviceOptions),
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
    let devices = devices::options_expecting(flags, Expectations { judges_results: true, guards_buffers })?;
    let other = other(flags, &devices)?;
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
    if let Expected::Replay(devices) | Expected::Capture(_, devices) = &expected {
        reach.devices.push(devices);
    }
    reach.directories.extend(kernels.as_ref().map(Recording::directory));
    invocation.confined(&reach, || {
        // Until now, a signal ends the tool.
        let interrupted = interrupts::flag()?;
        options.pulse = until(interrupted.clone());
        let target = Target {
            flags,
            plan: plan.clone(),
            devices: devices.clone(),
            options,
            substitutions,
            interrupted,
        };
        let outcome = target.outcome(&expected).map_err(cannot_tell)?;
        let format = flags.get(&FORMAT);
        // The replays have closed theirs.
        let devices = matches!(format, Format::Json).then(|| target.devices.open()).transpose()?;
        let subject = Subject { capture: Some(capture.bytes()), devices: devices.as_ref() };
        invocation.print(&FoundReport::new(&outcome), format, subject)?;
        match &outcome {
            Found::Compared(outcome) | Found::Watched(outcome) => add_notes(outcome),
            // The tolerances apply to results, which are not compared.
            Found::Memory(_) => {}
        }
        let (Found::Compared(outcome) | Found::Watched(outcome) | Found::Memory(outcome)) = outcome;
        match outcome.outcome() {
            Outcome::Same => {}
            Outcome::Different => invocation.set_status(DIFFERENT),
            Outcome::Inconclusive => invocation.set_status(INCONCLUSIVE),
        }
        let verified = Side::Verified(WorkgroupSchedule::All);
        Recording::of_capture(kernels.as_ref(), None, || target.replay(&target.devices, verified))
    })
}

/// The plan to verify, with devices and options.
struct Target<'f> {
    flags: &'f Flags,
    plan: Arc<Plan>,
    devices: DeviceOptions,
    options: VerifyOptions,
    /// With their sources compiled.
    substitutions: Vec<Substitution>,
    interrupted: Arc<AtomicBool>,
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
                match self.race_behind(&found, &self.devices, Side::Watched, || {
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
                self.race_behind(memory, &self.devices, Side::Watched, || self.watched(Side::Watched))?
        {
            return Ok(Found::Compared(race));
        }
        let outcome = self.verify_in_any_order(expected)?;
        if let Some(memory) = memory.filter(|_| outcome.outcome() != Outcome::Different) {
            return Ok(Found::Memory(memory));
        }
        let devices = match expected {
            Expected::Replay(other) => Some(other),
            Expected::Capture(..) => Some(&self.devices),
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
        devices: &DeviceOptions,
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
            let expected = self.replay(devices, side)?;
            let actual = self.replay(devices, side)?;
            let mut again = side_by_side(&expected, &actual, |sides| verify_lockstep(sides, &options))?;
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
        if self.flags.get(&DEVICE_TIMEOUT).is_some() {
            return Ok(());
        }
        let limit = match expected.is_replay() {
            true => {
                let captured = self.replay(&self.devices, Side::Captured)?;
                let begun = Instant::now();
                let mut steps = Steps::showing("timing", &captured).until(self.interrupted.clone());
                captured.run(&mut [&mut steps])?;
                BASE.saturating_add(begun.elapsed().saturating_mul(1000))
            }
            false => UNKNOWN,
        };
        rehal_crash::end_after(limit)
    }

    /// All memory errors of a side.
    fn watched(&self, side: Side) -> Result<Verification> {
        /// Errors of captured kernels are not reported, and must not leave out others.
        const MAX_FINDINGS: usize = 10_000;
        let mut options = self.options.clone();
        (options.keep_going, options.max_differences) = (true, MAX_FINDINGS);
        let expected = self.replay(&self.devices, side)?;
        let actual = self.replay(&self.devices, side)?;
        side_by_side(&expected, &actual, |sides| watch_memory(sides, &options))
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
        let Self { devices, options, .. } = self;
        let verified = Side::Verified(workgroups);
        match expected {
            Expected::Ledger(ledger) => {
                let actual = self.replay(devices, verified)?;
                let mut steps = Steps::showing("verifying", &actual);
                let mut statics = StaticMemoryWatch::default();
                let found = verify_against(&actual, ledger, options, &mut [&mut steps, &mut statics]);
                let mut found = found.map_err(|error| match error.code() {
                    // Its entries are read meanwhile.
                    StatusCode::DataLoss => error.advise(ledger_flags::MAKE_LEDGER),
                    _ => error,
                })?;
                found.static_writes = statics.into_writes();
                let captured = || self.replay(devices, Side::Captured);
                match self.substitutions[..] {
                    [] => Ok(found),
                    _ => with_elements(found, &actual, ledger, options, captured),
                }
            }
            Expected::Replay(other) => {
                let expected = self.replay(devices, Side::Captured)?;
                let actual = self.replay(other, verified)?;
                let found = side_by_side(&expected, &actual, |sides| verify_lockstep(sides, options));
                let has_other = !self.flags.list(&OTHER_DEVICE).is_empty();
                found.map_err(|error| if has_other { of_other_device(error, false) } else { error })
            }
            Expected::Capture(plan, other) => {
                let files = replay_flags::files(self.flags);
                let expected = Replay::new(plan.clone(), &other.open()?, &files)?;
                let actual = self.replay(devices, verified)?;
                let found = side_by_side(&expected, &actual, |sides| verify_captures(sides, options));
                found.map_err(|error| of_other_device(error, true))
            }
            Expected::Memory => {
                let expected = self.replay(devices, Side::Watched)?;
                let actual = self.replay(devices, Side::Watched)?;
                side_by_side(&expected, &actual, |sides| watch_memory(sides, options))
            }
        }
    }

    /// A replay on devices of its own.
    fn replay(&self, devices: &DeviceOptions, side: Side) -> Result<Replay> {
        let flags = self.flags;
        let substitutions = match side {
            Side::Captured | Side::WatchedCaptured => Vec::new(),
            Side::Verified(_) | Side::Watched => self.substitutions.clone(),
        };
        let has_substitution = !substitutions.is_empty();
        let options = replay_flags::files(flags)
            .substitutions(substitutions)
            .redzone_bytes(match side {
                Side::Watched | Side::WatchedCaptured => REDZONE_BYTES,
                Side::Captured | Side::Verified(_) => 0,
            })
            .workgroups(match side {
                Side::Verified(workgroups) => workgroups,
                Side::Captured | Side::Watched | Side::WatchedCaptured => WorkgroupSchedule::All,
            });
        let replay = Replay::new(self.plan.clone(), &devices.open()?, &options)?;
        if has_substitution {
            replay.check_executables()?;
        }
        Ok(replay)
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

fn other(flags: &Flags, devices: &DeviceOptions) -> Result<Other> {
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
    let other_devices = || -> Result<DeviceOptions> {
        let mut other = devices.clone();
        if !uris.is_empty() {
            other.devices = devices::find_all(flags, OTHER_DEVICE.name(), &uris)?;
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

/// Names the elements that differ by a replay with the captured executables, if the ledger has only digests
/// of them, and other executables were verified.
fn with_elements(
    found: Verification,
    actual: &Replay,
    ledger: &Ledger,
    options: &VerifyOptions,
    captured: impl FnOnce() -> Result<Replay>,
) -> Result<Verification> {
    if found.digested_bytes == 0 {
        return Ok(found);
    }
    // This machine may not run the captured executables.
    let Ok(expected) = captured() else { return Ok(found) };
    side_by_side(&expected, actual, |sides| verify_elements(found, sides, ledger, options))
}

/// Runs two replays, with crash reports for both.
pub(super) fn side_by_side(
    expected: &Replay,
    actual: &Replay,
    verify: impl FnOnce(VerifySides<'_, '_, '_>) -> Result<Verification>,
) -> Result<Verification> {
    let (mut steps, mut expected_steps) = (Steps::showing("verifying", actual), Steps::silent());
    let mut statics = StaticMemoryWatch::default();
    let mut found = verify(VerifySides {
        expected,
        actual,
        expected_observers: &mut [&mut expected_steps],
        observers: &mut [&mut steps, &mut statics],
    })?;
    found.static_writes = statics.into_writes();
    Ok(found)
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
    pub(super) fn showing(what: &'static str, replay: &Replay) -> Self {
        let total = replay.plan().step_count() as u64;
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
