//! The bodies of the fuzz targets of the printers: the reports of this crate on files of arbitrary bytes.
//! The output of other crates is in their own targets: dumps of captures and of modules, and the reports of
//! profiles.

use std::io::Write;
use std::path::Path;

use rehal::capture::CaptureFile;
use rehal::program::{ParameterFile, ParameterOptions};
use rehal_base::{Error, Result};
use rehal_devices::ProfileFile;
use rehal_hal::DeviceGroup;

use super::{diff, info, kernels, profile_compare};
use crate::{captures, parameters};

/// Prints every report of a capture, and of its differences from itself and from its first half.
///
/// Returns the number of printed bytes; the property under test is that it returns.
pub fn exercise_capture(bytes: &[u8], devices: &DeviceGroup) -> usize {
    let open = |bytes: &[u8]| CaptureFile::from_bytes(bytes.to_vec(), &captures::options(true));
    let Ok(capture) = open(bytes) else { return 0 };
    let part = open(&bytes[..bytes.len() / 2]);
    let others = [Some(&capture), part.as_ref().ok()];
    let texts =
        others.into_iter().flatten().filter_map(|other| diff::reports(&capture, other).ok()).flatten();
    let texts = texts.chain(info::reports(&capture, devices).into_iter().flatten());
    texts.chain(kernels::reports(&capture).into_iter().flatten()).map(|text| text.len()).sum()
}

/// As [`exercise_capture`], for the comparison of a profile with itself.
pub fn exercise_profile(bytes: &[u8]) -> Result<usize> {
    let file = in_file(bytes, ".ireeprof")?;
    let texts = profile_compare::reports(&ProfileFile::open(file.path())?)?;
    Ok(texts.iter().map(String::len).sum())
}

/// As [`exercise_capture`], for the list of parameters of a file with this extension.
pub fn exercise_parameters(bytes: &[u8], extension: &str) -> Result<usize> {
    let file = in_file(bytes, extension)?;
    let mut options = ParameterOptions::default();
    options.files = vec![ParameterFile::new("", Path::to_path_buf(file.path()))];
    let scopes = options.open()?;
    Ok(scopes.iter().map(|(scope, index)| parameters::listing(scope, &parameters::lines(index)).len()).sum())
}

fn in_file(bytes: &[u8], extension: &str) -> Result<tempfile::NamedTempFile> {
    let made = tempfile::Builder::new().suffix(extension).tempfile();
    let made = made.and_then(|mut file| file.write_all(bytes).map(|()| file));
    made.map_err(|error| Error::io("writing a temporary file", &error))
}
