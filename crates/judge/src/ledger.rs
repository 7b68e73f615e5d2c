//! Ledgers: what each dispatch of a replay wrote, and what each host read saw.
//!
//! The format is in docs/formats.md. `LedgerWriter` observes a replay and writes an entry per dispatch and
//! host read; a recorder's watcher makes the same entries (`DispatchDigests`), and `Ledger::from_plan` sorts
//! them into the order of a run. `Ledger` reads entries one by one, so that memory does not grow with the
//! file. The digest of the capture in the header ties a ledger to its capture.

mod encoder;
pub(crate) mod layout;
mod reader;
mod recorded;
mod watcher;
mod writer;

pub use reader::{Entries, Entry, EntryKind, EntryRange, Ledger, Piece};
pub use watcher::DispatchDigests;
pub use writer::{LedgerContents, LedgerOptions, LedgerWriter};

use rehal_base::parallel;
use rehal_replay::CaptureBytes;

/// The digest of a range: 128 bits of BLAKE3. An accidental or even a deliberate change of the bytes that
/// keeps it is out of reach; a pair of byte strings with the same digest takes about 2^64 attempts.
pub fn digest(bytes: &[u8]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    parallel::hash(&mut hasher, bytes);
    let mut digest = [0; 16];
    digest.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    digest
}

/// The identity of a capture: its length and the BLAKE3 of all its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CaptureIdentity {
    pub length: u64,
    pub digest: [u8; 32],
}

impl CaptureIdentity {
    pub(crate) fn from_capture(capture: &CaptureBytes) -> Self {
        Self { length: capture.as_slice().len() as u64, digest: capture_digest(capture) }
    }
}

/// The BLAKE3 of all bytes of a capture. It takes a pass over the file, once for all clones of the bytes.
pub fn capture_digest(capture: &CaptureBytes) -> [u8; 32] {
    const PIECE_BYTES: usize = 16 << 20;
    capture.digest(|capture| {
        let mut hasher = blake3::Hasher::new();
        let bytes = capture.as_slice();
        for (number, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
            parallel::hash(&mut hasher, piece);
            // Most of a large capture is not needed again soon.
            if bytes.len() > 4 * PIECE_BYTES {
                capture.forget((number * PIECE_BYTES) as u64, piece.len() as u64);
            }
        }
        *hasher.finalize().as_bytes()
    })
}
