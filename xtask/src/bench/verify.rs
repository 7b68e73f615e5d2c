//! The cost of verification: replays against a ledger, and recordings with digests of what is read and what
//! dispatches write.

use super::cases::{Figure, Plan};
use super::measure::{Invocation, Metric};
use super::prepare::Workplace;
use super::report::Target;
use crate::run;
use std::error::Error;
use std::path::Path;

/// A comparison of our tools on a real model; the column of the reference has ours without verification.
#[derive(Clone, Copy)]
pub struct Verified {
    what: What,
    model: &'static str,
    function: &'static str,
}

#[derive(Clone, Copy)]
enum What {
    /// `rehal verify` against a ledger of dispatches, compared with `rehal run`.
    Ledger,
    /// A recording with digests of host reads, compared with one without.
    Reads,
    /// A recording with digests of dispatches, compared with one without.
    Dispatches,
}

/// Maximum time of a verification as a multiple of that of a replay.
const VERIFY: f64 = 2.0;
/// Maximum time of a recording with digests, of host reads and of dispatches, as a multiple of that without.
const READS: f64 = 1.05;
const DISPATCHES: f64 = 2.0;

/// All cases, by name.
pub fn all(workplace: &Workplace) -> Vec<(String, Verified)> {
    let mut cases = Vec::new();
    for (prefix, what) in
        [("verify", What::Ledger), ("record.reads", What::Reads), ("record.dispatches", What::Dispatches)]
    {
        for (model, function) in workplace.models() {
            cases.push((format!("{prefix}.{model}"), Verified { what, model, function }));
        }
    }
    cases
}

impl Verified {
    /// Makes the inputs.
    pub fn prepare(&self, name: &str, workplace: &Workplace) -> Result<Plan, Box<dyn Error>> {
        let (theirs, ours, limit) = match self.what {
            What::Ledger => {
                let capture = workplace.model_capture(self.model, self.function)?;
                let (plain, verified) = against_ledger(name, workplace, &capture)?;
                (plain, verified, VERIFY)
            }
            What::Reads => {
                let (plain, digested) = self.recordings(name, workplace, "reads")?;
                (plain, digested, READS)
            }
            What::Dispatches => {
                let (plain, digested) = self.recordings(name, workplace, "dispatches")?;
                (plain, digested, DISPATCHES)
            }
        };
        let (name, target) = (name.to_owned(), Target::Ratio(limit));
        let figures = vec![Figure { name, metric: Metric::Wall, target }];
        Ok(Plan { runs_per_round: 3, ..Plan::new(theirs, ours, figures) })
    }

    fn recordings(
        &self,
        name: &str,
        workplace: &Workplace,
        ledger: &str,
    ) -> Result<(Invocation, Invocation), Box<dyn Error>> {
        let (_, program) = workplace.pair("iree-run-module");
        let mut arguments = vec!["--device=local-sync".to_owned(), format!("--function={}", self.function)];
        arguments.extend(workplace.model_base_arguments(self.model)?);
        let recording = |ledger: &str| {
            let path = workplace.scratch(&format!("{name}.{ledger}.ireereplay"));
            let own = [
                format!("--device_replay_ledger={ledger}"),
                format!("--device_replay_output={}", path.display()),
            ];
            let arguments = arguments.iter().cloned().chain(own).collect();
            Invocation { program: program.clone(), arguments }
        };
        Ok((recording("off"), recording(ledger)))
    }
}

/// A replay of a capture, and its verification against a ledger, which is made here.
fn against_ledger(
    name: &str,
    workplace: &Workplace,
    capture: &Path,
) -> Result<(Invocation, Invocation), Box<dyn Error>> {
    let (_, program) = workplace.pair("rehal");
    let ledger = workplace.scratch(&format!("{name}.ledger"));
    let invocation = |words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned());
        let rest = ["--device=local-sync".to_owned(), capture.display().to_string()];
        Invocation { program: program.clone(), arguments: words.chain(rest).collect() }
    };
    let written = invocation(&["run", &format!("--replay_ledger={}", ledger.display())]);
    let directory = ledger.parent().ok_or("the scratch directory has no path")?;
    let ended = run::collect(&written.program, &written.arguments, directory)?;
    if ended.how != "status 0" {
        let said = String::from_utf8_lossy(&ended.stderr);
        return Err(format!("writing the ledger of {name} ended with {}: {said}", ended.how).into());
    }
    Ok((invocation(&["run"]), invocation(&["verify", &format!("--against={}", ledger.display())])))
}
