//! The file of trials: a line of JSON for each.

use std::fs;
use std::path::{Path, PathBuf};

use rehal_base::{Error, Result, plural};
use rehal_judge::LineFile;
use serde::Serialize;
use serde_json::Value;

use super::Trial;

/// Longer files are refused.
const MAX_BYTES: u64 = 1 << 28;

/// A file of trials, to which a search appends.
pub struct TrialFile {
    path: PathBuf,
    file: LineFile,
    /// The machine and the subject of the trials.
    header: Value,
    /// The trials that it had when it was opened.
    pub known: Vec<Trial>,
    /// The reason why lines of it were skipped, if some are not trials.
    pub skipped: Option<String>,
}

#[derive(Serialize)]
struct Line<'a> {
    header: &'a Value,
    #[serde(flatten)]
    trial: &'a Trial,
}

impl TrialFile {
    /// Reads the trials of a file. One that does not exist is created with the first trial. Each trial is
    /// written with `header`, which says what it was measured on.
    pub fn open(path: PathBuf, header: Value) -> Result<Self> {
        let file = LineFile::open(&path)?;
        let (known, skipped) = if file.exists() { read(&path)? } else { (Vec::new(), None) };
        Ok(Self { path, file, header, known, skipped })
    }

    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a trial.
    pub fn append(&self, trial: &Trial) -> Result<()> {
        let line = serde_json::to_string(&Line { header: &self.header, trial })
            .map_err(|error| Error::io("writing a trial", &error.into()))?;
        self.file.append(&(line + "\n"))
    }
}

/// The trials of a file, and why other lines were skipped: the last one of a killed process may be a part of
/// a trial.
fn read(path: &Path) -> Result<(Vec<Trial>, Option<String>)> {
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
            let why = format!("{count} skipped that is not a trial: {first}");
            Ok((known, Some(why)))
        }
        (_, []) => Ok((known, None)),
    }
}
