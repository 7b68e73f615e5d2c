//! Synthetic files with every feature of their formats, and small writers for the formats that are otherwise
//! only read.
//!
//! They contain no model. Used by tests of parameter readers, and as fuzzing seeds.

use rehal_base::Result;

use crate::Pattern;
use crate::irpa::Archive;

const INFALLIBLE: &str = "writing to memory cannot fail, and names and patterns are valid";

/// A tensor of a GGUF file.
pub struct GgufTensor {
    /// The name.
    pub name: &'static str,
    /// Elements in each dimension, innermost first.
    pub dimensions: Vec<u64>,
    /// The type number.
    pub kind: u32,
    /// The bytes.
    pub data: Vec<u8>,
}

/// A value of GGUF metadata.
#[allow(missing_docs, reason = "named as in the format")]
pub enum Value {
    U8(u8),
    U32(u32),
    F64(f64),
    Bool(bool),
    Text(&'static str),
    Array(Vec<Value>),
}

impl Value {
    fn kind(&self) -> u32 {
        match self {
            Self::U8(_) => 0,
            Self::U32(_) => 4,
            Self::Bool(_) => 7,
            Self::Text(_) => 8,
            Self::Array(_) => 9,
            Self::F64(_) => 12,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::U8(value) => out.push(*value),
            Self::U32(value) => out.extend(value.to_le_bytes()),
            Self::F64(value) => out.extend(value.to_le_bytes()),
            Self::Bool(value) => out.push(u8::from(*value)),
            Self::Text(text) => write_text(text, out),
            Self::Array(values) => {
                out.extend(values.first().map_or(0, Self::kind).to_le_bytes());
                out.extend((values.len() as u64).to_le_bytes());
                values.iter().for_each(|value| value.write(out));
            }
        }
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// A GGUF file; data is aligned to `alignment` bytes.
pub fn gguf(version: u32, metadata: &[(&str, Value)], tensors: &[GgufTensor], alignment: usize) -> Vec<u8> {
    let mut out = b"GGUF".to_vec();
    out.extend(version.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        write_text(key, &mut out);
        out.extend(value.kind().to_le_bytes());
        value.write(&mut out);
    }
    let mut offset = 0;
    for tensor in tensors {
        write_text(tensor.name, &mut out);
        out.extend((tensor.dimensions.len() as u32).to_le_bytes());
        tensor.dimensions.iter().for_each(|size| out.extend(size.to_le_bytes()));
        out.extend(tensor.kind.to_le_bytes());
        out.extend((offset as u64).to_le_bytes());
        offset += tensor.data.len().next_multiple_of(alignment);
    }
    for tensor in tensors {
        out.resize(out.len().next_multiple_of(alignment), 0);
        out.extend(&tensor.data);
    }
    out
}

/// A safetensors file of a header and data.
pub fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.extend(data);
    out
}

/// A GGUF file with every feature.
pub fn gguf_sample() -> Vec<u8> {
    let nested = Value::Array(vec![Value::Array(vec![Value::U8(1), Value::U8(2)]), Value::Array(vec![])]);
    let metadata = [
        ("general.name", Value::Text("sample")),
        ("general.alignment", Value::U32(64)),
        ("tokens", Value::Array(vec![Value::Text("a"), Value::Text("")])),
        ("scale", Value::F64(0.5)),
        ("flag", Value::Bool(true)),
        ("nested", nested),
    ];
    let tensors = [
        GgufTensor { name: "w", dimensions: vec![2, 3], kind: 0, data: vec![7; 24] },
        GgufTensor { name: "q", dimensions: vec![32, 2], kind: 2, data: vec![9; 36] },
        GgufTensor { name: "scalar", dimensions: vec![], kind: 24, data: vec![3] },
    ];
    gguf(3, &metadata, &tensors, 64)
}

/// A safetensors file with every feature.
pub fn safetensors_sample() -> Vec<u8> {
    let header = concat!(
        r#"{"__metadata__":{"format":"pt"},"#,
        r#""b":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"#,
        r#""a\"\u00e9":{"dtype":"I8","shape":[3],"data_offsets":[24,27],"more":[1,{"x":null}]},"#,
        r#""scalar":{"dtype":"BF16","shape":[],"data_offsets":[27,29]}}   "#
    );
    safetensors(header, &(0..29).collect::<Vec<u8>>())
}

/// An archive with every kind of entry.
pub fn archive_sample() -> Vec<u8> {
    try_archive().expect(INFALLIBLE)
}

fn try_archive() -> Result<Vec<u8>> {
    let mut archive = Archive::new();
    archive.add_splat("splat", b"meta", Pattern::new(&[1, 2, 3, 4]).unwrap_or(Pattern::ZERO), 64)?;
    let w = archive.add_data("w", b"", 64, 100)?;
    archive.add_external("far", b"x", "other.bin", 16, 32)?;
    let b = archive.add_data("b", b"about b", 64, 7)?;
    archive.add_data("empty", b"", 64, 0)?;
    let (w, b) = (archive.data_offset(w) as usize, archive.data_offset(b) as usize);
    let mut bytes = Vec::new();
    archive.write_header(&mut bytes)?;
    bytes.resize(archive.file_bytes() as usize, 0);
    bytes[w..w + 100].fill(0xaa);
    bytes[b..b + 7].fill(0xbb);
    Ok(bytes)
}

/// Two archives in one file, the first linked to the second.
pub fn linked_sample() -> Vec<u8> {
    try_linked().expect(INFALLIBLE)
}

fn try_linked() -> Result<Vec<u8>> {
    let mut bytes = archive_sample();
    let next = bytes.len() as u64;
    bytes[16..24].copy_from_slice(&next.to_le_bytes());
    let mut second = Archive::new();
    let slot = second.add_data("second", b"", 64, 3)?;
    let at = bytes.len() + second.data_offset(slot) as usize;
    second.write_header(&mut bytes)?;
    bytes.resize(at, 0);
    bytes.extend([0xcc; 3]);
    Ok(bytes)
}
