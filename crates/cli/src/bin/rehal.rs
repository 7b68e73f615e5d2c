//! All tools as verbs of one program: `rehal run`, `rehal dump`, `rehal benchmark`, `rehal info`, and so on.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    rehal_cli::main_of_verbs("rehal", rehal_cli::tools::ALL)
}
