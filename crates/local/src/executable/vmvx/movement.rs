//! Copies and fills in two dimensions.

use rehal_base::{Error, Result};

use super::span::{Operand, Scratch, with_bytes};

/// Copies `sizes` elements of `element_bytes` (1, 2, 4 or 8): `out[i][j] = input[i][j]`.
pub(super) fn copy(
    element_bytes: usize,
    input: Operand<'_>,
    out: Operand<'_>,
    sizes: [i64; 2],
    scratch: &mut Scratch,
) -> Result<()> {
    let (input, out) = (input.input(element_bytes, sizes)?, out.output(element_bytes, sizes)?);
    if out.is_empty() {
        return Ok(());
    }
    let strides = [input.strides, out.strides];
    with_bytes([input.region, out.region.empty()], out.region, scratch, |[input, _], out_bytes| {
        match element_bytes {
            1 => copy_elements::<1>(input, out_bytes, strides, out.sizes),
            2 => copy_elements::<2>(input, out_bytes, strides, out.sizes),
            4 => copy_elements::<4>(input, out_bytes, strides, out.sizes),
            8 => copy_elements::<8>(input, out_bytes, strides, out.sizes),
            _ => {
                return Err(Error::invalid_argument(format!(
                    "unsupported element size in a copy: {element_bytes} bytes"
                )));
            }
        }
        Ok(())
    })
}

/// Sets `sizes` 4-byte elements to `value`.
pub(super) fn fill(value: [u8; 4], out: Operand<'_>, sizes: [i64; 2], scratch: &mut Scratch) -> Result<()> {
    let out = out.output(4, sizes)?;
    if out.is_empty() {
        return Ok(());
    }
    let nothing = [out.region.empty(); 2];
    with_bytes(nothing, out.region, scratch, |_, bytes| {
        let elements = bytes.as_chunks_mut::<4>().0;
        let ([rows, columns], [outer, inner]) = (out.sizes, out.strides);
        for row in 0..rows {
            let row = &mut elements[row * outer..];
            match inner {
                1 => row[..columns].fill(value),
                _ => (0..columns).for_each(|column| row[column * inner] = value),
            }
        }
        Ok(())
    })
}

fn copy_elements<const N: usize>(input: &[u8], out: &mut [u8], strides: [[usize; 2]; 2], sizes: [usize; 2]) {
    let (input, out) = (input.as_chunks::<N>().0, out.as_chunks_mut::<N>().0);
    let [[i_outer, i_inner], [o_outer, o_inner]] = strides;
    let [rows, columns] = sizes;
    for row in 0..rows {
        let (input, out) = (&input[row * i_outer..], &mut out[row * o_outer..]);
        match (i_inner, o_inner) {
            (1, 1) => out[..columns].copy_from_slice(&input[..columns]),
            (0, 1) => out[..columns].fill(input[0]),
            _ => (0..columns).for_each(|column| out[column * o_inner] = input[column * i_inner]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::{Memory, Random};
    use super::*;

    #[test]
    fn copies_match_a_plain_loop_for_any_shape_and_width() {
        let mut random = Random::new(3);
        let mut scratch = Scratch::default();
        for width in [1, 2, 4, 8] {
            for _ in 0..60 {
                let sizes = random.sizes();
                let memory = [random.memory(width, sizes, true), random.memory(width, sizes, false)];
                let mut expected = memory[1].bytes();
                memory[0].for_each(sizes, |at, index| {
                    let (from, to) = (index * width, memory[1].index(at) * width);
                    expected[to..to + width].copy_from_slice(&memory[0].bytes()[from..from + width]);
                });
                copy(width, memory[0].operand("in"), memory[1].operand("out"), sizes, &mut scratch).unwrap();
                assert_eq!(memory[1].bytes(), expected);
            }
        }
        let memory = random.memory(4, [2, 2], false);
        assert!(copy(3, memory.operand("in"), memory.operand("out"), [2, 2], &mut scratch).is_err());
    }

    #[test]
    fn fills_match_a_plain_loop_for_any_shape() {
        let mut random = Random::new(4);
        let mut scratch = Scratch::default();
        for _ in 0..60 {
            let sizes = random.sizes();
            let memory = random.memory(4, sizes, false);
            let mut expected = memory.elements();
            memory.for_each(sizes, |_, index| expected[index] = 0x0403_0201);
            fill([1, 2, 3, 4], memory.operand("out"), sizes, &mut scratch).unwrap();
            assert_eq!(memory.elements(), expected);
        }
    }

    #[test]
    fn overlapping_copies_read_before_they_write() {
        let memory = Memory::of_u32(&[1, 2, 3, 4], [4, 1], 0);
        let shifted = Memory { offset: 1, ..memory.clone() };
        let mut scratch = Scratch::default();
        copy(4, memory.operand("in"), shifted.operand("out"), [1, 3], &mut scratch).unwrap();
        assert_eq!(memory.elements(), [1, 1, 2, 3]);
    }
}
