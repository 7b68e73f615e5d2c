use super::*;

/// Bytes that differ from their neighbours.
fn noise(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|index| (index as u8).wrapping_mul(167).wrapping_add(seed)).collect()
}

/// Lengths around every threshold between copy strategies.
fn lengths() -> impl Iterator<Item = usize> {
    let limits = [0, 64, 128, 192, 1024, 5000];
    let around = limits.into_iter().flat_map(|limit: usize| limit.saturating_sub(3)..limit + 4);
    if cfg!(miri) { vec![0, 1, 7, 16, 33, 70] } else { (0..150).chain(around).collect::<Vec<_>>() }
        .into_iter()
}

#[test]
fn copies_match_copy_within_at_any_distance() {
    for length in lengths() {
        for distance in [0, 1, 2, 7, 15, 16, 17, 31, 63, 64, 65, 100, 3000] {
            for is_up in [false, true] {
                let (from, to) = if is_up { (0, distance) } else { (distance, 0) };
                let mut expected = noise(length + distance, 3);
                let mut found = expected.clone();
                expected.copy_within(from..from + length, to);
                let start = found.as_mut_ptr();
                // SAFETY: both ranges are within the vector, which is exclusively owned.
                unsafe { copy(start.add(from), start.add(to), length) };
                assert!(found == expected, "{length} bytes from {from} to {to}");
            }
        }
    }
}

#[test]
fn copies_write_nothing_else() {
    for length in lengths() {
        let source = noise(length, 9);
        let mut target = noise(length + 32, 5);
        let mut expected = target.clone();
        expected[16..16 + length].copy_from_slice(&source);
        // SAFETY: the target has space for the source at offset 16.
        unsafe { copy_in(&source, target.as_mut_ptr().add(16)) };
        assert_eq!(target, expected);
        let mut back = vec![0; length];
        // SAFETY: as above.
        unsafe { copy_out(target.as_ptr().add(16), &mut back) };
        assert_eq!(back, source);
        expected[16..16 + length].fill(7);
        // SAFETY: as above.
        unsafe { set(target.as_mut_ptr().add(16), length, 7) };
        assert_eq!(target, expected);
    }
}

fn scalar<const N: usize>() {
    for offset in 0..9 {
        let mut bytes = noise(40, 1);
        let mut expected = bytes.clone();
        let value: [u8; N] = noise(N, 200).try_into().unwrap();
        expected[offset..offset + N].copy_from_slice(&value);
        let start = bytes.as_mut_ptr();
        // SAFETY: `offset + N` is at most 28, below the length.
        let (before, after) = unsafe {
            let before: [u8; N] = load(start.add(offset));
            store(start.add(offset), value);
            (before, load::<N>(start.add(offset)))
        };
        assert_eq!(before, noise(40, 1)[offset..offset + N]);
        assert_eq!((after, &bytes), (value, &expected));
    }
}

#[test]
fn scalars_of_any_size_at_any_offset() {
    scalar::<0>();
    scalar::<1>();
    scalar::<2>();
    scalar::<3>();
    scalar::<4>();
    scalar::<5>();
    scalar::<8>();
    scalar::<12>();
    scalar::<16>();
    scalar::<19>();
}

/// Both implementations are equivalent, so Miri's results for the portable one carry over.
#[test]
fn portable_copies_match_assembly() {
    for length in lengths() {
        for (from, to) in [(0, 0), (0, 5), (5, 0), (0, 300), (300, 0)] {
            let mut first = noise(length + 300, 11);
            let mut second = first.clone();
            let (one, two) = (first.as_mut_ptr(), second.as_mut_ptr());
            // SAFETY: the ranges are within the vectors.
            unsafe {
                copy(one.add(from), one.add(to), length);
                portable::copy(two.add(from), two.add(to), length);
            }
            assert!(first == second);
        }
    }
}
