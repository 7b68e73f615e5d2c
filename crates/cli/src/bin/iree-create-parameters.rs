//! Makes a parameter archive of zeros, patterns and given values.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    rehal_cli::main(&rehal_cli::tools::CREATE_PARAMETERS)
}
