use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use rehal_base::{Context as _, Error, Result, TextWriter};

use crate::{ConsoleReporter, CsvReporter, Format, JsonReporter, Options, Reporter};

/// The outputs of a [`crate::Runner`].
pub struct Reporters<'a> {
    /// Names for `--benchmark_list_tests`; otherwise unused, since reporters write themselves.
    pub list: Box<dyn io::Write + 'a>,
    /// The report on standard output.
    pub display: Box<dyn Reporter + 'a>,
    /// The report file, `--benchmark_out`.
    pub file: Option<Box<dyn Reporter + 'a>>,
    /// Notes outside any report: an unmatched filter, logs.
    pub notes: Box<dyn io::Write + 'a>,
}

impl Reporters<'static> {
    /// Reports to standard output and the file that the options name; notes go to standard error.
    ///
    /// Creates the file; fails if that fails.
    pub fn from_options(options: &Options) -> Result<Self> {
        let file = |path: &PathBuf| -> Result<Box<dyn io::Write>> {
            let file = File::create(path)
                .map_err(|error| Error::io(format!("creating '{}'", path.display()), &error))
                .advise(|| "name a writable file with --benchmark_out".to_string())?;
            Ok(Box::new(io::BufWriter::new(file)))
        };
        let file = options.out.as_ref().map(file).transpose()?;
        let stdout = || Ok(TextWriter::new(io::stdout(), io::stdout().is_terminal()));
        Self::with_output(options, stdout, file)
    }

    /// Like [`Reporters::from_options`], with `out` as the source of writers to standard output, and `file`
    /// as the writer of the report file, if there is one.
    pub fn with_output(
        options: &Options,
        mut out: impl FnMut() -> Result<TextWriter<'static>>,
        file: Option<Box<dyn io::Write>>,
    ) -> Result<Self> {
        let file = file.map(|out| {
            let out = TextWriter::new(out, false);
            reporter(options.out_format, options.counters_tabular, false, out, None)
        });
        let display = reporter(
            options.format,
            options.counters_tabular,
            options.color.on_stdout(),
            out()?,
            Some(Box::new(notes())),
        );
        Ok(Self { list: Box::new(out()?), display, file, notes: Box::new(notes()) })
    }
}

/// Standard error: names in it cannot control a terminal.
fn notes() -> TextWriter<'static> {
    TextWriter::new(Notes(io::stderr()), true)
}

/// A writer that ignores failures: there is nowhere to report those of standard error.
struct Notes<W>(W);

impl<W: io::Write> io::Write for Notes<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

/// A reporter of the given format on `out`. `context_out` takes the context of console and CSV reports, to
/// keep it out of the results.
fn reporter(
    format: Format,
    tabular: bool,
    color: bool,
    out: TextWriter<'static>,
    context_out: Option<Box<dyn io::Write>>,
) -> Box<dyn Reporter> {
    match format {
        Format::Console => Box::new(ConsoleReporter::new(out, context_out).tabular(tabular).color(color)),
        Format::Json => Box::new(JsonReporter::new(Box::new(out))),
        Format::Csv => Box::new(CsvReporter::new(Box::new(out), context_out)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{context::samples::context, report::samples::replay_run};

    #[test]
    fn the_file_has_the_requested_format() {
        let directory = tempfile::tempdir().unwrap();
        for (out_format, first, lines) in [
            (Format::Console, "2026-11-21T11:17:28+00:00", 10 + 4),
            (Format::Csv, "2026-11-21T11:17:28+00:00", 10 + 2),
            (Format::Json, "{", 58),
        ] {
            let path = directory.path().join("report");
            let options = Options { out: Some(path.clone()), out_format, ..Options::default() };
            let mut file = Reporters::from_options(&options).unwrap().file.unwrap();
            file.begin(&context()).unwrap();
            file.runs(&[replay_run()]).unwrap();
            file.finish().unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!((text.lines().next(), text.lines().count()), (Some(first), lines), "{text}");
            assert!(!text.contains('\x1b'), "files have no colours");
        }
    }

    #[test]
    fn the_error_names_a_file_that_cannot_be_created() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("missing").join("report.json");
        let options = Options { out: Some(path.clone()), ..Options::default() };
        let error = Reporters::from_options(&options).err().unwrap();
        assert_eq!(
            error.report(),
            format!(
                "NOT_FOUND; creating '{}': No such file or directory\n  try: name a writable file with \
                 --benchmark_out",
                path.display()
            )
        );
    }
}
