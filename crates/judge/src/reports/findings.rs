//! What a verification found, as JSON.

use serde::{Serialize, Serializer};

use crate::{
    Difference, ElementDifference, ElementDifferences, HistogramBin, NumberSummary, OutOfBoundsWrite,
    Outcome, Place, RoundingError, StaticWrite, TypeSource, Unmatched, Verification,
};

/// What a verification found; see the guide of `rehal verify`. A comparison has several.
#[derive(Serialize)]
pub struct Findings<'a> {
    outcome: &'static str,
    dispatch_count: u64,
    read_count: u64,
    tolerated_count: u64,
    rounded_count: u64,
    rounding: Vec<Rounded<'a>>,
    different_count: u64,
    inconclusive: &'a [String],
    omitted_reasons: u64,
    unused_tolerances: Vec<FunctionType<'a>>,
    inferred_types: Vec<InferredType<'a>>,
    unwritten_read_bytes: u64,
    /// Its record.
    first_unwritten_read: Option<u32>,
    out_of_bounds_write_count: u64,
    #[serde(serialize_with = "writes")]
    out_of_bounds_writes: &'a [OutOfBoundsWrite],
    omitted_out_of_bounds_writes: u64,
    #[serde(serialize_with = "differences")]
    differences: &'a [Difference],
    omitted_differences: u64,
    is_with_captured: bool,
    is_unreproduced: bool,
    depends_on_order: bool,
    is_race: bool,
    static_writes: &'a [StaticWrite],
}

/// The whole report of a verification.
#[derive(Serialize)]
pub struct VerifyReport<'a> {
    #[serde(flatten)]
    findings: Findings<'a>,
    unmatched: &'a [Unmatched],
}

impl<'a> VerifyReport<'a> {
    /// Name and version of its JSON.
    pub const SCHEMA: &'static str = "rehal.verify/1";

    /// The report of a verification.
    pub fn from_verification(it: &'a Verification) -> Self {
        Self { findings: Findings::from_verification(it), unmatched: &it.unmatched }
    }
}

#[derive(Serialize)]
struct FunctionType<'a> {
    function: &'a str,
    element_type: String,
}

#[derive(Serialize)]
struct InferredType<'a> {
    #[serde(flatten)]
    of: FunctionType<'a>,
    source: &'static str,
}

#[derive(Serialize)]
struct Rounded<'a> {
    #[serde(flatten)]
    of: FunctionType<'a>,
    #[serde(flatten)]
    error: RoundingError,
}

impl<'a> Findings<'a> {
    /// The findings of a verification.
    pub fn from_verification(it: &'a Verification) -> Self {
        let function_type = |function: &'a str, element_type: rehal_base::ElementType| FunctionType {
            function,
            element_type: element_type.to_string(),
        };
        let inferred = it.inferred_types.iter().map(|it| InferredType {
            of: function_type(&it.function, it.element_type),
            source: source(it.source),
        });
        let rounding = it
            .rounding
            .iter()
            .map(|it| Rounded { of: function_type(&it.function, it.element_type), error: it.error });
        let unused = it.unused_tolerances.iter().map(|it| function_type(&it.function, it.element_type));
        Self {
            outcome: match it.outcome() {
                Outcome::Same => "same",
                Outcome::Different => "different",
                Outcome::Inconclusive => "inconclusive",
            },
            dispatch_count: it.dispatch_count,
            read_count: it.read_count,
            tolerated_count: it.tolerated_count,
            rounded_count: it.rounded_count,
            rounding: rounding.collect(),
            different_count: it.different_count,
            inconclusive: &it.inconclusive,
            omitted_reasons: it.omitted_reasons,
            unused_tolerances: unused.collect(),
            inferred_types: inferred.collect(),
            unwritten_read_bytes: it.unwritten_read_bytes,
            first_unwritten_read: it.first_unwritten_read.as_ref().map(|place| place.record),
            out_of_bounds_write_count: it.out_of_bounds_write_count,
            out_of_bounds_writes: &it.out_of_bounds_writes,
            omitted_out_of_bounds_writes: it.omitted_out_of_bounds_writes,
            differences: &it.differences,
            omitted_differences: it.omitted_differences,
            is_with_captured: it.is_with_captured,
            is_unreproduced: it.is_unreproduced,
            depends_on_order: it.depends_on_order,
            is_race: it.is_race,
            static_writes: &it.static_writes,
        }
    }
}

