//! `dispatch`: functions with the times of their dispatches.

use rehal_base::Result;

use super::dispatches::{Dispatches, Function};
use super::options::ReportOptions;
use super::out::{Fixed, Out, Row, columns, dimensions, row};
use crate::clock::ClockFit;

pub fn print(dispatches: &Dispatches<'_>, options: &ReportOptions, out: &mut Out<'_>) -> Result<()> {
    let model = &dispatches.model;
    print_summary(dispatches, options, out);
    for group in dispatches.device.functions.values() {
        let key = model.function_key(group.device, group.function.0, group.function.1)?;
        print_group(group, model.clock_fit(group.device), &key, out);
    }
    for group in dispatches.host.functions.values() {
        let key = model.function_key(group.device, group.function.0, group.function.1)?;
        print_host_group(group, &key, out);
    }
    Ok(())
}

/// Prints the counts of all dispatches: the end of every report that prints each dispatch.
pub fn print_summary(dispatches: &Dispatches<'_>, options: &ReportOptions, out: &mut Out<'_>) {
    let (device, host) = (dispatches.device.counts, dispatches.host.counts);
    row!(
        out,
        "dispatch_summary",
        "IREE HAL profile dispatch summary\nfilter: {filter}\ndispatches: total={total_dispatches} \
         matched={matched_dispatches} valid={valid_dispatches} invalid={invalid_dispatches} \
         groups={aggregate_groups}\nhost_dispatches: total={total_host_dispatches} matched={matched_host_dispatches} \
         valid={valid_host_dispatches} invalid={invalid_host_dispatches} groups={host_aggregate_groups}\ngroups:\n",
        mode: if options.dispatch_events { "events" } else { "aggregate" },
        filter: options.filter.as_str(),
        total_dispatches: device.total,
        matched_dispatches: device.matched,
        valid_dispatches: device.valid,
        invalid_dispatches: device.invalid,
        aggregate_groups: dispatches.device.functions.len(),
        total_host_dispatches: host.total,
        matched_host_dispatches: host.matched,
        valid_host_dispatches: host.valid,
        invalid_host_dispatches: host.invalid,
        host_aggregate_groups: dispatches.host.functions.len(),
    );
}

fn print_group(group: &Function<u64>, fit: Option<ClockFit>, key: &[u8], out: &mut Out<'_>) {
    let (mean, deviation) = (group.deviation.mean, group.deviation.standard());
    let ns = group.ns(fit);
    let (minimum, maximum, total) = ns.unwrap_or_default();
    let scale = fit.filter(|_| ns.is_some()).map_or(0.0, |fit| fit.ns_per_tick());
    row!(
        out,
        "dispatch_group",
        "  {key}\n    device={physical_device_ordinal} executable={executable_id} function={function_ordinal} \
         count={count} valid={valid} invalid={invalid}\n{valid?    ticks: min={min_ticks} avg={avg_ticks} \
         stddev={stddev_ticks} max={max_ticks} total={total_ticks}\n    time_ns: {time_ns_available?min={min_ns} \
         avg={avg_ns} stddev={stddev_ns} max={max_ns} total={total_ns}}{time_ns_available!unavailable}\n}    \
         last_geometry: workgroup_count={count_by_axis} workgroup_size={size_by_axis}\n",
        physical_device_ordinal: group.device,
        executable_id: group.function.0,
        function_ordinal: group.function.1,
        key: key,
        count: group.count,
        valid: group.valid(),
        invalid: group.invalid,
        min_ticks: group.minimum(),
        avg_ticks: Fixed(mean, 3),
        stddev_ticks: Fixed(deviation, 3),
        max_ticks: group.maximum,
        total_ticks: group.total,
        clock_fit_available: fit.is_some(),
        time_ns_available: ns.is_some(),
        min_ns: minimum,
        avg_ns: Fixed(mean * scale, 3),
        stddev_ns: Fixed(deviation * scale, 3),
        max_ns: maximum,
        total_ns: total,
        last_workgroup_count: group.workgroup_count,
        last_workgroup_size: group.workgroup_size,
        @count_by_axis: dimensions(group.workgroup_count),
        @size_by_axis: dimensions(group.workgroup_size),
    );
}

fn print_host_group(group: &Function<i64>, key: &[u8], out: &mut Out<'_>) {
    let mut row = out.row(
        "host_dispatch_group",
        "  {key}\n    timing=host_execution device={physical_device_ordinal} executable={executable_id} \
         function={function_ordinal} count={count} valid={valid} invalid={invalid}\n{valid?    time_ns: min={min_ns} \
         avg={avg_ns} stddev={stddev_ns} max={max_ns} total={total_ns} tile_count={total_tile_count} \
         tile_sum_ns={total_tile_duration_sum_ns}\n}    last_geometry: workgroup_count={count_by_axis} \
         workgroup_size={size_by_axis}\n",
    );
    host_columns(group, key, "count", &mut row);
    columns!(
        row,
        last_workgroup_count: group.workgroup_count,
        last_workgroup_size: group.workgroup_size,
        @count_by_axis: dimensions(group.workgroup_count),
        @size_by_axis: dimensions(group.workgroup_size),
    );
    row.end();
}

/// Appends the columns of times of the host, with this name of the number of dispatches.
pub fn host_columns(group: &Function<i64>, key: &[u8], count: &'static str, row: &mut Row<'_, '_>) {
    columns!(
        row,
        timing_source: "host_execution_event",
        time_domain: "iree_host_time_ns",
        duration_time_domain: "iree_host_duration_ns",
        physical_device_ordinal: group.device,
        executable_id: group.function.0,
        function_ordinal: group.function.1,
        key: key,
    );
    row.column(count, &group.count);
    columns!(
        row,
        valid: group.valid(),
        invalid: group.invalid,
        min_ns: group.minimum(),
        avg_ns: Fixed(group.deviation.mean, 3),
        stddev_ns: Fixed(group.deviation.standard(), 3),
        max_ns: group.maximum,
        total_ns: group.total,
        total_tile_count: group.tiles,
        total_tile_duration_sum_ns: group.tiles_ns,
    );
}
