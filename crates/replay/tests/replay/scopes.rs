//! Scopes, observers, and plans that run more than once.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rehal_base::StatusCode;
use rehal_hal::DeviceGroup;
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{HostRead, Observer, Plan, PlanOptions, RecordLocation, Replay, ReplayOptions, Scope};

use crate::common::{CaptureBuilder, FLUSHED, Observed, Ran, TestDevice, range, replay, run, whole};

#[test]
fn scopes_are_observed_in_order_with_their_names() {
    let mut capture = CaptureBuilder::new();
    for (begin, name) in [
        (true, "outer"),
        (true, "inner"),
        (false, "inner"),
        (true, "\u{fc}"),
        (false, "\u{fc}"),
        (false, "outer"),
    ] {
        if begin { capture.scope_begin(name) } else { capture.scope_end(name) }
    }
    let scopes = run(&capture.finish()).unwrap().scopes;
    assert_eq!(
        scopes,
        ["begin:outer", "begin:inner", "end:inner", "begin:\u{fc}", "end:\u{fc}", "end:outer"]
    );
}

#[test]
fn host_reads_name_the_innermost_open_scope() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(1);
    capture.read(buffer, 0, 1);
    capture.scope_begin("a");
    capture.read(buffer, 0, 1);
    capture.scope_begin("b");
    capture.read(buffer, 0, 1);
    // Scopes may overlap instead of nesting: ending one leaves the others open.
    capture.scope_end("a");
    capture.read(buffer, 0, 1);
    capture.scope_end("b");
    capture.read(buffer, 0, 1);
    // An end without a begin is observed and closes nothing.
    capture.scope_begin("c");
    capture.scope_end("other");
    capture.read(buffer, 0, 1);
    let observed = run(&capture.finish()).unwrap();
    let scopes: Vec<_> = observed.reads.iter().map(|read| read.scope.as_deref()).collect();
    assert_eq!(scopes, [None, Some("a"), Some("b"), Some("b"), None, Some("c")]);
}

#[test]
fn an_observer_error_ends_the_run_at_its_record() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(4);
    capture.fill(whole(buffer), &[1]);
    capture.scope_begin("stop here");
    let place = capture.place();
    capture.fill(whole(buffer), &[2]);
    let bytes = capture.finish();
    let plan = Plan::compile(bytes.clone(), PlanOptions::default()).unwrap();
    let (device, log) = TestDevice::create();
    let group = DeviceGroup::new(vec![device]).unwrap();
    let replay = Replay::new(plan, &group, &ReplayOptions::default()).unwrap();
    let mut observed = Observed { fail_in: Some("stop here"), ..Observed::default() };
    let error = replay.run(&mut [&mut observed]).unwrap_err();
    assert_eq!(error.code(), StatusCode::Aborted);
    let at =
        format!("record #{}, offset {}: operation(3) replay.scope_begin(50)", place.ordinal, place.offset);
    assert!(error.report().contains(&at), "{error:?}");
    let fills = log.lock().unwrap().iter().filter(|ran| **ran == Ran::Queue("queue_fill")).count();
    assert_eq!(fills, 1);
}

/// The panic propagates to the caller; the replay and its devices stay usable on the same thread.
#[test]
fn an_observer_panic_leaves_the_replay_usable() {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum In {
        ScopeBegin,
        ScopeEnd,
        HostRead,
        Step,
    }
    struct Panics(In);
    impl Panics {
        fn at(&self, place: In) -> rehal_base::Result<()> {
            if self.0 == place { std::panic::panic_any(place) } else { Ok(()) }
        }
    }
    impl Observer for Panics {
        fn scope_begin(&mut self, _: &Scope<'_>) -> rehal_base::Result<()> {
            self.at(In::ScopeBegin)
        }
        fn scope_end(&mut self, _: &Scope<'_>) -> rehal_base::Result<()> {
            self.at(In::ScopeEnd)
        }
        fn wants_host_reads(&self) -> bool {
            true
        }
        fn host_read(&mut self, _: &HostRead<'_>) -> rehal_base::Result<()> {
            self.at(In::HostRead)
        }
        fn wants_steps(&self) -> bool {
            true
        }
        fn step(&mut self, _: RecordLocation) -> rehal_base::Result<()> {
            self.at(In::Step)
        }
    }
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(4);
    capture.scope_begin("scope");
    capture.fill(whole(buffer), &[7]);
    capture.read(buffer, 0, 4);
    capture.scope_end("scope");
    let plan = Plan::compile(capture.finish(), PlanOptions::default()).unwrap();
    let group = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
    let replay = Replay::new(plan, &group, &ReplayOptions::default()).unwrap();
    for place in [In::ScopeBegin, In::ScopeEnd, In::HostRead, In::Step] {
        let run = || drop(replay.run(&mut [&mut Panics(place)]));
        let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        assert_eq!(*panic.downcast_ref::<In>().unwrap(), place);
        let mut observed = Observed::default();
        replay.run(&mut [&mut observed]).unwrap();
        assert_eq!(observed.bytes(), [[7; 4]]);
    }
}

