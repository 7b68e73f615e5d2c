//! Verification of a replay whose process says what does not happen: a kernel may say anything in its name.

use std::fs::File;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{DeviceGroup, transfer};
use rehal_judge::{
    Ledger, LedgerOptions, LedgerWriter, Outcome, Verification, VerifyOptions, VerifySides, verify_against,
    verify_lockstep,
};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{
    Observer, Operation, Plan, PlanOptions, RemoteReplay, Replay, ReplayCommand, ReplayEvent, ReplayLink,
    ReplayOptions, ServedRun, serve_replay,
};
use serde::Deserialize;
use serde_json::{Value, json};

fn plan() -> Arc<Plan> {
    let path = testing::fixtures().join("captures/add4.add.local-sync.ireereplay");
    Arc::new(Plan::compile(std::fs::read(path).unwrap(), PlanOptions::default()).unwrap())
}

fn replay(plan: &Arc<Plan>) -> Replay {
    let devices = (0..plan.device_count()).map(|_| LocalSync::create(Plugins::default())).collect();
    Replay::new(plan.clone(), &DeviceGroup::new(devices).unwrap(), &ReplayOptions::default()).unwrap()
}

fn ledger(plan: &Arc<Plan>) -> Ledger {
    let mut writer = LedgerWriter::new(Vec::new(), plan, LedgerOptions::default()).unwrap();
    replay(plan).run(&mut [&mut writer]).unwrap();
    Ledger::from_bytes(writer.finish().unwrap()).unwrap()
}

/// A wrong kernel: after the first dispatch, a byte of each binding is another one.
struct Flaw {
    is_done: bool,
}

impl Observer for Flaw {
    fn wants_operations(&self) -> bool {
        true
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        for it in operation.bindings().iter().filter(|_| !self.is_done) {
            let mut byte = [0];
            transfer::read(it.buffer, it.offset, &mut byte)?;
            transfer::write(it.buffer, it.offset, &[byte[0] ^ 0x40])?;
        }
        self.is_done |= operation.dispatch.is_some();
        Ok(ControlFlow::Continue(()))
    }
}

/// An event that a process forges.
#[derive(Clone, Debug)]
enum Forged {
    /// It says nothing, and continues.
    Omitted,
    /// It says that the run has ended.
    Ended,
    /// Another value at this place, or fewer bytes.
    Value(String, Value),
    Cut,
}

/// Forges one event, by number.
struct Link {
    events: Receiver<Value>,
    commands: SyncSender<Value>,
    exchange: File,
    forged: Option<(usize, Forged)>,
    count: usize,
    seen: Arc<parking_lot::Mutex<Vec<Value>>>,
}

fn gone<E>(_: E) -> Error {
    Error::new(StatusCode::Aborted, "the other side has ended")
}

impl Link {
    fn next(&mut self) -> Result<ReplayEvent> {
        let mut event = self.events.recv().map_err(gone)?;
        self.seen.lock().push(event.clone());
        self.count += 1;
        match self.forged.clone().filter(|(at, _)| *at + 1 == self.count) {
            Some((_, Forged::Omitted)) => {
                let resume = json!({"order": {"Resume": {"is_ended": false}}, "dropped": []});
                self.commands.send(resume).map_err(gone)?;
                return self.next();
            }
            Some((_, Forged::Ended)) => event = json!({"Ended": {"Ok": null}}),
            Some((_, Forged::Value(place, value))) => *event.pointer_mut(&place).unwrap() = value,
            Some((_, Forged::Cut)) => self.exchange.set_len(0).unwrap(),
            None => {}
        }
        ReplayEvent::deserialize(event).map_err(|error| Error::data_loss(error.to_string()))
    }
}

impl ReplayLink for Link {
    fn exchange(&mut self, command: &ReplayCommand) -> Result<ReplayEvent> {
        let command = serde_json::to_value(command).unwrap();
        self.commands.send(command).map_err(gone)?;
        self.next()
    }
}

type Verify<'v> = dyn Fn(&RemoteReplay) -> Result<Verification> + 'v;

