//! A comparison of captures of 1.8 million records that differ in many places.

use super::measure::Metric;
use super::plan::{Plan, Prepared};
use super::prepare::Workplace;
use super::report::Target;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, IntoInnerError, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Maximum memory of a comparison: two files of nine million records take 1.5 GB.
const MEMORY: u64 = 300 << 20;
/// Of the allocations, one in this many has another size; of the executions, one in ten times as many is
/// missing.
const EVERY: usize = 7;

/// The long capture, and a copy of it that differs.
pub fn changed(workplace: &Workplace) -> Prepared {
    let before = workplace.long_capture()?;
    let after = changed_copy(workplace, &before)?.display().to_string();
    // Status 2 is different.
    let ours = workplace.ours_ending("2", &["diff", &before.display().to_string(), &after]);
    let plan = Plan::new(None, ours);
    let plan = plan.row(Metric::Wall, Target::Seconds(3.0));
    Ok(plan.suffixed(".memory", Metric::PeakBeyond(0), Target::Bytes(MEMORY)))
}

/// A copy of a capture in which many allocations have other sizes, and many executions are missing.
fn changed_copy(workplace: &Workplace, capture: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let path = workplace.scratch("long.changed.ireereplay");
    if path.is_file() {
        return Ok(path);
    }
    let unfinished = workplace.scratch("long.changed.unfinished");
    let mut copy = BufWriter::new(File::create(&unfinished)?);
    change(BufReader::new(File::open(capture)?), &mut copy)?;
    let mut copy = copy.into_inner().map_err(IntoInnerError::into_error)?;
    // The length of the file, in its header.
    let length = copy.stream_position()?;
    copy.seek(SeekFrom::Start(16))?;
    copy.write_all(&length.to_le_bytes())?;
    fs::rename(&unfinished, &path)?;
    Ok(path)
}

/// Writes the changed bytes, record by record: what this process has in memory would count as the peak memory
/// of the programs that it starts. Offsets are those of the format: see `rehal-capture`.
fn change(mut from: impl Read, to: &mut impl Write) -> io::Result<()> {
    const ALLOCA: u32 = 13;
    const EXECUTE: u32 = 22;
    /// Bytes of a record before its payload.
    const HEADER: usize = 96;
    let mut head = [0; 12];
    from.read_exact(&mut head)?;
    let header_bytes = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
    to.write_all(&head)?;
    io::copy(&mut from.by_ref().take(u64::from(header_bytes) - 12), to)?;
    let (mut ordinal, mut executions, mut allocations) = (0_u64, 0, 0);
    let mut record = Vec::new();
    loop {
        record.clear();
        if from.by_ref().take(8).read_to_end(&mut record)? == 0 {
            return Ok(());
        }
        let length = record.first_chunk().copied().map(u64::from_le_bytes).unwrap_or_default();
        from.by_ref().take(length.saturating_sub(8)).read_to_end(&mut record)?;
        if record.len() < HEADER || record.len() as u64 != length {
            return Err(io::Error::other("the long capture is corrupt"));
        }
        let code = u32::from_le_bytes([record[72], record[73], record[74], record[75]]);
        executions += usize::from(code == EXECUTE);
        if code == EXECUTE && executions % (10 * EVERY) == 0 {
            continue;
        }
        record[16..24].copy_from_slice(&ordinal.to_le_bytes());
        ordinal += 1;
        if code == ALLOCA {
            allocations += 1;
            // The size, first in the payload.
            if allocations % EVERY == 0 && record.len() > HEADER {
                record[HEADER] ^= 8;
            }
        }
        to.write_all(&record)?;
    }
}
