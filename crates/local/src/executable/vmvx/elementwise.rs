//! Elementwise operations on 32-bit elements in two dimensions.

use rehal_base::{Error, Result};

use super::span::{Elements, ElementsMut, Operand, Scratch, with_elements};
use crate::platform::{self, VectorWork};

/// Operations with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    AbsF32,
    CeilF32,
    CountLeadingZerosI32,
    ExpF32,
    FloorF32,
    LogF32,
    NegF32,
    RsqrtF32,
}

/// Operations with two operands. Integers wrap; shift counts are modulo 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    AddF32,
    AddI32,
    AndI32,
    DivF32,
    DivSignedI32,
    DivUnsignedI32,
    MulF32,
    MulI32,
    OrI32,
    ShlI32,
    ShrSignedI32,
    ShrUnsignedI32,
    SubF32,
    SubI32,
    XorI32,
}

/// Computes `out[i][j] = op(input[i][j])` for all `sizes` elements.
pub(super) fn unary(
    op: Unary,
    input: Operand<'_>,
    out: Operand<'_>,
    sizes: [i64; 2],
    scratch: &mut Scratch,
) -> Result<()> {
    let (input, out) = (input.input(4, sizes)?, out.output(4, sizes)?);
    if out.is_empty() {
        return Ok(());
    }
    with_elements([input, out.nothing::<4>()], out, scratch, |[input, _], elements| {
        let mut map = Map::new([input, Elements::repeated(&[0; 4], out.sizes)], elements, out.sizes);
        match op {
            Unary::AbsF32 => map.f32(|value, _| value.abs()),
            // The addition flushes denormals in the current mode; the compiler's own function works on bits.
            Unary::CeilF32 => map.f32(|value, _| (value + 0.0).ceil().copysign(value)),
            Unary::CountLeadingZerosI32 => map.u32(|value, _| value.leading_zeros()),
            Unary::ExpF32 => map.f32(|value, _| value.exp()),
            Unary::FloorF32 => map.f32(|value, _| (value + 0.0).floor().copysign(value)),
            Unary::LogF32 => map.f32(|value, _| value.ln()),
            Unary::NegF32 => map.f32(|value, _| -value),
            Unary::RsqrtF32 => map.f32(|value, _| 1.0 / value.sqrt()),
        }
        Ok(())
    })
}

/// Computes `out[i][j] = op(lhs[i][j], rhs[i][j])` for all `sizes` elements. Fails, with an unspecified
/// output, if an integer division has a divisor of zero or a quotient that overflows.
pub(super) fn binary(
    op: Binary,
    lhs: Operand<'_>,
    rhs: Operand<'_>,
    out: Operand<'_>,
    sizes: [i64; 2],
    scratch: &mut Scratch,
) -> Result<()> {
    let (lhs, rhs, out) = (lhs.input(4, sizes)?, rhs.input(4, sizes)?, out.output(4, sizes)?);
    if out.is_empty() {
        return Ok(());
    }
    with_elements([lhs, rhs], out, scratch, |inputs, elements| {
        let mut map = Map::new(inputs, elements, out.sizes);
        let mut undefined = false;
        match op {
            Binary::AddF32 => map.f32(|l, r| l + r),
            Binary::AddI32 => map.u32(u32::wrapping_add),
            Binary::AndI32 => map.u32(|l, r| l & r),
            Binary::DivF32 => map.f32(|l, r| l / r),
            Binary::DivSignedI32 => map.u32(|l, r| match (l as i32).checked_div(r as i32) {
                Some(quotient) => quotient as u32,
                None => {
                    undefined = true;
                    0
                }
            }),
            Binary::DivUnsignedI32 => map.u32(|l, r| {
                undefined |= r == 0;
                l.checked_div(r).unwrap_or_default()
            }),
            Binary::MulF32 => map.f32(|l, r| l * r),
            Binary::MulI32 => map.u32(u32::wrapping_mul),
            Binary::OrI32 => map.u32(|l, r| l | r),
            Binary::ShlI32 => map.u32(u32::wrapping_shl),
            Binary::ShrSignedI32 => map.u32(|l, r| (l as i32).wrapping_shr(r) as u32),
            Binary::ShrUnsignedI32 => map.u32(u32::wrapping_shr),
            Binary::SubF32 => map.f32(|l, r| l - r),
            Binary::SubI32 => map.u32(u32::wrapping_sub),
            Binary::XorI32 => map.u32(|l, r| l ^ r),
        }
        if undefined {
            return Err(Error::invalid_argument("integer division by zero or quotient overflow"));
        }
        Ok(())
    })
}

/// The elements of a call: two inputs and the output, not empty.
struct Map<'a> {
    inputs: [Elements<'a, [u8; 4]>; 2],
    out: ElementsMut<'a, [u8; 4]>,
    sizes: [usize; 2],
}

