//! `--output`: the file of trials.

use std::path::{Path, PathBuf};

use rehal_base::{Context, Error, Result};
use rehal_build::{Trial, TrialFile};
use serde_json::Value;

use crate::flags::{Access, Flag};
use crate::output;

pub(super) const OUTPUT: Flag<Option<PathBuf>> = Flag::path(
    "output",
    "Appends each trial to this file, as JSON on a line, as soon as it is known. Trials that the file has are not repeated.",
)
.short('o')
.files(|path, _| path.iter().map(|path| Access::AppendResult.to(path)).collect());

/// Opens the file.
pub(super) fn trial_file(path: PathBuf, header: Value) -> Result<TrialFile> {
    if path == Path::new("-") {
        return Err(Error::invalid_argument("--output appends to a file, not to standard output")
            .advise("name a file; --format=json prints the trials"));
    }
    let place = place_of(&path);
    let file = TrialFile::open(path, header).context(|| place)?;
    if let Some(why) = &file.skipped {
        output::note(&format!("note: --{}: {why}", OUTPUT.name()));
    }
    Ok(file)
}

/// Appends a trial to the file.
pub(super) fn append(file: &TrialFile, trial: &Trial) -> Result<()> {
    file.append(trial).context(|| place_of(file.path()))
}

/// The flag of a file of trials.
fn place_of(path: &Path) -> String {
    format!("--{}={}", OUTPUT.name(), path.display())
}
