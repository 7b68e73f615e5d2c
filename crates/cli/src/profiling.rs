//! The flags that profile devices, with the names, defaults and checks of the pinned release.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rehal_base::{Error, Result};
use rehal_devices::{NamedPath, ProfiledRecords, Profiling, ProfilingOptions};
use rehal_hal::{DeviceGroup, profile::ProfileData};
use rehal_judge::State;

use crate::flags::{Effect, Flag, Flags, Group, List, Refusal, recorded, text};
use crate::output;

const CAPTURE_TOOL: Effect = Effect::Missing {
    what: "capturing with an external tool",
    instead: "run this program under that tool, or record device work with --device_replay_output=PATH",
};

const MODE: Flag<ProfileData> = Flag::parsed(
    "device_profiling_mode",
    "FAMILY,FAMILY",
    "",
    "families of data, separated by commas",
    parse_mode,
    "Profiles the devices, and writes these families of data to --device_profiling_output: queue-events (submissions), \
     host-execution (when queue operations and dispatches ran, and for how long), memory-events (allocations), \
     executable-metadata (functions and commands), command-region-events (what ran between barriers), processor-time (CPU time of \
     dispatches). CPU devices report no \
     device-queue-events, dispatch-events, device-metrics, counters, counter-ranges or executable-traces.",
);

const OUTPUT: Flag<Option<PathBuf>> =
    Flag::path("device_profiling_output", "The profile (.ireeprof) to write, which rehal profile reads.")
        .files(recorded)
        .endings(&["ireeprof"]);

const FILTER_FUNCTION: Flag<String> = Flag::parsed(
    "device_profiling_filter_function",
    "PATTERN",
    "",
    "UTF-8 text",
    text,
    "Reports in detail only dispatches of functions with a name of this pattern, with * and ?. Details are \
     host-execution, dispatch-events and command-region-events, and counters and traces; the other families are complete.",
);

const FILTER_COMMAND_BUFFER: Flag<i64> = Flag::integer(
    "device_profiling_filter_command_buffer",
    -1,
    "Reports in detail only the command buffer with this id, as rehal profile command prints it.",
);

const FILTER_COMMAND_INDEX: Flag<i64> = Flag::integer(
    "device_profiling_filter_command_index",
    -1,
    "Reports in detail only commands with this index in their command buffer.",
);

const FILTER_DEVICE: Flag<i64> = Flag::integer(
    "device_profiling_filter_physical_device",
    -1,
    "Reports in detail only the device with this index.",
);

const FILTER_QUEUE: Flag<i64> =
    Flag::integer("device_profiling_filter_queue", -1, "Reports in detail only the queue with this index.");

const COUNTER: List<String> = List::texts(
    "device_profiling_counter",
    "NAME",
    "A hardware counter to sample, for the families counters and counter-ranges.",
);

const FLUSH_INTERVAL: Flag<i64> = Flag::integer(
    "device_profiling_flush_interval_ms",
    0,
    "How often to ask devices for what they have buffered, in milliseconds; 0 for only at the end. What they have reported \
     is written within 100 ms in any case, with a sample of their clocks.",
);

const PRINT_STATISTICS: Flag<bool> = Flag::switch(
    "print_device_statistics",
    false,
    "Prints totals per operation and function on standard error at the end, instead of writing a profile. Without \
     --device_profiling_mode, of queue-events and host-execution; of devices without host-execution, such as Vulkan's, of \
     queue-events, memory-events and dispatch-events.",
);

/// Profiles and statistics.
pub const PROFILING: Group = Group {
    title: "Profiling",
    flags: &[
        &MODE,
        &OUTPUT,
        &FILTER_FUNCTION,
        &FILTER_COMMAND_BUFFER,
        &FILTER_COMMAND_INDEX,
        &FILTER_DEVICE,
        &FILTER_QUEUE,
        &COUNTER,
        &FLUSH_INTERVAL,
        &PRINT_STATISTICS,
        &Flag::parsed(
            "device_capture_tool",
            "NAME",
            "",
            "UTF-8 text",
            text,
            "External tool that captures the device's work.",
        )
        .effect(CAPTURE_TOOL),
        &Flag::path("device_capture_file", "Output file of --device_capture_tool.").effect(CAPTURE_TOOL),
        &Flag::parsed(
            "device_capture_label",
            "TEXT",
            "",
            "UTF-8 text",
            text,
            "Label of the external tool's capture.",
        )
        .effect(CAPTURE_TOOL),
    ],
};

