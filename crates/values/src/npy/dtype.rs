use rehal_base::{ElementType, Error, Numerical, Result};

/// The element type for a `descr` such as `<f4` or `|b1`, in the notation of NumPy's array interface
/// (<https://numpy.org/doc/stable/reference/arrays.interface.html>).
pub(super) fn parse(descr: &str) -> Result<ElementType> {
    let unsupported =
        |what: &str| Err(Error::unimplemented(format!("arrays of type '{descr}' are not supported: {what}")));
    let kind_and_width = match descr.as_bytes() {
        [b'>', _, b'1'] | [b'|' | b'<' | b'=', ..] => &descr[1..],
        [b'>', ..] => return unsupported("big-endian numbers"),
        _ => descr,
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
    match width.parse::<u8>() {
        Ok(bytes @ 1..=31) if width.bytes().all(|byte| byte.is_ascii_digit()) => match (numerical, bytes) {
            (Numerical::BOOLEAN, 2..) => unsupported("booleans wider than a byte"),
            _ => Ok(ElementType::of(numerical, bytes * 8)),
        },
        _ => unsupported("element size is not 1 to 31 bytes"),
    }
}

/// The `descr` of a type. Fails for types that NumPy lacks.
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
        _ => Err(Error::unimplemented(format!(".npy files have no type for {element_type}"))
            .advise("write the raw bytes, to a file without the extension .npy")),
    }
}
