//! All tools as verbs of one.

#![forbid(unsafe_code)]

use rehal_cli::tools::{
    BENCHMARK_MODULE, BENCHMARK_REPLAY, CHECK_MODULE, DUMP_PARAMETERS, DUMP_REPLAY, INFO, RUN_MODULE,
    RUN_REPLAY,
};

fn main() -> std::process::ExitCode {
    rehal_cli::main_of_verbs(
        "rehal",
        &[
            &RUN_REPLAY,
            &DUMP_REPLAY,
            &BENCHMARK_REPLAY,
            &INFO,
            &DUMP_PARAMETERS,
            &RUN_MODULE,
            &BENCHMARK_MODULE,
            &CHECK_MODULE,
        ],
    )
}
