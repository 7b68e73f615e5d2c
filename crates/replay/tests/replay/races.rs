//! Races: which pairs of operations are reported, and which are not.

use rehal_capture::OperationCode as Op;
use rehal_replay::{AccessKind, Incomplete, Overlap, Plan, PlanOptions, RaceOperation, RaceOptions, Races};

use rehal_hal::WHOLE_BUFFER;

use crate::common::{CaptureBuilder, FileSpec, Id, code, function, range, slot, whole};

fn races(capture: &CaptureBuilder) -> Races {
    let plan = Plan::compile(capture.finish(), PlanOptions::default()).unwrap();
    plan.races(RaceOptions { strict: true })
}

/// A submission without waits, with a signal of its own.
fn unordered(capture: &mut CaptureBuilder) -> &mut CaptureBuilder {
    let done = capture.semaphore(0);
    capture.order(&[], &[(done, 1)])
}

/// The only race: between the operations with these names and records, on these ranges.
#[track_caller]
fn assert_race(races: &Races, first: (&'static str, u32), second: (&'static str, u32), overlaps: &[Overlap]) {
    assert_eq!((races.count, races.pairs.len(), races.incomplete), (1, 1, None), "{races:?}");
    let pair = &races.pairs[0];
    let named = |it: RaceOperation| (it.name, it.location.ordinal);
    assert_eq!((named(pair.first), named(pair.second)), (first, second));
    assert_eq!(pair.overlaps, overlaps);
}

#[track_caller]
fn assert_none(capture: &CaptureBuilder) {
    let races = races(capture);
    assert!(races.count == 0 && races.incomplete.is_none(), "{races:?}");
}

fn overlap(object_id: Id, offset: u64, length: u64, first: AccessKind, second: AccessKind) -> Overlap {
    Overlap { object_id, is_file: false, offset, length, first, second }
}

const READS: AccessKind = AccessKind::Reads;
const WRITES: AccessKind = AccessKind::Writes;
const BINDS: AccessKind = AccessKind::Binds;

#[test]
fn a_missing_wait_is_reported_with_the_pair_and_its_bytes() {
    let mut capture = CaptureBuilder::new();
    let (buffer, other) = (capture.buffer(32), capture.buffer(32));
    let timeline = capture.timeline;
    capture.order(&[], &[(timeline, 1)]).fill(range(buffer, 4, 16), &[1]);
    let first = capture.place().ordinal;
    capture.order(&[(timeline, 1)], &[(timeline, 2)]).fill(range(other, 0, 8), &[2]);
    let done = capture.semaphore(0);
    // Lacks a wait for the first fill.
    capture.order(&[], &[(done, 1)]).copy(range(buffer, 8, 24), range(other, 8, 24));
    let second = capture.place().ordinal;
    let expected = [overlap(buffer, 8, 12, WRITES, READS)];
    assert_race(&races(&capture), ("queue_fill", first), ("queue_copy", second), &expected);
    // With that wait.
    let mut capture = capture.clone();
    capture.records.pop();
    capture.order(&[(timeline, 1)], &[(done, 1)]).copy(range(buffer, 8, 24), range(other, 8, 24));
    assert_none(&capture);
}

