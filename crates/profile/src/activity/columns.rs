//! Activities as JSON whose long lists of numbers are columns in base64, for pages that draw them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rehal_base::StatusCode;
use serde::Serialize;

use super::{Activity, Axis, Event, Function, Series, Session, Submission, Track, TrackKind};
use crate::layout::NONE;

/// The events, tracks, names and series of an activity.
#[derive(Serialize)]
pub struct ActivityColumns {
    axis: &'static str,
    omitted: u64,
    origin_ns: String,
    tracks: Vec<TrackColumns>,
    names: Vec<String>,
    functions: Vec<FunctionColumns>,
    events: EventColumns,
    /// The names of the known status codes of events.
    statuses: BTreeMap<String, &'static str>,
    series: Vec<SeriesColumns>,
}

impl From<&Activity> for ActivityColumns {
    fn from(activity: &Activity) -> Self {
        Self {
            axis: match activity.axis {
                Axis::Nanoseconds => "nanoseconds",
                Axis::Records => "records",
            },
            omitted: activity.omitted_count,
            origin_ns: activity.origin_ns.to_string(),
            tracks: activity.tracks.iter().map(TrackColumns::from).collect(),
            names: activity.names.iter().map(|name| text(name)).collect(),
            functions: activity.functions.iter().map(FunctionColumns::from).collect(),
            events: EventColumns::from(activity.events.as_slice()),
            statuses: statuses(&activity.events),
            series: activity.series.iter().map(SeriesColumns::from).collect(),
        }
    }
}

#[derive(Serialize)]
struct FunctionColumns {
    name: u32,
    executable: String,
    ordinal: u32,
}

impl From<&Function> for FunctionColumns {
    fn from(function: &Function) -> Self {
        Self { name: function.name, executable: function.executable.to_string(), ordinal: function.ordinal }
    }
}

#[derive(Serialize)]
struct SeriesColumns {
    device: Option<u32>,
    name: String,
    unit: &'static str,
    time: Column,
    value: Column,
}

impl From<&Series> for SeriesColumns {
    fn from(series: &Series) -> Self {
        Self {
            device: ordinal(series.device),
            name: text(&series.name),
            unit: series.unit,
            time: Column::new(series.points.len(), |at| series.points[at].0),
            value: Column::from_floats(series.points.iter().map(|(_, value)| *value)),
        }
    }
}

/// A session of a profile, as text.
#[derive(Serialize)]
pub struct SessionText {
    id: String,
    name: String,
    status: String,
}

impl From<&Session> for SessionText {
    fn from(session: &Session) -> Self {
        Self {
            id: session.id.to_string(),
            name: text(&session.name),
            status: session.status.map_or_else(|| "no end in this file".to_owned(), status_name),
        }
    }
}

fn status_name(code: u32) -> String {
    StatusCode::from_u32(code).map_or_else(|| format!("code {code}"), |status| status.name().to_owned())
}

#[derive(Serialize)]
struct TrackColumns {
    kind: Cow<'static, str>,
    colored: bool,
    device: Option<u32>,
    queue: String,
    lanes: u32,
    correlated: bool,
    timed_by: &'static str,
}

impl From<&Track> for TrackColumns {
    fn from(track: &Track) -> Self {
        Self {
            kind: track.name(),
            // Events have colors by name, as dispatches have.
            colored: matches!(track.kind, TrackKind::Scopes | TrackKind::Worker),
            device: ordinal(track.device),
            queue: queue(track),
            lanes: track.lane_count,
            correlated: track.is_correlated,
            timed_by: match track.kind {
                TrackKind::DeviceOperations | TrackKind::DeviceDispatches => "device",
                _ => "host",
            },
        }
    }
}

