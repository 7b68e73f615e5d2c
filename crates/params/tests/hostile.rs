//! Malformed parameter files must give an error or fewer parameters: no panic and no hang.

use fastrand::Rng;
use rehal_params::check::exercise;
use rehal_params::sample::{GgufTensor, gguf};
use rehal_params::{Format, sample};

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
    let data = format.parse(bytes).unwrap().into_iter().filter_map(|it| match it.place {
        rehal_params::Place::Here(offset) if it.length > 0 => Some(offset as usize),
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

/// Changes a few bytes: bits, whole values that overflow, or runs copied from elsewhere.
fn mutate(bytes: &mut [u8], random: &mut Rng) {
    const EXTREMES: [u64; 8] =
        [0, 1, u64::MAX, u64::MAX - 63, u64::MAX / 16 + 1, 1 << 32, u64::MAX >> 1, 4096];
    for _ in 0..=random.usize(..3) {
        let at = random.usize(..bytes.len());
        match random.usize(..4) {
            0 => bytes[at] ^= 1 << random.usize(..8),
            1 => bytes[at] = random.u8(..),
            2 => {
                let value = EXTREMES[random.usize(..EXTREMES.len())].to_le_bytes();
                let length = value.len().min(bytes.len() - at);
                bytes[at..at + length].copy_from_slice(&value[..length]);
            }
            _ => {
                let length = random.usize(..24.min(bytes.len() - at)) + 1;
                let from = random.usize(..bytes.len() - length + 1);
                bytes.copy_within(from..from + length, at);
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
