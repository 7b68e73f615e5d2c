//! Our replay's report of host reads: the lines of `--replay_host_reads`.

use serde_json::Value;

/// One read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRead {
    /// The record that caused it.
    pub ordinal: u64,
    /// The scope that contains it, if any.
    pub scope: Option<String>,
    /// The captured id of the buffer.
    pub buffer_id: u64,
    /// Length in bytes.
    pub length: u64,
    /// FNV-1a-64 digest of the bytes, as written.
    pub fnv1a64: String,
    /// BLAKE3 of the bytes, in hex.
    pub blake3: String,
    /// The bytes, truncated to the limit.
    pub bytes: Vec<u8>,
}

/// Parses all lines; the error names the line and the missing field.
pub fn parse(text: &str) -> Result<Vec<HostRead>, String> {
    text.lines()
        .enumerate()
        .map(|(number, line)| parse_line(line).map_err(|what| format!("line {}: {what}: {line}", number + 1)))
        .collect()
}

fn parse_line(line: &str) -> Result<HostRead, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let number =
        |name: &str| value.get(name).and_then(Value::as_u64).ok_or(format!("missing number {name:?}"));
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
    number("offset")?;
    let read = HostRead {
        ordinal: number("ordinal")?,
        scope: text("scope"),
        buffer_id: number("buffer_id")?,
        length: number("length")?,
        fnv1a64: text("fnv1a64").ok_or("missing fnv1a64")?,
        blake3: text("blake3").ok_or("missing blake3")?,
        bytes: hex::decode(text("bytes").ok_or("missing bytes")?)
            .map_err(|error| format!("malformed hex: {error}"))?,
    };
    let truncated = value.get("truncated").and_then(Value::as_bool).ok_or("missing truncated")?;
    let (shown, digest) = (read.bytes.len() as u64, fnv1a64(&read.bytes));
    if shown > read.length || truncated != (shown < read.length) {
        return Err(format!("{shown} bytes, but length {} and truncated {truncated}", read.length));
    }
    if !truncated && !says(&read.fnv1a64, digest) {
        return Err(format!("bytes have the digest {digest:016x}"));
    }
    Ok(read)
}

fn says(written: &str, digest: u64) -> bool {
    u64::from_str_radix(written.trim_start_matches("0x"), 16) == Ok(digest)
}

/// The digest of captures, deliberately reimplemented: the oracle does not trust ours.
fn fnv1a64(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(bytes: &str, length: u64) -> String {
        format!(
            r#"{{"ordinal":7,"scope":"execute","buffer_id":3,"offset":0,"length":{length},"fnv1a64":"0xaf63dc4c8601ec8c","blake3":"00","bytes":"{bytes}","truncated":false}}"#
        )
    }

    #[test]
    fn a_host_read_is_parsed() {
        let reads = parse(&line("61", 1)).unwrap();
        assert_eq!(reads[0].bytes, b"a");
        assert_eq!((reads[0].ordinal, reads[0].scope.as_deref()), (7, Some("execute")));
    }

    #[test]
    fn a_wrong_digest_or_length_is_an_error() {
        assert!(parse(&line("62", 1)).unwrap_err().contains("digest"));
        assert!(parse(&line("61", 2)).unwrap_err().contains("length"));
        assert!(parse(&line("6", 1)).unwrap_err().contains("hex"));
        assert!(parse("{}").unwrap_err().starts_with("line 1"));
    }
}
