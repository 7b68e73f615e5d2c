//! `rehal profile timeline`: writes a profile as a trace for Perfetto.

use rehal_base::Result;
use rehal_devices::ProfileFile;
use rehal_profile::timeline::TimelineSummary;

use super::profile;
use crate::flags::Group;
use crate::output_file::{OUTPUT, OutputFile};
use crate::{Invocation, Operands, Tool, output};

/// See the [module](self).
pub const PROFILE_TIMELINE: Tool = Tool {
    name: "rehal profile timeline",
    verb: "profile timeline",
    summary: "writes a device profile as a timeline for Perfetto",
    about: "Writes a Perfetto trace of a device profile (.ireeprof), to open in Perfetto's user interface or to query with \
            its trace processor. A device is a track with a track per queue; below that are submissions, operations, \
            commands and dispatches, with their ids, workgroup counts and bytes, and what each worker of local-task executed \
            if the profile has command-region-events. What overlaps is on several tracks. \
            A flow leads from a submission to its operations and its first dispatch. Counters show allocated memory \
            and device metrics.\n\n\
            All times are of the host's monotonic clock. Ticks of a device are mapped to it by all clock samples of the \
            device; events of a device without two samples start with the trace, a tick as a nanosecond, with a \
            warning. A profile of a killed program is written up to its last complete record, with a warning.",
    operands: Operands::One { what: "profile", form: "FILE.ireeprof -o TRACE.pftrace" },
    groups: &[&GROUP],
    examples: &[
        ("Write the timeline of a run", "{tool} run.ireeprof -o run.pftrace"),
        (
            "Record a profile and write its timeline",
            "iree-run-module --module=model.vmfb --device=local-task --input=1xf32=1 \\\n  \
             --device_profiling_mode=queue-events,host-execution,memory-events,command-region-events \\\n  \
             --device_profiling_output=run.ireeprof\n{tool} run.ireeprof -o run.pftrace",
        ),
        ("Compress it, which Perfetto reads too", "{tool} run.ireeprof -o - | gzip > run.pftrace.gz"),
    ],
    guide: include_str!("../guides/profile_timeline.md"),
    answer: |_, _, _| None,
    run,
};

const GROUP: Group = Group { title: "Output", flags: &[&OUTPUT] };

fn run(invocation: &Invocation) -> Result<()> {
    let path = invocation.operand();
    let output = OutputFile::from_flags(&invocation.flags, "TRACE.pftrace")?;
    let profile = ProfileFile::open(&path)?;
    profile::warn_of_end(&profile, &path);
    let mut summary = TimelineSummary::default();
    output.write(|sink| {
        summary = profile.write_timeline(sink)?;
        Ok(())
    })?;
    warnings(&summary).iter().for_each(|warning| output::note(&format!("warning: {warning}")));
    Ok(())
}

fn warnings(summary: &TimelineSummary) -> Vec<String> {
    let mut warnings = Vec::new();
    if summary.event_count == 0 {
        warnings.push(
            "the profile has no events: record one with --device_profiling_mode=queue-events,host-execution"
                .into(),
        );
    }
    if summary.untimed_count != 0 {
        warnings.push(format!("{} events without valid times are left out", summary.untimed_count));
    }
    if summary.crowded_count != 0 {
        warnings.push(format!(
            "{} events overlap too many others and are shown as instants with their duration_ns",
            summary.crowded_count
        ));
    }
    for device in &summary.uncorrelated_devices {
        warnings.push(format!(
            "the clock of device {device} cannot be correlated with the host's: its events start with the trace, a tick \
             as a nanosecond"
        ));
    }
    warnings
}
