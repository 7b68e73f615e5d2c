//! One file per tool.

mod benchmark_flags;
mod benchmark_module;
mod benchmark_replay;
mod check_module;
mod dump_parameters;
mod dump_replay;
mod info;
mod replay_flags;
mod run_module;
mod run_replay;

pub use benchmark_module::BENCHMARK_MODULE;
pub use benchmark_replay::BENCHMARK_REPLAY;
pub use check_module::CHECK_MODULE;
pub use dump_parameters::DUMP_PARAMETERS;
pub use dump_replay::DUMP_REPLAY;
pub use info::INFO;
pub use run_module::RUN_MODULE;
pub use run_replay::RUN_REPLAY;

/// Whether `typed` may have been meant to be `name`.
pub(crate) fn is_alike(name: &str, typed: &str) -> bool {
    strsim::jaro_winkler(name, typed) > 0.8
}
