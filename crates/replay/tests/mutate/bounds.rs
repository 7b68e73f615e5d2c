//! Planning what may be no capture, held to the memory that the size of the file explains.

use rehal_base::Result;
use rehal_replay::{CaptureBytes, Plan, PlanOptions};

use super::{Mutator, record_ranges};
use crate::memory::peak_bytes;

/// What planning may hold at its peak beyond the file itself, per byte of the file.
///
/// A record is at least 96 bytes and becomes at most a step, an operation and an entry of the object
/// table. Ids may lie 64 apart and still be looked up in a list: 512 bytes of it for 96 of the file,
/// held up to three times while the list grows.
pub const PEAK_PER_BYTE: usize = 20;
/// What planning may hold whatever the size of the file.
const PEAK_BASE: usize = 64 << 10;

fn plan(bytes: CaptureBytes, recover: bool) -> Result<usize> {
    let options = PlanOptions { recover, ..PlanOptions::default() };
    Plan::compile(bytes, options).map(|plan| plan.step_count())
}

/// Plans `bytes`, strictly or for recovery, and holds it to its memory.
#[track_caller]
pub fn plan_within_bounds(bytes: &[u8], recover: bool) -> Result<usize> {
    let shared = CaptureBytes::from(bytes.to_vec());
    let (outcome, peak) = peak_bytes(|| plan(shared.clone(), recover));
    let bound = PEAK_BASE + PEAK_PER_BYTE * bytes.len();
    assert!(peak <= bound, "{peak} bytes for a capture of {}, at most {bound}", bytes.len());
    outcome
}

/// Mutates each seed so often that all together come to `count`, large ones less often.
pub fn mutate_all(seeds: &[Vec<u8>], count: usize, seed: u64) -> [usize; 2] {
    let weight = |bytes: &Vec<u8>| 1.0 / (20_000 + bytes.len()) as f64;
    let total: f64 = seeds.iter().map(weight).sum();
    let mut mutator = Mutator::new(seed);
    let (mut planned, mut refused) = (0, 0);
    for bytes in seeds {
        let ranges = record_ranges(bytes);
        for _ in 0..(count as f64 * weight(bytes) / total).ceil() as usize {
            let mutated = mutator.mutate(bytes, &ranges);
            match plan_within_bounds(&mutated, mutator.coin()) {
                Ok(_) => planned += 1,
                Err(_) => refused += 1,
            }
        }
    }
    [planned, refused]
}
