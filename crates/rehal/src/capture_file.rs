use std::io::Write;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rehal_base::{Context, Error, FileKind, Remedy, Result, StatusCode};
use rehal_capture::{
    Capture, CaptureBytes, ChecksumState, Damage, FileReferenceType, ObjectType, OpenOptions, OperationCode,
    Payload, Record, RecordType, Tear, Version,
};
use rehal_edit::{CaptureDiff, DiffError, DiffOptions, diff_captures};
use rehal_replay::dump::{self, Progress};
use rehal_replay::{Plan, PlanOptions};

use crate::capture::{CaptureActivity, Survey};
use crate::survey::Surveyor;

/// Advice about a corrupt capture.
const DAMAGED: &str = "the file is damaged: copy it again from its source, or record it again";

/// Number of bytes after which pages that have been read are released.
const STEP_BYTES: u64 = 4 << 20;

/// Smaller files cannot be captures, damaged or not.
const MIN_BYTES: usize = 24;

/// An open capture: its file header has been checked, its records have not been read.
///
/// Clones are cheap: they share the bytes of the capture, and can be sent to other threads.
#[derive(Clone)]
pub struct CaptureFile {
    pub(crate) bytes: CaptureBytes,
    recover: bool,
    version: Version,
    is_closed: bool,
    length_bytes: u64,
    tear: Option<Tear>,
    checksums: ChecksumState,
    damage: Arc<OnceLock<Vec<Damage>>>,
}

/// Options for opening a capture.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CaptureOptions {
    /// Read the complete records of a truncated or unclosed capture, and the readable ones of a damaged
    /// capture, instead of refusing it; see [`CaptureFile::tear`] and [`CaptureFile::damage`]. Default:
    /// false.
    pub recover: bool,
}

impl CaptureFile {
    /// Maps the file at `path` and checks that it is a capture.
    pub fn open(path: &Path, options: &CaptureOptions) -> Result<Self> {
        Self::from_bytes(CaptureBytes::map(path).advise(|| Remedy::NameCapture)?, options)
    }

    /// Opens a capture in memory or in a file that is already mapped.
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

    /// The path of the file; `None` for a capture in memory.
    pub fn path(&self) -> Option<&Path> {
        self.bytes.path()
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> &CaptureBytes {
        &self.bytes
    }

    /// The format version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The BLAKE3 of all bytes of the file, as in ledgers. The first call reads the whole file.
    pub fn digest(&self) -> [u8; 32] {
        rehal_judge::capture_digest(&self.bytes)
    }

    /// Whether it was closed, so that its header has its length.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Number of readable bytes: up to the recorded length, or up to the tear.
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Size of the file in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.bytes.as_slice().len() as u64
    }

    /// Where it is truncated; only set with [`CaptureOptions::recover`].
    pub fn tear(&self) -> Option<Tear> {
        self.tear
    }

    /// Whether it was opened with [`CaptureOptions::recover`].
    pub fn is_recovered(&self) -> bool {
        self.recover
    }

    /// Whether it has checksums, which rehal's recorder adds when it closes a capture. If it has, plans and
    /// surveys verify the data that they read, and dumps the data that they print; with
    /// [`CaptureOptions::recover`], only [`CaptureFile::damage`] does.
    pub fn checksums(&self) -> ChecksumState {
        self.checksums
    }

    /// The parts that do not match their checksums. The first call reads the whole capture, if it has
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

    /// An error that names the damaged parts; `None` without damage.
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

    /// The error of reading it. Damage can cause any other error; reporting the damage is more helpful.
    pub(crate) fn blame_damage(&self, error: Error) -> Error {
        self.explain(self.damage_error().unwrap_or(error))
    }

    /// Compiles it to a plan. Fails if a record is damaged or cannot be reproduced; the error names the
    /// record.
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

    /// Summarizes its contents. Executes nothing.
    pub fn survey(&self) -> Result<Survey> {
        self.survey_with(&mut |_| {})
    }

    /// Like [`CaptureFile::survey`], calling `progress` every few megabytes.
    pub fn survey_with(&self, progress: &mut dyn FnMut(Progress)) -> Result<Survey> {
        let mut surveyor = Surveyor::default();
        self.capture()
            .and_then(|capture| self.walk(&capture, &mut |record| surveyor.add(record), progress))
            .map_err(|error| self.blame_damage(error))?;
        Ok(surveyor.finish())
    }