impl<'a> Map<'a> {
    fn new(inputs: [Elements<'a, [u8; 4]>; 2], out: ElementsMut<'a, [u8; 4]>, sizes: [usize; 2]) -> Self {
        // Long inner loops over contiguous elements are vectorized best.
        let ([rows, columns], [outer, inner]) = (sizes, out.strides());
        if columns == 1 || (rows > 1 && outer == 1 && inner != 1) {
            let inputs = inputs.map(Elements::transposed);
            return Self { inputs, out: out.transposed(), sizes: [columns, rows] };
        }
        Self { inputs, out, sizes }
    }

    fn f32(&mut self, op: impl FnMut(f32, f32) -> f32) {
        let mut op = op;
        self.each(|l, r| op(f32::from_ne_bytes(l), f32::from_ne_bytes(r)).to_ne_bytes());
    }

    fn u32(&mut self, op: impl FnMut(u32, u32) -> u32) {
        let mut op = op;
        self.each(|l, r| op(u32::from_ne_bytes(l), u32::from_ne_bytes(r)).to_ne_bytes());
    }

    fn each(&mut self, op: impl FnMut([u8; 4], [u8; 4]) -> [u8; 4]) {
        platform::with_vectors(Each { map: self, op });
    }
}

struct Each<'a, 'b, F> {
    map: &'b mut Map<'a>,
    op: F,
}

impl<F: FnMut([u8; 4], [u8; 4]) -> [u8; 4]> VectorWork for Each<'_, '_, F> {
    type Output = ();