#[test]
fn ranges_decide() {
    let mut capture = CaptureBuilder::new();
    let (buffer, targets) = (capture.buffer(32), capture.buffer(32));
    unordered(&mut capture).fill(range(buffer, 0, 8), &[1]);
    unordered(&mut capture).fill(range(buffer, 8, 8), &[1]);
    // Both only read.
    unordered(&mut capture).copy(range(buffer, 16, 8), range(targets, 0, 8));
    unordered(&mut capture).copy(range(buffer, 16, 8), range(targets, 8, 8));
    assert_none(&capture);
    unordered(&mut capture).fill(range(buffer, 7, 10), &[2]);
    let races = races(&capture);
    let found: Vec<_> = races.pairs.iter().map(|pair| (pair.first.name, pair.overlaps[0])).collect();
    let expected = [
        ("queue_fill", overlap(buffer, 7, 1, WRITES, WRITES)),
        ("queue_fill", overlap(buffer, 8, 8, WRITES, WRITES)),
        ("queue_copy", overlap(buffer, 16, 1, READS, WRITES)),
        ("queue_copy", overlap(buffer, 16, 1, READS, WRITES)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn binding_tables_are_resolved_to_bytes() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(64);
    let commands = capture.commands(2, |it, into| {
        it.command_fill(into, slot(0, 4, 4), &[1]);
        it.command_copy(into, slot(0, 8, 4), slot(1, 0, 4));
    });
    let table = [range(buffer, 16, 16), range(buffer, 0, 8)];
    unordered(&mut capture).execute(commands, &table);
    let first = capture.place().ordinal;
    // Between the ranges.
    unordered(&mut capture).fill(range(buffer, 4, 16), &[2]);
    unordered(&mut capture).fill(range(buffer, 28, 36), &[2]);
    assert_none(&capture);
    unordered(&mut capture).fill(range(buffer, 20, 2), &[3]);
    let second = capture.place().ordinal;
    let expected = [overlap(buffer, 20, 2, WRITES, WRITES)];
    assert_race(&races(&capture), ("queue_execute", first), ("queue_fill", second), &expected);
    // The same commands with another table.
    capture.records.pop();
    let elsewhere = capture.buffer(64);
    unordered(&mut capture).execute(commands, &[range(elsewhere, 0, 16), range(elsewhere, 32, 8)]);
    assert_none(&capture);
}

/// Without it, work may be said to access bytes beside those that it names, or the same bytes twice.
#[test]
fn accesses_are_exactly_the_bytes_that_are_named() {
    let mut capture = CaptureBuilder::new();
    let cache = capture.cache();
    let executable = capture.executable(cache, &code("k", 1, &[function("k", 0, 1)]));
    let buffer = capture.buffer(64);
    let kernel = CaptureBuilder::kernel(executable, 0, [1, 1, 1]);
    let mut counted = kernel;
    counted.flags = (rehal_hal::DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS.bits() as u32).into();
    // Longer than a count.
    counted.workgroup_count_ref = range(buffer, 8, 40);
    let [past, adjacent, shifted] = [
        // Beyond the entry of the table, which ends before the buffer does.
        |it: &mut CaptureBuilder, into: Id| it.command_fill(into, slot(0, 4, WHOLE_BUFFER), &[1]),
        |it: &mut CaptureBuilder, into: Id| {
            it.command_fill(into, slot(0, 8, 4), &[1]);
            it.command_fill(into, slot(0, 4, 4), &[1]);
            it.command_fill(into, slot(0, 0, 4), &[2]);
        },
        |it: &mut CaptureBuilder, into: Id| it.command_copy(into, slot(0, 0, 4), slot(0, 8, 4)),
    ]
    .map(|record| capture.commands(1, record));
    type Case<'i> = (&'i dyn Fn(&mut CaptureBuilder), &'i [(u64, u64, AccessKind)]);
    let table = [range(buffer, 16, 16)];
    let cases: [Case<'_>; 6] = [
        (&|it| it.execute(past, &table), &[(20, 12, WRITES)]),
        (&|it| it.execute(adjacent, &table), &[(16, 12, WRITES)]),
        (&|it| it.execute(shifted, &table), &[(16, 4, READS), (24, 4, WRITES)]),
        (&|it| it.dispatch(&kernel, &[], &[range(buffer, 40, 0)]), &[]),
        (&|it| it.dispatch(&kernel, &[], &[range(buffer, 60, 100)]), &[(60, 4, BINDS)]),
        (&|it| it.dispatch(&counted, &[], &[range(buffer, 0, 2)]), &[(0, 2, BINDS), (8, 12, READS)]),
    ];
    for (number, (issue, accesses)) in cases.into_iter().enumerate() {
        let mut capture = capture.clone();
        unordered(&mut capture).fill(whole(buffer), &[1]);
        issue(unordered(&mut capture));
        let found = races(&capture);
        let found: Vec<_> = found.pairs.iter().flat_map(|pair| pair.overlaps.clone()).collect();
        let expected = accesses
            .iter()
            .map(|(offset, length, access)| overlap(buffer, *offset, *length, WRITES, *access));
        assert_eq!(found, expected.collect::<Vec<_>>(), "case {number}");
    }
}

/// Without it, a report may list more than it says, or count other pairs than there are.
#[test]
fn reports_are_bounded_and_count_all_pairs() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(1024);
    let parts = |it: &mut CaptureBuilder, into: Id| {
        (0..20).for_each(|at| it.command_fill(into, range(buffer, 32 * at, 4), &[1]));
    };
    let parts = capture.commands(0, parts);
    unordered(&mut capture).fill(whole(buffer), &[1]);
    unordered(&mut capture).execute(parts, &[]);
    let found = races(&capture);
    let pair = &found.pairs[0];
    assert_eq!((found.count, found.pairs.len(), pair.overlaps.len()), (1, 1, 16));
    let last = overlap(buffer, 32 * 15, 4, WRITES, WRITES);
    assert_eq!((pair.overlaps[15], pair.may_be_host_ordered, pair.host_access), (last, true, None));
    // More ranges than are tracked apart.
    let many = capture.buffer(1 << 16);
    let parts = |it: &mut CaptureBuilder, into: Id| {
        (0..1100).for_each(|at| it.command_fill(into, range(many, 32 * at, 4), &[1]));
    };
    let parts = capture.commands(0, parts);
    unordered(&mut capture).execute(parts, &[]);
    unordered(&mut capture).fill(range(many, 0, 4), &[1]);
    let found = races(&capture);
    assert_eq!((found.count, found.inexact_count, found.incomplete), (1, 1, None));
    // 45 fills before 50 reads of the same bytes, all unordered: only writes conflict.
    let mut capture = CaptureBuilder::new();
    let (buffer, target) = (capture.buffer(8), capture.buffer(8 * 50));
    (0..45).for_each(|at| unordered(&mut capture).update(range(buffer, at % 2, 1), &[1]));
    (0..50).for_each(|at| unordered(&mut capture).copy(range(buffer, 0, 8), range(target, 8 * at, 8)));
    let found = races(&capture);
    assert_eq!((found.count, found.inexact_count, found.assumed_wait_count), (43 + 50 * 2, 0, 0));
    // Not strict: the host accesses a buffer, and then issues two that wait for nothing.
    let [other, third] = [0, 1].map(|_| capture.buffer(8));
    unordered(&mut capture).fill(whole(third), &[1]);
    capture.read(other, 0, 8);
    unordered(&mut capture).fill(whole(buffer), &[1]);
    unordered(&mut capture).fill(range(target, 0, 4), &[1]);
    unordered(&mut capture).fill(whole(third), &[1]);
    let plan = Plan::compile(capture.finish(), PlanOptions::default()).unwrap();
    let found = plan.races(RaceOptions { strict: false });
    assert_eq!((found.count, found.assumed_wait_count), (43 + 50 * 2, 2));
}

#[test]
fn kernels_may_write_what_is_bound_and_read_counts() {
    let mut capture = CaptureBuilder::new();
    let cache = capture.cache();
    let executable = capture.executable(cache, &code("k", 1, &[function("k", 0, 1)]));
    let (buffer, counts) = (capture.buffer(16), capture.buffer(64));
    let mut kernel = CaptureBuilder::kernel(executable, 0, [1, 1, 1]);
    kernel.flags = (rehal_hal::DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS.bits() as u32).into();
    kernel.workgroup_count_ref = range(counts, 8, 12);
    unordered(&mut capture).dispatch(&kernel, &[], &[range(buffer, 0, 8)]);
    let first = capture.place().ordinal;
    unordered(&mut capture).fill(range(counts, 20, 4), &[1]);
    unordered(&mut capture).fill(range(buffer, 8, 8), &[1]);
    assert_none(&capture);
    let mut counted = capture.clone();
    unordered(&mut counted).fill(range(counts, 16, 4), &[1]);
    let (name, second) = ("queue_dispatch", counted.place().ordinal);
    let expected = [overlap(counts, 16, 4, READS, WRITES)];
    assert_race(&races(&counted), (name, first), ("queue_fill", second), &expected);
    unordered(&mut capture).dispatch(&kernel, &[], &[range(buffer, 4, 4)]);
    let second = capture.place().ordinal;
    let expected = [overlap(buffer, 4, 4, BINDS, BINDS)];
    assert_race(&races(&capture), (name, first), (name, second), &expected);
}

/// Also through command buffers and their slots. Counts are read after all bindings.
#[test]
fn kernels_write_the_bindings_that_the_caller_names() {
    let mut capture = CaptureBuilder::new();
    let cache = capture.cache();
    let executable = capture.executable(cache, &code("k", 1, &[function("k", 0, 2), function("l", 0, 2)]));
    let (input, output) = (capture.buffer(16), capture.buffer(64));
    let kernel = |ordinal| CaptureBuilder::kernel(executable, ordinal, [1, 1, 1]);
    unordered(&mut capture).dispatch(&kernel(0), &[], &[whole(input), range(output, 0, 8)]);
    let first = capture.place().ordinal;
    let commands = capture.commands(1, |it, into| {
        it.command_dispatch(into, &kernel(0), &[], &[slot(0, 0, 16), range(output, 8, 8)]);
    });
    unordered(&mut capture).execute(commands, &[whole(input)]);
    let count = |capture: &CaptureBuilder, written: &[Option<Vec<bool>>]| {
        let plan = Plan::compile(capture.finish(), PlanOptions::default()).unwrap();
        plan.races_with(RaceOptions { strict: true }, |_| written.to_vec())
    };
    let told = [Some(vec![false, true]), None];
    assert_eq!(count(&capture, &told).count, 0);
    assert_eq!(count(&capture, &[Some(vec![true, true])]).count, 1);
    // What is not known may be written.
    for unknown in [&[][..], &[None], &[Some(vec![])]] {
        assert_eq!(count(&capture, unknown).count, 1);
    }
    unordered(&mut capture).dispatch(&kernel(0), &[], &[range(output, 4, 4), range(output, 32, 8)]);
    let second = capture.place().ordinal;
    let expected = [overlap(output, 4, 4, BINDS, READS)];
    assert_race(&count(&capture, &told), ("queue_dispatch", first), ("queue_dispatch", second), &expected);
    // Nothing is known of the other function.
    unordered(&mut capture).dispatch(&kernel(1), &[], &[whole(input), range(output, 48, 8)]);
    assert_eq!(count(&capture, &told).count, 3);
}

/// Kernels cannot write memory that allows only reads.
#[test]
fn read_only_memory_is_only_read() {
    let mut capture = CaptureBuilder::new();
    let cache = capture.cache();
    let executable = capture.executable(cache, &code("k", 1, &[function("k", 0, 1)]));
    let kernel = CaptureBuilder::kernel(executable, 0, [1, 1, 1]);
    let mut params = crate::common::allocation(16);
    params.access = 1.into();
    let constant = capture.buffer_with(params);
    unordered(&mut capture).dispatch(&kernel, &[], &[whole(constant)]);
    unordered(&mut capture).dispatch(&kernel, &[], &[whole(constant)]);
    assert_none(&capture);
}

#[test]
fn alloca_and_dealloca_race_with_accesses() {
    let mut capture = CaptureBuilder::new();
    let timeline = capture.timeline;
    capture.order(&[], &[(timeline, 1)]);
    let buffer = capture.alloca(8);
    let alloca = capture.place().ordinal;
    unordered(&mut capture).fill(whole(buffer), &[1]);
    let fill = capture.place().ordinal;
    let expected = [overlap(buffer, 0, 8, WRITES, WRITES)];
    assert_race(&races(&capture), ("queue_alloca", alloca), ("queue_fill", fill), &expected);
    capture.records.pop();
    capture.order(&[(timeline, 1)], &[(timeline, 2)]).fill(whole(buffer), &[1]);
    let fill = capture.place().ordinal;
    capture.order(&[(timeline, 1)], &[(timeline, 3)]).dealloca(buffer);
    // Its signal is that of the fill's semaphore, so it is ordered.
    assert_none(&capture);
    capture.records.pop();
    let done = capture.semaphore(0);
    capture.order(&[(timeline, 1)], &[(done, 1)]).dealloca(buffer);
    let dealloca = capture.place().ordinal;
    assert_race(&races(&capture), ("queue_fill", fill), ("queue_dealloca", dealloca), &expected);
}

#[test]
fn files_with_the_same_path_are_one_file() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(32);
    let path = std::path::Path::new("/nowhere/parameters.bin");
    let files = [0, 1].map(|_| {
        let mut spec = FileSpec::external(path, 64);
        spec.header.access = 3.into();
        capture.file(&spec)
    });
    unordered(&mut capture).file_write(range(buffer, 0, 8), files[0], 16);
    let first = capture.place().ordinal;
    unordered(&mut capture).file_read(files[1], 24, range(buffer, 8, 8), b"");
    assert_none(&capture);
    unordered(&mut capture).file_read(files[1], 20, range(buffer, 16, 8), b"");
    let second = capture.place().ordinal;
    let expected = [Overlap { is_file: true, ..overlap(files[0], 20, 4, WRITES, READS) }];
    assert_race(&races(&capture), ("queue_write", first), ("queue_read", second), &expected);
}

