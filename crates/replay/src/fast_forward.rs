use std::cell::RefCell;
use std::hash::Hasher;
use std::sync::Arc;

use rehal_base::{Error, HostMemory, Range, Result};
use rehal_hal::{Buffer, File, FileContents, MemoryAccess, Span, transfer};
use twox_hash::XxHash3_64;

use crate::effects::{Ranges, STRIDE_BYTES, changed_strides, without};
use crate::observe::with;
use crate::plan::RecordLocation;
use crate::region::{Bytes, Holder, Region, Restart};
use crate::run::{FileBytes, Run, State};
use crate::scopes;
use crate::{HostRead, Observer, Plan, Replay};

/// Bytes that are read at a time: whole strides, in which changed bytes are restored.
const PIECE_BYTES: u64 = 16 * STRIDE_BYTES as u64;

/// A replay that repeats a scope without what is outside of it. It shares the replay.
///
/// It runs once, from the start of the capture to the end of the scope. Each repetition puts back what the
/// scope has changed, and runs it again. If the scope is entered more than once, a repetition is from its
/// first begin to its last end.
///
/// The first pass determines which bytes the scope changes: of those that the plan says it may write and
/// read, the blocks whose bytes differ afterwards, since kernels may write all that is bound to them and
/// rarely do. [`FastForward::finish`] verifies that no repetition changed the others. Host reads within the
/// scope must be those of the first pass in each repetition.
pub struct FastForward {
    replay: Arc<Replay>,
    region: Region,
    /// Before and after each repetition; `None` after an error.
    state: Option<State>,
    /// Whether it has been restored since it last ran.
    is_restored: bool,
    /// The scopes that are open before each repetition.
    open_scopes: Vec<Span<u8>>,
    saved: Vec<Saved>,
    /// Bytes that the scope may change but did not, with their digests.
    unchanged: Vec<(Bytes, u64)>,
    host_reads: Vec<(RecordLocation, u64)>,
    /// For bytes that are read, [`PIECE_BYTES`] at a time.
    piece: RefCell<Vec<u8>>,
}

/// Bytes as they are before the scope.
struct Saved {
    at: Bytes,
    memory: HostMemory,
    /// The digest of what the first pass made of them; `None` if they are deallocated.
    after: Option<u64>,
}

impl Replay {
    /// Runs the plan to the end of a scope, and prepares to repeat that scope by itself. Observers see the
    /// whole first pass.
    ///
    /// Fails if the capture has no such scope, or what it changes cannot be put back.
    pub fn fast_forward(
        self: &Arc<Self>,
        scope: &[u8],
        observers: &mut [&mut dyn Observer],
    ) -> Result<FastForward> {
        FastForward::new(self.clone(), scope, observers).map_err(|error| self.plan().in_file(error))
    }
}

impl FastForward {
    fn new(replay: Arc<Replay>, scope: &[u8], observers: &mut [&mut dyn Observer]) -> Result<Self> {
        let plan = replay.plan().clone();
        let plan = &*plan;
        if observers.iter().any(|it| it.wants_operations()) {
            return Err(Error::unimplemented(
                "a scope that is repeated by itself is not performed one operation at a time",
            ));
        }
        let region = Region::from_plan(plan, &scopes::entries(plan, scope)?)?;
        let mut this = Self {
            replay: replay.clone(),
            region,
            state: None,
            is_restored: false,
            open_scopes: Vec::new(),
            saved: Vec::new(),
            unchanged: Vec::new(),
            host_reads: Vec::new(),
            piece: RefCell::new(vec![0; PIECE_BYTES as usize]),
        };
        let mut run = Run::new(&replay, observers, State::new(plan), None);
        run.all(0..this.region.steps.start)?;
        let state = run.state;
        this.open_scopes.clone_from(&state.open_scopes);
        for at in &this.region.restored {
            let length = at.end - at.start;
            let memory = match this.holder(&state, at.holder, MemoryAccess::READ)? {
                Some(Held::Buffer(buffer)) => transfer::to_memory(buffer, at.start, length)
                    .map_err(|error| this.cannot_restore(error, at.holder))?,
                _ => {
                    let memory = HostMemory::allocate(length)?;
                    this.read(&state, at, |offset, bytes| memory.write(offset, bytes))?;
                    memory
                }
            };
            this.saved.push(Saved { at: *at, memory, after: None });
        }
        let mut reads = FirstReads::default();
        this.run(state, observers, &mut reads)?;
        this.host_reads = reads.0;
        this.keep_what_changed()?;
        Ok(this)
    }

    /// Number of bytes that are restored before each repetition.
    pub fn restored_bytes(&self) -> u64 {
        self.saved.iter().map(|saved| saved.at.end - saved.at.start).sum()
    }

