//! Calling conventions as text.

use std::io::Write;

use super::Error;

/// The arguments and results of a calling convention; `v` becomes empty.
pub(super) fn halves(convention: &str) -> Result<(&str, &str), Error> {
    if convention.is_empty() {
        return Ok(("", ""));
    }
    let Some(body) = convention.strip_prefix('0') else {
        return Err(unknown(convention, "has an unknown version"));
    };
    let (arguments, results) = body.split_once('_').unwrap_or((body, ""));
    let nothing = |half| if half == "v" { "" } else { half };
    Ok((nothing(arguments), nothing(results)))
}

/// `(i32, tuple<i64>...) -> (!vm.ref<?>)`.
pub(super) fn write_types(out: &mut impl Write, convention: &str) -> Result<(), Error> {
    let (arguments, results) = halves(convention)?;
    write!(out, "(")?;
    write_half(out, arguments, convention)?;
    write!(out, ") -> (")?;
    write_half(out, results, convention)?;
    Ok(write!(out, ")")?)
}

fn write_half(out: &mut impl Write, half: &str, convention: &str) -> Result<(), Error> {
    let mut rest = half.chars();
    let mut separator = "";
    while let Some(kind) = rest.next() {
        write!(out, "{separator}")?;
        separator = ", ";
        if kind != 'C' {
            write!(out, "{}", type_name(kind, convention)?)?;
            continue;
        }
        let Some((span, behind)) = rest.as_str().split_once('D') else {
            return Err(unknown(convention, "has an unterminated span"));
        };
        if span.contains('C') {
            return Err(unknown(convention, "has a nested span"));
        }
        write!(out, "tuple<")?;
        write_half(out, span, convention)?;
        write!(out, ">...")?;
        rest = behind.chars();
    }
    Ok(())
}

/// The type for a letter of a calling convention; `None` for `v`.
pub(super) fn type_name(kind: char, convention: &str) -> Result<&'static str, Error> {
    Ok(match kind {
        'v' => "",
        'i' => "i32",
        'f' => "f32",
        'I' => "i64",
        'F' => "f64",
        'r' => "!vm.ref<?>",
        _ => return Err(unknown(convention, &format!("has the unknown type '{kind}'"))),
    })
}

fn unknown(convention: &str, what: &str) -> Error {
    Error::Module(rehal_base::Error::unimplemented(format!("calling convention '{convention}' {what}")))
}
