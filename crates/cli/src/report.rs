//! Reports of verbs: one struct each, printed as JSON by serde, or as text.
//!
//! Every JSON document begins with a header that says what it was measured on. It is made only for JSON: the
//! load of the machine is that at the start of the tool, and the rest is found when the document is printed.

use std::cell::{Cell, OnceCell};
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use rehal_base::{Error, FileKind, Result};
use rehal_capture::CaptureBytes;
use rehal_hal::DeviceGroup;
use rehal_judge::{Host, capture_digest};
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

use crate::table::{Layout, quoted};
use crate::{Invocation, advice, output};

/// A report, with the data of both formats.
pub(crate) trait Report: Serialize {
    /// Name and version of its JSON, such as `rehal.info/1`. The version grows if a key or its meaning
    /// changes.
    const SCHEMA: &'static str;
    /// Whether its JSON is one line; otherwise it is indented.
    const IS_ON_A_LINE: bool;

    /// The report for people.
    fn text(&self, layout: Layout) -> String;
}

/// The formats that every report has.
#[derive(Clone, Copy)]
pub(crate) enum Format {
    Text,
    Json,
}

/// The subject of a report.
#[derive(Clone, Copy, Default)]
pub(crate) struct Subject<'s> {
    /// The capture; `None` without one, and if the report names several.
    pub capture: Option<&'s CaptureBytes>,
    /// Where it ran; `None` if nothing did.
    pub devices: Option<&'s DeviceGroup>,
}

/// The header of a JSON document: versions and the machine.
#[derive(Serialize)]
pub(crate) struct Header<'a> {
    schema: &'static str,
    /// The version of rehal.
    version: &'static str,
    /// The commit that it was built from; `unknown` for sources without a repository.
    commit: &'static str,
    /// The BLAKE3 of the capture.
    capture_digest: Option<String>,
    device: Option<Vec<String>>,
    cpu: &'a str,
    host: &'a str,
    load: Load,
    /// The command line, without the name of the program.
    flags: &'a [String],
}

/// The load of the machine when the tool started.
#[derive(Serialize)]
struct Load {
    /// Over 1, 5 and 15 minutes.
    average: Option<[f64; 3]>,
    processors: u64,
}

/// Where and how a tool was started.
pub(crate) struct Origin {
    host: OnceCell<Host>,
    flags: Vec<String>,
}

impl Origin {
    pub(crate) fn new(arguments: &[OsString]) -> Self {
        let flags = arguments.iter().map(|it| it.to_string_lossy().into_owned()).collect();
        Self { host: OnceCell::new(), flags }
    }

    /// The machine, with its load at the first call.
    pub(crate) fn host(&self) -> &Host {
        self.host.get_or_init(Host::now)
    }

    pub(crate) fn header(&self, schema: &'static str, subject: Subject<'_>) -> Header<'_> {
        let host = self.host();
        Header {
            schema,
            version: env!("CARGO_PKG_VERSION"),
            commit: env!("REHAL_COMMIT"),
            capture_digest: subject.capture.map(|capture| hex::encode(capture_digest(capture))),
            device: subject.devices.map(names),
            cpu: &host.cpu,
            host: &host.name,
            load: Load { average: host.load_average, processors: host.processors },
            flags: &self.flags,
        }
    }

    /// The parts of a header that the context of a benchmark does not have by itself, if they are known.
    pub(crate) fn context(&self, subject: Subject<'_>) -> impl Iterator<Item = (&'static str, String)> {
        let header = self.header("", subject);
        let flags: Vec<_> = header.flags.iter().map(|it| quoted(it)).collect();
        let known = [
            ("commit", Some(header.commit.to_owned())),
            ("capture_digest", header.capture_digest),
            ("device", header.device.map(|devices| devices.join(", "))),
            ("cpu", Some(header.cpu.to_owned())),
            ("flags", Some(flags.join(" "))),
        ];
        known.into_iter().filter_map(|(key, value)| Some((key, value?)))
    }
}

/// The devices by driver, and by name if that says more.
fn names(devices: &DeviceGroup) -> Vec<String> {
    let name = |info: &rehal_hal::DeviceInfo| match info.name == info.driver {
        true => info.driver.clone(),
        false => format!("{}: {}", info.driver, info.name),
    };
    devices.devices().iter().map(|device| name(device.info())).collect()
}

/// A report with its header.
#[derive(Serialize)]
struct Document<'a, R> {
    header: Header<'a>,
    #[serde(flatten)]
    report: &'a R,
}

impl Invocation {
    /// Prints a report.
    pub(crate) fn print<R: Report>(&self, report: &R, format: Format, subject: Subject<'_>) -> Result<()> {
        match format {
            Format::Text => output::print(&report.text(Layout::for_stdout())),
            Format::Json => output::written(self.write_json(report, subject, output::stdout()?)),
        }
    }

