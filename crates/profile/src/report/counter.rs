//! `counter`: hardware counters and their samples.

use std::borrow::Cow;

use rehal_base::{Error, Result};

use super::numbers::Deviation;
use super::options::ReportOptions;
use super::out::{Fixed, List, Out, Row, columns, row};
use crate::event::ticks;
use crate::layout::NONE;
use crate::model::Model;
use crate::rows;
use crate::table::Table;
use crate::{Bundle, ContentType, CounterSampleScope, CounterUnit, Record};

/// [`crate::layout::CounterSample::flags`]: it has device ticks.
pub const SAMPLE_TICKS: u32 = 1 << 2;

pub fn print(bundle: &Bundle<'_>, options: &ReportOptions, out: &mut Out<'_>) -> Result<()> {
    let mut totals = Totals::default();
    for record in bundle.records() {
        let record = record?;
        totals.model.add(&record)?;
        totals.add_metadata(&record)?;
    }
    for record in bundle.records() {
        totals.add_samples(&record?, options, out)?;
        out.check()?;
    }
    totals.print_metadata(options, out);
    for group in totals.groups.values() {
        let key = totals.key(group.device, group.executable, group.function)?;
        group.print(&key, out);
    }
    Ok(())
}

/// A set of counters, with the indices of these.
struct Set<'a> {
    row: rows::CounterSet<'a>,
    counters: Vec<usize>,
    /// Values of a sample that the counters are made of.
    values: u64,
}

/// The samples of the bundle, totalled.
#[derive(Default)]
struct Totals<'a> {
    model: Model<'a>,
    sets: Table<u64, Set<'a>>,
    counters: Table<(u64, u32), rows::Counter<'a>>,
    groups: Table<GroupKey, Group<'a>>,
    total: u64,
    matched: u64,
    truncated_matched: u64,
}

/// Device, queue, stream, scope, set, counter, executable, function and command buffer.
type GroupKey = (u32, u32, u64, u32, u64, u32, u64, u32, u64);

/// The samples of a counter for a function, command buffer and queue.
struct Group<'a> {
    device: u32,
    queue: u32,
    stream: u64,
    scope: CounterSampleScope,
    executable: u64,
    function: u32,
    command_buffer: u64,
    set: rows::CounterSet<'a>,
    counter: rows::Counter<'a>,
    raw_values: u64,
    first_sample: u64,
    last_sample: u64,
    minimum: f64,
    maximum: f64,
    total: f64,
    deviation: Deviation,
}

