//! Bandwidth of caches and of memory.

use std::hint::black_box;
use std::io;

use serde::{Deserialize, Serialize};

use crate::lines::Line;
use crate::platform::sum;
use crate::threads::{Work, best};
use crate::{MeasureOptions, Rate};

/// A cache of data of each core, or of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheLevel {
    /// 1, 2, 3 …
    pub level: u64,
    /// Its size.
    pub size_bytes: u64,
    /// Number of processors that share it.
    pub shared_by: u64,
}

/// How fast a cache level, or memory, delivers bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// `L1`, `L2`, `L3` or `memory`.
    pub name: String,
    /// Bytes that fit, of all threads; `None` for memory.
    pub capacity_bytes: Option<u64>,
    /// Bytes that are read.
    pub read: Rate,
    /// Bytes that are read, and as many that are written.
    pub copy: Rate,
}

impl Bandwidth {
    /// The most bytes per second, read or copied.
    pub fn per_second(&self) -> f64 {
        self.read.per_second.max(self.copy.per_second)
    }
}

const LINE: u64 = 64;
/// Bytes of memory that are read and written at least, so that caches do not have them.
const MIN_MEMORY: u64 = 64 << 20;
/// The same, at most: a machine may have more cache.
const MAX_MEMORY: u64 = 512 << 20;
/// Bytes of memory that a round reads or writes.
const SEGMENT: u64 = 1 << 20;

/// Measures each level and memory, with one thread and with all. `caches` are those of data of one processor.
/// Fails if memory cannot be allocated, or a thread cannot be started.
pub fn bandwidths(caches: &[CacheLevel], options: &MeasureOptions) -> io::Result<Vec<Bandwidth>> {
    let last = caches.iter().map(|it| it.size_bytes).max().unwrap_or(0);
    let memory = last.saturating_mul(4).clamp(MIN_MEMORY, MAX_MEMORY);
    let mut all = Vec::new();
    for threads in options.thread_counts() {
        let count = threads as u64;
        for cache in caches {
            // Threads that share a cache share its size.
            let sharing = count.min(cache.shared_by.max(1));
            let capacity = cache.size_bytes * count.div_ceil(cache.shared_by.max(1));
            let each = cache.size_bytes / 2 / sharing;
            all.push(level(&format!("L{}", cache.level), Some(capacity), threads, (each, each), options)?);
        }
        all.push(level("memory", None, threads, (memory / count, SEGMENT), options)?);
    }
    Ok(all)
}

/// Each thread reads, and copies the halves of, as many `bytes`, of which a round takes the next `segment`.
fn level(
    name: &str,
    capacity_bytes: Option<u64>,
    threads: usize,
    (bytes, segment): (u64, u64),
    options: &MeasureOptions,
) -> io::Result<Bandwidth> {
    let lines = ((bytes / LINE) as usize).max(16);
    let mut buffers = Vec::new();
    for _ in 0..threads {
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(lines)?;
        buffer.resize(lines, Line([1; 8]));
        buffers.push(buffer);
    }
    let part = ((segment / LINE) as usize).clamp(8, lines / 2);
    let read = |buffer: &mut Vec<Line>| -> Work<'static> {
        let (buffer, mut next) = (std::mem::take(buffer), 0);
        // One pass over a cache is less than a round of memory.
        let part = if segment == bytes { lines } else { part };
        Box::new(move |rounds| {
            for _ in 0..rounds {
                next = if next + part > buffer.len() { 0 } else { next };
                black_box(sum(black_box(&buffer[next..next + part])));
                next += part;
            }
        })
    };
    let amount = if segment == bytes { lines } else { part } as f64 * LINE as f64;
    let mut copies = buffers.clone();
    let rate = best(buffers.iter_mut().map(read).collect(), amount, options.time)?;
    let copy = |buffer: &mut Vec<Line>| -> Work<'static> {
        let (mut buffer, mut next) = (std::mem::take(buffer), 0);
        Box::new(move |rounds| {
            let (from, to) = buffer.split_at_mut(lines / 2);
            for _ in 0..rounds {
                next = if next + part > from.len().min(to.len()) { 0 } else { next };
                to[next..next + part].copy_from_slice(black_box(&from[next..next + part]));
                black_box(&mut *to);
                next += part;
            }
        })
    };
    let copied = best(copies.iter_mut().map(copy).collect(), 2.0 * part as f64 * LINE as f64, options.time)?;
    Ok(Bandwidth { name: name.into(), capacity_bytes, read: rate, copy: copied })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::lines::sum_portable;

    #[test]
    fn sums_read_every_word() {
        for count in [0, 1, 7, 8, 9, 67] {
            let lines: Vec<Line> =
                (0..count).map(|it| Line(std::array::from_fn(|at| it * 8 + at as u64))).collect();
            let words = count * 8;
            let expected = words * words.saturating_sub(1) / 2;
            assert_eq!((sum(&lines), sum_portable(&lines)), (expected, expected), "{count}");
        }
    }

    #[test]
    fn nearer_levels_are_faster() {
        let caches = [
            CacheLevel { level: 1, size_bytes: 32 << 10, shared_by: 1 },
            CacheLevel { level: 3, size_bytes: 16 << 20, shared_by: 2 },
        ];
        let options = MeasureOptions { threads: 2, time: Duration::from_millis(10) };
        let all = bandwidths(&caches, &options).unwrap();
        let described = |it: &Bandwidth| (it.name.clone(), it.read.threads, it.capacity_bytes);
        assert_eq!(
            all.iter().map(described).collect::<Vec<_>>(),
            [
                ("L1".into(), 1, Some(32 << 10)),
                ("L3".into(), 1, Some(16 << 20)),
                ("memory".into(), 1, None),
                ("L1".into(), 2, Some(64 << 10)),
                ("L3".into(), 2, Some(16 << 20)),
                ("memory".into(), 2, None),
            ]
        );
        assert!(all[0].read.per_second > 1.5 * all[2].read.per_second, "{all:?}");
        // No processor reads more than 1 KiB in a cycle of 6 GHz, or less than a GB in a second.
        assert!(all.iter().all(|it| (1e9..6e12).contains(&it.read.per_second)), "{all:?}");
        assert!(all.iter().all(|it| (5e8..6e12).contains(&it.copy.per_second)), "{all:?}");
    }
}
