use std::sync::Arc;

use rehal_base::{Context, Error, Range, Result, StatusCode};
use rehal_hal::{Buffer, BufferParams, BufferUsage, Device, Fence, HostMemory, MemoryAccess, QueueAffinity};
use rehal_params::{Entry, Pattern, Scopes, Storage};

use super::batch::{Allocated, Batch, Part};
use super::files::{FileRange, Files};

/// Parameters that devices load and gather.
#[derive(Default)]
pub struct Provider {
    scopes: Scopes,
    files: Files,
}

/// The queues, the ordering and the scope of a request.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The device.
    pub device: &'a Device,
    /// The queues that may be used.
    pub affinity: QueueAffinity,
    /// The timepoints to wait for, if any.
    pub waits: Option<&'a Fence>,
    /// Signalled when the whole request has completed, failed if any part of it fails.
    pub signals: Option<&'a Fence>,
    /// The scope.
    pub scope: &'a str,
}

/// A range of a parameter and the offset in a buffer that it is copied to; in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The parameter's name.
    pub name: String,
    /// First byte in the parameter.
    pub parameter_offset: u64,
    /// First byte in the buffer.
    pub buffer_offset: u64,
    /// Number of bytes.
    pub length: u64,
}

impl Provider {
    /// A provider of the parameters in `scopes`.
    pub fn new(scopes: Scopes) -> Self {
        Self { scopes, files: Files::default() }
    }

    /// The parameters.
    pub fn scopes(&self) -> &Scopes {
        &self.scopes
    }

    /// Drops the imported files; later requests import them again.
    pub fn trim(&self) {
        self.files.forget();
    }

    /// Fails if memory that was loaded is still a file's that has been changed since.
    pub fn check_unchanged(&self) -> Result<()> {
        self.files.check_unchanged()
    }

    /// Creates a buffer with `params` for each span.
    ///
    /// A buffer may be zero-copy over a file that is already in memory, if the device can use it and the
    /// program wants constants (`SHARING_IMMUTABLE`, as compiled programs request). Otherwise it is allocated
    /// on the queue and read or filled.
    pub fn load(&self, request: &Request<'_>, params: BufferParams, spans: &[Span]) -> Result<Vec<Buffer>> {
        self.batch(request, |batch| {
            spans.iter().map(|span| self.load_one(request, params, span, batch)).collect()
        })
    }

    /// Copies each span into its range of `target`.
    pub fn gather(&self, request: &Request<'_>, target: &Buffer, spans: &[Span]) -> Result<()> {
        self.batch(request, |batch| {
            for span in spans {
                let entry = self.resolve(request.scope, span)?;
                let source = self.source(request, entry, span);
                let filled = source.and_then(|source| source.fill(span, target, None, batch));
                filled.context(|| of(request, span))?;
            }
            Ok(())
        })
    }

    /// Refuses to write to the parameters of `spans`: all are read-only.
    pub fn scatter(&self, request: &Request<'_>, spans: &[Span]) -> Result<()> {
        self.batch(request, |_| {
            let Some(Span { name, .. }) = spans.first() else { return Ok(()) };
            self.entry(request.scope, name)?;
            let refused = format!(
                "parameter `{name}` storage does not support the requested access type; parameter allows \
                 {:?}, operation requires {:?}",
                MemoryAccess::READ,
                MemoryAccess::WRITE
            );
            let refused = Error::new(StatusCode::PermissionDenied, refused);
            Err(refused.context(place(request.scope)))
        })
    }

