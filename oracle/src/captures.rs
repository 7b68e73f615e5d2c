//! The captures that both tools are held to: the fixtures, and the larger corpus where it is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use testing::{corpus, repository};

/// The directory that the fixtures are made in: captures name files below it.
pub const FIXTURES_MADE_IN: &str = "/tmp/rehal-fixtures";

/// One capture file and what is known of it.
#[derive(Clone, Debug)]
pub struct Capture {
    /// `fixtures/NAME` or `corpus/NAME`, unique.
    pub name: String,
    /// The capture.
    pub path: PathBuf,
    /// The directory that its program ran in: relative paths inside the capture start here.
    pub folder: PathBuf,
    /// What the program printed, where that was kept.
    pub printed: Option<PathBuf>,
    /// `--replay_file_remap` values under which files that the capture names are found.
    pub remaps: Vec<String>,
}

impl Capture {
    /// How many devices the capture was made with; the name says so.
    pub fn device_count(&self) -> usize {
        if self.short_name().starts_with("two_devices.") { 2 } else { 1 }
    }

    /// The name without the set that it belongs to.
    pub fn short_name(&self) -> &str {
        self.name.split_once('/').map_or(&self.name, |(_, name)| name)
    }
}

/// All captures of the fixtures, then those of the corpus, sorted by name.
pub fn all() -> io::Result<Vec<Capture>> {
    let mut captures =
        list("fixtures", &repository().join("fixtures"), &[(&format!("{FIXTURES_MADE_IN}/"), "")])?;
    if let Some(corpus) = corpus() {
        // Where the corpus' files were when it was made, and where they are in it.
        let folders = [("/models/data/", "params/"), ("/models/onnx/", "models/")];
        captures.extend(list("corpus", &corpus, &folders)?);
    }
    Ok(captures)
}

fn list(set: &str, folder: &Path, remaps: &[(&str, &str)]) -> io::Result<Vec<Capture>> {
    let remaps: Vec<String> =
        remaps.iter().map(|(captured, here)| format!("{captured}={}", folder.join(here).display())).collect();
    let mut captures = Vec::new();
    for entry in fs::read_dir(folder.join("captures"))? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".ireereplay")) else {
            continue;
        };
        let printed = folder.join(format!("expected/{name}.run.txt"));
        captures.push(Capture {
            name: format!("{set}/{name}"),
            folder: folder.to_path_buf(),
            printed: printed.is_file().then_some(printed),
            remaps: remaps.clone(),
            path,
        });
    }
    captures.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(captures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixtures_are_found_with_what_they_printed() {
        let captures = list("fixtures", &repository().join("fixtures"), &[]).unwrap();
        let add = captures.iter().find(|capture| capture.short_name() == "add4.add.local-sync").unwrap();
        assert!(add.printed.is_some());
        assert_eq!(add.device_count(), 1);
        assert!(captures.iter().any(|capture| capture.device_count() == 2));
    }
}
