use std::sync::Arc;

use rehal_base::{Context, Error, Range, Result, StatusCode};
use rehal_hal::{Buffer, BufferParams, BufferUsage, Device, Fence, HostMemory, MemoryAccess, QueueAffinity};
use rehal_params::{Entry, ParameterFile, Pattern, Scopes, Storage};

use super::batch::{Allocated, Batch, Part};
use super::files::{Files, Place};

/// Parameters that devices load, gather and scatter.
#[derive(Default)]
pub struct Provider {
    scopes: Scopes,
    files: Files,
}

/// On which queues a request runs, after and before what, and in which scope its names are.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The device.
    pub device: &'a Device,
    /// Its queues that may be used.
    pub affinity: QueueAffinity,
    /// What has to be reached before; nothing where there is none.
    pub waits: Option<&'a Fence>,
    /// What is reached when all of it is done, and fails when something of it does.
    pub signals: Option<&'a Fence>,
    /// The scope.
    pub scope: &'a str,
}

/// A range of a parameter, and where in a buffer it goes or comes from; in bytes.
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

    /// Lets go of what can be made again.
    pub fn trim(&self) {
        self.files.forget();
    }

    /// Makes a buffer of `params` for each span.
    ///
    /// A buffer may lie over a file that is in memory already, where the device can use that and the
    /// program wants constants (`SHARING_IMMUTABLE`, as compiled programs say). Otherwise it is allocated in the queue and read or filled there.
    pub fn load(&self, request: &Request<'_>, params: BufferParams, spans: &[Span]) -> Result<Vec<Buffer>> {
        self.batch(request, |batch| {
            spans.iter().map(|span| self.load_one(request, params, span, batch)).collect()
        })
    }

    /// Puts each span into its range of `target`.
    pub fn gather(&self, request: &Request<'_>, target: &Buffer, spans: &[Span]) -> Result<()> {
        self.batch(request, |batch| {
            for span in spans {
                let entry = self.resolve(request.scope, span, MemoryAccess::READ)?;
                let source = self.source(request, entry, span);
                let filled = source.and_then(|source| source.fill(span, target, None, batch));
                filled.context(|| of(request, span))?;
            }
            Ok(())
        })
    }

    /// Writes each span's range of `source` into its parameter.
    pub fn scatter(&self, request: &Request<'_>, source: &Buffer, spans: &[Span]) -> Result<()> {
        self.batch(request, |batch| {
            for span in spans {
                let entry = self.resolve(request.scope, span, MemoryAccess::WRITE)?;
                self.drain(request, entry, span, source, batch).context(|| of(request, span))?;
            }
            Ok(())
        })
    }

    /// Runs `enqueue` on a batch and submits it; where that fails, what waits for the request is told.
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
        let entry = self.resolve(request.scope, span, MemoryAccess::READ)?;
        let mut load = || -> Result<Buffer> {
            if let Some(buffer) = self.import(request.device, params, entry, span)? {
                return Ok(buffer);
            }
            // The file is made known before what it is read into, as captures have it.
            let source = self.source(request, entry, span)?;
            let (buffer, allocated) = batch.alloca(params, span.length)?;
            source.fill(span, &buffer, Some(allocated), batch)?;
            Ok(buffer)
        };
        load().context(|| of(request, span))
    }

    /// The span's bytes where they are, if they are in memory and the device can use them there.
    fn import(
        &self,
        device: &Device,
        params: BufferParams,
        entry: &Entry,
        span: &Span,
    ) -> Result<Option<Buffer>> {
        // What the program writes to later must be its own.
        if !params.usage.contains(BufferUsage::SHARING_IMMUTABLE) {
            return Ok(None);
        }
        let Some((memory, range)) = in_memory(entry, span)? else { return Ok(None) };
        // Exactly the span: the rest of the file is not the program's.
        let params = BufferParams { access: MemoryAccess::READ, ..params };
        // A device that cannot (most need some alignment) gets a copy instead.
        Ok(device.import_buffer(params, memory, range).ok())
    }

    /// Where a queue takes the span's bytes from.
    fn source(&self, request: &Request<'_>, entry: &Entry, span: &Span) -> Result<Source> {
        Ok(match &entry.storage {
            Storage::Splat(pattern) => Source::Pattern(pattern.rotated(span.parameter_offset)),
            Storage::File { file, offset } => {
                Source::File(self.place(request, MemoryAccess::READ, file, *offset, span)?)
            }
        })
    }

    fn drain(
        &self,
        request: &Request<'_>,
        entry: &Entry,
        span: &Span,
        source: &Buffer,
        batch: &mut Batch<'_>,
    ) -> Result<()> {
        match &entry.storage {
            // Refused when the entry was resolved: a pattern cannot be written.
            Storage::Splat(_) => Err(refused(&span.name, MemoryAccess::READ, MemoryAccess::WRITE)),
            Storage::File { file, offset } => {
                let place = self.place(request, MemoryAccess::WRITE, file, *offset, span)?;
                let part = Part { buffer: source, offset: span.buffer_offset, length: span.length };
                batch.write(part, &place.file, place.offset)
            }
        }
    }

    fn place(
        &self,
        request: &Request<'_>,
        access: MemoryAccess,
        file: &Arc<ParameterFile>,
        offset: u64,
        span: &Span,
    ) -> Result<Place> {
        // Both are known to be in the file.
        let range = Range { offset: offset + span.parameter_offset, length: span.length };
        self.files.place(request.device, request.affinity, access, file, range)
    }

    /// The entry that `span` is a range of, which allows `access`.
    fn resolve(&self, scope: &str, span: &Span, access: MemoryAccess) -> Result<&Entry> {
        let place = || format!("scope '{scope}'");
        let entry = self.scopes.lookup(scope)?.lookup(&span.name).context(place)?;
        let allowed = match &entry.storage {
            Storage::File { file, .. } if file.is_writable() => {
                MemoryAccess::READ | MemoryAccess::WRITE | MemoryAccess::DISCARD
            }
            Storage::Splat(_) | Storage::File { .. } => MemoryAccess::READ,
        };
        if !allowed.contains(access) {
            return Err(refused(&span.name, allowed, access).context(place()));
        }
        let range = Range::new(span.parameter_offset, span.length);
        if !range.is_some_and(|range| range.fits(entry.length)) {
            return Err(Error::out_of_range(format!(
                "parameter `{}` range out of bounds (offset={}, length={}, size={})",
                span.name, span.parameter_offset, span.length, entry.length
            ))
            .context(place())
            .advise("the program was compiled for another version of these parameters"));
        }
        Ok(entry)
    }
}

