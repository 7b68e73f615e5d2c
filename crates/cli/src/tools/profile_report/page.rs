//! The page: one HTML file with its style, script and data, which loads nothing.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rehal::capture::BufferColumns;
use rehal_base::{Error, Result};
use rehal_profile::activity::{ActivityColumns, GraphColumns, SessionText, text};
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::report::write_json;

const TEMPLATE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");

/// The parts of the script, in order: each uses only what precedes it.
const SCRIPT: [&str; 9] = [
    include_str!("page/data.js"),
    include_str!("page/view.js"),
    include_str!("page/table.js"),
    include_str!("page/timeline.js"),
    include_str!("page/series.js"),
    include_str!("page/graph.js"),
    include_str!("page/summary.js"),
    include_str!("page/filter.js"),
    include_str!("page/main.js"),
];

/// The page of a profile, or of a capture.
#[derive(Serialize)]
pub(super) struct Page {
    pub title: String,
    pub notes: Vec<String>,
    pub activity: ActivityColumns,
    pub graph: GraphColumns,
    #[serde(flatten)]
    pub file: PageFile,
}

/// The part of a page that depends on the kind of the file.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum PageFile {
    Profile { version: String, size_bytes: u64, sessions: Vec<SessionText> },
    Capture { buffers: Box<BufferColumns>, costs: Value, contents: Value },
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

/// Writes the page that shows `data`.
pub(super) fn write(data: &impl Serialize, sink: &mut dyn Write) -> Result<()> {
    let script = SCRIPT.concat();
    for piece in pieces(TEMPLATE) {
        match piece {
            Piece::Text(text) => put(sink, text)?,
            Piece::Slot("policy") => put(sink, &policy(&script))?,
            Piece::Slot("style") => put(sink, STYLE)?,
            Piece::Slot("script") => put(sink, &script)?,
            Piece::Slot(_) => put(sink, &data_text(data)?)?,
        }
    }
    Ok(())
}

fn put(sink: &mut dyn Write, text: &str) -> Result<()> {
    sink.write_all(text.as_bytes()).map_err(|error| Error::io("writing the page", &error))
}

/// A part of the template.
enum Piece<'t> {
    Text(&'t str),
    /// The name in `{{name}}`.
    Slot(&'t str),
}

fn pieces(template: &str) -> impl Iterator<Item = Piece<'_>> {
    template
        .split("{{")
        .enumerate()
        .flat_map(|(index, part)| match part.split_once("}}") {
            Some((name, text)) if index > 0 => [Some(Piece::Slot(name)), Some(Piece::Text(text))],
            _ => [Some(Piece::Text(part)), None],
        })
        .flatten()
}

/// The content security policy: nothing is loaded, and only this script and this style apply, whatever the
/// data contains.
fn policy(script: &str) -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash(script),
        hash(STYLE)
    )
}

/// JSON for a script element: without `<`, nothing in it can end the element or begin a comment.
fn data_text(data: &impl Serialize) -> Result<String> {
    let mut text = Vec::new();
    write_json(data, true, &mut text).map_err(|error| Error::io("writing the page", &error))?;
    Ok(String::from_utf8_lossy(&text).trim_end().replace('<', "\\u003c"))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn page(data: &Value) -> String {
        let mut page = Vec::new();
        write(data, &mut page).unwrap();
        String::from_utf8(page).unwrap()
    }

    #[test]
    fn data_cannot_leave_its_element() {
        let hostile = "</script><script>alert(1)</script><!--{{style}}";
        let page = page(&serde_json::json!({ "title": hostile }));
        assert_eq!(page.matches("</script").count(), 2, "that of the data and that of the script");
        assert!(!page.contains("<!--") && page.contains("{{style}}"), "data is not a template");
        let (_, data) = page.split_once("id=\"data\">").unwrap();
        let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
        assert_eq!(data["title"], hostile);
    }

    #[test]
    fn the_page_names_no_other_resource() {
        let page = page(&Value::Null);
        for word in
            ["http:", "https:", "src=", "@import", "url(", "innerHTML", "eval(", "XMLHttpRequest", "fetch("]
        {
            assert!(!page.contains(word), "{word}");
        }
        assert!(page.contains("default-src 'none'; script-src 'sha256-"));
        assert!(SCRIPT.iter().all(|part| !part.contains("</") && !part.contains("<!--")));
    }
}
