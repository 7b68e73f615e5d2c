//! The expectations, evaluated on raw bytes. Messages start with the reference's text, which scripts match;
//! the differing elements follow.

use std::fmt::Write;

use rehal_base::printf::scientific;
use rehal_base::{Error, Numerical, Result, plural};
use rehal_values::{Floats, TensorType, format_tensor, general_lower, is_close};

/// A tensor on the host.
#[derive(Clone, Copy)]
pub(super) struct Tensor<'a> {
    pub tensor_type: &'a TensorType,
    /// The elements, of the size that the type requires.
    pub bytes: &'a [u8],
}

/// Tolerance for floats: `absolute + relative * |rhs|`.
#[derive(Clone, Copy)]
pub(super) struct Tolerance {
    pub absolute: f32,
    pub relative: f32,
}

/// Maximum number of elements of a tensor that a message prints.
const SHOWN_ELEMENTS: u64 = 1024;

/// Maximum number of differing elements that a message lists.
const LISTED: usize = 8;

/// Expects a nonzero number; returns the failure message, if any.
pub(super) fn is_true(operand: i32) -> Option<String> {
    (operand == 0).then(|| format!("Expected {operand} to be nonzero."))
}

/// Expects 0; returns the failure message, if any.
pub(super) fn is_false(operand: i32) -> Option<String> {
    (operand != 0).then(|| format!("Expected {operand} to be zero."))
}

/// Expects that all elements are nonzero; returns the failure message, if any.
pub(super) fn all_true(tensor: Tensor<'_>) -> Result<Option<String>> {
    let element_type = tensor.tensor_type.element_type;
    let numerical = element_type.numerical();
    let Some(size) = element_type.whole_bytes().filter(|_| numerical != Numerical::OPAQUE) else {
        return Err(unsupported(tensor));
    };
    let floats = Floats::for_type(element_type);
    let is_zero = |index: &usize| match floats {
        // Negative zero counts as zero.
        Some(floats) => floats.at(tensor.bytes, *index) == Some(0.0),
        None => tensor.bytes[*index * size as usize..][..size as usize].iter().all(|byte| *byte == 0),
    };
    let zeros: Vec<usize> = (0..tensor.bytes.len() / size as usize).filter(is_zero).collect();
    if zeros.is_empty() {
        return Ok(None);
    }
    let mut text = String::from("Expected all elements to be nonzero.");
    let (found, all) = (zeros.len(), plural(count(tensor) as u64, "element"));
    let _ = write!(text, "\n  0 at {found} of {all}: {}", list_indices(tensor.tensor_type, &zeros));
    show(&mut text, "operand", tensor)?;
    Ok(Some(text))
}

/// Expects bitwise equal tensors; returns the failure message, if any.
pub(super) fn equal(lhs: Tensor<'_>, rhs: Tensor<'_>) -> Result<Option<String>> {
    if lhs.tensor_type == rhs.tensor_type && lhs.bytes == rhs.bytes {
        return Ok(None);
    }
    let mut text = String::from("Expected equality of these values.");
    let comparable = types(&mut text, lhs, rhs);
    if lhs.bytes != rhs.bytes {
        text.push_str(" Contents does not match.");
    }
    if comparable {
        let differs = |index: usize| element(lhs, index) != element(rhs, index);
        list_differences(&mut text, lhs, rhs, differs)?;
    }
    show(&mut text, "lhs", lhs)?;
    show(&mut text, "rhs", rhs)?;
    Ok(Some(text))
}

/// Expects float tensors to be equal within `tolerance`; returns the failure message, if any.
pub(super) fn almost_equal(lhs: Tensor<'_>, rhs: Tensor<'_>, tolerance: Tolerance) -> Result<Option<String>> {
    let Tolerance { absolute, relative } = tolerance;
    let mut text = String::from("Expected near equality of these values.");
    if types(&mut text, lhs, rhs) {
        let floats = Floats::for_type(lhs.tensor_type.element_type).ok_or_else(|| unsupported(lhs))?;
        let values = |index: usize| Some((floats.at(lhs.bytes, index)?, floats.at(rhs.bytes, index)?));
        let differs = |index: usize| {
            values(index).is_some_and(|(l, r)| !is_close(l, r, absolute.into(), relative.into()))
        };
        let Some(first) = (0..count(lhs)).find(|index| differs(*index)) else { return Ok(None) };
        let (l, r) = values(first).unwrap_or_default();
        let _ = write!(
            text,
            " Contents does not match to tolerance parameters atol={}, rtol={}. The first failure occurs at \
             index {first} as the lhs value {} differs from the rhs value {} by {}.",
            general_lower(absolute.into()),
            general_lower(relative.into()),
            general_lower(l),
            general_lower(r),
            scientific(r - l, 3)
        );
        list_differences(&mut text, lhs, rhs, differs)?;
    }
    show(&mut text, "lhs", lhs)?;
    show(&mut text, "rhs", rhs)?;
    Ok(Some(text))
}

