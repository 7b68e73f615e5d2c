//! FNV-1a over whole blocks, with the parts of a block computed in parallel.
//!
//! The definition, `h' = (h ^ byte) * PRIME`, has a dependency chain of one multiplication per byte. Three
//! facts break that chain; all arithmetic is modulo a power of two, where carries only propagate upwards.
//!
//! 1. *A part needs only the low byte of the state it starts from.* The exclusive or changes only
//!    the low byte, so `h ^ byte = h + d` with `d` a function of `byte` and the low byte of `h`; and
//!    the low bytes follow each other on their own, as `l' = (l ^ byte) * 0xb3 mod 256`. Hence n
//!    bytes turn `h` into `h * PRIME^n + c`, where `c` depends on the bytes and on the low byte of
//!    `h` alone: a chain that starts from just that low byte, `l`, ends in some `r`, and the true
//!    state is `r + (h - l) * PRIME^n`. So a block's segments run as independent chains, once the
//!    low byte at the start of each is known.
//! 2. *Bit k of a low byte depends only on bits up to k,* and the start's own bit k only flips it.
//!    So cut the block into many lanes. Where every lane knows its start below bit k, run each lane
//!    twice, with bit k clear and with bit k set; then one walk over the lanes gives bits k and
//!    k + 1 of every start. Three runs over all lanes, which fill vectors, yield bits 2 to 7.
//! 3. *Bits 0 and 1 are linear.* For `x = l ^ byte` they become `x0` and `x1 ^ x0`. So over an even
//!    number of bytes, bit 0 flips with the parity of all bits 0, and bit 1 with the parity of all
//!    bits 1 and of the bits 0 at odd offsets: one exclusive or over the lane tells both.
//!
//! The chains use the scalar multiplier and the lanes the vector units, so the lanes of one block run
//! interleaved with the chains of the block before it.

use super::PRIME;

/// Parallel chains: as many as the latency of a multiplication in cycles, and no more than registers hold.
const SEGMENTS: usize = 4;
/// 24 lanes with two guesses each are six vectors of 16 bytes: they stay in registers.
const LANES_PER_SEGMENT: usize = 6;
const LANES: usize = SEGMENTS * LANES_PER_SEGMENT;
/// Pairs of bytes in a lane. More rows amortise the walks over the lanes, but a block and its lanes must both
/// fit in the L1 cache.
const ROWS: usize = 128;
const LANE_BYTES: usize = ROWS * 2;
/// Runs over the lanes, two bits each.
const RUNS: usize = 3;
/// Bytes that each chain hashes while the lanes hash a row.
const STEPS: usize = 4;
const SEGMENT_BYTES: usize = LANES_PER_SEGMENT * LANE_BYTES;
pub(super) const BLOCK_BYTES: usize = SEGMENTS * SEGMENT_BYTES;

const _: () = assert!(RUNS * ROWS * STEPS == SEGMENT_BYTES, "the runs cover a whole segment");

/// `PRIME^SEGMENT_BYTES`.
const SEGMENT_POWER: u64 = {
    let (mut power, mut count) = (1_u64, 0);
    while count < SEGMENT_BYTES {
        power = power.wrapping_mul(PRIME);
        count += 1;
    }
    power
};

/// What a chain hashes during one run over the lanes of the next block.
type Part = [[u8; STEPS]; ROWS];
type Segment = [Part; RUNS];
type Block = [Segment; SEGMENTS];
/// One word per lane.
type Row = [u16; LANES];

/// Hashes the whole blocks of `bytes`; returns the state after them and the remaining bytes. Hashes nothing
/// if there are too few blocks to amortise the start.
pub(super) fn update(mut state: u64, bytes: &[u8]) -> (u64, &[u8]) {
    let (blocks, rest) = as_blocks(bytes);
    if blocks.len() < 2 {
        return (state, bytes);
    }
    let mut lanes = Lanes::new();
    lanes.load(&blocks[0]);
    // No block precedes the first, so the results of these chains are discarded.
    lanes.resolve(state as u8, &blocks[0], &mut [0; SEGMENTS]);
    for (index, block) in blocks.iter().enumerate() {
        let starts = lanes.segment_starts();
        let mut chains = starts;
        // After the last block the lanes keep its bytes; what they resolve to is not read.
        if let Some(next) = blocks.get(index + 1) {
            lanes.load(next);
        }
        lanes.resolve(lanes.end, block, &mut chains);
        for (chain, start) in chains.iter().zip(starts) {
            state = chain.wrapping_add(state.wrapping_sub(start).wrapping_mul(SEGMENT_POWER));
        }
    }
    (state, rest)
}

fn as_blocks(bytes: &[u8]) -> (&[Block], &[u8]) {
    let (steps, _) = bytes.as_chunks::<STEPS>();
    let (parts, _) = steps.as_chunks::<ROWS>();
    let (segments, _) = parts.as_chunks::<RUNS>();
    let (blocks, _) = segments.as_chunks::<SEGMENTS>();
    (blocks, &bytes[blocks.len() * BLOCK_BYTES..])
}

