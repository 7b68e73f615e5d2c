//! Malformed parameter files must give an error or fewer parameters: no panic and no hang.

use fastrand::Rng;
use rehal_params::fuzzing::exercise;
use rehal_params::sample::{GgufTensor, gguf};
use rehal_params::{Format, sample};
use testing::mutate;

fn samples() -> [(Format, Vec<u8>); 4] {
    [
        (Format::Irpa, sample::archive_sample()),
        (Format::Irpa, sample::linked_sample()),
        (Format::Gguf, sample::gguf_sample()),
        (Format::Safetensors, sample::safetensors_sample()),
    ]
}

/// Bytes of a sample that readers access: excludes data and padding.
fn table_bytes(format: Format, bytes: &[u8]) -> usize {
    let data = format.parse(bytes).unwrap().into_iter().filter_map(|it| match it.location {
        rehal_params::Location::Here(offset) if it.length > 0 => Some(offset as usize),
        _ => None,
    });
    data.min().unwrap()
}

#[test]
fn truncated_files_are_rejected() {
    for (format, bytes) in samples() {
        for length in 0..bytes.len() {
            // Only padding after the last byte of data may be missing.
            match exercise(format, &bytes[..length]) {
                Ok(_) => assert!(length >= table_bytes(format, &bytes), "{format:?} truncated to {length}"),
                Err(error) => {
                    assert!(error.offset <= bytes.len() as u64, "{format:?} truncated to {length}: {error:?}")
                }
            }
        }
    }
}

#[test]
fn mutated_files_are_read_or_rejected() {
    let mut random = Rng::with_seed(0x9e37_79b9_7f4a_7c15);
    let mut outcomes = [0; 2];
    for (format, bytes) in samples() {
        let tables = table_bytes(format, &bytes);
        for _ in 0..4000 {
            let mut mutated = bytes.clone();
            mutate(&mut mutated[..tables], &mut random);
            outcomes[usize::from(exercise(format, &mutated).is_ok())] += 1;
        }
    }
    // Otherwise the mutations would test nothing.
    assert!(outcomes.iter().all(|count| *count > 1000), "{outcomes:?}");
}

#[test]
fn an_archive_that_links_to_itself_is_rejected_quickly() {
    // A header every 16 bytes, each of which claims the whole file as its table.
    let mut bytes = vec![0; 1 << 20];
    let header = &sample::archive_sample()[..88];
    for at in (0..bytes.len() - 96).step_by(96) {
        bytes[at..at + 88].copy_from_slice(header);
        bytes[at + 16..at + 24].copy_from_slice(&96u64.to_le_bytes());
        bytes[at + 32..at + 40].copy_from_slice(&1000u64.to_le_bytes());
        bytes[at + 48..at + 56].copy_from_slice(&100_000u64.to_le_bytes());
    }
    assert!(exercise(Format::Irpa, &bytes).is_err());
}

/// Found by fuzzing: the data would start past the end of the file.
#[test]
fn the_range_of_an_empty_tensor_is_in_bounds() {
    let tensor = GgufTensor { name: "", dimensions: vec![0], kind: 0, data: vec![] };
    let mut bytes = gguf(3, &[], &[tensor], 32);
    bytes.truncate(24 + 8 + 4 + 8 + 4 + 8);
    assert_eq!(exercise(Format::Gguf, &bytes).unwrap(), 1);
}

/// Parses a sparse GGUF file: `head`, then a hole up to `length` bytes.
fn parse_sparse(head: &[u8], length: u64) -> rehal_base::FormatError {
    use std::io::Write;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(head).unwrap();
    file.as_file().set_len(length).unwrap();
    let map = rehal_base::MappedFile::open(file.path()).unwrap();
    Format::Gguf.parse(map.bytes()).unwrap_err()
}

fn gguf_head(tensor_count: u64, metadata_count: u64) -> Vec<u8> {
    [&b"GGUF\x03\0\0\0"[..], &tensor_count.to_le_bytes(), &metadata_count.to_le_bytes()].concat()
}

/// A metadata entry with an empty key and an array of `count` elements of type `element`.
fn array_of(element: u32, count: u64) -> Vec<u8> {
    [&[0; 8][..], &9u32.to_le_bytes(), &element.to_le_bytes(), &count.to_le_bytes()].concat()
}

#[test]
fn counts_that_exceed_the_file_are_rejected_before_reading() {
    let cases = [
        (gguf_head(1 << 40, 0), "tensor_count", "at most 174761, which fit in the file"),
        (gguf_head(u64::MAX, 0), "tensor_count", "at most 174761, which fit in the file"),
        (gguf_head(1, 1 << 40), "metadata_kv_count", "at most 322636, which fit in the file"),
        (
            [gguf_head(1, 1), array_of(9, 1 << 36)].concat(),
            "array length",
            "at most 349521, which fit in the file",
        ),
        (
            [gguf_head(1, 1), array_of(8, 1 << 36)].concat(),
            "array length",
            "at most 524282, which fit in the file",
        ),
    ];
    for (head, field, expected) in cases {
        let error = parse_sparse(&head, 4 << 20);
        assert_eq!((error.fault, error.field), (rehal_base::Fault::Truncated, field));
        assert_eq!(error.expected, expected);
    }
}

/// A sparse file can be large enough for any count; the limit on headers bounds the memory.
#[test]
fn counts_that_fit_only_a_sparse_file_are_rejected() {
    let cases = [
        gguf_head(1 << 35, 0),
        gguf_head(1, 1 << 35),
        [gguf_head(1, 1), array_of(9, 1 << 35)].concat(),
        [gguf_head(1, 1), array_of(8, 1 << 35)].concat(),
        [gguf_head(1, 1), array_of(0, 1 << 35)].concat(),
    ];
    for head in cases {
        let error = parse_sparse(&head, 1 << 40);
        assert_eq!((error.fault, error.field), (rehal_base::Fault::Unsupported, "header"), "{error}");
        assert!(error.expected.contains("at most 100000000 bytes"), "{error}");
    }
    // Within the limit, zeros decode as tensors with empty names: the second is a duplicate.
    let error = parse_sparse(&gguf_head(4_000_000, 0), 1 << 40);
    assert_eq!((error.field, error.offset), ("tensor name", 24 + 24));
}
