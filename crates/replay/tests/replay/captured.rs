//! The captured order, on a device that completes work late and in random order.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use rehal_base::{Result, StatusCode};
use rehal_cts::late::LateDevice;
use rehal_hal::{BufferUsage, DeviceGroup};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{
    Candidate, Observer, Plan, PlanOptions, Replacement, Replay, ReplayOptions, ReplayOrder, Scope, Selector,
    Substitution,
};
use zerocopy::little_endian::U32;

use crate::common::{
    CaptureBuilder, Id, Observed, Ran, TestDevice, allocation, code, function, range, slot, whole,
};

const MAX_DELAY: Duration = Duration::from_micros(300);

fn captured() -> ReplayOptions {
    ReplayOptions::default().order(ReplayOrder::Captured)
}

/// Replays a capture in an order on a late `local-sync`.
fn late(bytes: &[u8], order: ReplayOrder, seed: u64) -> Result<Observed> {
    let plan = Plan::compile(bytes.to_vec(), PlanOptions::default())?;
    let device = LateDevice::over(LocalSync::create(Plugins::default()), seed, MAX_DELAY);
    let options = ReplayOptions::default().order(order);
    let mut observed = Observed::default();
    Replay::new(plan, &DeviceGroup::new(vec![device])?, &options)?.run(&mut [&mut observed])?;
    Ok(observed)
}

/// Replays a capture in serialized order on a synchronous device.
pub fn expected(bytes: &[u8]) -> Observed {
    on_time(bytes, &ReplayOptions::default())
}

/// Replays a capture on a synchronous device.
fn on_time(bytes: &[u8], options: &ReplayOptions) -> Observed {
    let plan = Plan::compile(bytes.to_vec(), PlanOptions::default()).unwrap();
    let group = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
    let mut observed = Observed::default();
    Replay::new(plan, &group, options).unwrap().run(&mut [&mut observed]).unwrap();
    observed
}

/// Replays a capture in captured order on a late test device; also returns the device's log.
fn logged(
    bytes: &[u8],
    seed: u64,
    observers: &mut [&mut dyn Observer],
) -> (Result<()>, Arc<Mutex<Vec<Ran>>>) {
    let (device, log) = TestDevice::create();
    let group = DeviceGroup::new(vec![LateDevice::over(device, seed, MAX_DELAY)]).unwrap();
    let plan = Plan::compile(bytes.to_vec(), PlanOptions::default()).unwrap();
    let outcome = Replay::new(plan, &group, &captured()).and_then(|replay| replay.run(observers));
    (outcome, log)
}

/// A program on a few small buffers: fills, copies and updates with random ranges and waits, host accesses
/// between them, buffers that a queue allocates and deallocates, a command buffer that is used often, and
/// submissions that wait for a signal that comes later.
pub struct RandomProgram {
    capture: CaptureBuilder,
    random: Rng,
    buffers: Vec<Id>,
    /// The members of `buffers` that a queue allocated.
    transient: Vec<Id>,
    /// Copies between the slots, and from a buffer.
    reused: Id,
    /// Timepoints that have been signalled, or will be without the host.
    signalled: Vec<(Id, u64)>,
    /// The gate of the submission that waits for a later signal, and its own signal.
    gate: Option<[(Id, u64); 2]>,
}

const BUFFER_BYTES: u64 = 32;

impl RandomProgram {
    /// A capture; a part of it chosen at random is in the scope `part`.
    pub fn capture(seed: u64) -> Vec<u8> {
        let mut capture = CaptureBuilder::new();
        let buffers: Vec<_> = (0..3).map(|_| capture.buffer(BUFFER_BYTES)).collect();
        let reused = capture.commands(2, |it, into| {
            it.command_copy(into, slot(0, 0, 8), slot(1, 4, 8));
            it.command_barrier(into, &[], &[]);
            it.command_copy(into, range(buffers[0], 8, 4), slot(1, 0, 4));
        });
        let mut random = Rng::with_seed(seed);
        let part = random.usize(5..25);
        let part = part..part + random.usize(1..12);
        let (transient, signalled) = (Vec::new(), Vec::new());
        let mut this = Self { capture, random, buffers, transient, reused, signalled, gate: None };
        for step in 0..40 {
            match step {
                _ if step == part.start => this.capture.scope_begin("part"),
                _ if step == part.end => {
                    for buffer in this.buffers.clone() {
                        this.capture.read(buffer, 0, BUFFER_BYTES);
                    }
                    this.capture.scope_end("part");
                }
                _ => {}
            }
            this.step();
        }
        this.open_gate();
        for buffer in this.buffers.clone() {
            this.capture.read(buffer, 0, BUFFER_BYTES);
        }
        this.capture.finish()
    }

