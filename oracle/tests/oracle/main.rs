//! One test per capture and question, compared with the reference release.
//!
//! Nothing is skipped: if the reference release or our tools are missing, every test fails and says what to
//! run. If the corpus or the reference's source is missing, its tests are listed as ignored.
#![forbid(unsafe_code)]

mod advice;
mod assembly;
mod benchmarks;
mod commands;
mod compiling;
mod cuda;
mod devices;
mod dumps;
mod dynamic;
mod e2e;
mod failing_work;
mod files;
mod flags;
mod gpu_code;
mod ledgers;
mod listed;
mod lit;
mod modules;
mod parameters;
mod profiles;
mod recorded_parameters;
mod recordings;
mod redacted;
mod replays;
mod rewriting;
mod run_module;
mod slices;
mod substitution;
mod timelines;
mod topologies;
mod trims;
mod vulkan;
mod wrong_input;

use libtest_mimic::{Arguments, Failed, Trial};
use oracle::captures::{self, Capture};
use oracle::reference::Reference;
use oracle::tool::{self, Ended};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The result of a test.
type Outcome = Result<(), Failed>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let captures = match captures::all() {
        Ok(captures) => captures,
        Err(error) => {
            eprintln!("the captures cannot be listed: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut trials = Vec::new();
    for capture in &captures {
        commands::add(capture, &mut trials);
        dumps::add(capture, &mut trials);
        ledgers::add(capture, &mut trials);
        replays::add(capture, &mut trials);
        rewriting::add(capture, &mut trials);
        redacted::add(capture, &mut trials);
    }
    if let Err(error) = slices::add(&captures, &mut trials) {
        eprintln!("the captures on Vulkan cannot be listed: {error}");
        return ExitCode::FAILURE;
    }
    advice::add(&mut trials);
    assembly::add(&mut trials);
    if let Err(error) = e2e::add(&mut trials) {
        eprintln!("the end-to-end programs cannot be listed: {error}");
        return ExitCode::FAILURE;
    }
    benchmarks::add(&mut trials);
    compiling::add(&mut trials);
    if let Err(error) = cuda::add(&mut trials) {
        eprintln!("the captures of CUDA devices cannot be listed: {error}");
        return ExitCode::FAILURE;
    }
    devices::add(&mut trials);
    dynamic::add(&mut trials);
    failing_work::add(&mut trials);
    files::add(&mut trials);
    flags::add(&mut trials);
    gpu_code::add(&mut trials);
    parameters::add(&mut trials);
    profiles::add(&mut trials);
    recorded_parameters::add(&mut trials);
    if let Err(error) = lit::add(&mut trials) {
        eprintln!("the tests of the source tree cannot be listed: {error}");
        return ExitCode::FAILURE;
    }
    modules::add(&mut trials);
    recordings::add(&captures, &mut trials);
    run_module::add(&captures, &mut trials);
    substitution::add(&mut trials);
    timelines::add(&mut trials);
    topologies::add(&mut trials);
    trims::add(&mut trials);
    if let Err(error) = vulkan::add(&mut trials) {
        eprintln!("the captures on Vulkan cannot be listed: {error}");
        return ExitCode::FAILURE;
    }
    wrong_input::add(&mut trials);
    listed::add(&mut trials);
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Adds a test named after a capture.
fn per_capture(trials: &mut Vec<Trial>, question: &str, capture: &Capture, test: fn(&Capture) -> Outcome) {
    let capture = capture.clone();
    trials.push(Trial::test(format!("{question}::{}", capture.name), move || test(&capture)));
}

/// Two tools with the same name: ours and the reference's.
struct Pair {
    ours: PathBuf,
    theirs: PathBuf,
}

impl Pair {
    fn find(name: &str) -> Result<Self, Failed> {
        let theirs = Reference::find(&captures::repository())?.tool(name);
        Ok(Self { ours: tool::ours(name)?, theirs })
    }

    /// Runs only ours.
    fn run_ours(&self, arguments: &[String], directory: &Path) -> Result<Ended, Failed> {
        Ok(tool::run(&self.ours, arguments, directory)?)
    }

    /// Runs both on the same arguments in the same directory: ours first.
    fn run(&self, arguments: &[String], directory: &Path) -> Result<(Ended, Ended), Failed> {
        Ok((tool::run(&self.ours, arguments, directory)?, tool::run(&self.theirs, arguments, directory)?))
    }
}

/// A fixture by its path below `fixtures/`.
fn fixture(path: &str) -> PathBuf {
    captures::repository().join("fixtures").join(path)
}

/// Owned arguments from displayable values.
fn words<const N: usize>(arguments: [&str; N]) -> Vec<String> {
    arguments.map(ToOwned::to_owned).to_vec()
}

/// Fails with a message unless `holds`.
fn ensure(holds: bool, message: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(message().into()) }
}
