//! Transfers between shared memory and files. The system copies, so no reference to the bytes is needed; like
//! a device, it accesses them outside the memory model, as single bytes in any order.

use std::fs::File;
use std::io::{Error, ErrorKind, Read};

use super::{CHUNK_BYTES, HostMemory};
use crate::{Range, Result, platform};

/// From this size on, a read is split among threads: its cost is the copy and the first touch of the target
/// pages.
const PARALLEL_FROM_BYTES: u64 = 32 << 20;

/// Maximum length of one system call.
const CALL_BYTES: usize = 1 << 30;

/// Result of a transfer: the outer error concerns the memory (range, not writable), the inner one the file.
type Transferred = Result<std::io::Result<()>>;

impl HostMemory {
    /// Fills `range` with the bytes of `file` at `file_offset`; fails at the end of the file. Large reads use
    /// several threads.
    pub fn read_file_at(&self, file: &File, file_offset: u64, range: Range) -> Transferred {
        self.at_mut(range.offset, range.length)?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from).min(8) as u64;
        if range.length < PARALLEL_FROM_BYTES || processors == 1 {
            return self.read_part(file, file_offset, range);
        }
        // Each thread reads whole huge pages, so that no two fault on the same one.
        let part_bytes = range.length.div_ceil(processors).next_multiple_of(2 << 20);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..range.length.div_ceil(part_bytes))
                .map(|index| {
                    let done = index * part_bytes;
                    let length = part_bytes.min(range.length - done);
                    let part = Range { offset: range.offset + done, length };
                    let read = move || self.read_part(file, file_offset.saturating_add(done), part);
                    (read, std::thread::Builder::new().spawn_scoped(scope, read))
                })
                .collect();
            // Joins all and reports the first failure in file order. Parts for which no thread could be
            // spawned are read here.
            let outcomes: Vec<_> = readers
                .into_iter()
                .map(|(read, reader)| match reader {
                    Ok(reader) => join(reader),
                    Err(_) => read(),
                })
                .collect();
            outcomes.into_iter().find(|outcome| !matches!(outcome, Ok(Ok(())))).unwrap_or(Ok(Ok(())))
        })
    }

    /// Writes `range` to `file` at `file_offset`.
    pub fn write_file_at(&self, file: &File, file_offset: u64, range: Range) -> Transferred {
        self.transfer(range, false, |pointer, length, done| {
            // SAFETY: `transfer` passes ranges of this memory, which the system reads.
            unsafe { platform::write_from(file, pointer, length, Some(position(file_offset, done)?)) }
        })
    }

    /// Writes `range` to `file` at its current position: pipes and files opened for appending have no other.
    pub fn write_file(&self, file: impl platform::AsFile, range: Range) -> Transferred {
        self.transfer(range, false, |pointer, length, _| {
            // SAFETY: as above.
            unsafe { platform::write_from(&file, pointer, length, None) }
        })
    }

    /// Fills `range` from `reader`, through a copy; fails if it ends before.
    pub fn read_from(&self, reader: &mut dyn Read, range: Range) -> Transferred {
        self.at_mut(range.offset, range.length)?;
        let mut chunk = vec![0; range.length.min(CHUNK_BYTES as u64) as usize];
        let mut done = 0;
        while done < range.length {
            let count = (range.length - done).min(CHUNK_BYTES as u64);
            let piece = &mut chunk[..count as usize];
            if let Err(error) = reader.read_exact(piece) {
                return Ok(Err(error));
            }
            self.write(range.offset + done, piece)?;
            done += count;
        }
        Ok(Ok(()))
    }

    fn read_part(&self, file: &File, file_offset: u64, range: Range) -> Transferred {
        self.transfer(range, true, |pointer, length, done| {
            // SAFETY: `transfer` passes ranges of this memory, which is writable.
            unsafe { platform::read_into(file, pointer, length, position(file_offset, done)?) }
        })
    }

    /// Calls `call` with the rest of `range` and the number of bytes done, until the range is complete.
    fn transfer(
        &self,
        range: Range,
        is_written: bool,
        mut call: impl FnMut(*mut u8, usize, u64) -> std::io::Result<usize>,
    ) -> Transferred {
        let Range { offset, length } = range;
        let start = if is_written { self.at_mut(offset, length)? } else { self.at(offset, length)? };
        let length = length as usize;
        let mut done = 0;
        while done < length {
            // SAFETY: `done` is below the length of the checked range.
            let pointer = unsafe { start.add(done) };
            match call(pointer, (length - done).min(CALL_BYTES), done as u64) {
                Ok(0) if is_written => {
                    return Ok(Err(Error::new(ErrorKind::UnexpectedEof, "failed to fill whole buffer")));
                }
                Ok(0) => return Ok(Err(Error::new(ErrorKind::WriteZero, "failed to write whole buffer"))),
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }
}

/// A file position, which systems have as a signed number.
fn position(offset: u64, done: u64) -> std::io::Result<u64> {
    let position = offset.checked_add(done).filter(|position| *position <= i64::MAX as u64);
    position.ok_or_else(|| ErrorKind::InvalidInput.into())
}

fn join(reader: std::thread::ScopedJoinHandle<'_, Transferred>) -> Transferred {
    match reader.join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