    fn step(&mut self) {
        let buffer = self.buffer();
        match self.random.u8(..16) {
            0 => self.capture.read(buffer, 4, 8),
            1 => {
                let bytes = [self.random.u8(..); 8];
                let at = self.random.u64(..BUFFER_BYTES - 8);
                self.capture.write(buffer, at, &bytes);
            }
            2 | 3 if self.gate.is_none() => self.wait_behind_a_gate(),
            2..5 => self.open_gate(),
            5 => {
                let buffer = self.capture.alloca(BUFFER_BYTES);
                self.buffers.push(buffer);
                self.transient.push(buffer);
            }
            6 if self.gate.is_none() && !self.transient.is_empty() => {
                let buffer = self.transient.swap_remove(self.random.usize(..self.transient.len()));
                self.buffers.retain(|it| *it != buffer);
                self.capture.dealloca(buffer);
            }
            _ => self.submit(),
        }
    }

    fn buffer(&mut self) -> Id {
        *self.random.choice(&self.buffers).unwrap()
    }

    /// Up to two of the last signals.
    fn waits(&mut self) -> Vec<(Id, u64)> {
        let recent = &self.signalled[self.signalled.len().saturating_sub(6)..];
        let count = self.random.usize(..3).min(recent.len());
        self.random.choose_multiple(recent, count).into_iter().copied().collect()
    }

    /// A signal of a new semaphore, or the next of an old one.
    fn signal(&mut self) -> (Id, u64) {
        match self.random.choice(&self.signalled) {
            Some((semaphore, _)) if self.random.u8(..4) == 0 => {
                let semaphore = *semaphore;
                let of = self.signalled.iter().filter(|(other, _)| *other == semaphore);
                (semaphore, of.map(|(_, value)| value).max().unwrap() + 1)
            }
            _ => (self.capture.semaphore(0), 1),
        }
    }

    fn submit(&mut self) {
        let (waits, signal) = (self.waits(), self.signal());
        self.capture.order(&waits, &[signal]);
        self.work();
        self.signalled.push(signal);
    }

    fn wait_behind_a_gate(&mut self) {
        let (gate, signal) = ((self.capture.semaphore(0), 1), (self.capture.semaphore(0), 1));
        let mut waits = self.waits();
        waits.push(gate);
        self.capture.order(&waits, &[signal]);
        self.work();
        self.gate = Some([gate, signal]);
    }

    fn open_gate(&mut self) {
        if let Some([gate, signal]) = self.gate.take() {
            let waits = self.waits();
            self.capture.order(&waits, &[gate]).execute(0, &[]);
            self.signalled.push(signal);
        }
    }

    fn work(&mut self) {
        let (target, source, byte) = (self.buffer(), self.buffer(), self.random.u8(..));
        let (length, to, from) = (
            self.random.u64(1..12),
            self.random.u64(..BUFFER_BYTES - 12),
            self.random.u64(..BUFFER_BYTES - 12),
        );
        match self.random.u8(..5) {
            0 => self.capture.fill(range(target, to, length), &[byte]),
            1 if target != source && target != self.buffers[0] => {
                let slots = [range(source, from, 12), range(target, to, 12)];
                self.capture.execute(self.reused, &slots);
            }
            2 => self.capture.update(range(target, to, 4), &[byte, byte ^ 1, byte ^ 2, byte ^ 3]),
            3 if target != source => {
                self.capture.copy(range(source, from, length), range(target, to, length))
            }
            _ => {
                let slots = [range(target, to, 12), range(source, from, 12)];
                let filled = self.capture.commands(1, |it, into| {
                    it.command_fill(into, slot(0, 4, 4), &[byte]);
                });
                self.capture.execute(filled, &slots[..1]);
            }
        }
    }
}

