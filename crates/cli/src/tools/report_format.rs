//! `--format` of the tools that print a report for people or for programs.

use rehal_base::{Error, Result};

use crate::files;
use crate::flags::{Flag, Flags};
pub(super) use crate::report::Format;

/// The flag; `help` says what each format has.
pub(super) const fn flag(help: &'static str) -> Flag<Format> {
    Flag::choice("format", "text", &[("text", Format::Text), ("json", Format::Json)], help)
}

/// The format of a tool that also writes files. Fails if standard output is one of them, and JSON.
pub(super) fn beside_files(flags: &Flags, flag: &Flag<Format>) -> Result<Format> {
    match flags.get(flag) {
        Format::Json if files::write_stdout(flags) => Err(Error::invalid_argument(
            "both --format=json and a result are to be written to standard output",
        )
        .advise("name a file for the result")),
        format => Ok(format),
    }
}

/// The format of a report that is also a table for programs.
#[derive(Clone, Copy)]
pub(super) enum TableFormat {
    Report(Format),
    Csv,
}

/// The flag of a report that is also a table; `help` says what each format has.
pub(super) const fn table_flag(help: &'static str) -> Flag<TableFormat> {
    const FORMATS: &[(&str, TableFormat)] = &[
        ("text", TableFormat::Report(Format::Text)),
        ("json", TableFormat::Report(Format::Json)),
        ("csv", TableFormat::Csv),
    ];
    Flag::choice("format", "text", FORMATS, help)
}
