//! The times of dispatches by function, for comparing profiles.
//!
//! The profile of a process is one sample of a comparison, since a process has one placement in memory.

use std::collections::HashMap;

use rehal_base::Result;
use serde::Serialize;

use crate::event::{EventRow, Times, nanoseconds, ticks};
use crate::layout::{NONE, RELATIONSHIP_PROCESSOR};
use crate::model::{Model, key_of};
use crate::table::Table;
use crate::{Bundle, Record, rows};

/// Who timed a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TimedBy {
    /// The host: from the first workgroup that it executed to the last.
    Host,
    /// The device.
    Device,
}

impl TimedBy {
    /// `host` or `device`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Device => "device",
        }
    }
}

/// The dispatches of a function. Functions of one name are one, whatever their executable: two runs give the
/// same executable different ids.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionTimes {
    /// Its name, or where it is if it has none.
    pub name: String,
    /// Who timed its dispatches.
    pub timed_by: TimedBy,
    /// Nanoseconds of each dispatch, in file order.
    pub times_ns: Vec<f64>,
    /// Sum of the nanoseconds that threads of the host spent in them: CPU time if the bundle has it, else
    /// wall time. If the device timed them, zero.
    pub thread_time_ns: f64,
}

/// The dispatches of a bundle.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DispatchTimes {
    /// Functions in the order of their first dispatch.
    pub functions: Vec<FunctionTimes>,
    /// Dispatches without valid times, or of a device whose clock cannot be correlated with the host's.
    pub untimed_count: u64,
    /// Of these, the latter: the device has fewer than two clock samples, or its samples contradict each
    /// other.
    pub uncorrelated_count: u64,
}

/// The times of all dispatches of a bundle.
///
/// Fails if a record or row that it reads is malformed.
pub fn of(bundle: &Bundle<'_>) -> Result<DispatchTimes> {
    let mut model = Model::default();
    let mut cpu_ns = HashMap::new();
    for record in bundle.records() {
        let record = record?;
        model.add(&record)?;
        for row in record.rows::<rows::EventRelationship<'_>>() {
            let row = row?.header;
            if row.relationship_type.get() == RELATIONSHIP_PROCESSOR {
                let event = (row.physical_device_ordinal.get(), row.source_id.get());
                cpu_ns.insert(event, row.target_id.get());
            }
        }
    }
    let mut collector = Collector {
        model: &model,
        cpu_ns,
        functions: Table::default(),
        untimed_count: 0,
        uncorrelated_count: 0,
    };
    for record in bundle.records() {
        collector.add(&record?)?;
    }
    let Collector { untimed_count, uncorrelated_count, .. } = collector;
    Ok(DispatchTimes { functions: collector.functions.into_values(), untimed_count, uncorrelated_count })
}

struct Collector<'m, 'a> {
    model: &'m Model<'a>,
    /// CPU time of host execution events, by device and id.
    cpu_ns: HashMap<(u32, u64), u64>,
    functions: Table<(TimedBy, String), FunctionTimes>,
    untimed_count: u64,
    uncorrelated_count: u64,
}

impl Collector<'_, '_> {
    fn add(&mut self, record: &Record<'_>) -> Result<()> {
        record.for_each_event(|event| {
            match (event.row, event.times) {
                (EventRow::Dispatch(..), Times::Device(start, end)) => {
                    let clock = self.model.clocks.get(&event.queue.0);
                    let fit = clock.and_then(|clock| clock.samples.fit_any());
                    self.uncorrelated_count += u64::from(fit.is_none());
                    let ns = ticks(start, end).and_then(|ticks| fit?.duration_ns(ticks));
                    self.add_dispatch(TimedBy::Device, (event.executable, event.function), ns, 0);
                }
                (_, Times::Host(start, end)) if event.is_host_dispatch() => {
                    let Some(function) = event.function() else { return Ok(()) };
                    let cpu_ns = self.cpu_ns.get(&(event.queue.0, event.id));
                    let cpu_ns = cpu_ns.and_then(|ns| i64::try_from(*ns).ok());
                    let thread_time_ns = cpu_ns.unwrap_or(event.tile_duration_ns);
                    self.add_dispatch(TimedBy::Host, function, nanoseconds(start, end), thread_time_ns);
                }
                _ => {}
            }
            Ok(())
        })
    }

    fn add_dispatch(
        &mut self,
        timed_by: TimedBy,
        function: (u64, u32),
        ns: Option<i64>,
        thread_time_ns: i64,
    ) {
        let Some(ns) = ns else {
            self.untimed_count += 1;
            return;
        };
        let name = match self.model.functions.get(&function) {
            Some(row) => String::from_utf8_lossy(&key_of(row, NONE)).into_owned(),
            // A truncated bundle may lack the description.
            None => format!("executable{}#{}", function.0, function.1),
        };
        let make =
            || FunctionTimes { name: name.clone(), timed_by, times_ns: Vec::new(), thread_time_ns: 0.0 };
        let function = self.functions.entry((timed_by, name.clone()), make);
        function.times_ns.push(ns as f64);
        function.thread_time_ns += thread_time_ns as f64;
    }
}
