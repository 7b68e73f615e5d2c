//! Lists the parameters of parameter files.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    rehal_cli::main(&rehal_cli::tools::DUMP_PARAMETERS)
}
