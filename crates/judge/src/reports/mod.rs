//! Reports as JSON: what the tools print, and what bindings to other languages return.

mod comparison;
mod findings;

pub use comparison::ComparisonReport;
pub use findings::VerifyReport;
