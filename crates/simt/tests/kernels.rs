//! Kernels of the reference compiler (sm_80), compared with the same computation in `f64`.

#![forbid(unsafe_code)]

mod common;

use common::{Run, f32s, of_f32s};
use rehal_simt::Checks;

fn values(count: usize, seed: u64) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| random.f32() * 2.0 - 1.0).collect()
}

fn assert_close(found: &[f32], expected: impl IntoIterator<Item = f64>, tolerance: f64) {
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (f64::from(*found) - expected).abs();
        assert!(difference <= tolerance, "element {index}: {found}, expected {expected}");
    }
}

#[test]
fn softmax_of_rows() {
    let input = values(7 * 33, 1);
    let run =
        Run { buffers: vec![of_f32s(&input), vec![0; 7 * 33 * 4]], checks: Checks::all(), ..Run::default() };
    let done = run.on(include_str!("ptx/softmax.ptx")).unwrap();
    let expected = input.chunks(33).flat_map(|row| {
        let sum: f64 = row.iter().map(|it| f64::from(*it).exp()).sum();
        row.iter().map(move |it| f64::from(*it).exp() / sum)
    });
    assert_close(&f32s(&done.buffers[1]), expected, 1e-7);
    assert_eq!(done.report.findings, []);
}

#[test]
fn matrices_are_multiplied_by_any_number_of_threads() {
    let (a, b) = (values(128 * 128, 2), values(128 * 128, 3));
    let run = Run {
        grid: [4, 1, 1],
        block: [32, 8, 1],
        buffers: vec![of_f32s(&a), of_f32s(&b), vec![0; 128 * 128 * 4]],
        ..Run::default()
    };
    let text = include_str!("ptx/matmul_128.ptx");
    let first = run.on(text).unwrap();
    let expected = (0..128 * 128).map(|at| {
        let (row, column) = (at / 128, at % 128);
        (0..128).map(|k| f64::from(a[row * 128 + k]) * f64::from(b[k * 128 + column])).sum::<f64>()
    });
    assert_close(&f32s(&first.buffers[2]), expected, 1e-5);
    let second = Run { threads: 3, ..run }.on(text).unwrap();
    assert_eq!(first.buffers, second.buffers);
    assert_eq!(first.report.thread_instructions, second.report.thread_instructions);
}

/// The compiler lays the block after a barrier before the block that lane 0 runs in between, so that a warp
/// reaches the barrier in two parts.
#[test]
fn a_warp_reaches_a_barrier_in_parts() {
    let (input, scale) = (values(5 * 256, 4), values(256, 5));
    let run = Run {
        grid: [3, 1, 1],
        block: [64, 1, 1],
        dynamic_shared_bytes: 8,
        buffers: vec![of_f32s(&input), of_f32s(&scale), vec![0; 5 * 256 * 4]],
        constants: vec![5, 0],
        ..Run::default()
    };
    let done = run.on(include_str!("ptx/rms.ptx")).unwrap();
    let expected = input.chunks(256).flat_map(|row| {
        let mean = row.iter().map(|it| f64::from(*it).powi(2)).sum::<f64>() / 256.0;
        let factor = 1.0 / (mean + 1e-5).sqrt();
        row.iter().zip(&scale).map(move |(it, scale)| f64::from(*it) * factor * f64::from(*scale))
    });
    assert_close(&f32s(&done.buffers[2]), expected, 1e-5);
}
