//! A simulated machine: the pool's tiles, chunks and order of stealing on more cores than a test has, with
//! costs in place of time. It shows where the scheduler's own cost ends the speed-up. A test compares the
//! table with docs/decisions/019-scheduler-on-many-cores.md.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::tiles::{Tiles, chunk_size};
use super::workers::{WAKES, WorkerPlace, victims};

/// Costs in nanoseconds, of a server with several cache domains. Those of this machine were measured, the
/// others are higher than those that vendors publish.
mod cost {
    /// Taking a chunk of the own range, in the own cache.
    pub(super) const TAKE: u64 = 20;
    /// Reading or writing a cache line that another core of the same domain wrote last, and of another
    /// domain.
    pub(super) const NEAR: u64 = 60;
    pub(super) const FAR: u64 = 200;
    /// How many such reads overlap.
    pub(super) const LOADS: u64 = 4;
    /// The system call that wakes a worker, and the time until the worker runs.
    pub(super) const WAKE: u64 = 2_000;
    pub(super) const WAKING: u64 = 15_000;
    /// Beginning a stage: its tilings, counts and costs.
    pub(super) const BEGIN: u64 = 300;
    /// Resolving the arguments of a dispatch, by each worker.
    pub(super) const ARGUMENTS: u64 = 150;
}

/// The constants of `task/`: target duration of a chunk, work of a stage for which a worker joins, and how
/// long one waits for the next stage.
const CHUNK_NS: u64 = 25_000;
const JOINING_NS: u64 = 3_000;
const STAY_NS: u64 = 20_000;

/// A job: stages of the same number of tiles of the same duration.
#[derive(Clone, Copy)]
struct Job {
    stages: usize,
    tiles: u32,
    tile_ns: u64,
}

impl Job {
    fn on_one_core(&self) -> u64 {
        self.stages as u64 * u64::from(self.tiles) * self.tile_ns
    }
}

/// 64 cores in 4 domains; workers fill one domain after another.
fn places(workers: usize) -> Vec<WorkerPlace> {
    (0..workers).map(|worker| WorkerPlace { domain: (worker / 16) as u32 }).collect()
}

/// When each worker starts to look for tiles: the first begins the stage and wakes others, and so does each
/// that wakes up.
fn starts(workers: usize) -> Vec<u64> {
    let mut starts = vec![cost::BEGIN];
    for waker in 0..workers {
        for call in 1..=WAKES.min(workers - starts.len()) as u64 {
            starts.push(starts[waker] + call * cost::WAKE + cost::WAKING);
        }
    }
    starts
}

/// Duration of the job on so many workers, of which it uses as many as a stage has work for.
fn simulate(job: Job, workers: usize) -> u64 {
    let useful = (job.on_one_core() / job.stages as u64 / JOINING_NS).min((job.tiles - 1).into());
    let workers = workers.min(useful as usize + 1);
    let places = places(workers);
    let line = |a: usize, b: usize| if places[a].domain == places[b].domain { cost::NEAR } else { cost::FAR };
    let order: Vec<_> = (0..workers).map(|worker| victims(&places, worker)).collect();
    let tiles = Tiles::new(workers);
    tiles.refill(0, job.tiles);
    let starts = starts(workers).into_iter().enumerate();
    let mut queue: BinaryHeap<_> = starts.map(|(worker, start)| Reverse((start, worker))).collect();
    let mut stage = 1;
    // Workers that found no tiles, and since when; the last stage whose arguments each worker resolved.
    let (mut waiting, mut resolved) = (Vec::new(), vec![0; workers]);
    // The counter of complete tiles: when its cache line is free, and which worker wrote it last.
    let (mut free_at, mut written_by) = (0, 0);
    // Tiles that ran and are not complete.
    let (mut done, mut is_last) = (vec![0; workers], false);
    while let Some(Reverse((at, worker))) = queue.pop() {
        let by_cost = u32::try_from(CHUNK_NS / job.tile_ns).unwrap_or(u32::MAX).max(1);
        let chunk = |range: &std::ops::Range<u32>| chunk_size(by_cost, range, workers - 1);
        let mut at = at + cost::TAKE;
        let taken = match tiles.take_own(worker, chunk) {
            Some(taken) => taken,
            None => {
                let complete = std::mem::take(&mut done[worker]);
                if complete != 0 {
                    free_at = at.max(free_at) + line(worker, written_by);
                    (at, written_by) = (free_at, worker);
                    is_last = tiles.complete(complete);
                }
                // A thief reads the ranges of others until it has chosen one, several at a time, and writes
                // to that.
                let choice = tiles.choice(&order[worker], chunk);
                let seen =
                    choice.and_then(|choice| order[worker].iter().position(|victim| *victim == choice));
                let seen = seen.map_or(workers - 1, |last| last + 1);
                let looked: u64 = order[worker][..seen].iter().map(|victim| line(worker, *victim)).sum();
                at += looked / cost::LOADS + choice.map_or(0, |choice| line(worker, choice));
                match tiles.steal(worker, &order[worker], chunk) {
                    Some(taken) => taken,
                    None if !is_last => {
                        waiting.push((at, worker));
                        continue;
                    }
                    None => 0..0,
                }
            }
        };
        if !is_last {
            let count = taken.end - taken.start;
            let arguments = if resolved[worker] == stage { 0 } else { cost::ARGUMENTS };
            resolved[worker] = stage;
            done[worker] += count;
            queue.push(Reverse((at + arguments + u64::from(count) * job.tile_ns, worker)));
            continue;
        }
        is_last = false;
        if stage == job.stages {
            return at;
        }
        stage += 1;
        tiles.refill(worker, job.tiles);
        let start = at + cost::BEGIN;
        queue.push(Reverse((start, worker)));
        for (turn, (since, other)) in waiting.drain(..).enumerate() {
            // Those that poll see it one after another, since each reads the line that was written; others
            // are woken.
            let delay = match start.saturating_sub(since) > STAY_NS {
                false => line(worker, other) + turn as u64 * cost::TAKE,
                true => cost::WAKE + cost::WAKING,
            };
            queue.push(Reverse((start.max(since) + delay, other)));
        }
    }
    unreachable!("the last tile ends the job")
}

