//! Safetensors: the length of a header, the header as JSON, and data (source:
//! <https://huggingface.co/docs/safetensors/index#format>).

use std::collections::HashSet;
use std::fmt;

use rehal_base::{Cursor, Fault, FormatError};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::{Location, Parsed};

const FORMAT: &str = "safetensors file";

/// Size of the length prefix.
const LENGTH_BYTES: u64 = 8;

/// The format's limit on the header, in bytes.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// The key of the string map about the file, which is not a tensor.
const METADATA: &str = "__metadata__";

/// The tensors of a file, in header order.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Parsed>, FormatError> {
    let mut cursor = Cursor::new(bytes);
    let header_bytes = cursor.u64().ok_or_else(|| {
        let found = format!("{}", bytes.len());
        FormatError::new(FORMAT, Fault::Truncated, 0, "header length", "8 bytes", found)
    })?;
    if header_bytes > MAX_HEADER_BYTES {
        let expected = format!("at most {MAX_HEADER_BYTES}");
        return Err(corrupt(0, "header length", expected, header_bytes.to_string()));
    }
    let header = cursor.take(header_bytes as usize).ok_or_else(|| {
        let (expected, found) = (format!("{header_bytes} bytes"), cursor.remaining().to_string());
        FormatError::new(FORMAT, Fault::Truncated, LENGTH_BYTES, "header", expected, found)
    })?;
    let tensors: Tensors = serde_json::from_slice(header).map_err(|error| {
        let expected = "a JSON object of tensors with dtype, shape and data_offsets";
        corrupt(LENGTH_BYTES, "header", expected, error.to_string())
    })?;
    let data_offset = LENGTH_BYTES + header_bytes;
    let data_bytes = bytes.len() as u64 - data_offset;
    tensors.0.into_iter().map(|(name, tensor)| tensor.location(name, data_offset, data_bytes)).collect()
}

/// The header: tensors by name, in order.
struct Tensors(Vec<(String, Tensor)>);

#[derive(serde::Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<u64>,
    /// Start and end, relative to the end of the header.
    data_offsets: (u64, u64),
}

impl Tensor {
    fn location(self, name: String, data_offset: u64, data_bytes: u64) -> Result<Parsed, FormatError> {
        let (begin, end) = self.data_offsets;
        if begin > end || end > data_bytes {
            let fault = if begin > end { Fault::Corrupt } else { Fault::Truncated };
            let expected = format!("a range within the {data_bytes} bytes of data");
            let found = format!("{begin} to {end}, of tensor '{name}'");
            return Err(FormatError::new(FORMAT, fault, LENGTH_BYTES, "data_offsets", expected, found));
        }
        let length = end - begin;
        // Newer types have an unknown size, so their lengths are not checked.
        if let Some(bits) = dtype_bits(&self.dtype) {
            let count = self.shape.iter().try_fold(1u64, |count, size| count.checked_mul(*size));
            let expected_bits = count.and_then(|count| count.checked_mul(bits));
            if expected_bits != length.checked_mul(8) {
                let expected = format!("the bytes of {} {:?}", self.dtype, self.shape);
                let found = format!("{length}, of tensor '{name}'");
                return Err(corrupt(LENGTH_BYTES, "data_offsets", expected, found));
            }
        }
        let location = Location::Here(data_offset + begin);
        Ok(Parsed { name, metadata: Vec::new(), length, minimum_alignment: 0, location })
    }
}

/// Bits per element, or `None` for an unknown type.
fn dtype_bits(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "F4" => 4,
        "F6_E2M3" | "F6_E3M2" => 6,
        "BOOL" | "U8" | "I8" | "F8_E5M2" | "F8_E4M3" | "F8_E8M0" | "F8_E4M3FNUZ" | "F8_E5M2FNUZ" => 8,
        "I16" | "U16" | "F16" | "BF16" => 16,
        "I32" | "U32" | "F32" => 32,
        "I64" | "U64" | "F64" | "C64" => 64,
        _ => return None,
    })
}

impl<'de> Deserialize<'de> for Tensors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Tensors;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tensors, A::Error> {
        let mut seen = HashSet::new();
        let mut tensors = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == METADATA {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if !seen.insert(name.clone()) {
                return Err(serde::de::Error::custom(format!("duplicate tensor '{name}'")));
            }
            tensors.push((name, map.next_value()?));
        }
        Ok(Tensors(tensors))
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
