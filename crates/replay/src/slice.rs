//! Cuts work out of a capture: a capture of that work alone, with the bytes that it reads.

mod collect;
mod cut;
mod issue;
mod ranges;

use rehal_base::{Error, Result};
use rehal_hal::{CreateOp, DeviceGroup, HostOp};

use self::collect::{Collector, Content};
use self::cut::Found;
use self::issue::Fill;
use crate::plan::RecordLocation;
use crate::{CaptureSink, RecordOptions, Recorder, Replay};

/// Which work to cut out. Occurrences are counted from 0, in the order of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The dispatch of a record, as dumps and profiles print it.
    Dispatch {
        /// The ordinal of its record.
        record: u32,
        /// Which performance of it: a command buffer may be executed more than once.
        occurrence: u64,
    },
    /// A dispatch of a function.
    Function {
        /// Its name, with `*` and `?`.
        pattern: String,
        /// Which of those that match.
        occurrence: u64,
    },
    /// All work in a scope.
    Scope {
        /// Its name.
        name: Vec<u8>,
        /// Which entry.
        occurrence: u64,
    },
}

/// Options of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SliceOptions {
    /// Keeps what is in the bindings that kernels change before they do, without a test whether they read it. The test
    /// dispatches the kernels with other values there.
    pub keep_outputs: bool,
}

/// A slice that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Slice {
    /// The function, or the scope.
    pub name: String,
    /// The record of the dispatch, or of the begin of the scope.
    pub location: RecordLocation,
    /// Its occurrence.
    pub occurrence: u64,
    /// Number of bytes of buffers in the slice.
    pub content_bytes: u64,
    /// The host reads: what the work wrote.
    pub reads: Vec<SlicedRead>,
}

/// A host read of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlicedRead {
    /// The buffer's id in the whole capture.
    pub buffer_id: u64,
    /// First byte.
    pub offset: u64,
    /// The bytes, as the whole capture has them there.
    pub bytes: Vec<u8>,
}

impl SlicedRead {
    /// The BLAKE3 digest of the bytes, in hexadecimal.
    pub fn blake3(&self) -> String {
        blake3::hash(&self.bytes).to_hex().to_string()
    }
}

impl Replay {
    /// Writes a capture of a part of the work: its executables, its buffers with the bytes that it reads, as they are just
    /// before, its operations, and a host read of each range that it writes. Replays up to there in serialized order.
    ///
    /// Fails if there is no such work, if it cannot be replayed, or if it does not write the same bytes by itself. Then
    /// what the sink contains is not a capture.
    pub fn slice(
        &self,
        cut: &Cut,
        options: &SliceOptions,
        sink: impl CaptureSink + 'static,
    ) -> Result<Slice> {
        self.slice_to(cut, options, sink).map_err(|error| self.plan().in_file(error))
    }

    fn slice_to(&self, cut: &Cut, options: &SliceOptions, sink: impl CaptureSink + 'static) -> Result<Slice> {
        let found = self.find(cut)?;
        let mut collected = Collector::new(self.plan(), &found);
        self.run(&mut [&mut collected])?;
        collected.check_finished()?;
        let unread = match options.keep_outputs {
            true => vec![false; collected.contents.len()],
            false => self.find_unread(&found, &collected)?,
        };
        let recorder = Recorder::to(sink, RecordOptions::default())?;
        // Others are not part of the slice.
        let used = self.used_devices(&found, &collected);
        let mut devices = self.devices().devices().to_vec();
        let base = used.iter().map(|index| devices[*index as usize].clone()).collect();
        let recorded = recorder.wrap(&DeviceGroup::new(base)?)?;
        for (index, device) in used.iter().zip(recorded.devices()) {
            devices[*index as usize] = device.clone();
        }
        let scope = |begins| match found.name.as_str() {
            "" => Ok(()),
            name if begins => recorder.scope_begin(name),
            name => recorder.scope_end(name),
        };
        let fill = |index: usize| if unread[index] { Fill::Nothing } else { Fill::Captured };
        let outputs = self.issue(&devices, &found, &collected, &fill, &scope)?;
        recorder.close()?;
        if !is_same(&outputs, &collected.outputs) {
            return Err(Error::failed_precondition(format!(
                "{} does not write the same bytes by itself as in the whole capture",
                shown(&found)
            ))
            .advise("its kernels may read bytes that are not bound to them, or differ from run to run"));
        }
        let kept = collected.contents.iter().zip(&unread).filter(|(_, unread)| !**unread);
        let content_bytes = kept.map(|(content, _)| content.bytes.len() as u64).sum();
        let read = |output: Content| SlicedRead {
            buffer_id: self.plan().buffer_ids[output.buffer as usize],
            offset: output.offset,
            bytes: output.bytes,
        };
        let reads = std::mem::take(&mut collected.outputs).into_iter().map(read).collect();
        drop(collected);
        let Found { name, location, occurrence, .. } = found;
        Ok(Slice { name, location, occurrence, content_bytes, reads })
    }

