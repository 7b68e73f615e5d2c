//! Fields of lowering configurations in the text of a dispatch, such as
//! `#iree_cpu.lowering_config<distribution = [64, 64, 0], vector_common_parallel = [8, 32, 0]>`.
//!
//! A text is edited in place, since only the compiler can print what it reads.

use std::collections::BTreeSet;
use std::ops::Range;

use rehal_base::{Error, Result, nearest};
use serde_json::Value;

const CONFIG: &str = "lowering_config<";

/// A field, or an element of its list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfigField {
    name: String,
    indices: Vec<usize>,
}

impl ConfigField {
    /// Parses `FIELD` or `FIELD[0][1]`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (name, mut rest) = text.split_at(text.find('[').unwrap_or(text.len()));
        let mut indices = Vec::new();
        while !rest.is_empty() {
            let (index, after) = rest.strip_prefix('[')?.split_once(']')?;
            indices.push(index.parse().ok()?);
            rest = after;
        }
        let is_name = !name.is_empty() && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
        is_name.then(|| Self { name: name.to_owned(), indices })
    }
}

/// A configuration in a text.
struct Config<'t> {
    /// The text between its brackets.
    body: Range<usize>,
    text: &'t str,
    /// The operations that have it.
    operations: BTreeSet<&'t str>,
}

impl Config<'_> {
    fn body(&self) -> &str {
        &self.text[self.body.clone()]
    }

    /// The names of its fields, with the places of their values in the text.
    fn fields(&self) -> Vec<(&str, Range<usize>)> {
        let mut body = self.body.clone();
        // Those of GPUs are dictionaries.
        if let Some(inner) = self.body().trim().strip_prefix('{').and_then(|it| it.strip_suffix('}')) {
            let at = body.start + self.body().find('{').map_or(0, |it| it + 1);
            body = at..at + inner.len();
        }
        let parts = split(self.text, body);
        let field = |part: Range<usize>| {
            let (name, value) = self.text[part.clone()].split_once('=')?;
            let start = part.end - value.len();
            Some((name.trim().trim_matches('"'), trimmed(self.text, start..part.end)))
        };
        parts.into_iter().filter_map(field).collect()
    }
}

/// The places in a text of the value of a field.
pub(super) fn find(text: &str, field: &ConfigField, operation: Option<&str>) -> Result<Vec<Range<usize>>> {
    let all = configs(text);
    if all.is_empty() {
        return Err(Error::not_found("the base has no lowering configuration").advise(
            "name a dispatch of which the lowering is decided: the compiler dumps it as a configuration",
        ));
    }
    let is_meant = |it: &&Config<'_>| operation.is_none_or(|wanted| it.operations.contains(wanted));
    let has_field = |it: &&Config<'_>| it.fields().iter().any(|(name, _)| *name == field.name);
    let meant: Vec<_> = all.iter().filter(is_meant).filter(has_field).collect();
    let Some(first) = meant.first() else { return Err(missing(&all, field, operation)) };
    if let Some(other) = meant.iter().find(|it| it.body() != first.body()) {
        let names = |it: &Config<'_>| it.operations.iter().copied().collect::<Vec<_>>().join(", ");
        let message = format!(
            "several lowering configurations have the field '{}': of {}, and of {}",
            field.name,
            names(first),
            names(other)
        );
        return Err(Error::invalid_argument(message)
            .advise("say which one with operation = \"...\", as the base names it"));
    }
    let place = |config: &&Config<'_>| {
        let fields = config.fields();
        let (_, value) = fields.iter().find(|(name, _)| *name == field.name)?;
        element(text, value.clone(), &field.indices)
    };
    meant.iter().map(place).collect::<Option<Vec<_>>>().ok_or_else(|| {
        let value = first.fields().into_iter().find(|(name, _)| *name == field.name).map(|it| &text[it.1]);
        let message = format!("'{}' has no such element: it is {}", field.name, value.unwrap_or_default());
        Error::invalid_argument(message).advise("name an element of the list, from [0]")
    })
}

