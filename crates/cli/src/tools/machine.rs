//! `rehal machine`: measures what devices can do at most.

use std::path::PathBuf;

use rehal_base::{Error, Result, plural};
use rehal_hal::Device;
use rehal_kernels::MachineRoof;
use rehal_roof::{Peak, Rate};
use serde::Serialize;

use super::report_format::{self, Format};
use crate::flags::{DEVICES, DRIVERS, Flag, Group, LOCAL, OTHER_DRIVERS};
use crate::output::escaped;
use crate::report::{Report, Subject};
use crate::table::{Column, Layout, Table};
use crate::{Invocation, Operands, Tool, devices, output};

/// See the [module](self).
pub const MACHINE: Tool = Tool {
    name: "rehal machine",
    verb: "machine",
    summary: "measures what devices can do at most",
    about: "Prints how many operations a device performs in a second, by element type and instructions, and how many bytes it \
            reads and copies, by the cache level that has them: of a CPU with one thread and with all. A device is measured \
            once, in about 3 s, and what was measured is kept in REHAL_CACHE_DIR, or in rehal of the user's directory of \
            caches. It is measured again for another processor, host, number of threads, or version of rehal.\n\n\
            With it, rehal kernels and rehal compare say how near to the roof each kernel comes: the least time in which its \
            bytes and operations can be done.",
    operands: Operands::None { usage: "[--device=URI]" },
    groups: &[&REPORT, &DEVICES, &LOCAL, &DRIVERS[0], &DRIVERS[1], &DRIVERS[2], &OTHER_DRIVERS],
    examples: &[
        ("Measure the CPU", "{tool}"),
        ("Measure a GPU", "{tool} --device=vulkan"),
        (
            "The most bytes that one thread reads of memory in a second",
            "{tool} --format=json |\n\
             jq '.devices[0].bandwidths[] | select(.name == \"memory\" and .read.threads == 1) | .read.per_second'",
        ),
    ],
    guide: include_str!("../guides/machine.md"),
    answer: devices::answer,
    run,
};

const FORMAT: Flag<Format> = report_format::flag("text: tables for people. json: an object.");

const FORCE: Flag<bool> = Flag::switch("force", false, "Measures again what has been measured.");

const REPORT: Group = Group { title: "Report", flags: &[&FORMAT, &FORCE] };

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let devices = devices::options(flags)?.open()?;
    let mut roofs: Vec<Measured> = Vec::new();
    for device in devices.devices() {
        if device.info().is_emulated {
            let message = "an emulated device has no roof: its times are those of this machine's CPU";
            return Err(Error::invalid_argument(message).advise("name a device of hardware"));
        }
        roofs.push(Measured::of(device, flags.get(&FORCE))?);
    }
    let report = Machines { devices: &roofs };
    invocation.print(&report, flags.get(&FORMAT), Subject { capture: None, devices: Some(&devices) })
}

/// A device that is measured now, or was before.
#[derive(Serialize)]
struct Measured {
    #[serde(flatten)]
    roof: MachineRoof,
    /// Whether it was measured before.
    is_kept: bool,
    /// Where it is kept.
    file: Option<PathBuf>,
}

impl Measured {
    fn of(device: &Device, again: bool) -> Result<Self> {
        if let Some((roof, file)) = MachineRoof::kept(device).filter(|_| !again) {
            return Ok(Self { roof, is_kept: true, file: Some(file) });
        }
        let roof = MachineRoof::measure(device)?;
        let kept = roof.keep();
        if let Err(error) = &kept {
            output::note(&format!("warning: it is not kept: {error}"));
        }
        Ok(Self { roof, is_kept: false, file: kept.ok() })
    }
}

#[derive(Serialize)]
struct Machines<'a> {
    devices: &'a [Measured],
}

impl Report for Machines<'_> {
    const SCHEMA: &'static str = "rehal.machine/1";
    const IS_ON_A_LINE: bool = false;

    fn text(&self, layout: Layout) -> String {
        let texts: Vec<_> = self.devices.iter().map(|it| text(it, layout)).collect();
        texts.join("\n")
    }
}

