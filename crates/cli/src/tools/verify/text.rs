//! The report as text.

use rehal_judge::{
    Difference, ElementDifferences, Histogram, NumberSummary, OutOfBoundsWrite, Outcome, Place,
    RoundedFunction, RoundingError, TypeSource, Verification,
};

use crate::output::escaped;

/// A sentence, and a paragraph per difference.
pub(in crate::tools) fn report(outcome: &Verification) -> String {
    let mut text = match outcome.outcome() {
        Outcome::Same => format!("the same: {}\n", counts(outcome)),
        Outcome::Different => {
            let differing = match outcome.different_count {
                1 => "1 differs".to_string(),
                count => format!("{count} differ"),
            };
            format!("different: {differing} of {}\n", counts(outcome))
        }
        Outcome::Inconclusive => format!("inconclusive: {} compared\n", counts(outcome)),
    };
    add_reasons(&mut text, outcome);
    for it in &outcome.unmatched {
        let side = if it.is_expected { "only in the other capture" } else { "only in this capture" };
        let what = match &it.function {
            Some(name) => {
                format!("{} of {}", counted(it.count, "dispatch", "dispatches"), escaped(name))
            }
            None => counted(it.count, "host read", "host reads"),
        };
        text.push_str(&format!("  {side}: {what}\n"));
    }
    for it in tolerated(outcome) {
        text.push_str(&format!("  {it}\n"));
    }
    if outcome.is_with_captured {
        text.push_str("expected: a replay with the captured executables, which agrees with the ledger\n");
    }
    if outcome.is_unreproduced {
        text.push_str("not deterministic: a second replay was the same\n");
    }
    if outcome.depends_on_order {
        text.push_str("workgroups race: this is a replay that runs them in reverse order; one in the usual order is the same\n");
    }
    if outcome.is_race {
        text.push_str(
            "race: two replays with this code and the same memory differ: its workgroups depend on each other, or it uses a clock or the like\n",
        );
    }
    add_static_writes(&mut text, outcome);
    let mut last: Option<&Place> = None;
    for difference in &outcome.differences {
        if last != Some(&difference.place) {
            text.push_str(&format!("\n{}\n", place(&difference.place)));
        }
        last = Some(&difference.place);
        add(&mut text, difference, advice(difference));
    }
    add_omitted(&mut text, outcome.omitted_differences, "difference", "differences");
    text
}

/// Which kernels change memory that all workgroups share.
fn add_static_writes(text: &mut String, outcome: &Verification) {
    for it in &outcome.static_writes {
        let (bytes, function) = (counted(it.changed_bytes, "byte", "bytes"), escaped(&it.function));
        text.push_str(&format!(
            "note: {function} changes static variables ({bytes} in record #{}), which workgroups on all threads share\n",
            it.record
        ));
    }
}

/// From where the types are known that something was tolerated by, and what is right up to rounding, a line
/// each.
pub(in crate::tools) fn tolerated(outcome: &Verification) -> impl Iterator<Item = String> {
    let inferred = outcome.inferred_types.iter().map(|it| {
        let source = source(it.source).unwrap_or("as stated");
        format!("tolerated as {}: {} ({source})", it.element_type, escaped(&it.function))
    });
    let rounded =
        outcome.rounding.iter().flat_map(|RoundedFunction { function, element_type, error, .. }| {
            let function = escaped(function);
            let right = format!("right up to rounding: {function} ({element_type}): {}", rounding(error));
            [Some(right), ill_conditioned(error).map(|it| format!("{it}: {function}"))]
        });
    inferred.chain(rounded.flatten())
}

/// The largest difference, as rounding explains it.
fn rounding(it: &RoundingError) -> String {
    let RoundingError { multiple, limit, scale_ulps, .. } = it;
    match multiple {
        Some(multiple) => format!(
            "differs by up to {} times the scale of rounding, {} ULPs (limit {limit})",
            short(*multiple),
            short(*scale_ulps)
        ),
        None => "differs where inputs of other rounding change nothing".into(),
    }
}

