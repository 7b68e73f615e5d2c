//! `statistics` as text.

use rehal_base::Result;

use super::add;
use super::out::{Out, text};
use super::statistics::{Domain, Kind, Statistics, Totals};

pub fn print(statistics: &Statistics<'_>, out: &mut Out<'_>) -> Result<()> {
    let sums = [
        ("dispatch_function_total", Kind::DispatchFunction),
        ("host_execution_function_total", Kind::HostExecutionFunction),
        ("host_execution_queue_total", Kind::HostExecutionQueueOperation),
        ("device_queue_total", Kind::QueueDeviceOperation),
        ("host_queue_ready_total", Kind::QueueHostOperation),
    ];
    let mut totals = [0; 5];
    let mut unscaled = 0_u64;
    for row in statistics.rows.values() {
        let ns = statistics.ns(row, row.total_duration);
        unscaled += u64::from(row.has_times() && ns.is_none());
        for (total, (_, kind)) in totals.iter_mut().zip(sums) {
            if kind == row.key.kind {
                add(total, ns.unwrap_or(0))?;
            }
        }
    }
    text!(out, "\nIREE HAL device statistics:\n");
    let (rows, dropped) = (statistics.rows.len(), statistics.dropped_rows);
    if rows == 0 && dropped == 0 {
        text!(out, "  no profiling records captured\n");
        return Ok(());
    }
    text!(out, "  aggregate_rows={rows}\n");
    if dropped != 0 {
        text!(out, "  dropped_records={dropped}\n");
    }
    if rows == 0 {
        return Ok(());
    }
    for ((name, _), total) in sums.iter().zip(totals) {
        text!(out, "  {name}={}\n", Duration(total));
    }
    if unscaled != 0 {
        text!(out, "  unscaled_timing_rows={unscaled}\n");
    }
    statistics.rows.values().iter().for_each(|row| print_row(statistics, row, out));
    Ok(())
}

/// Nanoseconds in a unit that suits them.
struct Duration(u64);

impl std::fmt::Display for Duration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(ns) = self;
        match ns {
            1_000_000.. => write!(f, "{}.{:03} ms", ns / 1_000_000, ns % 1_000_000 / 1_000),
            1_000.. => write!(f, "{}.{:03} us", ns / 1_000, ns % 1_000),
            _ => write!(f, "{ns} ns"),
        }
    }
}

fn print_row(statistics: &Statistics<'_>, row: &Totals, out: &mut Out<'_>) {
    let key = &row.key;
    let (device, queue, event) = (key.device, key.queue, key.event_name().unwrap_or_default());
    match key.kind {
        Kind::DispatchFunction | Kind::HostExecutionFunction => {
            let is_host = key.kind == Kind::HostExecutionFunction;
            text!(out, "  {} ", if is_host { "host_execute" } else { "dispatch" });
            match statistics.function_name(key) {
                Some(name) => out.name(name),
                None => text!(out, "executable={} function={}", key.executable, key.function),
            }
            print_times(statistics, row, out);
            if is_host {
                print_tiles(row, out);
            }
        }
        Kind::HostExecutionQueueOperation | Kind::QueueDeviceOperation | Kind::QueueHostOperation => {
            let name = match key.kind {
                Kind::HostExecutionQueueOperation => "host_execute_queue",
                Kind::QueueDeviceOperation => "device_queue",
                _ => "host_queue",
            };
            text!(out, "  {name} p={device} q={queue} {event}");
            print_times(statistics, row, out);
            if row.operation_count != 0 {
                text!(out, " operations={}", row.operation_count);
            }
            print_tiles(row, out);
            if row.payload_bytes != 0 {
                text!(out, " payload={}B", row.payload_bytes);
            }
        }
        Kind::MemoryLifecycle => {
            text!(out, "  memory p={device} q={queue} {event} ");
            text!(out, "count={} bytes={}", row.sample_count, row.payload_bytes);
        }
        _ => return,
    }
    text!(out, "\n");
}

fn print_times(statistics: &Statistics<'_>, row: &Totals, out: &mut Out<'_>) {
    text!(out, "  count={} total=", row.sample_count);
    print_duration(statistics, row, row.total_duration, out);
    text!(out, " avg=");
    print_duration(statistics, row, row.total_duration / row.sample_count.max(1), out);
    if row.invalid_sample_count != 0 {
        text!(out, " invalid={}", row.invalid_sample_count);
    }
}

fn print_duration(statistics: &Statistics<'_>, row: &Totals, duration: u64, out: &mut Out<'_>) {
    match statistics.ns(row, duration) {
        Some(ns) => text!(out, "{}", Duration(ns)),
        None if row.has_times() && row.key.kind.domain() == Domain::DeviceTick => {
            text!(out, "{duration} ticks")
        }
        None => text!(out, "-"),
    }
}

fn print_tiles(row: &Totals, out: &mut Out<'_>) {
    if row.tile_count != 0 {
        text!(out, " tiles={} tile_sum={}", row.tile_count, Duration(row.tile_duration_sum_ns));
    }
}