    /// Puts back what the scope has changed.
    pub fn restore(&mut self) -> Result<()> {
        self.put_back().map_err(|error| self.replay.plan().in_file(error))
    }

    /// Runs the scope once. Fails if [`FastForward::restore`] has not been called since it last ran, and if a
    /// host read differs from that of the first pass.
    pub fn repeat(&mut self, observers: &mut [&mut dyn Observer]) -> Result<()> {
        let state = self.take_restored()?;
        let expected = std::mem::take(&mut self.host_reads);
        let mut reads = SameReads { expected: &expected, next: 0 };
        let outcome = self.run(state, observers, &mut reads);
        self.host_reads = expected;
        outcome.map_err(|error| self.replay.plan().in_file(error))
    }

    /// Whether the last repetition made of the bytes that it changes what the first pass made of them. What
    /// is not restored is left to [`FastForward::finish`]. Call it after a repetition and before the next
    /// [`FastForward::restore`].
    pub fn is_reproduced(&self) -> Result<bool> {
        let state = self.state.as_ref().ok_or_else(failed)?;
        for Saved { at, after, .. } in &self.saved {
            if let Some(after) = after
                && self.digest(state, at).map_err(|error| self.replay.plan().in_file(error))? != *after
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Passes the bytes of buffers that the scope may access and write to `vary`, and writes those of which
    /// it returns that it has changed them. The scope may then be run by [`FastForward::repeat_varied`].
    ///
    /// What it changes of bytes that are not restored stays, and is to be undone before
    /// [`FastForward::repeat`] or [`FastForward::check_unchanged`].
    #[doc(hidden)]
    pub fn vary(
        &mut self,
        bytes: VariedBytes,
        vary: &mut dyn FnMut(VariedPiece, &mut [u8]) -> bool,
    ) -> Result<()> {
        self.change(&self.restored_ranges(), true, vary)?;
        match bytes {
            VariedBytes::All => self.change(&self.other_ranges(), false, vary),
            VariedBytes::Restored => Ok(()),
        }
    }

    fn restored_ranges(&self) -> Vec<Bytes> {
        self.saved.iter().map(|saved| saved.at).collect()
    }

    fn other_ranges(&self) -> Vec<Bytes> {
        self.unchanged.iter().map(|(at, _)| *at).collect()
    }

    /// Passes the bytes of buffers, and writes those of which `change` returns that it has changed them.
    fn change(
        &self,
        ranges: &[Bytes],
        is_restored: bool,
        change: &mut dyn FnMut(VariedPiece, &mut [u8]) -> bool,
    ) -> Result<()> {
        let state = self.state.as_ref().ok_or_else(failed)?;
        for at in ranges {
            let Holder::Buffer(index) = at.holder else { continue };
            let buffer = state.objects.buffers[index as usize].as_ref();
            let Some(buffer) = buffer.filter(|_| !self.is_deallocated(at.holder)) else { continue };
            let buffer_id = self.replay.plan().buffer_ids[index as usize];
            let outcome = self.read(state, at, |offset, piece| {
                match change(VariedPiece { buffer_id, offset: at.start + offset, is_restored }, piece) {
                    true => transfer::write(buffer, at.start + offset, piece),
                    false => Ok(()),
                }
            });
            outcome.map_err(|error| self.replay.plan().in_file(error))?;
        }
        Ok(())
    }

    /// [`FastForward::repeat`] after [`FastForward::vary`]: host reads may differ from those of the first
    /// pass.
    #[doc(hidden)]
    pub fn repeat_varied(&mut self, observers: &mut [&mut dyn Observer]) -> Result<()> {
        let state = self.take_restored()?;
        self.run(state, observers, &mut FirstReads::default())
            .map_err(|error| self.replay.plan().in_file(error))
    }

    /// Fails if a repetition changed bytes that are not restored.
    pub fn finish(self) -> Result<()> {
        self.check_unchanged()
    }

    /// Fails if a repetition changed bytes that are not restored.
    pub fn check_unchanged(&self) -> Result<()> {
        let state = self.state.as_ref().ok_or_else(failed)?;
        for (at, digest) in &self.unchanged {
            if self.digest(state, at)? != *digest {
                let plan = self.replay.plan();
                let error = Error::failed_precondition(format!(
                    "the scope cannot be repeated by itself: a repetition changed bytes {} to {} of {}, which the first \
                     pass did not",
                    at.start,
                    at.end,
                    plan.name_of(at.holder)
                ));
                return Err(plan.in_file(error));
            }
        }
        Ok(())
    }

    fn take_state(&mut self) -> Result<State> {
        self.state.take().ok_or_else(failed)
    }

    fn take_restored(&mut self) -> Result<State> {
        if self.state.is_some() && !std::mem::take(&mut self.is_restored) {
            let error = Error::failed_precondition("the scope has not been restored since it last ran");
            return Err(self.replay.plan().in_file(error.advise("restore it before each repetition")));
        }
        self.take_state()
    }

    /// Runs the region, and drops what it created.
    fn run(
        &mut self,
        state: State,
        observers: &mut [&mut dyn Observer],
        reads: &mut dyn Observer,
    ) -> Result<()> {
        let mut all = with(observers, reads);
        let mut run = Run::new(&self.replay, &mut all, state, Some(&self.region));
        run.all(self.region.steps.clone())?;
        let mut state = run.state;
        state.open_scopes.clone_from(&self.open_scopes);
        self.region.created.iter().for_each(|created| state.objects.release(*created));
        self.state = Some(state);
        Ok(())
    }

    fn put_back(&mut self) -> Result<()> {
        let state = self.take_state()?;
        let mut run = Run::new(&self.replay, &mut [], state, Some(&self.region));
        let locate = |restart: &Restart, error| self.replay.plan().locate(error, restart.location);
        for restart in &self.region.semaphores {
            run.create_semaphore_again(restart.origin, restart.payload)
                .map_err(|error| locate(restart, error))?;
        }
        for restart in &self.region.deallocated {
            run.create_again(restart.origin).map_err(|error| locate(restart, error))?;
        }
        let state = run.state;
        for Saved { at, memory, .. } in &self.saved {
            self.write(&state, at, memory)?;
        }
        (self.state, self.is_restored) = (Some(state), true);
        Ok(())
    }

    /// Splits what was saved into the blocks that the first pass changed, and the digests of the others.
    fn keep_what_changed(&mut self) -> Result<()> {
        let state = self.take_state()?;
        let mut kept: Vec<Saved> = Vec::new();
        for saved in std::mem::take(&mut self.saved) {
            if self.is_deallocated(saved.at.holder) {
                kept.push(saved);
                continue;
            }
            let Bytes { holder, start, end } = saved.at;
            let mut changed = Ranges::default();
            let mut before = vec![0; PIECE_BYTES as usize];
            self.read(&state, &saved.at, |offset, after| {
                let before = &mut before[..after.len()];
                saved.memory.read(offset, before)?;
                for it in changed_strides(before, after) {
                    changed.add(Range { offset: offset + it.offset, ..it });
                }
                Ok(())
            })?;
            let bytes = |it: Range| Bytes { holder, start: start + it.offset, end: start + it.end() };
            for range in changed.iter() {
                let (at, memory) = (bytes(range), saved.memory.to_copy(range)?);
                kept.push(Saved { at, memory, after: Some(self.digest(&state, &at)?) });
            }
            for at in
                without(&[Range { offset: 0, length: end - start }], changed.iter()).into_iter().map(bytes)
            {
                self.unchanged.push((at, self.digest(&state, &at)?));
            }
        }
        self.saved = kept;
        self.state = Some(state);
        Ok(())
    }

    fn is_deallocated(&self, holder: Holder) -> bool {
        self.region.deallocated.iter().any(|buffer| holder == Holder::Buffer(buffer.index))
    }

    fn digest(&self, state: &State, at: &Bytes) -> Result<u64> {
        let mut hasher = XxHash3_64::new();
        self.read(state, at, |_, bytes| {
            hasher.write(bytes);
            Ok(())
        })?;
        Ok(hasher.finish())
    }

    /// Passes copies of bytes to `take` in pieces of whole blocks, with their offset in the range.
    fn read(
        &self,
        state: &State,
        at: &Bytes,
        mut take: impl FnMut(u64, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let mut piece = self.piece.borrow_mut();
        let mut done = 0;
        while done < at.end - at.start {
            let count = PIECE_BYTES.min(at.end - at.start - done);
            let bytes = &mut piece[..count as usize];
            match self.holder(state, at.holder, MemoryAccess::READ)? {
                Some(Held::Buffer(buffer)) => transfer::read(buffer, at.start + done, bytes),
                Some(Held::File(file)) => {
                    let memory = HostMemory::allocate(count)?;
                    file.backend()
                        .read_at(at.start + done, &memory, memory.whole())
                        .and_then(|()| memory.read(0, bytes))
                }
                Some(Held::Memory(memory)) => memory.read(at.start + done, bytes),
                None => return Ok(()),
            }
            .map_err(|error| self.cannot_restore(error, at.holder))?;
            take(done, bytes)?;
            done += count;
        }
        Ok(())
    }

    fn write(&self, state: &State, at: &Bytes, memory: &HostMemory) -> Result<()> {
        match self.holder(state, at.holder, MemoryAccess::WRITE)? {
            Some(Held::Buffer(buffer)) => {
                let mut done = 0;
                transfer::write_with(
                    buffer,
                    MemoryAccess::WRITE,
                    at.start,
                    memory.length(),
                    |target, Range { offset, length }| {
                        target.copy_from(offset, memory, done, length)?;
                        done += length;
                        Ok(())
                    },
                )
            }
            Some(Held::File(file)) => file.backend().write_at(at.start, memory, memory.whole()),
            Some(Held::Memory(copy)) => copy.copy_from(at.start, memory, 0, memory.length()),
            None => Ok(()),
        }
        .map_err(|error| self.cannot_restore(error, at.holder))
    }

    /// The buffer, or a file with these bytes that allows the access. `None` for what the scope cannot access
    /// either: a buffer that is released before it.
    fn holder<'s>(
        &'s self,
        state: &'s State,
        holder: Holder,
        access: MemoryAccess,
    ) -> Result<Option<Held<'s>>> {
        let first = match holder {
            Holder::Buffer(index) => {
                return Ok(state.objects.buffers[index as usize].as_ref().map(Held::Buffer));
            }
            Holder::File(first) => first,
        };
        for index in self.replay.plan().files_like(first) {
            let file = match self.replay.files().bytes(index, &state.copies)? {
                Some(FileBytes::Memory(copy)) => return Ok(Some(Held::Memory(copy))),
                Some(FileBytes::File(file)) => Some(file),
                None => state.objects.files[index].as_ref(),
            };
            if let Some(file) = file.filter(|file| file.access().contains(access)) {
                return Ok(Some(Held::File(file)));
            }
        }
        Ok(None)
    }

    fn cannot_restore(&self, error: Error, holder: Holder) -> Error {
        error
            .context(format!(
                "restoring the bytes of {} that the scope changes",
                self.replay.plan().name_of(holder)
            ))
            .advise("measure it without fast-forward, which repeats the whole capture")
    }
}

/// Which bytes [`FastForward::vary`] passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariedBytes {
    /// All that the scope may access and write.
    All,
    /// The bytes that [`FastForward::restore`] puts back.
    Restored,
}

