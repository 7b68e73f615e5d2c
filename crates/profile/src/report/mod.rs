//! The reports that `iree-profile` prints of a bundle, byte for byte.
//!
//! A report reads the records once or twice and keeps totals per group, and references to the rows that it
//! prints in another order than the file's: memory is proportional to the bundle.
//!
//! `Table`s keep totals in the order of insertion. `dispatches`, `memory` and `summary` have the totals that
//! several reports share. `clock.rs` maps ticks of a device to the time of the host by one line, as the
//! reference's reports do; timelines follow the drift between clock samples (`timeline/clocks.rs`).

mod cat;
mod command;
mod counter;
mod dispatch;
mod dispatches;
mod executable;
mod explain;
mod export;
pub(crate) mod memory;
mod numbers;
mod options;
mod out;
mod queue;
mod statistics;
mod summary;

use std::io::Write;

use rehal_base::Result;

use crate::Bundle;
use crate::model::Model;
use dispatches::Dispatches;
pub use options::{Format, Report, ReportOptions};
use out::Out;

/// Prints a report of `bundle` to `sink`.
///
/// Fails if the report does not support an option, if a record or row that it reads is malformed or refers to
/// something that the bundle does not describe, or if the sink fails. What was printed before the error
/// remains printed.
pub fn print(bundle: &Bundle<'_>, options: &ReportOptions, sink: &mut dyn Write) -> Result<()> {
    options.check()?;
    let mut out = Out::new(sink, options.is_text());
    let printed = match options.report {
        Report::Cat => cat::print(bundle, &mut out),
        Report::Summary => summary::print(bundle, &mut out),
        Report::Statistics => statistics::print(bundle, &mut out),
        Report::Explain => explain::print(bundle, options, &mut out),
        Report::Executable | Report::Dispatch | Report::Command | Report::Queue => {
            print_dispatches(bundle, options, &mut out)
        }
        Report::Counter => counter::print(bundle, options, &mut out),
        Report::Memory => memory::print(bundle, options, &mut out),
        Report::Export => export::print(bundle, &mut out),
    };
    let finished = out.finish();
    printed.and(finished)
}

/// Prints the report `executable`, `dispatch`, `command` or `queue`.
fn print_dispatches(bundle: &Bundle<'_>, options: &ReportOptions, out: &mut Out<'_>) -> Result<()> {
    let mut dispatches = Dispatches::new(Model::from_bundle(bundle)?, options);
    for record in bundle.records() {
        dispatches.add(&record?, options, Some(&mut *out))?;
        out.check()?;
    }
    match options.report {
        _ if options.dispatch_events => dispatch::print_summary(&dispatches, options, out),
        Report::Executable => executable::print(&dispatches, options, out)?,
        Report::Command => command::print(&dispatches, options, out)?,
        Report::Queue => queue::print(&dispatches, options, out)?,
        _ => dispatch::print(&dispatches, options, out)?,
    }
    Ok(())
}
