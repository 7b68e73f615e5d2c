//! Times, and what they prove: one judge of all comparisons ([`measure`], [`judge_processes`]), and
//! benchmarks compatible with Google Benchmark, with iteration counts, statistics, and reports on the
//! console, as JSON and as CSV that its users and its `compare.py` can read.
//!
//! It must not depend on captures, devices, or flag syntax: [`Options`] is plain data, and every flag value
//! has a parser here. Used by the benchmark tools of `cli`, by `tune` and by `xtask bench`.
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

mod aggregate;
mod benchmark;
mod clock;
mod conditions;
mod console;
mod context;
mod counters;
mod csv;
mod filter;
mod host;
mod job;
mod json;
mod judge;
mod machine;
mod number;
mod options;
mod order;
mod pulse;
mod report;
mod run;
mod samples;
mod state;
pub mod stats;
mod summary;

pub use aggregate::aggregates;
pub use benchmark::{Benchmark, Measure};
pub use conditions::{Conditions, Monitor};
pub use console::ConsoleReporter;
pub use context::{Cache, Context};
pub use counters::{Counter, Counters};
pub use csv::CsvReporter;
pub use filter::Filter;
pub use host::Host;
pub use json::JsonReporter;
pub use judge::*;
pub use options::{
    Color, Format, MAX_ITERATIONS, MinTime, Options, TimeUnit, parse_context, parse_min_warmup_time,
};
pub use pulse::{Measuring, Pulse};
pub use report::{AggregateUnit, Reporter, Reporters, Run, RunKind, SampleStatistics};
pub use run::{Outcome, Runner};
pub use state::State;
