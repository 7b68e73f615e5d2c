//! The `RUN` lines of the reference's own tool tests, from the checkout of its source in `REHAL_IREE_SOURCE`:
//! a command that passes with the release's tools passes with ours.

use crate::Outcome;
use libtest_mimic::Trial;
use oracle::captures::repository;
use oracle::e2e::SOURCE_VARIABLE;
use oracle::lit::{self, Command, Sandbox, Tools, Verdict, known_failure};
use oracle::reference::Reference;
use std::path::{Path, PathBuf};

/// The prefix of the tests' names.
pub const PREFIX: &str = "lit::";

/// The source tree, if `REHAL_IREE_SOURCE` is set.
pub fn source() -> Option<PathBuf> {
    std::env::var_os(SOURCE_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Adds a test for each command.
pub fn add(trials: &mut Vec<Trial>) -> Result<(), Box<dyn std::error::Error>> {
    let Some(source) = source() else { return Ok(()) };
    let wrong = |error| format!("{SOURCE_VARIABLE}={}: {error}", source.display());
    let source = source.canonicalize().map_err(wrong)?;
    for (command, verdict) in lit::commands(&source)? {
        let name = name(&command, &verdict);
        let is_ignored = matches!(verdict, Verdict::Ignored(_));
        let source = source.clone();
        trials.push(
            Trial::test(name, move || passes(&source, &command, &verdict)).with_ignored_flag(is_ignored),
        );
    }
    Ok(())
}

/// The name of a command's test, with how it runs or why it is ignored.
fn name(command: &Command, verdict: &Verdict) -> String {
    let how = match verdict {
        Verdict::Ignored(reason) => format!("{reason}::"),
        Verdict::Run { .. } if known_failure(command).is_some() => "fails_with_release::".to_owned(),
        Verdict::Run { by_release: true } => String::new(),
        Verdict::Run { by_release: false } => "ours_alone::".to_owned(),
    };
    format!("{PREFIX}{how}{}", command.name)
}

fn passes(source: &Path, command: &Command, verdict: &Verdict) -> Outcome {
    let by_release = match verdict {
        Verdict::Run { by_release } => *by_release,
        Verdict::Ignored(reason) => return Err(format!("not run: {reason}").into()),
    };
    let reference = Reference::find(&repository())?;
    let run = |tools| -> std::io::Result<_> {
        let scratch = tempfile::tempdir()?;
        let cache = repository().join("target/lit");
        Sandbox::new(&reference, tools, source, scratch.path())?.run(command, &cache)
    };
    let mut theirs = "not run".to_owned();
    let mut checked = None;
    if by_release {
        let outcome = run(Tools::Release)?;
        theirs = outcome.report();
        checked = command.is_repeatable().then(|| outcome.checked.clone());
        match (known_failure(command), outcome.ended.succeeded()) {
            (None, true) => {}
            (None, false) => {
                return Err(format!("the command fails with the release's tools: {theirs}").into());
            }
            (Some(_), true) => {
                return Err("the command passes with the release's tools, but is listed as failing".into());
            }
            (Some(words), false) if outcome.says(words) => return Ok(()),
            (Some(words), false) => return Err(format!("expected failure {words:?}: {theirs}").into()),
        }
    }
    let ours = run(Tools::Ours)?;
    let report = format!("==== with our tools: {}\n==== with the release's: {theirs}", ours.report());
    match ours.ended.succeeded() {
        true if checked.is_some_and(|checked| checked != ours.checked) => {
            Err(format!("FileCheck's input differs\n{report}").into())
        }
        true => Ok(()),
        false => Err(format!("{}\n{report}", command.text).into()),
    }
}
