//! The data of the page: JSON whose long lists of numbers are columns in base64.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rehal_base::StatusCode;
use rehal_session::BufferSummary;
use rehal_session::activity::{Activity, Axis, Event, Session, Submission, Track, TrackKind};
use serde_json::{Map, Value, json};

/// The ordinal or index of nothing.
const NONE: u32 = u32::MAX;

/// The events, tracks, names and series of an activity.
pub(super) fn activity(activity: &Activity) -> Value {
    json!({
        "axis": match activity.axis {
            Axis::Nanoseconds => "nanoseconds",
            Axis::Records => "records",
        },
        "omitted": activity.omitted_count,
        "origin_ns": activity.origin_ns.to_string(),
        "tracks": activity.tracks.iter().map(track).collect::<Vec<_>>(),
        "names": activity.names.iter().map(|name| text(name)).collect::<Vec<_>>(),
        "functions": activity.functions.iter().map(|it| json!({
            "name": it.name,
            "executable": it.executable.to_string(),
            "ordinal": it.ordinal,
        })).collect::<Vec<_>>(),
        "events": events(&activity.events),
        "statuses": statuses(&activity.events),
        "series": activity.series.iter().map(|series| json!({
            "device": ordinal(series.device),
            "name": text(&series.name),
            "unit": series.unit,
            "time": column(series.points.len(), |at| series.points[at].0),
            "value": floats(series.points.iter().map(|(_, value)| *value)),
        })).collect::<Vec<_>>(),
    })
}

/// The sessions of a profile.
pub(super) fn sessions(sessions: &[Session]) -> Value {
    let session = |it: &Session| {
        json!({
            "id": it.id.to_string(),
            "name": text(&it.name),
            "status": it.status.map_or_else(|| "no end in this file".to_owned(), status_name),
        })
    };
    sessions.iter().map(session).collect()
}

fn status_name(code: u32) -> String {
    StatusCode::from_u32(code).map_or_else(|| format!("code {code}"), |status| status.name().to_owned())
}

fn track(track: &Track) -> Value {
    json!({
        "kind": track.name(),
        // Events have colors by name, as dispatches have.
        "colored": matches!(track.kind, TrackKind::Scopes | TrackKind::Worker),
        "device": ordinal(track.device),
        "queue": queue(track),
        "lanes": track.lane_count,
        "correlated": track.is_correlated,
        "timed_by": match track.kind {
            TrackKind::DeviceOperations | TrackKind::DeviceDispatches => "device",
            _ => "host",
        },
    })
}

/// What a page calls the queue of a track.
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

fn ordinal(number: u32) -> Value {
    if number == NONE { Value::Null } else { number.into() }
}

