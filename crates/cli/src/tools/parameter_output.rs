//! Writes an archive to a file, for the tools that create one.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use rehal_base::{Error, Result, StatusCode};
use rehal_params::irpa::{Archive, Slot};

use crate::flags::{Flag, Flags, Group, written};
use crate::output;
use crate::output_file::{OutputFile, Sink};
use crate::parameters::{self, Line};

const OUTPUT: Flag<Option<PathBuf>> =
    Flag::path("output", "The .irpa file to write, once it is complete; - is standard output.")
        .files(written)
        .endings(&["irpa"]);

const QUIET: Flag<bool> = Flag::switch("quiet", false, "Does not list the parameters of the written file.");

/// Where the archive is written, and whether it is listed.
pub(crate) const WRITE: Group = Group { title: "Output", flags: &[&OUTPUT, &QUIET] };

/// Where the archive is written, and whether it is listed.
pub(crate) struct OutputOptions {
    path: PathBuf,
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

    /// The file.
    pub(crate) fn file(&self) -> Result<OutputFile> {
        OutputFile::new(OUTPUT.name(), self.path.clone())
    }
}

/// Writes an archive: `data` writes the bytes of parameters in the order of their declaration. Lists the
/// archive, unless `--quiet` is given: on standard error if the archive is written to standard output.
pub(crate) fn write(
    options: &OutputOptions,
    file: &OutputFile,
    archive: &Archive,
    data: impl FnOnce(&mut ArchiveWriter) -> Result<()>,
) -> Result<()> {
    let output = file.begin()?;
    let mut writer = ArchiveWriter { sink: BufWriter::new(output.sink()?), position: 0 };
    output.finish(writer.write(archive, data))?;
    if options.quiet {
        return Ok(());
    }
    let lines: Vec<_> =
        archive.entries().map(|(name, length, offset)| Line { name, length, offset, file: None }).collect();
    let listing = parameters::listing("", &lines);
    match file.is_stdout() {
        true => output::note(listing.trim_end()),
        false => output::print(&listing)?,
    }
    Ok(())
}

/// Writes the file of an archive from its start to its end. What nothing is written to is zero.
pub(crate) struct ArchiveWriter {
    sink: BufWriter<Sink>,
    position: u64,
}

impl ArchiveWriter {
    fn write(&mut self, archive: &Archive, data: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        archive.write_header(self)?;
        data(self)?;
        self.fill_to(archive.file_bytes())
    }

    /// Goes to the data of a parameter, which is behind that of the last one.
    pub(crate) fn begin(&mut self, archive: &Archive, slot: Slot) -> Result<()> {
        self.fill_to(archive.data_offset(slot))
    }

    fn fill_to(&mut self, offset: u64) -> Result<()> {
        let count = offset.checked_sub(self.position);
        let count = count
            .ok_or_else(|| Error::new(StatusCode::Internal, "the data of parameters is out of order"))?;
        let filled = self.sink.flush().and_then(|()| self.sink.get_mut().zeros(count));
        filled.map_err(|error| Error::io("writing the file", &error))?;
        self.position = offset;
        Ok(())
    }
}

impl Write for ArchiveWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.sink.write(bytes)?;
        self.position += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.sink.flush()
    }
}