#[test]
fn random_programs_read_the_same_in_both_orders() {
    for program in 0..80 {
        let bytes = RandomProgram::capture(program);
        let expected = expected(&bytes);
        // On a synchronous device, without waits.
        assert_eq!(on_time(&bytes, &captured()).reads, expected.reads, "program {program}");
        for (order, seed) in
            [(ReplayOrder::Captured, 1), (ReplayOrder::Captured, 2), (ReplayOrder::Serialized, 3)]
        {
            let observed = late(&bytes, order, seed);
            let reads = observed.as_ref().map(|observed| &observed.reads);
            assert_eq!(
                reads.ok(),
                Some(&expected.reads),
                "program {program} in {} order: {reads:?}",
                order.name()
            );
        }
    }
}

/// Each of the two kernels returns when both run.
#[test]
fn unordered_work_overlaps() {
    let mut capture = CaptureBuilder::new();
    let cache = capture.cache();
    let executable = capture.executable(cache, &code("pair", 1, &[function("meets", 0, 1)]));
    let kernel = CaptureBuilder::kernel(executable, 0, [1, 1, 1]);
    let buffers = [capture.buffer(4), capture.buffer(4)];
    for buffer in buffers {
        let done = capture.semaphore(0);
        capture.order(&[], &[(done, 1)]).dispatch(&kernel, &[], &[whole(buffer)]);
    }
    buffers.iter().for_each(|buffer| capture.read(*buffer, 0, 4));
    let mut observed = Observed::default();
    let (outcome, _) = logged(&capture.finish(), 0, &mut [&mut observed]);
    outcome.unwrap();
    assert_eq!(observed.bytes(), [[1; 4], [1; 4]]);
}