/// The low bytes of the states in one block, lane by lane.
struct Lanes {
    /// Pairs of bytes, a row being one pair per lane.
    rows: [Row; ROWS],
    /// XOR of all rows.
    folded: Row,
    /// The low byte of the state at the start of each lane.
    starts: [u8; LANES],
    /// The low byte of the state at the end of the block.
    end: u8,
}

impl Lanes {
    fn new() -> Self {
        Self { rows: [[0; LANES]; ROWS], folded: [0; LANES], starts: [0; LANES], end: 0 }
    }

    /// Loads the bytes of `block`; resolved starts are kept until `resolve`.
    fn load(&mut self, block: &Block) {
        let (lanes, _) = block.as_flattened().as_flattened().as_flattened().as_chunks::<LANE_BYTES>();
        // Eight lanes at a time form whole vectors.
        const TOGETHER: usize = 8;
        let (groups, _) = lanes.as_chunks::<TOGETHER>();
        for (group, lanes) in groups.iter().enumerate() {
            for (index, row) in self.rows.iter_mut().enumerate() {
                for (lane, bytes) in lanes.iter().enumerate() {
                    row[group * TOGETHER + lane] =
                        u16::from_le_bytes([bytes[index * 2], bytes[index * 2 + 1]]);
                }
            }
        }
        let mut folded = [0; LANES];
        for row in &self.rows {
            for lane in 0..LANES {
                folded[lane] ^= row[lane];
            }
        }
        self.folded = folded;
    }

    /// Resolves the starts of the lanes for a block that starts from `start`, and meanwhile hashes all of
    /// `block` into `chains`.
    fn resolve(&mut self, start: u8, block: &Block, chains: &mut [u64; SEGMENTS]) {
        self.walk_linear_bits(start);
        for run in 0..RUNS {
            let bit = 2 + 2 * run;
            let clear = self.starts.map(u16::from);
            let mut ends = [clear, clear.map(|low| low | 1 << bit)];
            run_interleaved(&self.rows, &mut ends, block.each_ref().map(|segment| &segment[run]), chains);
            self.walk_bits(start, bit, &ends);
        }
    }

    fn walk_linear_bits(&mut self, start: u8) {
        let mut low = start & 0b11;
        for (lane, folded) in self.starts.iter_mut().zip(self.folded) {
            *lane = low;
            let [even, odd] = folded.to_le_bytes();
            low ^= (even ^ odd ^ odd << 1) & 0b11;
        }
        self.end = low;
    }

    /// Extends the starts by bits `bit` and `bit + 1`: `ends` are the low bytes at the end of the lanes, by
    /// the guess of `bit`, with bit `bit + 1` clear.
    fn walk_bits(&mut self, start: u8, bit: usize, ends: &[Row; 2]) {
        let known = 0xff >> (6 - bit);
        let mut low = start & known;
        for (lane, start) in self.starts.iter_mut().enumerate() {
            *start = low;
            // Indexing instead of a branch, which random bits would mispredict half of the time.
            let guess = usize::from(low >> bit & 1);
            low = (ends[guess][lane] as u8 ^ low & 2 << bit) & known;
        }
        self.end = low;
    }

    fn segment_starts(&self) -> [u64; SEGMENTS] {
        std::array::from_fn(|segment| self.starts[segment * LANES_PER_SEGMENT].into())
    }
}

/// Runs all lanes from both guesses through `rows`, and each chain through its part.
///
/// The low half of a word is the low byte of a lane's state. The high half is garbage: carries only propagate
/// upwards, so it never reaches the low half and needs no mask.
#[inline(never)] // On its own it keeps everything in registers.
fn run_interleaved(
    rows: &[Row; ROWS],
    guesses: &mut [Row; 2],
    parts: [&Part; SEGMENTS],
    chains: &mut [u64; SEGMENTS],
) {
    const LOW_PRIME: u16 = PRIME as u8 as u16;
    let [mut clear, mut set] = *guesses;
    let mut states = *chains;
    for (index, row) in rows.iter().enumerate() {
        for shift in [0, 8] {
            for lane in 0..LANES {
                clear[lane] = (clear[lane] ^ row[lane] >> shift).wrapping_mul(LOW_PRIME);
            }
            for lane in 0..LANES {
                set[lane] = (set[lane] ^ row[lane] >> shift).wrapping_mul(LOW_PRIME);
            }
        }
        for step in 0..STEPS {
            for (state, part) in states.iter_mut().zip(parts) {
                *state = (*state ^ u64::from(part[index][step])).wrapping_mul(PRIME);
            }
        }
    }
    *guesses = [clear, set];
    *chains = states;
}
