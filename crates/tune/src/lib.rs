//! Checks the numbers of replays: ledgers of what each dispatch wrote and each host read saw, and their comparison.
//!
//! - A [`LedgerWriter`] observes a trusted replay and writes a ledger, which a [`Ledger`] reads.
//! - [`verify_against`] compares a replay with a ledger, [`verify_lockstep`] two replays with each other, dispatch by
//!   dispatch; both return a [`Verification`], which names the first difference.
//!
//! These are observers of `replay`, and use only what it passes to every observer. Used by `session`; the crate must not
//! depend on drivers, flags or a terminal.

#![forbid(unsafe_code)]
#![allow(clippy::result_large_err, reason = "an error ends the reading of a file; not a hot path")]

mod elements;
pub mod fuzzing;
mod ledger;
mod number_summary;
mod tolerance;
mod verify;
mod written;

pub use elements::{ElementDifference, ElementDifferences, Histogram, HistogramBin};
pub use ledger::{
    Entries, Entry, EntryKind, EntryRange, Ledger, LedgerContents, LedgerOptions, LedgerWriter, Piece,
};
pub use number_summary::NumberSummary;
pub use tolerance::{ElementTypeRule, Tolerance};
pub use verify::{
    Difference, DispatchPlace, Outcome, Place, Verification, VerifyOptions, VerifySides, verify_against,
    verify_lockstep,
};
