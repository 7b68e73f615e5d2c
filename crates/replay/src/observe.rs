use rehal_base::{HostMemory, Result};
use rehal_hal::Executable;

use crate::{ExecutableRecord, RecordLocation};

/// A scope that the program opened around part of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope<'a> {
    /// Its name; UTF-8 by contract, which nothing enforces.
    pub name: &'a [u8],
    /// The record that opens or closes it.
    pub location: RecordLocation,
}

/// Bytes that the program mapped for reading: what it saw of what was computed.
#[derive(Clone, Copy)]
pub struct HostRead<'a> {
    /// The record of the map.
    pub location: RecordLocation,
    /// Name of the innermost scope that is open.
    pub scope: Option<&'a [u8]>,
    /// The buffer's id in the capture.
    pub buffer_id: u64,
    /// First byte in the buffer.
    pub offset: u64,
    /// The bytes, all of this memory.
    pub memory: &'a HostMemory,
}

impl HostRead<'_> {
    /// A copy of the bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        // All of the memory is in range.
        self.memory.bytes(self.memory.whole()).unwrap_or_default().into_owned()
    }
}

/// Receives the steps of a replay. An error of an observer ends the replay.
pub trait Observer {
    /// A scope opens; what it times starts after this returns.
    fn scope_begin(&mut self, scope: &Scope<'_>) -> Result<()> {
        let _ = scope;
        Ok(())
    }

    /// A scope closes; what it times ended before this is called.
    fn scope_end(&mut self, scope: &Scope<'_>) -> Result<()> {
        let _ = scope;
        Ok(())
    }

    /// Whether [`Observer::host_read`] wants to be called; asked once, before a run.
    fn wants_host_reads(&self) -> bool {
        false
    }

    /// The program reads bytes of a buffer.
    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        let _ = read;
        Ok(())
    }

    /// An executable of the capture, or what replaces it, is prepared.
    fn executable(&mut self, record: &ExecutableRecord<'_>, executable: &Executable) -> Result<()> {
        let _ = (record, executable);
        Ok(())
    }

    /// Whether [`Observer::step`] wants to be called; asked once, before a run.
    fn wants_steps(&self) -> bool {
        false
    }

    /// The operation of the record at `location` is about to run: crash reports and progress.
    fn step(&mut self, location: RecordLocation) -> Result<()> {
        let _ = location;
        Ok(())
    }
}
