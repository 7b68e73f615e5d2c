//! Slices of the captures: each distinct dispatch, and each scope, replays to the bytes of the whole capture.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rehal_base::Result;
use rehal_hal::{Device, DeviceGroup, transfer};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{
    AccessedRange, Cut, FileRemap, Observer, Operation, Plan, PlanOptions, Replay, ReplayOptions, Slice,
    SliceCheck, SliceOptions, SliceSet, WatchBuffer,
};

use crate::again::captures;
use crate::reads::Reads;
use crate::written::Memory;

/// Bytes besides contents and executables: the records of a slice of one dispatch.
const OVERHEAD_BYTES: u64 = 64 << 10;

fn devices(plan: &Plan) -> DeviceGroup {
    let device = |_| -> Device { LocalSync::create(Plugins::default()) };
    DeviceGroup::new((0..plan.device_count()).map(device).collect()).unwrap()
}

fn replay(bytes: Vec<u8>, remaps: &[FileRemap]) -> Result<Replay> {
    let plan = Plan::compile(bytes, PlanOptions::default())?;
    let options = ReplayOptions::default().file_remaps(remaps.to_vec());
    let devices = devices(&plan);
    Replay::new(plan, &devices, &options)
}

/// A dispatch: its record, occurrence, how many bytes it may read, and how many are in its executable.
#[derive(Clone, Debug)]
struct Site {
    record: u32,
    occurrence: u64,
    read_bytes: u64,
    executable_bytes: u64,
    /// The buffer and offset of each binding, and its bytes afterwards.
    after: Vec<(u64, u64, Vec<u8>)>,
}

/// Number of bytes in ranges, each counted once.
fn union<'a>(ranges: impl Iterator<Item = &'a AccessedRange<'a>>) -> u64 {
    let mut ranges: Vec<_> = ranges.map(|it| (it.buffer_id, it.offset, it.offset + it.length)).collect();
    ranges.sort_unstable();
    let (mut count, mut last) = (0, (0, 0));
    for (buffer, start, end) in ranges {
        let start = if buffer == last.0 { start.max(last.1) } else { start };
        count += end.saturating_sub(start);
        last = (buffer, end.max(start));
    }
    count
}

/// The first of each distinct dispatch, and how often it is the same.
#[derive(Default)]
struct Dispatches {
    seen: HashSet<Vec<u8>>,
    sites: Vec<Site>,
    is_new: bool,
    before: Vec<Vec<u8>>,
}

