//! The report as a JSON object.

use rehal_session::{
    Difference, ElementDifferences, NumberSummary, OutOfBoundsWrite, Outcome, Place, Tolerance, TypeSource,
    Verification,
};
use serde_json::{Value, json};

use super::hex;

pub(super) fn text(outcome: &Verification) -> String {
    format!("{}\n", object(outcome))
}

pub(super) fn object(outcome: &Verification) -> Value {
    json!({
        "outcome": match outcome.outcome() {
            Outcome::Same => "same",
            Outcome::Different => "different",
            Outcome::Inconclusive => "inconclusive",
        },
        "dispatch_count": outcome.dispatch_count,
        "read_count": outcome.read_count,
        "tolerated_count": outcome.tolerated_count,
        "different_count": outcome.different_count,
        "inconclusive": outcome.inconclusive,
        "omitted_reasons": outcome.omitted_reasons,
        "unused_tolerances": outcome.unused_tolerances.iter().map(tolerance).collect::<Vec<_>>(),
        "inferred_types": outcome.inferred_types.iter().map(|it| json!({
            "function": it.function,
            "element_type": it.element_type.to_string(),
            "source": source(it.source),
        })).collect::<Vec<_>>(),
        "unwritten_read_bytes": outcome.unwritten_read_bytes,
        "first_unwritten_read": outcome.first_unwritten_read.as_ref().map(|place| place.record),
        "out_of_bounds_write_count": outcome.out_of_bounds_write_count,
        "out_of_bounds_writes": outcome.out_of_bounds_writes.iter().map(out_of_bounds_write).collect::<Vec<_>>(),
        "omitted_out_of_bounds_writes": outcome.omitted_out_of_bounds_writes,
        "differences": outcome.differences.iter().map(difference).collect::<Vec<_>>(),
        "omitted_differences": outcome.omitted_differences,
        "is_with_captured": outcome.is_with_captured,
        "is_unreproduced": outcome.is_unreproduced,
        "depends_on_order": outcome.depends_on_order,
    })
}

fn source(source: TypeSource) -> &'static str {
    match source {
        TypeSource::Stated => "stated",
        TypeSource::Name => "name",
        TypeSource::Tolerance => "tolerance",
    }
}

fn tolerance(it: &Tolerance) -> Value {
    json!({ "function": it.function, "element_type": it.element_type.to_string() })
}

/// The fields of a place, and those of `rest`.
fn at(place: &Place, rest: Value) -> Value {
    let mut object = json!({
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
    });
    if let (Value::Object(object), Value::Object(rest)) = (&mut object, rest) {
        object.extend(rest);
    }
    object
}

fn out_of_bounds_write(it: &OutOfBoundsWrite) -> Value {
    let rest = json!({
        "buffer_id": it.buffer_id,
        "buffer_size": it.buffer_size,
        "offset": it.offset,
        "length": it.length,
        "binding": it.binding,
        "bound_offset": it.bound.offset,
        "bound_length": it.bound.length,
        "bytes": hex(&it.bytes),
    });
    at(&it.place, rest)
}

fn difference(it: &Difference) -> Value {
    let rest = json!({
        "binding": it.binding,
        "aliases": it.aliases,
        "buffer_id": it.buffer_id,
        "offset": it.range.offset,
        "length": it.range.length,
        "different_offset": it.different.offset,
        "different_length": it.different.length,
        "digest_offset": it.digest_bytes.map(|bytes| bytes.offset),
        "digest_length": it.digest_bytes.map(|bytes| bytes.length),
        "unexpected_bytes": it.unexpected_bytes,
        "element_type": it.element_type.map(|element_type| element_type.to_string()),
        "is_type_inferred": it.type_source != TypeSource::Stated,
        "type_source": it.element_type.map(|_| source(it.type_source)),
        "elements": it.elements.as_ref().map(elements),
        "expected": it.expected.map(numbers),
        "actual": it.actual.map(numbers),
    });
    at(&it.place, rest)
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
