//! The file of trials: a line of JSON for each.

use std::fs;
use std::path::{Path, PathBuf};

use rehal_base::{Context, Error, Result, plural};
use rehal_build::Trial;
use serde::Serialize;
use serde_json::Value;

use super::OUTPUT;
use crate::output;
use crate::tools::history::LineFile;

/// Longer files are refused.
const MAX_BYTES: u64 = 1 << 28;

pub(super) struct TrialFile {
    path: PathBuf,
    file: LineFile,
    /// What the trials were measured on.
    header: Value,
    /// The trials that it had when it was opened.
    pub known: Vec<Trial>,
}

#[derive(Serialize)]
struct Line<'a> {
    header: &'a Value,
    #[serde(flatten)]
    trial: &'a Trial,
}

impl TrialFile {
    /// Reads the trials of a file. One that does not exist is created with the first trial.
    pub(super) fn open(path: PathBuf, header: Value) -> Result<Self> {
        if path == Path::new("-") {
            return Err(Error::invalid_argument("--output appends to a file, not to standard output")
                .advise("name a file; --format=json prints the trials"));
        }
        let place = || format!("--{}={}", OUTPUT.name(), path.display());
        let file = LineFile::open(&path).context(place)?;
        let known = if file.exists() { read(&path).context(place)? } else { Vec::new() };
        Ok(Self { path, file, header, known })
    }

    /// Appends a trial.
    pub(super) fn append(&self, trial: &Trial) -> Result<()> {
        let place = || format!("--{}={}", OUTPUT.name(), self.path.display());
        let line = serde_json::to_string(&Line { header: &self.header, trial })
            .map_err(|error| Error::io("writing a trial", &error.into()))
            .context(place)?;
        self.file.append(&(line + "\n")).context(place)
    }
}

/// The trials of a file. Lines that are none are skipped: the last one of a killed process may be a part of
/// one.
fn read(path: &Path) -> Result<Vec<Trial>> {
    let reading = |error| Error::io("reading it", &error);
    let metadata = fs::metadata(path).map_err(reading)?;
    if !metadata.is_file() {
        return Err(Error::invalid_argument("it is not a regular file").advise("name a file"));
    }
    if metadata.len() > MAX_BYTES {
        return Err(Error::invalid_argument(format!("it is longer than {} MiB", MAX_BYTES >> 20))
            .advise("keep only the lines of this capture, or name another file"));
    }
    let text = fs::read(path).map_err(reading)?;
    let (mut known, mut skipped) = (Vec::new(), Vec::new());
    for (line, number) in text.split(|it| *it == b'\n').zip(1_u64..) {
        match serde_json::from_slice::<Trial>(line) {
            Ok(trial) => known.push(trial),
            Err(_) if line.iter().all(u8::is_ascii_whitespace) => {}
            Err(error) => skipped.push(format!("line {number}: {error}")),
        }
    }
    match (&known[..], &skipped[..]) {
        ([], [first, ..]) if text.ends_with(b"\n") => {
            Err(Error::invalid_argument(format!("it has no trial; {first}"))
                .advise("name a file that rehal tune has written"))
        }
        (_, [first, ..]) => {
            let count = plural(skipped.len() as u64, "line");
            output::note(&format!("note: --{}: {count} skipped that is not a trial: {first}", OUTPUT.name()));
            Ok(known)
        }
        (_, []) => Ok(known),
    }
}