    /// Runs `enqueue` on a batch and submits it; on error, fails the signals of the request.
    fn batch<R>(
        &self,
        request: &Request<'_>,
        enqueue: impl FnOnce(&mut Batch<'_>) -> Result<R>,
    ) -> Result<R> {
        let Request { device, affinity, waits, signals, .. } = *request;
        let mut batch = Batch::new(device, affinity, waits, signals);
        let outcome = enqueue(&mut batch).and_then(|result| batch.finish().map(|()| result));
        if let (Err(error), Some(signals)) = (&outcome, signals) {
            signals.fail(error);
        }
        outcome
    }

    fn load_one(
        &self,
        request: &Request<'_>,
        params: BufferParams,
        span: &Span,
        batch: &mut Batch<'_>,
    ) -> Result<Buffer> {
        let entry = self.resolve(request.scope, span)?;
        let mut load = || -> Result<Buffer> {
            if let Some(buffer) = self.import(request.device, params, entry, span)? {
                return Ok(buffer);
            }
            // Imports the file before the target buffer, in the order that captures have.
            let source = self.source(request, entry, span)?;
            let file_offset = match &source {
                Source::File(range) => Some(range.offset),
                Source::Pattern(_) => None,
            };
            let (buffer, allocated) = batch.alloca(BufferParams { file_offset, ..params }, span.length)?;
            source.fill(span, &buffer, Some(allocated), batch)?;
            Ok(buffer)
        };
        load().context(|| of(request, span))
    }

    /// The span's bytes zero-copy, if they are in memory and the device can use them there.
    fn import(
        &self,
        device: &Device,
        params: BufferParams,
        entry: &Entry,
        span: &Span,
    ) -> Result<Option<Buffer>> {
        // The program may write to the buffer, so it needs a copy.
        if !params.usage.contains(BufferUsage::SHARING_IMMUTABLE) {
            return Ok(None);
        }
        let Some((memory, range)) = in_memory(entry, span)? else { return Ok(None) };
        // Exactly the span: the rest of the file is not visible to the program.
        let params = BufferParams { access: MemoryAccess::READ, ..params };
        // A device that cannot import it (most require some alignment) gets a copy instead.
        Ok(device.import_buffer(params, memory, range).ok())
    }

    /// The source of a span's bytes for a queue.
    fn source(&self, request: &Request<'_>, entry: &Entry, span: &Span) -> Result<Source> {
        Ok(match &entry.storage {
            Storage::Splat(pattern) => Source::Pattern(pattern.rotated(span.parameter_offset)),
            Storage::File { file, offset } => {
                // Both are checked to be in bounds of the file.
                let range = Range { offset: offset + span.parameter_offset, length: span.length };
                Source::File(self.files.import_range(request.device, request.affinity, file, range)?)
            }
        })
    }

    fn entry(&self, scope: &str, name: &str) -> Result<&Entry> {
        self.scopes.lookup(scope)?.lookup(name).context(|| place(scope))
    }

    /// The entry that contains `span`.
    fn resolve(&self, scope: &str, span: &Span) -> Result<&Entry> {
        let entry = self.entry(scope, &span.name)?;
        let range = Range::new(span.parameter_offset, span.length);
        if !range.is_some_and(|range| range.fits(entry.length)) {
            return Err(Error::out_of_range(format!(
                "parameter `{}` range out of bounds (offset={}, length={}, size={})",
                span.name, span.parameter_offset, span.length, entry.length
            ))
            .context(place(scope))
            .advise("the program was compiled for another version of these parameters"));
        }
        Ok(entry)
    }
}

/// The source of a queue operation.
enum Source {
    Pattern(Pattern),
    File(FileRange),
}

impl Source {
    /// Fills the span's range of `buffer`, which is available once `allocated` is reached.
    fn fill(
        &self,
        span: &Span,
        buffer: &Buffer,
        allocated: Option<Allocated>,
        batch: &mut Batch<'_>,
    ) -> Result<()> {
        let target = Part { buffer, offset: span.buffer_offset, length: span.length };
        match self {
            Self::Pattern(pattern) => batch.splat(target, allocated, pattern),
            Self::File(source) => batch.read(&source.file, source.offset, target),
        }
    }
}

/// The memory of the span's bytes, if its file is in memory as a whole.
fn in_memory<'e>(entry: &'e Entry, span: &Span) -> Result<Option<(&'e Arc<HostMemory>, Range)>> {
    let Storage::File { file, offset } = &entry.storage else { return Ok(None) };
    let Some(memory) = file.contents()?.memory() else { return Ok(None) };
    // A buffer that is larger than the span cannot be zero-copy.
    if span.buffer_offset != 0 {
        return Ok(None);
    }
    Ok(Some((memory, Range { offset: offset + span.parameter_offset, length: span.length })))
}

fn place(scope: &str) -> String {
    format!("scope '{scope}'")
}

fn of(request: &Request<'_>, span: &Span) -> String {
    match request.scope {
        "" => format!("parameter '{}'", span.name),
        scope => format!("parameter '{scope}::{}'", span.name),
    }
}
