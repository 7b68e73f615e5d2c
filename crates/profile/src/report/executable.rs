//! `executable`: executables, their functions, and the times of these.

use rehal_base::Result;

use super::dispatch::host_columns;
use super::dispatches::{Dispatches, Function};
use super::options::ReportOptions;
use super::out::{Fixed, Out, Row, columns, dimensions, hash, row};
use crate::clock::ClockFit;
use crate::layout::{self, HAS_IDENTITY, NONE};
use crate::model::key_of;
use crate::rows;

pub fn print(dispatches: &Dispatches<'_>, options: &ReportOptions, out: &mut Out<'_>) -> Result<()> {
    print_summary(dispatches, options, out);
    let groups = Groups::from_dispatches(dispatches);
    for executable in dispatches.model.executables.values() {
        if !options.selects_id(&[executable.header.executable_id.get()]) {
            continue;
        }
        let mut row = out.row(
            "executable",
            "executable {executable_id}: functions={function_count} flags={flags} \
             code_object_hash={code_object_hash}{code_object_hash_present!unavailable}\n",
        );
        executable_columns(executable.header, &mut row);
        row.end();
        for index in &executable.functions {
            let function = &dispatches.model.functions.values()[*index];
            let key = key_of(function, NONE);
            if options.selects(&key) {
                let mut row = out.row(
                    "executable_function",
                    "  function {function_ordinal}: {key} flags={flags} constants={constant_count} \
                     bindings={binding_count} parameters={parameter_count} workgroup_size={size_by_axis} \
                     function_hash={function_hash}{function_hash_present!unavailable}\n",
                );
                function_columns(function, ("key", &key), &mut row);
                row.end();
                groups.print(*index, &key, out);
            }
        }
        out.check()?;
    }
    Ok(())
}

fn print_summary(dispatches: &Dispatches<'_>, options: &ReportOptions, out: &mut Out<'_>) {
    let (device, host) = (dispatches.device.counts, dispatches.host.counts);
    row!(
        out,
        "executable_summary",
        "IREE HAL profile executable summary\nfilter: {filter}\nexecutables={executables} functions={functions} \
         matched_dispatches={matched_dispatches} valid={valid_dispatches} invalid={invalid_dispatches} \
         matched_host_dispatches={matched_host_dispatches} host_valid={valid_host_dispatches} \
         host_invalid={invalid_host_dispatches}\n",
        filter: options.filter.as_str(),
        executables: dispatches.model.executables.len(),
        functions: dispatches.model.functions.len(),
        matched_dispatches: device.matched,
        valid_dispatches: device.valid,
        invalid_dispatches: device.invalid,
        matched_host_dispatches: host.matched,
        valid_host_dispatches: host.valid,
        invalid_host_dispatches: host.invalid,
    );
}

/// Appends the columns of an executable.
pub fn executable_columns(executable: &layout::Executable, row: &mut Row<'_, '_>) {
    let digits = (executable.flags.get() & HAS_IDENTITY != 0).then(|| hash(executable.code_object_hash));
    columns!(
        row,
        executable { executable_id, flags, function_count },
        code_object_hash_present: digits.is_some(),
        code_object_hash: digits.as_deref(),
    );
}

/// Appends the columns of a function, with the name and the value of the one that says how it is called.
pub fn function_columns(function: &rows::Function<'_>, name: (&'static str, &[u8]), row: &mut Row<'_, '_>) {
    let digits = (function.flags.get() & HAS_IDENTITY != 0).then(|| hash(function.function_hash));
    columns!(row, function { executable_id, function_ordinal, flags });
    row.column(name.0, &name.1);
    columns!(
        row,
        function { constant_count, binding_count, parameter_count, workgroup_size },
        @size_by_axis: dimensions(function.workgroup_size),
        function_hash_present: digits.is_some(),
        function_hash: digits.as_deref(),
    );
}

/// The dispatches of each function, on each device.
struct Groups<'d, 'a> {
    dispatches: &'d Dispatches<'a>,
    device: Vec<Vec<&'d Function<u64>>>,
    host: Vec<Vec<&'d Function<i64>>>,
}

impl<'d, 'a> Groups<'d, 'a> {
    fn from_dispatches(dispatches: &'d Dispatches<'a>) -> Self {
        let functions = &dispatches.model.functions;
        let mut device = vec![Vec::new(); functions.len()];
        for group in dispatches.device.functions.values() {
            if let Some(index) = functions.position(&group.function) {
                device[index].push(group);
            }
        }
        let mut host = vec![Vec::new(); functions.len()];
        for group in dispatches.host.functions.values() {
            if let Some(index) = functions.position(&group.function) {
                host[index].push(group);
            }
        }
        Self { dispatches, device, host }
    }

    fn print(&self, index: usize, key: &[u8], out: &mut Out<'_>) {
        let (device, host) = (&self.device[index], &self.host[index]);
        for group in device {
            print_group(group, self.dispatches.model.clock_fit(group.device), key, out);
        }
        for group in host {
            let mut row = out.row(
                "executable_function_host_dispatch_group",
                "    timing=host_execution device={physical_device_ordinal} dispatches={dispatches} valid={valid} \
                 invalid={invalid} ns[min/avg/max/total]={min_ns}/{avg_ns}/{max_ns}/{total_ns} \
                 tile_count={total_tile_count} tile_sum_ns={total_tile_duration_sum_ns}\n",
            );
            host_columns(group, key, "dispatches", &mut row);
            row.end();
        }
        if device.is_empty() && host.is_empty() {
            out.heading("    dispatches=0\n");
        }
    }
}

fn print_group(group: &Function<u64>, fit: Option<ClockFit>, key: &[u8], out: &mut Out<'_>) {
    let ns = group.ns(fit);
    let (minimum, maximum, total) = ns.unwrap_or_default();
    let scale = fit.filter(|_| ns.is_some()).map_or(0.0, |fit| fit.ns_per_tick());
    row!(
        out,
        "executable_function_dispatch_group",
        "    device={physical_device_ordinal} dispatches={dispatches} valid={valid} invalid={invalid} \
         ticks[min/avg/max/total]={min_ticks}/{avg_ticks}/{max_ticks}/{total_ticks}{time_ns_available? \
         ns[min/avg/max/total]={min_ns}/{avg_ns}/{max_ns}/{total_ns}}\n",
        physical_device_ordinal: group.device,
        executable_id: group.function.0,
        function_ordinal: group.function.1,
        key: key,
        dispatches: group.count,
        valid: group.valid(),
        invalid: group.invalid,
        min_ticks: group.minimum(),
        avg_ticks: Fixed(group.average(), 3),
        max_ticks: group.maximum,
        total_ticks: group.total,
        clock_fit_available: fit.is_some(),
        time_ns_available: ns.is_some(),
        min_ns: minimum,
        avg_ns: Fixed(group.average() * scale, 3),
        max_ns: maximum,
        total_ns: total,
    );
}
