//! GGUF, versions 2 and 3 (source: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>).

use rehal_base::{Cursor, Fault, FormatError, Range};

use crate::{Location, Parsed};

mod types;

const FORMAT: &str = "GGUF file";

/// `GGUF` as a little-endian u32.
const MAGIC: u32 = 0x4655_4747;

/// Default of `general.alignment`: the alignment of the data section and of each tensor in it, in bytes.
const DEFAULT_ALIGNMENT: u32 = 32;

/// Nesting limit of metadata arrays; no known writer nests them.
const MAX_ARRAY_DEPTH: u32 = 8;

/// Size limit of metadata and tensor descriptions, the same as the header limit of safetensors: a sparse file
/// costs nothing to create and would take hours to scan.
const MAX_HEADER_BYTES: usize = 100_000_000;

/// Minimum size of a tensor description: an empty name, no dimensions, type and offset.
const MIN_TENSOR_BYTES: u64 = 8 + 4 + 4 + 8;

/// Minimum size of a metadata entry: an empty key, the type and a one-byte value.
const MIN_METADATA_BYTES: u64 = 8 + 4 + 1;

/// The tensors of a file.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Parsed>, FormatError> {
    let mut reader = Reader::new(bytes);
    reader.magic_and_version()?;
    let tensor_count = reader.u64("tensor_count")?;
    let metadata_count = reader.u64("metadata_kv_count")?;
    // The reference does not read further either: without tensors the metadata has no effect.
    if tensor_count == 0 {
        return Ok(Vec::new());
    }
    reader.check_count("metadata_kv_count", metadata_count, MIN_METADATA_BYTES)?;
    reader.check_count("tensor_count", tensor_count, MIN_TENSOR_BYTES)?;
    let alignment = reader.metadata(metadata_count)?;
    let mut tensors: Vec<Tensor<'_>> = Vec::new();
    for _ in 0..tensor_count {
        let tensor = reader.tensor(alignment)?;
        // Catches zero-filled regions early: they decode as tensors with empty names.
        if let Some(last) = tensors.last().filter(|last| last.name == tensor.name) {
            let found = format!("'{}' twice, first at offset {}", last.name, last.at);
            return Err(corrupt(tensor.at, "tensor name", "a unique name", found));
        }
        tensors.push(tensor);
    }
    let data_offset = (reader.cursor.position() as u64).next_multiple_of(u64::from(alignment));
    let data_bytes = (bytes.len() as u64).saturating_sub(data_offset);
    // Empty tensors need no data, so the file may end before the data section.
    let data_offset = data_offset.min(bytes.len() as u64);
    tensors.into_iter().map(|tensor| tensor.location(data_offset, data_bytes)).collect()
}

struct Reader<'a> {
    cursor: Cursor<'a>,
    /// Whether the file is longer than [`MAX_HEADER_BYTES`].
    is_limited: bool,
}

/// A tensor description; its range is relative to the data section.
struct Tensor<'a> {
    at: u64,
    name: &'a str,
    range: Range,
}

