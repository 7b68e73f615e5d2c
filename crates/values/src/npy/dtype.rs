use rehal_base::{ElementType, Error, Numerical, Result};

use super::literal::Literal;

/// The type of the elements, and how their bytes are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dtype {
    pub element_type: ElementType,
    /// The bytes of a number if they are in big-endian order: an element is one such number, or two if it is
    /// complex. 1 if they are in the order of memory.
    pub swapped_bytes: usize,
}

/// The type for a `descr`: text, or a list with one field, whose elements are laid out as its type.
pub(super) fn parse(descr: &Literal<'_>) -> Result<Option<Dtype>> {
    let fields = match descr {
        Literal::Text(descr) => return parse_text(descr).map(Some),
        Literal::Sequence(fields) => &fields[..],
        _ => return Ok(None),
    };
    let [Literal::Sequence(field)] = fields else {
        return Err(Error::unimplemented("arrays of records are not supported")
            .advise("save each field as an array of its own"));
    };
    match &field[..] {
        [Literal::Text(name), Literal::Text(descr)] => {
            let dtype = parse_text(descr)?;
            // Some programs name the type of a field of opaque bytes: [('bfloat16', '<V2')].
            let named = ElementType::from_numpy_name(name).filter(|named| {
                dtype.element_type.numerical() == Numerical::OPAQUE
                    && named.bits() == dtype.element_type.bits()
            });
            Ok(Some(named.map_or(dtype, |element_type| Dtype { element_type, ..dtype })))
        }
        _ => Err(Error::unimplemented("arrays of records are not supported")
            .advise("save the field as an array of its own")),
    }
}

/// The type for a `descr` such as `<f4` or `|b1`, in the notation of NumPy's array interface
/// (<https://numpy.org/doc/stable/reference/arrays.interface.html>), or for a name such as `float32` or
/// `bfloat16`.
///
/// `<V2` is bf16 and `<f1` is f8E5M2: NumPy writes these for arrays of ml_dtypes, and `|V2` for opaque bytes.
fn parse_text(descr: &str) -> Result<Dtype> {
    let unsupported =
        |what: &str| Err(Error::unimplemented(format!("arrays of type '{descr}' are not supported: {what}")));
    let in_order = |element_type| Ok(Dtype { element_type, swapped_bytes: 1 });
    if let Some(element_type) = ElementType::from_numpy_name(descr) {
        return in_order(element_type);
    }
    match descr {
        "<V2" => return in_order(ElementType::from_parts(Numerical::FLOAT_BRAIN, 16)),
        "<f1" => return in_order(ElementType::from_parts(Numerical::FLOAT_8_E5M2, 8)),
        "int2" | "uint2" | "int4" | "uint4" => {
            return unsupported("a tensor packs elements of less than a byte, and an array does not");
        }
        _ => {}
    }
    let (is_big_endian, kind_and_width) = match descr.as_bytes() {
        [b'|' | b'<' | b'=', ..] => (false, &descr[1..]),
        [b'>', ..] => (true, &descr[1..]),
        _ => (false, descr),
    };
    let numerical = match kind_and_width.as_bytes().first() {
        Some(b'b') => Numerical::BOOLEAN,
        Some(b'i') => Numerical::SIGNED,
        Some(b'u') => Numerical::UNSIGNED,
        Some(b'f') => Numerical::FLOAT_IEEE,
        Some(b'c') => Numerical::FLOAT_COMPLEX,
        Some(b'V') => Numerical::OPAQUE,
        Some(b'O') => return unsupported("Python objects"),
        Some(b'U' | b'S' | b'a') => return unsupported("text"),
        Some(b'm' | b'M') => return unsupported("dates and times"),
        _ => return unsupported("unknown"),
    };
    let width = &kind_and_width[1..];
    let bytes = match width.parse::<u8>() {
        Ok(bytes @ 1..=31) if width.bytes().all(|byte| byte.is_ascii_digit()) => bytes,
        _ => return unsupported("element size is not 1 to 31 bytes"),
    };
    let swapped_bytes = match (is_big_endian, numerical) {
        (_, Numerical::BOOLEAN) if bytes > 1 => return unsupported("booleans wider than a byte"),
        (true, Numerical::FLOAT_COMPLEX) if bytes % 2 != 0 => return unsupported("unknown"),
        (true, Numerical::FLOAT_COMPLEX) => usize::from(bytes / 2),
        (false, _) | (_, Numerical::OPAQUE) => 1,
        (true, _) => usize::from(bytes),
    };
    Ok(Dtype { element_type: ElementType::from_parts(numerical, bytes * 8), swapped_bytes })
}

/// The `descr` of a type. Fails for types that neither NumPy nor ml_dtypes have.
pub(super) fn name(element_type: ElementType) -> Result<String> {
    let kind = match element_type.numerical() {
        Numerical::OPAQUE => Some('V'),
        Numerical::BOOLEAN => Some('b'),
        Numerical::INTEGER | Numerical::SIGNED => Some('i'),
        Numerical::UNSIGNED => Some('u'),
        Numerical::FLOAT_IEEE => Some('f'),
        Numerical::FLOAT_COMPLEX => Some('c'),
        _ => None,
    };
    match (kind, element_type.whole_bytes()) {
        (Some(kind), Some(1)) => Ok(format!("|{kind}1")),
        (Some(kind), Some(bytes)) => Ok(format!("<{kind}{bytes}")),
        // What NumPy writes for arrays of ml_dtypes, such as <V1, does not say which type it is. It reads
        // their names.
        (None, Some(_)) if element_type.numpy_name().is_some() => {
            Ok(element_type.numpy_name().unwrap_or_default().into())
        }
        _ => Err(Error::unimplemented(format!(".npy files have no type for {element_type}"))
            .advise("write the raw bytes, to a file without the extension .npy")),
    }
}
