//! Drivers and devices as listed by both tools.

use crate::replays::refuses_well;
use crate::{Outcome, Pair, ensure, fixture};
use libtest_mimic::{Failed, Trial};
use std::path::Path;

const TOOLS: [&str; 4] =
    ["iree-run-module", "iree-benchmark-module", "iree-run-replay", "iree-benchmark-replay"];

/// Forms of a device URI that both tools accept, or both reject.
const FORMS: [&str; 24] = [
    "local-sync",
    "local-sync:",
    "local-sync:/",
    "local-sync://",
    "local-sync://?",
    "local-sync://?&",
    " local-sync ",
    "local-sync:///",
    "local-sync:///0",
    "local-sync://00",
    "local-sync://+0",
    "local-sync://-1",
    "local-sync://1",
    "local-sync://0/0",
    "local-sync://default",
    "local-sync/0",
    "local-sync?key=value",
    "local-sync,local-sync",
    "LOCAL-SYNC",
    "local",
    "",
    ":",
    "://0",
    "*",
];

/// Forms that only ours accepts: indices of a CPU driver's devices.
const WIDER: [&str; 2] = ["local-sync://0", "local-sync:0"];

/// Forms that only the reference accepts, ignoring the parameters, of which its CPU drivers have none.
const STRICTER: [&str; 2] = ["local-sync://?key=value", "local-sync://?=value"];

pub fn add(trials: &mut Vec<Trial>) {
    for tool in TOOLS {
        trials.push(Trial::test(format!("devices::listed_alike::{tool}"), move || listed_alike(tool)));
        trials.push(Trial::test(format!("devices::named_alike::{tool}"), move || drivers_named_alike(tool)));
        trials.push(Trial::test(format!("devices::selected::{tool}"), move || driver_named(tool)));
        trials.push(Trial::test(format!("devices::unknown::{tool}"), move || unknown_alike(tool)));
    }
    for (forms, ours, theirs) in
        [(&FORMS[..], None, None), (&WIDER, Some(true), Some(false)), (&STRICTER, Some(false), Some(true))]
    {
        for form in forms {
            let name = format!("devices::uri::{form:?}");
            trials.push(Trial::test(name, move || accepted_alike(form, ours, theirs)));
        }
    }
}

/// Both tools accept a URI or both reject it, unless it is listed as accepted by one; ours rejects with a
/// message.
fn accepted_alike(form: &str, ours_accepts: Option<bool>, theirs_accepts: Option<bool>) -> Outcome {
    let capture = fixture("captures/add4.add.local-sync.ireereplay").display().to_string();
    let arguments = [format!("--device={form}"), capture];
    let (ours, theirs) = Pair::find("iree-run-replay")?.run(&arguments, Path::new("/"))?;
    let theirs_accepts = theirs_accepts.unwrap_or_else(|| theirs.succeeded());
    ensure(theirs.succeeded() == theirs_accepts, || format!("theirs: {}", theirs.summary()))?;
    if ours_accepts.unwrap_or(theirs_accepts) {
        return ensure(ours.succeeded(), || format!("ours: {}", ours.summary()));
    }
    refuses_well(&ours)
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
    ensure(ours == theirs && ours.len() == 6, || format!("ours {ours:?}\ntheirs {theirs:?}"))
}

/// A name is accepted, known or not, and selects nothing: all drivers are listed.
fn driver_named(tool: &str) -> Outcome {
    for name in ["vulkan", "none"] {
        let (ours, theirs) = Pair::find(tool)?.run(&[format!("--list_drivers={name}")], Path::new("/"))?;
        ensure(ours.succeeded() && theirs.succeeded(), || ours.summary())?;
        let (ours, theirs) = (drivers(&ours.stdout)?, drivers(&theirs.stdout)?);
        ensure(ours == theirs && ours.len() == 6, || format!("ours {ours:?}\ntheirs {theirs:?}"))?;
    }
    Ok(())
}

/// The header of a listing, and the names before the colon of each line after it.
fn drivers(listing: &[u8]) -> Result<Vec<String>, Failed> {
    let text = String::from_utf8_lossy(listing);
    let (head, lines) = text.split_once("\n\n").ok_or("the listing has no header")?;
    let names =
        lines.lines().map(|line| Ok(line.split_once(':').ok_or("the driver has no name")?.0.to_owned()));
    let names: Vec<String> = names.collect::<Result<_, Failed>>()?;
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