/// The data to profile, and whether only statistics are printed.
#[derive(Clone)]
pub(crate) struct Options {
    pub profiling: ProfilingOptions,
}

/// A session, if flags request one.
#[derive(Default)]
pub(crate) struct Session(Option<(Profiling, bool)>);

impl Options {
    /// The options set by the flags of [`PROFILING`]; `None` if nothing is profiled.
    pub(crate) fn from_flags(flags: &Flags) -> Result<Option<Self>> {
        let (data, output, prints) = (flags.get(&MODE), flags.get(&OUTPUT), flags.get(&PRINT_STATISTICS));
        check(flags, data, output.as_deref(), prints)?;
        let mut profiling = match output {
            Some(path) => {
                let name = format!("--{}={}", OUTPUT.name(), path.display());
                ProfilingOptions::new(NamedPath::from(path).named(name), data)
            }
            None if prints => ProfilingOptions::statistics((!data.is_empty()).then_some(data)),
            None => return Ok(None),
        };
        let function = flags.get(&FILTER_FUNCTION);
        profiling.filter.function = (!function.is_empty()).then_some(function);
        profiling.filter.command_buffer = u64::try_from(flags.get(&FILTER_COMMAND_BUFFER)).ok();
        profiling.filter.command_index = ordinal(flags, &FILTER_COMMAND_INDEX)?;
        profiling.filter.queue = ordinal(flags, &FILTER_QUEUE)?;
        profiling.device_filter = ordinal(flags, &FILTER_DEVICE)?;
        profiling.counters = flags.list(&COUNTER);
        let interval = u64::try_from(flags.get(&FLUSH_INTERVAL)).unwrap_or(0);
        profiling.flush_interval = (interval != 0).then(|| Duration::from_millis(interval));
        Ok(Some(Self { profiling }))
    }

    /// The same, for a program that measures: it calls [`Session::flush_if_due`].
    pub(crate) fn measured(mut self) -> Self {
        self.profiling.is_measured = true;
        self
    }
}

impl Session {
    /// Begins profiling the devices, if there are any and `options` request it.
    pub(crate) fn begin(options: Option<&Options>, devices: Option<&DeviceGroup>) -> Result<Self> {
        let (Some(options), Some(devices)) = (options, devices) else { return Ok(Self(None)) };
        let profiling = Profiling::begin(devices, &options.profiling)?;
        Ok(Self(Some((profiling, options.profiling.output.is_none()))))
    }

    /// The observer for replays on the devices.
    pub(crate) fn records(&self) -> ProfiledRecords {
        self.0.as_ref().map(|(profiling, _)| profiling.records()).unwrap_or_default()
    }

    /// Writes what has been reported, if it is time to, and excludes that from the measurement.
    #[inline]
    pub(crate) fn flush_if_due(&self, state: &mut State<'_>) -> Result<()> {
        match &self.0 {
            Some((profiling, _)) if profiling.is_due() => flush_unmeasured(profiling, state),
            _ => Ok(()),
        }
    }

    /// Writes what has been reported, while nothing is measured.
    pub(crate) fn flush(&self) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |(profiling, _)| profiling.flush())
    }

    /// Ends the session, and prints statistics if that was requested. Returns `outcome`, or the error of
    /// ending.
    pub(crate) fn end(self, outcome: Result<()>) -> Result<()> {
        let ended = match self.0 {
            None => Ok(()),
            Some((profiling, false)) => profiling.end(),
            Some((profiling, true)) => {
                let mut statistics = Vec::new();
                let printed = profiling.end_with_statistics(&mut statistics);
                print_statistics(&statistics);
                printed
            }
        };
        outcome.and(ended)
    }
}

#[cold]
fn flush_unmeasured(profiling: &Profiling, state: &mut State<'_>) -> Result<()> {
    state.pause_timing();
    let flushed = profiling.flush();
    state.resume_timing();
    flushed
}

/// Prints statistics on standard error.
pub(crate) fn print_statistics(statistics: &[u8]) {
    if !statistics.is_empty() {
        output::note(String::from_utf8_lossy(statistics).trim_end_matches('\n'));
    }
}

