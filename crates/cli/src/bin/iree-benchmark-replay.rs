//! Measures how long the replay of a capture takes.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    rehal_cli::main(&rehal_cli::tools::BENCHMARK_REPLAY)
}
