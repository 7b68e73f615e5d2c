//! All tools as verbs of one program: `rehal run`, `rehal dump`, `rehal benchmark`, `rehal info`, and so on.
//! Called by a name of IREE's tools, it is that tool.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    rehal_cli::main()
}