#[test]
fn accesses_of_the_host_order_what_follows() {
    for access in [
        |it: &mut CaptureBuilder, buffer| it.read(buffer, 0, 4),
        |it: &mut CaptureBuilder, buffer| it.write(buffer, 0, &[1; 4]),
        |it: &mut CaptureBuilder, buffer| it.range(Op::BUFFER_INVALIDATE_RANGE, buffer, 0, 4, 1, 1),
        |it: &mut CaptureBuilder, buffer| it.written(Op::BUFFER_FLUSH_RANGE, buffer, 0, 4, &[1; 4]),
    ] {
        let mut capture = CaptureBuilder::new();
        let (buffer, other) = (capture.buffer(8), capture.buffer(8));
        unordered(&mut capture).fill(whole(buffer), &[1]);
        access(&mut capture, other);
        unordered(&mut capture).fill(whole(buffer), &[2]);
        assert_eq!(races(&capture).count, 1, "it accesses another buffer");
        capture.records.pop();
        access(&mut capture, buffer);
        unordered(&mut capture).fill(whole(buffer), &[2]);
        assert_none(&capture);
    }
}

#[test]
fn a_wait_below_the_payload_is_satisfied() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(8);
    let (timeline, done) = (capture.timeline, capture.semaphore(0));
    capture.order(&[], &[(timeline, 2)]).fill(whole(buffer), &[1]);
    capture.order(&[(timeline, 2)], &[(timeline, 5)]).fill(whole(buffer), &[2]);
    // A payload of 5 satisfies a wait for 3.
    capture.order(&[(timeline, 3)], &[(done, 1)]).fill(whole(buffer), &[3]);
    assert_none(&capture);
    let late = capture.semaphore(0);
    capture.order(&[(timeline, 1)], &[(late, 1)]).fill(whole(buffer), &[4]);
    assert_eq!(races(&capture).count, 1, "2 is enough for 1");
}