/// The text with another value of a field.
pub(super) fn set(text: &str, field: &ConfigField, operation: Option<&str>, value: &Value) -> Result<String> {
    let mut edited = text.to_owned();
    let places = find(text, field, operation)?;
    places.into_iter().rev().for_each(|place| edited.replace_range(place, &printed(value)));
    Ok(edited)
}

fn missing(all: &[Config<'_>], field: &ConfigField, operation: Option<&str>) -> Error {
    let names: BTreeSet<&str> = all.iter().flat_map(|it| it.fields()).map(|(name, _)| name).collect();
    let of = operation.map_or_else(String::new, |it| format!(" of '{}'", it.escape_debug()));
    let error = Error::not_found(format!("no lowering configuration{of} has a field '{}'", field.name));
    let listed: Vec<_> = names.iter().copied().collect();
    let operations: BTreeSet<&str> = all.iter().flat_map(|it| it.operations.iter().copied()).collect();
    let operations: Vec<_> = operations.into_iter().collect();
    let known = format!("the fields are {}; the operations are {}", listed.join(", "), operations.join(", "));
    error.advise(match nearest(&field.name, names.into_iter()) {
        Some(meant) if meant != field.name => format!("did you mean {meant}? {known}"),
        _ => known,
    })
}

/// The configurations of a text, in order.
fn configs(text: &str) -> Vec<Config<'_>> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(CONFIG) {
        let start = at + CONFIG.len();
        let Some(end) = closing(text, start) else { continue };
        let line_start = text[..at].rfind('\n').map_or(0, |it| it + 1);
        let line = &text[line_start..text[at..].find('\n').map_or(text.len(), |it| at + it)];
        // `#config = #iree_cpu.lowering_config<...>`
        let alias = line.trim_start().strip_prefix('#').and_then(|it| it.split_once(" = #"));
        let operations = match alias {
            Some((name, _)) => text.lines().filter(|it| uses(it, name)).filter_map(operation_of).collect(),
            None => operation_of(line).into_iter().collect(),
        };
        found.push(Config { body: start..end, text, operations });
    }
    found
}

/// Whether the operation of a line has the configuration of an alias.
fn uses(line: &str, alias: &str) -> bool {
    let mut after = line.split("lowering_config = #").skip(1);
    after.any(|it| {
        it.strip_prefix(alias).is_some_and(|it| !it.starts_with(|it: char| it.is_alphanumeric() || it == '_'))
    })
}

/// The name of the operation on a line: `%0 = linalg.matmul {...}`.
fn operation_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = match line.starts_with('%') {
        true => line.split_once(" = ")?.1,
        false => line,
    };
    let end = text.find(|it: char| !it.is_alphanumeric() && !"_.".contains(it)).unwrap_or(text.len());
    (end != 0 && text[..end].contains('.')).then(|| &text[..end])
}

