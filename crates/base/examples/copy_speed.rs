//! Throughput of copying and filling shared memory, compared with the C library's functions:
//! `cargo run --profile measure -p rehal-base --example copy_speed`.

use std::hint::black_box;
use std::time::Instant;

use rehal_base::HostMemory;

/// Minimum bytes copied per measurement.
const TOTAL_BYTES: usize = 1 << 30;

fn main() {
    println!(
        "{:>12} {:>12} {:>12} {:>8} {:>12} {:>12} {:>8}",
        "bytes", "copy", "memcpy", "", "fill", "memset", ""
    );
    for length in
        [8, 16, 31, 64, 100, 256, 1000, 2048, 4096, 16 << 10, 256 << 10, 4 << 20, 64 << 20, 512 << 20]
    {
        let source = HostMemory::allocate(length as u64).expect("memory");
        let target = HostMemory::allocate(length as u64).expect("memory");
        source.fill(0, length as u64, &[1]).expect("in range");
        let (own, mut other) = (vec![1_u8; length], vec![0_u8; length]);
        let copy =
            best(length, || target.copy_from(0, &source, 0, black_box(length as u64)).expect("in range"));
        let memcpy = best(length, || other[..black_box(length)].copy_from_slice(&own[..black_box(length)]));
        let fill = best(length, || target.fill(0, black_box(length as u64), &[7]).expect("in range"));
        let memset = best(length, || other[..black_box(length)].fill(7));
        println!(
            "{length:>12} {copy:>7.2} GB/s {memcpy:>7.2} GB/s {:>8.2} {fill:>7.2} GB/s {memset:>7.2} GB/s {:>8.2}",
            copy / memcpy,
            fill / memset
        );
    }
}

/// Throughput in GB/s, best of several rounds.
fn best(length: usize, mut run: impl FnMut()) -> f64 {
    let times = (TOTAL_BYTES / length).clamp(3, 10_000_000);
    (0..5)
        .map(|_| {
            let start = Instant::now();
            (0..times).for_each(|_| {
                run();
                black_box(());
            });
            (length * times) as f64 / start.elapsed().as_nanos() as f64
        })
        .fold(0.0, f64::max)
}
