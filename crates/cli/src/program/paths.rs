//! The files that the flags of a program name.

use std::path::Path;

use rehal_base::Result;
use rehal_values::{Input, Source};

use crate::flags::Flags;
use crate::parameters;

/// Refuses to write results or a report over a module or parameters: they are in use until the end.
pub(super) fn check_written(flags: &Flags) -> Result<()> {
    written(flags).try_for_each(|(flag, path)| parameters::check_input(flag, path, loaded(flags)))
}

/// What a program reads while it runs.
pub(super) fn read(flags: &Flags) -> impl Iterator<Item = &Path> {
    let values = ["input", "expected_output"].into_iter().filter(|name| flags.has(name));
    let values = values.flat_map(|name| flags.list(name)).filter_map(file_of);
    loaded(flags).chain(values.map(Path::new))
}

/// What results and reports are written to, each with its flag.
pub(super) fn written(flags: &Flags) -> impl Iterator<Item = (&'static str, &str)> {
    let results = ["output"].into_iter().filter(|name| flags.has(name)).flat_map(|name| flags.list(name));
    let results = results.filter_map(|spec| spec.strip_prefix(['@', '+']));
    let reports = ["benchmark_out", "instrument_file"].into_iter().filter(|name| flags.has(name));
    let reports = reports.filter_map(|name| flags.given_text(name).map(|path| (name, path)));
    results.map(|path| ("output", path)).chain(reports)
}

fn loaded(flags: &Flags) -> impl Iterator<Item = &Path> {
    let parameters = flags.list("parameters").map(|flag| flag.split_once('=').map_or(flag, |(_, path)| path));
    flags.list("module").chain(parameters).map(Path::new)
}

/// The file that an input names; what is wrong with one is said when it is read.
fn file_of(input: &str) -> Option<&str> {
    match Input::parse(input, None).ok()? {
        Input::Npy { path, .. } | Input::Tensor { source: Source::File { path, .. }, .. } => Some(path),
        _ => None,
    }
}
