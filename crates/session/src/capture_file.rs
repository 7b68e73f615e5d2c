use std::io::Write;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rehal_base::{Context, Error, FileKind, Result, StatusCode};
use rehal_capture::{Capture, CaptureBytes, ChecksumState, Damage, OpenOptions, Tear, Version};
use rehal_hal::DeviceGroup;
use rehal_replay::dump::{self, Progress};
use rehal_replay::{FileRemap, Plan, PlanOptions};

use crate::{Survey, Verdict};

/// What to do about a file that is not a capture.
const NO_CAPTURE: &str = "name a capture, as IREE's tools write it with --device_replay_output=PATH";

/// Advice for a capture that is inconsistent.
const DAMAGED: &str = "the file is damaged: copy it again from its source, or capture again";

/// Fewer bytes cannot be a capture, damaged or not.
const MIN_BYTES: usize = 24;

/// An open capture, whose envelope is checked and whose records are not read yet.
///
/// It shares the bytes of the capture: it is cheap to clone, `Send` and `'static`.
///
/// ```
/// # fn main() -> rehal_session::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/captures/add4.add.local-sync.ireereplay");
/// use rehal_session::{CaptureFile, CaptureOptions};
///
/// let capture = CaptureFile::open(path.as_ref(), &CaptureOptions::default())?;
/// assert!(capture.is_closed() && capture.tear().is_none());
/// let survey = capture.survey()?;
/// println!("{} dispatches of {} executables", survey.dispatch_count, survey.executables.len());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CaptureFile {
    bytes: CaptureBytes,
    recover: bool,
    version: Version,
    is_closed: bool,
    length_bytes: u64,
    tear: Option<Tear>,
    checksums: ChecksumState,
    damage: Arc<OnceLock<Vec<Damage>>>,
}

/// How a capture is opened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CaptureOptions {
    /// Read the complete records of a capture that was never closed or is truncated, and the readable ones of
    /// a damaged capture, instead of failing; see [`CaptureFile::tear`] and [`CaptureFile::damage`]. Default:
    /// false.
    pub recover: bool,
}

impl CaptureFile {
    /// Maps the file at `path` and checks that it is a capture.
    pub fn open(path: &Path, options: &CaptureOptions) -> Result<Self> {
        Self::from_bytes(CaptureBytes::map(path).advise(|| NO_CAPTURE.into())?, options)
    }

    /// A capture in memory, or in a file that is already mapped.
    pub fn from_bytes(bytes: impl Into<CaptureBytes>, options: &CaptureOptions) -> Result<Self> {
        let bytes = bytes.into();
        let recover = options.recover;
        let opened = bytes.open(OpenOptions { recover });
        let capture = opened.map_err(|error| {
            let file = bytes.path().map_or("it".into(), |path| format!("'{}'", path.display()));
            let other = FileKind::Capture.refuse_other(bytes.as_slice(), &file);
            other.unwrap_or_else(|| explain(&bytes, error.into()))
        })?;
        let (version, tear) = (capture.version(), capture.tear());
        let (is_closed, length_bytes) = (capture.is_closed(), capture.length_bytes());
        let (checksums, damage) = (capture.checksums(), Arc::default());
        Ok(Self { bytes, recover, version, is_closed, length_bytes, tear, checksums, damage })
    }

    /// The path; `None` for a capture in memory.
    pub fn path(&self) -> Option<&Path> {
        self.bytes.path()
    }

    /// The contents of the file.
    pub fn bytes(&self) -> &CaptureBytes {
        &self.bytes
    }

    /// The version of the format.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether its writer closed it, so that its header has the length.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Number of bytes that are read: up to the recorded length, or up to the tear.
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Number of bytes of the file, including those that are not read.
    pub fn total_bytes(&self) -> u64 {
        self.bytes.as_slice().len() as u64
    }

    /// Offset of the first incomplete record; set only with [`CaptureOptions::recover`].
    pub fn tear(&self) -> Option<Tear> {
        self.tear
    }

    /// Whether it was opened with [`CaptureOptions::recover`].
    pub fn is_recovered(&self) -> bool {
        self.recover
    }

    /// Whether it has checksums, as closed captures of rehal's recorder do. If so, plans and surveys verify
    /// what they read, and dumps what they print; with [`CaptureOptions::recover`] only
    /// [`CaptureFile::damage`] does.
    pub fn checksums(&self) -> ChecksumState {
        self.checksums
    }

    /// All ranges that do not match their checksum. The first call reads the whole capture, if it has
    /// checksums.
    pub fn damage(&self) -> Result<&[Damage]> {
        self.damage_with(&mut |_| {})
    }

    /// Like [`CaptureFile::damage`], calling `progress` every few megabytes.
    pub fn damage_with(&self, progress: &mut dyn FnMut(Progress)) -> Result<&[Damage]> {
        let capture = self.capture()?;
        let total_bytes = self.length_bytes;
        let walk = || capture.damage(&mut |done_bytes| progress(Progress { done_bytes, total_bytes }));
        Ok(self.damage.get_or_init(walk))
    }