impl Observer for Dispatches {
    fn wants_operations(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        self.is_new = operation.dispatch.is_some_and(|dispatch| {
            let lengths: Vec<u64> = operation.bindings().iter().map(|it| it.length).collect();
            let key = format!(
                "{} {} {:?} {:?} {lengths:?}",
                dispatch.executable.id, dispatch.function, dispatch.workgroup_count, dispatch.constants
            );
            self.seen.insert(key.into_bytes())
        });
        self.before.clear();
        for it in operation.bindings().iter().filter(|_| self.is_new) {
            self.before.push(transfer::to_vec(it.buffer, it.offset, it.length)?);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if let Some(dispatch) = operation.dispatch.filter(|_| self.is_new) {
            let mut after = Vec::new();
            for it in operation.bindings() {
                after.push((it.buffer_id, it.offset, transfer::to_vec(it.buffer, it.offset, it.length)?));
            }
            // What a kernel changes it may also read, through another binding of the same bytes.
            let may_be_read = |(at, it): &(usize, &AccessedRange<'_>)| {
                let shares = |other: &&AccessedRange<'_>| {
                    (it.buffer_id == other.buffer_id)
                        && it.offset < other.offset + other.length
                        && other.offset < it.offset + it.length
                };
                let is_shared = operation.bindings().iter().filter(shares).count() > 1;
                self.before.get(*at).is_none_or(|before| *before == after[*at].2) || is_shared
            };
            let (bindings, others) = operation.ranges.split_at(operation.bindings().len());
            let read = bindings.iter().enumerate().filter(may_be_read).map(|(_, it)| it);
            let read_bytes = union(read.chain(others));
            self.sites.push(Site {
                record: operation.location.ordinal,
                occurrence: operation.occurrence,
                read_bytes,
                executable_bytes: dispatch.executable.data.len() as u64,
                after,
            });
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Cuts a slice and checks that it replays to its reads; returns its size.
fn check(name: &str, replay: &Replay, cut: &Cut) -> (Slice, u64) {
    let memory = Memory::default();
    let slice = replay.slice(cut, &SliceOptions::default(), memory.clone(), &mut []);
    let slice = slice.unwrap_or_else(|error| panic!("{name}, {cut:?}: {}", error.report()));
    let bytes = memory.bytes();
    let size = bytes.len() as u64;
    let mut reads = Reads::default();
    self::replay(bytes, &[]).unwrap().run(&mut [&mut reads]).unwrap();
    let expected: Vec<_> = slice.reads.iter().map(|read| read.bytes.clone()).collect();
    assert!(reads.0 == expected, "{name}, {cut:?}: the slice reads other bytes");
    (slice, size)
}

fn is_left_out(path: &Path) -> bool {
    let name = path.file_stem().unwrap().to_str().unwrap();
    // Crashes end the process, and a long chain takes an interpreter of an unoptimised build a minute.
    name.contains("crash.") && !name.contains("-ok.") || name.starts_with("chain") && name.contains(".vmvx.")
}

fn replays(set: &Path) -> impl Iterator<Item = (String, Replay)> {
    let of = |(path, remaps): (PathBuf, Vec<FileRemap>)| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_string();
        replay(std::fs::read(&path).unwrap(), &remaps).ok().map(|replay| (name, replay))
    };
    captures(set).filter(|(path, _)| !is_left_out(path)).filter_map(of)
}

pub fn dispatches_are_sliced(set: &Path) {
    let (mut count, mut changed) = (0, 0);
    for (name, replay) in replays(set) {
        let mut dispatches = Dispatches::default();
        if replay.run(&mut [&mut dispatches]).is_err() {
            continue;
        }
        for site in &dispatches.sites {
            let cut = Cut::Dispatch { record: site.record, occurrence: site.occurrence };
            let (slice, size) = check(&name, &replay, &cut);
            let limit = site.read_bytes + site.executable_bytes + OVERHEAD_BYTES;
            assert!(size <= limit, "{name}, {cut:?}: {size} bytes, more than {limit}");
            for read in &slice.reads {
                // Ranges that touch are read at once.
                let mut is_bound = false;
                for (buffer_id, offset, after) in &site.after {
                    let (from, to) = (read.offset.max(*offset), offset + after.len() as u64);
                    let to = to.min(read.offset + read.bytes.len() as u64);
                    if *buffer_id == read.buffer_id && from < to {
                        let expected = &after[(from - offset) as usize..(to - offset) as usize];
                        let actual = &read.bytes[(from - read.offset) as usize..(to - read.offset) as usize];
                        assert!(expected == actual, "{name}, {cut:?}: other bytes");
                        is_bound = true;
                    }
                }
                assert!(is_bound, "{name}, {cut:?}: reads what is not bound");
                changed += 1;
            }
            count += 1;
        }
    }
    assert!(count > 50 && changed >= count, "{count} {changed}");
}

/// Slices in memory.
#[derive(Default)]
struct Slices(Vec<(Memory, Option<Slice>)>);

impl SliceSet for Slices {
    type Sink = Memory;

    fn sink(&mut self, index: usize, _name: &str) -> Result<Memory> {
        self.0.resize_with(self.0.len().max(index + 1), Default::default);
        Ok(self.0[index].0.clone())
    }

    fn finished(&mut self, index: usize, slice: Slice) -> Result<()> {
        self.0[index].1 = Some(slice);
        Ok(())
    }
}

/// The slices of dispatches, each with its bytes.
fn cut_all(replay: &Replay, sites: &[(u32, u64)], watch: Option<WatchBuffer>) -> Vec<(Slice, Vec<u8>)> {
    let mut options = SliceOptions::default();
    (options.watch, options.check) = (watch, SliceCheck::Always);
    let mut slices = Slices::default();
    replay.slices(sites, &options, &mut slices, &mut []).unwrap();
    slices.0.into_iter().map(|(memory, slice)| (slice.unwrap(), memory.bytes())).collect()
}

/// A slice with only the accessed pages is no larger than one with whole bindings, and its replay has the
/// same host reads.
pub fn touched_pages_are_enough(set: &Path) {
    rehal_crash::install();
    let (mut count, mut gains) = (0, Vec::new());
    for (name, replay) in replays(set) {
        let mut dispatches = Dispatches::default();
        if replay.run(&mut [&mut dispatches]).is_err() {
            continue;
        }
        let sites: Vec<_> = dispatches.sites.iter().map(|it| (it.record, it.occurrence)).collect();
        let bound = cut_all(&replay, &sites, None);
        let touched = cut_all(&replay, &sites, Some(Arc::new(rehal_local::watch_buffer)));
        for ((bound, whole), (touched, part)) in bound.iter().zip(&touched) {
            let at = format!("{name}, record #{} ({})", touched.location.ordinal, touched.name);
            assert!(touched.content_bytes <= bound.content_bytes, "{at}");
            assert!(part.len() <= whole.len(), "{at}: {} bytes instead of {}", part.len(), whole.len());
            let reads = |slice: &Slice| {
                let of = slice.reads.iter().map(|it| (it.buffer_id, it.offset, it.bytes.clone()));
                of.collect::<Vec<_>>()
            };
            assert!(reads(touched) == reads(bound), "{at}: other reads");
            let mut read = Reads::default();
            self::replay(part.clone(), &[]).unwrap().run(&mut [&mut read]).unwrap();
            assert!(
                read.0.iter().eq(touched.reads.iter().map(|it| &it.bytes)),
                "{at}: the replay reads other bytes"
            );
            if part.len() < whole.len() {
                gains.push((name.clone(), touched.name.clone(), part.len(), whole.len()));
            }
            count += 1;
        }
    }
    assert!(count > 50, "{count}");
    let gains_of = |capture: &str, function: &str| {
        let of = |it: &&(String, String, usize, usize)| it.0.starts_with(capture) && it.1.contains(function);
        gains.iter().filter(of).map(|(_, _, part, whole)| (*part, *whole)).collect::<Vec<_>>()
    };
    assert!(!gains_of("chain.chain.", "_dispatch_1_matmul").is_empty(), "{gains:?}");
    if set != testing::fixtures() {
        // It reads some numbers of a buffer of 2.6 MB.
        let of_model = gains_of("model.magika", "_dispatch_13_elementwise");
        assert!(matches!(of_model[..], [(part, whole)] if part * 50 < whole), "{gains:?}");
    }
}

pub fn scopes_are_sliced(set: &Path) {
    let mut count = 0;
    for (name, replay) in replays(set) {
        if replay.run(&mut []).is_err() {
            continue;
        }
        let scopes: Vec<_> = replay.plan().scopes().map(|(name, _)| name.to_vec()).collect();
        for scope in scopes {
            let cut = Cut::Scope { name: scope, occurrence: 0 };
            let empty = replay.slice(&cut, &SliceOptions::default(), Memory::default(), &mut []);
            if empty.is_err_and(|error| error.message().contains("issues no work")) {
                continue;
            }
            check(&name, &replay, &cut);
            count += 1;
        }
    }
    assert!(count > 50, "{count}");
}
