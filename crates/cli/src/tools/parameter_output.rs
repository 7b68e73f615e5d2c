//! Writes an archive to a file, for the tools that create one.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rehal_base::{Context, Error, Result};
use rehal_params::irpa::Archive;

use crate::flags::{Flag, Flags, Group, written};
use crate::parameters::{self, Line};
use crate::{files, output};

const OUTPUT: Flag<Option<PathBuf>> = Flag::path("output", "The .irpa file to write.").files(written);

const QUIET: Flag<bool> = Flag::switch("quiet", false, "Does not list the parameters of the written file.");

/// Where the archive is written, and whether it is listed.
pub(crate) const WRITE: Group = Group { title: "Output", flags: &[&OUTPUT, &QUIET] };

/// Where the archive is written, and whether it is listed.
pub(crate) struct OutputOptions {
    pub path: PathBuf,
    pub quiet: bool,
}

impl OutputOptions {
    /// The options set by the flags of [`WRITE`].
    pub(crate) fn from_flags(flags: &Flags) -> Result<Self> {
        let Some(path) = flags.get(&OUTPUT) else {
            return Err(Error::invalid_argument("--output is missing").advise("--output=FILE.irpa"));
        };
        Ok(Self { path, quiet: flags.get(&QUIET) })
    }

    /// Refuses to overwrite an input file.
    pub(crate) fn check<'a>(&self, inputs: impl IntoIterator<Item = &'a Path>) -> Result<()> {
        files::check_output("output", &self.path, inputs)
    }
}

/// Writes an archive: `data` writes the bytes of each parameter at its offset; the header is written last, so that
/// an incomplete file is not a valid archive. Lists the archive, unless `--quiet` is given.
pub(crate) fn write(
    options: &OutputOptions,
    archive: &Archive,
    data: impl FnOnce(&mut Output) -> Result<()>,
) -> Result<()> {
    let path = &options.path;
    let place = || format!("'{}'", path.display());
    let mut file = Output::create(path, archive.file_bytes()).context(place)?;
    data(&mut file).context(place)?;
    let mut header = Vec::new();
    archive.write_header(&mut header)?;
    file.seek(0).and_then(|()| file.put(&header)).context(place)?;
    if options.quiet {
        return Ok(());
    }
    let lines: Vec<_> =
        archive.entries().map(|(name, length, offset)| Line { name, length, offset, file: None }).collect();
    output::print(&parameters::listing("", &lines))
}

/// A zeroed file that is being filled.
pub(crate) struct Output {
    file: File,
}

impl Output {
    fn create(path: &Path, length: u64) -> Result<Self> {
        let creating = |error: std::io::Error| Error::io("creating the file", &error);
        // Checked before opening: opening a pipe blocks until it has a reader, and a pipe is not seekable.
        if std::fs::metadata(path).is_ok_and(|it| !it.is_file() && !it.is_dir()) {
            return Err(Error::invalid_argument(
                "an archive cannot be written to a pipe or a device: its header is written last",
            )
            .advise("name a regular file"));
        }
        let file = File::create(path).map_err(creating)?;
        file.set_len(length).map_err(creating)?;
        Ok(Self { file })
    }

    /// Seeks to `offset`.
    pub(crate) fn seek(&mut self, offset: u64) -> Result<()> {
        let sought = self.file.seek(SeekFrom::Start(offset));
        sought.map(drop).map_err(|error| Error::io("writing the file", &error))
    }

    /// Writes bytes.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| Error::io("writing the file", &error))
    }

    /// A writer at the current offset.
    pub(crate) fn writer(&mut self) -> &mut dyn Write {
        &mut self.file
    }
}
