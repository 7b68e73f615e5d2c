//! Writing an archive to a file, for the tools that make one.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use rehal_base::{Context, Error, Result};
use rehal_params::irpa::Archive;

use crate::flags::{Flag, Flags};
use crate::output;
use crate::parameters::{self, Line};

/// Where the archive goes.
pub(crate) const OUTPUT: Flag = Flag::text("output", "PATH", "", "The .irpa file to write.");

/// Says less.
pub(crate) const QUIET: Flag = Flag::switch("quiet", false, "Does not print what is in the written file.");

/// Where the flags want the archive to go; refuses to write over what is read.
pub(crate) fn path<'a>(flags: &'a Flags, inputs: impl IntoIterator<Item = &'a Path>) -> Result<&'a Path> {
    let path = flags.text("output");
    if path.is_empty() {
        return Err(Error::invalid_argument("no output file is given").advise("--output=FILE.irpa"));
    }
    parameters::check_output("output", path, inputs)?;
    Ok(Path::new(path))
}

/// Writes an archive: its data by `data`, which puts each parameter's bytes at their place, and then what
/// stands in front of them, so that a file that was not finished is none. Lists it unless told not to.
pub(crate) fn write(
    flags: &Flags,
    path: &Path,
    archive: &Archive,
    data: impl FnOnce(&mut Output) -> Result<()>,
) -> Result<()> {
    let place = || format!("'{}'", path.display());
    let mut file = Output::create(path, archive.file_bytes()).context(place)?;
    data(&mut file).context(place)?;
    let mut header = Vec::new();
    archive.write_header(&mut header)?;
    file.seek(0).and_then(|()| file.put(&header)).context(place)?;
    if flags.switch("quiet") {
        return Ok(());
    }
    let lines: Vec<_> =
        archive.entries().map(|(name, length, offset)| Line { name, length, offset, file: None }).collect();
    output::print(&parameters::listing("", &lines))
}

/// A file of zeros that is being filled.
pub(crate) struct Output {
    file: File,
}

impl Output {
    fn create(path: &Path, length: u64) -> Result<Self> {
        let creating = |error: std::io::Error| Error::io("creating the file", &error);
        let file = File::create(path).map_err(creating)?;
        file.set_len(length).map_err(creating)?;
        Ok(Self { file })
    }

    /// Goes to `offset`, to write there next.
    pub(crate) fn seek(&mut self, offset: u64) -> Result<()> {
        let sought = self.file.seek(SeekFrom::Start(offset));
        sought.map(drop).map_err(|error| Error::io("writing the file", &error))
    }

    /// Writes bytes.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| Error::io("writing the file", &error))
    }

    /// As a writer.
    pub(crate) fn writer(&mut self) -> &mut dyn Write {
        &mut self.file
    }
}
