//! One run of a program: its times, peak memory and report.

use serde_json::Value;
use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wait4::{ResourceUsage, Wait4 as _};

/// A program and its arguments.
#[derive(Clone, Debug)]
pub struct Invocation {
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

/// The destination of a program's standard output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Captured and parsed as the benchmark tool's JSON.
    Json,
    /// Discarded: the measurement is of producing it.
    Discard,
}

/// The measurements of a run.
pub struct Measured {
    pub wall: Duration,
    /// Of the processor, with that of the processes that it started.
    pub processor: Duration,
    /// Peak resident memory as counted by the system. At least this program's own memory when it spawned the
    /// other (a few MB).
    pub peak_bytes: u64,
    pub json: Option<Value>,
}

/// Runs it to completion; an exit status other than 0 is an error.
pub fn run(invocation: &Invocation, output: Output) -> Result<Measured, Box<dyn Error>> {
    let stdout = if output == Output::Json { Stdio::piped() } else { Stdio::null() };
    let start = Instant::now();
    let mut child = Command::new(&invocation.program)
        .args(&invocation.arguments)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}", invocation.program.display()))?;
    // Both streams are a few kilobytes, so reading one after the other cannot deadlock on a full pipe.
    let text = child.stdout.take().map(std::io::read_to_string).transpose()?;
    let said = child.stderr.take().map(std::io::read_to_string).transpose()?.unwrap_or_default();
    let ended = child.wait4()?;
    let wall = start.elapsed();
    if !ended.status.success() {
        return Err(format!("{}: {}\n{said}", invocation.program.display(), ended.status).into());
    }
    let json = text.map(|text| report(&text)).transpose()?;
    let ResourceUsage { utime, stime, maxrss, .. } = ended.rusage;
    Ok(Measured { wall, processor: utime + stime, peak_bytes: maxrss, json })
}

/// The JSON in a benchmark tool's output; the reference may print a line before it.
fn report(text: &str) -> Result<Value, Box<dyn Error>> {
    let start = text.find('{').ok_or("no JSON in the benchmark tool's output")?;
    Ok(serde_json::from_str(&text[start..])?)
}

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Time per iteration of the report's only row.
    Time,
    /// Time of all processors per iteration of that row.
    ProcessorPerCall,
    /// The time of the kernels that `rehal kernels` reports.
    Kernels,
    /// Wall time of the process.
    Wall,
    /// Time of the processor that it took.
    Processor,
    /// Peak resident memory minus this (a mapped file counts as resident while it is read).
    PeakBeyond(u64),
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Nanoseconds,
    Bytes,
    Percent,
}

impl Metric {
    /// The figure's unit.
    pub fn unit(self) -> Unit {
        if matches!(self, Self::PeakBeyond(_)) { Unit::Bytes } else { Unit::Nanoseconds }
    }

    /// Extracts the figure from a run.
    pub fn of(self, run: &Measured) -> Result<f64, String> {
        let json = run.json.as_ref().ok_or("the program has printed no report");
        match self {
            Self::Wall => Ok(run.wall.as_nanos() as f64),
            Self::Processor => Ok(run.processor.as_nanos() as f64),
            Self::PeakBeyond(bytes) => Ok(run.peak_bytes.saturating_sub(bytes) as f64),
            Self::Time => benchmark_ns(json?, "real_time"),
            Self::ProcessorPerCall => benchmark_ns(json?, "cpu_time"),
            Self::Kernels => json?["total_ns"].as_f64().ok_or_else(|| "the report has no total".to_owned()),
        }
    }
}

/// A time of the only row of a benchmark's report.
fn benchmark_ns(json: &Value, clock: &str) -> Result<f64, String> {
    let rows = json["benchmarks"].as_array().map(Vec::as_slice);
    let Some([row]) = rows else {
        return Err(format!("expected a report with one benchmark, found {}", rows.map_or(0, <[_]>::len)));
    };
    let time = row[clock].as_f64().ok_or_else(|| format!("{} has no {clock}", row["name"]))?;
    let scale = match row["time_unit"].as_str() {
        Some("ns") => 1.0,
        Some("us") => 1e3,
        Some("ms") => 1e6,
        Some("s") => 1e9,
        other => return Err(format!("{} has the time unit {other:?}", row["name"])),
    };
    Ok(time * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_and_scaled() {
        let row = r#"{"name":"a","real_time":2.5,"cpu_time":1,"time_unit":"us"}"#;
        let json = report(&format!("banner\n{{\"benchmarks\":[{row}]}}")).unwrap();
        assert_eq!(benchmark_ns(&json, "real_time"), Ok(2500.0));
        assert_eq!(benchmark_ns(&json, "cpu_time"), Ok(1000.0));
        assert!(benchmark_ns(&json, "gpu_time").unwrap_err().contains("no gpu_time"));
        let two = report(&format!("{{\"benchmarks\":[{row},{row}]}}")).unwrap();
        assert!(benchmark_ns(&two, "real_time").unwrap_err().contains("found 2"));
    }

    #[test]
    fn a_program_is_measured() {
        let invocation =
            |script: &str| Invocation { program: "sh".into(), arguments: vec!["-c".into(), script.into()] };
        let run_ok = run(&invocation("echo '{}'"), Output::Json).unwrap();
        assert!(run_ok.peak_bytes > 100_000 && run_ok.json.is_some());
        assert!(run(&invocation("echo why >&2; exit 3"), Output::Discard).unwrap_err_text().contains("why"));
    }

    trait ErrText {
        fn unwrap_err_text(self) -> String;
    }

    impl ErrText for Result<Measured, Box<dyn Error>> {
        fn unwrap_err_text(self) -> String {
            self.err().map(|error| error.to_string()).unwrap_or_default()
        }
    }
}
