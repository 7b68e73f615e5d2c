//! The kernels as a table, as JSON and as CSV.

use std::fmt::Write;

use rehal_base::Align;
use rehal_session::{Kernel, KernelBinding, KernelTimes, Kernels};
use serde_json::{Value, json};

use crate::output::{escaped, plural};
use crate::table::table;

/// The kernels for people.
pub(super) fn text(kernels: &Kernels) -> String {
    let mut text = format!(
        "{} of {}",
        plural(kernels.kernels.len() as u64, "kernel"),
        plural(kernels.dispatch_count, "dispatch")
    );
    if let (Some(total), Some(times)) = (kernels.total_ns, kernels.times) {
        let _ = write!(text, " in {}, {}", time(total as f64), described(times));
    }
    text.push('\n');
    if kernels.kernels.is_empty() {
        return text;
    }
    let mut header = vec![
        "count",
        "workgroups",
        "size",
        "bindings",
        "read",
        "written",
        "constants",
        "record",
        "executable",
        "function",
    ];
    if kernels.times.is_some() {
        header.splice(0..0, ["share", "time", "each"]);
        header.insert(RATE_COLUMN, "bytes/s");
    }
    let mut rows = vec![header.into_iter().map(String::from).collect::<Vec<_>>()];
    rows.extend(kernels.kernels.iter().map(|kernel| row(kernels, kernel)));
    text.push('\n');
    let mut aligns = vec![Align::Right; rows[0].len()];
    aligns[rows[0].len() - 1] = Align::Left;
    text.push_str(&table("", &aligns, &rows));
    text.push_str(
        "\nbindings: bytes of each, r unchanged, w changed, ? unknown, =N overlaps binding N; \
         read: unless it also reads what it changes; written: at least; bytes/s: if all that is bound is accessed once\n",
    );
    text
}

/// The column of the rate, with those of times.
const RATE_COLUMN: usize = 9;
/// Constants that the table shows.
const MAX_CONSTANTS: usize = 8;

fn described(times: KernelTimes) -> &'static str {
    match times {
        KernelTimes::Device => "as the device reports it",
        KernelTimes::Host => "with the time of submission",
    }
}

fn row(kernels: &Kernels, kernel: &Kernel) -> Vec<String> {
    let [x, y, z] = kernel.workgroup_size;
    let size = if [x, y, z] == [0; 3] { "-".into() } else { format!("{x}x{y}x{z}") };
    let count = kernel.workgroup_count.map_or_else(|| "indirect".into(), |[x, y, z]| format!("{x}x{y}x{z}"));
    let bindings: Vec<_> = kernel.bindings.iter().map(binding).collect();
    let bindings = if bindings.is_empty() { "-".into() } else { bindings.join(" ") };
    let mut row = vec![
        kernel.count.to_string(),
        count,
        size,
        bindings,
        kernel.bytes_read().map_or_else(|| "-".into(), |bytes| bytes.to_string()),
        kernel.bytes_written().map_or_else(|| "-".into(), |bytes| bytes.to_string()),
        constants(&kernel.constants),
        format!("#{}", kernel.location.ordinal),
        kernel.executable_id.to_string(),
        escaped(&kernel.name),
    ];
    if let Some(time_ns) = kernel.time_ns {
        let share =
            share(kernels, kernel).map_or_else(|| "-".into(), |share| format!("{:.1} %", share * 100.0));
        row.splice(0..0, [share, time(time_ns as f64), time(time_ns as f64 / kernel.count as f64)]);
        let rate = match kernel.max_bytes_per_second() {
            Ok(bytes_per_second) => format!("<= {}", rate(bytes_per_second)),
            Err(reason) => reason.into(),
        };
        row.insert(RATE_COLUMN, rate);
    }
    row
}

/// A rate with the prefix that leaves digits of it.
fn rate(bytes_per_second: f64) -> String {
    // As many as are rounded to 0.01 of the next prefix.
    match bytes_per_second {
        it if it >= 5e6 => format!("{:.2} G", it / 1e9),
        it if it >= 5e3 => format!("{:.2} M", it / 1e6),
        it => format!("{:.2} k", it / 1e3),
    }
}

/// The first constants, and how many more there are.
fn constants(values: &[u32]) -> String {
    let mut shown: Vec<String> = values.iter().take(MAX_CONSTANTS).map(u32::to_string).collect();
    match values.len() {
        0 => shown.push("-".into()),
        count if count > MAX_CONSTANTS => shown.push(format!("+{}", count - MAX_CONSTANTS)),
        _ => {}
    }
    shown.join(" ")
}

