//! Creates a parameter archive of zeros, splats and given values.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    rehal_cli::main(&rehal_cli::tools::CREATE_PARAMETERS)
}
