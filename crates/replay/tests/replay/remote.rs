//! Replays of other processes, as their observers see them.

use std::fs::File;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use rehal_base::{Error, Range, Result};
use rehal_hal::{DeviceGroup, transfer};
use rehal_replay::{
    ChangeTracker, ObservedReplay, Observer, Operation, Plan, PlanOptions, RemoteReplay, Replay,
    ReplayCommand, ReplayEvent, ReplayLink, ReplayOptions, ServedRun, serve_replay,
};
use serde::Deserialize;
use serde_json::Value;

use crate::common::{CaptureBuilder, FileSpec, TestDevice, code, function, whole};

/// A thread in the place of a process.
struct Link {
    events: Receiver<Value>,
    commands: SyncSender<Value>,
}

fn gone<E>(_: E) -> Error {
    Error::data_loss("the other side has ended")
}

impl ReplayLink for Link {
    fn exchange(&mut self, command: &ReplayCommand) -> Result<ReplayEvent> {
        self.commands.send(serde_json::to_value(command).unwrap()).map_err(gone)?;
        Ok(ReplayEvent::deserialize(self.events.recv().map_err(gone)?).unwrap())
    }
}

/// Observes a replay that a thread serves, with an observer of its own.
fn observe(plan: Plan, own: &mut (dyn Observer + Send), exchange: &File, observer: &mut dyn Observer) {
    let plan = Arc::new(plan);
    let (says, events) = sync_channel(1);
    let (commands, obeys) = sync_channel::<Value>(1);
    let (link, passed) = (Link { events, commands }, exchange.try_clone().unwrap());
    thread::scope(|scope| {
        let served = plan.clone();
        scope.spawn(move || {
            let devices = DeviceGroup::new(vec![TestDevice::create().0]).unwrap();
            let replay = Replay::new(served, &devices, &ReplayOptions::default()).unwrap();
            let mut observe = |run: &mut ServedRun<'_>| run(&mut [&mut *own]).map(|()| Value::Null);
            serve_replay(&replay, exchange, &mut observe, &mut |event| {
                says.send(serde_json::to_value(event).unwrap()).map_err(gone)?;
                Ok(ReplayCommand::deserialize(obeys.recv().map_err(gone)?).unwrap())
            })
        });
        let ready = link.events.recv().unwrap();
        assert!(matches!(ReplayEvent::deserialize(ready), Ok(ReplayEvent::Ready)));
        RemoteReplay::new(plan, passed, link).run_observed(None, &mut [observer]).unwrap();
    });
}

/// A kernel that writes into a binding.
struct Writes {
    binding: usize,
    at: u64,
}

impl Observer for Writes {
    fn wants_operations(&self) -> bool {
        true
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if let Some(it) = operation.bindings().get(self.binding) {
            transfer::write(it.buffer, it.offset + self.at, &[7])?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The changes of each binding, as its observer finds them.
#[derive(Default)]
struct Changes {
    tracker: ChangeTracker,
    found: Vec<(u32, Vec<Range>)>,
}

impl Observer for Changes {
    fn wants_operations(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        self.tracker.begin(operation.bindings())?;
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, _: &Operation<'_>) -> Result<ControlFlow<()>> {
        self.tracker.end()?;
        self.found.extend(self.tracker.bindings().map(|it| (it.binding, it.changes.to_vec())));
        self.tracker.release();
        Ok(ControlFlow::Continue(()))
    }
}

/// Without it, a replacement may change the weights of a model, as long as nothing else reads them.
#[test]
fn writes_into_weights_of_a_file_are_found() {
    /// More than are mapped at once.
    const BYTES: u64 = 17 << 20;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("weights.bin");
    std::fs::write(&path, vec![5; BYTES as usize]).unwrap();
    for at in [100, BYTES - 1] {
        let mut capture = CaptureBuilder::new();
        let cache = capture.cache();
        let executable = capture.executable(cache, &code("counts", 1, &[function("counts", 0, 2)]));
        let (state, weights) = (capture.buffer(16), capture.buffer(BYTES));
        let file = capture.file(&FileSpec::external(&path, BYTES));
        capture.fill(whole(state), &[3]);
        capture.file_read(file, 0, whole(weights), b"");
        let kernel = CaptureBuilder::kernel(executable, 0, [1, 1, 1]);
        capture.dispatch(&kernel, &[], &[whole(state), whole(weights)]);
        let plan = Plan::compile(capture.finish(), PlanOptions::default()).unwrap();
        let mut changes = Changes::default();
        let exchange = tempfile::tempfile().unwrap();
        observe(plan, &mut Writes { binding: 1, at }, &exchange, &mut changes);
        let ranges = changes.found.iter().find(|(binding, _)| *binding == 1).map(|(_, ranges)| &ranges[..]);
        let written = Range { offset: at / 16 * 16, length: 16 };
        assert_eq!(ranges, Some(&[written][..]), "{:?}", changes.found);
    }
}
