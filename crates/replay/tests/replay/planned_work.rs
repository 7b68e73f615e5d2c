//! The dispatches, transfers and results of a plan whose command buffer is executed several times.

use rehal_hal::profile::QueueOpKind;
use rehal_replay::{AccessKind, Plan, PlanOptions, PlannedBinding, PlannedResult};

use crate::common::{CaptureBuilder, Id, code, function, range, slot};

type Range = (Id, u64, u64);

fn range_of(it: &PlannedBinding) -> Range {
    (it.buffer_id, it.offset, it.length)
}

/// Without it, tools may count other dispatches than a run performs, or name other bytes.
#[test]
fn executions_are_counted_by_table() {
    let mut capture = CaptureBuilder::new();
    let cache = capture.cache();
    let executable = capture.executable(cache, &code("k", 1, &[function("k", 0, 4)]));
    let kernel = CaptureBuilder::kernel(executable, 0, [2, 3, 4]);
    let [one, other] = [64, 32].map(|size| capture.buffer(size));
    let mut places = Vec::new();
    let commands = capture.commands(2, |it, into| {
        let bindings = [slot(0, 4, 100), slot(1, 0, 8), range(one, 60, 100), range(one, 70, 4)];
        it.command_dispatch(into, &kernel, &[], &bindings);
        places.push(it.place().ordinal);
        it.command_fill(into, slot(0, 0, 4), &[1]);
        places.push(it.place().ordinal);
        it.command_copy(into, slot(0, 8, 4), slot(1, 4, 4));
        places.push(it.place().ordinal);
    });
    let tables = [[range(one, 16, 16), range(other, 0, 8)], [range(other, 8, 8), range(one, 40, 24)]];
    let mut submissions = Vec::new();
    for table in [0, 1, 0, 0] {
        capture.execute(commands, &tables[table]);
        submissions.push(capture.place().ordinal);
    }
    capture.write(one, 0, &[1; 4]);
    capture.read(one, 0, 4);
    capture.dispatch(&kernel, &[], &[range(other, 0, 4); 4]);
    let direct = capture.place().ordinal;
    let plan = Plan::compile(capture.finish(), PlanOptions::default()).unwrap();
    let [dispatch, fill, copy] = places[..] else { unreachable!() };

    let bound: [[Range; 4]; 2] = [
        [(one, 20, 12), (other, 0, 8), (one, 60, 4), (one, 70, 0)],
        [(other, 12, 4), (one, 40, 8), (one, 60, 4), (one, 70, 0)],
    ];
    let mut distinct = Vec::new();
    plan.distinct_dispatches(|dispatch, count| {
        assert_eq!(dispatch.workgroup_count, Some([2, 3, 4]));
        assert!(dispatch.bindings.iter().all(|binding| binding.access == AccessKind::Binds));
        let bound: Vec<_> = dispatch.bindings.iter().map(range_of).collect();
        let (record, submission) = (dispatch.location.ordinal, dispatch.submission.ordinal);
        distinct.push((record, submission, dispatch.occurrence, count, bound));
        Ok(())
    })
    .unwrap();
    let expected = [
        (dispatch, submissions[0], 0, 3, bound[0].to_vec()),
        (dispatch, submissions[1], 1, 1, bound[1].to_vec()),
        (direct, direct, 0, 1, vec![(other, 0, 4); 4]),
    ];
    assert_eq!(distinct, expected);
    assert_eq!(plan.dispatch_count(), 5);

    let mut results = Vec::new();
    plan.results(|it| {
        results.push(match it {
            PlannedResult::Dispatch { record, submission, occurrence } => (record, submission, occurrence),
            PlannedResult::Read { .. } => (0, 0, 0),
        });
    });
    let of_commands = (0..).zip(&submissions).map(|(occurrence, it)| (dispatch, *it, occurrence));
    // The read, and not the write before it.
    assert_eq!(results, of_commands.chain([(0, 0, 0), (direct, direct, 0)]).collect::<Vec<_>>());

    let mut transfers = Vec::new();
    plan.distinct_transfers(|transfer| {
        let (record, source) = (transfer.location.ordinal, transfer.source.as_ref());
        assert!(source.is_none_or(|range| range.access == AccessKind::Reads));
        assert_eq!(transfer.target.access, AccessKind::Writes);
        transfers.push((record, transfer.kind, source.map(range_of), range_of(&transfer.target)));
    });
    let expected = [
        (fill, QueueOpKind::Fill, None, (one, 16, 4)),
        (copy, QueueOpKind::Copy, Some((one, 24, 4)), (other, 4, 4)),
        (fill, QueueOpKind::Fill, None, (other, 8, 4)),
        (copy, QueueOpKind::Copy, Some((other, 16, 0)), (one, 44, 4)),
    ];
    assert_eq!(transfers, expected);
}
