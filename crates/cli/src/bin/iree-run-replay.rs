//! Replays a capture once.
fn main() -> std::process::ExitCode {
    rehal_cli::main(&rehal_cli::tools::RUN_REPLAY)
}