/// Bytes that [`FastForward::vary`] passes: up to 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariedPiece {
    /// The id of their buffer.
    pub buffer_id: u64,
    /// Their offset in it.
    pub offset: u64,
    /// Whether [`FastForward::restore`] puts them back.
    pub is_restored: bool,
}

fn failed() -> Error {
    Error::failed_precondition("an earlier repetition failed")
}

enum Held<'s> {
    Buffer(&'s Buffer),
    File(&'s File),
    Memory(&'s HostMemory),
}

impl Plan {
    fn name_of(&self, holder: Holder) -> String {
        match holder {
            Holder::Buffer(index) => format!("buffer {}", self.buffer_ids[index as usize]),
            Holder::File(index) => format!("file {}", self.files[index as usize].id),
        }
    }

    /// The file with an index, and all others with its path.
    fn files_like(&self, index: u32) -> impl Iterator<Item = usize> {
        let path = |index: usize| match self.files[index].source.contents {
            FileContents::External { path, .. } => Some(path.of(self.bytes())),
            FileContents::Nothing | FileContents::Inline(_) | FileContents::Ranges { .. } => None,
        };
        let first = index as usize;
        let is_like =
            move |other: &usize| *other == first || path(first).is_some_and(|it| path(*other) == Some(it));
        (first..self.files.len()).filter(is_like)
    }
}

/// The digests of the host reads of the first pass.
#[derive(Default)]
struct FirstReads(Vec<(RecordLocation, u64)>);

impl Observer for FirstReads {
    fn wants_host_reads(&self) -> bool {
        true
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        self.0.push((read.location, digest(read)?));
        Ok(())
    }
}

/// Checks that host reads are those of the first pass.
struct SameReads<'e> {
    expected: &'e [(RecordLocation, u64)],
    next: usize,
}

impl Observer for SameReads<'_> {
    fn wants_host_reads(&self) -> bool {
        true
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        let expected = self.expected.get(self.next);
        self.next += 1;
        match expected {
            Some(expected) if *expected == (read.location, digest(read)?) => Ok(()),
            _ => Err(Error::failed_precondition(format!(
                "the scope cannot be repeated by itself: {} bytes at offset {} of buffer {} differ from those of the first \
                 pass",
                read.memory.length(),
                read.offset,
                read.buffer_id
            ))),
        }
    }
}

fn digest(read: &HostRead<'_>) -> Result<u64> {
    let mut hasher = XxHash3_64::new();
    read.memory.for_each_chunk(read.memory.whole(), |chunk| {
        hasher.write(chunk);
        Ok::<_, Error>(())
    })?;
    Ok(hasher.finish())
}