/// The outcome of a verification of a replay that is served by a thread, and its events.
fn verified(
    plan: &Arc<Plan>,
    is_wrong: bool,
    forged: Option<(usize, Forged)>,
    verify: &Verify<'_>,
) -> (Result<Verification>, Vec<Value>) {
    let (says, events) = sync_channel(1);
    let (commands, obeys) = sync_channel::<Value>(1);
    let seen: Arc<parking_lot::Mutex<Vec<Value>>> = Arc::default();
    let exchange = tempfile::tempfile().unwrap();
    let own = exchange.try_clone().unwrap();
    let mut link = Link {
        exchange: exchange.try_clone().unwrap(),
        events,
        commands,
        forged,
        count: 0,
        seen: seen.clone(),
    };
    let found = thread::scope(|scope| {
        scope.spawn(|| {
            let (replay, says, obeys) = (replay(plan), says, obeys);
            let mut observe =
                |run: &mut ServedRun<'_>| run(&mut [&mut Flaw { is_done: !is_wrong }]).map(|()| Value::Null);
            serve_replay(&replay, &own, &mut observe, &mut |event| {
                says.send(serde_json::to_value(event).unwrap()).map_err(gone)?;
                Ok(ReplayCommand::deserialize(obeys.recv().map_err(gone)?).unwrap())
            })
        });
        assert!(matches!(link.next().unwrap(), ReplayEvent::Ready));
        verify(&RemoteReplay::new(plan.clone(), exchange, link))
    });
    let seen = seen.lock().clone();
    (found, seen)
}

/// The places of the values in an event.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(all) => all.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(all) => all.iter().enumerate().map(|(index, it)| (index.to_string(), it)).collect(),
        _ => Vec::new(),
    };
    children.iter().for_each(|(name, value)| places(value, &format!("{at}/{name}"), found));
    found.push(at.to_owned());
}

fn forgeries_of(event: &Value) -> Vec<Forged> {
    let mut all_forged = vec![Forged::Omitted, Forged::Ended, Forged::Cut];
    let mut all = Vec::new();
    places(event, "", &mut all);
    for place in all {
        let values = match event.pointer(&place) {
            Some(Value::Number(it)) => {
                let it = it.as_u64().unwrap();
                vec![json!(0), json!(it + 1), json!(it.wrapping_sub(1)), json!(u64::MAX)]
            }
            Some(Value::Array(_)) => vec![json!([])],
            Some(Value::String(_)) => vec![json!("Reads"), json!("reads"), json!("writes"), json!("")],
            Some(Value::Object(_)) if place.ends_with("dispatch") => vec![Value::Null],
            _ => Vec::new(),
        };
        all_forged.extend(values.into_iter().map(|value| Forged::Value(place.clone(), value)));
    }
    all_forged
}

/// Without this test, a kernel may have its results called the same by what it says of them.
#[test]
fn nothing_that_is_forged_makes_a_wrong_kernel_right() {
    let plan = plan();
    let ledger = ledger(&plan);
    let options = VerifyOptions::default();
    let against = |actual: &RemoteReplay| verify_against(actual, &ledger, &options, &mut []);
    let lockstep = |actual: &RemoteReplay| {
        let expected = replay(&plan);
        let (expected_observers, observers) = (&mut [], &mut []);
        verify_lockstep(VerifySides { expected: &expected, actual, expected_observers, observers }, &options)
    };
    let all: [&Verify<'_>; 2] = [&against, &lockstep];
    for verify in all {
        let (right, _) = verified(&plan, false, None, verify);
        let right = right.unwrap();
        assert_eq!((right.outcome(), right.dispatch_count, right.read_count), (Outcome::Same, 1, 2));
        let (wrong, events) = verified(&plan, true, None, verify);
        assert_eq!(wrong.unwrap().outcome(), Outcome::Different);
        let mut count = 0;
        for (number, event) in events.iter().enumerate().skip(1) {
            for forged in forgeries_of(event) {
                let (found, _) = verified(&plan, true, Some((number, forged.clone())), verify);
                assert!(
                    found.as_ref().map_or(true, |it| it.outcome() != Outcome::Same),
                    "{number}: {forged:?} of {event}: {found:?}"
                );
                count += 1;
            }
        }
        assert!(count > 200, "{count}");
    }
}
