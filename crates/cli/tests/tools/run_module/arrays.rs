//! Inputs and results in `.npy` files.

use super::{SUCCESS, call, values};
use crate::common::Scratch;

/// An `.npy` file with the header that NumPy writes.
fn array(descr: &str, fortran_order: &str, shape: &str, elements: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': {descr}, 'fortran_order': {fortran_order}, 'shape': {shape}, }}");
    let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
    let mut bytes = b"\x93NUMPY\x01\0".to_vec();
    bytes.extend((length as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.resize(10 + length - 1, b' ');
    bytes.push(b'\n');
    bytes.extend(elements);
    bytes
}

#[test]
fn arrays_in_every_order_and_of_named_types() {
    let scratch = Scratch::new();
    let view = |bytes: &[u8]| {
        let path = scratch.file("array.npy", bytes);
        let text = values("view", &[&format!("--input=@{path}")]);
        text.strip_prefix("result[0]: hal.buffer_view\n").unwrap().trim_end().to_string()
    };
    let floats = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let columns = floats(&[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    let rows = floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let big_endian: Vec<u8> = columns.chunks(4).flat_map(|bytes| bytes.iter().rev().copied()).collect();
    for (descr, order, elements) in [
        ("'<f4'", "True", &columns),
        ("'<f4'", "False", &rows),
        ("'>f4'", "True", &big_endian),
        ("'float32'", "False", &rows),
        ("[('x', '<f4')]", "True", &columns),
    ] {
        assert_eq!(
            view(&array(descr, order, "(2, 3)", elements)),
            "2x3xf32=[0 1 2][3 4 5]",
            "{descr} {order}"
        );
    }
    assert_eq!(view(&array("'<f4'", "True", "()", &floats(&[7.0]))), "f32=7");
    assert_eq!(
        view(&array("'>i2'", "True", "(2, 1, 2)", &[0, 1, 0, 2, 0, 3, 0, 4])),
        "2x1x2xsi16=[[1 3]][[2 4]]"
    );
    for (descr, expected) in [("'bfloat16'", "2xbf16=1 2"), ("'<V2'", "2xbf16=1 2"), ("'|V1'", "2x*8=80 3F")]
    {
        assert_eq!(view(&array(descr, "False", "(2,)", &[0x80, 0x3f, 0, 0x40])), expected);
    }
    // Arrays that follow are found, and what is missing is an error.
    let two =
        [array("'>f4'", "True", "(2, 3)", &big_endian), array("'<f4'", "True", "(2, 3)", &columns)].concat();
    let path = scratch.file("two.npy", &two);
    let words = [format!("--input=@{path}"), format!("--expected_output=*{path}")];
    let ran = call("values", "view", &[&words[0], &words[1]]);
    assert!(ran.stderr.contains("expected 1 value, found more"), "{}", ran.stderr);
    let path = scratch.file("short.npy", &two[..two.len() / 2 - 1]);
    let ran = call("values", "view", &[&format!("--input=*{path}")]);
    assert!(ran.stderr.contains("24 bytes are needed and 23 are left"), "{}", ran.stderr);
}

#[test]
fn results_of_types_that_numpy_only_names_can_be_read_back() {
    let scratch = Scratch::new();
    for (element_type, name) in [
        ("bf16", "bfloat16"),
        ("f8E4M3FN", "float8_e4m3fn"),
        ("f8E5M2", "float8_e5m2"),
        ("f8E8M0FNU", "float8_e8m0fnu"),
    ] {
        let path = scratch.path(&format!("{name}.npy")).display().to_string();
        let input = format!("--input=2x2x{name}=1 2 4 0.5");
        assert_eq!(values("view", &[&input, &format!("--output=@{path}")]), "");
        let header = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        assert!(
            header.contains(&format!("{{'descr': '{name}', 'fortran_order': False, 'shape': (2, 2), }}"))
        );
        let again = values("view", &[&format!("--input=@{path}")]);
        assert_eq!(again, format!("result[0]: hal.buffer_view\n2x2x{element_type}=[1 2][4 0.5]\n"));
        let same = values("view", &[&input, &format!("--expected_output=@{path}")]);
        assert_eq!(same, SUCCESS);
    }
}

#[test]
fn a_header_that_is_read_as_elements_is_warned_of() {
    let scratch = Scratch::new();
    let path = scratch.file("array.npy", array("'<f4'", "False", "(4,)", &[0; 16]));
    let plain = scratch.file("plain.bin", [0; 16]);
    let raw = format!("4xf32=@{path}");
    let warning = format!(
        "warning: --input={raw}: the file begins like an .npy file, and its header is read as elements, too; \
         --input=@{path}, in a file whose name ends with .npy, reads the array\n"
    );
    let ran = call("values", "view", &[&format!("--input={raw}")]);
    assert_eq!((ran.status, ran.stderr), (Some(0), warning.clone()));
    let ran =
        call("values", "view", &[&format!("--input=4xf32=@{plain}"), &format!("--expected_output={raw}")]);
    assert_eq!(ran.stderr.lines().next(), warning.replace("--input=", "--expected_output=").lines().next());
    for quiet in [format!("--input=@{path}"), format!("--input=4xf32=@{plain}")] {
        let ran = call("values", "view", &[&quiet]);
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{quiet}");
    }
}
