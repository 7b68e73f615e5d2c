//! The tile sizes into which matrices are packed on this machine.

use rehal_base::{Error, Result};

use crate::platform;

/// Bits of the flags (source: `iree/builtins/ukernel/exported_bits.h`).
const ROLE_MASK: u32 = 0xFF;
const OPERATION_MASK: u32 = 0xFF00;
const ROLE_LHS: u32 = 1;
const ROLE_RHS: u32 = 2;
const ROLE_RESULT: u32 = 3;
const MATMUL_F32: u32 = 0x0100;
const MATMUL_I8: u32 = 0x0200;
const OTHER_MATMULS: u32 = 0x0300;
const LAST_MATMUL: u32 = 0x0600;

/// Rows and columns of the tiles of an operand of a matrix multiplication. `flags` select the operand and the
/// element type; the sizes of the matrix (`i64::MIN` if unknown) have no effect.
///
/// They are the reference's on the same processor, so that results have the same padding and rounding.
pub(super) fn query(flags: u32, sizes: [i64; 2]) -> Result<[i64; 2]> {
    if let Some(size) = sizes.iter().find(|size| **size < 0 && **size != i64::MIN) {
        return Err(Error::invalid_argument(format!(
            "cannot query tile sizes: the matrix size {size} is negative"
        )));
    }
    let [m, n, k] = matmul(flags & OPERATION_MASK)
        .filter(|_| flags & !(ROLE_MASK | OPERATION_MASK) == 0)
        .ok_or_else(|| {
            Error::invalid_argument(format!("cannot query tile sizes: unknown operation (flags 0x{flags:x})"))
        })?;
    match flags & ROLE_MASK {
        ROLE_LHS => Ok([m, k]),
        ROLE_RHS => Ok([n, k]),
        ROLE_RESULT => Ok([m, n]),
        role => {
            Err(Error::invalid_argument(format!("cannot query tile sizes: unknown operand role ({role})")))
        }
    }
}

/// The tile of a multiplication: rows of the left operand, columns of the right one, and depth.
fn matmul(operation: u32) -> Option<[i64; 3]> {
    match operation {
        MATMUL_F32 => Some(platform::tile_of_f32()),
        MATMUL_I8 => Some(platform::tile_of_i8()),
        OTHER_MATMULS..=LAST_MATMUL => Some([8, 8, 4]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_of_the_operands_of_a_multiplication_match() {
        for operation in [MATMUL_F32, MATMUL_I8, 0x0300, 0x0400, 0x0500, 0x0600] {
            let of = |role| query(operation | role, [i64::MIN, 37]).unwrap();
            let ([m, k], [n, rhs_k], result) = (of(ROLE_LHS), of(ROLE_RHS), of(ROLE_RESULT));
            assert_eq!((k, result), (rhs_k, [m, n]));
            assert!(m * k <= 64 && n * k <= 64 && m * n <= 256);
        }
    }

    #[test]
    fn unknown_flags_and_negative_sizes_are_rejected() {
        for flags in [0, 0x0100, 0x0104, 0x0701, 0x0001, 0x1_0101, u32::MAX] {
            assert!(query(flags, [1, 1]).is_err(), "{flags:#x}");
        }
        assert!(query(0x0101, [-1, 4]).is_err());
    }
}
