use std::path::Path;

use rehal_base::{Context, Error, Result};
use rehal_replay::{FilePolicy, FileValidation, RecordOptions, Recorder};

use super::paths;
use crate::flags::Flags;
use crate::parameters;

/// The recorder that the flags ask for.
pub(crate) fn recorder(flags: &Flags) -> Result<Option<Recorder>> {
    let options =
        RecordOptions { file_policy: file_policy(flags)?, file_validation: file_validation(flags)? };
    let Some(path) = flags.given_text("device_replay_output") else { return Ok(None) };
    // It would be cut under the maps of the module or the parameters, and inputs are read only later.
    parameters::check_output("device_replay_output", path, paths::read(flags))?;
    parameters::check_outputs(
        "device_replay_output",
        path,
        paths::written(flags).map(|(_, path)| Path::new(path)),
    )?;
    let recorder = Recorder::create(Path::new(path), options);
    recorder.map(Some).context(|| format!("--device_replay_output={path}"))
}

fn file_policy(flags: &Flags) -> Result<FilePolicy> {
    Ok(match flags.text("device_replay_file_policy") {
        "reference" => FilePolicy::Reference,
        "capture-ranges" => FilePolicy::CaptureRanges,
        "capture-all" => FilePolicy::CaptureAll,
        "fail" => FilePolicy::Fail,
        other => {
            let error = Error::invalid_argument(format!("--device_replay_file_policy={other} is no policy"));
            return Err(error.advise("reference, capture-ranges, capture-all or fail"));
        }
    })
}

fn file_validation(flags: &Flags) -> Result<FileValidation> {
    Ok(match flags.text("device_replay_file_validation") {
        "identity" => FileValidation::Identity,
        "digest" => FileValidation::Digest,
        other => {
            let error = Error::invalid_argument(format!(
                "--device_replay_file_validation={other} is no way to tell files"
            ));
            return Err(error.advise("identity or digest"));
        }
    })
}
