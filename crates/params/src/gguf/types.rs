//! The type numbers of GGUF files, and the sizes of their values.

/// Elements of a tensor that are stored as a block, and the size of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Elements per block; rows of a tensor are whole blocks.
    pub elements: u64,
    /// Bytes of a block.
    pub bytes: u64,
}

/// Tensor types (source: `enum ggml_type` and `GGML_QUANT_SIZES` of the ggml project).
///
/// IREE 3.13.0 has the numbers of 2023, in which 16, 17 and 18 were I8, I16 and I32; since then they mean
/// IQ2_XXS, IQ2_XS and IQ3_XXS. Missing numbers were removed from the format.
const BLOCKS: &[(u32, u64, u64)] = &[
    (0, 1, 4),      // F32
    (1, 1, 2),      // F16
    (2, 32, 18),    // Q4_0
    (3, 32, 20),    // Q4_1
    (6, 32, 22),    // Q5_0
    (7, 32, 24),    // Q5_1
    (8, 32, 34),    // Q8_0
    (9, 32, 40),    // Q8_1
    (10, 256, 84),  // Q2_K
    (11, 256, 110), // Q3_K
    (12, 256, 144), // Q4_K
    (13, 256, 176), // Q5_K
    (14, 256, 210), // Q6_K
    (15, 256, 292), // Q8_K
    (16, 256, 66),  // IQ2_XXS
    (17, 256, 74),  // IQ2_XS
    (18, 256, 98),  // IQ3_XXS
    (19, 256, 50),  // IQ1_S
    (20, 32, 18),   // IQ4_NL
    (21, 256, 110), // IQ3_S
    (22, 256, 82),  // IQ2_S
    (23, 256, 136), // IQ4_XS
    (24, 1, 1),     // I8
    (25, 1, 2),     // I16
    (26, 1, 4),     // I32
    (27, 1, 8),     // I64
    (28, 1, 8),     // F64
    (29, 256, 56),  // IQ1_M
    (30, 1, 2),     // BF16
    (34, 256, 54),  // TQ1_0
    (35, 256, 66),  // TQ2_0
    (39, 32, 17),   // MXFP4
    (40, 64, 36),   // NVFP4
    (41, 128, 18),  // Q1_0
];

/// The block of a tensor type, or `None` if it is unknown.
pub(super) fn block(kind: u32) -> Option<Block> {
    let (_, elements, bytes) = *BLOCKS.iter().find(|(number, ..)| *number == kind)?;
    Some(Block { elements, bytes })
}

/// A `u32` metadata value.
pub(super) const VALUE_UINT32: u32 = 4;
/// A text metadata value: 64-bit length, and UTF-8.
pub(super) const VALUE_STRING: u32 = 8;
/// An array metadata value: type, 64-bit length, and the elements.
pub(super) const VALUE_ARRAY: u32 = 9;

/// Size of a metadata value of this type, or `None` if it is variable or unknown.
pub(super) fn value_bytes(kind: u32) -> Option<u64> {
    Some(match kind {
        0 | 1 | 7 => 1,            // uint8, int8, bool
        2 | 3 => 2,                // uint16, int16
        VALUE_UINT32 | 5 | 6 => 4, // uint32, int32, float32
        10..=12 => 8,              // uint64, int64, float64
        _ => return None,
    })
}