fn text(measured: &Measured, layout: Layout) -> String {
    let roof = &measured.roof;
    let (machine, conditions) = (&roof.machine, &roof.conditions);
    let load = conditions.load_average.map_or_else(String::new, |[load, ..]| format!(", load {load:.1}"));
    let scaling = if conditions.scales_frequency == Some(true) { ", clocks scale with load" } else { "" };
    let mut text = layout.wrap(&format!(
        "{} ({}), {}, {}; measured {}{load}{scaling}\n",
        escaped(&machine.device),
        escaped(&machine.driver),
        plural(machine.processors, "processor"),
        plural(machine.threads as u64, "thread"),
        escaped(&conditions.date),
    ));
    // Of GPUs, the whole is measured.
    let has_all = roof.bandwidths.iter().any(|it| it.read.threads > 1);
    text.push_str("\nOperations per second: a multiplication and an addition are two\n");
    text.push_str(&peaks(roof, has_all).text(layout));
    text.push_str("\nBytes per second; a copied byte is read and written, and counts twice\n");
    text.push_str(&bandwidths(roof, has_all).text(layout));
    let rates = roof.bandwidths.iter().flat_map(|it| [it.read, it.copy]);
    if roof.peaks.iter().map(|it| it.rate).chain(rates).any(|it| !it.is_concurrent) {
        text.push_str(&layout.wrap(
            "* the sum of threads that did not run at the same time, since other processes ran: what they share may \
             deliver less\n",
        ));
    }
    if machine.driver == "cpu" {
        let clock = match (conditions.clock_hz, &conditions.no_clock_because) {
            (Some(hz), _) => format!("{:.2} GHz while it computes, by the processor's counters", hz / 1e9),
            (None, why) => {
                format!(
                    "counters of the processor are not available: {}",
                    escaped(why.as_deref().unwrap_or("unknown"))
                )
            }
        };
        text.push_str(&layout.wrap(&format!("{clock}\n")));
    }
    for warning in &conditions.warnings {
        text.push_str(&layout.wrap(&format!("while it was measured: {}\n", escaped(warning))));
    }
    text
}

fn peaks(roof: &MachineRoof, has_all: bool) -> Table {
    let columns = [
        Column::left("type"),
        Column::left("instructions"),
        Column::right(if has_all { "1 thread" } else { "rate" }),
        Column::right("all threads"),
    ];
    let count = if has_all { 4 } else { 3 };
    let mut table = Table::new("", &columns[..count]);
    for one in roof.peaks.iter().filter(|it| it.rate.threads == 1) {
        let is_all = |it: &&Peak| {
            (&it.element, &it.instructions) == (&one.element, &one.instructions) && it.rate.threads > 1
        };
        let all = roof.peaks.iter().find(is_all).map_or_else(|| "-".into(), |it| shown(it.rate));
        let row = [one.element.clone(), one.instructions.clone(), shown(one.rate), all];
        table.row(&row[..count]);
    }
    table
}

fn bandwidths(roof: &MachineRoof, has_all: bool) -> Table {
    let columns = [
        Column::left("from"),
        Column::right("fits"),
        Column::right(if has_all { "read, 1 thread" } else { "read" }),
        Column::right(if has_all { "copy, 1 thread" } else { "copy" }),
        Column::right("read, all"),
        Column::right("copy, all"),
    ];
    let count = if has_all { 6 } else { 4 };
    let mut table = Table::new("", &columns[..count]);
    for one in roof.bandwidths.iter().filter(|it| it.read.threads == 1) {
        let all = roof.bandwidths.iter().find(|it| it.name == one.name && it.read.threads > 1);
        let [read, copy] = match all {
            Some(all) => [shown(all.read), shown(all.copy)],
            None => ["-".into(), "-".into()],
        };
        let fits = one.capacity_bytes.map_or_else(|| "-".into(), |it| format!("{} KiB", it >> 10));
        table.row(&[one.name.clone(), fits, shown(one.read), shown(one.copy), read, copy][..count]);
    }
    table
}

fn shown(rate: Rate) -> String {
    format!("{:.1} G{}", rate.per_second / 1e9, if rate.is_concurrent { "" } else { "*" })
}
