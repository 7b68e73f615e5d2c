//! Setup, tests, benchmarks, fixtures and tidy checks of the rehal workspace: `cargo xtask VERB`.
//!
//! For developers and CI. It may start other programs and write inside the repository; no crate of rehal
//! depends on it.
#![forbid(unsafe_code)]

mod api;
mod asan;
mod bench;
mod dist;
mod fixtures;
mod fuzz;
mod machines;
mod miri;
mod mutants;
mod packages;
mod portable;
mod python;
mod run;
mod setup;
mod test;
mod tidy;
mod venv;
mod wine;
mod zig;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The result of every verb: an error is one message for the user.
type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Why a check did not run. A section of the tests that did not run is shown as such; as a verb, it fails.
#[derive(Debug)]
struct NotRun(String);

impl std::fmt::Display for NotRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotRun {}

const HELP: &str = include_str!("help.txt");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (verb, rest) = match arguments.split_first() {
        Some((verb, rest)) => (verb.as_str(), rest),
        None => ("help", &[][..]),
    };
    let outcome = match verb {
        "fixtures" => fixtures::main(rest),
        "api" => api::main(rest),
        "dist" => dist::main(rest),
        "bench" => bench::main(rest),
        "fuzz" => fuzz::main(rest),
        "miri" => miri::main(rest),
        "mutants" => mutants::main(rest),
        "asan" => asan::main(rest),
        "setup" => setup::main(rest),
        "test" => test::main(rest),
        "tidy" => tidy::main(rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(format!("unknown verb {other:?}\n\n{HELP}").into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {verb}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the repository").to_path_buf()
}
