//! `cargo xtask e2e`: compiles every end-to-end program, ours and, if `REHAL_IREE_SOURCE` names a checkout,
//! the reference's, with the pinned release, and runs each with our `iree-check-module`.

use crate::{Outcome, root};
use oracle::e2e::{self, Compiled, FAILURES, Program, SOURCE_VARIABLE};
use oracle::reference::Reference;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The outcome of a program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    /// It does not compile with the pinned release, as listed.
    Refused,
}

/// Runs all programs whose name contains one of the `--only` values, `--jobs` in parallel.
pub fn main(arguments: &[String]) -> Outcome {
    let (only, jobs) = parse(arguments)?;
    let root = root();
    let reference = Reference::find(&root)?;
    let cache = root.join("target/e2e");
    let mut programs = e2e::ours(&root.join("fixtures/e2e"))?;
    match std::env::var_os(SOURCE_VARIABLE).filter(|path| !path.is_empty()) {
        Some(source) => {
            programs.extend(e2e::reference_programs(Path::new(&source), &cache.join("generated"))?);
        }
        None => println!("{SOURCE_VARIABLE} is not set: the reference's own programs are excluded"),
    }
    programs.retain(|program| only.is_empty() || only.iter().any(|text| program.name.contains(text)));
    let start = Instant::now();
    let results = all(&programs, &reference, &cache, jobs);
    let count = |verdict| results.iter().filter(|(_, found)| *found == verdict).count();
    println!(
        "{} passed, {} failed, {} do not compile with the pinned release; {:.0} s",
        count(Verdict::Passed),
        count(Verdict::Failed),
        count(Verdict::Refused),
        start.elapsed().as_secs_f64()
    );
    match count(Verdict::Failed) {
        0 => Ok(()),
        failed => Err(format!("{failed} programs failed").into()),
    }
}

fn parse(arguments: &[String]) -> Result<(Vec<String>, usize), Box<dyn std::error::Error>> {
    let mut only = Vec::new();
    let mut jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--only" => only.push(value()?.clone()),
            "--jobs" => jobs = value()?.parse().map_err(|_| "--jobs takes a number")?,
            other => {
                return Err(format!("unknown argument {other} (expected --only NAME or --jobs N)").into());
            }
        }
    }
    Ok((only, jobs.max(1)))
}

/// Runs them on `jobs` threads; reports failures immediately.
fn all(programs: &[Program], reference: &Reference, cache: &Path, jobs: usize) -> Vec<(String, Verdict)> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(programs.len()));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (verdict, said) = one(program, reference, cache);
                    let word = match verdict {
                        Verdict::Passed => "passed",
                        Verdict::Failed => "FAILED",
                        Verdict::Refused => "does not compile",
                    };
                    println!("{word:<16} {}{said}", program.name);
                    results.lock().expect("no thread panics").push((program.name.clone(), verdict));
                }
            });
        }
    });
    results.into_inner().expect("no thread panics")
}

fn one(program: &Program, reference: &Reference, cache: &Path) -> (Verdict, String) {
    let module: PathBuf = match program.compile(reference, cache) {
        Ok(Compiled::Module(module)) => module,
        Ok(Compiled::Refused(said)) => {
            let error = said.lines().find(|line| line.contains("error:")).unwrap_or_default();
            return match program.judge_refusal(&said) {
                Ok(()) => (Verdict::Refused, format!(": {error}")),
                Err(_) => (Verdict::Failed, format!(" does not compile: {error}")),
            };
        }
        Err(error) => return (Verdict::Failed, format!(": {error}")),
    };
    let flags: &[&str] = if program.name.ends_with(FAILURES) { &["--expect_failure"] } else { &[] };
    for device in program.devices() {
        match e2e::check(device, &module, flags) {
            Ok(ended) if ended.succeeded() => {}
            Ok(ended) => return (Verdict::Failed, format!(" on {device}\n{}", e2e::failures(&ended))),
            Err(error) => return (Verdict::Failed, format!(" on {device}: {error}")),
        }
    }
    (Verdict::Passed, String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked() {
        let words = |text: &str| text.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
        assert_eq!(parse(&words("--only a --only b --jobs 3")).unwrap(), (vec!["a".into(), "b".into()], 3));
        assert!(parse(&words("--jobs many")).is_err());
        assert!(parse(&words("--fast")).is_err());
    }
}
