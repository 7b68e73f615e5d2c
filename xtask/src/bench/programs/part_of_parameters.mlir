util.global private @w = #flow.parameter.named<"big"::"used"> : tensor<16777216xf32>
func.func @first() -> tensor<4xf32> {
  %w = util.global.load @w : tensor<16777216xf32>
  %first = tensor.extract_slice %w[77] [4] [1] : tensor<16777216xf32> to tensor<4xf32>
  return %first : tensor<4xf32>
}
