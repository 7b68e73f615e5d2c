//! Queue operations except on files: transfers, queue-ordered memory, dispatches, barriers.

use rehal_base::StatusCode;
use rehal_capture::OperationCode as Op;
use rehal_hal::NeededWorkgroups;
use rehal_replay::{Replacement, ReplayOptions, Selector, Substitution};
use zerocopy::little_endian::{U32, U64};

use crate::common::{Bound, CaptureBuilder, FLUSHED, Ran, code, function, range, run, run_with, whole};

#[test]
fn use_after_dealloca_is_an_error() {
    for add in [
        |it: &mut CaptureBuilder, buffer| it.fill(whole(buffer), &[1]),
        |it: &mut CaptureBuilder, buffer| it.dealloca(buffer),
        |it: &mut CaptureBuilder, buffer| it.range(Op::BUFFER_MAP_RANGE, buffer, 0, 4, 1, 1),
    ] {
        let mut capture = CaptureBuilder::new();
        let buffer = capture.alloca(4);
        capture.dealloca(buffer);
        add(&mut capture, buffer);
        let error = run(&capture.finish()).unwrap_err();
        assert_eq!(error.code(), StatusCode::FailedPrecondition);
        let at = format!("record #{}, ", capture.place().ordinal);
        assert!(error.report().contains(&at) && error.report().contains("dealloc"), "{error:?}");
    }
}

#[test]
fn barriers_order_by_timepoints() {
    let mut capture = CaptureBuilder::new();
    let (started, done) = (capture.semaphore(10), capture.semaphore(0));
    // The initial payload counts as reached, and payloads may skip values.
    capture.order(&[(started, 10)], &[(done, 5), (started, 100)]).execute(0, &[]);
    capture.order(&[(done, 3), (started, 50)], &[(done, 6)]).execute(0, &[]);
    capture.order(&[], &[]).execute(0, &[]);
    capture.bare_call(Op::DEVICE_QUEUE_FLUSH, capture.device);
    let observed = run(&capture.finish()).unwrap();
    let one = [Ran::Queue("queue_barrier"), FLUSHED];
    assert_eq!(observed.ran, [&one[..], &one, &one, &[FLUSHED]].concat());
}

#[test]
fn a_direct_dispatch_gets_its_arguments() {
    let mut capture = CaptureBuilder::new();
    let (buffer, cache) = (capture.buffer(16), capture.cache());
    capture.write(buffer, 0, b"0123456789abcdef");
    let functions = [function("other", 0, 0), function("kernel", 2, 2)];
    let executable = capture.executable(cache, &code("module", 1, &functions));
    let mut header = CaptureBuilder::kernel(executable, 1, [4, 5, 6]);
    header.workgroup_size = [7, 8, 9].map(U32::new);
    header.dynamic_workgroup_local_memory = U32::new(4096);
    capture.dispatch(&header, b"constant", &[range(buffer, 4, 2), range(buffer, 8, u64::MAX)]);
    capture.read(buffer, 0, 6);
    let observed = run(&capture.finish()).unwrap();
    let expected = Ran::Dispatch {
        executable: "module".into(),
        function: "kernel".into(),
        constants: b"constant".to_vec(),
        bindings: vec![
            Bound { offset: 4, bytes: b"45".to_vec() },
            Bound { offset: 8, bytes: b"89abcdef".to_vec() },
        ],
        workgroup_count: [4, 5, 6],
        workgroup_size: [7, 8, 9],
        local_memory: 4096,
    };
    assert!(observed.ran.contains(&expected), "{:?}", observed.ran);
    assert_eq!(observed.bytes(), [b"012356"]);
    assert_eq!(observed.executables, [(executable, "module".to_string())]);
}

/// The workgroup counts of the dispatches that ran.
fn counts(observed: &crate::common::Observed) -> Vec<[u32; 3]> {
    let count = |ran: &Ran| match ran {
        Ran::Dispatch { workgroup_count, .. } => Some(*workgroup_count),
        _ => None,
    };
    observed.ran.iter().filter_map(count).collect()
}

#[test]
fn an_indirect_dispatch_reads_its_count_on_execution() {
    for flags in [1, 2] {
        let mut capture = CaptureBuilder::new();
        let (buffer, cache) = (capture.buffer(16), capture.cache());
        let executable = capture.executable(cache, &code("module", 1, &[function("kernel", 0, 0)]));
        // The static count is also set and must be ignored.
        let mut header = CaptureBuilder::kernel(executable, 0, [99; 3]);
        header.flags = U32::new(flags);
        header.workgroup_count_ref = range(buffer, 4, 12);
        for count in [[1u32, 2, 3], [70000, 1, 0]] {
            capture.update(range(buffer, 4, 12), zerocopy::IntoBytes::as_bytes(&count.map(U32::new)));
            capture.dispatch(&header, &[], &[]);
        }
        assert_eq!(counts(&run(&capture.finish()).unwrap()), [[1, 2, 3], [70000, 1, 0]]);
    }
}

