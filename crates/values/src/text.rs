//! Tensors as text: `2x2xf32=[1 2][3 4]`.

use rehal_base::{Context, Error, Result};

use crate::representation::Representation;
use crate::tensor_type::{MAX_RANK, TensorType};
use crate::{Contents, element, packed};

/// Parses a tensor: its type, and after `=` its elements. Without elements all are 0, a single element is
/// broadcast, otherwise there is one per element. Whitespace, commas and brackets are separators only.
///
/// Memory is bounded by the text, however large the tensor is.
pub fn parse_tensor(text: &str) -> Result<(TensorType, Contents)> {
    let (tensor_type, elements) = split_tensor(text)?;
    let contents = parse_elements(elements, &tensor_type)?;
    Ok((tensor_type, contents))
}

/// The type of a tensor and its element text.
pub(crate) fn split_tensor(text: &str) -> Result<(TensorType, &str)> {
    let text = trim(text);
    let text = text.strip_prefix('"').unwrap_or(text);
    let text = text.strip_suffix('"').unwrap_or(text);
    if text.is_empty() {
        return Err(Error::invalid_argument("empty tensor (expected type and elements, such as 2x3xf32=0)"));
    }
    let (tensor_type, elements) = text.split_once('=').unwrap_or((text, ""));
    Ok((TensorType::parse(trim(tensor_type))?, elements))
}

/// Parses the elements of a tensor; see [`parse_tensor`].
pub fn parse_elements(text: &str, tensor_type: &TensorType) -> Result<Contents> {
    let (count, size_bytes) = (tensor_type.element_count()?, tensor_type.size_bytes()?);
    if text.is_empty() {
        return Ok(Contents::Zeros);
    }
    let tokens = || text.split(is_separator).filter(|token| !token.is_empty());
    let kind = Representation::for_type(tensor_type.element_type);
    let place = || format!("elements of {tensor_type}");
    if packed::is_packed(kind) {
        return packed::parse(kind, &tokens().collect::<Vec<_>>(), count, size_bytes).context(place);
    }
    let given = tokens().count() as u64;
    if given != count && given != 1 || count == 0 && given != 0 {
        let error =
            Error::out_of_range(format!("expected {count} elements for {tensor_type}, found {given}"));
        return Err(error.advise("write one per element, or one to broadcast"));
    }
    let mut bytes = Vec::new();
    for token in tokens() {
        element::parse(kind, token, &mut bytes).context(place)?;
    }
    Ok(if given == count { Contents::Bytes(bytes) } else { Contents::Splat(bytes) })
}

/// The text of a tensor: its type and, after `=`, at most `max_elements` elements. Omitted elements are
/// printed as dots. Every dimension but the last encloses its parts in brackets.
pub fn format_tensor(tensor_type: &TensorType, bytes: &[u8], max_elements: u64) -> Result<String> {
    Ok(format!("{tensor_type}={}", format_elements(tensor_type, bytes, max_elements)?))
}

/// The number of leading bytes of a tensor that [`format_tensor`] reads.
pub fn shown_bytes(tensor_type: &TensorType, max_elements: u64) -> Result<u64> {
    let whole = tensor_type.size_bytes()?;
    let row = TensorType { shape: vec![max_elements], element_type: tensor_type.element_type };
    // A row whose size overflows is longer than the tensor.
    Ok(row.size_bytes().map_or(whole, |row| row.min(whole)))
}

/// [`format_tensor`] of a tensor stored in `held` bytes, of which `head` is a prefix of at least
/// [`shown_bytes`].
pub fn format_head(tensor_type: &TensorType, head: &[u8], held: u64, max_elements: u64) -> Result<String> {
    Ok(format!("{tensor_type}={}", format_elements_of(tensor_type, head, held, max_elements)?))
}

