//! `dispatch`: functions with the times of their dispatches.

use rehal_base::Result;
use zerocopy::little_endian::U32;

use super::ReportOptions;
use super::dispatches::{Counts, Dispatches, Function};
use super::out::{Fixed, Object, Out, fields, object, text};

pub fn print(dispatches: &Dispatches<'_>, options: &ReportOptions, out: &mut Out<'_>) -> Result<()> {
    let model = &dispatches.model;
    if options.is_text() {
        text!(out, "IREE HAL profile dispatch summary\nfilter: {}\n", options.filter);
        print_counts("dispatches", dispatches.device_counts, dispatches.functions.len(), out);
        print_counts("host_dispatches", dispatches.host_counts, dispatches.host_functions.len(), out);
        text!(out, "groups:\n");
    } else {
        print_summary(dispatches, options, out);
    }
    for group in dispatches.functions.values() {
        let key = model.function_key(group.device, group.function.0, group.function.1)?;
        let fit = model.clock_fit(group.device);
        if options.is_text() { print_text(group, fit, &key, out) } else { print_jsonl(group, fit, &key, out) }
    }
    for group in dispatches.host_functions.values() {
        let key = model.function_key(group.device, group.function.0, group.function.1)?;
        if options.is_text() { print_host_text(group, &key, out) } else { print_host_jsonl(group, &key, out) }
    }
    Ok(())
}

/// Prints the counts of all dispatches: the end of every report that prints each dispatch.
pub fn print_summary(dispatches: &Dispatches<'_>, options: &ReportOptions, out: &mut Out<'_>) {
    let (device, host) = (dispatches.device_counts, dispatches.host_counts);
    object!(
        out,
        "dispatch_summary",
        mode: if options.dispatch_events { "events" } else { "aggregate" },
        filter: options.filter.as_str(),
        total_dispatches: device.total,
        matched_dispatches: device.matched,
        valid_dispatches: device.valid,
        invalid_dispatches: device.invalid,
        aggregate_groups: dispatches.functions.len(),
        total_host_dispatches: host.total,
        matched_host_dispatches: host.matched,
        valid_host_dispatches: host.valid,
        invalid_host_dispatches: host.invalid,
        host_aggregate_groups: dispatches.host_functions.len(),
    );
}

fn print_counts(name: &str, counts: Counts, groups: usize, out: &mut Out<'_>) {
    let Counts { total, matched, valid, invalid } = counts;
    text!(out, "{name}: total={total} matched={matched} valid={valid} invalid={invalid} groups={groups}\n");
}

fn print_text(group: &Function<u64>, fit: Option<crate::clock::ClockFit>, key: &[u8], out: &mut Out<'_>) {
    text!(out, "  ");
    out.name(key);
    let (device, (executable, function)) = (group.device, group.function);
    let (count, valid, invalid) = (group.count, group.valid(), group.invalid);
    text!(out, "\n    device={device} executable={executable} function={function} ");
    text!(out, "count={count} valid={valid} invalid={invalid}\n");
    if valid != 0 {
        let (mean, deviation) = (group.deviation.mean, group.deviation.standard());
        text!(out, "    ticks: min={} avg={} ", group.minimum(), Fixed(mean, 3));
        text!(out, "stddev={} max={} total={}\n", Fixed(deviation, 3), group.maximum, group.total);
        match group.ns(fit).zip(fit) {
            Some(((minimum, maximum, total), fit)) => {
                let scale = fit.ns_per_tick();
                text!(out, "    time_ns: min={minimum} avg={} ", Fixed(mean * scale, 3));
                text!(out, "stddev={} max={maximum} total={total}\n", Fixed(deviation * scale, 3));
            }
            None => text!(out, "    time_ns: unavailable\n"),
        }
    }
    print_geometry(group.workgroup_count, group.workgroup_size, out);
}

fn print_host_text(group: &Function<i64>, key: &[u8], out: &mut Out<'_>) {
    text!(out, "  ");
    out.name(key);
    let (device, (executable, function)) = (group.device, group.function);
    let (count, valid, invalid) = (group.count, group.valid(), group.invalid);
    text!(out, "\n    timing=host_execution device={device} executable={executable} function={function} ");
    text!(out, "count={count} valid={valid} invalid={invalid}\n");
    if valid != 0 {
        let (mean, deviation) = (group.deviation.mean, group.deviation.standard());
        text!(out, "    time_ns: min={} avg={} ", group.minimum(), Fixed(mean, 3));
        text!(out, "stddev={} max={} total={} ", Fixed(deviation, 3), group.maximum, group.total);
        text!(out, "tile_count={} tile_sum_ns={}\n", group.tiles, group.tiles_ns);
    }
    print_geometry(group.workgroup_count, group.workgroup_size, out);
}

fn print_geometry(count: [U32; 3], size: [U32; 3], out: &mut Out<'_>) {
    text!(out, "    last_geometry: workgroup_count={}x{}x{} ", count[0], count[1], count[2]);
    text!(out, "workgroup_size={}x{}x{}\n", size[0], size[1], size[2]);
}

fn print_jsonl(group: &Function<u64>, fit: Option<crate::clock::ClockFit>, key: &[u8], out: &mut Out<'_>) {
    let (mean, deviation) = (group.deviation.mean, group.deviation.standard());
    let ns = group.ns(fit);
    let (minimum, maximum, total) = ns.unwrap_or_default();
    let scale = fit.filter(|_| ns.is_some()).map_or(0.0, |fit| fit.ns_per_tick());
    object!(
        out,
        "dispatch_group",
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
    );
}

fn print_host_jsonl(group: &Function<i64>, key: &[u8], out: &mut Out<'_>) {
    let mut object = out.object("host_dispatch_group");
    put_host_times(group, key, "count", &mut object);
    fields!(object, last_workgroup_count: group.workgroup_count, last_workgroup_size: group.workgroup_size);
    object.end();
}

/// Appends the times of the host, with this name of the number of dispatches.
pub fn put_host_times(group: &Function<i64>, key: &[u8], count: &str, object: &mut Object<'_, '_>) {
    fields!(
        object,
        timing_source: "host_execution_event",
        time_domain: "iree_host_time_ns",
        duration_time_domain: "iree_host_duration_ns",
        physical_device_ordinal: group.device,
        executable_id: group.function.0,
        function_ordinal: group.function.1,
        key: key,
    );
    object.field(count, &group.count);
    fields!(
        object,
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