impl<'a> Totals<'a> {
    fn add_metadata(&mut self, record: &Record<'a>) -> Result<()> {
        for row in record.rows::<rows::CounterSet<'_>>() {
            let row = row?;
            self.sets.entry(row.counter_set_id.get(), || Set { row, counters: Vec::new(), values: 0 });
        }
        for row in record.rows::<rows::Counter<'_>>() {
            self.add_counter(row?)?;
        }
        Ok(())
    }

    fn add_counter(&mut self, row: rows::Counter<'a>) -> Result<()> {
        let (id, ordinal) = (row.counter_set_id.get(), row.counter_ordinal.get());
        let Some(set) = self.sets.get_mut(&id) else {
            return Err(Error::data_loss(format!(
                "counter {ordinal} is of counter set {id}, which the bundle does not describe"
            )));
        };
        let index = self.counters.len();
        let mut is_new = false;
        self.counters.entry((id, ordinal), || {
            is_new = true;
            row
        });
        if is_new {
            set.values += u64::from(row.sample_value_count.get().max(1));
            set.counters.push(index);
        }
        Ok(())
    }

    fn add_samples(&mut self, record: &Record<'a>, options: &ReportOptions, out: &mut Out<'_>) -> Result<()> {
        if record.content() != Some(ContentType::CounterSamples) {
            return Ok(());
        }
        for row in record.rows::<rows::CounterSample<'_>>() {
            self.total += 1;
            if self.add_sample(&row?, options, out)? {
                self.matched += 1;
                self.truncated_matched += u64::from(record.is_truncated());
            }
        }
        Ok(())
    }

    /// Returns whether the options select the sample.
    fn add_sample(
        &mut self,
        sample: &rows::CounterSample<'a>,
        options: &ReportOptions,
        out: &mut Out<'_>,
    ) -> Result<bool> {
        let (id, set_id) = (sample.sample_id.get(), sample.counter_set_id.get());
        let fail =
            |what: &str| Error::data_loss(format!("counter sample {id} of counter set {set_id}: {what}"));
        let set = self.sets.get(&set_id).ok_or_else(|| fail("the bundle does not describe the set"))?;
        if set.row.sample_value_count != sample.sample_value_count {
            return Err(fail("its number of values is not that of the set"));
        }
        let (device, executable) = (sample.physical_device_ordinal.get(), sample.executable_id.get());
        let key = self.key(device, executable, sample.function_ordinal.get())?;
        let ids =
            [sample.sample_id, sample.dispatch_event_id, sample.submission_id, sample.command_buffer_id];
        if !options.selects_id(&ids.map(|id| id.get())) {
            return Ok(false);
        }
        if set.counters.is_empty() {
            return Err(fail("the bundle describes no counter of the set"));
        }
        if set.values > u64::from(sample.sample_value_count.get()) {
            // Counters share no values, so the work per sample is bounded by its size.
            return Err(fail("the counters of the set have more values than the sample"));
        }
        let mut is_selected = false;
        for index in &set.counters {
            let counter = self.counters.values()[*index];
            let names = [&key, set.row.name, counter.block_name, counter.name];
            if !names.iter().any(|name| options.selects(name)) {
                continue;
            }
            is_selected = true;
            let (start, count) = (counter.sample_value_offset.get(), counter.sample_value_count.get());
            let range = start as usize..start as usize + count as usize;
            let values =
                sample.values.get(range).ok_or_else(|| fail("a counter has values behind its end"))?;
            let value = values.iter().fold(0.0, |sum, value| sum + value.get() as f64);
            let group = Group::new(sample, set.row, counter);
            self.groups.entry(group.key(), || group).add(sample, value);
            if options.counter_samples {
                print_sample(sample, &set.row, &counter, &key, values, value, out);
            }
        }
        Ok(is_selected)
    }

    /// The name of a sample's function in reports.
    fn key(&self, device: u32, executable: u64, function: u32) -> Result<Cow<'a, [u8]>> {
        if executable == 0 || function == NONE {
            return Ok(Cow::Borrowed(b"unattributed"));
        }
        self.model.function_key(device, executable, function)
    }

    fn print_metadata(&self, options: &ReportOptions, out: &mut Out<'_>) {
        row!(
            out,
            "counter_summary",
            "IREE HAL profile counter summary\nfilter: {filter}\n{has_id?id_filter: {id_filter}\n}samples: \
             total={total_samples} matched={matched_samples} truncated_matched={truncated_matched_samples} \
             counter_sets={counter_sets} counters={counters} groups={aggregate_groups}\n",
            filter: options.filter.as_str(),
            @has_id: options.id >= 0,
            id_filter: options.id,
            mode: if options.counter_samples { "samples" } else { "aggregate" },
            total_samples: self.total,
            matched_samples: self.matched,
            truncated_matched_samples: self.truncated_matched,
            counter_sets: self.sets.len(),
            counters: self.counters.len(),
            aggregate_groups: self.groups.len(),
        );
        out.heading("counter_sets:\n");
        for set in self.sets.values() {
            let mut row = out.row(
                "counter_set",
                "  counter_set {counter_set_id}: device={physical_device_ordinal} counters={counter_count} \
                 sample_values={sample_value_count} flags={flags} name={name}\n",
            );
            set_columns(&set.row, &mut row);
            row.end();
        }
        out.heading("counters:\n");
        self.counters.values().iter().for_each(|counter| print_counter(counter, out));
        out.heading("groups:\n");
    }
}

impl<'a> Group<'a> {
    fn new(sample: &rows::CounterSample<'_>, set: rows::CounterSet<'a>, counter: rows::Counter<'a>) -> Self {
        Self {
            device: sample.physical_device_ordinal.get(),
            queue: sample.queue_ordinal.get(),
            stream: sample.stream_id.get(),
            scope: CounterSampleScope(sample.scope.get()),
            executable: sample.executable_id.get(),
            function: sample.function_ordinal.get(),
            command_buffer: sample.command_buffer_id.get(),
            set,
            counter,
            raw_values: 0,
            first_sample: 0,
            last_sample: 0,
            minimum: f64::MAX,
            maximum: 0.0,
            total: 0.0,
            deviation: Deviation::default(),
        }
    }

    fn key(&self) -> GroupKey {
        let (set, counter) = (self.counter.counter_set_id.get(), self.counter.counter_ordinal.get());
        let (executable, function) = (self.executable, self.function);
        (
            self.device,
            self.queue,
            self.stream,
            self.scope.0,
            set,
            counter,
            executable,
            function,
            self.command_buffer,
        )
    }

