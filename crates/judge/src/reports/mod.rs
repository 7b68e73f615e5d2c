//! Reports as JSON: what the tools print, and what bindings to other languages return.

mod comparison;
mod findings;

pub use comparison::{ComparisonReport, cache_name};
pub use findings::{Findings, VerifyReport};

use serde::{Serialize, Serializer};

/// Rows of JSON, each made when it is written, since a report may have millions.
pub struct Rows<'a, T, R> {
    /// What the rows are of.
    pub of: &'a [T],
    /// Makes a row.
    pub row: fn(&'a T) -> R,
}

impl<T, R: Serialize> Serialize for Rows<'_, T, R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.of.iter().map(self.row))
    }
}
