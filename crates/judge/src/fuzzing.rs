//! The bodies of the fuzz targets: the reader of ledgers on arbitrary bytes.

use rehal_base::Result;

use crate::Ledger;
use crate::ledger::layout::{EntryHeader, Header};

/// Reads `bytes` as a ledger and checks the invariants of its entries.
///
/// Returns the number of entries, or why the ledger is invalid; must terminate without a panic.
pub fn exercise(bytes: &[u8]) -> Result<usize> {
    let ledger = Ledger::from_bytes(bytes)?;
    let mut count = 0;
    for entry in ledger.entries() {
        let ranges = entry?.ranges;
        assert!(
            ranges.windows(2).all(|it| it[0].binding < it[1].binding),
            "bindings are in order, and a host read has one range"
        );
        for range in ranges {
            let mut end = 0;
            for piece in &range.pieces {
                assert!(
                    piece.range.offset >= end && piece.range.fits(range.range.length),
                    "pieces are in order"
                );
                assert!(piece.kept.len() as u64 <= piece.range.length, "only bytes of a piece are kept");
                end = piece.range.end();
            }
        }
        count += 1;
    }
    Ok(count)
}

/// Corrects the checksums of a ledger, as far as it has entries, so that changes reach what is behind them.
pub fn seal(bytes: &mut [u8]) {
    let summed = std::mem::offset_of!(Header, checksum);
    let mut at = size_of::<Header>();
    if bytes.len() < at {
        return;
    }
    let sum = crc32fast::hash(&bytes[..summed]);
    bytes[summed..summed + 4].copy_from_slice(&sum.to_le_bytes());
    let own = std::mem::offset_of!(EntryHeader, checksum);
    while let Some(length) = bytes[at..].first_chunk() {
        let length = u64::from_le_bytes(*length);
        if length < size_of::<EntryHeader>() as u64 || length > (bytes.len() - at) as u64 {
            return;
        }
        let entry = &mut bytes[at..at + length as usize];
        entry[own..own + 4].fill(0);
        let sum = crc32fast::hash(entry);
        entry[own..own + 4].copy_from_slice(&sum.to_le_bytes());
        at += length as usize;
    }
}
