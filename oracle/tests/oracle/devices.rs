//! Drivers and devices as listed by both tools.

use crate::{Outcome, Pair, ensure};
use libtest_mimic::{Failed, Trial};
use std::path::Path;

const TOOLS: [&str; 4] =
    ["iree-run-module", "iree-benchmark-module", "iree-run-replay", "iree-benchmark-replay"];

pub fn add(trials: &mut Vec<Trial>) {
    for tool in TOOLS {
        trials.push(Trial::test(format!("devices::listed_alike::{tool}"), move || listed_alike(tool)));
        trials.push(Trial::test(format!("devices::named_alike::{tool}"), move || drivers_named_alike(tool)));
        trials.push(Trial::test(format!("devices::unknown::{tool}"), move || unknown_alike(tool)));
    }
}

/// The reference's output for the drivers that both have.
fn listed_alike(tool: &str) -> Outcome {
    let pair = Pair::find(tool)?;
    for question in ["--list_devices=local-sync", "--dump_devices=local-sync"] {
        let (ours, theirs) = pair.run(&[question.to_owned()], Path::new("/"))?;
        ensure(ours.succeeded() && theirs.succeeded(), || format!("{question}: {}", ours.summary()))?;
        ensure(ours.stdout == theirs.stdout, || {
            format!("{question}:\n{}", String::from_utf8_lossy(&ours.stdout))
        })?;
    }
    Ok(())
}

/// Every driver of the reference is listed, whether included in the build or not, and no others.
fn drivers_named_alike(tool: &str) -> Outcome {
    let (ours, theirs) = Pair::find(tool)?.run(&["--list_drivers".to_owned()], Path::new("/"))?;
    let (ours, theirs) = (drivers(&ours.stdout)?, drivers(&theirs.stdout)?);
    ensure(ours == theirs, || format!("ours {ours:?}\ntheirs {theirs:?}"))
}

/// The header of a listing, and the names before the colon of each line after it.
fn drivers(listing: &[u8]) -> Result<Vec<String>, Failed> {
    let text = String::from_utf8_lossy(listing);
    let (head, lines) = text.split_once("\n\n").ok_or("the listing has no header")?;
    let names =
        lines.lines().map(|line| Ok(line.split_once(':').ok_or("the driver has no name")?.0.to_owned()));
    let names: Vec<String> = names.collect::<Result<_, Failed>>()?;
    ensure(names.len() == 5, || format!("expected 5 drivers, found {names:?}"))?;
    Ok([vec![head.to_owned()], names].concat())
}

/// An unknown driver is `NOT_FOUND` in both.
fn unknown_alike(tool: &str) -> Outcome {
    for question in ["--list_devices=abacus", "--dump_devices=abacus"] {
        let (ours, theirs) = Pair::find(tool)?.run(&[question.to_owned()], Path::new("/"))?;
        for ended in [&ours, &theirs] {
            let said = String::from_utf8_lossy(&ended.stderr);
            ensure(ended.code == Some(1) && said.contains("NOT_FOUND; "), || ended.summary())?;
        }
    }
    Ok(())
}