fn source(source: TypeSource) -> &'static str {
    match source {
        TypeSource::Stated => "stated",
        TypeSource::Name => "name",
        TypeSource::Tolerance => "tolerance",
    }
}

fn writes<S: Serializer>(writes: &[OutOfBoundsWrite], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Row<'a> {
        #[serde(flatten)]
        place: &'a Place,
        buffer_id: u64,
        buffer_size: u64,
        offset: i64,
        length: u64,
        binding: u32,
        bound_offset: u64,
        bound_length: u64,
        bytes: String,
    }
    serializer.collect_seq(writes.iter().map(|it| Row {
        place: &it.place,
        buffer_id: it.buffer_id,
        buffer_size: it.buffer_size,
        offset: it.offset,
        length: it.length,
        binding: it.binding,
        bound_offset: it.bound.offset,
        bound_length: it.bound.length,
        bytes: hex::encode(&it.bytes),
    }))
}

fn differences<S: Serializer>(differences: &[Difference], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Row<'a> {
        #[serde(flatten)]
        place: &'a Place,
        binding: Option<u32>,
        aliases: &'a [u32],
        buffer_id: u64,
        offset: u64,
        length: u64,
        different_offset: u64,
        different_length: u64,
        digest_offset: Option<u64>,
        digest_length: Option<u64>,
        unexpected_bytes: u64,
        element_type: Option<String>,
        is_type_inferred: bool,
        type_source: Option<&'static str>,
        elements: Option<Elements<'a>>,
        expected: Option<NumberSummary>,
        actual: Option<NumberSummary>,
    }
    serializer.collect_seq(differences.iter().map(|it| Row {
        place: &it.place,
        binding: it.binding,
        aliases: &it.aliases,
        buffer_id: it.buffer_id,
        offset: it.range.offset,
        length: it.range.length,
        different_offset: it.different.offset,
        different_length: it.different.length,
        digest_offset: it.digest_bytes.map(|bytes| bytes.offset),
        digest_length: it.digest_bytes.map(|bytes| bytes.length),
        unexpected_bytes: it.unexpected_bytes,
        element_type: it.element_type.map(|element_type| element_type.to_string()),
        is_type_inferred: it.type_source != TypeSource::Stated,
        type_source: it.element_type.map(|_| source(it.type_source)),
        elements: it.elements.as_ref().map(Elements::from_differences),
        expected: it.expected,
        actual: it.actual,
    }))
}

#[derive(Serialize)]
struct Elements<'a> {
    compared_count: u64,
    different_count: u64,
    tolerated_count: u64,
    rounding: Option<RoundingError>,
    first: &'a [ElementDifference],
    histogram: Errors<'a>,
}

#[derive(Serialize)]
struct Errors<'a> {
    unit: &'static str,
    bins: &'a [HistogramBin],
    other_count: u64,
}

impl<'a> Elements<'a> {
    fn from_differences(it: &'a ElementDifferences) -> Self {
        Self {
            compared_count: it.compared_count,
            different_count: it.different_count,
            tolerated_count: it.tolerated_count,
            rounding: it.rounding,
            first: &it.first,
            histogram: Errors {
                unit: if it.histogram.is_in_ulps { "ulp" } else { "absolute" },
                bins: &it.histogram.bins,
                other_count: it.histogram.other_count,
            },
        }
    }
}
