//! Which operations of two captures correspond to each other.

use std::collections::HashMap;
use std::ops::Range;

use rehal_judge::{Aligner, NONE};

use super::capture_pass::{Entry, Role, Side};

/// Maximum number of positions by which a block is shifted.
const MAX_SHIFT: usize = 1 << 16;

/// The operations that correspond to each other.
pub(super) struct Pairs {
    /// The partner of each operation of the first capture, or [`NONE`].
    pub before: Vec<u32>,
    /// The partner of each operation of the second capture, or [`NONE`].
    pub after: Vec<u32>,
    /// Of those without a partner: the same operation at another place of the second capture.
    pub moved: HashMap<u32, u32>,
    /// The same, of the second capture.
    pub moved_after: HashMap<u32, u32>,
}

/// Aligns the operations: at first those that are the same but for ids, then in the gaps similar ones, and
/// then any with the same name.
pub(super) fn align(before: &Side<'_>, after: &Side<'_>) -> Pairs {
    let (first, second, count) = tokens(&before.entries, &after.entries, |entry| entry.exact);
    let mut exact = Aligner::new(&first, &second, count);
    exact.align(0..first.len(), 0..second.len());
    let mut pairs = Pairs::new(exact.partners, second.len());
    if pairs.before.iter().chain(&pairs.after).all(|partner| *partner != NONE) {
        return pairs;
    }
    pairs.shift_blocks(&before.entries, &first, &second);
    let (first, second, count) = tokens(&before.entries, &after.entries, |entry| entry.similar);
    let mut similar = Aligner::new(&first, &second, count);
    for (x, y) in pairs.gaps() {
        similar.align(x, y);
    }
    for (x, y) in (0u32..).zip(similar.partners).filter(|(_, y)| *y != NONE) {
        pairs.pair(x, y);
    }
    pairs.pair_by_name(before, after);
    pairs.find_moved(before, after);
    pairs
}

/// Numbers the keys of both lists from zero.
fn tokens(before: &[Entry], after: &[Entry], key: impl Fn(&Entry) -> u64) -> (Vec<u32>, Vec<u32>, usize) {
    let mut numbers: HashMap<u64, u32> = HashMap::new();
    let mut of = |entries: &[Entry]| -> Vec<u32> {
        let tokens = entries.iter().map(|entry| {
            let next = numbers.len() as u32;
            *numbers.entry(key(entry)).or_insert(next)
        });
        tokens.collect()
    };
    let (first, second) = (of(before), of(after));
    (first, second, numbers.len())
}

impl Pairs {
    fn new(before: Vec<u32>, after_count: usize) -> Self {
        let mut after = vec![NONE; after_count];
        for (x, y) in (0u32..).zip(&before).filter(|(_, y)| **y != NONE) {
            after[*y as usize] = x;
        }
        Self { before, after, moved: HashMap::new(), moved_after: HashMap::new() }
    }

    fn pair(&mut self, x: u32, y: u32) {
        (self.before[x as usize], self.after[y as usize]) = (y, x);
    }

    /// The place of an operation in the other capture: its partner, or where it was moved to.
    pub(super) fn to_after(&self, x: u32) -> Option<u32> {
        Some(self.before[x as usize]).filter(|y| *y != NONE).or_else(|| self.moved.get(&x).copied())
    }

    /// The place of an operation of the second capture in the first.
    pub(super) fn to_before(&self, y: u32) -> Option<u32> {
        Some(self.after[y as usize]).filter(|x| *x != NONE).or_else(|| self.moved_after.get(&y).copied())
    }

    /// The ranges without partners between two pairs, of which neither is empty.
    fn gaps(&self) -> Vec<(Range<usize>, Range<usize>)> {
        let mut gaps = Vec::new();
        let (mut x, mut y) = (0, 0);
        while x < self.before.len() && y < self.after.len() {
            let first = self.before[x..].iter().take_while(|partner| **partner == NONE).count();
            let second = self.after[y..].iter().take_while(|partner| **partner == NONE).count();
            if first != 0 && second != 0 {
                gaps.push((x..x + first, y..y + second));
            }
            (x, y) = (x + first + 1, y + second + 1);
        }
        gaps
    }

