//! Prints what a capture holds.
fn main() -> std::process::ExitCode {
    rehal_cli::main(&rehal_cli::tools::DUMP_REPLAY)
}