fn events(events: &[Event]) -> Value {
    let mut columns = Map::new();
    let mut add = |name: &str, value: &dyn Fn(&Event) -> u64| {
        columns.insert(name.to_owned(), column(events.len(), |at| value(&events[at])));
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
    json!({ "count": events.len(), "columns": columns })
}

/// The names of the known status codes of events.
fn statuses(events: &[Event]) -> Value {
    let codes: BTreeSet<_> = events.iter().map(|event| event.status).filter(|code| *code != 0).collect();
    let known = codes.into_iter().filter_map(|code| Some((code.to_string(), StatusCode::from_u32(code)?)));
    known.map(|(code, status)| (code, Value::from(status.name()))).collect::<Map<_, _>>().into()
}

/// The graph of semaphores: for each submission, ranges of the lists of timepoints.
pub(super) fn graph(submissions: &[Submission]) -> Value {
    let mut operations: Vec<&str> = Vec::new();
    let mut numbers = Vec::new();
    for submission in submissions {
        let known = operations.iter().position(|name| *name == submission.operation);
        numbers.push(known.unwrap_or_else(|| {
            operations.push(submission.operation);
            operations.len() - 1
        }) as u64);
    }
    let points = |side: fn(&Submission) -> &[(u64, u64)]| {
        let all: Vec<_> = submissions.iter().flat_map(|it| side(it).iter().copied()).collect();
        json!({
            "count": column(submissions.len(), |at| side(&submissions[at]).len() as u64),
            "semaphore": column(all.len(), |at| all[at].0),
            "value": column(all.len(), |at| all[at].1),
        })
    };
    json!({
        "count": submissions.len(),
        "operations": operations,
        "operation": column(numbers.len(), |at| numbers[at]),
        "id": column(submissions.len(), |at| submissions[at].id),
        "device": column(submissions.len(), |at| submissions[at].device.into()),
        "waits": points(|it| &it.waits),
        "signals": points(|it| &it.signals),
    })
}

/// The buffers of a capture.
pub(super) fn buffers(buffers: &[BufferSummary]) -> Value {
    let mut operations: Vec<&str> = Vec::new();
    let mut number = |name| match operations.iter().position(|known| *known == name) {
        Some(number) => number as u64,
        None => {
            operations.push(name);
            operations.len() as u64 - 1
        }
    };
    let numbers: Vec<_> = buffers.iter().map(|buffer| number(buffer.operation)).collect();
    json!({
        "count": buffers.len(),
        "operations": operations,
        "operation": column(numbers.len(), |at| numbers[at]),
        "id": column(buffers.len(), |at| buffers[at].id),
        "ordinal": column(buffers.len(), |at| buffers[at].ordinal),
        "bytes": column(buffers.len(), |at| buffers[at].bytes),
        // Zero is the ordinal of the session's record, never of a dealloca.
        "deallocated": column(buffers.len(), |at| buffers[at].deallocated.unwrap_or(0)),
    })
}

/// A list of numbers in the narrowest type that has room for all: little-endian, in base64. A list of equal
/// numbers is one.
fn column(count: usize, value: impl Fn(usize) -> u64) -> Value {
    let (mut least, mut greatest) = (u64::MAX, 0);
    for number in (0..count).map(&value) {
        (least, greatest) = (least.min(number), greatest.max(number));
    }
    if count == 0 || least == greatest {
        return json!({ "type": "constant", "count": count, "value": greatest.to_string() });
    }
    let width = match greatest {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    };
    let mut bytes = Vec::with_capacity(count * width);
    for number in (0..count).map(value) {
        bytes.extend_from_slice(&number.to_le_bytes()[..width]);
    }
    json!({ "type": format!("u{}", width * 8), "data": STANDARD.encode(bytes) })
}

fn floats(values: impl Iterator<Item = f64>) -> Value {
    let bytes: Vec<_> = values.flat_map(f64::to_le_bytes).collect();
    json!({ "type": "f64", "data": STANDARD.encode(bytes) })
}

/// A name as text: what is not UTF-8 is replaced, and characters that are invisible or change the direction
/// of what follows are escaped.
pub(super) fn text(bytes: &[u8]) -> String {
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

/// `value` with every string as [`text`] shows it.
pub(super) fn visible(value: Value) -> Value {
    match value {
        Value::String(string) => text(string.as_bytes()).into(),
        Value::Array(values) => values.into_iter().map(visible).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, visible(value))).collect::<Map<_, _>>().into()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_narrowest_type() {
        let of = |numbers: &[u64]| column(numbers.len(), |at| numbers[at]);
        assert_eq!(of(&[]), json!({ "type": "constant", "count": 0, "value": "0" }));
        assert_eq!(of(&[7, 7, 7]), json!({ "type": "constant", "count": 3, "value": "7" }));
        assert_eq!(of(&[0, 255]), json!({ "type": "u8", "data": STANDARD.encode([0, 255]) }));
        assert_eq!(of(&[1, 256]), json!({ "type": "u16", "data": STANDARD.encode([1, 0, 0, 1]) }));
        assert_eq!(of(&[0, 1 << 16])["type"], "u32");
        let wide = json!({ "type": "u64", "data": STANDARD.encode([[0; 8], [255; 8]].concat()) });
        assert_eq!(of(&[0, u64::MAX]), wide);
    }

    #[test]
    fn names_show_what_would_be_invisible() {
        assert_eq!(text(b"matmul \"16x16\" <b>"), "matmul \"16x16\" <b>");
        assert_eq!(text("a\u{202e}b\nc\u{0}\u{feff}".as_bytes()), "a\\u{202e}b\\nc\\u{0}\\u{feff}");
        assert_eq!(text(b"r\xff"), "r\u{fffd}");
    }
}