/// A count that a program computes into a buffer is for its own code: a computed count does not replace it,
/// and one that is stated does.
#[test]
fn a_replacement_of_an_indirect_dispatch_needs_a_stated_count() {
    let mut capture = CaptureBuilder::new();
    let (buffer, cache) = (capture.buffer(12), capture.cache());
    let executable = capture.executable(cache, &code("module", 1, &[function("kernel", 0, 0)]));
    let mut header = CaptureBuilder::kernel(executable, 0, [0; 3]);
    header.flags = U32::new(1);
    header.workgroup_count_ref = range(buffer, 0, 12);
    capture.update(range(buffer, 0, 12), zerocopy::IntoBytes::as_bytes(&[1_u32, 2, 3].map(U32::new)));
    capture.dispatch(&header, &[], &[]);
    let bytes = capture.finish();
    let replaced = |needed: NeededWorkgroups| {
        let replacement = Replacement::bytes(code("new", 2, &[function("kernel", 0, 0)]).encode());
        let replacement = replacement.with_workgroups(Some("kernel"), needed);
        let substitution = Substitution::new(Selector::Id(executable), replacement);
        run_with(&bytes, &ReplayOptions::default().substitutions(vec![substitution])).map(|it| counts(&it))
    };
    assert_eq!(replaced(NeededWorkgroups::Same).unwrap(), [[1, 2, 3]]);
    assert_eq!(replaced(NeededWorkgroups::Count([4, 5, 6])).unwrap(), [[4, 5, 6]]);
    let computed = NeededWorkgroups::Computed(std::sync::Arc::new("=1 -> 0 0 0".parse().unwrap()));
    let error = replaced(computed).unwrap_err();
    assert_eq!(error.message(), "its workgroup count is not known: the dispatch reads it from a buffer");
}

#[test]
fn arguments_that_do_not_match_the_signature_are_an_error() {
    for (constants, bindings, words) in [
        (&b""[..], 1, "takes 4 bytes of constants, the dispatch has 0"),
        (b"12345678", 1, "takes 4 bytes of constants, the dispatch has 8"),
        (b"1234", 0, "takes 1 bindings, the dispatch has 0"),
        (b"1234", 2, "takes 1 bindings, the dispatch has 2"),
    ] {
        let mut capture = CaptureBuilder::new();
        let (buffer, cache) = (capture.buffer(4), capture.cache());
        let executable = capture.executable(cache, &code("module", 1, &[function("kernel", 1, 1)]));
        let bindings = vec![whole(buffer); bindings];
        capture.dispatch(&CaptureBuilder::kernel(executable, 0, [1; 3]), constants, &bindings);
        let error = run(&capture.finish()).unwrap_err();
        assert_eq!(error.code(), StatusCode::InvalidArgument);
        assert!(error.message().contains(words), "{error:?}");
    }
}

#[test]
fn a_failing_kernel_ends_the_run_at_its_dispatch() {
    let mut capture = CaptureBuilder::new();
    let cache = capture.cache();
    let executable = capture.executable(cache, &code("module", 1, &[function("fails", 0, 0)]));
    capture.dispatch(&CaptureBuilder::kernel(executable, 0, [1; 3]), &[], &[]);
    for signals in [true, false] {
        // The failure comes through the semaphore; without one, from the submission itself.
        if !signals {
            capture.records.pop();
            capture.order(&[], &[]).dispatch(&CaptureBuilder::kernel(executable, 0, [1; 3]), &[], &[]);
        }
        let place = capture.place();
        let error = run(&capture.finish()).unwrap_err();
        assert_eq!((error.code(), error.message()), (StatusCode::Internal, "the kernel failed"));
        let at = format!(
            "record #{}, offset {}: operation(3) device.queue_dispatch(21), device 1, object 1",
            place.ordinal, place.offset
        );
        assert!(error.report().contains(&at), "{error:?}");
    }
}

#[test]
fn out_of_range_operations_are_errors() {
    for (offset, length) in [(0, 5), (4, 1), (u64::MAX, 2), (2, u64::MAX - 1), (5, u64::MAX)] {
        let mut capture = CaptureBuilder::new();
        let buffer = capture.buffer(4);
        capture.fill(range(buffer, offset, length), &[1]);
        let error = run(&capture.finish()).unwrap_err();
        assert_eq!(error.code(), StatusCode::OutOfRange, "{offset} {length}: {error:?}");
    }
}

#[test]
fn a_semaphore_failure_propagates_to_its_waiters() {
    let mut capture = CaptureBuilder::new();
    let (cache, buffer) = (capture.cache(), capture.buffer(4));
    let executable = capture.executable(cache, &code("module", 1, &[function("fails", 0, 0)]));
    capture.dispatch(&CaptureBuilder::kernel(executable, 0, [1; 3]), &[], &[]);
    let failed = capture.place();
    capture.fill(whole(buffer), &[1]);
    let error = run(&capture.finish()).unwrap_err();
    // The first failure is reported, not the waiter's.
    assert!(error.report().contains(&format!("record #{}, ", failed.ordinal)), "{error:?}");
}

#[test]
fn operations_keep_their_queue_affinity() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(4);
    for affinity in [1, 6, u64::MAX] {
        capture.fill(whole(buffer), &[1]);
        let header: &mut rehal_capture::layout::QueueFill =
            zerocopy::FromBytes::mut_from_prefix(capture.last_payload()).unwrap().0;
        header.queue_affinity = U64::new(affinity);
    }
    let ran = run(&capture.finish()).unwrap().ran;
    let flushed = ran.into_iter().filter(|it| matches!(it, Ran::Flushed(_)));
    assert_eq!(flushed.collect::<Vec<_>>(), [1, 6, u64::MAX].map(Ran::Flushed));
}