/// The name of the queue of a track.
fn queue(track: &Track) -> String {
    match track.kind {
        TrackKind::Calls if track.stream == 0 => "thread unknown".to_owned(),
        TrackKind::Calls => format!("thread {}", track.stream),
        TrackKind::Scopes | TrackKind::Recordings | TrackKind::RecordedDispatches => String::new(),
        _ if track.queue != NONE => format!("queue {}", track.queue),
        // Captures have a mask of queues.
        _ if track.stream == u64::MAX => "any queue".to_owned(),
        _ => format!("queues {:#b}", track.stream),
    }
}

fn ordinal(number: u32) -> Option<u32> {
    (number != NONE).then_some(number)
}

#[derive(Serialize)]
struct EventColumns {
    count: usize,
    columns: BTreeMap<String, Column>,
}

impl From<&[Event]> for EventColumns {
    fn from(events: &[Event]) -> Self {
        let mut columns = BTreeMap::new();
        let mut add = |name: &str, value: &dyn Fn(&Event) -> u64| {
            columns.insert(name.to_owned(), Column::new(events.len(), |at| value(&events[at])));
        };
        add("track", &|it| it.track.into());
        add("lane", &|it| it.lane.into());
        add("timed", &|it| it.is_timed.into());
        add("start", &|it| it.start);
        add("duration", &|it| it.duration);
        add("name", &|it| it.name.into());
        add("function", &|it| it.function.into());
        add("id", &|it| it.id);
        add("submission", &|it| it.submission);
        add("command_buffer", &|it| it.command_buffer);
        add("command", &|it| it.command.into());
        for axis in 0..3 {
            add(&format!("workgroup_count_{axis}"), &|it| it.workgroup_count[axis].into());
            add(&format!("workgroup_size_{axis}"), &|it| it.workgroup_size[axis].into());
        }
        add("bytes", &|it| it.bytes);
        add("waits", &|it| it.wait_count.into());
        add("signals", &|it| it.signal_count.into());
        add("operations", &|it| it.operation_count.into());
        add("tiles", &|it| it.tile_count);
        add("tile_duration", &|it| it.tile_duration);
        add("strategy", &|it| it.strategy.into());
        add("status", &|it| it.status.into());
        add("replayed_record", &|it| it.replayed_record.into());
        Self { count: events.len(), columns }
    }
}

fn statuses(events: &[Event]) -> BTreeMap<String, &'static str> {
    let codes: BTreeSet<_> = events.iter().map(|event| event.status).filter(|code| *code != 0).collect();
    let known = codes.into_iter().filter_map(|code| Some((code.to_string(), StatusCode::from_u32(code)?)));
    known.map(|(code, status)| (code, status.name())).collect()
}

/// Names of operations, once each: a list of operations is a list of indices.
#[derive(Default, Serialize)]
#[serde(transparent)]
pub struct OperationNames(Vec<&'static str>);

impl OperationNames {
    /// The index of a name, which is added if it is new.
    pub fn index(&mut self, name: &'static str) -> u64 {
        let known = self.0.iter().position(|known| *known == name);
        known.unwrap_or_else(|| {
            self.0.push(name);
            self.0.len() - 1
        }) as u64
    }
}

/// The graph of semaphores: for each submission, ranges of the lists of timepoints.
#[derive(Serialize)]
pub struct GraphColumns {
    count: usize,
    operations: OperationNames,
    operation: Column,
    id: Column,
    device: Column,
    waits: Timepoints,
    signals: Timepoints,
}

#[derive(Serialize)]
struct Timepoints {
    /// The number of timepoints of each submission.
    count: Column,
    semaphore: Column,
    value: Column,
}

impl From<&[Submission]> for GraphColumns {
    fn from(submissions: &[Submission]) -> Self {
        let mut operations = OperationNames::default();
        let numbers: Vec<_> = submissions.iter().map(|it| operations.index(it.operation)).collect();
        let points = |side: fn(&Submission) -> &[(u64, u64)]| {
            let all: Vec<_> = submissions.iter().flat_map(|it| side(it).iter().copied()).collect();
            Timepoints {
                count: Column::new(submissions.len(), |at| side(&submissions[at]).len() as u64),
                semaphore: Column::new(all.len(), |at| all[at].0),
                value: Column::new(all.len(), |at| all[at].1),
            }
        };
        Self {
            count: submissions.len(),
            operations,
            operation: Column::new(numbers.len(), |at| numbers[at]),
            id: Column::new(submissions.len(), |at| submissions[at].id),
            device: Column::new(submissions.len(), |at| submissions[at].device.into()),
            waits: points(|it| &it.waits),
            signals: points(|it| &it.signals),
        }
    }
}

/// A list of numbers in the narrowest type that has room for all: little-endian, in base64. A list of equal
/// numbers is one.
#[derive(Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Column(Numbers);

#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Numbers {
    Constant { count: usize, value: String },
    U8 { data: String },
    U16 { data: String },
    U32 { data: String },
    U64 { data: String },
    F64 { data: String },
}

