//! Runs the tests that a module exports.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    rehal_cli::main(&rehal_cli::tools::CHECK_MODULE)
}
