//! Corrupt VM executables: rejected, or run to an error or to completion. Unlike corrupt machine code they
//! are run, because verified code accesses only its own bindings.

#[path = "../../replay/tests/memory/mod.rs"]
mod memory;
mod support;

use std::path::{Path, PathBuf};

use fastrand::Rng;
use memory::peak_bytes;
use rehal_local::executable::check::{Reached, exercise_program};
use rehal_local::executable::infer_format;
use rehal_vm::ModuleFile;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// Our executables: of the conformance suite, in assembly, and with every microkernel that the compiler
/// calls.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for name in ["affine", "constants", "crash", "entry_points", "indirect", "workgroups"] {
        seeds.push(std::fs::read(fixtures().join(format!("cts/{name}.vmvx.vmfb"))).unwrap());
    }
    seeds.push(std::fs::read(fixtures().join("cts/assembled.vmfb")).unwrap());
    let program = std::fs::read(fixtures().join("modules/microkernels.vmvx.vmfb")).unwrap();
    let program = ModuleFile::copy(&program).unwrap();
    let segments = program.rodata_segments().map(|segment| program.bytes()[segment.range].to_vec());
    let executables = segments.filter(|bytes| infer_format(bytes) == Some("vmvx-bytecode-fb"));
    let count = seeds.len();
    seeds.extend(executables);
    assert!(seeds.len() > count, "the program has executables");
    seeds
}

/// Limits the peak memory of any input: its copy, its decoded form, and the allowance of its budget and
/// bindings.
fn exercise_within_bounds(bytes: &[u8]) -> Reached {
    let (reached, peak) = peak_bytes(|| exercise_program(bytes));
    assert!(peak < (4 << 20) + 200 * bytes.len(), "{peak} bytes allocated for an input of {}", bytes.len());
    reached
}

#[test]
fn valid_executables_are_loaded_and_run() {
    for seed in seeds() {
        let Reached::Loaded { completed } = exercise_within_bounds(&seed) else {
            panic!("a seed is rejected")
        };
        assert!(completed > 0);
    }
}

#[test]
fn truncated_executables_are_rejected() {
    let seed = &seeds()[0];
    for length in 0..seed.len() {
        // There may be a ZIP directory after the FlatBuffer, which is not read.
        let reached = exercise_within_bounds(&seed[..length]);
        assert!(reached == Reached::Nothing || length + 200 > seed.len(), "{length} of {} bytes", seed.len());
    }
}

/// Changes a few locations: a bit, a byte, a field to an extreme or a nearby value, a run copied from
/// elsewhere.
fn mutate(seed: &[u8], random: &mut Rng) -> Vec<u8> {
    const EXTREMES: [u32; 8] = [0, 1, 0x7F, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, u32::MAX - 1, u32::MAX];
    let mut bytes = seed.to_vec();
    for _ in 0..=random.usize(..3) {
        let at = random.usize(..bytes.len());
        match random.usize(..5) {
            0 => bytes[at] ^= 1 << random.usize(..8),
            1 => bytes[at] = random.u8(..),
            2 => bytes[at] = bytes[at].wrapping_add(if random.usize(..2) == 0 { 1 } else { 255 }),
            3 => {
                let width = [1, 2, 4][random.usize(..3)];
                let value = EXTREMES[random.usize(..EXTREMES.len())].to_le_bytes();
                let end = (at + width).min(bytes.len());
                bytes[at..end].copy_from_slice(&value[..end - at]);
            }
            _ => {
                let length = 1 + random.usize(..16);
                let from = random.usize(..bytes.len());
                let length = length.min(bytes.len() - at).min(bytes.len() - from);
                bytes.copy_within(from..from + length, at);
            }
        }
    }
    bytes
}

#[test]
fn mutated_executables_are_rejected_or_run() {
    let seeds = seeds();
    let mut random = Rng::with_seed(0x5EED);
    let (mut refused, mut loaded, mut completed_all) = (0, 0, 0);
    for round in 0..6000 {
        let seed = &seeds[round % seeds.len()];
        match exercise_within_bounds(&mutate(seed, &mut random)) {
            Reached::Nothing => refused += 1,
            Reached::Loaded { completed } => {
                loaded += 1;
                completed_all += completed;
            }
        }
    }
    // If all were rejected, or none, the mutations would be useless.
    assert!(refused > 500 && loaded > 500 && completed_all > 500, "{refused} {loaded} {completed_all}");
}