    /// Calls `each` for each record, and `progress` every few megabytes, when it releases the pages behind.
    pub(crate) fn walk<'a>(
        &self,
        capture: &Capture<'a>,
        each: &mut dyn FnMut(&Record<'a>) -> Result<()>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        let (total_bytes, mut behind) = (self.length_bytes, 0);
        for record in capture.records() {
            let record = record?;
            each(&record)?;
            if record.offset - behind >= STEP_BYTES {
                self.bytes.forget(behind, record.offset - behind);
                behind = record.offset;
                progress(Progress { done_bytes: behind, total_bytes });
            }
        }
        Ok(())
    }

    /// The code of the executable with this id, which its record is verified for.
    pub fn executable_code(&self, id: u64) -> Result<&[u8]> {
        let find = |capture: Capture<'_>| -> Result<Option<(usize, usize)>> {
            for record in capture.records() {
                let record = record?;
                let is_made = record.operation() == OperationCode::EXECUTABLE_CACHE_PREPARE_EXECUTABLE
                    && record.header.related_object_id.get() == id
                    && record.header.status_code.get() == 0;
                if is_made && let Payload::ExecutablePrepare(it) = record.payload()? {
                    let start = it.data.as_ptr().addr() - self.bytes.as_slice().as_ptr().addr();
                    return Ok(Some((start, it.data.len())));
                }
            }
            Ok(None)
        };
        let found = self.capture().and_then(find).map_err(|error| self.blame_damage(error))?;
        let (start, length) =
            found.ok_or_else(|| Error::not_found(format!("the capture has no executable {id}")))?;
        Ok(&self.bytes.as_slice()[start..start + length])
    }

    /// The paths of its external files, as captured, without those of records after a corrupt one. Verifies
    /// no checksums.
    pub fn external_paths(&self) -> Vec<Vec<u8>> {
        let mut paths = Vec::new();
        let Ok(capture) = self.capture() else { return paths };
        for record in capture.records_unverified().map_while(Result::ok) {
            if record.record_type() != RecordType::OBJECT || record.object_type() != ObjectType::FILE {
                continue;
            }
            if let Ok(Payload::FileObject(file)) = record.payload()
                && FileReferenceType(file.reference_type.get()) != FileReferenceType::INLINE_BYTES
            {
                paths.push(file.reference.to_vec());
            }
        }
        paths
    }

    /// Its calls, submissions, dispatches and buffers in the order of the records: at most `limit` of each.
    /// Executes nothing.
    #[doc(hidden)]
    pub fn activity(&self, limit: usize, progress: &mut dyn FnMut(Progress)) -> Result<CaptureActivity> {
        self.capture()
            .and_then(|capture| CaptureActivity::from_capture(&self.bytes, &capture, limit, progress))
            .map_err(|error| self.blame_damage(error))
    }

    /// Compares it with `after`, up to where each is truncated. Executes nothing, and verifies no checksums:
    /// see [`CaptureFile::check_undamaged`]. `progress` is called every few megabytes.
    pub fn diff(
        &self,
        after: &CaptureFile,
        options: &DiffOptions,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<CaptureDiff> {
        diff_captures(&self.bytes, &after.bytes, options, progress).map_err(|error| match error {
            DiffError::Before(error) => self.explain(self.damage_error().unwrap_or(error)),
            DiffError::After(error) => after.explain(after.damage_error().unwrap_or(error)),
        })
    }

    /// Fails if a part does not match its checksum; see [`CaptureFile::damage_with`].
    pub fn check_undamaged(&self, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        self.damage_with(progress)?;
        self.damage_error().map_or(Ok(()), |error| Err(self.explain(error.advise(Remedy::RecoverDamaged))))
    }

    /// Prints it as text or as JSON lines, byte for byte like `iree-dump-replay`. The whole capture is
    /// verified before the first byte is written.
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

    pub(crate) fn explain(&self, error: Error) -> Error {
        explain(&self.bytes, error)
    }
}

/// The reason why a dump ended early.
#[derive(Debug)]
pub enum DumpError {
    /// The capture is corrupt. Nothing has been written.
    Capture(Error),
    /// The writer failed; `BrokenPipe` means that the pipe was closed early.
    Write(std::io::Error),
}

impl From<DumpError> for Error {
    fn from(error: DumpError) -> Self {
        match error {
            DumpError::Capture(error) => error,
            DumpError::Write(error) => Error::io("writing a dump", &error),
        }
    }
}

/// Adds the file to an error about its contents, and advice unless the error has some.
fn explain(bytes: &CaptureBytes, error: Error) -> Error {
    let error = match bytes.path() {
        Some(path) => error.context(format!("'{}'", path.display())),
        None => error,
    };
    match error.code() {
        _ if bytes.as_slice().len() < MIN_BYTES => error.advise(Remedy::NameCapture),
        StatusCode::DataLoss => error.advise(DAMAGED),
        _ => error,
    }
}
