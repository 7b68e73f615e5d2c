func.func @first(%x: tensor<268435456xf32>) -> tensor<4xf32> {
  %first = tensor.extract_slice %x[1234567] [4] [1] : tensor<268435456xf32> to tensor<4xf32>
  return %first : tensor<4xf32>
}
