use std::{
    fmt::Display,
    io::{self, Write},
};

use crate::{
    AggregateUnit, Context, Reporter, Run, RunKind, SampleStatistics, TimeUnit,
    context::LIBRARY_VERSION,
    number::{general, json_number},
    stats::Interval,
};

/// A JSON object: the context and a list of runs, in the order and layout of Google Benchmark's schema 1.
pub struct JsonReporter<'a> {
    out: Box<dyn Write + 'a>,
    any_runs: bool,
}

impl<'a> JsonReporter<'a> {
    /// Writes to `out`, which holds a complete object after [`Reporter::finish`].
    pub fn new(out: Box<dyn Write + 'a>) -> Self {
        Self { out, any_runs: false }
    }
}

impl Reporter for JsonReporter<'_> {
    fn begin(&mut self, context: &Context) -> io::Result<()> {
        self.any_runs = false;
        write!(self.out, "{{\n  \"context\": {{\n{}\n  }},\n  \"benchmarks\": [\n", context_fields(context))?;
        self.out.flush()
    }

    fn runs(&mut self, runs: &[Run]) -> io::Result<()> {
        for run in runs {
            let comma = if self.any_runs { ",\n" } else { "" };
            self.any_runs = true;
            write!(self.out, "{comma}    {{\n{}\n    }}", run_fields(run))?;
        }
        self.out.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n  ]\n}\n")?;
        self.out.flush()
    }
}

/// Fields of an object, one per line.
struct Fields {
    text: String,
    indent: &'static str,
}

impl Fields {
    fn new(indent: &'static str) -> Self {
        Self { text: String::new(), indent }
    }

    /// A field whose value is printed verbatim: a number, a boolean, a list.
    fn raw(&mut self, key: &str, value: impl Display) {
        let comma = if self.text.is_empty() { "" } else { ",\n" };
        self.text += &format!("{comma}{}{}: {value}", self.indent, string(key));
    }

    fn text(&mut self, key: &str, value: &str) {
        self.raw(key, string(value));
    }

    fn number(&mut self, key: &str, value: f64) {
        self.raw(key, json_number(value));
    }
}

fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn context_fields(context: &Context) -> String {
    let mut fields = Fields::new("    ");
    fields.text("date", &context.date);
    fields.text("host_name", &context.host_name);
    if let Some(executable) = &context.executable {
        fields.text("executable", executable);
    }
    fields.raw("num_cpus", context.num_cpus);
    fields.raw("mhz_per_cpu", context.mhz_per_cpu.round() as u64);
    if let Some(enabled) = context.cpu_scaling_enabled {
        fields.raw("cpu_scaling_enabled", enabled);
    }
    if let Some(enabled) = context.aslr_enabled {
        fields.raw("aslr_enabled", enabled);
    }
    fields.raw("caches", caches(context));
    let loads: Vec<String> = context.load_avg.iter().map(|&load| general(load)).collect();
    fields.raw("load_avg", format!("[{}]", loads.join(",")));
    fields.text("library_version", LIBRARY_VERSION);
    fields.text("library_build_type", if context.debug_build { "debug" } else { "release" });
    fields.raw("json_schema_version", 1);
    for (key, value) in &context.extra {
        fields.text(key, value);
    }
    fields.text
}

fn caches(context: &Context) -> String {
    let objects: Vec<String> = context
        .caches
        .iter()
        .map(|cache| {
            let mut fields = Fields::new("        ");
            fields.text("type", &cache.kind);
            fields.raw("level", cache.level);
            fields.raw("size", cache.size_bytes);
            fields.raw("num_sharing", cache.num_sharing);
            format!("      {{\n{}\n      }}", fields.text)
        })
        .collect();
    let end = if objects.is_empty() { "" } else { "\n" };
    format!("[\n{}{end}    ]", objects.join(",\n"))
}