impl Tensor<'_> {
    fn location(self, data_offset: u64, data_bytes: u64) -> Result<Parsed, FormatError> {
        let Range { offset, length } = self.range;
        if !self.range.fits(data_bytes) {
            let expected = format!("a range within the {data_bytes} bytes of data");
            let found = format!("{length} bytes at {offset}");
            return Err(FormatError::new(FORMAT, Fault::Truncated, self.at, "offset", expected, found));
        }
        Ok(Parsed {
            name: self.name.to_string(),
            metadata: Vec::new(),
            length,
            minimum_alignment: 0,
            location: Location::Here(data_offset + offset),
        })
    }
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let header = &bytes[..bytes.len().min(MAX_HEADER_BYTES)];
        Self { cursor: Cursor::new(header), is_limited: header.len() < bytes.len() }
    }

    /// Rejects a count of elements of at least `min_bytes` each that exceeds the rest of the file, before
    /// allocating.
    fn check_count(&self, field: &'static str, count: u64, min_bytes: u64) -> Result<(), FormatError> {
        let most = self.cursor.remaining() as u64 / min_bytes;
        if count <= most {
            return Ok(());
        }
        if self.is_limited {
            return Err(self.too_long());
        }
        let expected = format!("at most {most}, which fit in the file");
        Err(FormatError::new(FORMAT, Fault::Truncated, self.at(), field, expected, count.to_string()))
    }

    fn magic_and_version(&mut self) -> Result<(), FormatError> {
        let magic = self.u32("magic")?;
        if magic != MAGIC {
            return Err(corrupt(0, "magic", format!("{MAGIC:08X} (GGUF)"), format!("{magic:08X}")));
        }
        let version = self.u32("version")?;
        if (2..=3).contains(&version) {
            return Ok(());
        }
        let found = match version.swap_bytes() {
            swapped @ 1..=0xffff => format!("{swapped}, in big-endian byte order"),
            _ => version.to_string(),
        };
        Err(FormatError::new(FORMAT, Fault::Unsupported, 4, "version", "2 or 3", found))
    }

    /// Skips the metadata; returns `general.alignment`, if present, else the default.
    fn metadata(&mut self, count: u64) -> Result<u32, FormatError> {
        let mut alignment = DEFAULT_ALIGNMENT;
        for _ in 0..count {
            let at = self.at();
            let key = self.text("metadata key")?;
            let kind = self.u32("metadata value_type")?;
            if key != "general.alignment" {
                self.skip_value(kind, 0)?;
                continue;
            }
            if kind != types::VALUE_UINT32 {
                return Err(corrupt(at, "general.alignment", "a uint32", format!("a value of type {kind}")));
            }
            alignment = self.u32("general.alignment")?;
            if !alignment.is_power_of_two() {
                let found = alignment.to_string();
                return Err(corrupt(at, "general.alignment", "a power of two", found));
            }
        }
        Ok(alignment)
    }

    fn skip_value(&mut self, kind: u32, depth: u32) -> Result<(), FormatError> {
        let at = self.at();
        match kind {
            types::VALUE_STRING => self.text("metadata value").map(drop),
            types::VALUE_ARRAY if depth == MAX_ARRAY_DEPTH => {
                let expected = format!("at most {MAX_ARRAY_DEPTH} nested arrays");
                Err(corrupt(at, "metadata value", expected, "another array"))
            }
            types::VALUE_ARRAY => {
                let element = self.u32("array type")?;
                let count = self.u64("array length")?;
                if let Some(element_bytes) = types::value_bytes(element) {
                    return self.take(count.checked_mul(element_bytes), "array").map(drop);
                }
                // A string has at least its length, an array its element type and count. Other types are
                // rejected below.
                self.check_count("array length", count, if element == types::VALUE_ARRAY { 12 } else { 8 })?;
                for _ in 0..count {
                    self.skip_value(element, depth + 1)?;
                }
                Ok(())
            }
            scalar => match types::value_bytes(scalar) {
                Some(bytes) => self.take(Some(bytes), "metadata value").map(drop),
                None => {
                    let found = scalar.to_string();
                    Err(FormatError::new(FORMAT, Fault::Unsupported, at, "value_type", "0 to 12", found))
                }
            },
        }
    }

    fn tensor(&mut self, alignment: u32) -> Result<Tensor<'a>, FormatError> {
        let at = self.at();
        let name = self.text("tensor name")?;
        let dimension_count = self.u32("n_dimensions")?;
        let mut dimensions = Cursor::new(self.take(Some(u64::from(dimension_count) * 8), "dimensions")?);
        let first = dimensions.u64().unwrap_or(1);
        let mut count = Some(first);
        while let Some(dimension) = dimensions.u64() {
            count = count.and_then(|count| count.checked_mul(dimension));
        }
        let kind = self.u32("tensor type")?;
        let Some(block) = types::block(kind) else {
            let expected = "a ggml tensor type";
            let found = format!("{kind}, of tensor '{name}'");
            return Err(FormatError::new(FORMAT, Fault::Unsupported, at, "type", expected, found));
        };
        if !first.is_multiple_of(block.elements) {
            let expected = format!("a multiple of {} elements per row", block.elements);
            return Err(corrupt(at, "dimensions", expected, format!("{first}, of tensor '{name}'")));
        }
        let length = count.and_then(|count| (count / block.elements).checked_mul(block.bytes));
        let offset = self.u64("tensor offset")?;
        if !offset.is_multiple_of(u64::from(alignment)) {
            let expected = format!("a multiple of {alignment}");
            return Err(corrupt(at, "offset", expected, format!("{offset}, of tensor '{name}'")));
        }
        let range = length.and_then(|length| Range::new(offset, length)).ok_or_else(|| {
            corrupt(
                at,
                "dimensions",
                "a size of at most 64 bits",
                format!("a larger one, of tensor '{name}'"),
            )
        })?;
        Ok(Tensor { at, name, range })
    }

    fn text(&mut self, field: &'static str) -> Result<&'a str, FormatError> {
        let at = self.at();
        let length = self.u64(field)?;
        let bytes = self.take(Some(length), field)?;
        std::str::from_utf8(bytes).map_err(|error| corrupt(at, field, "UTF-8 text", error.to_string()))
    }

    fn u32(&mut self, field: &'static str) -> Result<u32, FormatError> {
        self.cursor.u32().ok_or_else(|| self.truncated(field, 4))
    }

    fn u64(&mut self, field: &'static str) -> Result<u64, FormatError> {
        self.cursor.u64().ok_or_else(|| self.truncated(field, 8))
    }

    /// The next `length` bytes; `None` if the length overflowed.
    fn take(&mut self, length: Option<u64>, field: &'static str) -> Result<&'a [u8], FormatError> {
        let length = length.unwrap_or(u64::MAX);
        let bytes = usize::try_from(length).ok().and_then(|length| self.cursor.take(length));
        bytes.ok_or_else(|| self.truncated(field, length))
    }

    fn at(&self) -> u64 {
        self.cursor.position() as u64
    }

    fn truncated(&self, field: &'static str, bytes: u64) -> FormatError {
        if self.is_limited {
            return self.too_long();
        }
        let (expected, found) = (format!("{bytes} bytes"), format!("{}", self.cursor.remaining()));
        FormatError::new(FORMAT, Fault::Truncated, self.at(), field, expected, found)
    }
}

impl Reader<'_> {
    #[cold]
    fn too_long(&self) -> FormatError {
        let expected = format!("metadata and tensor descriptions of at most {MAX_HEADER_BYTES} bytes");
        FormatError::new(FORMAT, Fault::Unsupported, self.at(), "header", expected, "more")
    }
}

fn corrupt(
    offset: u64,
    field: &'static str,
    expected: impl Into<String>,
    found: impl Into<String>,
) -> FormatError {
    FormatError::new(FORMAT, Fault::Corrupt, offset, field, expected, found)
}
