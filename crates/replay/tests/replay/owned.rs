//! Plans and replays own their data: they outlive their inputs and move between threads.

use std::sync::Arc;

use rehal_base::StatusCode;
use rehal_hal::DeviceGroup;
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{CaptureBytes, Plan, PlanOptions, Replay, ReplayOptions};

use crate::common::{CaptureBuilder, FileSpec, Observed, whole};

const fn is_send_and_static<T: Send + 'static>() {}
const fn is_sync<T: Sync>() {}

/// Checked by the compiler.
const _: () = {
    is_send_and_static::<Plan>();
    is_sync::<Plan>();
    is_send_and_static::<Replay>();
    is_sync::<Replay>();
    is_send_and_static::<CaptureBytes>();
};

/// A program that fills a buffer, reads an inline file, and maps both results.
fn capture() -> Vec<u8> {
    let mut capture = CaptureBuilder::new();
    let (filled, read) = (capture.buffer(4), capture.buffer(4));
    capture.scope_begin("execute");
    capture.fill(whole(filled), &[7]);
    capture.read(filled, 0, 4);
    let file = capture.file(&FileSpec::inline(b"data"));
    capture.file_read(file, 0, whole(read), b"");
    capture.read(read, 0, 4);
    capture.scope_end("execute");
    capture.finish()
}

fn devices() -> DeviceGroup {
    DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap()
}

#[track_caller]
fn assert_runs(replay: &Replay) {
    let mut observed = Observed::default();
    replay.run(&mut [&mut observed]).unwrap();
    assert_eq!(observed.bytes(), [&[7; 4], b"data"]);
    assert_eq!(observed.scopes, ["begin:execute", "end:execute"]);
}

/// A replay whose inputs are dropped when this returns.
fn kept() -> Replay {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("capture");
    std::fs::write(&path, capture()).unwrap();
    let plan = Plan::compile(CaptureBytes::map(&path).unwrap(), PlanOptions::default()).unwrap();
    Replay::new(plan, &devices(), &ReplayOptions::default()).unwrap()
}

#[test]
fn threads_share_a_plan_and_its_bytes() {
    let bytes = Arc::new(capture());
    let plan = Arc::new(Plan::compile(bytes.clone(), PlanOptions::default()).unwrap());
    assert_eq!(plan.capture().as_slice().as_ptr(), bytes.as_ptr(), "the plan copied the capture");
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let plan = plan.clone();
            std::thread::spawn(move || {
                let replay = Replay::new(plan, &devices(), &ReplayOptions::default()).unwrap();
                (0..5).for_each(|_| assert_runs(&replay));
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(Arc::strong_count(&plan), 1, "a dropped replay keeps its plan");
    drop(plan);
    assert_eq!(Arc::strong_count(&bytes), 1, "a dropped plan keeps the capture");
}

#[test]
fn threads_share_a_replay() {
    let replay = kept();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..5).for_each(|_| assert_runs(&replay)));
        }
    });
}

#[test]
fn a_plan_has_the_tear_of_its_capture() {
    let bytes = capture();
    let whole = Plan::compile(bytes.clone(), PlanOptions::default()).unwrap();
    assert_eq!(whole.tear(), None);
    let cut = bytes[..bytes.len() - 1].to_vec();
    let error = Plan::compile(cut.clone(), PlanOptions::default()).err().unwrap();
    assert_eq!(error.code(), StatusCode::DataLoss);
    let recovered = Plan::compile(cut, PlanOptions { recover: true, ..PlanOptions::default() }).unwrap();
    let tear = recovered.tear().unwrap();
    assert!(tear.lost_bytes > 0 && tear.offset + tear.lost_bytes == bytes.len() as u64 - 1);
    assert_eq!(recovered.step_count(), whole.step_count() - 1);
}
