//! The kernels as a table, as JSON and as CSV.

use std::fmt::Write;
use std::path::Path;

use rehal_base::plural;
use rehal_judge::{Clock, Interval, time};
use rehal_kernels::{Kernel, KernelBinding, KernelProcessor, Kernels, Roofs};
use serde::Serialize;

use super::commands::{Command, Commands};
use super::roof::{self, RoofFields, Sort, optional};
use crate::output::escaped;
use crate::report::{Report, csv_field};
use crate::table::{Column, Layout, Table};

/// The kernels of a capture.
#[derive(Serialize)]
pub(super) struct List<'a> {
    pub dispatch_count: u64,
    pub total_ns: Option<u64>,
    /// How many replays were timed.
    pub samples: Option<u64>,
    pub is_order_stable: Option<bool>,
    /// Conditions that may have distorted the times.
    pub warnings: &'a [String],
    /// How times are measured.
    pub timed_by: Option<Clock>,
    /// The key that the kernels are sorted by.
    sorted_by: Sort,
    pub kernels: Vec<Row<'a>>,
    /// When the roof of the device was measured.
    #[serde(skip)]
    roof_date: Option<&'a str>,
    /// The directory of the commands.
    #[serde(skip)]
    pub directory: Option<&'a Path>,
}

/// A kernel. What is not known is null.
#[derive(Serialize)]
pub(super) struct Row<'a> {
    #[serde(flatten)]
    pub kernel: &'a Kernel,
    share: Option<f64>,
    bytes_read: Option<u64>,
    bytes_written: Option<u64>,
    bytes_accessed: Option<u64>,
    max_bytes_per_second: Option<f64>,
    no_rate_because: Option<&'static str>,
    #[serde(flatten)]
    pub roof: RoofFields,
    /// How it is measured by itself, if it is exported.
    command: Option<&'a str>,
    command_limits: Option<&'a [String]>,
}

impl<'a> List<'a> {
    pub(super) fn new(
        kernels: &'a Kernels,
        roofs: &'a Roofs,
        sort: Sort,
        commands: &'a Commands,
        directory: Option<&'a Path>,
    ) -> Self {
        let rows = kernels.kernels.iter().enumerate();
        let row = |(index, kernel)| Row::new(kernels, kernel, roofs, commands.get(&index));
        let mut rows: Vec<_> = rows.map(row).collect();
        let sorted_by = sort_rows(&mut rows, roofs, sort);
        Self {
            dispatch_count: kernels.dispatch_count,
            total_ns: kernels.total_ns,
            samples: samples(kernels),
            is_order_stable: kernels.is_order_stable,
            warnings: &kernels.warnings,
            timed_by: kernels.times,
            sorted_by,
            kernels: rows,
            roof_date: roofs.date(),
            directory,
        }
    }
}

impl<'a> Row<'a> {
    pub(super) fn new(
        kernels: &Kernels,
        kernel: &'a Kernel,
        roofs: &Roofs,
        command: Option<&'a Command>,
    ) -> Self {
        let rate = kernel.max_bytes_per_second();
        Self {
            kernel,
            share: share(kernels, kernel),
            bytes_read: kernel.bytes_read(),
            bytes_written: kernel.bytes_written(),
            bytes_accessed: kernel.bytes_accessed(),
            max_bytes_per_second: rate.ok(),
            no_rate_because: rate.err(),
            roof: RoofFields::new(kernel, roofs),
            command: command.and_then(|command| command.line.as_deref()),
            command_limits: command.map(|command| &command.limits[..]),
        }
    }
}

/// How many replays the times are of.
pub(super) fn samples(kernels: &Kernels) -> Option<u64> {
    kernels.times.map(|_| kernels.sample_count)
}

/// The columns of the table, those of times first.
const TIMES: [Column; 4] = [
    Column::right("share"),
    Column::right("time"),
    Column::right("95 % interval").optional(2),
    Column::right("each").optional(4),
];
const COLUMNS: [Column; 10] = [
    Column::right("count"),
    Column::right("workgroups"),
    Column::right("size").optional(6),
    Column::right("bindings").shortened().optional(5),
    Column::right("read").optional(3),
    Column::right("written").optional(3),
    Column::right("constants").shortened().optional(8),
    Column::right("record"),
    Column::right("executable").optional(7),
    Column::names("function"),
];
/// The column of the rate, with those of times.
const RATE_COLUMN: usize = 10;
const RATE: Column = Column::right("bytes/s").optional(1);