/// A number with three digits.
fn short(number: f64) -> String {
    match number {
        0.0 => "0".into(),
        it if (0.01..1e4).contains(&it) => {
            format!("{it:.*}", (2 - it.log10().floor() as i32).max(0) as usize)
        }
        it => format!("{it:.2e}"),
    }
}

fn ill_conditioned(it: &RoundingError) -> Option<String> {
    let moved = short(100.0 * it.relative_scale);
    it.is_ill_conditioned
        .then(|| format!("ill-conditioned: inputs moved by one ULP would move the results by {moved} %"))
}

/// Advice if a difference is one of rounding, unless it is too large.
fn advice(difference: &Difference) -> Option<String> {
    /// More than any sum of numbers that are not ill-conditioned.
    const MOST_ULPS: u64 = 1 << 16;
    let histogram = &difference.elements.as_ref()?.histogram;
    let function = difference.place.function().map_or("*".into(), escaped);
    match difference.element_type {
        None => Some(format!("if the elements are floating-point numbers: --element_type='{function}:f32'")),
        Some(element_type) => {
            let largest = histogram.bins.last().and_then(|it| it.up_to)?;
            let is_rounding = histogram.is_in_ulps && histogram.other_count == 0 && largest <= MOST_ULPS;
            is_rounding
                .then(|| format!("if it is right: --tolerance='{function}:{element_type}:ulp={largest}'"))
        }
    }
}

/// From where a type is known that is not stated.
fn source(source: TypeSource) -> Option<&'static str> {
    match source {
        TypeSource::Stated => None,
        TypeSource::Name => Some("as the function's name says"),
        TypeSource::Tolerance => Some("as the tolerance says"),
    }
}

/// The first difference: where it is, the first element, if it is known, and what to do if it is one of
/// rounding.
pub(in crate::tools) fn first_difference(outcome: &Verification) -> Option<String> {
    let advice = advice(outcome.differences.first()?).map(|it| format!("; {it}")).unwrap_or_default();
    first_element(outcome).map(|it| it + &advice)
}

fn first_element(outcome: &Verification) -> Option<String> {
    let it = outcome.differences.first()?;
    let mut text = format!("record #{}", it.place.record);
    match it.binding {
        Some(binding) => text.push_str(&format!(", binding {binding}")),
        None => text.push_str(", host read"),
    }
    match it.elements.as_ref().and_then(|elements| elements.first.first()) {
        Some(element) => {
            let (index, expected, actual) = (element.index, &element.expected, &element.actual);
            text.push_str(&format!(", element {index}: expected {expected}, got {actual}"));
        }
        None => text.push_str(&format!(", byte {}", it.different.offset)),
    }
    Some(text)
}

fn add_reasons(text: &mut String, outcome: &Verification) {
    for reason in &outcome.inconclusive {
        text.push_str(&format!("  {reason}\n"));
    }
    if outcome.omitted_reasons != 0 {
        text.push_str(&format!("  ... and {}\n", counted(outcome.omitted_reasons, "more", "more")));
    }
}

/// Says how much is not in the report.
fn add_omitted(text: &mut String, count: u64, one: &str, many: &str) {
    if count != 0 {
        text.push_str(&format!("\n... and {count} more {}\n", if count == 1 { one } else { many }));
    }
}

/// The first memory error in a line.
pub(in crate::tools) fn first_memory_error(outcome: &Verification) -> Option<String> {
    match outcome.out_of_bounds_writes.first() {
        Some(write) => Some(format!("record #{} {}", write.place.record, out_of_bounds_write(write))),
        None => first_element(outcome).map(|it| format!("depends on bytes that were never written: {it}")),
    }
}

