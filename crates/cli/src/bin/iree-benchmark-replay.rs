//! Benchmarks replays of a capture.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    rehal_cli::main(&rehal_cli::tools::BENCHMARK_REPLAY)
}
