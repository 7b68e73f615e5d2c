//! Inputs of integers that differ from one repetition to the next, although integers may be indices: groups of them change places.

/// Bytes that change places together, so that numbers of all types, and pairs of 64 bits, stay whole.
const GROUP_BYTES: usize = 16;
/// Pairs of a block that can change places.
const MIN_PAIRS: usize = 24;

/// What a kernel may do with an integer of 32 or 64 bits: below a limit, it may be an index, an offset or a size.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexLimit(u32);

impl IndexLimit {
    /// Of a kernel to which so many bytes are bound: an index of their bits at most is below the limit.
    pub(super) const fn of(bound_bytes: u64) -> Self {
        let bits = bound_bytes.saturating_mul(8);
        Self(if bits < u32::MAX as u64 { bits as u32 } else { u32::MAX })
    }

    /// Whether no integer of 32 or 64 bits among these bytes can be an index but 0, which is one of everything that is bound.
    fn admits(self, group: &[u8; GROUP_BYTES]) -> bool {
        let mut words = group.as_chunks::<4>().0.iter().map(|it| i32::from_le_bytes(*it));
        words.all(|word| word == 0 || word.unsigned_abs() >= self.0)
    }
}

/// Exchanges groups of bytes of a block that starts at `place`, of those in which nothing can be an index: so a kernel finds no integer of
/// 32 or 64 bits in a place in which it could be out of bounds, and none of 8 or 16 bits that was not in the block before. It is its own
/// inverse. Returns whether anything changes.
///
/// Half of the pairs of groups change places, by random bits of the variant; with fewer than [`MIN_PAIRS`], none do, since variants
/// would return.
pub(super) fn exchange(block: &mut [u8], place: u64, variant: u64, limit: IndexLimit) -> bool {
    let groups = block.as_chunks_mut::<GROUP_BYTES>().0;
    let distances = groups.len().next_power_of_two() as u64;
    let distance = (mixed(variant) & (distances - 1)).max(1) as usize;
    let partner = |groups: &[[u8; GROUP_BYTES]], index: usize| {
        let (group, other) = (&groups[index], index ^ distance);
        let is_pair = |it: &&[u8; GROUP_BYTES]| {
            *it != group && limit.admits(group) && limit.admits(it) && have_same_zeros(group, it)
        };
        // Each pair once.
        groups.get(other).filter(|_| index < other).filter(is_pair).map(|_| other)
    };
    let count = (0..groups.len()).filter(|index| partner(groups, *index).is_some()).count();
    if count < MIN_PAIRS {
        return false;
    }
    let mut is_changed = false;
    for index in 0..groups.len() {
        let is_chosen = mixed(place.wrapping_add(index as u64) ^ variant) & 1 == 0;
        if let (true, Some(other)) = (is_chosen, partner(groups, index)) {
            groups.swap(index, other);
            is_changed = true;
        }
    }
    is_changed
}

/// Whether the same words are 0, which may be indices: others must not take their places.
fn have_same_zeros(one: &[u8; GROUP_BYTES], other: &[u8; GROUP_BYTES]) -> bool {
    let words = one.as_chunks::<4>().0.iter().zip(other.as_chunks::<4>().0);
    words.into_iter().all(|(one, other)| (*one == [0; 4]) == (*other == [0; 4]))
}

/// A bijection in which each bit depends on all bits of `word`.
pub(super) fn mixed(word: u64) -> u64 {
    let word = (word ^ (word >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    word ^ (word >> 33)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn sorted(bytes: &[u8]) -> Vec<[u8; GROUP_BYTES]> {
        let mut groups = bytes.as_chunks::<GROUP_BYTES>().0.to_vec();
        groups.sort_unstable();
        groups
    }

    #[test]
    fn small_integers_change_places_and_variants_differ() {
        let mut random = fastrand::Rng::with_seed(5);
        let limit = IndexLimit::of(1 << 20);
        for length in [4096, 2000, 400] {
            // As weights of 8 bits, of which most are not small.
            let before: Vec<u8> = (0..length).map(|_| random.i8(-100..100) as u8 | 1).collect();
            let mut seen = HashSet::new();
            let mut changed = 0;
            for number in 0..64 {
                let variant = random.u64(1..) << 2 | number & 3;
                let mut after = before.clone();
                let is_changed = exchange(&mut after, 4096, variant, limit);
                assert_eq!(is_changed, after != before, "{variant:x}");
                assert_eq!(sorted(&after), sorted(&before));
                changed += usize::from(is_changed);
                seen.insert(after.clone());
                exchange(&mut after, 4096, variant, limit);
                assert_eq!(after, before);
            }
            // No variant is another one, except of a few groups, which stay.
            let expected = if length == 400 { (0, 1) } else { (64, 64) };
            assert_eq!((changed, seen.len()), expected, "{length}");
        }
    }

    /// Whatever may be an index of what is bound stays where it is.
    #[test]
    fn indices_stay() {
        let mut random = fastrand::Rng::with_seed(7);
        for bound_bytes in [64, 4096, 1 << 20, 1 << 40] {
            let limit = IndexLimit::of(bound_bytes);
            let below = bound_bytes.min(i32::MAX as u64) as i32;
            for _ in 0..100 {
                let words: Vec<i32> = (0..256)
                    .map(|_| match random.u8(0..4) {
                        0 => random.i32(-below..below),
                        1 => 0,
                        _ => random.i32(..),
                    })
                    .collect();
                let before: Vec<u8> = words.iter().flat_map(|it| it.to_le_bytes()).collect();
                let mut after = before.clone();
                exchange(&mut after, 0, random.u64(..), limit);
                let may_be_index = |it: i32| it != 0 && u64::from(it.unsigned_abs()) < 8 * bound_bytes;
                for (old, new) in words.iter().zip(after.as_chunks::<4>().0) {
                    let new = i32::from_le_bytes(*new);
                    let are_none = ![*old, new].into_iter().any(|it| it == 0 || may_be_index(it));
                    assert!(*old == new || are_none, "{old} {new}");
                }
            }
        }
        // Offsets, in 64 bits.
        let mut offsets: Vec<u8> = (0..512_u64).flat_map(|it| (it * 100).to_le_bytes()).collect();
        assert!(!exchange(&mut offsets, 0, 3, IndexLimit::of(51_200)));
    }
}