    #[inline(always)]
    fn run(self, _fuses: bool) {
        let Self { map: Map { inputs: [lhs, rhs], out, sizes }, mut op } = self;
        let [rows, columns] = *sizes;
        let steps = [lhs.strides()[1], rhs.strides()[1], out.strides()[1]];
        for row in (0..rows).map(|row| [row, 0]) {
            match steps {
                [1, 1, 1] => {
                    let pairs = lhs.line(row, columns).iter().zip(rhs.line(row, columns));
                    out.line(row, columns).iter_mut().zip(pairs).for_each(|(out, (l, r))| *out = op(*l, *r));
                }
                [1, 0, 1] => {
                    let (left, right) = (lhs.line(row, columns), rhs.get(row));
                    out.line(row, columns).iter_mut().zip(left).for_each(|(out, l)| *out = op(*l, right));
                }
                [0, 1, 1] => {
                    let (left, right) = (lhs.get(row), rhs.line(row, columns));
                    out.line(row, columns).iter_mut().zip(right).for_each(|(out, r)| *out = op(left, *r));
                }
                _ => {
                    for at in (0..columns).map(|column| [row[0], column]) {
                        out.set(at, op(lhs.get(at), rhs.get(at)));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::{Memory, Random};
    use super::*;

    /// The definition of an operation, computed in 64 bits if possible.
    fn expected_unary(op: Unary, bits: u32) -> u32 {
        let wide = f64::from(f32::from_bits(bits));
        let rounded = match op {
            Unary::CountLeadingZerosI32 => {
                return (0..32).find(|bit| bits >> (31 - bit) & 1 == 1).unwrap_or(32);
            }
            Unary::NegF32 => return bits ^ 0x8000_0000,
            Unary::AbsF32 => return bits & 0x7FFF_FFFF,
            Unary::CeilF32 => wide.ceil(),
            Unary::FloorF32 => wide.floor(),
            Unary::ExpF32 => wide.exp(),
            Unary::LogF32 => wide.ln(),
            Unary::RsqrtF32 => 1.0 / wide.sqrt(),
        };
        (rounded as f32).to_bits()
    }

    /// `None` if the result is undefined.
    fn expected_binary(op: Binary, l: u32, r: u32) -> Option<u32> {
        let (lf, rf) = (f64::from(f32::from_bits(l)), f64::from(f32::from_bits(r)));
        let (ls, rs) = (i64::from(l as i32), i64::from(r as i32));
        Some(match op {
            // Rounding to 53 and then to 24 bits gives the correctly rounded f32 result of these.
            Binary::AddF32 => ((lf + rf) as f32).to_bits(),
            Binary::SubF32 => ((lf - rf) as f32).to_bits(),
            Binary::MulF32 => ((lf * rf) as f32).to_bits(),
            Binary::DivF32 => ((lf / rf) as f32).to_bits(),
            Binary::AddI32 => (ls + rs) as u32,
            Binary::SubI32 => (ls - rs) as u32,
            Binary::MulI32 => (ls * rs) as u32,
            Binary::AndI32 => l & r,
            Binary::OrI32 => l | r,
            Binary::XorI32 => (l | r) & !(l & r),
            Binary::ShlI32 => (u64::from(l) * (1 << (r % 32))) as u32,
            Binary::ShrUnsignedI32 => (u64::from(l) / (1 << (r % 32))) as u32,
            Binary::ShrSignedI32 => (ls.div_euclid(1 << (r % 32))) as u32,
            Binary::DivSignedI32 => i32::try_from(ls.checked_div(rs)?).ok()? as u32,
            Binary::DivUnsignedI32 => (u64::from(l).checked_div(u64::from(r)))? as u32,
        })
    }

    const UNARY: [Unary; 8] = [
        Unary::AbsF32,
        Unary::CeilF32,
        Unary::CountLeadingZerosI32,
        Unary::ExpF32,
        Unary::FloorF32,
        Unary::LogF32,
        Unary::NegF32,
        Unary::RsqrtF32,
    ];

    const BINARY: [Binary; 15] = [
        Binary::AddF32,
        Binary::AddI32,
        Binary::AndI32,
        Binary::DivF32,
        Binary::DivSignedI32,
        Binary::DivUnsignedI32,
        Binary::MulF32,
        Binary::MulI32,
        Binary::OrI32,
        Binary::ShlI32,
        Binary::ShrSignedI32,
        Binary::ShrUnsignedI32,
        Binary::SubF32,
        Binary::SubI32,
        Binary::XorI32,
    ];

    /// Whether the two are equal, within 1 ulp for functions that are not correctly rounded.
    fn same(op: Unary, found: u32, expected: u32) -> bool {
        let exact = !matches!(op, Unary::ExpF32 | Unary::LogF32 | Unary::RsqrtF32);
        let nan = f32::from_bits(found).is_nan() && f32::from_bits(expected).is_nan();
        found == expected || (nan && op != Unary::NegF32) || (!exact && found.abs_diff(expected) <= 1)
    }

    #[test]
    fn unary_operations_match_their_definition_for_any_shape() {
        let mut random = Random::new(1);
        let mut scratch = Scratch::default();
        for op in UNARY {
            for _ in 0..60 {
                let sizes = random.sizes();
                let memory = [random.memory(4, sizes, true), random.memory(4, sizes, false)];
                let before = memory[1].elements();
                unary(op, memory[0].operand("in"), memory[1].operand("out"), sizes, &mut scratch).unwrap();
                let mut written = before.clone();
                memory[0].for_each(sizes, |at, index| {
                    let out = memory[1].index(at);
                    let (found, expected) = (memory[1].u32(out), expected_unary(op, memory[0].u32(index)));
                    assert!(same(op, found, expected), "{op:?}: {found:#x}, not {expected:#x}");
                    written[out] = found;
                });
                assert_eq!(memory[1].elements(), written, "nothing else is written");
            }
        }
    }

    #[test]
    fn binary_operations_match_their_definition_for_any_shape() {
        let mut random = Random::new(2);
        let mut scratch = Scratch::default();
        for op in BINARY {
            for _ in 0..60 {
                let sizes = random.sizes();
                let memory = [
                    random.memory(4, sizes, true),
                    random.memory(4, sizes, true),
                    random.memory(4, sizes, false),
                ];
                let operands = [memory[0].operand("lhs"), memory[1].operand("rhs"), memory[2].operand("out")];
                let done = binary(op, operands[0], operands[1], operands[2], sizes, &mut scratch);
                let mut all = true;
                memory[0].for_each(sizes, |at, l| {
                    let (r, out) = (memory[1].index(at), memory[2].index(at));
                    let (l, r) = (memory[0].u32(l), memory[1].u32(r));
                    let Some(expected) = expected_binary(op, l, r) else {
                        all = false;
                        return;
                    };
                    let found = memory[2].u32(out);
                    let nan = f32::from_bits(found).is_nan() && f32::from_bits(expected).is_nan();
                    assert!(done.is_err() || found == expected || nan, "{op:?} {l:#x} {r:#x}: {found:#x}");
                });
                assert_eq!(done.is_ok(), all, "{op:?}");
            }
        }
    }

    #[test]
    fn an_output_may_overlap_an_input() {
        let memory = Memory::of_u32(&[1, 2, 3, 4, 5, 6], [3, 1], 0);
        let shifted = Memory { offset: 1, ..memory.clone() };
        let mut scratch = Scratch::default();
        binary(
            Binary::AddI32,
            memory.operand("lhs"),
            shifted.operand("rhs"),
            memory.operand("out"),
            [1, 5],
            &mut scratch,
        )
        .unwrap();
        assert_eq!(memory.elements(), [3, 5, 7, 9, 11, 6]);
        // All elements are read before any is written.
        let (input, out) = (memory.operand("in"), shifted.operand("out"));
        unary(Unary::CountLeadingZerosI32, input, out, [1, 5], &mut scratch).unwrap();
        assert_eq!(memory.elements(), [3, 30, 29, 29, 28, 28]);
    }

    #[test]
    fn undefined_integer_divisions_are_errors() {
        let mut scratch = Scratch::default();
        for (op, l, r) in [
            (Binary::DivSignedI32, 1, 0),
            (Binary::DivSignedI32, i32::MIN as u32, u32::MAX),
            (Binary::DivUnsignedI32, 7, 0),
        ] {
            let memory = Memory::of_u32(&[l, r, 0], [1, 1], 0);
            let at = |offset| Memory { offset, ..memory.clone() };
            let (lhs, rhs, out) = (at(0), at(1), at(2));
            let operands = [lhs.operand("lhs"), rhs.operand("rhs"), out.operand("out")];
            let error = binary(op, operands[0], operands[1], operands[2], [1, 1], &mut scratch).unwrap_err();
            assert!(error.to_string().contains("division by zero"), "{error}");
        }
    }
}