/// The checks of the reference, in its order.
fn check(flags: &Flags, data: ProfileData, output: Option<&Path>, prints: bool) -> Result<()> {
    let refuse = |message: String, advice: &str| Err(Error::invalid_argument(message).advise(advice));
    let needs_mode = |flag: &str| {
        let message = format!("--{flag} requires --{} or --{}", MODE.name(), PRINT_STATISTICS.name());
        refuse(message, "name what to profile: --device_profiling_mode=queue-events,host-execution")
    };
    if prints && output.is_some() {
        let message = format!("--{} cannot be combined with --{}", PRINT_STATISTICS.name(), OUTPUT.name());
        return refuse(message, "rehal profile statistics prints the same of a profile");
    }
    if flags.get(&FLUSH_INTERVAL) < 0 {
        return refuse(
            format!("--{} must not be negative", FLUSH_INTERVAL.name()),
            "0 flushes only at the end",
        );
    }
    let sampled = ProfileData::COUNTERS | ProfileData::COUNTER_RANGES;
    if !flags.list(&COUNTER).is_empty() && !data.intersects(sampled) {
        let message = format!("--{} requires the family counters or counter-ranges", COUNTER.name());
        return refuse(message, "add it to --device_profiling_mode");
    }
    if flags.list(&COUNTER).is_empty() && data.intersects(sampled) {
        let message = format!("the families counters and counter-ranges require --{}", COUNTER.name());
        return refuse(message, "name the counters to sample");
    }
    if data.is_empty() && output.is_some() {
        return refuse(
            format!("--{} requires --{}", OUTPUT.name(), MODE.name()),
            "name what to profile: --device_profiling_mode=queue-events,host-execution",
        );
    }
    if data.is_empty() && !prints {
        let filters = [&FILTER_COMMAND_BUFFER, &FILTER_COMMAND_INDEX, &FILTER_DEVICE, &FILTER_QUEUE];
        if let Some(filter) = filters.iter().find(|filter| flags.get(filter) >= 0) {
            return needs_mode(filter.name());
        }
        if !flags.get(&FILTER_FUNCTION).is_empty() {
            return needs_mode(FILTER_FUNCTION.name());
        }
        if flags.get(&FLUSH_INTERVAL) != 0 {
            return needs_mode(FLUSH_INTERVAL.name());
        }
    }
    if !data.is_empty() && output.is_none() && !prints {
        return refuse(
            format!("--{} requires --{}", MODE.name(), OUTPUT.name()),
            "name the profile to write: --device_profiling_output=FILE.ireeprof",
        );
    }
    if flags.get(&FILTER_COMMAND_BUFFER) == 0 {
        let message = format!("--{} must not be 0", FILTER_COMMAND_BUFFER.name());
        return refuse(message, "rehal profile command prints the ids of a profile");
    }
    Ok(())
}

/// An index given by a flag; `None` if it is negative.
fn ordinal(flags: &Flags, flag: &Flag<i64>) -> Result<Option<u32>> {
    let value = flags.get(flag);
    if value < 0 {
        return Ok(None);
    }
    u32::try_from(value).map(Some).map_err(|_| {
        Error::invalid_argument(format!("--{} exceeds {}", flag.name(), u32::MAX))
            .advise("indices start at 0")
    })
}

/// Families separated by commas; as in the reference, a comma may follow the last.
fn parse_mode(value: &OsStr) -> Result<ProfileData, Refusal> {
    let mut data = ProfileData::empty();
    let text = value.to_str().ok_or(Refusal::Unexpected)?.trim();
    if text.is_empty() {
        return Ok(data);
    }
    for name in text.strip_suffix(',').unwrap_or(text).split(',').map(str::trim) {
        // The reference's other name.
        let name = if name == "pmc-ranges" { "counter-ranges" } else { name };
        let known = ProfileData::NAMES;
        data |= known
            .iter()
            .find(|(known, _)| *known == name)
            .ok_or_else(|| {
                let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
                let meant = rehal_base::nearest(name, names.iter().copied());
                let meant = meant.map(|meant| format!("did you mean '{meant}'? ")).unwrap_or_default();
                let error = Error::invalid_argument(format!("unknown family of data '{name}'"));
                Refusal::from(error.advise(format!("{meant}the families are {}", names.join(", "))))
            })?
            .1;
    }
    Ok(data)
}
