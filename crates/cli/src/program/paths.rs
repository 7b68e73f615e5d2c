//! The files that a program reads and writes, which must be distinct.

use std::path::Path;

use rehal_base::Result;

use super::options::Options;
use crate::parameters;

impl Options {
    /// Refuses to overwrite a module, parameters or an input with an output, and to write two outputs to one file.
    pub(crate) fn check_paths(&self) -> Result<()> {
        self.written().try_for_each(|(flag, path)| parameters::check_input(flag, path, self.loaded()))?;
        let Some(recording) = &self.program.recording else { return Ok(()) };
        const FLAG: &str = "device_replay_output";
        let path = recording.path.path();
        // The capture would truncate modules and parameters while they are mapped, and inputs before they are read.
        parameters::check_output(FLAG, path, self.read())?;
        parameters::check_outputs(FLAG, path, self.written().map(|(_, path)| path))
    }

    /// Input files.
    fn read(&self) -> impl Iterator<Item = &Path> {
        let expected = self.results.iter().flat_map(|results| &results.expected);
        let values = self.inputs.iter().chain(expected);
        self.loaded().chain(values.filter_map(|value| value.path()))
    }

    /// Output files for results and reports, each with its flag.
    fn written(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let outputs = self.results.iter().flat_map(|results| &results.outputs);
        let outputs = outputs.filter_map(|output| Some(("output", output.path()?)));
        outputs.chain(self.reports.iter().map(|(flag, path)| (*flag, path.as_path())))
    }

    fn loaded(&self) -> impl Iterator<Item = &Path> {
        let modules = self.program.modules.iter().filter_map(|module| module.path());
        modules.chain(self.program.parameters.files.iter().map(|file| file.path.path()))
    }
}
