//! How many arithmetic operations a dispatch performs, as far as the name of its function says.
//!
//! The compiler names a function after the costliest operation of it, such as
//! `main_dispatch_7_conv_320x320x24x2x2_f32`: its kind, the ranges of its loops, and its element types. The
//! name leaves out what is fused with it, so a count is a lower bound.

/// The operations of a dispatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operations {
    /// A multiplication and an addition are two.
    pub count: u64,
    /// The type of the factors, such as `f32`, if the name has one.
    pub element: Option<String>,
}

/// Kinds with a multiplication and an addition for each iteration of the loops.
const PRODUCTS: [&str; 8] =
    ["matmul", "batch_matmul", "matvec", "batch_matvec", "vecmat", "batch_vecmat", "mmt4d", "batch_mmt4d"];
/// The endings of the name of a product that is written otherwise.
const VARIANTS: [&str; 4] = ["", "_like", "_transpose_a", "_transpose_b"];
/// The beginnings of the names of kinds with a multiplication and an addition.
const CONVOLUTIONS: [&str; 3] = ["conv_1d", "conv_2d", "conv_3d"];
/// Kinds that only move data.
const MOVES: [&str; 7] = ["slow_memcpy", "memcpy", "transpose", "broadcast", "pack", "unpack", "copy"];

/// `None` if the name does not say it: of other kinds, such as `elementwise`, the operations of an iteration
/// are unknown, and so is the number of iterations of loops with dynamic ranges (`D`).
pub(super) fn of_name(name: &str) -> Option<Operations> {
    let (_, rest) = name.rsplit_once("dispatch_")?;
    let digits = rest.len() - rest.trim_start_matches(|it: char| it.is_ascii_digit()).len();
    let described = rest[digits..].strip_prefix('_').filter(|_| digits > 0)?;
    if MOVES.contains(&described) {
        return Some(Operations { count: 0, element: None });
    }
    let (rest, types) = described.rsplit_once('_')?;
    let (kind, ranges) = rest.rsplit_once('_')?;
    let each = operations_of_iteration(kind)?;
    let mut ranges = ranges.split('x').map(|it| it.parse::<u64>().ok());
    let iterations = ranges.try_fold(1u64, |product, it| product.checked_mul(it?))?;
    Some(Operations { count: iterations.checked_mul(each)?, element: factors(types) })
}

fn operations_of_iteration(kind: &str) -> Option<u64> {
    let is_product =
        PRODUCTS.iter().any(|it| kind.strip_prefix(it).is_some_and(|rest| VARIANTS.contains(&rest)));
    let convolution = kind.strip_prefix("depthwise_").unwrap_or(kind);
    let is_convolution = convolution == "conv" || CONVOLUTIONS.iter().any(|it| convolution.starts_with(it));
    match kind {
        _ if is_product || is_convolution => Some(2),
        _ if kind.starts_with("pooling_") => Some(1),
        _ if MOVES.contains(&kind) => Some(0),
        _ => None,
    }
}

/// The type of both factors: `f32` of `f32` and of `f32xf32xf64`.
fn factors(types: &str) -> Option<String> {
    let mut types = types.split('x');
    let first = types.next().filter(|it| !it.is_empty())?;
    types.next().is_none_or(|second| second == first).then(|| first.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_products_say_their_operations() {
        let of = |name: &str| of_name(name).map(|it| (it.count, it.element.unwrap_or_default()));
        let is = |count: u64, element: &str| Some((count, element.to_owned()));
        for (name, expected) in [
            ("matmul_dispatch_0_matmul_128x128x128_f32", is(2 << 21, "f32")),
            ("main_graph$async_dispatch_9_matmul_1x128x128_f32", is(2 << 14, "f32")),
            ("tf2onnx$async_dispatch_1_batch_matmul_1x2048x64x257_f32", is(2 * 2048 * 64 * 257, "f32")),
            ("x$async_dispatch_26_matvec_like_88x22_f32", is(2 * 88 * 22, "f32")),
            ("m_dispatch_3_matmul_transpose_b_8x16x4_i8xi8xi32", is(1024, "i8")),
            ("m_dispatch_3_matmul_8x16x4_f16xf16xf32", is(1024, "f16")),
            // The factors differ: which instructions multiply them is unknown.
            ("m_dispatch_3_matmul_8x16x4_f16xf32xf32", is(1024, "")),
            ("tf2onnx$async_dispatch_85_conv_172x88x33x3x3_f32", is(2 * 172 * 88 * 33 * 9, "f32")),
            ("m_dispatch_1_depthwise_conv_2d_nchw_chw_1x8x4x4x3x3_f32", is(2 * 8 * 16 * 9, "f32")),
            ("m_dispatch_1_conv_2d_nchw_fchw_1x8x4x4x2x3x3_f32", is(2 * 8 * 16 * 2 * 9, "f32")),
            ("m_dispatch_1_pooling_nchw_sum_1x8x4x4x2x2_f32", is(8 * 16 * 4, "f32")),
            ("tf2onnx$async_dispatch_81_slow_memcpy", is(0, "")),
            ("tf2onnx$async_dispatch_75_transpose_172x264x8_f32", is(0, "f32")),
        ] {
            assert_eq!(of(name), expected, "{name}");
        }
    }

    #[test]
    fn what_a_name_does_not_say_is_unknown() {
        for name in [
            "",
            "add",
            "#0",
            "my_matmul_128x128x128_f32",
            "dispatch_",
            "dispatch_matmul_2x2x2_f32",
            "d_dispatch_0",
            "d_dispatch_0_",
            "dyn_dispatch_1_matmul_DxDx8_f32",
            "dyn_dispatch_0_elementwise_4_f32",
            "dyn_dispatch_1_reduction_4x4_f32",
            "mlp_dispatch_3_softmax_16x10xf32_dispatch_tensor_store",
            "m_dispatch_0_matmul_f32",
            "m_dispatch_0_matmul__f32",
            "m_dispatch_0_matmul_4294967296x4294967296x2_f32",
            "m_dispatch_0_matmulish_2x2x2_f32",
            "m_dispatch_0_elementwise_transpose_256x512_f32",
            "m_dispatch_0_conversion_2x2_f32",
        ] {
            assert_eq!(of_name(name), None, "{name}");
        }
    }
}