/// The elements of [`format_tensor`]. Fails if `bytes` is too short.
pub fn format_elements(tensor_type: &TensorType, bytes: &[u8], max_elements: u64) -> Result<String> {
    format_elements_of(tensor_type, bytes, bytes.len() as u64, max_elements)
}

fn format_elements_of(
    tensor_type: &TensorType,
    bytes: &[u8],
    held: u64,
    max_elements: u64,
) -> Result<String> {
    let needed = tensor_type.size_bytes()?;
    let shown = shown_bytes(tensor_type, max_elements)?;
    if held < needed || (bytes.len() as u64) < shown {
        return Err(Error::out_of_range(format!(
            "a tensor of type {tensor_type} needs {needed} bytes, found {held}"
        )));
    }
    let rank = tensor_type.shape.len();
    if rank > MAX_RANK {
        return Err(Error::resource_exhausted(format!("cannot print a tensor of {rank} dimensions")));
    }
    // Without elements, the bytes do not bound the number of brackets.
    let outer = &tensor_type.shape[..rank.saturating_sub(1)];
    let brackets = outer.iter().scan(1u64, |parts, size| {
        *parts = parts.saturating_mul(*size);
        Some(*parts)
    });
    if needed == 0 && brackets.fold(0, u64::saturating_add) > MAX_EMPTY_BRACKETS {
        return Err(Error::resource_exhausted(format!(
            "cannot print a tensor of type {tensor_type}: it consists of brackets only"
        )));
    }
    let kind = Representation::for_type(tensor_type.element_type);
    let element_bytes = tensor_type.element_type.whole_bytes().unwrap_or(0) as usize;
    let mut printer =
        Printer { kind, element_bytes, bytes, next: 0, left: max_elements, text: String::new() };
    match &tensor_type.shape[..] {
        [] => printer.row(1),
        shape => printer.dimensions(shape),
    }
    Ok(printer.text)
}

/// Limit on the brackets of a tensor without elements.
const MAX_EMPTY_BRACKETS: u64 = 1 << 16;

struct Printer<'a> {
    kind: Representation,
    /// Bytes per element; 0 if packed.
    element_bytes: usize,
    bytes: &'a [u8],
    /// The next element.
    next: u64,
    /// Elements left to print.
    left: u64,
    text: String,
}

impl Printer<'_> {
    fn dimensions(&mut self, shape: &[u64]) {
        match shape {
            [] => {}
            [length] => self.row(*length),
            [parts, inner @ ..] => {
                for _ in 0..*parts {
                    self.text.push('[');
                    self.dimensions(inner);
                    self.text.push(']');
                }
            }
        }
    }

    fn row(&mut self, length: u64) {
        let shown = length.min(self.left);
        self.left -= shown;
        for index in self.next..self.next + shown {
            if index > self.next {
                self.text.push(' ');
            }
            if self.element_bytes == 0 {
                packed::format(self.kind, self.bytes, index, &mut self.text);
            } else {
                let at = index as usize * self.element_bytes;
                element::format(self.kind, &self.bytes[at..at + self.element_bytes], &mut self.text);
            }
        }
        if shown < length {
            self.text.push_str("...");
        }
        self.next += length;
    }
}