/// The two kernels share an input; of a replacement, nothing is known.
#[test]
fn kernels_that_read_the_same_bytes_overlap() {
    let mut capture = CaptureBuilder::new();
    let cache = capture.cache();
    let pair = code("pair", 1, &[function("meets", 0, 2)]);
    let executable = capture.executable(cache, &pair);
    let kernel = CaptureBuilder::kernel(executable, 0, [1, 1, 1]);
    let (input, outputs) = (capture.buffer(4), [capture.buffer(4), capture.buffer(4)]);
    for output in outputs {
        let done = capture.semaphore(0);
        capture.order(&[], &[(done, 1)]).dispatch(&kernel, &[], &[whole(output), whole(input)]);
    }
    let plan = Arc::new(Plan::compile(capture.finish(), PlanOptions::default()).unwrap());
    let replay = |options: &ReplayOptions| {
        let group = DeviceGroup::new(vec![LateDevice::over(TestDevice::create().0, 0, MAX_DELAY)]).unwrap();
        Replay::new(plan.clone(), &group, options).unwrap()
    };
    let waits = |options: &ReplayOptions| replay(options).inserted_wait_count(None).unwrap();
    assert_eq!(waits(&captured()), 1);
    let told = captured().written_bindings(Some(Arc::new(|_| vec![Some(vec![true, false])])));
    assert_eq!(waits(&told), 0);
    replay(&told).run(&mut []).unwrap();
    let replacement = Substitution::new(Selector::All, Replacement::bytes(pair.encode()));
    assert_eq!(waits(&told.clone().substitutions(vec![replacement])), 1);
    let substitute =
        Some(Arc::new(move |_: &Candidate<'_>| Ok(Some(Replacement::bytes(pair.encode())))) as _);
    assert_eq!(waits(&told.substitute(substitute)), 1);
}

/// The failing dispatch, one that waits for it, and others that do not.
#[test]
fn a_failure_names_the_record_that_caused_it() {
    [true, false].into_iter().for_each(a_failure_is_named);
}

/// Submissions signal one semaphore, so that it fails for those before the failure too, or one each.
fn a_failure_is_named(signals_are_shared: bool) {
    let mut capture = CaptureBuilder::new();
    let cache = capture.cache();
    let executable =
        capture.executable(cache, &code("mixed", 1, &[function("fails", 0, 1), function("adds", 0, 1)]));
    let [fails, adds] = [0, 1].map(|function| CaptureBuilder::kernel(executable, function, [1, 1, 1]));
    let buffers = [capture.buffer(4), capture.buffer(4)];
    // Independent of the failure, and issued before it.
    let other = capture.semaphore(0);
    capture.order(&[], &[(other, 1)]).dispatch(&adds, &[], &[whole(buffers[1])]);
    let one = capture.semaphore(0);
    let chain: Vec<_> = match signals_are_shared {
        true => (1..7).map(|value| (one, value)).collect(),
        false => (1..7).map(|_| (capture.semaphore(0), 1)).collect(),
    };
    capture.order(&[], &chain[..1]).dispatch(&adds, &[], &[whole(buffers[0])]);
    capture.order(&chain[..1], &chain[1..2]).dispatch(&fails, &[], &[whole(buffers[0])]);
    let place = capture.place();
    for at in 1..5 {
        let (waits, signals) = (&chain[at..at + 1], &chain[at + 1..at + 2]);
        capture.order(waits, signals).dispatch(&adds, &[], &[whole(buffers[0])]);
    }
    capture.read(buffers[0], 0, 4);
    for seed in 0..20 {
        let (outcome, _) = logged(&capture.finish(), seed, &mut []);
        let error = outcome.unwrap_err();
        assert_eq!((error.code(), error.message()), (StatusCode::Internal, "the kernel failed"));
        let at = format!("record #{}, offset {}: operation", place.ordinal, place.offset);
        assert!(error.report().contains(&at), "{}", error.report());
    }
}

/// The loss fails the timeline of what was complete before it, too.
#[test]
fn a_lost_device_names_the_record_that_lost_it() {
    let mut capture = CaptureBuilder::new();
    let cache = capture.cache();
    let executable =
        capture.executable(cache, &code("mixed", 1, &[function("fails", 0, 1), function("adds", 0, 1)]));
    let [fails, adds] = [0, 1].map(|function| CaptureBuilder::kernel(executable, function, [1, 1, 1]));
    let buffer = capture.buffer(4);
    let [first, second] = [capture.semaphore(0), capture.semaphore(0)];
    capture.order(&[], &[(first, 1)]).dispatch(&adds, &[], &[whole(buffer)]);
    capture.order(&[(first, 1)], &[(second, 1)]).dispatch(&fails, &[], &[whole(buffer)]);
    let place = capture.place();
    capture.read(buffer, 0, 4);
    for seed in 0..20 {
        let plan = Plan::compile(capture.finish(), PlanOptions::default()).unwrap();
        let device = LateDevice::losable(TestDevice::create().0, seed, MAX_DELAY);
        let group = DeviceGroup::new(vec![device]).unwrap();
        let error = Replay::new(plan, &group, &captured()).unwrap().run(&mut []).unwrap_err();
        assert_eq!((error.code(), error.message()), (StatusCode::Internal, "the kernel failed"));
        let at = format!("record #{}, offset {}: operation", place.ordinal, place.offset);
        assert!(error.report().contains(&at), "{}", error.report());
    }
}

/// A run that ends with an error does not leave work in flight that uses its objects.
#[test]
fn a_failing_observer_ends_the_run_after_work_in_flight() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(4);
    for _ in 0..8 {
        capture.fill(whole(buffer), &[1]);
    }
    capture.scope_begin("end");
    let mut observed = Observed { fail_in: Some("end"), ..Observed::default() };
    let (outcome, log) = logged(&capture.finish(), 7, &mut [&mut observed]);
    assert_eq!(outcome.unwrap_err().code(), StatusCode::Aborted);
    assert_eq!(fills(&log), 8);
}

fn fills(log: &Mutex<Vec<Ran>>) -> usize {
    log.lock().unwrap().iter().filter(|ran| **ran == Ran::Queue("queue_fill")).count()
}

/// Counts the fills that are complete when a scope ends.
struct AtScopeEnd<'l> {
    timed: &'static str,
    log: &'l Mutex<Vec<Ran>>,
    complete: usize,
}

impl Observer for AtScopeEnd<'_> {
    fn times_scope(&self, scope: &Scope<'_>) -> bool {
        scope.name == self.timed.as_bytes()
    }

    fn scope_end(&mut self, _scope: &Scope<'_>) -> Result<()> {
        self.complete = fills(self.log);
        Ok(())
    }
}

