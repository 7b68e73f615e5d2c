//! Measures a function of an executable.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    rehal_cli::main(&rehal_cli::tools::BENCHMARK_EXECUTABLE)
}
