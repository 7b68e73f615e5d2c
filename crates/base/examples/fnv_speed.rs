//! Prints the throughput of the digest and of the loop that defines it: `fnv_speed [SIZE_KIB [ROUNDS]]`.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use rehal_base::fnv::fnv1a64;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>().expect("a number"));
    let size_bytes = arguments.next().unwrap_or(1024) << 10;
    let rounds = arguments.next().unwrap_or(100).max(1);

    let mut bytes = vec![0; size_bytes];
    fastrand::Rng::with_seed(1).fill(&mut bytes);

    // Alternating, so that noise on a shared machine affects both.
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (ours_digest, ours_time) = timed(fnv1a64, &bytes);
        let (plain_digest, plain_time) = timed(definition, &bytes);
        assert_eq!(ours_digest, plain_digest, "the digests differ");
        ours.push(ours_time);
        plain.push(plain_time);
    }
    ours.sort_unstable();
    plain.sort_unstable();
    println!("{size_bytes} bytes, {rounds} rounds");
    for (name, index) in [("best", 0), ("median", rounds / 2)] {
        let gb_per_s = |time: Duration| size_bytes as f64 / time.as_secs_f64() / 1e9;
        let (ours, plain) = (gb_per_s(ours[index]), gb_per_s(plain[index]));
        println!("{name}: digest {ours:.3} GB/s, definition {plain:.3} GB/s, ratio {:.2}", ours / plain);
    }
}

fn timed(digest: fn(&[u8]) -> u64, bytes: &[u8]) -> (u64, Duration) {
    let start = Instant::now();
    let digest = black_box(digest(black_box(bytes)));
    (digest, start.elapsed())
}

fn definition(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |state, byte| {
        (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
