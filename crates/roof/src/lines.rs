//! Lines of caches, and their sums.

/// A line of a cache.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u64; 8]);

/// Sums in the widest vectors that every processor of the architecture has.
#[inline(always)]
pub(crate) fn sum_portable(lines: &[Line]) -> u64 {
    let mut sums = [0u64; 32];
    let (chunks, rest) = lines.as_chunks::<4>();
    for chunk in chunks {
        for (sums, line) in sums.as_chunks_mut::<8>().0.iter_mut().zip(chunk) {
            for (sum, word) in sums.iter_mut().zip(line.0) {
                *sum = sum.wrapping_add(word);
            }
        }
    }
    let rest = rest.iter().flat_map(|line| line.0);
    sums.into_iter().chain(rest).fold(0, u64::wrapping_add)
}