    /// Of the equivalent places of a block without partners, prefers the one where it starts with a scope, or
    /// with the creation of an object.
    fn shift_blocks(&mut self, entries: &[Entry], first: &[u32], second: &[u32]) {
        shift_blocks(&mut self.before, &mut self.after, first, |x| start_of(&entries[x]));
        // The entries of the second capture are the same as those of the first where tokens are.
        let mut roles: HashMap<u32, u8> = HashMap::new();
        for (token, entry) in first.iter().zip(entries) {
            roles.insert(*token, start_of(entry));
        }
        shift_blocks(&mut self.after, &mut self.before, second, |y| {
            roles.get(&second[y]).copied().unwrap_or_default()
        });
    }

    /// Pairs what is left of gaps with the same names of operations in the same order.
    fn pair_by_name(&mut self, before: &Side<'_>, after: &Side<'_>) {
        for (x, y) in self.gaps() {
            let (first, second) = (&before.entries[x.clone()], &after.entries[y.clone()]);
            let is_same = first.len() == second.len()
                && first.iter().zip(second).all(|(first, second)| first.code == second.code);
            if is_same {
                x.zip(y).for_each(|(x, y)| self.pair(x as u32, y as u32));
            }
        }
    }

    /// Finds operations without partners that are at another place: the same ones, and executables with the
    /// same functions.
    fn find_moved(&mut self, before: &Side<'_>, after: &Side<'_>) {
        self.find_moved_by(before, after, |entry| Some(entry.exact).filter(|_| is_moved(entry.role)));
        self.find_moved_by(before, after, |entry| {
            Some(entry.similar).filter(|_| entry.role == Role::Executable)
        });
    }

    fn find_moved_by(&mut self, before: &Side<'_>, after: &Side<'_>, key: impl Fn(&Entry) -> Option<u64>) {
        let mut places: HashMap<u64, std::collections::VecDeque<u32>> = HashMap::new();
        for (x, entry) in (0u32..).zip(&before.entries) {
            if self.to_after(x).is_none()
                && let Some(key) = key(entry)
            {
                places.entry(key).or_default().push_back(x);
            }
        }
        for (y, entry) in (0u32..).zip(&after.entries) {
            let Some(key) = key(entry).filter(|_| self.to_before(y).is_none()) else { continue };
            if let Some(x) = places.get_mut(&key).and_then(|places| places.pop_front()) {
                self.moved.insert(x, y);
                self.moved_after.insert(y, x);
            }
        }
    }
}

/// Whether an operation can be recognized at another place: others are the same everywhere.
fn is_moved(role: Role) -> bool {
    matches!(role, Role::Executable | Role::Work)
}

/// How well a block starts with an entry.
fn start_of(entry: &Entry) -> u8 {
    match entry.role {
        Role::ScopeBegin => 3,
        Role::Creation | Role::Executable => 2,
        Role::Begin => 1,
        _ => 0,
    }
}

/// Shifts each block without partners in `own` to the best place among those with the same result.
fn shift_blocks(own: &mut [u32], other: &mut [u32], tokens: &[u32], start_of: impl Fn(usize) -> u8) {
    let mut at = 0;
    while at < own.len() {
        if own[at] != NONE {
            at += 1;
            continue;
        }
        let length = own[at..].iter().take_while(|partner| **partner == NONE).count();
        let mut block = at..at + length;
        at = block.end;
        let mut best = (start_of(block.start), block.start);
        // Upwards: the last operation of the block gets the partner of the one before the block.
        for start in (block.start.saturating_sub(MAX_SHIFT)..block.start).rev() {
            if own[start] == NONE || tokens[start] != tokens[start + length] {
                break;
            }
            if start_of(start) > best.0 {
                best = (start_of(start), start);
            }
            // All places are found within one period.
            if block.start - start >= length {
                break;
            }
        }
        // Downwards.
        for start in block.start + 1..=(block.start + length.min(MAX_SHIFT)).min(own.len() - length) {
            if own[start + length - 1] == NONE || tokens[start - 1] != tokens[start + length - 1] {
                break;
            }
            if start_of(start) > best.0 {
                best = (start_of(start), start);
            }
        }
        while block.start > best.1 {
            block = block.start - 1..block.end - 1;
            exchange(own, other, block.start, block.end);
        }
        while block.start < best.1 {
            exchange(own, other, block.end, block.start);
            block = block.start + 1..block.end + 1;
        }
        at = at.max(block.end);
    }
}