    /// Which contents have no effect on what the work writes, all of it: those that kernels overwrite without reading them.
    fn find_unread(&self, found: &Found, collected: &Collector<'_>) -> Result<Vec<bool>> {
        /// Maximum number of contents that are tested one by one.
        const MAX_TESTS: usize = 16;
        let candidates: Vec<bool> = collected.contents.iter().map(|it| it.may_be_unread).collect();
        let count = candidates.iter().filter(|it| **it).count();
        if count == 0 || self.has_no_effect(found, collected, &candidates)? {
            return Ok(candidates);
        }
        let mut unread = vec![false; candidates.len()];
        if count == 1 || count > MAX_TESTS {
            return Ok(unread);
        }
        for index in (0..candidates.len()).filter(|index| candidates[*index]) {
            unread[index] = true;
            unread[index] = self.has_no_effect(found, collected, &unread)?;
        }
        Ok(unread)
    }

    fn has_no_effect(&self, found: &Found, collected: &Collector<'_>, which: &[bool]) -> Result<bool> {
        // NaN in every floating-point type, and then something else that is unlikely to be what was there.
        for pattern in [0xFF, 0x5A] {
            let fill = |index: usize| if which[index] { Fill::Pattern(pattern) } else { Fill::Captured };
            let outputs = self.issue(self.devices().devices(), found, collected, &fill, &|_| Ok(()))?;
            if !is_same(&outputs, &collected.outputs) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The names of the functions of each executable, by captured ordinal.
    pub(crate) fn function_names(&self) -> Result<Vec<Vec<String>>> {
        let plan = self.plan();
        let mut names: Vec<Vec<String>> = Vec::with_capacity(plan.executables.len());
        for op in &plan.host_ops {
            let HostOp::Create(CreateOp::Executable(op)) = op else { continue };
            let record = plan.executables[op.created as usize].record(plan.bytes());
            let captured = record.function_names().map(|name| String::from_utf8_lossy(name).into_owned());
            let mut captured: Vec<String> = captured.collect();
            // Captures of version 1.0 have none.
            if captured.iter().any(String::is_empty) {
                let prepared = self.prepare(op, &self.devices().devices()[op.cache as usize])?;
                for (captured, name) in (0..).zip(&mut captured) {
                    let (executable, ordinal) = prepared.function(captured);
                    name.clone_from(&executable.function(ordinal)?.name);
                }
            }
            names.push(captured);
        }
        Ok(names)
    }
}

fn is_same(outputs: &[Vec<u8>], expected: &[Content]) -> bool {
    outputs.iter().eq(expected.iter().map(|it| &it.bytes))
}

fn shown(found: &Found) -> String {
    match found.end {
        Some(_) => format!("scope '{}'", found.name),
        None => format!("the dispatch of '{}' at {}", found.name, found.location),
    }
}