/// Where a queue takes bytes from.
enum Source {
    Pattern(Pattern),
    File(Place),
}

impl Source {
    /// Fills the span's range of `buffer`, which is there once `allocated` is.
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
            Self::File(place) => batch.read(&place.file, place.offset, target),
        }
    }
}

/// Where the span's bytes are in memory, if its file is there as a whole.
fn in_memory<'e>(entry: &'e Entry, span: &Span) -> Result<Option<(&'e Arc<HostMemory>, Range)>> {
    let Storage::File { file, offset } = &entry.storage else { return Ok(None) };
    let Some(memory) = file.contents()?.memory() else { return Ok(None) };
    // A buffer of which only a part is asked for is not one that lies over the file.
    if span.buffer_offset != 0 {
        return Ok(None);
    }
    Ok(Some((memory, Range { offset: offset + span.parameter_offset, length: span.length })))
}

fn refused(name: &str, allowed: MemoryAccess, required: MemoryAccess) -> Error {
    Error::new(
        StatusCode::PermissionDenied,
        format!(
            "parameter `{name}` storage does not support the requested access type; parameter allows \
             {allowed:?}, operation requires {required:?}"
        ),
    )
}

fn of(request: &Request<'_>, span: &Span) -> String {
    match request.scope {
        "" => format!("parameter '{}'", span.name),
        scope => format!("parameter '{scope}::{}'", span.name),
    }
}
