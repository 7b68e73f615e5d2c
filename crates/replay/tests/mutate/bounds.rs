//! Planning of untrusted bytes within a memory bound derived from the file's size.

use rehal_base::{Error, Result};
use rehal_capture::OpenOptions;
use rehal_replay::{CaptureBytes, Plan, PlanCheck, PlanOptions};

use super::{Mutator, record_ranges};
use crate::memory::peak_bytes;

/// Limit on the peak memory of planning per byte of the file, excluding the file itself.
///
/// A record is at least 96 bytes and becomes at most a step, an operation and an entry of the object
/// table. Ids up to 64 apart are looked up in a list: 512 bytes of it for 96 of the file,
/// up to three times as much while the list grows.
pub const PEAK_PER_BYTE: usize = 20;
/// Limit on the peak memory of planning in addition, in bytes.
const PEAK_BASE: usize = 64 << 10;

fn plan(bytes: CaptureBytes, recover: bool) -> Result<usize> {
    let options = PlanOptions { recover, ..PlanOptions::default() };
    Plan::compile(bytes, options).map(|plan| plan.step_count())
}

/// Checks that there is a plan, without one.
fn check(bytes: &CaptureBytes, recover: bool) -> Result<()> {
    let capture = bytes.open(OpenOptions { recover })?;
    let mut check = PlanCheck::new(bytes);
    for record in capture.records() {
        check.add(&record?)?;
    }
    check.finish(bytes, &capture).map(drop)
}

/// Plans `bytes`, strictly or for recovery, and checks the memory bound. A check without a plan takes no
/// more, and has the same outcome.
#[track_caller]
pub fn plan_within_bounds(bytes: &[u8], recover: bool) -> Result<usize> {
    let shared = CaptureBytes::from(bytes.to_vec());
    let (outcome, peak) = peak_bytes(|| plan(shared.clone(), recover));
    let bound = PEAK_BASE + PEAK_PER_BYTE * bytes.len();
    assert!(peak <= bound, "{peak} bytes for a capture of {}, at most {bound}", bytes.len());
    let (checked, peak_of_check) = peak_bytes(|| check(&shared, recover));
    assert!(peak_of_check <= peak.max(PEAK_BASE), "{peak_of_check} bytes, {peak} for a plan");
    let report = |error: &Error| error.report();
    assert_eq!(checked.as_ref().err().map(report), outcome.as_ref().err().map(report));
    outcome
}

/// Runs `count` mutations in total, fewer of large seeds.
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
