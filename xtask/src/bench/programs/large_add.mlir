func.func @add(%a: tensor<4194304xf32>, %b: tensor<4194304xf32>) -> tensor<4194304xf32> {
  %sum = arith.addf %a, %b : tensor<4194304xf32>
  return %sum : tensor<4194304xf32>
}