    /// The error that names what is damaged; `None` if nothing is.
    pub(crate) fn damage_error(&self) -> Option<Error> {
        const MAX_PARTS: usize = 8;
        let damage = self.damage().ok().filter(|damage| !damage.is_empty())?;
        let parts: Vec<_> = damage.iter().take(MAX_PARTS).map(ToString::to_string).collect();
        let more = match damage.len().saturating_sub(MAX_PARTS) {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        let message = format!("the capture does not match its checksums: {}{more}", parts.join(", "));
        Some(Error::data_loss(message).advise(DAMAGED))
    }

    /// Compiles it for replays. The error names the record that is damaged or cannot be reproduced.
    pub fn plan(&self) -> Result<Arc<Plan>> {
        self.plan_with(&mut |_| {})
    }

    /// Like [`CaptureFile::plan`], calling `progress` every few megabytes.
    pub fn plan_with(&self, progress: &mut dyn FnMut(Progress)) -> Result<Arc<Plan>> {
        let mut tell = |done_bytes, total_bytes| progress(Progress { done_bytes, total_bytes });
        let options = PlanOptions { recover: self.recover, progress: Some(&mut tell) };
        let plan = Plan::compile(self.bytes.clone(), options);
        plan.map(Arc::new).map_err(|error| self.explain(error))
    }

    /// Counts and names its contents. Executes nothing.
    pub fn survey(&self) -> Result<Survey> {
        self.survey_with(&mut |_| {})
    }

    /// Like [`CaptureFile::survey`], calling `progress` every few megabytes.
    pub fn survey_with(&self, progress: &mut dyn FnMut(Progress)) -> Result<Survey> {
        self.capture()
            .and_then(|capture| Survey::of(&self.bytes, &capture, progress))
            // Damage may cause any other error, so damage is reported first.
            .map_err(|error| self.explain(self.damage_error().unwrap_or(error)))
    }

    /// Determines whether it can be replayed on `devices`, with its files remapped by `remaps`. Executes
    /// nothing; reads the files that are validated by a digest.
    pub fn verdict(&self, devices: &DeviceGroup, remaps: &[FileRemap]) -> Verdict {
        self.verdict_with(devices, remaps, &mut |_| {})
    }

    /// Like [`CaptureFile::verdict`], calling `progress` every few megabytes of the capture.
    pub fn verdict_with(
        &self,
        devices: &DeviceGroup,
        remaps: &[FileRemap],
        progress: &mut dyn FnMut(Progress),
    ) -> Verdict {
        Verdict::of(self, devices, remaps, progress)
    }

    /// Like [`CaptureFile::verdict_with`], and loads each executable unless something else prevents a replay: this
    /// finds missing imports and CPU features, and corrupt machine code. Loading runs code of the capture with the
    /// privileges of the process, such as constructors of its libraries.
    pub fn verdict_loading(
        &self,
        devices: &DeviceGroup,
        remaps: &[FileRemap],
        progress: &mut dyn FnMut(Progress),
    ) -> Verdict {
        let mut verdict = self.verdict_with(devices, remaps, progress);
        verdict.load(self, devices, remaps);
        verdict
    }

    /// Dumps it as text or as JSON lines, byte for byte like `iree-dump-replay`. The whole capture is checked
    /// before the first byte is written.
    pub fn dump(
        &self,
        format: dump::Format,
        writer: &mut dyn Write,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), DumpError> {
        let input = match self.bytes.file() {
            Some(file) => dump::Input::from(file),
            None => dump::Input::from(self.bytes.as_slice()),
        };
        let options = dump::Options { format, recover: self.recover };
        match dump::dump(input, options, writer, progress) {
            Ok(_) => Ok(()),
            Err(dump::Error::Write(error)) => Err(DumpError::Write(error)),
            Err(dump::Error::Format(error)) => Err(DumpError::Capture(self.explain(Error::from(*error)))),
        }
    }

    pub(crate) fn capture(&self) -> Result<Capture<'_>> {
        Ok(self.bytes.open(OpenOptions { recover: self.recover })?)
    }

    fn explain(&self, error: Error) -> Error {
        explain(&self.bytes, error)
    }
}

/// The reason why a dump ended early.
#[derive(Debug)]
pub enum DumpError {
    /// The capture is damaged. Nothing has been written.
    Capture(Error),
    /// The writer failed; `BrokenPipe` means that the reader closed the pipe.
    Write(std::io::Error),
}

/// Adds the file to an error, and the advice unless the error has its own.
fn explain(bytes: &CaptureBytes, error: Error) -> Error {
    let error = match bytes.path() {
        Some(path) => error.context(format!("'{}'", path.display())),
        None => error,
    };
    match error.code() {
        _ if bytes.as_slice().len() < MIN_BYTES => error.advise(NO_CAPTURE),
        StatusCode::DataLoss => error.advise(DAMAGED),
        _ => error,
    }
}
