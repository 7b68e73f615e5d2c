//! Comparisons of captures of 1.8 million records.

use super::cases::{Figure, Plan};
use super::measure::{Invocation, Metric, Output};
use super::prepare::Workplace;
use super::report::Target;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// What is compared with the long capture; the other column is a second.
#[derive(Clone, Copy)]
pub enum Compared {
    /// Itself.
    Same,
    /// A copy that differs in many places.
    Changed,
}

/// Maximum seconds of a comparison.
const SECONDS: f64 = 3.0;
/// Maximum memory, as a multiple of both files.
const MEMORY: u64 = 3;
/// Of the allocations, one in this many has another size; of the executions, one in ten times as many is
/// missing.
const EVERY: usize = 7;

/// All cases, by name.
pub fn all() -> [(&'static str, Compared); 2] {
    [("diff.same", Compared::Same), ("diff.changed", Compared::Changed)]
}

impl Compared {
    /// Makes the inputs.
    pub fn prepare(self, name: &str, workplace: &Workplace) -> Result<Plan, Box<dyn Error>> {
        let (_, rehal) = workplace.pair("rehal");
        let before = workplace.long_capture()?;
        let (after, status) = match self {
            Self::Same => (before.clone(), 0),
            Self::Changed => (changed(workplace, &before)?, 2),
        };
        let files = fs::metadata(&before)?.len() + fs::metadata(&after)?.len();
        let script = format!("\"$@\"; test $? -eq {status}");
        let mut arguments: Vec<String> = ["-c", &script, "sh"].map(ToOwned::to_owned).to_vec();
        arguments.extend([rehal.display().to_string(), "diff".to_owned()]);
        arguments.extend([before.display().to_string(), after.display().to_string()]);
        let figure =
            |suffix: &str, metric, target| Figure { name: format!("{name}{suffix}"), metric, target };
        Ok(Plan {
            theirs: Invocation { program: "/bin/sleep".into(), arguments: vec!["1".to_owned()] },
            ours: Invocation { program: "/bin/sh".into(), arguments },
            without: None,
            output: Output::Discard,
            runs_per_round: 1,
            figures: vec![
                figure("", Metric::Wall, Target::Ratio(SECONDS)),
                figure(".memory", Metric::PeakBeyond(0), Target::Bytes(MEMORY * files)),
            ],
        })
    }
}

/// A copy of a capture in which many allocations have other sizes, and many executions are missing.
fn changed(workplace: &Workplace, capture: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let path = workplace.scratch("long.changed.ireereplay");
    if path.is_file() {
        return Ok(path);
    }
    let bytes = fs::read(capture)?;
    let mut copy = change(&bytes).ok_or("the long capture is corrupt")?;
    // The length of the file, in its header.
    let length = (copy.len() as u64).to_le_bytes();
    copy.get_mut(16..24).ok_or("the long capture has no header")?.copy_from_slice(&length);
    let unfinished = workplace.scratch("long.changed.unfinished");
    fs::write(&unfinished, &copy)?;
    fs::rename(&unfinished, &path)?;
    Ok(path)
}

/// The changed bytes; `None` if records are torn. Offsets are those of the format: see `rehal-capture`.
fn change(bytes: &[u8]) -> Option<Vec<u8>> {
    const ALLOCA: u32 = 13;
    const EXECUTE: u32 = 22;
    let number = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let mut at = u32::from_le_bytes(*bytes.get(8..)?.first_chunk()?) as usize;
    let mut copy = bytes.get(..at)?.to_vec();
    let (mut ordinal, mut executions, mut allocations) = (0_u64, 0, 0);
    while at < bytes.len() {
        let record = bytes.get(at..at.checked_add(number(at)? as usize)?)?;
        at += record.len();
        let code = u32::from_le_bytes(*record.get(72..)?.first_chunk()?);
        executions += usize::from(code == EXECUTE);
        if code == EXECUTE && executions % (10 * EVERY) == 0 {
            continue;
        }
        let start = copy.len();
        copy.extend_from_slice(record);
        copy[start + 16..start + 24].copy_from_slice(&ordinal.to_le_bytes());
        ordinal += 1;
        if code == ALLOCA {
            allocations += 1;
            // The size, first in the payload.
            if allocations % EVERY == 0 {
                copy[start + 96] ^= 8;
            }
        }
    }
    Some(copy)
}