/// Separators: C's `isspace`, commas, brackets.
fn is_separator(char: char) -> bool {
    matches!(char, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r' | ',' | '[' | ']')
}

/// Trims C's `isspace` from both ends.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Result<Vec<u8>> {
        let (tensor_type, contents) = parse_tensor(text)?;
        let mut bytes = vec![0; tensor_type.size_bytes()? as usize];
        contents.fill(&mut bytes);
        Ok(bytes)
    }

    fn printed(text: &str, max_elements: u64) -> String {
        let (tensor_type, _) = parse_tensor(text).unwrap();
        let bytes = bytes(text).unwrap();
        let printed = format_tensor(&tensor_type, &bytes, max_elements).unwrap();
        // Bytes that are not printed are not read.
        let head = &bytes[..shown_bytes(&tensor_type, max_elements).unwrap() as usize];
        let held = bytes.len() as u64;
        assert_eq!(format_head(&tensor_type, head, held, max_elements).unwrap(), printed);
        if let Some((_, less)) = head.split_last() {
            assert!(format_head(&tensor_type, less, held, max_elements).is_err());
            assert!(format_head(&tensor_type, head, held - 1, max_elements).is_err());
        }
        printed
    }

    #[test]
    fn text_round_trips() {
        for text in [
            "f32=4",
            "4xf32=1 -2 3.5 4",
            "2x2xf32=[1 2][3 4]",
            "2x1x2xi8=[[1 2]][[3 4]]",
            "4xi1=01 00 01 01",
            "5xi4=1 2 -3 7 -8",
            "0xf32=",
            "2x0xf32=[][]",
            "1xf8E4M3FN=0.5",
            "2xcf64=0000803F00000000 000000400000003F",
        ] {
            assert_eq!(printed(text, 1024), text);
        }
    }

    #[test]
    fn alternative_syntax_is_accepted() {
        for (text, same) in [
            ("2x2xi32=[[1 2][3 4]]", "2x2xi32=[1 2][3 4]"),
            ("2x2xi32=[[1, 2],\n [3, 4]]", "2x2xi32=[1 2][3 4]"),
            (" \"2xi32=1,2\" ", "2xi32=1 2"),
            ("3xf32", "3xf32=0 0 0"),
            ("3xf32=", "3xf32=0 0 0"),
            ("3xf32=7", "3xf32=7 7 7"),
            ("4xi1=true false 1 0", "4xi1=01 00 01 00"),
            ("4xi4=21 43", "4xi4=1 2 3 4"),
            ("4xi4=5", "4xi4=5 5 5 5"),
        ] {
            assert_eq!(printed(text, 1024), same);
        }
    }

    #[test]
    fn omitted_elements_are_printed_as_dots() {
        assert_eq!(printed("8xf32=3", 3), "8xf32=3 3 3...");
        assert_eq!(printed("3x2xi8=[1 2][3 4][5 6]", 3), "3x2xi8=[1 2][3...][...]");
        assert_eq!(printed("f32=3", 0), "f32=...");
        assert_eq!(printed("2xf32=3", 0), "2xf32=...");
    }

    #[test]
    fn element_count_mismatches_are_rejected() {
        for (text, expected) in [
            ("4xf32=1 2 3", "expected 4 elements for 4xf32, found 3"),
            ("4xf32=1 2 3 4 5", "found 5"),
            ("4xf32=[]", "found 0"),
            ("0xf32=1", "expected 0 elements for 0xf32, found 1"),
            ("f32=1 2", "expected 1 elements for f32, found 2"),
            ("1152921504606846976xi8=1 2", "expected 1152921504606846976 elements"),
            ("4xf32=1 2 x 4", "'x' is not a number"),
            ("", "empty tensor"),
            ("\"\"", "empty tensor"),
        ] {
            let error = parse_tensor(text).unwrap_err();
            assert!(error.message().contains(expected), "{text}: {error}");
        }
    }

    /// A shape allocates nothing until its bytes are requested.
    #[test]
    fn a_large_shape_allocates_nothing() {
        let (tensor_type, contents) = parse_tensor("1152921504606846976xi8=7").unwrap();
        assert_eq!(tensor_type.size_bytes().unwrap(), 1 << 60);
        assert_eq!(contents, Contents::Splat(vec![7]));
        let error = format_elements(&tensor_type, &[0; 16], 8).unwrap_err();
        assert!(error.message().contains("needs 1152921504606846976 bytes, found 16"));
        for text in ["1152921504606846976x0xi8", "1152921504606846976x0x5xi8", "99999x99999x0x1xi8"] {
            let (empty, _) = parse_tensor(text).unwrap();
            assert!(format_elements(&empty, &[], 8).unwrap_err().message().contains("brackets only"));
        }
    }
}