/// Such a wait orders nothing, although a later signal reaches the value as well.
#[test]
fn a_wait_that_is_already_satisfied() {
    let mut capture = CaptureBuilder::new();
    let (buffer, semaphore) = (capture.buffer(8), capture.semaphore(3));
    capture.order(&[(semaphore, 3)], &[(semaphore, 4)]).fill(whole(buffer), &[1]);
    let done = capture.semaphore(0);
    capture.order(&[(semaphore, 3)], &[(done, 1)]).fill(whole(buffer), &[2]);
    assert_eq!(races(&capture).count, 1);
    // The host has waited for 4, and has done nothing else since.
    capture.read(buffer, 0, 8);
    capture.order(&[], &[(semaphore, 5)]).fill(whole(buffer), &[3]);
    capture.order(&[(semaphore, 4)], &[(done, 2)]).fill(whole(buffer), &[4]);
    assert_eq!(races(&capture).count, 2);
}

/// The host cannot have waited for work that cannot run yet.
#[test]
fn work_that_waits_for_a_later_signal() {
    let mut capture = CaptureBuilder::new();
    let (buffer, gate) = (capture.buffer(8), capture.semaphore(0));
    let [deferred, other] = [0, 1].map(|_| capture.semaphore(0));
    capture.order(&[(gate, 1)], &[(deferred, 1)]).fill(whole(buffer), &[1]);
    let place = capture.place().ordinal;
    unordered(&mut capture).fill(range(buffer, 0, 2), &[2]);
    let meanwhile = capture.place().ordinal;
    capture.order(&[], &[(gate, 1)]).execute(0, &[]);
    capture.order(&[(deferred, 1)], &[(other, 1)]).fill(whole(buffer), &[3]);
    let expected = [overlap(buffer, 0, 2, WRITES, WRITES)];
    let found = races(&capture);
    assert_race(&found, ("queue_fill", meanwhile), ("queue_fill", place), &expected);
}