    fn add(&mut self, sample: &rows::CounterSample<'_>, value: f64) {
        self.raw_values += u64::from(self.counter.sample_value_count.get());
        if self.first_sample == 0 {
            self.first_sample = sample.sample_id.get();
        }
        self.last_sample = sample.sample_id.get();
        (self.minimum, self.maximum) = (self.minimum.min(value), self.maximum.max(value));
        self.total += value;
        self.deviation.add(value);
    }

    fn print(&self, key: &[u8], out: &mut Out<'_>) {
        row!(
            out,
            "counter_group",
            "  {counter_set} / {block}.{counter}\n    scope={scope} device={physical_device_ordinal} \
             queue={queue_ordinal} stream={stream_id} command_buffer={command_buffer_id} executable={executable_id} \
             function={function_ordinal} key={key}\n    samples={samples} raw_values={raw_values} \
             value[min/avg/stddev/max/total]={min}/{avg}/{stddev}/{max}/{sum} unit={unit} \
             first_sample={first_sample_id} last_sample={last_sample_id}\n",
            physical_device_ordinal: self.device,
            queue_ordinal: self.queue,
            stream_id: self.stream,
            scope: self.scope.name(),
            scope_value: self.scope.0,
            counter_set_id: self.counter.counter_set_id,
            counter_set: self.set.name,
            counter_ordinal: self.counter.counter_ordinal,
            counter: self.counter.name,
            block: self.counter.block_name,
            unit: CounterUnit(self.counter.unit.get()).name(),
            command_buffer_id: self.command_buffer,
            executable_id: self.executable,
            function_ordinal: self.function,
            key: key,
            samples: self.deviation.count,
            raw_values: self.raw_values,
            min: Fixed(self.minimum, 3),
            avg: Fixed(self.deviation.mean, 3),
            stddev: Fixed(self.deviation.standard(), 3),
            max: Fixed(self.maximum, 3),
            sum: Fixed(self.total, 3),
            first_sample_id: self.first_sample,
            last_sample_id: self.last_sample,
        );
    }
}

/// Appends the columns of a set of counters.
pub fn set_columns(set: &rows::CounterSet<'_>, row: &mut Row<'_, '_>) {
    columns!(
        row,
        set { counter_set_id, physical_device_ordinal, flags, counter_count, sample_value_count, name },
    );
}

fn print_counter(counter: &rows::Counter<'_>, out: &mut Out<'_>) {
    let (start, count) = (counter.sample_value_offset.get(), counter.sample_value_count.get());
    row!(
        out,
        "counter",
        "  counter {counter_set_id}#{counter_ordinal}: device={physical_device_ordinal} block={block} name={name} \
         unit={unit} values=[{sample_value_offset},{end}) flags={flags} description={description}\n",
        @end: start.wrapping_add(count),
        counter { counter_set_id, counter_ordinal, physical_device_ordinal, flags },
        unit: CounterUnit(counter.unit.get()).name(),
        unit_value: counter.unit,
        counter { sample_value_offset, sample_value_count },
        block: counter.block_name,
        counter { name, description },
    );
}

fn print_sample(
    sample: &rows::CounterSample<'_>,
    set: &rows::CounterSet<'_>,
    counter: &rows::Counter<'_>,
    key: &[u8],
    values: &[zerocopy::little_endian::U64],
    value: f64,
    out: &mut Out<'_>,
) {
    let has_ticks = sample.flags.get() & SAMPLE_TICKS != 0;
    let ticks = ticks(sample.start_tick.get(), sample.end_tick.get()).filter(|_| has_ticks);
    let scope = CounterSampleScope(sample.scope.get());
    row!(
        out,
        "counter_sample",
        "",
        sample { sample_id, counter_set_id },
        counter_set: set.name,
        counter_ordinal: counter.counter_ordinal,
        counter: counter.name,
        block: counter.block_name,
        unit: CounterUnit(counter.unit.get()).name(),
        scope: scope.name(),
        scope_value: scope.0,
        sample {
            dispatch_event_id, submission_id, command_buffer_id, command_index, executable_id, function_ordinal,
        },
        key: key,
        sample { physical_device_ordinal, queue_ordinal, stream_id, flags },
        device_tick_range_present: has_ticks,
        device_tick_domain: "device_tick",
        sample { start_tick, end_tick },
        duration_ticks: ticks.unwrap_or(0),
        device_tick_range_valid: ticks.is_some(),
        value: Fixed(value, 3),
        values: List(values),
    );
}