fn direction(it: &KernelBinding) -> &'static str {
    match it.is_written {
        Some(false) => "r",
        Some(true) => "w",
        None => "?",
    }
}

fn binding(it: &KernelBinding) -> String {
    let direction = direction(it);
    let alias = it.alias_of.map_or_else(String::new, |other| format!("={other}"));
    format!("{direction}{}{alias}", it.length)
}

/// The kernels as an object.
pub(super) fn json(kernels: &Kernels) -> Value {
    json!({
        "dispatch_count": kernels.dispatch_count,
        "total_ns": kernels.total_ns,
        "timed_by": timed_by(kernels),
        "kernels": kernels.kernels.iter().map(|kernel| object(kernels, kernel)).collect::<Value>(),
    })
}

/// How times are measured.
pub(super) fn timed_by(kernels: &Kernels) -> Value {
    json!(kernels.times.map(name))
}

/// A kernel as an object.
pub(super) fn object(kernels: &Kernels, kernel: &Kernel) -> Value {
    let binding = |it: &KernelBinding| {
        json!({
            "length": it.length,
            "alias_of": it.alias_of,
            "is_written": it.is_written,
            "changed_offset": it.changed.map(|it| it.offset),
            "changed_length": it.changed.map(|it| it.length),
        })
    };
    let rate = kernel.max_bytes_per_second();
    json!({
        "function": kernel.name,
        "function_ordinal": kernel.function,
        "executable": kernel.executable_id,
        "workgroup_count": kernel.workgroup_count,
        "workgroup_size": kernel.workgroup_size,
        "local_memory": kernel.dynamic_local_memory,
        "constants": kernel.constants,
        "bindings": kernel.bindings.iter().map(binding).collect::<Value>(),
        "count": kernel.count,
        "record": kernel.location.ordinal,
        "occurrence": kernel.occurrence,
        "time_ns": kernel.time_ns,
        "share": share(kernels, kernel),
        "bytes_read": kernel.bytes_read(),
        "bytes_written": kernel.bytes_written(),
        "max_bytes_per_second": rate.ok(),
        "no_rate_because": rate.err(),
    })
}

/// A line per kernel.
pub(super) fn csv(kernels: &Kernels) -> String {
    let mut text =
        "function,function_ordinal,executable,workgroup_count,workgroup_size,local_memory,constants,\
                    binding_lengths,binding_directions,aliases,count,record,occurrence,time_ns,share,bytes_read,bytes_written,\
                    max_bytes_per_second\n"
            .to_string();
    for kernel in &kernels.kernels {
        let dimensions = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
        let list = |items: Vec<String>| items.join(" ");
        let aliases =
            kernel.bindings.iter().zip(0..).filter_map(|(it, at)| Some(format!("{at}={}", it.alias_of?)));
        let fields = [
            quoted(&kernel.name),
            kernel.function.to_string(),
            kernel.executable_id.to_string(),
            kernel.workgroup_count.map_or_else(String::new, dimensions),
            dimensions(kernel.workgroup_size),
            kernel.dynamic_local_memory.to_string(),
            list(kernel.constants.iter().map(u32::to_string).collect()),
            list(kernel.bindings.iter().map(|it| it.length.to_string()).collect()),
            list(kernel.bindings.iter().map(|it| direction(it).to_string()).collect()),
            list(aliases.collect()),
            kernel.count.to_string(),
            kernel.location.ordinal.to_string(),
            kernel.occurrence.to_string(),
            optional(kernel.time_ns),
            optional(share(kernels, kernel)),
            optional(kernel.bytes_read()),
            optional(kernel.bytes_written()),
            optional(kernel.max_bytes_per_second().ok()),
        ];
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    text
}

fn name(times: KernelTimes) -> &'static str {
    match times {
        KernelTimes::Device => "device",
        KernelTimes::Host => "host",
    }
}

fn share(kernels: &Kernels, kernel: &Kernel) -> Option<f64> {
    let (time, total) = (kernel.time_ns?, kernels.total_ns?);
    (total != 0).then(|| time as f64 / total as f64)
}

fn optional<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn quoted(text: &str) -> String {
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}

fn time(ns: f64) -> String {
    match ns {
        ..1e3 => format!("{ns:.0} ns"),
        ..1e6 => format!("{:.2} us", ns / 1e3),
        ..1e9 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn rates_have_digits() {
        let shown = [2.5e9, 1e7, 4e6, 7040.0, 1200.0].map(rate);
        assert_eq!(shown, ["2.50 G", "0.01 G", "4.00 M", "0.01 M", "1.20 k"]);
    }
}