fn run_fields(run: &Run) -> String {
    let mut fields = Fields::new("      ");
    fields.text("name", &run.name());
    fields.raw("family_index", run.family_index);
    // Each benchmark is a family of its own: none has arguments.
    fields.raw("per_family_instance_index", 0);
    fields.text("run_name", &run.run_name);
    kind_fields(run, &mut fields);
    if let Some(message) = &run.error {
        fields.raw("error_occurred", true);
        fields.text("error_message", message);
    }
    let (real, cpu) = run.times();
    fields.raw("iterations", run.iterations);
    fields.number("real_time", real);
    fields.number("cpu_time", cpu);
    fields.text("time_unit", run.unit.name());
    for (name, counter) in &run.counters {
        fields.number(name, counter.value);
    }
    if let Some(samples) = &run.samples {
        sample_fields(samples, run.unit, &mut fields);
    }
    if !run.label.is_empty() {
        fields.text("label", &run.label);
    }
    fields.text
}

/// Like counters: Google Benchmark has no fields for them, and its tools skip names that they do not know.
fn sample_fields(samples: &SampleStatistics, unit: TimeUnit, fields: &mut Fields) {
    let mut time = |key: &str, seconds: f64| fields.number(key, seconds * unit.per_second());
    time("sample_median", samples.median_s);
    if let Some(Interval { low, high }) = samples.interval_s {
        time("sample_median_low", low);
        time("sample_median_high", high);
    }
    time("sample_mad", samples.mad_s);
    fields.raw("sample_count", samples.count);
}

