//! Converts parameter files to one parameter archive.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    rehal_cli::main(&rehal_cli::tools::CONVERT_PARAMETERS)
}
