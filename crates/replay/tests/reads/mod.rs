//! The bytes that a replay reads.

use rehal_base::Result;
use rehal_replay::{HostRead, Observer};

/// The bytes of host reads.
#[derive(Default)]
pub struct Reads(pub Vec<Vec<u8>>);

impl Observer for Reads {
    fn wants_host_reads(&self) -> bool {
        true
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        self.0.push(read.to_vec());
        Ok(())
    }
}