fn count(capture: &CaptureBuilder, strict: bool) -> u64 {
    let plan = Plan::compile(capture.finish(), PlanOptions::default()).unwrap();
    plan.races(RaceOptions { strict }).count
}

/// The default assumption of the tools, without `--strict`.
#[test]
fn hosts_wait_at_scopes() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(8);
    let timeline = capture.timeline;
    capture.scope_begin("a");
    unordered(&mut capture).fill(whole(buffer), &[1]);
    capture.order(&[], &[(timeline, 1)]).execute(0, &[]);
    capture.scope_end("a");
    let done = capture.semaphore(0);
    capture.order(&[(timeline, 1)], &[(done, 1)]).fill(whole(buffer), &[3]);
    assert_eq!((count(&capture, false), count(&capture, true)), (0, 1));
    let done = capture.semaphore(0);
    capture.order(&[(timeline, 1)], &[(done, 1)]).fill(whole(buffer), &[4]);
    assert_eq!((count(&capture, false), count(&capture, true)), (1, 2));
}

/// Whatever it accesses: a host that has results of other work, or writes inputs of the next, has usually
/// waited.
#[test]
fn hosts_wait_between_their_accesses_and_submissions_without_waits() {
    for access in [
        |it: &mut CaptureBuilder, buffer| it.read(buffer, 0, 4),
        |it: &mut CaptureBuilder, buffer| it.write(buffer, 0, &[1; 4]),
        |it: &mut CaptureBuilder, buffer| it.written(Op::BUFFER_FLUSH_RANGE, buffer, 0, 4, &[1; 4]),
    ] {
        let mut capture = CaptureBuilder::new();
        let (buffer, other) = (capture.buffer(8), capture.buffer(8));
        access(&mut capture, other);
        unordered(&mut capture).fill(whole(buffer), &[1]);
        let first = capture.place().ordinal;
        // Nothing tells of a wait before this one.
        unordered(&mut capture).fill(whole(buffer), &[2]);
        let second = capture.place().ordinal;
        assert_eq!((count(&capture, false), count(&capture, true)), (1, 1));
        access(&mut capture, other);
        let place = capture.place().ordinal;
        unordered(&mut capture).fill(whole(buffer), &[3]);
        assert_eq!((count(&capture, false), count(&capture, true)), (1, 2));
        // It waits for something else.
        let (gate, done) = (capture.semaphore(0), capture.semaphore(0));
        capture.order(&[], &[(gate, 1)]).execute(0, &[]);
        access(&mut capture, other);
        capture.order(&[(gate, 1)], &[(done, 1)]).fill(whole(buffer), &[4]);
        let plan = Plan::compile(capture.finish(), PlanOptions::default()).unwrap();
        let races = plan.races(RaceOptions { strict: false });
        let [unseen, seen] = &races.pairs[..] else { panic!("{races:?}") };
        assert_eq!((unseen.first.location.ordinal, unseen.second.location.ordinal), (first, second));
        assert!(unseen.may_be_host_ordered && unseen.host_access.is_none(), "{unseen:?}");
        assert!(
            seen.may_be_host_ordered && seen.host_access.is_some_and(|it| it.ordinal > place),
            "{seen:?}"
        );
    }
}

