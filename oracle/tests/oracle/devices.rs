//! Drivers and devices as both list them.

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

/// What the reference prints of the drivers that both have.
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

/// Every driver that the reference knows is listed, whether it is built or not, and no other.
fn drivers_named_alike(tool: &str) -> Outcome {
    let (ours, theirs) = Pair::find(tool)?.run(&["--list_drivers".to_owned()], Path::new("/"))?;
    let (ours, theirs) = (drivers(&ours.stdout)?, drivers(&theirs.stdout)?);
    ensure(ours == theirs, || format!("ours {ours:?}\ntheirs {theirs:?}"))
}

/// The head of a listing, and what stands before the colon of each line behind it.
fn drivers(listing: &[u8]) -> Result<Vec<String>, Failed> {
    let text = String::from_utf8_lossy(listing);
    let (head, lines) = text.split_once("\n\n").ok_or("a listing has a head")?;
    let names = lines.lines().map(|line| Ok(line.split_once(':').ok_or("a driver has a name")?.0.to_owned()));
    let names: Vec<String> = names.collect::<Result<_, Failed>>()?;
    ensure(names.len() == 5, || format!("5 drivers, not {names:?}"))?;
    Ok([vec![head.to_owned()], names].concat())
}

/// A driver that neither has is `NOT_FOUND` in both.
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
