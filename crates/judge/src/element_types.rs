//! The types of elements, which captures do not have: from rules of the user, and from the names of
//! functions.

use rehal_base::ElementType;

/// The element types in the name of a function, as the compiler writes them: `f32`, `f32` and `f16` of
/// `matmul_4x4x4_f32xf32xf16`, and `f32` of `softmax_8x10xf32_dispatch_tensor_store`. The name of the
/// program's function, before `_dispatch_N`, states none. Empty if some part next to types or extents is not
/// a type.
pub(crate) fn types_in_name(function: &str) -> Vec<ElementType> {
    let described = function.match_indices(DISPATCH).find_map(|(at, _)| {
        let rest = &function[at + DISPATCH.len()..];
        rest.starts_with(|it: char| it.is_ascii_digit()).then_some(rest)
    });
    let mut types = Vec::new();
    for word in described.unwrap_or(function).split('_').skip(1) {
        let is_extent = |part: &&str| *part == "D" || part.parse::<u64>().is_ok();
        let extents = word.split('x').take_while(is_extent).count();
        let parts: Vec<_> = word.split('x').skip(extents).map(|it| it.parse::<ElementType>().ok()).collect();
        if extents == 0 && parts.iter().all(Option::is_none) {
            continue;
        }
        let Some(parts) = parts.into_iter().collect::<Option<Vec<_>>>() else { return Vec::new() };
        types.extend(parts);
    }
    types
}

/// The compiler's text between the name of the program's function and the number of a dispatch.
const DISPATCH: &str = "_dispatch_";

/// The element type in the name of a function, as the compiler writes it into that of most kernels: `f32` of
/// `add_4_f32`, `matmul_4x4x4_f32xf32xf32` and `encode_5x7xf32_to_5x7xf32`. `None` if the name has types that
/// differ, or one whose elements are not 1, 2, 4 or 8 bytes.
pub fn type_in_name(function: &str) -> Option<ElementType> {
    let types = types_in_name(function);
    let first = *types.first()?;
    let is_one = types.iter().all(|it| *it == first);
    (is_one && matches!(first.bits(), 8 | 16 | 32 | 64)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_types_in_a_name_agree() {
        let named = |name: &str| type_in_name(name).map(|it| it.to_string());
        for (name, expected) in [
            ("add_4_f32", "f32"),
            ("main_dispatch_0_matmul_4x4x4_f32xf32xf32", "f32"),
            ("mlp_dispatch_3_softmax_8x10xf32_dispatch_tensor_store", "f32"),
            ("_encoding_0_encode_5x7xf32_to_5x7xf32", "f32"),
            ("_encoding_6_encode_DxDxbf16_to_DxDxbf16", "bf16"),
            ("rows_dispatch_1_reduction_DxD_i64", "i64"),
            ("product_f16_dispatch_0_matmul_5x6x7_f32", "f32"),
            ("x_dispatch_fast_i8_dispatch_0_elementwise_4_f32", "f32"),
            ("lookup_dispatch_0_elementwise_4_f8E4M3FN", "f8E4M3FN"),
        ] {
            assert_eq!(named(name).as_deref(), Some(expected), "{name}");
        }
        for name in [
            "f32",
            "product_f32_dispatch_0",
            "product_f32_dispatch_0_elementwise",
            "product_i8_dispatch_0_matmul_3x9x20_i8xi8xi32",
            "gather_dispatch_0_elementwise_4_i64xf32",
            "compare_dispatch_0_elementwise_4_f32xf32xi1",
            "_encoding_0_encode_5x7xf32_to_5x7xf16",
            "cast_dispatch_0_elementwise_4_f16xf32",
            "cast_f16_to_f32",
            "gather_dispatch_0_elementwise_4_indexxf32",
            "_encoding_0_encode_4xindex_to_4xf32",
            "norm_dispatch_0_elementwise_4_complexf32",
            "norm_dispatch_0_elementwise_4_f32x4",
            "pack_dispatch_0_elementwise_8x10",
            "pack_dispatch_0_elementwise_4_i4",
            "pack_dispatch_0_elementwise_4_cf128",
        ] {
            assert_eq!(named(name), None, "{name}");
        }
    }
}
