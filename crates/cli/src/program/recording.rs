use rehal_base::{Context, Result};
use rehal_replay::Recorder;

use super::options::ProgramOptions;
use crate::parameters;

impl ProgramOptions {
    /// Creates the recorder, if the program is to be recorded.
    pub(super) fn recorder(&self) -> Result<Option<Recorder>> {
        const FLAG: &str = "device_replay_output";
        let Some(recording) = &self.recording else { return Ok(None) };
        let path = &recording.path;
        // It would be truncated while the module or the parameters are mapped, and inputs are read only later.
        parameters::check_output(FLAG, path, self.read())?;
        parameters::check_outputs(FLAG, path, self.written().map(|(_, path)| path))?;
        let recorder = Recorder::create(path, recording.options);
        recorder.map(Some).context(|| format!("--{FLAG}={}", path.display()))
    }
}
