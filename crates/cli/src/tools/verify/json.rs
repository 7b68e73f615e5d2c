//! The report as a JSON object.

use rehal_session::{Difference, ElementDifferences, NumberSummary, Outcome, Verification};
use serde_json::{Value, json};

pub(super) fn text(outcome: &Verification) -> String {
    let object = json!({
        "outcome": match outcome.outcome() {
            Outcome::Same => "same",
            Outcome::Different => "different",
            Outcome::Undecided => "undecided",
        },
        "dispatch_count": outcome.dispatch_count,
        "read_count": outcome.read_count,
        "tolerated_count": outcome.tolerated_count,
        "different_count": outcome.different_count,
        "undecided": outcome.undecided,
        "differences": outcome.differences.iter().map(difference).collect::<Vec<_>>(),
    });
    format!("{object}\n")
}

fn difference(it: &Difference) -> Value {
    let place = &it.place;
    json!({
        "record": place.record,
        "record_offset": place.record_offset,
        "submission": place.submission,
        "occurrence": place.occurrence,
        "scope": place.scope,
        "dispatch": place.dispatch.as_ref().map(|dispatch| json!({
            "executable_id": dispatch.executable_id,
            "function": dispatch.function,
            "workgroup_count": dispatch.workgroup_count,
        })),
        "binding": it.binding,
        "aliases": it.aliases,
        "buffer_id": it.buffer_id,
        "offset": it.range.offset,
        "length": it.range.length,
        "different_offset": it.different.offset,
        "different_length": it.different.length,
        "unexpected_bytes": it.unexpected_bytes,
        "element_type": it.element_type.map(|element_type| element_type.to_string()),
        "elements": it.elements.as_ref().map(elements),
        "expected": it.expected.map(numbers),
        "actual": it.actual.map(numbers),
    })
}

fn elements(it: &ElementDifferences) -> Value {
    let first = it.first.iter().map(|element| {
        json!({
            "index": element.index,
            "expected": element.expected,
            "actual": element.actual,
            "ulps": element.ulps,
            "absolute": element.absolute,
            "relative": element.relative,
        })
    });
    let bins = it.histogram.bins.iter().map(|bin| json!({ "up_to": bin.up_to, "count": bin.count }));
    json!({
        "compared_count": it.compared_count,
        "different_count": it.different_count,
        "tolerated_count": it.tolerated_count,
        "first": first.collect::<Vec<_>>(),
        "histogram": {
            "unit": if it.histogram.is_in_ulps { "ulp" } else { "absolute" },
            "bins": bins.collect::<Vec<_>>(),
            "other_count": it.histogram.other_count,
        },
    })
}

fn numbers(it: NumberSummary) -> Value {
    json!({
        "minimum": it.minimum,
        "maximum": it.maximum,
        "mean": it.mean,
        "finite_count": it.finite_count,
        "nan_count": it.nan_count,
        "infinity_count": it.infinity_count,
    })
}
