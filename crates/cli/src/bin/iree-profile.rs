//! Prints reports of device profiles.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    rehal_cli::main(&rehal_cli::tools::PROFILE)
}
