//! The bodies of the fuzz targets: text as inputs, and bytes as `.npy` files.

use crate::{Equality, Input, ScalarType, Source, TensorType, format_tensor, npy};

/// Limit on the size of tensors that are filled, printed and compared; larger ones are only parsed.
const MAX_BYTES: u64 = 1 << 16;

/// Parses `text` as each kind of input, and prints and compares the value. Returns the number of kinds it
/// parsed as; must terminate without a panic.
pub fn exercise_input(text: &str) -> u64 {
    let scalars =
        [None, Some(ScalarType::I32), Some(ScalarType::I64), Some(ScalarType::F32), Some(ScalarType::F64)];
    scalars.into_iter().filter(|scalar| exercise(text, *scalar)).count() as u64
}

fn exercise(text: &str, scalar: Option<ScalarType>) -> bool {
    let Ok(input) = Input::parse(text, scalar) else { return false };
    match input {
        Input::Scalar(scalar) => {
            let number = scalar.number();
            let again = scalar.scalar_type().parse(&number).expect("a printed number can be parsed");
            assert_eq!(again.number(), number);
        }
        Input::Tensor { tensor_type, source: Source::Text(contents), .. } => {
            let size_bytes = tensor_type.size_bytes().expect("a parsed tensor has a size");
            if size_bytes <= MAX_BYTES {
                let mut bytes = vec![0; size_bytes as usize];
                contents.fill(&mut bytes);
                look_at(&tensor_type, &bytes);
            }
        }
        Input::Tensor { .. } | Input::Npy { .. } | Input::Null => {}
    }
    true
}

/// Reads `bytes` as consecutive arrays, prints them and writes them again. Returns the number of arrays.
pub fn exercise_npy(bytes: &[u8]) -> u64 {
    let mut rest = bytes;
    let mut count = 0;
    while !rest.is_empty() {
        let Ok((tensor_type, layout)) = npy::read_header(&mut rest) else { break };
        let Ok(size_bytes) = tensor_type.size_bytes() else { break };
        let Some(array) = usize::try_from(size_bytes).ok().and_then(|size| rest.split_off(..size)) else {
            break;
        };
        let dense = layout.to_dense(&tensor_type, array.to_vec());
        assert!(!layout.is_dense(&tensor_type) || dense == array);
        look_at(&tensor_type, &dense);
        if let Ok(header) = npy::header(&tensor_type) {
            let (again, layout) = npy::read_header(&mut &header[..]).expect("a written header can be read");
            assert!(layout.is_dense(&again));
            // `.npy` has no signless integers, and only types of whole bytes.
            assert_eq!(
                (&again.shape, again.element_type.bits()),
                (&tensor_type.shape, tensor_type.element_type.bits())
            );
        }
        count += 1;
    }
    count
}

fn look_at(tensor_type: &TensorType, bytes: &[u8]) {
    let _ = format_tensor(tensor_type, bytes, 64);
    let same = Equality::default().mismatch((tensor_type, bytes), (tensor_type, bytes));
    assert_eq!(same, None);
}