/// The report of `--watch_memory`.
pub(in crate::tools) fn memory_report(outcome: &Verification) -> String {
    let of = |count: u64, what: &str| counted(count, "dispatch", "dispatches") + what;
    let mut text = match outcome.outcome() {
        Outcome::Same => format!("no memory errors: {}\n", counts(outcome)),
        Outcome::Different => format!("memory errors in {}\n", counts(outcome)),
        Outcome::Inconclusive => format!("inconclusive: no memory errors in {}\n", counts(outcome)),
    };
    add_reasons(&mut text, outcome);
    if outcome.out_of_bounds_write_count != 0 {
        text.push_str(&of(outcome.out_of_bounds_write_count, " wrote outside of the bindings\n"));
    }
    if outcome.different_count != 0 {
        let one = "dispatch or host read depends";
        let count = counted(outcome.different_count, one, "dispatches and host reads depend");
        text.push_str(&format!("{count} on bytes that were never written\n"));
    }
    add_static_writes(&mut text, outcome);
    if let Some(first) = &outcome.first_unwritten_read {
        let bytes = counted(outcome.unwritten_read_bytes, "byte", "bytes");
        let were = if outcome.unwritten_read_bytes == 1 { "was" } else { "were" };
        text.push_str(&format!(
            "{bytes} of host reads, first of {}, {were} never written: padding, or results that are missing\n",
            place(first)
        ));
    }
    for write in &outcome.out_of_bounds_writes {
        text.push_str(&format!("\n{}\n  {}\n", place(&write.place), out_of_bounds_write(write)));
    }
    add_omitted(
        &mut text,
        outcome.omitted_out_of_bounds_writes,
        "out-of-bounds write",
        "out-of-bounds writes",
    );
    for difference in &outcome.differences {
        text.push_str(&format!("\n{}\n", place(&difference.place)));
        text.push_str("  the results with two different contents of unwritten memory and redzones:\n");
        add(&mut text, difference, None);
    }
    add_omitted(&mut text, outcome.omitted_differences, "difference", "differences");
    text
}

fn out_of_bounds_write(it: &OutOfBoundsWrite) -> String {
    let (start, end) = (it.offset, it.offset.saturating_add_unsigned(it.length));
    let size = it.buffer_size;
    let more = if it.length > it.bytes.len() as u64 { "..." } else { "" };
    format!(
        "wrote bytes {start}..{end} of buffer {} ({size} bytes), outside of binding {} (bytes {}..{}): {}{more}",
        it.buffer_id,
        it.binding,
        it.bound.offset,
        it.bound.end(),
        hex::encode(&it.bytes)
    )
}