#[test]
fn the_time_of_a_scope_includes_its_work() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(64);
    capture.scope_begin("work");
    for byte in 0..32 {
        let done = capture.semaphore(0);
        capture.order(&[], &[(done, 1)]).fill(range(buffer, 2 * byte, 2), &[1]);
    }
    capture.scope_end("work");
    let bytes = capture.finish();
    let complete_at_end = |timed| {
        let (device, log) = TestDevice::create();
        let group = DeviceGroup::new(vec![LateDevice::over(device, 3, 10 * MAX_DELAY)]).unwrap();
        let plan = Plan::compile(bytes.clone(), PlanOptions::default()).unwrap();
        let mut observer = AtScopeEnd { timed, log: &log, complete: 0 };
        Replay::new(plan, &group, &captured()).unwrap().run(&mut [&mut observer]).unwrap();
        assert_eq!(fills(&log), 32, "a run ends after its work");
        observer.complete
    };
    assert_eq!(complete_at_end("work"), 32);
    assert!(complete_at_end("another") < 32, "nothing in the capture waits");
}

/// The program cannot observe that such a submission completes; the replay can.
#[test]
fn submissions_without_signals_are_waited_for() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(4);
    capture.order(&[], &[]).fill(whole(buffer), &[5]);
    capture.read(buffer, 0, 4);
    let (gate, opened) = (capture.semaphore(0), capture.semaphore(0));
    capture.order(&[(gate, 1)], &[]).fill(whole(buffer), &[6]);
    capture.order(&[], &[(gate, 1), (opened, 1)]).execute(0, &[]);
    capture.read(buffer, 0, 4);
    for seed in 0..20 {
        for order in [ReplayOrder::Serialized, ReplayOrder::Captured] {
            let observed = late(&capture.finish(), order, seed).unwrap();
            assert_eq!(observed.bytes(), [[5; 4], [6; 4]], "{} order, seed {seed}", order.name());
        }
    }
}

/// Far more submissions than may be in flight at once, waiting for earlier and for later ones.
#[test]
fn long_captures_are_replayed_with_bounded_work_in_flight() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(4000);
    for index in 0..1000 {
        let done = capture.semaphore(0);
        capture.order(&[], &[(done, 1)]).fill(range(buffer, 4 * index, 4), &(index as u32).to_le_bytes());
    }
    // One barrier releases more than fit.
    let gate = capture.semaphore(0);
    for index in 0..600 {
        let done = capture.semaphore(0);
        capture.order(&[(gate, 1)], &[(done, 1)]).fill(range(buffer, 4 * index, 2), &[0xAB]);
    }
    capture.order(&[], &[(gate, 1)]).execute(0, &[]);
    for index in 0..600 {
        let done = capture.semaphore(0);
        capture.order(&[], &[(done, 1)]).fill(range(buffer, 4 * index + 2, 2), &[0xCD]);
    }
    capture.read(buffer, 0, 4000);
    let bytes = capture.finish();
    let expected = expected(&bytes);
    assert_eq!(late(&bytes, ReplayOrder::Captured, 5).unwrap().reads, expected.reads);
}

/// Accesses that are too many to be tracked apart are still writes, of a buffer that kernels cannot write,
/// too.
#[test]
fn command_buffers_with_many_ranges_are_waited_for() {
    for (pieces, bound) in [(100, false), (300, false), (300, true), (3000, true)] {
        let mut capture = CaptureBuilder::new();
        let mut params = allocation(32 * pieces);
        params.usage = U32::new(
            (BufferUsage::TRANSFER_SOURCE | BufferUsage::TRANSFER_TARGET | BufferUsage::MAPPING_SCOPED)
                .bits(),
        );
        let (buffer, other) = (capture.buffer_with(params), capture.buffer(32 * pieces));
        let of = |offset| if bound { slot(0, offset, 4) } else { range(buffer, offset, 4) };
        let commands = capture.commands(u64::from(bound), |it, into| {
            it.command_copy(into, of(16), range(other, 0, 4));
            for piece in 0..pieces {
                it.command_fill(into, of(32 * piece), &[7]);
            }
        });
        let (bindings, done) = ([whole(buffer)], capture.semaphore(0));
        capture.order(&[], &[(done, 1)]).execute(commands, if bound { &bindings } else { &[] });
        // The first of them: those at the end need no approximation.
        capture.read(buffer, 0, 4);
        let bytes = capture.finish();
        for seed in 0..10 {
            let observed = late(&bytes, ReplayOrder::Captured, seed).unwrap();
            assert_eq!(observed.bytes(), [[7; 4]], "{pieces} pieces, bound: {bound}, seed {seed}");
        }
    }
}