    /// A report as it is printed, for tools that choose where.
    pub(crate) fn render<R: Report>(
        &self,
        report: &R,
        format: Format,
        subject: Subject<'_>,
    ) -> Result<String> {
        match format {
            Format::Text => Ok(report.text(Layout::for_stdout())),
            Format::Json => {
                let mut text = Vec::new();
                output::written(self.write_json(report, subject, &mut text))?;
                Ok(String::from_utf8_lossy(&text).into_owned())
            }
        }
    }

    /// A report with its header as JSON on a line.
    pub(crate) fn line<R: Serialize>(
        &self,
        schema: &'static str,
        report: &R,
        subject: Subject<'_>,
    ) -> Result<String> {
        let mut text = Vec::new();
        let document = Document { header: self.origin.header(schema, subject), report };
        output::written(write_json(&document, true, &mut text))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// A header by itself, for tools that write many lines.
    pub(crate) fn header(&self, schema: &'static str, subject: Subject<'_>) -> Result<serde_json::Value> {
        let header = serde_json::to_value(self.origin.header(schema, subject));
        header.map_err(|error| Error::io("writing a header", &error.into()))
    }

    fn write_json<R: Report>(&self, report: &R, subject: Subject<'_>, out: impl Write) -> io::Result<()> {
        let document = Document { header: self.origin.header(R::SCHEMA, subject), report };
        write_json(&document, R::IS_ON_A_LINE, out)
    }
}

/// A report in each format, without a header, for the fuzzer.
pub(crate) fn formats<R: Report>(report: &R) -> Result<[String; 2]> {
    let mut json = Vec::new();
    output::written(write_json(report, R::IS_ON_A_LINE, &mut json))?;
    Ok([report.text(Layout::PIPE), String::from_utf8_lossy(&json).into_owned()])
}

/// Writes JSON piece by piece, since a report may have millions of rows, and a line feed.
pub(crate) fn write_json(value: &impl Serialize, is_on_a_line: bool, mut out: impl Write) -> io::Result<()> {
    // Serializers are large, so each report is compiled for one kind of writer and one formatter.
    let out: &mut dyn Write = &mut out;
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let pretty = (!is_on_a_line).then(PrettyFormatter::new);
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, LineOrIndented(pretty)))?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Writes JSON on a line, or as the formatter does.
struct LineOrIndented(Option<PrettyFormatter<'static>>);

macro_rules! as_either {
    ($($function:ident($($first:ident)?);)*) => {$(
        fn $function<W: Write + ?Sized>(&mut self, out: &mut W $(, $first: bool)?) -> io::Result<()> {
            match &mut self.0 {
                None => CompactFormatter.$function(out $(, $first)?),
                Some(pretty) => pretty.$function(out $(, $first)?),
            }
        }
    )*};
}

impl Formatter for LineOrIndented {
    as_either! {
        begin_array();
        end_array();
        begin_array_value(first);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first);
        begin_object_value();
        end_object_value();
    }
}

/// Errors as JSON, if that is the format of the report that they prevent. Their text goes to standard error.
pub(crate) struct ErrorReports<'o> {
    /// `None` for errors as text only.
    origin: Option<&'o Origin>,
    is_printed: Cell<bool>,
}

#[derive(Serialize)]
struct Failure<'a> {
    header: Header<'a>,
    error: FailureError<'a>,
}

/// An error as JSON.
#[derive(Serialize)]
pub(crate) struct FailureError<'a> {
    code: &'static str,
    message: &'a str,
    /// Where it happened, the outermost first.
    context: &'a [String],
    advice: Option<String>,
}

impl<'a> FailureError<'a> {
    pub(crate) fn new(error: &'a Error) -> Self {
        Self {
            code: error.code().name(),
            message: error.message(),
            context: error.context_lines(),
            advice: advice::of(error),
        }
    }
}

impl<'o> ErrorReports<'o> {
    pub(crate) fn new(origin: Option<&'o Origin>) -> Self {
        Self { origin, is_printed: Cell::new(false) }
    }

    /// Prints an error of the tool, unless one is printed. `path` may be that of its capture.
    pub(crate) fn print(&self, error: &Error, path: Option<&Path>) {
        let Some(origin) = self.origin.filter(|_| !self.is_printed.replace(true)) else { return };
        let capture = path.and_then(|path| CaptureBytes::map(path).ok());
        let capture = capture.filter(|it| FileKind::from_head(it.as_slice()) == Some(FileKind::Capture));
        let failure = Failure {
            header: origin.header("rehal.error/1", Subject { capture: capture.as_ref(), devices: None }),
            error: FailureError::new(error),
        };
        // If standard output is lost, the text and the exit status remain.
        let _ = output::stdout().map(|stdout| write_json(&failure, false, stdout));
    }
}

/// A field of a line of CSV, in quotes if it has to be.
pub(crate) fn csv_field(text: &str) -> String {
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
