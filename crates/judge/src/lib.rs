//! Is it right, is it slower.
//!
//! - A [`LedgerWriter`] observes a trusted replay and writes a ledger, which a [`Ledger`] reads.
//! - [`verify_against`] compares a replay with a ledger, [`verify_lockstep`] two replays with each other,
//!   dispatch by dispatch, [`verify_captures`] those of two captures of one program; each returns a
//!   [`Verification`], which names the first difference. They are observers, and use only what a replay
//!   passes to every observer.
//! - A [`KernelComparer`] tells whether a replacement computes the same as a captured kernel, and whether it
//!   is faster.
//! - One judge decides what times prove: [`measure`] and [`judge_processes`].
//! - A [`HistoryComparison`] tells which times became slower since earlier reports of a file.
//! - A [`ProfileComparison`] tells which functions became slower between profiles of two versions.
//! - Benchmarks are compatible with Google Benchmark, with iteration counts, statistics, and reports on the
//!   console, as JSON and as CSV that its users and its `compare.py` can read. [`Options`] is plain data, and
//!   every flag value has a parser here.
//!
//! The crate must not depend on drivers, flags or a terminal.
//!
//! ```
//! use rehal_judge::{Benchmark, MinTime, Options, Reporters, Runner, TimeUnit};
//!
//! let options = Options { min_time: MinTime::Iterations(20), ..Options::default() };
//! let mut benchmarks = [Benchmark::new("BM_sum", |state| {
//!     let mut sum = 0u64;
//!     while state.keep_running() {
//!         sum = std::hint::black_box(sum + 1);
//!     }
//!     state.set_items_processed(state.iterations());
//!     Ok(())
//! })
//! .measure_process_cpu_time()
//! .use_real_time()
//! .unit(TimeUnit::Millisecond)];
//! assert_eq!(benchmarks[0].full_name(), "BM_sum/process_time/real_time");
//!
//! let mut reporters = Reporters::from_options(&options)?;
//! let outcome = Runner::new(options).run(&mut benchmarks, &mut reporters)?;
//! assert_eq!(outcome.matched, 1);
//! # Ok::<(), rehal_base::Error>(())
//! ```
//!
//! The formats are those of Google Benchmark 1.9.5 (<https://google.github.io/benchmark/user_guide.html>),
//! which the pinned reference release is linked with.
//!
//! A run is divided into up to 100 samples, so that the loop of a benchmark reads a clock between samples
//! only (`state.rs`). What the formats of reports have no place for is a summary on standard error
//! (`summary.rs`): statistics of the samples (`samples.rs`), and what else used the machine (`machine.rs`,
//! `conditions.rs`).

#![forbid(unsafe_code)]
#![allow(clippy::result_large_err, reason = "an error ends the reading of a file; not a hot path")]

mod aggregate;
mod align;
mod benchmark;
mod bytes;
mod clock;
mod compare;
mod comparison_report;
mod conditions;
mod console;
mod context;
mod counters;
mod csv;
mod element_types;
pub mod elements;
mod filter;
mod float_format;
pub mod fuzzing;
mod history;
mod host;
mod job;
mod json;
mod judge;
mod ledger;
mod line_file;
mod machine;
mod number;
mod number_summary;
mod options;
mod order;
mod profiles;
mod pulse;
mod report;
mod reporters;
mod run;
mod samples;
mod state;
pub mod stats;
mod summary;
mod tolerance;
mod verify;

pub use aggregate::aggregates;
pub use align::{Aligner, NONE};
pub use benchmark::Benchmark;
pub use bytes::part;
pub use compare::{
    CacheState, CheckedKernel, CompareOptions, CompareSubject, ComparedShape, Comparison, DispatchSpans,
    DispatchTime, FreshInputs, KernelComparer, RunningCode, ShapeTiming, Timing, displace,
};
pub use comparison_report::ComparisonReport;
pub use conditions::{Conditions, Monitor};
pub use console::ConsoleReporter;
pub use context::{Cache, Context};
pub use counters::{Counter, Counters};
pub use csv::CsvReporter;
pub use element_types::type_in_name;
pub use elements::{ElementDifference, ElementDifferences, Histogram, HistogramBin};
pub use filter::Filter;
pub use history::{HistoryComparison, HistoryEntry, HistoryLoad, HistoryOrigin, HistoryPair, MeasuredTime};
pub use host::Host;
pub use job::Runner;
pub use json::JsonReporter;
pub use judge::*;
pub use ledger::{
    DispatchDigests, Entries, Entry, EntryKind, EntryRange, Ledger, LedgerContents, LedgerOptions,
    LedgerWriter, Piece, capture_digest, digest,
};
pub use line_file::LineFile;
pub use number_summary::NumberSummary;
pub use options::{
    Color, Format, MAX_ITERATIONS, MinTime, Options, TimeUnit, parse_context, parse_min_warmup_time,
};
pub use profiles::{ChangeVerdict, FunctionChange, FunctionTotals, ProfileComparison, ProfileSide};
pub use pulse::{Measuring, Pulse};
pub use report::{AggregateUnit, Reporter, Run, RunKind, SampleStatistics};
pub use reporters::Reporters;
pub use run::RunOutcome;
pub use state::{Measure, State};
pub use stats::Interval;
pub use tolerance::{ElementTypeRule, Tolerance};
pub use verify::{
    Difference, DispatchPlace, InferredType, OutOfBoundsWrite, Outcome, Place, REDZONE_BYTES,
    RoundedFunction, RoundingError, StaticWrite, TypeSource, Unmatched, Verification, VerifyOptions,
    VerifySides, verify_against, verify_captures, verify_elements, verify_lockstep, watch_memory,
};