/// Reports mismatches of element type and shape; returns whether both match.
fn types(text: &mut String, lhs: Tensor<'_>, rhs: Tensor<'_>) -> bool {
    let same_elements = lhs.tensor_type.element_type == rhs.tensor_type.element_type;
    let same_shape = lhs.tensor_type.shape == rhs.tensor_type.shape;
    if !same_elements {
        text.push_str(" Element types do not match.");
    }
    if !same_shape {
        text.push_str(" Shapes do not match.");
    }
    same_elements && same_shape
}

/// Lists the first elements that differ: index and both values.
fn list_differences(
    text: &mut String,
    lhs: Tensor<'_>,
    rhs: Tensor<'_>,
    differs: impl Fn(usize) -> bool,
) -> Result<()> {
    let total = count(lhs);
    let (mut differing, mut listed) = (0, String::new());
    for index in (0..total).filter(|index| differs(*index)) {
        differing += 1;
        if differing <= LISTED {
            let indices = unravel(lhs.tensor_type, index);
            let (l, r) = told_apart(lhs, rhs, index)?;
            let _ = write!(listed, "\n    {indices} lhs {l} rhs {r}");
        }
    }
    if differing > LISTED {
        listed.push_str("\n    ...");
    }
    if differing > 0 {
        let _ = write!(text, "\n  {differing} of {} differ:{listed}", plural(total as u64, "element"));
    }
    Ok(())
}

/// The bits of an element; packed elements start from the low bits.
fn element(tensor: Tensor<'_>, index: usize) -> u128 {
    let bits = tensor.tensor_type.element_type.bits() as usize;
    let (from, to) = (index * bits, (index + 1) * bits);
    let bytes = tensor.bytes.get(from / 8..to.div_ceil(8).min(tensor.bytes.len())).unwrap_or_default();
    let mut word = [0; 16];
    let length = bytes.len().min(word.len());
    word[..length].copy_from_slice(&bytes[..length]);
    let shifted = u128::from_le_bytes(word) >> (from % 8);
    if bits < 128 { shifted & ((1 << bits) - 1) } else { shifted }
}

/// The text of one element.
fn one(tensor: Tensor<'_>, index: usize) -> Result<String> {
    let element_type = tensor.tensor_type.element_type;
    let scalar = TensorType { shape: Vec::new(), element_type };
    let size = scalar.size_bytes()? as usize;
    let word = element(tensor, index).to_le_bytes();
    let bytes = match element_type.whole_bytes() {
        // Elements may be wider than any integer.
        Some(_) => &tensor.bytes[index * size..][..size],
        None => &word[..size.min(word.len())],
    };
    rehal_values::format_elements(&scalar, bytes, 1)
}

/// Both elements as text, with their bits if the printed digits are equal.
fn told_apart(lhs: Tensor<'_>, rhs: Tensor<'_>, index: usize) -> Result<(String, String)> {
    let (l, r) = (one(lhs, index)?, one(rhs, index)?);
    if l != r {
        return Ok((l, r));
    }
    let digits = lhs.tensor_type.element_type.bits().div_ceil(4) as usize;
    let with_bits = |text, tensor| format!("{text} (0x{:0digits$X})", element(tensor, index));
    Ok((with_bits(l, lhs), with_bits(r, rhs)))
}

/// Number of elements; 0 if it overflows.
fn count(tensor: Tensor<'_>) -> usize {
    tensor.tensor_type.element_count().map_or(0, |count| count as usize)
}

/// The multi-dimensional index of an element.
fn unravel(tensor_type: &TensorType, mut index: usize) -> String {
    let mut indices = vec![0; tensor_type.shape.len()];
    for (along_axis, size) in indices.iter_mut().zip(&tensor_type.shape).rev() {
        let size = (*size as usize).max(1);
        *along_axis = index % size;
        index /= size;
    }
    format!("{indices:?}")
}

fn list_indices(tensor_type: &TensorType, indices: &[usize]) -> String {
    let listed: Vec<_> = indices.iter().take(LISTED).map(|index| unravel(tensor_type, *index)).collect();
    listed.join(", ") + if indices.len() > LISTED { ", ..." } else { "" }
}

/// Appends a tensor with its name, like the reference.
fn show(text: &mut String, name: &str, tensor: Tensor<'_>) -> Result<()> {
    let shown = format_tensor(tensor.tensor_type, tensor.bytes, SHOWN_ELEMENTS)?;
    let _ = write!(text, "\n  {name}:\n    {shown}");
    Ok(())
}