/// Passes the partner of `from` on to `to`, which has none.
fn exchange(own: &mut [u32], other: &mut [u32], from: usize, to: usize) {
    let partner = std::mem::replace(&mut own[from], NONE);
    own[to] = partner;
    other[partner as usize] = to as u32;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this test, operations between two pairs may not be compared with one another, or be with those
    /// between two others.
    #[test]
    fn gaps_are_between_the_same_two_pairs() {
        let gaps = |before: &[u32], after_count| Pairs::new(before.to_vec(), after_count).gaps();
        assert_eq!(gaps(&[], 3), []);
        assert_eq!(gaps(&[NONE; 2], 3), [(0..2, 0..3)]);
        // Of the gap between the pairs, one side is empty.
        assert_eq!(gaps(&[NONE, 2, 3, NONE, NONE, 5, NONE], 7), [(0..1, 0..2), (3..5, 4..5), (6..7, 6..7)]);
        assert_eq!(gaps(&[0, NONE, NONE, 1, NONE], 4), [(4..5, 2..4)]);
        assert_eq!(gaps(&[0, 2, NONE], 3), []);
        assert_eq!(gaps(&[0, 2], 5), []);
    }

    /// Without this test, a difference may begin within a scope, or a shifted operation be paired with one
    /// that it is not equal to.
    #[test]
    fn a_block_is_shifted_to_the_best_of_the_places_with_the_same_result() {
        let mut random = fastrand::Rng::with_seed(4);
        let mut shifted = [0; 3];
        for _ in 0..4000 {
            let count = random.usize(1..14);
            let length = random.usize(1..=count);
            let first = random.usize(0..=count - length);
            let kinds = random.u32(1..4);
            let tokens: Vec<u32> = (0..count).map(|_| random.u32(0..kinds)).collect();
            let scores: Vec<u8> = (0..count).map(|_| random.u8(0..4)).collect();
            let own_of = |first: usize| -> Vec<u32> {
                let paired = |it: usize| if it < first { it } else { it.wrapping_sub(length) } as u32;
                (0..count)
                    .map(|it| if (first..first + length).contains(&it) { NONE } else { paired(it) })
                    .collect()
            };
            let (mut own, mut other) = (own_of(first), Pairs::new(own_of(first), count - length).after);
            shift_blocks(&mut own, &mut other, &tokens, |at| scores[at]);
            // The nearest place above, then below, whose score is higher than of all that are nearer.
            let above =
                (1..=length.min(first)).take_while(|by| tokens[first - by] == tokens[first + length - by]);
            let most = length.min(count - length - first);
            let below = (0..most).take_while(|by| tokens[first + by] == tokens[first + length + by]);
            let places = above.map(|by| first - by).chain(below.map(|by| first + by + 1));
            let best = places.fold(first, |best, at| if scores[at] > scores[best] { at } else { best });
            assert_eq!(own, own_of(best), "{first} {length} {tokens:?} {scores:?}");
            assert_eq!(
                other,
                Pairs::new(own, count - length).after,
                "{first} {length} {tokens:?} {scores:?}"
            );
            shifted[usize::from(best > first) + 2 * usize::from(best < first)] += 1;
        }
        assert!(shifted.iter().all(|count| *count > 100), "{shifted:?}");
    }
}
