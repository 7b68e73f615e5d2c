//! Seeded mutations of inputs and of `.npy` files must give an error or a value: no panic, hang, or memory
//! out of proportion to the text.

use fastrand::Rng;
use rehal_values::fuzzing::{exercise_input, exercise_npy};
use rehal_values::{TensorType, npy};

const SEEDS: &[&str] = &[
    "4xf32=1 2 3 4",
    "2x2xi32=[[1 2][3 4]]",
    "\"2x3xbf16=1,2,3 4,5,6\"",
    "f64=-1.5e300",
    "4xi1=true false 01 0",
    "8xi4=1 2 3 -4 5 6 7 -8",
    "2xcf64=1-2i 0000803F00000000",
    "&16x16xf8E4M3FN=0x1.8p3",
    "3x5xi3",
    "4x*16=beef",
    "@a.npy",
    "*b.npy",
    "4xf32=+c.bin",
    "(null)",
    "-123",
    "1e-30",
];

const WORDS: &[&str] = &[
    "x",
    "=",
    "[",
    "]",
    ",",
    " ",
    "-",
    "+",
    "0",
    "9",
    "0x",
    "p",
    "e",
    "f",
    "i",
    "u",
    "s",
    "b",
    "c",
    "*",
    "@",
    "&",
    "f32",
    "i4",
    "i255",
    "f8E8M0FNU",
    "1152921504606846976",
    "18446744073709551615",
    "nan",
    "inf",
    "(",
    ")",
    "\"",
    "\u{1f}",
    "é",
    "\0",
    "1e999999999",
    ".",
    "true",
    "xxxxxxxxxxxxxxxx",
    "0x0x",
    "010",
];

fn pick<'a, T: ?Sized>(random: &mut Rng, from: &[&'a T]) -> &'a T {
    from[random.usize(..from.len())]
}

fn mutated_text(random: &mut Rng) -> String {
    let mut text: Vec<char> = pick(random, SEEDS).chars().collect();
    for _ in 0..=random.usize(..4) {
        let at = random.usize(..text.len() + 1);
        let end = (at + random.usize(..4)).min(text.len());
        match random.usize(..3) {
            0 => drop(text.drain(at..end)),
            1 => drop(text.splice(at..end, pick(random, WORDS).chars())),
            _ => {
                let other: Vec<char> = pick(random, SEEDS).chars().collect();
                let from = random.usize(..other.len());
                drop(text.splice(at..at, other[from..].iter().copied()));
            }
        }
    }
    text.into_iter().collect()
}

#[test]
fn mutated_inputs() {
    let mut random = Rng::with_seed(0x5eed);
    let mut accepted = 0;
    for _ in 0..20_000 {
        accepted += u64::from(exercise_input(&mutated_text(&mut random)) > 0);
    }
    // Some must stay valid, or only the first check would be tested.
    assert!((1_000..19_000).contains(&accepted), "{accepted} of 20000 are inputs");
}

#[test]
fn every_prefix_of_an_input() {
    for seed in SEEDS {
        for (end, _) in seed.char_indices() {
            exercise_input(&seed[..end]);
        }
    }
}

fn arrays() -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in ["2x3xf32", "5xi1", "i64", "0x4xui8", "1x1x1x1xcf64", "3x*24"] {
        let tensor_type = TensorType::parse(text).unwrap();
        bytes.extend(npy::header(&tensor_type).unwrap());
        bytes.resize(bytes.len() + tensor_type.size_bytes().unwrap() as usize, 0x3f);
    }
    bytes
}

#[test]
fn mutated_arrays() {
    let whole = arrays();
    assert_eq!(exercise_npy(&whole), 6);
    let mut random = Rng::with_seed(0xa44a);
    let mut read = 0;
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..=random.usize(..3) {
            let at = random.usize(..bytes.len());
            match random.usize(..4) {
                0 => bytes[at] = random.u8(..),
                1 => bytes[at] ^= 1 << random.usize(..8),
                2 => bytes.truncate(at + 1),
                // Headers are text, so word mutations reach further than bit flips.
                _ => {
                    let word = pick(
                        &mut random,
                        &["(", ")", "9999999999", "'", "{", "}", "'<f8'", ",", "True", "NUMPY", "-1"],
                    );
                    let end = (at + word.len()).min(bytes.len());
                    bytes.splice(at..end, word.bytes());
                }
            }
        }
        read += exercise_npy(&bytes);
    }
    assert!((10_000..120_000).contains(&read), "{read} arrays are read");
}

#[test]
fn every_prefix_of_arrays() {
    let whole = arrays();
    for length in 0..whole.len() {
        assert!(exercise_npy(&whole[..length]) < 6);
    }
}
