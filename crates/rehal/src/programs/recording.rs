use std::path::Path;

use rehal_base::{Context, Error, FileId, Result};
use rehal_replay::Recorder;

use super::options::ProgramOptions;

/// Creates the recorder, if the options have a recording.
pub(super) fn recorder(options: &ProgramOptions) -> Result<Option<Recorder>> {
    let Some(recording) = &options.recording else { return Ok(None) };
    let path = recording.path.path();
    check_not_read(options, path).context(|| recording.path.place())?;
    recording.create().map(Some)
}

/// Refuses to overwrite a module or parameters, which may be mapped.
fn check_not_read(options: &ProgramOptions, path: &Path) -> Result<()> {
    let Some(written) = FileId::at(path) else { return Ok(()) };
    let modules = options.modules.iter().filter_map(|module| module.path());
    let parameters = options.parameters.files.iter().map(|file| file.path.path());
    match modules.chain(parameters).find(|read| FileId::at(read) == Some(written)) {
        None => Ok(()),
        Some(read) => {
            Err(Error::invalid_argument(format!("the capture would overwrite '{}'", read.display()))
                .advise("name another file to write to"))
        }
    }
}
