use std::io::Read;

use rehal_base::{Error, Result};

use super::dtype;
use super::layout::Layout;
use super::literal::{Literal, parse_dictionary};
use crate::{MAX_RANK, TensorType};

const MAGIC: [u8; 6] = *b"\x93NUMPY";

/// Limit on the header size. A header has a shape and a type, about a hundred bytes.
pub const MAX_HEADER_BYTES: u32 = 1 << 16;

/// Whether `head`, the first bytes of a file, are those of an `.npy` file.
pub fn is_array(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// Headers are padded so that elements are aligned to this.
const ALIGNMENT_BYTES: usize = 64;

/// Reads the header of the next array: its type, and how its elements, which follow, are laid out.
pub fn read_header(reader: &mut impl Read) -> Result<(TensorType, Layout)> {
    let mut prefix = [0; 8];
    fill(reader, &mut prefix, "the magic bytes")?;
    let [magic @ .., major, minor] = prefix;
    if magic != MAGIC {
        return Err(Error::invalid_argument("not an .npy file: it does not start with \\x93NUMPY"));
    }
    let length = match major {
        1 => {
            let mut length = [0; 2];
            fill(reader, &mut length, "the header length")?;
            u32::from(u16::from_le_bytes(length))
        }
        2 | 3 => {
            let mut length = [0; 4];
            fill(reader, &mut length, "the header length")?;
            u32::from_le_bytes(length)
        }
        _ => {
            return Err(Error::unimplemented(format!(
                "unsupported .npy version {major}.{minor} (expected 1, 2 or 3)"
            )));
        }
    };
    if length > MAX_HEADER_BYTES {
        return Err(Error::resource_exhausted(format!(
            ".npy header of {length} bytes exceeds the limit of {MAX_HEADER_BYTES}"
        )));
    }
    let mut text = vec![0; length as usize];
    fill(reader, &mut text, "the header")?;
    // Versions 1 and 2 are Latin-1; only names of record fields could be non-ASCII, and records are rejected.
    let text = std::str::from_utf8(&text)
        .map_err(|_| Error::invalid_argument("malformed .npy header: invalid UTF-8"))?;
    parse(text)
}

fn fill(reader: &mut impl Read, target: &mut [u8], what: &str) -> Result<()> {
    reader
        .read_exact(target)
        .map_err(|error| Error::io(format_args!("truncated .npy file: reading {what}"), &error))
}

fn parse(text: &str) -> Result<(TensorType, Layout)> {
    let (mut dtype, mut shape, mut is_column_major) = (None, None, None);
    let wrong_type =
        |key| Error::invalid_argument(format!("malformed .npy header: '{key}' has the wrong type"));
    for (key, value) in parse_dictionary(text)? {
        match (key, value) {
            ("descr", descr) => dtype = Some(dtype::parse(&descr)?.ok_or_else(|| wrong_type(key))?),
            ("fortran_order", Literal::False) => is_column_major = Some(false),
            ("fortran_order", Literal::True) => is_column_major = Some(true),
            ("shape", Literal::Sequence(sizes)) => shape = Some(parse_shape(&sizes)?),
            ("fortran_order" | "shape", _) => return Err(wrong_type(key)),
            // Unknown keys are ignored: newer writers may add them.
            _ => {}
        }
    }
    let missing = |key| Error::invalid_argument(format!("malformed .npy header: '{key}' is missing"));
    let dtype = dtype.ok_or_else(|| missing("descr"))?;
    let tensor_type =
        TensorType { shape: shape.ok_or_else(|| missing("shape"))?, element_type: dtype.element_type };
    let layout = Layout {
        is_column_major: is_column_major.ok_or_else(|| missing("fortran_order"))?,
        swapped_bytes: dtype.swapped_bytes,
    };
    tensor_type.size_bytes()?;
    Ok((tensor_type, layout))
}

fn parse_shape(sizes: &[Literal<'_>]) -> Result<Vec<u64>> {
    if sizes.len() > MAX_RANK {
        let rank = sizes.len();
        return Err(Error::resource_exhausted(format!(
            "array of {rank} dimensions exceeds the limit of {MAX_RANK}"
        )));
    }
    let size = |literal: &Literal<'_>| match literal {
        Literal::Number(size) => Ok(*size),
        _ => Err(Error::invalid_argument("malformed .npy header: a dimension is not a number")),
    };
    sizes.iter().map(size).collect()
}

/// The header of an array of this type, as NumPy writes it. Fails for types that NumPy lacks.
pub fn header(tensor_type: &TensorType) -> Result<Vec<u8>> {
    let descr = dtype::name(tensor_type.element_type)?;
    let sizes: Vec<String> = tensor_type.shape.iter().map(u64::to_string).collect();
    let comma = if sizes.len() == 1 { "," } else { "" };
    let shape = sizes.join(", ");
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}{comma}), }}");
    let fixed = MAGIC.len() + 2 + 2;
    let padded = (fixed + text.len() + 1).next_multiple_of(ALIGNMENT_BYTES);
    let padding = padded - fixed - text.len() - 1;
    text.extend(std::iter::repeat_n(' ', padding));
    text.push('\n');
    let length = u16::try_from(text.len())
        .map_err(|_| Error::resource_exhausted("the shape is too long for an .npy header"))?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&[1, 0]);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(major: u8, text: &str) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&[major, 0]);
        match major {
            1 => bytes.extend_from_slice(&(text.len() as u16).to_le_bytes()),
            _ => bytes.extend_from_slice(&(text.len() as u32).to_le_bytes()),
        }
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }

    fn read(major: u8, text: &str) -> Result<String> {
        read_header(&mut &with(major, text)[..]).map(|(tensor_type, _)| tensor_type.to_string())
    }

    fn of(descr: &str, order: &str, shape: &str) -> String {
        format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}")
    }

    #[test]
    fn headers_of_all_versions() {
        for (text, expected) in [
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }    \n", "2x3xf32"),
            ("{'shape': (5,), 'fortran_order': False, 'descr': '|b1'}", "5xi1"),
            ("{\"descr\":\"<i8\",'fortran_order':False,'shape':()}", "si64"),
            (
                "{'descr': 'u2', 'fortran_order': False, 'shape': [0, 7L], 'more': (1, ['x', None])}",
                "0x7xui16",
            ),
            ("{'descr': '=c16', 'fortran_order': False, 'shape': (1, 1)}", "1x1xcf128"),
            ("{'descr': '|V2', 'fortran_order': False, 'shape': (4,)}", "4x*16"),
            ("{'descr': '<f2', 'fortran_order': False, 'shape': (4,)}", "4xf16"),
            ("{'descr': '>u1', 'fortran_order': False, 'shape': (4,)}", "4xui8"),
        ] {
            for major in 1..=3 {
                assert_eq!(read(major, text).unwrap(), expected, "{text}");
            }
        }
    }

    #[test]
    fn types_by_name_and_of_one_field() {
        for (descr, expected) in [
            ("'float32'", "2xf32"),
            ("'bfloat16'", "2xbf16"),
            ("'float8_e4m3fn'", "2xf8E4M3FN"),
            ("'int8'", "2xsi8"),
            ("'bool'", "2xi1"),
            ("'complex64'", "2xcf64"),
            // NumPy writes these for bfloat16 and float8_e5m2 of ml_dtypes, and `|V2` for opaque bytes.
            ("'<V2'", "2xbf16"),
            ("'<f1'", "2xf8E5M2"),
            ("'<V1'", "2x*8"),
            ("[('', '<V2')]", "2xbf16"),
            ("[('bfloat16', '|V2')]", "2xbf16"),
            ("[('float32', '|V2')]", "2x*16"),
            ("[('float8_e5m2', '<V1')]", "2xf8E5M2"),
            ("[('float32', '<i4')]", "2xsi32"),
        ] {
            assert_eq!(read(1, &of(descr, "False", "(2,)")).unwrap(), expected, "{descr}");
        }
    }

    #[test]
    fn layouts_of_arrays() {
        let layout = |descr, order| read_header(&mut &with(1, &of(descr, order, "(2, 3)"))[..]).unwrap().1;
        for (descr, swapped_bytes) in [
            ("'<f4'", 1),
            ("'>f4'", 4),
            ("'>u2'", 2),
            ("'>c8'", 4),
            ("'>c16'", 8),
            ("'>i1'", 1),
            ("'>b1'", 1),
            ("'>V4'", 1),
            ("[('a', '>f8')]", 8),
        ] {
            for (order, is_column_major) in [("False", false), ("True", true)] {
                assert_eq!(layout(descr, order), Layout { is_column_major, swapped_bytes }, "{descr}");
            }
        }
    }

    #[test]
    fn unsupported_and_malformed_headers_are_rejected() {
        for (text, expected) in [
            (of("'int4'", "False", "(2,)"), "less than a byte"),
            (of("'>c3'", "False", "(2,)"), "unknown"),
            (of("'<f4'", "0", "(2, 2)"), "'fortran_order' has the wrong type"),
            (of("None", "True", "(2, 2)"), "'descr' has the wrong type"),
            (of("[('a', '<f4', (2,))]", "False", "(2,)"), "records"),
            (of("[('a', '<f4'), ('b', '<f4')]", "False", "(2,)"), "records"),
            (of("[]", "False", "(2,)"), "records"),
            (of("'|O'", "False", "(2,)"), "Python objects"),
            (of("'<U4'", "False", "(2,)"), "text"),
            (of("'<M8[ns]'", "False", "(2,)"), "dates"),
            (of("'|V99'", "False", "(2,)"), "not 1 to 31 bytes"),
            (of("'<f'", "False", "(2,)"), "not 1 to 31 bytes"),
            (of("''", "False", "(2,)"), "unknown"),
            (of("'<f4'", "False", "(-1,)"), "expected a value"),
            (of("'<f4'", "False", "('2',)"), "not a number"),
            (of("'<f4'", "False", "2"), "'shape' has the wrong type"),
            (of("'<f4'", "False", "(1152921504606846976, 64)"), "64 bits"),
            ("{'descr': '<f4', 'shape': (1,)}".into(), "'fortran_order' is missing"),
            ("{'descr': '<f4".into(), "closing quote"),
            ("[]".into(), "expected '{', found '[]'"),
            ("".into(), "expected '{', found ''"),
            (of("'<f4'", "False", "((((((((((1,),),),),),),),),),)"), "nested brackets"),
            (of("'<f4'", "False", "(1,)") + "x", "the end of the header"),
        ] {
            let error = read(1, &text).unwrap_err();
            assert!(error.message().contains(expected), "{text}: {error}");
        }
        assert!(read(4, "").unwrap_err().message().contains("version 4.0"));
        let long = [&MAGIC[..], &[2, 0], &u32::MAX.to_le_bytes()].concat();
        assert!(read_header(&mut &long[..]).unwrap_err().message().contains("4294967295 bytes"));
        assert!(read_header(&mut &b"not an array"[..]).unwrap_err().message().contains("not an .npy file"));
        let whole = with(1, &of("'<f4'", "False", "(1,)"));
        for length in 0..whole.len() {
            assert!(read_header(&mut &whole[..length]).is_err());
        }
    }

    #[test]
    fn written_headers_match_numpy() {
        for (text, dictionary) in [
            ("2x3xf32", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"),
            ("5xi1", "{'descr': '|b1', 'fortran_order': False, 'shape': (5,), }"),
            ("i64", "{'descr': '<i8', 'fortran_order': False, 'shape': (), }"),
            ("1xui8", "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }"),
            ("1xcf64", "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }"),
            ("1xbf16", "{'descr': 'bfloat16', 'fortran_order': False, 'shape': (1,), }"),
            ("1xf8E4M3FN", "{'descr': 'float8_e4m3fn', 'fortran_order': False, 'shape': (1,), }"),
        ] {
            let bytes = header(&TensorType::parse(text).unwrap()).unwrap();
            assert_eq!(bytes.len() % ALIGNMENT_BYTES, 0);
            assert_eq!(bytes[..8], *b"\x93NUMPY\x01\x00");
            assert_eq!(usize::from(u16::from_le_bytes([bytes[8], bytes[9]])), bytes.len() - 10);
            let written = std::str::from_utf8(&bytes[10..]).unwrap();
            assert_eq!(written.trim_end(), dictionary);
            assert!(written.ends_with('\n'));
        }
        for text in ["4xi4", "4xbf32"] {
            let error = header(&TensorType::parse(text).unwrap()).unwrap_err();
            assert!(error.message().contains("no type for") && error.advice().is_some());
        }
    }
}
