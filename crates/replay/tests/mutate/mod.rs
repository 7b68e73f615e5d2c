//! Seeded mutations of captures: of single bits, of fields, of the order of records.

pub mod bounds;

use std::ops::Range;

use fastrand::Rng;
use rehal_capture::layout::{FileHeader, RecordHeader};
use rehal_capture::{Capture, OpenOptions};

/// Values that break arithmetic, and harmless ones.
pub const EXTREMES: [u64; 8] = [0, 1, 2, u64::MAX, u64::MAX - 1, 1 << 32, u64::MAX / 32 + 1, u32::MAX as u64];

/// The ranges of the readable records of a capture.
pub fn record_ranges(bytes: &[u8]) -> Vec<Range<usize>> {
    let Ok(capture) = Capture::open(bytes, OpenOptions { recover: true }) else { return Vec::new() };
    let range = |record: rehal_capture::Record<'_>| {
        record.offset as usize..(record.offset + record.header.record_length.get()) as usize
    };
    capture.records().map_while(Result::ok).map(range).collect()
}

/// Generates mutations of a seed.
pub struct Mutator(Rng);

impl Mutator {
    pub fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    /// A random boolean.
    pub fn coin(&mut self) -> bool {
        self.0.bool()
    }

    /// A mutated copy of `seed`, whose records are at `ranges`. Half of the copies with rearranged
    /// records are renumbered, so that a reader accepts them.
    pub fn mutate(&mut self, seed: &[u8], ranges: &[Range<usize>]) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        for _ in 0..=self.below(2) {
            match self.below(8) {
                0 => self.flip_bit(&mut bytes),
                1 => self.set_byte(&mut bytes),
                2..=4 => self.set_field(&mut bytes, ranges),
                5 => self.splice(&mut bytes),
                6 => self.swap_lengths(&mut bytes, ranges),
                // Last, since it invalidates `ranges`.
                _ => return self.rearrange(&bytes, ranges),
            }
        }
        bytes
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0.usize(..bound.max(1))
    }

    fn flip_bit(&mut self, bytes: &mut [u8]) {
        let at = self.below(bytes.len());
        bytes[at] ^= 1 << self.below(8);
    }

    fn set_byte(&mut self, bytes: &mut [u8]) {
        let at = self.below(bytes.len());
        bytes[at] = self.0.u8(..);
    }

    /// Sets a field of 4 or 8 bytes in or after a record's header to an extreme, to one more or
    /// less, or to another record's value.
    fn set_field(&mut self, bytes: &mut [u8], ranges: &[Range<usize>]) {
        let Some(range) = self.pick(ranges) else { return self.flip_bit(bytes) };
        let within = self.below(range.len().min(size_of::<RecordHeader>() + 120)) / 4 * 4;
        let width = if self.coin() { 8 } else { 4 };
        let at = range.start + within;
        let Some(field) = bytes.get(at..at + width) else { return };
        let mut value = [0; 8];
        value[..width].copy_from_slice(field);
        let was = u64::from_le_bytes(value);
        let new = match self.below(4) {
            0 => was.wrapping_add(1),
            1 => was.wrapping_sub(1),
            2 => self.borrow_field(bytes, ranges, within),
            _ => EXTREMES[self.below(EXTREMES.len())],
        };
        bytes[at..at + width].copy_from_slice(&new.to_le_bytes()[..width]);
    }

    fn borrow_field(&mut self, bytes: &[u8], ranges: &[Range<usize>], within: usize) -> u64 {
        let at = self.pick(ranges).map_or(0, |range| range.start + within);
        bytes.get(at..at + 8).map_or(0, |field| u64::from_le_bytes(field.try_into().unwrap()))
    }

    /// Copies a run of bytes to another place.
    fn splice(&mut self, bytes: &mut [u8]) {
        let length = self.below(128.min(bytes.len()));
        let (from, to) = (self.below(bytes.len() - length), self.below(bytes.len() - length));
        bytes.copy_within(from..from + length, to);
    }

    /// Swaps the two lengths of two records.
    fn swap_lengths(&mut self, bytes: &mut [u8], ranges: &[Range<usize>]) {
        let (Some(one), Some(other)) = (self.pick(ranges), self.pick(ranges)) else { return };
        for offset in 0..16 {
            bytes.swap(one.start + offset, other.start + offset);
        }
    }

    /// Duplicates, removes or moves records.
    fn rearrange(&mut self, bytes: &[u8], ranges: &[Range<usize>]) -> Vec<u8> {
        let mut order: Vec<_> = (0..ranges.len()).collect();
        for _ in 0..=self.below(3) {
            if order.is_empty() {
                break;
            }
            let (at, to) = (self.below(order.len()), self.below(order.len()));
            match self.below(3) {
                0 => order.insert(to, order[at]),
                1 => drop(order.remove(at)),
                _ => order.swap(at, to),
            }
        }
        let mut mutated = bytes[..size_of::<FileHeader>()].to_vec();
        let number_again = self.coin();
        for (ordinal, index) in order.into_iter().enumerate() {
            let at = mutated.len();
            mutated.extend_from_slice(&bytes[ranges[index].clone()]);
            if number_again {
                mutated[at + 16..at + 24].copy_from_slice(&(ordinal as u64).to_le_bytes());
            }
        }
        let length = mutated.len() as u64;
        mutated[16..24].copy_from_slice(&length.to_le_bytes());
        mutated
    }

    fn pick(&mut self, ranges: &[Range<usize>]) -> Option<Range<usize>> {
        if ranges.is_empty() { None } else { Some(ranges[self.below(ranges.len())].clone()) }
    }
}
