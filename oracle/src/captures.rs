//! The captures that both tools are compared on: the fixtures, and the larger corpus if present.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use testing::{corpus, repository};

/// The directory that the fixtures were created in: captures refer to files below it.
pub const FIXTURES_MADE_IN: &str = "/tmp/rehal-fixtures";

/// A capture file and its context.
#[derive(Clone, Debug)]
pub struct Capture {
    /// `fixtures/NAME` or `corpus/NAME`, unique.
    pub name: String,
    /// The capture.
    pub path: PathBuf,
    /// The working directory of its program: relative paths inside the capture start here.
    pub directory: PathBuf,
    /// The program's output, if recorded.
    pub printed: Option<PathBuf>,
    /// `--replay_file_remap` values that locate the files named in the capture.
    pub remaps: Vec<String>,
}

impl Capture {
    /// The number of devices the capture was made with, from its name.
    pub fn device_count(&self) -> usize {
        if self.short_name().starts_with("two_devices.") { 2 } else { 1 }
    }

    /// The name without its set.
    pub fn short_name(&self) -> &str {
        self.name.split_once('/').map_or(&self.name, |(_, name)| name)
    }
}

/// All captures of the fixtures, then those of the corpus, sorted by name.
pub fn all() -> io::Result<Vec<Capture>> {
    let mut captures =
        list("fixtures", &repository().join("fixtures"), &[(&format!("{FIXTURES_MADE_IN}/"), "")])?;
    if let Some(corpus) = corpus() {
        // Original location of the corpus' files, and their location in the corpus.
        let directories = [("/models/data/", "params/"), ("/models/onnx/", "models/")];
        captures.extend(list("corpus", &corpus, &directories)?);
    }
    Ok(captures)
}

/// The captures of the fixtures on Vulkan, sorted by name. They are not among [`all`], which other tests
/// replay on CPUs.
pub fn on_vulkan() -> io::Result<Vec<Capture>> {
    let fixtures = repository().join("fixtures");
    let captures = list("vulkan", &fixtures.join("vulkan"), &[(&format!("{FIXTURES_MADE_IN}/"), "")])?;
    // Commands were run in the directory of all fixtures.
    Ok(captures.into_iter().map(|capture| Capture { directory: fixtures.clone(), ..capture }).collect())
}

fn list(set: &str, directory: &Path, remaps: &[(&str, &str)]) -> io::Result<Vec<Capture>> {
    let remaps: Vec<String> = remaps
        .iter()
        .map(|(captured, here)| format!("{captured}={}", directory.join(here).display()))
        .collect();
    let mut captures = Vec::new();
    for entry in fs::read_dir(directory.join("captures"))? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".ireereplay")) else {
            continue;
        };
        let printed = directory.join(format!("expected/{name}.run.txt"));
        captures.push(Capture {
            name: format!("{set}/{name}"),
            directory: directory.to_path_buf(),
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
    fn fixtures_are_found_with_their_output() {
        let captures = list("fixtures", &repository().join("fixtures"), &[]).unwrap();
        let add = captures.iter().find(|capture| capture.short_name() == "add4.add.local-sync").unwrap();
        assert!(add.printed.is_some());
        assert_eq!(add.device_count(), 1);
        assert!(captures.iter().any(|capture| capture.device_count() == 2));
    }
}