impl Report for List<'_> {
    const SCHEMA: &'static str = "rehal.kernels/1";
    const IS_ON_A_LINE: bool = false;

    fn text(&self, layout: Layout) -> String {
        let mut text = format!(
            "{} of {}",
            plural(self.kernels.len() as u64, "kernel"),
            plural(self.dispatch_count, "dispatch")
        );
        if let (Some(total), Some(times)) = (self.total_ns, self.timed_by) {
            let replays = match self.samples {
                Some(count @ 2..) => format!("lower quartiles of {count} replays"),
                _ => "of one replay".into(),
            };
            let _ = write!(text, " in {}, {}, {replays}", time(total as f64), described(times));
            text.push_str(&roof::header(self.sorted_by, self.roof_date));
        }
        text.push('\n');
        let mut text = layout.wrap(&text);
        if self.kernels.is_empty() {
            return text;
        }
        let mut columns = COLUMNS.to_vec();
        if self.timed_by.is_some() {
            columns.splice(0..0, TIMES);
            columns.insert(RATE_COLUMN, RATE);
        }
        if self.roof_date.is_some() {
            columns.splice(TIMES.len()..TIMES.len(), roof::COLUMNS);
        }
        let mut table = Table::new("", columns);
        for kernel in &self.kernels {
            let mut row = row(kernel);
            if self.roof_date.is_some() {
                row.splice(TIMES.len()..TIMES.len(), kernel.roof.cells());
            }
            table.row(row);
        }
        text.push('\n');
        text.push_str(&table.text(layout));
        text.push_str(&layout.wrap(
            "\nbindings: bytes of each, r unchanged, w changed, ? unknown, =N overlaps binding N; \
             read: unless it also reads what it changes; written: at least; bytes/s: if each byte of the \
             accessed pages, or of all that is bound if these are unknown, is accessed once; not watched: that would \
             take long\n",
        ));
        if self.roof_date.is_some() {
            text.push_str(&layout.wrap(roof::LEGEND));
        }
        self.add_scaling(&mut text, layout);
        self.add_commands(&mut text);
        text
    }
}

impl List<'_> {
    /// The cost of each kernel with other numbers of workers, below the table.
    fn add_scaling(&self, text: &mut String, layout: Layout) {
        let mut table = Table::new("", SCALING);
        for kernel in &self.kernels {
            for it in &kernel.kernel.scaling {
                let KernelProcessor { cpu_ns, thread_count, imbalance, .. } = it.processor;
                table.row([
                    it.threads.to_string(),
                    time(it.time_ns as f64),
                    kernel.kernel.scaling.first().map_or_else(String::new, |first| {
                        format!("{:.2}", first.time_ns.max(1) as f64 / it.time_ns.max(1) as f64)
                    }),
                    time(cpu_ns as f64),
                    format!("{thread_count:.1}"),
                    format!("{imbalance:.2}"),
                    format!("#{}", kernel.kernel.location.ordinal),
                    escaped(&kernel.kernel.name),
                ]);
            }
        }
        if self.kernels.iter().any(|it| !it.kernel.scaling.is_empty()) {
            text.push('\n');
            text.push_str(&table.text(layout));
            text.push_str(&layout.wrap(
                "\nspeedup: over the first number of workers; CPU time: of all threads; took part: threads that executed \
                 workgroups of a dispatch; longest/mean: CPU time of the thread that used most, over the mean of these\n",
            ));
        }
    }

    /// The command that measures each kernel, below the table.
    fn add_commands(&self, text: &mut String) {
        let mut commands =
            self.kernels.iter().filter_map(|it| Some((it.command, it.command_limits?))).peekable();
        let Some(directory) = self.directory.filter(|_| commands.peek().is_some()) else { return };
        let directory = escaped(&directory.to_string_lossy());
        let _ = writeln!(text, "\nTo measure each by itself, in the directory {directory}:");
        for (line, limits) in commands {
            let _ = writeln!(text, "{}", line.unwrap_or("no command"));
            limits.iter().for_each(|limit| text.push_str(&format!("  # {limit}\n")));
        }
    }
}

/// The columns of the table of scaling.
const SCALING: [Column; 8] = [
    Column::right("workers"),
    Column::right("time"),
    Column::right("speedup"),
    Column::right("CPU time"),
    Column::right("took part"),
    Column::right("longest/mean"),
    Column::right("record"),
    Column::names("function"),
];

/// Constants that the table shows.
const MAX_CONSTANTS: usize = 8;

/// How times are measured, in a text.
pub(in crate::tools) fn described(clock: Clock) -> &'static str {
    match clock {
        Clock::Processor | Clock::Device => "as the device reports it",
        Clock::Wall => "with the time of submission",
    }
}

