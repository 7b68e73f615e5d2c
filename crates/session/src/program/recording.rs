use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rehal_base::{Context, Error, Result};
use rehal_replay::Recorder;

use super::options::ProgramOptions;

/// Creates the recorder, if the program is to be recorded.
pub(super) fn recorder(options: &ProgramOptions) -> Result<Option<Recorder>> {
    let Some(recording) = &options.recording else { return Ok(None) };
    let path = recording.path.path();
    check_not_read(options, path).context(|| recording.path.place())?;
    let recorder = Recorder::create(path, recording.record);
    recorder.map(Some).context(|| recording.path.place())
}

/// Refuses to truncate a module or parameters, which may be mapped.
fn check_not_read(options: &ProgramOptions, path: &Path) -> Result<()> {
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    let Some(written) = identity(path) else { return Ok(()) };
    let modules = options.modules.iter().filter_map(|module| module.path());
    let parameters = options.parameters.files.iter().map(|file| file.path.path());
    match modules.chain(parameters).find(|read| identity(read) == Some(written)) {
        None => Ok(()),
        Some(read) => {
            Err(Error::invalid_argument(format!("the capture would overwrite '{}'", read.display()))
                .advise("name another file to write to"))
        }
    }
}