/// One signal makes both run, so the host cannot have waited for the first before the second.
#[test]
fn what_one_signal_starts_is_not_ordered_by_the_host() {
    let mut capture = CaptureBuilder::new();
    let (buffer, gate) = (capture.buffer(8), capture.semaphore(0));
    let [first, second] = [0, 1].map(|_| capture.semaphore(0));
    capture.order(&[(gate, 1)], &[(first, 1)]).fill(whole(buffer), &[1]);
    capture.order(&[(gate, 1)], &[(second, 1)]).fill(whole(buffer), &[2]);
    capture.order(&[], &[(gate, 1)]).execute(0, &[]);
    let found = races(&capture);
    assert_eq!(found.count, 1, "{found:?}");
    assert!(!found.pairs[0].may_be_host_ordered && found.pairs[0].host_access.is_none(), "{found:?}");
}

#[test]
fn an_incomplete_search_is_reported() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(8192);
    let first = capture.semaphore(0);
    capture.order(&[], &[(first, 1)]).fill(range(buffer, 0, 4), &[1]);
    for index in 1..1500 {
        unordered(&mut capture).fill(range(buffer, 4 * index, 4), &[1]);
    }
    unordered(&mut capture).fill(range(buffer, 0, 4), &[2]);
    let found = races(&capture);
    assert_eq!((found.count, found.incomplete), (0, Some(Incomplete::TooManyInFlight)));
}

