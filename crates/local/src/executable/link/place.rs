/// Bytes at addresses from a start on.
pub(super) struct Place {
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
}

impl Place {
    /// The address of bytes that are added.
    pub(super) fn add(&mut self, bytes: &[u8]) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = self.start + self.bytes.len() as u64;
        self.bytes.extend(bytes);
        at
    }
}