fn unsupported(tensor: Tensor<'_>) -> Error {
    Error::invalid_argument(format!("unsupported element type {}", tensor.tensor_type.element_type))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rehal_values::parse_tensor;

    fn with<R>(text: &str, look: impl FnOnce(Tensor<'_>) -> R) -> R {
        let (tensor_type, contents) = parse_tensor(text).unwrap();
        let bytes = contents.to_bytes(tensor_type.size_bytes().unwrap());
        look(Tensor { tensor_type: &tensor_type, bytes: &bytes })
    }

    fn eq(lhs: &str, rhs: &str) -> Option<String> {
        with(lhs, |lhs| with(rhs, |rhs| equal(lhs, rhs).unwrap()))
    }

    fn close(lhs: &str, rhs: &str, absolute: f32, relative: f32) -> Result<Option<String>> {
        with(lhs, |lhs| with(rhs, |rhs| almost_equal(lhs, rhs, Tolerance { absolute, relative })))
    }

    #[test]
    fn equality_is_bitwise() {
        for text in ["4xi32=1 2 3 4", "f32=nan", "0xf32=", "3xi4=1 2 3", "5xi1=1 0 1 0 1"] {
            assert_eq!(eq(text, text), None, "{text}");
        }
        assert!(eq("f32=0", "f32=-0").is_some());
    }

    #[test]
    fn differences_are_listed_with_indices_and_values() {
        assert_eq!(
            eq("2x3xi32=1 2 3 4 50 6", "2x3xi32=1 2 3 4 5 6").unwrap(),
            "Expected equality of these values. Contents does not match.\n  \
             1 of 6 elements differ:\n    [1, 1] lhs 50 rhs 5\n  \
             lhs:\n    2x3xi32=[1 2 3][4 50 6]\n  rhs:\n    2x3xi32=[1 2 3][4 5 6]"
        );
        let packed = eq("4xi4=1 2 -3 4", "4xi4=1 2 3 4").unwrap();
        assert!(packed.contains("\n    [2] lhs -3 rhs 3\n"), "{packed}");
        let near = eq("2xf32=1 1.25", "2xf32=1 1.2500001").unwrap();
        assert!(near.contains("\n    [1] lhs 1.25 (0x3FA00000) rhs 1.25 (0x3FA00001)\n"), "{near}");
        let types = eq("2xi32=1", "2x1xf32=1").unwrap();
        assert!(types.starts_with(
            "Expected equality of these values. Element types do not match. Shapes do not match. Contents"
        ));
        let many = eq("100xi8=1", "100xi8=2").unwrap();
        assert!(many.contains("100 of 100 elements differ:") && many.contains("    ...\n  lhs:"), "{many}");
    }

    #[test]
    fn almost_equal_matches_the_reference() {
        for (lhs, rhs, absolute, relative, expected) in [
            (
                "5xf32=1 2 3 4 5",
                "5xf32=0.999 2 3 4 5",
                0.0001,
                0.0,
                "Contents does not match to tolerance parameters atol=0.0001, rtol=0. The first failure occurs \
                 at index 0 as the lhs value 1 differs from the rhs value 0.999 by -1.000e-03.",
            ),
            (
                "2xf16=0 100",
                "2xf16=0.011 99",
                0.01,
                0.01,
                "atol=0.01, rtol=0.01. The first failure occurs at index 0 as the lhs value 0 differs from the \
                 rhs value 0.0110016 by 1.100e-02.",
            ),
            (
                "2xbf16=0 100",
                "2xbf16=0.009 98",
                0.01,
                0.01,
                "index 1 as the lhs value 100 differs from the rhs value 98 by -2.000e+00.",
            ),
            (
                "2xf8E5M2=0 100",
                "2xf8E5M2=0.25 75",
                0.1,
                0.1,
                "index 0 as the lhs value 0 differs from the rhs value 0.25 by 2.500e-01.",
            ),
            ("f64=1", "f64=nan", 1.0, 0.0, "the rhs value nan by nan."),
        ] {
            let text = close(lhs, rhs, absolute, relative).unwrap().unwrap();
            assert!(text.starts_with("Expected near equality of these values. Contents"), "{text}");
            assert!(text.contains(expected), "{text}");
        }
        for (lhs, rhs) in [("f32=nan", "f32=nan"), ("f32=inf", "f32=inf"), ("2xf32=1 2", "2xf32=1.00005 2")] {
            assert_eq!(close(lhs, rhs, 0.0001, 0.0).unwrap(), None);
        }
        assert!(
            close("i32=1", "i32=1", 0.1, 0.0).unwrap_err().message().contains("unsupported element type i32")
        );
        assert!(close("2xf32=1", "3xf32=1", 0.1, 0.0).unwrap().unwrap().contains("Shapes do not match."));
    }

    #[test]
    fn all_true_lists_zero_elements() {
        assert_eq!(with("4xi16=1 -1 256 7", |it| all_true(it).unwrap()), None);
        let text = with("2x2xi16=1 0 256 0", |it| all_true(it).unwrap()).unwrap();
        assert!(text.contains("0 at 2 of 4 elements: [0, 1], [1, 1]\n"), "{text}");
        let text = with("2xf32=1 -0", |it| all_true(it).unwrap()).unwrap();
        assert!(text.contains("0 at 1 of 2 elements: [1]\n"), "{text}");
        assert!(with("4xi4=1", |it| all_true(it).is_err()));
        assert!(
            is_true(0).is_some() && is_true(-1).is_none() && is_false(3).is_some() && is_false(0).is_none()
        );
    }
}