fn kind_fields(run: &Run, fields: &mut Fields) {
    match run.kind {
        RunKind::Iteration { repetition_index } => {
            fields.text("run_type", "iteration");
            fields.raw("repetitions", run.repetitions);
            fields.raw("repetition_index", repetition_index);
            fields.raw("threads", 1);
        }
        RunKind::Aggregate { name, unit } => {
            fields.text("run_type", "aggregate");
            fields.raw("repetitions", run.repetitions);
            fields.raw("threads", 1);
            fields.text("aggregate_name", name);
            fields.text(
                "aggregate_unit",
                match unit {
                    AggregateUnit::Time => "time",
                    AggregateUnit::Percentage => "percentage",
                },
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Counter, Counters,
        context::samples::context,
        report::samples::{Shared, replay_cv, replay_run},
    };

    fn report(context: &Context, batches: &[&[Run]]) -> String {
        let out = Shared::default();
        let mut reporter = JsonReporter::new(Box::new(out.clone()));
        reporter.begin(context).unwrap();
        for runs in batches {
            reporter.runs(runs).unwrap();
        }
        reporter.finish().unwrap();
        out.text()
    }

    /// The pinned release's output for these numbers, except the library's version and the program's path.
    const GOLDEN: &str = r#"{
  "context": {
    "date": "2026-11-21T11:17:28+00:00",
    "host_name": "vm",
    "executable": "bin/iree-benchmark-replay",
    "num_cpus": 2,
    "mhz_per_cpu": 2300,
    "cpu_scaling_enabled": false,
    "aslr_enabled": true,
    "caches": [
      {
        "type": "Data",
        "level": 1,
        "size": 49152,
        "num_sharing": 1
      },
      {
        "type": "Instruction",
        "level": 1,
        "size": 32768,
        "num_sharing": 1
      },
      {
        "type": "Unified",
        "level": 2,
        "size": 2097152,
        "num_sharing": 1
      },
      {
        "type": "Unified",
        "level": 3,
        "size": 272629760,
        "num_sharing": 2
      }
    ],
    "load_avg": [0.327148,0.111328,0.0449219],
    "library_version": "LIBRARY_VERSION",
    "library_build_type": "release",
    "json_schema_version": 1
  },
  "benchmarks": [
    {
      "name": "BM_replay/process_time/real_time",
      "family_index": 0,
      "per_family_instance_index": 0,
      "run_name": "BM_replay/process_time/real_time",
      "run_type": "iteration",
      "repetitions": 1,
      "repetition_index": 0,
      "threads": 1,
      "iterations": 20,
      "real_time": 6.9780349986103829e-02,
      "cpu_time": 7.0041650000000080e-02,
      "time_unit": "ms",
      "items_per_second": 1.4330681921187577e+04
    },
    {
      "name": "BM_replay/process_time/real_time_cv",
      "family_index": 0,
      "per_family_instance_index": 0,
      "run_name": "BM_replay/process_time/real_time",
      "run_type": "aggregate",
      "repetitions": 3,
      "threads": 1,
      "aggregate_name": "cv",
      "aggregate_unit": "percentage",
      "iterations": 3,
      "real_time": 8.0344094875440791e-03,
      "cpu_time": 5.1958444796675963e-03,
      "time_unit": "ms",
      "items_per_second": 8.0616119255479748e-03
    }
  ]
}
"#;

    #[test]
    fn the_layout_matches_the_reference() {
        let want = GOLDEN.replace("LIBRARY_VERSION", LIBRARY_VERSION);
        // Seconds times 1000 are not always the exact milliseconds that were divided by 1000.
        let run = Run {
            real_time_s: 6.978_034_998_610_383e-2 / 1000.0,
            cpu_time_s: 7.004_165_000_000_008e-2 / 1000.0,
            ..replay_run()
        };
        let text = report(&context(), &[&[run], &[replay_cv()]]);
        assert_eq!(text, want);
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
    }

    #[test]
    fn statistics_of_samples_are_in_the_unit_of_the_run() {
        let interval_s = Some(Interval { low: 1e-3, high: 3e-3 });
        let samples = SampleStatistics { count: 9, median_s: 2e-3, interval_s, mad_s: 5e-4 };
        let fields = |samples| {
            let run = Run { samples: Some(samples), ..replay_run() };
            let report: serde_json::Value = serde_json::from_str(&report(&context(), &[&[run]])).unwrap();
            report["benchmarks"][0].clone()
        };
        let all = fields(samples);
        let keys = ["sample_median", "sample_median_low", "sample_median_high", "sample_mad", "sample_count"];
        assert_eq!(keys.map(|key| all[key].as_f64().unwrap()), [2.0, 1.0, 3.0, 0.5, 9.0]);
        let few = fields(SampleStatistics { count: 3, interval_s: None, ..samples });
        assert!(few.get("sample_median_low").is_none() && few["sample_count"] == 3, "{few}");
    }

    #[test]
    fn an_empty_report_is_json() {
        let context = Context { caches: Vec::new(), load_avg: Vec::new(), executable: None, ..context() };
        let text = report(&context, &[]);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["benchmarks"], serde_json::json!([]));
        assert_eq!(value["context"]["caches"], serde_json::json!([]));
        assert!(value["context"].get("executable").is_none());
        assert!(text.ends_with("  \"benchmarks\": [\n\n  ]\n}\n"));
    }

    #[test]
    fn text_is_escaped() {
        let odd = "a \"b\" \\ \n \t \u{1} \u{2603}";
        let mut context = context();
        context.extra.insert(odd.into(), odd.into());
        let run = Run { run_name: odd.into(), label: odd.into(), ..replay_run() };
        let failed = Run { error: Some(odd.into()), counters: Counters::new(), ..run.clone() };
        let text = report(&context, &[&[run], &[failed]]);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["context"][odd], odd);
        let runs = value["benchmarks"].as_array().unwrap();
        assert_eq!(runs.len(), 2);
        assert_eq!((&runs[0]["name"], &runs[0]["label"]), (&odd.into(), &odd.into()));
        assert_eq!((&runs[1]["error_occurred"], &runs[1]["error_message"]), (&true.into(), &odd.into()));
    }

    #[test]
    fn numbers_round_trip() {
        let value = 0.1 + 0.2;
        let run = Run { counters: Counters::from([("x".into(), Counter::new(value))]), ..replay_run() };
        let parsed: serde_json::Value = serde_json::from_str(&report(&context(), &[&[run]])).unwrap();
        assert_eq!(parsed["benchmarks"][0]["x"].as_f64().unwrap(), value);
    }
}
