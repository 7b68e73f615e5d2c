//! `rehal diff`: tells what differs between two captures.

mod text;

use rehal::capture::CaptureFile;
use rehal_base::{ElementType, Result};
use rehal_edit::{DiffOptions, DiffReport};
use serde::Serialize;

use super::report_format::{self, Format};
use crate::flags::{Flag, Group, Refusal};
use crate::progress::Progress;
use crate::report::{Report, Subject, formats};
use crate::table::Layout;
use crate::{Invocation, Operands, Tool, captures};

/// See the [module](self).
pub const DIFF: Tool = Tool {
    name: "rehal diff",
    verb: "diff",
    summary: "tells what differs between two captures",
    about: "Compares two captures and runs nothing: scopes, executables and their functions, and all operations, aligned by a \
            longest common subsequence. Of operations that correspond, it names what changed: functions, workgroup counts, \
            constants, bindings, sizes, what they wait for, and bytes. The same change of many operations is printed once. Ids, \
            threads, times and how files are stored do not count, so that two recordings of the same program are the same. \
            Truncated captures are compared up to where they end. Exit status 0 if the captures are the same, 2 if they \
            differ, 1 for an error.",
    operands: Operands::Two { what: "capture", form: "BEFORE.ireereplay AFTER.ireereplay" },
    groups: &[&REPORT],
    examples: &[
        ("Find what a compiler flag changes", "{tool} before.ireereplay after.ireereplay"),
        (
            "Show the elements of inputs and weights that differ",
            "{tool} --element_type=f32 before.ireereplay after.ireereplay",
        ),
        (
            "List the functions whose dispatches differ",
            "{tool} --format=json before.ireereplay after.ireereplay \\\n  \
             | jq -r '.operations[] | select(.operation|endswith(\"dispatch\")) | [.kind, .subject, .count] | @tsv'",
        ),
    ],
    guide: include_str!("../guides/diff.md"),
    answer: |_, _, _| None,
    run,
};

const FORMAT: Flag<Format> =
    report_format::flag("text: the first of the differences. json: an object with all of them.");

const MAX_DIFFERENCES: Flag<usize> = Flag::number(
    "max_differences",
    20,
    (0, i64::MAX),
    |count| count as usize,
    "Maximum number of differences to print as text of scopes, of executables and of operations each.",
);

const ELEMENT_TYPE: Flag<Option<ElementType>> = Flag::parsed(
    "element_type",
    "TYPE",
    "",
    "an element type, such as f32 or i8",
    |value| match value.to_str() {
        Some("") => Ok(None),
        text => text.and_then(element_type).map(Some).ok_or(Refusal::Unexpected),
    },
    "The type of the elements of data, such as inputs and weights: elements that differ are then told with their errors. By \
     default only bytes are.",
);

const MAX_ELEMENTS: Flag<usize> = Flag::number(
    "max_elements",
    4,
    (0, 1 << 20),
    |count| count as usize,
    "Maximum number of elements to tell of each difference of data, with --element_type.",
);

const RECOVER: Flag<bool> = Flag::switch(
    "recover",
    false,
    "Compares what can be read of damaged captures. Truncated captures need no flag.",
);

const REPORT: Group =
    Group { title: "Report", flags: &[&FORMAT, &MAX_DIFFERENCES, &ELEMENT_TYPE, &MAX_ELEMENTS, &RECOVER] };

/// The exit status if the captures differ.
const DIFFERENT: u8 = 2;

/// The contents of a report.
#[derive(Serialize)]
struct Printed<'r> {
    #[serde(flatten)]
    report: DiffReport<'r>,
    #[serde(skip)]
    max_differences: usize,
}

impl Report for Printed<'_> {
    const SCHEMA: &'static str = DiffReport::SCHEMA;
    const IS_ON_A_LINE: bool = true;

    fn text(&self, layout: Layout) -> String {
        layout.wrap(&text::show(self))
    }
}

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let captures = invocation.files().iter().map(|path| open(path, flags.get(&RECOVER)));
    let captures: Vec<CaptureFile> = captures.collect::<Result<_>>()?;
    let [before, after] = &captures[..] else { unreachable!("the tool has two operands") };
    let mut options = DiffOptions::default();
    options.element_type = flags.get(&ELEMENT_TYPE);
    options.max_elements = flags.get(&MAX_ELEMENTS);
    let diff = before.diff(after, &options, &mut Progress::new("reading").teller())?;
    let path = |index: usize| invocation.files()[index].display().to_string();
    let format = flags.get(&FORMAT);
    let is_json = matches!(format, Format::Json);
    let digests = is_json.then(|| [before, after].map(|capture| hex::encode(capture.digest())));
    let max_differences = flags.get(&MAX_DIFFERENCES);
    let report = DiffReport { diff: &diff, paths: [path(0), path(1)], digests };
    let report = Printed { report, max_differences };
    // Each capture has its digest beside its path.
    invocation.print(&report, format, Subject::default())?;
    if !diff.is_same() {
        invocation.set_status(DIFFERENT);
    }
    Ok(())
}

/// The differences of two captures in each format, for the fuzzer.
pub(super) fn reports(before: &CaptureFile, after: &CaptureFile) -> Result<[String; 2]> {
    let diff = before.diff(after, &DiffOptions::default(), &mut |_| {})?;
    let paths = ["before".into(), "after".into()];
    let report = DiffReport { diff: &diff, paths, digests: None };
    formats(&Printed { report, max_differences: 100 })
}

/// A type whose elements are whole bytes.
fn element_type(text: &str) -> Option<ElementType> {
    text.parse().ok().filter(|it: &ElementType| matches!(it.bits(), 8 | 16 | 32 | 64 | 128))
}

fn open(path: &std::path::Path, recover: bool) -> Result<CaptureFile> {
    let capture = captures::open(path, &captures::options(true))?;
    if recover {
        captures::note_recovered(&capture)?;
    } else {
        capture.check_undamaged(&mut Progress::new("verifying").teller())?;
    }
    Ok(capture)
}
