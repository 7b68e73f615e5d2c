//! One file per tool.

mod benchmark_executable;
mod benchmark_flags;
mod benchmark_module;
mod benchmark_replay;
mod check_module;
mod compare;
mod compile;
pub(crate) mod compiler_flags;
mod completions;
mod convert_parameters;
mod create_parameters;
mod diff;
mod dump_module;
mod dump_parameters;
mod dump_replay;
mod executables;
mod function_flags;
pub mod fuzzing;
mod history;
mod info;
mod kernel_build;
mod kernel_disassemble;
mod kernel_record;
mod kernel_replay;
mod kernel_stub;
mod kernels;
pub(crate) mod ledger_flags;
mod links;
mod machine;
mod manual;
mod parameter_output;
mod processes;
mod profile;
mod profile_compare;
mod profile_report;
mod profile_timeline;
mod races;
mod redact;
mod reduce;
pub(crate) mod replay_flags;
mod report_format;
mod run_module;
mod run_replay;
mod slice;
mod substitute;
mod tune;
mod verify;

pub use benchmark_executable::BENCHMARK_EXECUTABLE;
pub use benchmark_module::BENCHMARK_MODULE;
pub use benchmark_replay::BENCHMARK_REPLAY;
pub use check_module::CHECK_MODULE;
pub use compare::COMPARE;
pub use compile::COMPILE;
pub use completions::COMPLETIONS;
pub use convert_parameters::CONVERT_PARAMETERS;
pub use create_parameters::CREATE_PARAMETERS;
pub use diff::DIFF;
pub use dump_module::DUMP_MODULE;
pub use dump_parameters::DUMP_PARAMETERS;
pub use dump_replay::DUMP_REPLAY;
pub use executables::EXECUTABLES;
pub use info::INFO;
pub use kernel_build::KERNEL_BUILD;
pub use kernel_disassemble::KERNEL_DISASSEMBLE;
pub use kernel_record::KERNEL_RECORD;
pub use kernel_replay::KERNEL_REPLAY;
pub use kernel_stub::KERNEL_STUB;
pub use kernels::KERNELS;
pub use links::TOOLS;
pub use machine::MACHINE;
pub use manual::MANUAL;
pub use profile::PROFILE;
pub use profile_compare::PROFILE_COMPARE;
pub use profile_report::PROFILE_REPORT;
pub use profile_timeline::PROFILE_TIMELINE;
pub use races::RACES;
pub use redact::REDACT;
pub use reduce::REDUCE;
pub use run_module::RUN_MODULE;
pub use run_replay::RUN_REPLAY;
pub use slice::SLICE;
pub use substitute::SUBSTITUTE;
pub use tune::TUNE;
pub use verify::VERIFY;

/// Titles of groups of verbs, each with the first verb of the group in [`ALL`].
pub const GROUPS: [(&str, &str); 7] = [
    ("Captures", "run"),
    ("Kernels of captures", "kernels"),
    ("Results and differences", "verify"),
    ("Programs and modules", "compile"),
    ("Parameter files", "dump-parameters"),
    ("Profiles", "profile"),
    ("This program", "tools"),
];

/// Tools that another process asks in a worker: their verbs, and what they do there.
type Serve = fn(&crate::Invocation, &rehal_jobs::Worker) -> rehal_base::Result<()>;
pub(crate) const SERVING: [(&str, Serve); 3] =
    [("run", run_replay::serve), ("run-module", run_module::serve), ("tune", tune::serve)];

/// All tools, in the order in which `rehal` lists its verbs.
#[rustfmt::skip]
pub const ALL: &[&crate::Tool] = &[
    &RUN_REPLAY,
    &DUMP_REPLAY,
    &BENCHMARK_REPLAY,
    &INFO,
    &RACES,
    &KERNELS,
    &KERNEL_STUB,
    &KERNEL_BUILD,
    &KERNEL_DISASSEMBLE,
    &KERNEL_RECORD,
    &KERNEL_REPLAY,
    &SLICE,
    &MACHINE,
    &VERIFY,
    &COMPARE,
    &TUNE,
    &DIFF,
    &REDACT,
    &REDUCE,
    &COMPILE,
    &RUN_MODULE,
    &BENCHMARK_MODULE,
    &BENCHMARK_EXECUTABLE,
    &CHECK_MODULE,
    &DUMP_MODULE,
    &EXECUTABLES,
    &SUBSTITUTE,
    &DUMP_PARAMETERS,
    &CREATE_PARAMETERS,
    &CONVERT_PARAMETERS,
    &PROFILE,
    &PROFILE_TIMELINE,
    &PROFILE_REPORT,
    &PROFILE_COMPARE,
    &TOOLS,
    &COMPLETIONS,
    &MANUAL,
];
