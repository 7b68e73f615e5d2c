//! Malformed captures are planned or rejected, without a panic, a hang, or memory beyond a bound of the
//! file's size. Nothing here is executed: captures contain machine code.

#[allow(dead_code, unused_imports, reason = "shared with the tests that run captures")]
mod common;
mod memory;
mod mutate;

use rehal_capture::OperationCode as Op;
use rehal_capture::layout::RecordHeader;
use rehal_capture::{CaptureBytes, OpenOptions};
use rehal_replay::{PlanCheck, fuzzing};
use zerocopy::little_endian::U64;

use common::{CaptureBuilder, FAKE_FORMAT, everything, function, run, whole};
use memory::peak_bytes;
use mutate::bounds::{PEAK_PER_BYTE, mutate_all, plan_within_bounds};
use mutate::{Mutator, record_ranges};
use testing::{captures, fixtures};

#[test]
fn the_seed_of_the_mutations_is_replayable() {
    let bytes = everything().finish();
    assert_eq!(plan_within_bounds(&bytes, false).unwrap(), run(&bytes).unwrap().steps.len());
    assert!(fuzzing::exercise(&bytes) > 0);
}

#[test]
fn a_capture_truncated_at_any_byte_is_rejected_and_recovered() {
    let mut seeds = vec![everything().finish(), testing::sample_capture()];
    seeds.extend(
        captures(&fixtures()).iter().map(|path| std::fs::read(path).unwrap()).filter(|it| it.len() < 7200),
    );
    assert!(seeds.len() > 3);
    for seed in &seeds {
        let mut planned = 0;
        for length in 0..seed.len() {
            assert!(plan_within_bounds(&seed[..length], false).is_err());
            planned += usize::from(plan_within_bounds(&seed[..length], true).is_ok());
        }
        // A truncated record is ignored: the records before it are a valid program.
        assert!(planned > 0);
    }
}

/// Sets every field of every record's header and payload header to each value that breaks arithmetic.
#[test]
fn extremes_in_every_field() {
    let seed = everything().finish();
    let (mut planned, mut refused) = (0, 0);
    for range in record_ranges(&seed) {
        for field in range.clone().step_by(4).take((size_of::<RecordHeader>() + 120) / 4) {
            for value in mutate::EXTREMES {
                let mut bytes = seed.clone();
                let length = 8.min(range.end - field);
                bytes[field..field + length].copy_from_slice(&value.to_le_bytes()[..length]);
                match plan_within_bounds(&bytes, false) {
                    Ok(_) => planned += 1,
                    Err(_) => refused += 1,
                }
            }
        }
    }
    assert!(planned > 5000 && refused > 5000, "{planned} {refused}");
}

#[test]
fn mutations_of_the_fixtures() {
    let mut seeds: Vec<_> = captures(&fixtures()).iter().map(|path| std::fs::read(path).unwrap()).collect();
    seeds.push(everything().finish());
    seeds.push(testing::sample_capture());
    let [planned, refused] = mutate_all(&seeds, 20_000, 1);
    assert!(planned + refused >= 20_000);
    // If all were rejected, or none, the mutations would test nothing.
    assert!(planned > 2000 && refused > 5000, "{planned} {refused}");
}

#[test]
fn mutations_are_dumped() {
    let seeds = [everything().finish(), testing::sample_capture()];
    let mut mutator = Mutator::new(3);
    for seed in &seeds {
        let ranges = record_ranges(seed);
        for _ in 0..300 {
            let mutated = mutator.mutate(seed, &ranges);
            // A dump is streamed: its memory does not depend on the file's size.
            let (_, peak) = peak_bytes(|| fuzzing::exercise(&mutated));
            assert!(peak < (1 << 20) + PEAK_PER_BYTE * mutated.len(), "{peak}");
        }
    }
}

#[test]
fn sparse_ids_do_not_amplify_memory() {
    // The smallest records that create an object: id gaps around the limit of dense lists, counts around list
    // growth.
    for step in [1, 63, 64, 65, 1 << 20, 1 << 40] {
        for count in [500, 1000, 1025, 1030, 2050, 4100] {
            let mut capture = CaptureBuilder::new();
            for _ in 0..count {
                capture.next_id += step - 1;
                capture.device();
            }
            plan_within_bounds(&capture.finish(), false).unwrap();
        }
    }
    for id in [1 << 32, 1 << 48, u64::MAX - 1] {
        let mut capture = CaptureBuilder::new();
        capture.next_id = id;
        let buffer = capture.buffer(1);
        capture.fill(whole(buffer), &[1]);
        plan_within_bounds(&capture.finish(), false).unwrap();
    }
}

