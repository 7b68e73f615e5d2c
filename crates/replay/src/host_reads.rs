use std::io::Write;

use rehal_base::{Error, Result, fnv};
use serde_json::Value;

use crate::{HostRead, Observer};

/// Default number of bytes of a read that a line contains.
pub const DEFAULT_BYTES_LIMIT: usize = 64 << 10;

/// Writes one JSON line per host read: `ordinal`, `scope`, `buffer_id`, `offset`, `length`, the digests
/// `fnv1a64` and `blake3` of all bytes in hexadecimal, `bytes` (the leading bytes up to the limit, in
/// hexadecimal), and `truncated` (whether the read exceeds the limit).
pub struct HostReadLog<W: Write> {
    sink: W,
    bytes_limit: usize,
}

impl<W: Write> HostReadLog<W> {
    /// A log that writes at most `bytes_limit` bytes of each read.
    pub fn new(sink: W, bytes_limit: usize) -> Self {
        Self { sink, bytes_limit }
    }

    /// Flushes the log and returns the sink.
    pub fn finish(mut self) -> Result<W> {
        self.sink.flush().map_err(|error| Error::io("writing host reads", &error))?;
        Ok(self.sink)
    }
}

impl<W: Write> Observer for HostReadLog<W> {
    fn wants_host_reads(&self) -> bool {
        true
    }

    fn wants_zeroed_memory(&self) -> bool {
        true
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        let length = read.memory.length();
        let mut shown = vec![0; length.min(self.bytes_limit as u64) as usize];
        read.memory.read(0, &mut shown)?;
        let (mut fnv1a64, mut blake3) = (fnv::Fnv1a64::default(), blake3::Hasher::new());
        read.memory.for_each_chunk(read.memory.whole(), |chunk| {
            fnv1a64.update(chunk);
            blake3.update(chunk);
            Ok::<_, Error>(())
        })?;
        // In the documented order, which a `serde_json` object does not preserve.
        let fields: [(&str, Value); 9] = [
            ("ordinal", read.location.ordinal.into()),
            ("scope", read.scope.map(|name| String::from_utf8_lossy(name)).into()),
            ("buffer_id", read.buffer_id.into()),
            ("offset", read.offset.into()),
            ("length", length.into()),
            ("fnv1a64", format!("{:016x}", fnv1a64.finish()).into()),
            ("blake3", blake3.finalize().to_hex().as_str().into()),
            ("bytes", hex::encode(&shown).into()),
            ("truncated", ((shown.len() as u64) < length).into()),
        ];
        let fields = fields.map(|(name, value)| format!("\"{name}\":{value}"));
        writeln!(self.sink, "{{{}}}", fields.join(","))
            .map_err(|error| Error::io("writing host reads", &error))
    }
}

#[cfg(test)]
mod tests {
    use rehal_base::HostMemory;

    use super::*;
    use crate::RecordLocation;

    #[test]
    fn a_line_has_digests_and_bytes_up_to_the_limit() {
        let mut log = HostReadLog::new(Vec::new(), 2);
        let memory = HostMemory::constant(b"foobar").unwrap();
        let location = RecordLocation { ordinal: 42, offset: 9088 };
        let read = HostRead { location, scope: Some(b"execute"), buffer_id: 11, offset: 4, memory: &memory };
        log.host_read(&read).unwrap();
        let text = log.finish().unwrap();
        let head = r#"{"ordinal":42,"scope":"execute","buffer_id":11,"offset":4,"length":6,"fnv1a64":""#;
        assert!(text.starts_with(head.as_bytes()), "{}", text.escape_ascii());
        let line: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(line["ordinal"], 42);
        assert_eq!(line["scope"], "execute");
        assert_eq!(line["fnv1a64"], "85944171f73967e8");
        assert_eq!(line["bytes"], "666f");
        assert_eq!(line["truncated"], true);
        assert_eq!(line["length"], 6);
    }
}