fn row(row: &Row<'_>) -> Vec<String> {
    let kernel = row.kernel;
    let [x, y, z] = kernel.workgroup_size;
    let size = if [x, y, z] == [0; 3] { "-".into() } else { format!("{x}x{y}x{z}") };
    let count = kernel.workgroup_count.map_or_else(|| "indirect".into(), |[x, y, z]| format!("{x}x{y}x{z}"));
    let bindings: Vec<_> = kernel.bindings.iter().map(binding).collect();
    let bindings = if bindings.is_empty() { "-".into() } else { bindings.join(" ") };
    let mut cells = vec![
        kernel.count.to_string(),
        count,
        size,
        bindings,
        row.bytes_read.map_or_else(|| "-".into(), |bytes| bytes.to_string()),
        row.bytes_written.map_or_else(|| "-".into(), |bytes| bytes.to_string()),
        constants(&kernel.constants),
        format!("#{}", kernel.location.ordinal),
        kernel.executable_id.to_string(),
        escaped(&kernel.name),
    ];
    if let Some(time_ns) = kernel.time_ns {
        let share = row.share.map_or_else(|| "-".into(), |share| format!("{:.1} %", share * 100.0));
        let interval = kernel
            .interval_ns
            .map_or_else(|| "-".into(), |Interval { low, high }| format!("{} to {}", time(low), time(high)));
        let each = time(time_ns as f64 / kernel.count as f64);
        cells.splice(0..0, [share, time(time_ns as f64), interval, each]);
        let rate = match row.max_bytes_per_second {
            Some(bytes_per_second) => format!("<= {}", rate(bytes_per_second)),
            None => row.no_rate_because.unwrap_or("-").into(),
        };
        cells.insert(RATE_COLUMN, rate);
    }
    cells
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

/// A line per kernel.
pub(super) fn csv(list: &List<'_>) -> String {
    let mut text =
        "function,function_ordinal,executable,workgroup_count,workgroup_size,local_memory,constants,\
                    binding_lengths,binding_directions,aliases,count,record,occurrence,time_ns,share,bytes_read,bytes_written,\
                    max_bytes_per_second,time_low_ns,time_high_ns,bytes_accessed,cpu_ns,thread_count,imbalance,threads,\
                    threads_time_ns,threads_cpu_ns,threads_took_part,threads_imbalance,"
            .to_string();
    text.push_str(roof::CSV_FIELDS);
    text.push('\n');
    for row in &list.kernels {
        let kernel = row.kernel;
        let dimensions = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
        let list = |items: Vec<String>| items.join(" ");
        let aliases =
            kernel.bindings.iter().zip(0..).filter_map(|(it, at)| Some(format!("{at}={}", it.alias_of?)));
        let fields = [
            csv_field(&kernel.name),
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
            optional(row.share),
            optional(row.bytes_read),
            optional(row.bytes_written),
            optional(row.max_bytes_per_second),
            optional(kernel.interval_ns.map(|it| it.low)),
            optional(kernel.interval_ns.map(|it| it.high)),
            optional(row.bytes_accessed),
            optional(kernel.processor.map(|it| it.cpu_ns)),
            optional(kernel.processor.map(|it| it.thread_count)),
            optional(kernel.processor.map(|it| it.imbalance)),
            list(kernel.scaling.iter().map(|it| it.threads.to_string()).collect()),
            list(kernel.scaling.iter().map(|it| it.time_ns.to_string()).collect()),
            list(kernel.scaling.iter().map(|it| it.processor.cpu_ns.to_string()).collect()),
            list(kernel.scaling.iter().map(|it| it.processor.thread_count.to_string()).collect()),
            list(kernel.scaling.iter().map(|it| it.processor.imbalance.to_string()).collect()),
        ];
        text.push_str(&fields.join(","));
        row.roof.csv().iter().for_each(|field| text.extend([",", field]));
        text.push('\n');
    }
    text
}

/// Sorts rows; returns by what.
fn sort_rows(rows: &mut [Row<'_>], roofs: &Roofs, by: Sort) -> Sort {
    if by == Sort::Time || !roofs.is_measured() {
        return Sort::Time;
    }
    // All of a time may be above a roof that is unknown.
    let above =
        |row: &Row<'_>| row.roof.above_roof_ns.or(row.kernel.time_ns.map(|it| it as f64)).unwrap_or(0.0);
    rows.sort_by(|one, other| above(other).total_cmp(&above(one)));
    Sort::AboveRoof
}

fn share(kernels: &Kernels, kernel: &Kernel) -> Option<f64> {
    let (time, total) = (kernel.time_ns?, kernels.total_ns?);
    (total != 0).then(|| time as f64 / total as f64)
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
