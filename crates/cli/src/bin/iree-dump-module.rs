//! Prints the contents of a compiled module.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    rehal_cli::main(&rehal_cli::tools::DUMP_MODULE)
}
