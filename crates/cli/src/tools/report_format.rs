//! `--format` of the tools that print a report for people or for programs.

use crate::flags::Flag;
pub(super) use crate::report::Format;

/// The flag; `help` says what each format has.
pub(super) const fn flag(help: &'static str) -> Flag<Format> {
    Flag::choice("format", "text", &[("text", Format::Text), ("json", Format::Json)], help)
}