/// Takes hours if planning searches all names for each record.
#[test]
fn many_scopes_are_planned_within_bounds() {
    let mut capture = CaptureBuilder::new();
    for index in 0..100_000 {
        capture.scope_begin(&format!("scope {index:024}"));
    }
    let bytes = capture.finish();
    assert_eq!(plan_within_bounds(&bytes, false).unwrap(), 100_001);
}

/// The memory of a check does not grow with the number of operations.
#[test]
fn a_check_keeps_no_operation() {
    let peak_of = |count: usize| {
        let mut capture = CaptureBuilder::new();
        let buffer = capture.buffer(16);
        (0..count).for_each(|_| capture.fill(whole(buffer), &[1]));
        let bytes = CaptureBytes::from(capture.finish());
        let opened = bytes.open(OpenOptions::default()).unwrap();
        let check = || {
            let mut check = PlanCheck::new(&bytes);
            opened.records().for_each(|record| check.add(&record.unwrap()).unwrap());
            check.finish(&bytes, &opened).map(drop)
        };
        let (checked, peak) = peak_bytes(check);
        checked.unwrap();
        peak
    };
    assert_eq!(peak_of(100), peak_of(10_000));
}

#[test]
fn many_functions_are_planned_within_bounds() {
    let mut capture = CaptureBuilder::new();
    let cache = capture.cache();
    let functions: Vec<_> = (0..50_000).map(|index| function(&index.to_string(), 0, 0)).collect();
    let executable = capture.executable_with(cache, FAKE_FORMAT, b"", &functions);
    for index in 0..1000 {
        capture.dispatch(&CaptureBuilder::kernel(executable, 49_999 - index, [1; 3]), &[], &[]);
    }
    assert!(plan_within_bounds(&capture.finish(), false).is_ok());
    capture.dispatch(&CaptureBuilder::kernel(executable, 50_000, [1; 3]), &[], &[]);
    assert!(plan_within_bounds(&capture.finish(), false).is_err());
}

#[test]
fn long_lists_are_planned_within_bounds() {
    let mut capture = CaptureBuilder::new();
    let (buffer, event) = (capture.buffer(8), capture.event());
    let commands = capture.commands(1, |it, commands| {
        it.command_wait_events(commands, &vec![event; 20_000], &[], &[]);
    });
    capture.execute(commands, &vec![whole(buffer); 20_000]);
    let waits = vec![(capture.timeline, 1); 20_000];
    capture.order(&waits, &[]).execute(0, &[]);
    plan_within_bounds(&capture.finish(), false).unwrap();
}

#[test]
fn a_plan_accepts_sizes_beyond_memory() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(u64::MAX);
    capture.range(Op::BUFFER_MAP_RANGE, buffer, u64::MAX, u64::MAX, 1, 1);
    capture.fill(common::range(buffer, u64::MAX - 1, u64::MAX), &[1]);
    capture.alloca(u64::MAX);
    capture.command_buffer(u64::MAX);
    let mut file = common::FileSpec::ranges("/gone", u64::MAX);
    file.header.file_length = U64::new(u64::MAX);
    let file = capture.file(&file);
    capture.file_read(file, u64::MAX, whole(buffer), b"x");
    plan_within_bounds(&capture.finish(), false).unwrap();
    // A run fails when the device rejects the allocation.
    assert!(run(&capture.finish()).is_err());
}

/// Overlapping records: lengths that extend into the next record or end in the previous one.
#[test]
fn overlapping_records() {
    let seed = everything().finish();
    // Excludes the last two, a failed call and a note: their payloads are not read.
    let mut ranges = record_ranges(&seed);
    ranges.truncate(ranges.len() - 2);
    for (index, range) in ranges.iter().enumerate() {
        for other in [index.wrapping_sub(1), index + 1, index + 2] {
            let Some(other) = ranges.get(other) else { continue };
            let mut bytes = seed.clone();
            let length = (other.end.max(range.end) - range.start) as u64;
            bytes[range.start..range.start + 8].copy_from_slice(&length.to_le_bytes());
            bytes[range.start + 8..range.start + 16].copy_from_slice(&(length - 96).to_le_bytes());
            if other.start > range.start {
                assert!(plan_within_bounds(&bytes, false).is_err());
            }
            let _ = plan_within_bounds(&bytes, true);
        }
    }
}
