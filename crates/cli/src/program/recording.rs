use std::path::Path;

use rehal_base::{Context, Error, Result};
use rehal_replay::{FilePolicy, FileValidation, RecordOptions, Recorder};
use rehal_values::{Input, Source};

use crate::flags::Flags;
use crate::parameters;

/// The recorder that the flags ask for.
pub(crate) fn recorder(flags: &Flags) -> Result<Option<Recorder>> {
    let options =
        RecordOptions { file_policy: file_policy(flags)?, file_validation: file_validation(flags)? };
    let Some(path) = flags.given_text("device_replay_output") else { return Ok(None) };
    // It would be cut under the maps of the module or the parameters, and inputs are read only later.
    parameters::check_output("device_replay_output", path, read_files(flags))?;
    parameters::check_outputs("device_replay_output", path, written_files(flags))?;
    let recorder = Recorder::create(Path::new(path), options);
    recorder.map(Some).context(|| format!("--device_replay_output={path}"))
}

/// The files that a program reads while it runs, as the flags name them.
fn read_files(flags: &Flags) -> impl Iterator<Item = &Path> {
    let parameters = flags.list("parameters").map(|flag| flag.split_once('=').map_or(flag, |(_, path)| path));
    let values = ["input", "expected_output"].into_iter().filter(|name| flags.has(name));
    let values = values.flat_map(|name| flags.list(name)).filter_map(file_of);
    flags.list("module").chain(parameters).chain(values).map(Path::new)
}

/// The file that an input names; what is wrong with one is said when it is read.
fn file_of(input: &str) -> Option<&str> {
    match Input::parse(input, None).ok()? {
        Input::Npy { path, .. } | Input::Tensor { source: Source::File { path, .. }, .. } => Some(path),
        _ => None,
    }
}

/// The files that results are written to.
fn written_files(flags: &Flags) -> impl Iterator<Item = &Path> {
    let results = ["output"].into_iter().filter(|name| flags.has(name)).flat_map(|name| flags.list(name));
    let results = results.filter_map(|spec| spec.strip_prefix(['@', '+']));
    let report = ["benchmark_out"].into_iter().filter(|name| flags.has(name));
    let report = report.filter_map(|name| flags.given_text(name));
    results.chain(report).map(Path::new)
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