fn counted(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

fn counts(outcome: &Verification) -> String {
    let dispatches = counted(outcome.dispatch_count, "dispatch", "dispatches");
    let reads = counted(outcome.read_count, "host read", "host reads");
    format!("{dispatches} and {reads}{}", within(outcome))
}

/// How many are not the same to the bit, if some are not.
pub(in crate::tools) fn within(outcome: &Verification) -> String {
    let counts =
        [(outcome.tolerated_count, "within the tolerance"), (outcome.rounded_count, "up to rounding")];
    let some = counts.iter().filter(|(count, _)| *count != 0);
    some.map(|(count, how)| format!(", {count} of them {how}")).collect()
}

fn place(place: &Place) -> String {
    let mut text = format!("record #{}", place.record);
    match &place.dispatch {
        Some(dispatch) => {
            let [x, y, z] = dispatch.workgroup_count;
            let (function, id) = (escaped(&dispatch.function), dispatch.executable_id);
            text.push_str(&format!(": dispatch of {function} (executable {id}), {x}x{y}x{z} workgroups"));
            if place.submission != place.record {
                text.push_str(&format!(", submitted by #{}", place.submission));
            }
            if place.occurrence != 0 {
                text.push_str(&format!(", performed {} before", counted(place.occurrence, "time", "times")));
            }
        }
        None => text.push_str(": host read"),
    }
    if let Some(scope) = &place.scope {
        text.push_str(&format!(", in scope '{}'", escaped(scope)));
    }
    text
}

fn add(text: &mut String, difference: &Difference, advice: Option<String>) {
    let range = difference.range;
    let buffer = difference.buffer_id;
    let what = match difference.binding {
        Some(binding) => {
            let aliases: String = difference.aliases.iter().map(|alias| format!(" = {alias}")).collect();
            format!("binding {binding}{aliases}, buffer {buffer}")
        }
        None => format!("host read of buffer {buffer},"),
    };
    let different = difference.different;
    text.push_str(&format!(
        "  {what} bytes {}..{}: bytes {}..{} of it differ",
        range.offset,
        range.end(),
        different.offset,
        different.end()
    ));
    match difference.unexpected_bytes {
        0 => text.push('\n'),
        count => text.push_str(&format!(", up to {count} of which should not have been written\n")),
    }
    match &difference.elements {
        Some(elements) => {
            let mut element_type = difference.element_type.map_or("byte".into(), |it| it.to_string());
            if let Some(source) = source(difference.type_source) {
                element_type.push_str(&format!(" ({source})"));
            }
            add_elements(text, elements, &element_type);
            let more = [
                elements.rounding.as_ref().map(rounding),
                elements.rounding.as_ref().and_then(ill_conditioned),
                advice,
            ];
            more.iter().flatten().for_each(|it| text.push_str(&format!("      {it}\n")));
            if let Some(bytes) = difference.digest_bytes {
                let (start, end) = (bytes.offset, bytes.end());
                text.push_str(&format!(
                    "    bytes {start}..{end}: only digests of the expected bytes are known\n"
                ));
            }
        }
        None => text.push_str("    only digests of the expected bytes are known\n"),
    }
    add_numbers(text, "expected", difference.expected);
    add_numbers(text, "actual  ", difference.actual);
}

fn add_elements(text: &mut String, elements: &ElementDifferences, element_type: &str) {
    let noun = counted(elements.different_count, "element differs", "elements differ");
    text.push_str(&format!("    {element_type}: {noun}"));
    match elements.tolerated_count {
        0 => text.push('\n'),
        count if elements.rounding.is_some() => {
            text.push_str(&format!(", and {count} by no more than rounding explains\n"));
        }
        count => text.push_str(&format!(", and {count} within the tolerance\n")),
    }
    for element in &elements.first {
        let (index, expected, actual) = (element.index, &element.expected, &element.actual);
        text.push_str(&format!("      [{index}] expected {expected}, got {actual}"));
        let errors = [
            element.ulps.map(|ulps| counted(ulps, "ULP", "ULPs")),
            element.absolute.map(|error| format!("absolute {error:.3e}")),
            element.relative.map(|error| format!("relative {error:.3e}")),
        ];
        let errors: Vec<String> = errors.into_iter().flatten().collect();
        if !errors.is_empty() {
            text.push_str(&format!(": {}", errors.join(", ")));
        }
        text.push('\n');
    }
    if elements.different_count > elements.first.len() as u64 {
        text.push_str(&format!(
            "      ... and {} more\n",
            elements.different_count - elements.first.len() as u64
        ));
    }
    add_histogram(text, &elements.histogram);
}

fn add_histogram(text: &mut String, histogram: &Histogram) {
    let unit = if histogram.is_in_ulps { " ULPs" } else { "" };
    let mut bins: Vec<String> = Vec::new();
    for bin in &histogram.bins {
        bins.push(match bin.up_to {
            Some(1) if histogram.is_in_ulps => format!("up to 1 ULP: {}", bin.count),
            Some(limit) => format!("up to {limit}{unit}: {}", bin.count),
            None => format!("more: {}", bin.count),
        });
    }
    if histogram.other_count != 0 && histogram.is_in_ulps {
        bins.push(format!("NaN: {}", histogram.other_count));
    }
    if !bins.is_empty() {
        text.push_str(&format!("      errors: {}\n", bins.join("; ")));
    }
}

fn add_numbers(text: &mut String, name: &str, numbers: Option<NumberSummary>) {
    if let Some(it) = numbers {
        text.push_str(&format!(
            "    {name}: {} finite from {:e} to {:e}, mean {:e}; {} NaN, {} infinite\n",
            it.finite_count, it.minimum, it.maximum, it.mean, it.nan_count, it.infinity_count
        ));
    }
}
