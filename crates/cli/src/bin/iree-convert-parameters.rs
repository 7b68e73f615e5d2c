//! Makes one parameter archive of the parameters of several files.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    rehal_cli::main(&rehal_cli::tools::CONVERT_PARAMETERS)
}