const WORKERS: [usize; 6] = [2, 4, 8, 16, 32, 64];

const JOBS: [(&str, Job); 7] = [
    ("1 dispatch, 100 ms in 10,000 workgroups", Job { stages: 1, tiles: 10_000, tile_ns: 10_000 }),
    ("1 dispatch, 10 ms in 10,000 workgroups", Job { stages: 1, tiles: 10_000, tile_ns: 1_000 }),
    ("1 dispatch, 1 ms in 1,000 workgroups", Job { stages: 1, tiles: 1_000, tile_ns: 1_000 }),
    ("100 dispatches, each 1 ms in 256 workgroups", Job { stages: 100, tiles: 256, tile_ns: 3_906 }),
    ("100 dispatches, each 250 us in 256 workgroups", Job { stages: 100, tiles: 256, tile_ns: 977 }),
    ("100 dispatches, each 50 us in 64 workgroups", Job { stages: 100, tiles: 64, tile_ns: 781 }),
    ("100 dispatches, each 11 us in 8 workgroups", Job { stages: 100, tiles: 8, tile_ns: 1_375 }),
];

fn speed_up(job: Job, workers: usize) -> f64 {
    job.on_one_core() as f64 / simulate(job, workers) as f64
}

/// The table of docs/decisions/019.
fn table() -> String {
    let mut table = String::from("| job |");
    WORKERS.iter().for_each(|workers| table.push_str(&format!(" {workers} |")));
    table.push_str("\n| --- |");
    WORKERS.iter().for_each(|_| table.push_str(" --- |"));
    for (name, job) in JOBS {
        table.push_str(&format!("\n| {name} |"));
        WORKERS.iter().for_each(|workers| table.push_str(&format!(" {:.1} |", speed_up(job, *workers))));
    }
    table
}

#[test]
fn the_simulated_speed_up_is_as_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/decisions/019-scheduler-on-many-cores.md");
    let (table, text) = (table(), std::fs::read_to_string(path).unwrap());
    assert!(text.contains(&table), "docs/decisions/019 does not contain this table:\n{table}");
}

#[test]
fn large_dispatches_use_every_simulated_core() {
    for workers in WORKERS {
        let speed_up = speed_up(JOBS[0].1, workers);
        assert!(speed_up > 0.93 * workers as f64 && speed_up <= workers as f64, "{workers}: {speed_up}");
    }
}

#[test]
fn more_simulated_workers_are_never_much_slower() {
    for (name, job) in JOBS {
        for pair in WORKERS.windows(2) {
            assert!(speed_up(job, pair[1]) > 0.9 * speed_up(job, pair[0]), "{name}: {pair:?}");
        }
    }
}
