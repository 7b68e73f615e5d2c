//! `executable`: executables, their functions, and the times of these.

use rehal_base::Result;

use super::ReportOptions;
use super::dispatch::put_host_times;
use super::dispatches::{Dispatches, Function};
use super::out::{Fixed, Out, hash, object, text};
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
        print_executable(executable.header, options, out);
        for index in &executable.functions {
            let function = &dispatches.model.functions.values()[*index];
            let key = key_of(function, NONE);
            if options.selects(&key) {
                print_function(function, &key, options, out);
                groups.print(*index, &key, options, out);
            }
        }
        out.check()?;
    }
    Ok(())
}

fn print_summary(dispatches: &Dispatches<'_>, options: &ReportOptions, out: &mut Out<'_>) {
    let (device, host) = (dispatches.device_counts, dispatches.host_counts);
    let (executables, functions) = (dispatches.model.executables.len(), dispatches.model.functions.len());
    if options.is_text() {
        text!(out, "IREE HAL profile executable summary\nfilter: {}\n", options.filter);
        text!(out, "executables={executables} functions={functions} matched_dispatches={} ", device.matched);
        text!(out, "valid={} invalid={} ", device.valid, device.invalid);
        text!(out, "matched_host_dispatches={} host_valid={} ", host.matched, host.valid);
        text!(out, "host_invalid={}\n", host.invalid);
        return;
    }
    object!(
        out,
        "executable_summary",
        filter: options.filter.as_str(),
        executables: executables,
        functions: functions,
        matched_dispatches: device.matched,
        valid_dispatches: device.valid,
        invalid_dispatches: device.invalid,
        matched_host_dispatches: host.matched,
        valid_host_dispatches: host.valid,
        invalid_host_dispatches: host.invalid,
    );
}

fn print_executable(executable: &layout::Executable, options: &ReportOptions, out: &mut Out<'_>) {
    let digits = (executable.flags.get() & HAS_IDENTITY != 0).then(|| hash(executable.code_object_hash));
    if options.is_text() {
        let (id, functions, flags) = (executable.executable_id, executable.function_count, executable.flags);
        let digits = digits.as_deref().unwrap_or("unavailable");
        text!(out, "executable {id}: functions={functions} flags={flags} code_object_hash={digits}\n");
        return;
    }
    object!(
        out,
        "executable",
        executable { executable_id, flags, function_count },
        code_object_hash_present: digits.is_some(),
        code_object_hash: digits.as_deref(),
    );
}

fn print_function(function: &rows::Function<'_>, key: &[u8], options: &ReportOptions, out: &mut Out<'_>) {
    let digits = (function.flags.get() & HAS_IDENTITY != 0).then(|| hash(function.function_hash));
    if options.is_text() {
        text!(out, "  function {}: ", function.function_ordinal);
        out.name(key);
        text!(out, " flags={} constants={} ", function.flags, function.constant_count);
        text!(out, "bindings={} parameters={} ", function.binding_count, function.parameter_count);
        let size = function.workgroup_size;
        text!(out, "workgroup_size={}x{}x{} ", size[0], size[1], size[2]);
        text!(out, "function_hash={}\n", digits.as_deref().unwrap_or("unavailable"));
        return;
    }
    object!(
        out,
        "executable_function",
        function { executable_id, function_ordinal, flags },
        key: key,
        function { constant_count, binding_count, parameter_count, workgroup_size },
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
        for group in dispatches.functions.values() {
            if let Some(index) = functions.position(&group.function) {
                device[index].push(group);
            }
        }
        let mut host = vec![Vec::new(); functions.len()];
        for group in dispatches.host_functions.values() {
            if let Some(index) = functions.position(&group.function) {
                host[index].push(group);
            }
        }
        Self { dispatches, device, host }
    }

    fn print(&self, index: usize, key: &[u8], options: &ReportOptions, out: &mut Out<'_>) {
        let (device, host) = (&self.device[index], &self.host[index]);
        for group in device {
            let fit = self.dispatches.model.clock_fit(group.device);
            if options.is_text() { print_text(group, fit, out) } else { print_jsonl(group, fit, key, out) }
        }
        for group in host {
            if options.is_text() { print_host_text(group, out) } else { print_host_jsonl(group, key, out) }
        }
        if options.is_text() && device.is_empty() && host.is_empty() {
            text!(out, "    dispatches=0\n");
        }
    }
}

fn print_text(group: &Function<u64>, fit: Option<ClockFit>, out: &mut Out<'_>) {
    text!(out, "    device={} dispatches={} valid={} ", group.device, group.count, group.valid());
    text!(out, "invalid={} ticks[min/avg/max/total]={}/", group.invalid, group.minimum());
    text!(out, "{}/{}/{}", Fixed(group.average(), 3), group.maximum, group.total);
    if let Some(((minimum, maximum, total), fit)) = group.ns(fit).zip(fit) {
        let average = Fixed(group.average() * fit.ns_per_tick(), 3);
        text!(out, " ns[min/avg/max/total]={minimum}/{average}/{maximum}/{total}");
    }
    text!(out, "\n");
}

fn print_host_text(group: &Function<i64>, out: &mut Out<'_>) {
    text!(out, "    timing=host_execution device={} dispatches={} ", group.device, group.count);
    text!(out, "valid={} invalid={} ns[min/avg/max/total]=", group.valid(), group.invalid);
    let mean = Fixed(group.deviation.mean, 3);
    text!(out, "{}/{mean}/{}/{} ", group.minimum(), group.maximum, group.total);
    text!(out, "tile_count={} tile_sum_ns={}\n", group.tiles, group.tiles_ns);
}

fn print_jsonl(group: &Function<u64>, fit: Option<ClockFit>, key: &[u8], out: &mut Out<'_>) {
    let ns = group.ns(fit);
    let (minimum, maximum, total) = ns.unwrap_or_default();
    let scale = fit.filter(|_| ns.is_some()).map_or(0.0, |fit| fit.ns_per_tick());
    object!(
        out,
        "executable_function_dispatch_group",
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

fn print_host_jsonl(group: &Function<i64>, key: &[u8], out: &mut Out<'_>) {
    let mut object = out.object("executable_function_host_dispatch_group");
    put_host_times(group, key, "dispatches", &mut object);
    object.end();
}