/// An observer with the default behaviour.
struct Silent;

impl Observer for Silent {}

#[test]
fn observers_receive_only_what_they_request() {
    struct Steps(Vec<u32>);
    impl Observer for Steps {
        fn wants_steps(&self) -> bool {
            true
        }
        fn step(&mut self, location: RecordLocation) -> rehal_base::Result<()> {
            self.0.push(location.ordinal);
            Ok(())
        }
    }
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(4);
    capture.read(buffer, 0, 4);
    let bytes = capture.finish();
    let plan = Plan::compile(bytes.clone(), PlanOptions::default()).unwrap();
    let group = DeviceGroup::new(vec![TestDevice::create().0]).unwrap();
    let replay = Replay::new(plan, &group, &ReplayOptions::default()).unwrap();
    let (mut steps, mut observed) = (Steps(Vec::new()), Observed::default());
    replay.run(&mut [&mut Silent, &mut steps, &mut observed]).unwrap();
    // Session, device and allocator are not steps; the semaphore, the buffer, map and unmap are.
    assert_eq!(steps.0, [3, 4, 5, 6]);
    assert_eq!(observed.reads.len(), 1);
    replay.run(&mut []).unwrap();
}

#[test]
fn runs_are_independent() {
    let mut capture = CaptureBuilder::new();
    let (first, second) = (capture.buffer(4), capture.buffer(4));
    capture.scope_begin("execute");
    capture.read(first, 0, 4);
    capture.fill(range(first, 1, 2), &[9]);
    capture.copy(whole(first), whole(second));
    capture.read(second, 0, 4);
    capture.scope_end("execute");
    let runs = replay(&capture.finish(), &ReplayOptions::default(), 3).unwrap();
    assert_eq!(runs.len(), 3);
    for observed in &runs {
        assert_eq!(observed.bytes(), [[0, 0, 0, 0], [0, 9, 9, 0]]);
        assert_eq!(observed.scopes, ["begin:execute", "end:execute"]);
        assert_eq!(observed.ran, runs[0].ran);
    }
}

#[test]
fn a_failed_run_does_not_affect_the_next() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(4);
    capture.fill(whole(buffer), &[1]);
    capture.scope_begin("maybe");
    capture.read(buffer, 0, 4);
    let bytes = capture.finish();
    let plan = Plan::compile(bytes.clone(), PlanOptions::default()).unwrap();
    let group = DeviceGroup::new(vec![TestDevice::create().0]).unwrap();
    let replay = Replay::new(plan, &group, &ReplayOptions::default()).unwrap();
    replay.run(&mut [&mut Observed { fail_in: Some("maybe"), ..Observed::default() }]).unwrap_err();
    let mut observed = Observed::default();
    replay.run(&mut [&mut observed]).unwrap();
    assert_eq!(observed.bytes(), [[1; 4]]);
}

#[test]
fn two_devices_get_their_own_work() {
    let mut capture = CaptureBuilder::empty();
    let devices = [capture.device(), capture.device()];
    let mut buffers = [0; 2];
    for (device, buffer) in devices.into_iter().zip(&mut buffers) {
        capture.device = device;
        capture.allocator = capture.allocator(device);
        *buffer = capture.buffer(2);
    }
    for (index, (device, buffer)) in devices.into_iter().zip(buffers).enumerate() {
        capture.device = device;
        for _ in 0..=index {
            capture.order(&[], &[]).fill(whole(buffer), &[index as u8 + 1]);
        }
        capture.read(buffer, 0, 2);
    }
    let observed = run(&capture.finish()).unwrap();
    assert_eq!(observed.bytes(), [[1; 2], [2; 2]]);
    // The log of the first device comes before the log of the second.
    let once = [Ran::Queue("queue_fill"), FLUSHED];
    assert_eq!(observed.ran, [&once[..], &once, &once].concat());
}
