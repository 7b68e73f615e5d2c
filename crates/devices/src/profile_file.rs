use std::io::Write;
use std::path::Path;

use rehal_base::{Context, Error, FileKind, MappedFile, Result, StatusCode};
use rehal_profile::activity::{self, Activity};
use rehal_profile::report::{self, ReportOptions};
use rehal_profile::timeline::{self, TimelineSummary};
use rehal_profile::times::{self, DispatchTimes};
use rehal_profile::{Bundle, OpenOptions, Tear};

/// Advice about a file that is not a profile.
const NO_PROFILE: &str = "name a device profile (.ireeprof), which IREE's tools record";

/// Advice about a corrupt profile.
const DAMAGED: &str = "the file is damaged: copy it again from its source, or record it again";

/// An open device profile: its file header has been checked. A truncated one is read up to its last complete
/// record.
///
/// ```
/// # fn main() -> rehal_base::Result<()> {
/// # use std::path::Path;
/// # let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../profile/tests/data/sample.ireeprof");
/// use rehal_devices::ProfileFile;
/// use rehal_profile::report::{Report, ReportOptions};
///
/// let profile = ProfileFile::open(&path)?;
/// assert!(profile.tear().is_none());
/// let mut text = Vec::new();
/// profile.print(&ReportOptions::default().report(Report::Summary), &mut text)?;
/// assert!(text.starts_with(b"IREE HAL profile summary\n"));
/// # Ok(())
/// # }
/// ```
pub struct ProfileFile {
    file: MappedFile,
    tear: Option<Tear>,
    is_closed: bool,
    trailing_bytes: u64,
}

impl ProfileFile {
    /// Maps the file at `path` and checks that it is a profile.
    pub fn open(path: &Path) -> Result<Self> {
        let file = MappedFile::open(path).advise(|| NO_PROFILE)?;
        let place = format!("'{}'", path.display());
        let bundle = Bundle::open(file.bytes(), OpenOptions { recover: true }).map_err(|error| {
            let other = FileKind::Profile.refuse_other(file.bytes(), &place);
            other.unwrap_or_else(|| Error::from(error).context(place).advise(NO_PROFILE))
        })?;
        let (tear, is_closed) = (bundle.tear(), bundle.is_closed());
        let trailing_bytes = if tear.is_some() { 0 } else { bundle.total_bytes() - bundle.length_bytes() };
        Ok(Self { file, tear, is_closed, trailing_bytes })
    }

    /// The format version: major and minor.
    pub fn version(&self) -> Result<(u16, u16)> {
        self.with_bundle(|bundle| {
            Ok((bundle.header().version_major.get(), bundle.header().version_minor.get()))
        })
    }

    /// Size of the file in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.file.bytes().len() as u64
    }

    /// Where it is truncated, if it is.
    pub fn tear(&self) -> Option<Tear> {
        self.tear
    }

    /// Whether its length is recorded, as it is when a session ends.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Number of bytes behind its recorded length, which are ignored: those of a later session that did not
    /// end.
    pub fn trailing_bytes(&self) -> u64 {
        self.trailing_bytes
    }

    /// Prints a report to `sink`; see [`report::print`].
    pub fn print(&self, options: &ReportOptions, sink: &mut dyn Write) -> Result<()> {
        options.check()?;
        self.with_bundle(|bundle| report::print(bundle, options, sink))
    }

    /// Writes its timeline to `sink`, as a trace for Perfetto; see [`timeline::write`].
    pub fn write_timeline(&self, sink: &mut dyn Write) -> Result<TimelineSummary> {
        self.with_bundle(|bundle| timeline::write(bundle, sink))
    }

    /// The times of its dispatches by function; see [`times::of`].
    pub fn dispatch_times(&self) -> Result<DispatchTimes> {
        self.with_bundle(times::of)
    }

    /// Its events on one time axis, at most `max_events`; see [`activity::of_bundle`].
    #[doc(hidden)]
    pub fn activity(&self, max_events: usize) -> Result<Activity> {
        self.with_bundle(|bundle| activity::of_bundle(bundle, max_events))
    }

    fn with_bundle<T>(&self, use_bundle: impl FnOnce(&Bundle<'_>) -> Result<T>) -> Result<T> {
        let place = || format!("'{}'", self.file.path().display());
        let bundle = Bundle::open(self.file.bytes(), OpenOptions { recover: true }).context(place)?;
        use_bundle(&bundle).map_err(|error| match error.code() {
            StatusCode::DataLoss => error.context(place()).advise(DAMAGED),
            StatusCode::OutOfRange => error.context(place()),
            // Of the sink, not of the profile.
            _ => error,
        })
    }
}
