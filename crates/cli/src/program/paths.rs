//! The files that a program reads and writes.

use std::path::Path;

use rehal_base::Result;

use super::options::ProgramOptions;
use crate::parameters;

impl ProgramOptions {
    /// Refuses to write results or a report over a module or parameters: they are in use until the end.
    pub(super) fn check_written(&self) -> Result<()> {
        self.written().try_for_each(|(flag, path)| parameters::check_input(flag, path, self.loaded()))
    }

    /// Files that are read while the program runs.
    pub(super) fn read(&self) -> impl Iterator<Item = &Path> {
        let expected = self.results.iter().flat_map(|results| &results.expected);
        let values = self.inputs.iter().chain(expected);
        self.loaded().chain(values.filter_map(|value| value.path()))
    }

    /// Files that results and reports are written to, each with its flag.
    pub(super) fn written(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let outputs = self.results.iter().flat_map(|results| &results.outputs);
        let outputs = outputs.filter_map(|output| Some(("output", output.path()?)));
        outputs.chain(self.reports.iter().map(|(flag, path)| (*flag, path.as_path())))
    }

    fn loaded(&self) -> impl Iterator<Item = &Path> {
        let modules = self.modules.iter().filter_map(|module| module.path());
        modules.chain(self.parameters.files.iter().map(|file| file.path.as_path()))
    }
}
