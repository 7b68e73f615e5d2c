//! The jitdump format, version 1, as `perf inject --jit` reads it: a header, then records with times of the
//! monotonic clock.

use std::path::PathBuf;

use rehal_base::{Error, Result};
use rehal_hal::profile::now_ns;

use super::super::debug_info::DebugInfo;
use super::super::elf::Machine;
use super::{Code, Output};
use crate::platform::announce_to_perf;

const MAGIC: u32 = 0x4A69_5444;
const VERSION: u32 = 1;
const HEADER_BYTES: u32 = 40;
const PREFIX_BYTES: usize = 16;
const CODE_LOAD: u32 = 0;
const CODE_DEBUG_INFO: u32 = 2;

pub(super) struct JitDump {
    output: Output,
    /// Number of functions so far, which numbers them.
    count: u64,
}

impl JitDump {
    /// Creates the file, and announces it to a `perf record` that runs.
    pub(super) fn create(path: PathBuf) -> Result<Self> {
        let mut output = Output::create(path)?;
        let mut header = Vec::new();
        let machine = Machine::HERE.id.0.into();
        for word in [MAGIC, VERSION, HEADER_BYTES, machine, 0, std::process::id()] {
            header.extend(word.to_le_bytes());
        }
        header.extend(time().to_le_bytes());
        // Flags: none.
        header.extend(0u64.to_le_bytes());
        output.write(&header)?;
        announce_to_perf(&output.file)
            .map_err(|error| Error::io(format!("mapping {} for perf", output.path.display()), &error))?;
        Ok(Self { output, count: 0 })
    }

    /// Writes the lines of each function, if any, then its code: in this order `perf` combines them.
    pub(super) fn write(&mut self, code: &[Code<'_>], info: &DebugInfo<'_>) -> Result<()> {
        let mut records = Vec::new();
        let end = |it: &Code<'_>| it.vaddr + it.bytes.len() as u64;
        let lines = info.lines(&code.iter().map(|it| it.vaddr..end(it)).collect::<Vec<_>>());
        for it in code {
            let first = lines.partition_point(|line| line.vaddr < it.vaddr);
            let count = lines[first..].partition_point(|line| line.vaddr < end(it));
            if count > 0 {
                let mut body = Vec::new();
                body.extend(it.address.to_le_bytes());
                body.extend((count as u64).to_le_bytes());
                for line in &lines[first..first + count] {
                    body.extend((line.vaddr - it.vaddr + it.address).to_le_bytes());
                    body.extend(line.line.to_le_bytes());
                    // The discriminator.
                    body.extend(0u32.to_le_bytes());
                    body.extend(line.file.bytes().filter(|byte| *byte != 0).chain([0]));
                }
                record(&mut records, CODE_DEBUG_INFO, &body);
            }
            let mut body = Vec::new();
            let thread = rehal_base::thread_id() as u32;
            body.extend(std::process::id().to_le_bytes());
            body.extend(thread.to_le_bytes());
            for value in [it.address, it.address, it.bytes.len() as u64, self.count] {
                body.extend(value.to_le_bytes());
            }
            body.extend(it.name.bytes().filter(|byte| *byte != 0).chain([0]));
            body.extend(it.bytes);
            record(&mut records, CODE_LOAD, &body);
            self.count += 1;
        }
        self.output.write(&records)
    }
}

fn record(to: &mut Vec<u8>, kind: u32, body: &[u8]) {
    to.extend(kind.to_le_bytes());
    to.extend(((PREFIX_BYTES + body.len()) as u32).to_le_bytes());
    to.extend(time().to_le_bytes());
    to.extend(body);
}

/// Of the clock that `perf record -k mono` uses.
fn time() -> u64 {
    now_ns() as u64
}