/// The time to plan it must not grow with the product of commands and executions; nor with that of ranges and
/// accesses.
#[test]
fn hostile_captures_are_planned_in_linear_time() {
    let mut capture = CaptureBuilder::new();
    let buffers: Vec<_> = (0..1_500).map(|_| capture.buffer(8)).collect();
    let many = capture.commands(0, |it, into| {
        buffers.iter().for_each(|buffer| it.command_fill(into, whole(*buffer), &[1]));
    });
    let large = capture.buffer(1 << 20);
    let ranges = capture.commands(0, |it, into| {
        (0..1_500).for_each(|index| it.command_fill(into, range(large, 32 * index, 8), &[1]));
    });
    for index in 0..1_500 {
        unordered(&mut capture).execute(if index % 2 == 0 { many } else { ranges }, &[]);
        unordered(&mut capture).fill(range(large, 32 * index + 16, 8), &[1]);
    }
    let plan = Plan::compile(capture.finish(), PlanOptions::default()).unwrap();
    let found = plan.races(RaceOptions { strict: true });
    assert!(found.count > 10 && found.incomplete == Some(Incomplete::TooMuchWork), "{}", found.count);
    let device = rehal_local::LocalSync::create(Default::default());
    let group = rehal_hal::DeviceGroup::new(vec![device]).unwrap();
    let options = rehal_replay::ReplayOptions::default().order(rehal_replay::ReplayOrder::Captured);
    rehal_replay::Replay::new(plan, &group, &options).unwrap();
}