/// The end of what a bracket before `start` encloses.
fn closing(text: &str, start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut is_quoted = false;
    let mut last = b' ';
    for (index, byte) in text.bytes().enumerate().skip(start) {
        match byte {
            b'"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            b'<' | b'[' | b'{' | b'(' => depth += 1,
            // That of an arrow closes nothing.
            b'>' if last == b'-' => {}
            b'>' | b']' | b'}' | b')' => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return Some(index),
            },
            _ => {}
        }
        last = byte;
    }
    None
}

/// The parts of a range that commas separate, outside of brackets.
fn split(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let (mut parts, mut start, mut at) = (Vec::new(), range.start, range.start);
    let bytes = text.as_bytes();
    while at < range.end {
        match bytes[at] {
            b'<' | b'[' | b'{' | b'(' => at = closing(text, at + 1).unwrap_or(range.end),
            b',' => {
                parts.push(start..at);
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    if !text[start..range.end].trim().is_empty() {
        parts.push(start..range.end);
    }
    parts
}

fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = &text[range.clone()];
    let start = range.start + (part.len() - part.trim_start().len());
    start..start + part.trim().len()
}

/// The place of an element of nested lists.
fn element(text: &str, value: Range<usize>, indices: &[usize]) -> Option<Range<usize>> {
    let Some((index, rest)) = indices.split_first() else { return Some(value) };
    let is_list = text[value.clone()].starts_with('[') && text[value.clone()].ends_with(']');
    let part = is_list.then(|| split(text, value.start + 1..value.end - 1))?.get(*index)?.clone();
    element(text, trimmed(text, part), rest)
}

/// A value as MLIR has it; text stays as it is.
fn printed(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(printed).collect::<Vec<_>>().join(", ")),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = r#"#config = #iree_cpu.lowering_config<cache_parallel = [64, 64, 0], distribution = [64, [64], 0]>
#map = affine_map<(d0) -> (d0)>
  func.func @f() attributes {translation_info = #iree_codegen.translation_info<pipeline = X, {a = true}>} {
    %1 = linalg.fill {lowering_config = #iree_cpu.lowering_config<vector = [8, 32]>} ins(%c : f32)
    %2 = linalg.matmul {lowering_config = #config} ins(%a, %b : tensor<8xf32>)
    linalg.generic {indexing_maps = [#map]} attrs = {lowering_config = #iree_codegen.lowering_config<tile_sizes = [[1, 2], [3, 4]]>} {
    %4 = linalg.mmt4d {lowering_config = #iree_gpu.lowering_config<{"workgroup" = [1, 2], m = affine_map<(d0) -> (d0)>, vector = [9]}>} ins(%a)
"#;

    fn edited(field: &str, operation: Option<&str>, value: &Value) -> Result<String> {
        set(TEXT, &ConfigField::parse(field).unwrap(), operation, value)
    }

    #[test]
    fn fields_and_elements_are_replaced() {
        for (field, operation, value, expected) in [
            ("distribution", None, json!([8, 8, 0]), "distribution = [8, 8, 0]>"),
            ("distribution[1]", None, json!("[16]"), "distribution = [64, [16], 0]>"),
            ("distribution[2]", Some("linalg.matmul"), json!(4), "distribution = [64, [64], 4]>"),
            ("cache_parallel", None, json!([1]), "<cache_parallel = [1], distribution"),
            ("tile_sizes[1][0]", None, json!(7), "tile_sizes = [[1, 2], [7, 4]]>"),
            ("workgroup[1]", None, json!(7), "\"workgroup\" = [1, 7], m = affine_map<(d0) -> (d0)>,"),
            ("vector", Some("linalg.mmt4d"), json!([3]), "vector = [3]}>"),
            ("vector", Some("linalg.fill"), json!([3, 4]), "vector = [3, 4]>}"),
        ] {
            let text = edited(field, operation, &value).unwrap();
            assert!(text.contains(expected), "{field}: {text}");
            assert_eq!(
                text.lines().zip(TEXT.lines()).filter(|(one, other)| one != other).count(),
                1,
                "{field}"
            );
        }
    }

    #[test]
    fn what_is_not_one_field_is_refused() {
        for (field, operation, expected) in [
            ("vector", None, "several lowering configurations have the field 'vector': of linalg.fill"),
            (
                "vectr",
                None,
                "did you mean vector? the fields are cache_parallel, distribution, m, tile_sizes",
            ),
            (
                "vector",
                Some("linalg.matmul"),
                "the operations are linalg.fill, linalg.generic, linalg.matmul",
            ),
            ("distribution[3]", None, "it is [64, [64], 0]"),
            ("distribution[0][0]", None, "has no such element"),
        ] {
            let report = edited(field, operation, &json!(1)).unwrap_err().report();
            assert!(report.contains(expected), "{field}: {report}");
        }
        assert!(set("module {}", &ConfigField::parse("a").unwrap(), None, &json!(1)).is_err());
        for text in ["", "[0]", "a[", "a[x]", "a[0", "a b", "a[0]b"] {
            assert_eq!(ConfigField::parse(text), None, "{text}");
        }
    }

    #[test]
    fn damaged_text_is_read_to_its_end() {
        for end in 0..TEXT.len() {
            for config in configs(&TEXT[..end]) {
                config.fields();
            }
        }
    }
}
