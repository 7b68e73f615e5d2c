//! `rehal races`: reports data races between operations of a capture.

use rehal_base::Result;
use rehal_devices::written_bindings;
use rehal_replay::{AccessKind, Incomplete, Overlap, Race, RaceOperation, RaceOptions, Races};
use serde::Serialize;

use super::replay_flags;
use super::report_format::{self, Format};
use crate::flags::{Effect, Flag, Group, List};
use crate::report::{Report, Subject};
use crate::table::Layout;
use crate::{Invocation, Operands, Tool, captures};

/// See the [module](self).
pub const RACES: Tool = Tool {
    name: "rehal races",
    verb: "races",
    summary: "reports data races between the operations of a capture",
    about: "Plans the capture and prints each pair of queue operations that access the same bytes of a buffer or file, at \
            least one of which may write them, if nothing in the capture orders them: no semaphore, and no access of the host \
            to bytes of the first between them. Submission order alone orders nothing. Runs nothing. Exit \
            status 2 if there are any, 0 if there are none.\n\n\
            Captures do not contain the waits of the program's host, so a pair that it orders is reported, too. Unless \
            --strict is given, the host is assumed to have waited for everything when a scope begins or ends, and for an \
            operation if it accesses any buffer before it issues one that waits for no semaphore.",
    operands: Operands::One { what: "capture", form: "CAPTURE.ireereplay" },
    groups: &[&REPORT],
    examples: &[
        ("Find races", "{tool} model.ireereplay"),
        (
            "Print the records of each pair",
            "{tool} --format=json model.ireereplay | jq -c '.pairs[] | [.first.ordinal, .second.ordinal]'",
        ),
        ("Find what only a wait of the host can have ordered", "{tool} --strict model.ireereplay"),
    ],
    guide: include_str!("../guides/races.md"),
    answer: |_, _, _| None,
    run,
};

const FORMAT: Flag<Format> = report_format::flag("text: one paragraph per race. json: an object.");

const STRICT: Flag<bool> =
    Flag::switch("strict", false, "Assumes no waits of the host except before it accesses bytes itself.");

const REPORT: Group = Group { title: "Report", flags: &[&FORMAT, &STRICT, &DEVICE, &replay_flags::RECOVER] };

/// Accepted as by the verbs that replay the capture.
const DEVICE: List<String> = List::texts("device", "URI", "The device of a replay.")
    .effect(Effect::Ignored("races are those of the capture, and nothing runs"));

/// The exit status if there are races.
const FOUND: u8 = 2;

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let capture =
        captures::open(&invocation.operand(), &captures::options(flags.get(&replay_flags::RECOVER)))?;
    let plan = replay_flags::compile(&capture)?;
    let strict = flags.get(&STRICT);
    let find = |strict| plan.races_with(RaceOptions { strict }, written_bindings);
    let races = find(strict);
    let assumed = if strict { 0 } else { find(true).count.saturating_sub(races.count) };
    let report = FoundRaces {
        count: races.count,
        pairs: &races.pairs,
        strict,
        assumed_count: assumed,
        inexact_count: races.inexact_count,
        incomplete: races.incomplete.map(explain),
        unknown: unknowns(&races),
    };
    let subject = Subject { capture: Some(capture.bytes()), devices: None };
    invocation.print(&report, flags.get(&FORMAT), subject)?;
    if races.count != 0 {
        invocation.set_status(FOUND);
    }
    Ok(())
}

/// The races of a capture.
#[derive(Serialize)]
struct FoundRaces<'r> {
    /// The first are in `pairs`.
    count: u64,
    pairs: &'r [Race],
    strict: bool,
    /// How many more there are with `--strict`.
    assumed_count: u64,
    inexact_count: u64,
    /// Why there may be more.
    incomplete: Option<&'static str>,
    unknown: Vec<Unknown>,
}

impl Report for FoundRaces<'_> {
    const SCHEMA: &'static str = "rehal.races/1";
    const IS_ON_A_LINE: bool = false;

    fn text(&self, layout: Layout) -> String {
        let mut text = match self.count {
            0 => "no races\n".to_string(),
            1 => "1 race\n".to_string(),
            count => format!("{count} races\n"),
        };
        self.pairs.iter().for_each(|race| text.push_str(&pair(race)));
        if let Some(count @ 1..) = self.count.checked_sub(self.pairs.len() as u64) {
            text.push_str(&format!("... and {count} more\n"));
        }
        if let assumed @ 1.. = self.assumed_count {
            text.push_str(&format!(
                "{assumed} more if the host did not wait at scopes and before operations without waits \
                 (--strict)\n"
            ));
        }
        for unknown in &self.unknown {
            text.push_str(&format!("note: {}\n", unknown.explanation()));
        }
        if let inexact @ 1.. = self.inexact_count {
            text.push_str(&format!(
                "{inexact} possible conflicts were not checked: too many ranges of one buffer\n"
            ));
        }
        if let Some(reason) = self.incomplete {
            text.push_str(&format!("there may be more: {reason}\n"));
        }
        layout.wrap(&text)
    }
}

/// Facts that a capture does not tell, so that a reported pair may not be a race.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Unknown {
    HostWaits,
    KernelAccesses,
}

impl Unknown {
    fn explanation(self) -> &'static str {
        match self {
            Self::HostWaits => {
                "captures do not contain waits of the host: a pair is not a race if the program's host waited for the first \
                 before it issued the second"
            }
            Self::KernelAccesses => {
                "captures do not contain what kernels access: a kernel counts as reading and writing everything that it binds, \
                 except read-only memory and bindings that SPIR-V only reads"
            }
        }
    }
}

fn unknowns(races: &Races) -> Vec<Unknown> {
    let is_kernel = |it: &Overlap| it.first == AccessKind::Binds || it.second == AccessKind::Binds;
    let mut unknowns = Vec::new();
    if races.pairs.iter().any(|race| race.may_be_host_ordered) {
        unknowns.push(Unknown::HostWaits);
    }
    if races.pairs.iter().any(|race| race.overlaps.iter().any(is_kernel)) {
        unknowns.push(Unknown::KernelAccesses);
    }
    unknowns
}

fn pair(race: &Race) -> String {
    let Race { first, second, overlaps, .. } = race;
    let mut text = format!("{} and {}\n", named(first), named(second));
    for it in overlaps {
        let Overlap { object_id, offset, length, .. } = *it;
        let end = offset.saturating_add(length);
        let kind = kind(it);
        text.push_str(&format!(
            "  {kind} {object_id}, bytes {offset}..{end}: the first {} them, the second {} them\n",
            it.first.name(),
            it.second.name()
        ));
    }
    if !race.may_be_host_ordered {
        text.push_str("  no wait of the host can order them: one signal starts both\n");
    } else if let Some(access) = race.host_access {
        text.push_str(&format!(
            "  the host accesses a buffer between them (#{}): it may have waited\n",
            access.ordinal
        ));
    }
    text
}

fn named(operation: &RaceOperation) -> String {
    format!("#{} {}", operation.location.ordinal, operation.name)
}

fn kind(overlap: &Overlap) -> &'static str {
    if overlap.is_file { "file" } else { "buffer" }
}

fn explain(reason: Incomplete) -> &'static str {
    match reason {
        Incomplete::TooManyInFlight => "too many operations were in flight to compare all of them",
        Incomplete::TooMuchWork => "the search was stopped at its limit of comparisons",
    }
}