impl Column {
    /// A list of `count` numbers, each that of its index.
    pub fn new(count: usize, value: impl Fn(usize) -> u64) -> Self {
        let (mut least, mut greatest) = (u64::MAX, 0);
        for number in (0..count).map(&value) {
            (least, greatest) = (least.min(number), greatest.max(number));
        }
        if count == 0 || least == greatest {
            return Self(Numbers::Constant { count, value: greatest.to_string() });
        }
        let encode = |width: usize| {
            let mut bytes = Vec::with_capacity(count * width);
            for number in (0..count).map(&value) {
                bytes.extend_from_slice(&number.to_le_bytes()[..width]);
            }
            STANDARD.encode(bytes)
        };
        Self(match greatest {
            0..=0xff => Numbers::U8 { data: encode(1) },
            0x100..=0xffff => Numbers::U16 { data: encode(2) },
            0x1_0000..=0xffff_ffff => Numbers::U32 { data: encode(4) },
            _ => Numbers::U64 { data: encode(8) },
        })
    }

    fn from_floats(values: impl Iterator<Item = f64>) -> Self {
        let bytes: Vec<_> = values.flat_map(f64::to_le_bytes).collect();
        Self(Numbers::F64 { data: STANDARD.encode(bytes) })
    }
}

/// A name as text: what is not UTF-8 is replaced, and characters that are invisible or change the direction
/// of what follows are escaped.
pub fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for character in String::from_utf8_lossy(bytes).chars() {
        match character {
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => {
                text.extend(character.escape_unicode());
            }
            _ if character.is_control() => text.extend(character.escape_default()),
            _ => text.push(character),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_narrowest_type() {
        let from = |numbers: &[u64]| Column::new(numbers.len(), |at| numbers[at]).0;
        assert_eq!(from(&[]), Numbers::Constant { count: 0, value: "0".into() });
        assert_eq!(from(&[7, 7, 7]), Numbers::Constant { count: 3, value: "7".into() });
        assert_eq!(from(&[0, 255]), Numbers::U8 { data: STANDARD.encode([0, 255]) });
        assert_eq!(from(&[1, 256]), Numbers::U16 { data: STANDARD.encode([1, 0, 0, 1]) });
        assert!(matches!(from(&[0, 1 << 16]), Numbers::U32 { .. }));
        let data = STANDARD.encode([[0; 8], [255; 8]].concat());
        assert_eq!(from(&[0, u64::MAX]), Numbers::U64 { data });
        let names = serde_json::to_string(&[Column(from(&[7])), Column(from(&[0, 1]))]).unwrap();
        assert_eq!(names, r#"[{"type":"constant","count":1,"value":"7"},{"type":"u8","data":"AAE="}]"#);
    }

    #[test]
    fn names_show_what_would_be_invisible() {
        assert_eq!(text(b"matmul \"16x16\" <b>"), "matmul \"16x16\" <b>");
        assert_eq!(text("a\u{202e}b\nc\u{0}\u{feff}".as_bytes()), "a\\u{202e}b\\nc\\u{0}\\u{feff}");
        assert_eq!(text(b"r\xff"), "r\u{fffd}");
    }
}
