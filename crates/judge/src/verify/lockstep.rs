use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use rehal_base::{ElementType, Error, Range, Result, StatusCode};
use rehal_hal::Buffer;
use rehal_replay::{
    CHANGE_BYTES, ChangeTracker, HostRead, ObservedReplay, Observer, Operation, TrackedBinding, without,
};

use super::judge::{Evidence, Judge, Known, Target, Verdict};
use super::matching::{Matching, Site};
use super::poison::Poison;
use super::rounding::{self, Rounding};
use super::{Place, Verification, VerifyOptions, VerifySides};
use crate::bytes::{different_bytes, part};

/// Runs two replays of one plan side by side, and compares what each dispatch writes and each host read sees.
///
/// Neither replay performs a dispatch before the other has completed the one before it. Bytes that either
/// side changed are compared. What differs within the tolerance or, with [`VerifyOptions::keep_going`], at
/// all is replaced on the verified side by the expected bytes: so each dispatch is judged by itself, on the
/// expected inputs.
///
/// Both sides fill new memory with the same bytes, which are not zero: so zeros are found that only one of
/// them writes where nothing was written before.
pub fn verify_lockstep(sides: VerifySides<'_, '_, '_>, options: &VerifyOptions) -> Result<Verification> {
    run(sides, options, NewMemory::Filled(FILL))
}

/// The same with replays of two captures of one program, such as for two targets: dispatches are compared
/// with those of the same function, and host reads, in the order of both replays. What has no counterpart, or
/// another size there, is not compared, and the outcome says so. Bytes that neither side changed may differ:
/// the programs may use memory again in different ways.
///
/// Fails if no function is dispatched in both captures.
pub fn verify_captures(sides: VerifySides<'_, '_, '_>, options: &VerifyOptions) -> Result<Verification> {
    let (matching, unmatched) = Matching::of_plans(sides.expected.plan(), sides.actual.plan())?;
    let mut outcome = matched(sides, options, NewMemory::Filled(FILL), &matching)?;
    if !unmatched.is_empty() {
        let of = |is_expected| -> u64 {
            unmatched.iter().filter(|it| it.is_expected == is_expected).map(|it| it.count).sum()
        };
        outcome.inconclusive.push(format!(
            "results without a counterpart are not compared: {} of this capture, {} of the other one",
            of(false),
            of(true)
        ));
    }
    outcome.unmatched = unmatched;
    Ok(outcome)
}

/// The contents of new memory on the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewMemory {
    /// The same byte everywhere.
    Filled(u8),
    /// Contents that differ between them: [`Poison`].
    Poisoned,
}

/// The byte of new memory: as numbers of all sizes positive and, as floats of 8, 16 and 32 bits, between 0.5
/// and 2, so that a zero in place of one is within no tolerance.
const FILL: u8 = 0x3f;

impl NewMemory {
    /// Runs a side with it.
    fn run<'o>(
        self,
        replay: &dyn ObservedReplay,
        poison: &'o mut Poison,
        mut observers: Vec<&'o mut dyn Observer>,
    ) -> Result<()> {
        match self {
            Self::Filled(byte) => replay.run_observed(Some(byte), &mut observers),
            Self::Poisoned => {
                observers.push(poison);
                replay.run_observed(None, &mut observers)
            }
        }
    }
}

impl Observer for Poison {
    fn wants_operations(&self) -> bool {
        true
    }

    fn allocated(&mut self, buffer_id: u64, buffer: &Buffer) -> Result<()> {
        Poison::allocated(self, buffer_id, buffer)
    }
}

/// [`verify_lockstep`] with other contents of new memory.
pub(crate) fn run(
    sides: VerifySides<'_, '_, '_>,
    options: &VerifyOptions,
    new_memory: NewMemory,
) -> Result<Verification> {
    if !sides.expected.plan().is_of_same_records(sides.actual.plan()) {
        return Err(Error::invalid_argument("the two replays are of different plans"));
    }
    matched(sides, options, new_memory, &Matching::Same)
}

fn matched(
    sides: VerifySides<'_, '_, '_>,
    options: &VerifyOptions,
    new_memory: NewMemory,
    matching: &Matching,
) -> Result<Verification> {
    let VerifySides { expected, actual, expected_observers, observers } = sides;
    let (states, next_state) = mpsc::sync_channel(0);
    let (replies, next_reply) = mpsc::sync_channel(1);
    thread::scope(|scope| {
        let leader =
            Leader { states, replies: next_reply, matching, changes: Arc::default(), is_stopped: false };
        let lead = move || lead(expected, leader, new_memory, expected_observers);
        let leader = thread::Builder::new().name("rehal-expected".into()).spawn_scoped(scope, lead);
        let leader =
            leader.map_err(|error| Error::io("starting a thread for the expected replay", &error))?;
        let follower = Follower {
            states: next_state,
            replies,
            matching,
            judge: Judge::new(options),
            changes: ChangeTracker::default(),
            new_memory,
        };
        let followed = follow(actual, follower, observers);
        // A thread that panicked: its message has been printed.
        let led =
            leader.join().unwrap_or_else(|_| Err(Error::new(StatusCode::Internal, "a replay panicked")));
        // The side that fails first makes the other one end.
        match (led, followed) {
            // The process of the verified replay may say that it has ended. What watches memory ends it, too.
            (Err(error), Ok((_, false))) if is_left(&error) && new_memory != NewMemory::Poisoned => {
                Err(Error::data_loss("the verified replay ended before the expected one"))
            }
            (Err(error), Err(other)) if is_left(&other) => Err(error.context("the expected replay")),
            (_, Err(error)) => Err(error),
            (Err(error), _) if !is_left(&error) => Err(error.context("the expected replay")),
            (_, Ok((outcome, _))) => Ok(outcome),
        }
    })
}

/// The message of the expected side after a dispatch or at a host read.
enum State {
    Dispatch { site: Site, changes: Arc<ChangeTracker> },
    Read { site: Site, bytes: Vec<u8> },
    Measured(Option<Rounding>),
}

/// The answer.
enum Reply {
    /// A question for what rounding explains in a binding of the dispatch; `moves_all` after an answer for
    /// pieces of long inputs that is not [enough](Rounding::is_enough).
    Measure { binding: u32, element_type: ElementType, moves_all: bool },
    /// To go on, or not. The tracker is not used any longer.
    Done { is_stopped: bool },
}

/// The error of a side whose other side has ended.
fn left() -> Error {
    Error::new(StatusCode::Aborted, "the other replay has ended")
}

fn is_left(error: &Error) -> bool {
    error.code() == StatusCode::Aborted && error.message() == left().message()
}

/// Runs the expected side.
fn lead(
    replay: &dyn ObservedReplay,
    mut leader: Leader<'_>,
    new_memory: NewMemory,
    observers: &mut [&mut (dyn Observer + Send)],
) -> Result<()> {
    let mut all: Vec<&mut dyn Observer> = Vec::with_capacity(observers.len() + 2);
    for observer in observers {
        all.push(&mut **observer);
    }
    all.push(&mut leader);
    let mut poison = Poison::EXPECTED;
    new_memory.run(replay, &mut poison, all)
}

struct Leader<'m> {
    states: SyncSender<State>,
    replies: Receiver<Reply>,
    matching: &'m Matching,
    changes: Arc<ChangeTracker>,
    is_stopped: bool,
}

impl Leader<'_> {
    /// Whether an operation is a dispatch that is compared.
    fn compares(&self, operation: &Operation<'_>) -> bool {
        operation.dispatch.is_some() && self.matching.has_expected(Site::of_operation(operation))
    }

    fn exchange(&mut self, mut state: State, operation: Option<&Operation<'_>>) -> Result<()> {
        loop {
            self.states.send(state).map_err(|_| left())?;
            match (self.replies.recv().map_err(|_| left())?, operation) {
                (Reply::Done { is_stopped }, _) => {
                    self.is_stopped = is_stopped;
                    return Ok(());
                }
                (Reply::Measure { binding, element_type, moves_all }, Some(operation)) => {
                    let measured =
                        rounding::measure(operation, &self.changes, binding, element_type, moves_all)?;
                    state = State::Measured(measured);
                }
                (Reply::Measure { .. }, None) => state = State::Measured(None),
            }
        }
    }

    /// The tracker, which nothing else uses between two dispatches.
    fn changes(&mut self) -> Result<&mut ChangeTracker> {
        Arc::get_mut(&mut self.changes)
            .ok_or_else(|| Error::new(StatusCode::Internal, "both replays use the tracker of a dispatch"))
    }
}

fn flow(is_stopped: bool) -> ControlFlow<()> {
    match is_stopped {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

impl Observer for Leader<'_> {
    fn wants_operations(&self) -> bool {
        true
    }

    fn wants_host_reads(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if !self.is_stopped && self.compares(operation) {
            self.changes()?.begin(operation.bindings())?;
        }
        Ok(flow(self.is_stopped))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if self.compares(operation) {
            self.changes()?.end()?;
            let (site, changes) = (Site::of_operation(operation), self.changes.clone());
            self.exchange(State::Dispatch { site, changes }, Some(operation))?;
            self.changes()?.release();
        }
        Ok(flow(self.is_stopped))
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        let site = Site::of_read(read);
        match !self.is_stopped && self.matching.has_expected(site) {
            true => self.exchange(State::Read { site, bytes: read.to_vec() }, None),
            false => Ok(()),
        }
    }
}

/// Runs the verified side. Returns whether it was stopped, too.
fn follow(
    replay: &dyn ObservedReplay,
    mut follower: Follower<'_>,
    observers: &mut [&mut dyn Observer],
) -> Result<(Verification, bool)> {
    let new_memory = follower.new_memory;
    let mut all: Vec<&mut dyn Observer> = Vec::with_capacity(observers.len() + 2);
    for observer in observers {
        all.push(&mut **observer);
    }
    all.push(&mut follower);
    let mut poison = Poison::VERIFIED;
    new_memory.run(replay, &mut poison, all)?;
    if new_memory != NewMemory::Poisoned {
        follower.judge.check_compared("the replays have no dispatches and no host reads");
    }
    let is_stopped = follower.judge.is_stopped;
    follower.judge.finish(replay.plan())?;
    Ok((follower.judge.outcome, is_stopped))
}

struct Follower<'o> {
    states: Receiver<State>,
    replies: SyncSender<Reply>,
    matching: &'o Matching,
    judge: Judge<'o>,
    changes: ChangeTracker,
    new_memory: NewMemory,
}

impl Follower<'_> {
    /// The site that a dispatch is compared with; `None` unless it is one.
    fn expected_site(&self, operation: &Operation<'_>) -> Option<Site> {
        operation.dispatch.as_ref()?;
        self.matching.expected_of(Site::of_operation(operation))
    }

    /// Bytes of a host read that were never written are not compared: programs map whole allocations. They
    /// are counted.
    fn skip_unwritten(&mut self, place: &Place, expected: &mut [u8], actual: &[u8]) {
        if self.new_memory != NewMemory::Poisoned {
            return;
        }
        let mut count = 0;
        for (expected, actual) in expected.iter_mut().zip(actual) {
            if Poison::is(*expected, *actual) {
                *expected = *actual;
                count += 1;
            }
        }
        if count != 0 {
            let outcome = &mut self.judge.outcome;
            outcome.unwritten_read_bytes += count;
            outcome.first_unwritten_read.get_or_insert_with(|| place.clone());
        }
    }

    fn reply(&self) -> Result<()> {
        let is_stopped = self.judge.is_stopped;
        self.replies.send(Reply::Done { is_stopped }).map_err(|_| left())
    }

    /// The part of the difference of a binding that rounding explains, measured by the expected side.
    fn rounding(&self, target: &Target<'_>, binding: u32, known: &[Known<'_>]) -> Result<Option<Rounding>> {
        // With the other contents of new memory, both sides run the same kernels.
        let is_measured = self.new_memory != NewMemory::Poisoned;
        let Some(element_type) = self.judge.measured_type(target).filter(|_| is_measured) else {
            return Ok(None);
        };
        let measure = |moves_all| {
            self.replies.send(Reply::Measure { binding, element_type, moves_all }).map_err(|_| left())?;
            match self.states.recv().map_err(|_| left())? {
                State::Measured(rounding) => Ok(rounding),
                _ => Err(Self::out_of_step(target.place.record)),
            }
        };
        let is_enough = |it: &Rounding| {
            known.iter().all(|known| it.is_enough(known.offset, known.expected, known.actual))
        };
        match measure(false)? {
            Some(rounding) if !is_enough(&rounding) => measure(true),
            measured => Ok(measured),
        }
    }

    /// Both replays perform what is compared in the same order.
    fn out_of_step(record: u32) -> Error {
        Error::new(StatusCode::Internal, format!("the replays are out of step at record #{record}"))
    }

    fn dispatch(&mut self, operation: &Operation<'_>, site: Site) -> Result<()> {
        let place = Place::from_operation(operation);
        let mut changes = std::mem::take(&mut self.changes);
        changes.end()?;
        let expected = match self.states.recv().map_err(|_| left())? {
            State::Dispatch { site: led, changes: expected } if led == site => expected,
            _ => return Err(Self::out_of_step(place.record)),
        };
        match counterparts(&expected, &changes) {
            Ok(pairs) => {
                let mut verdict = Verdict::Same;
                for (expected, actual) in pairs {
                    verdict = verdict.max(self.binding(&place, &expected, &actual)?);
                }
                self.judge.count(&place, verdict);
            }
            Err(_) if matches!(self.matching, Matching::Same) => {
                return Err(Self::out_of_step(place.record));
            }
            Err(why) => {
                let function = place.function().unwrap_or_default();
                self.judge.inconclusive(format!("record #{}: {function} {why}", place.record));
            }
        }
        changes.release();
        self.changes = changes;
        drop(expected);
        self.reply()
    }

    /// Judges what a dispatch wrote to a binding on both sides.
    fn binding(
        &mut self,
        place: &Place,
        expected: &TrackedBinding<'_>,
        actual: &TrackedBinding<'_>,
    ) -> Result<Verdict> {
        let only_actual = without(actual.changes, expected.changes.iter().copied());
        let mut compared: Vec<Range> = expected.changes.iter().chain(&only_actual).copied().collect();
        compared.sort_by_key(|range| range.offset);
        let target = Target {
            place,
            binding: Some(actual.binding),
            aliases: actual.aliases,
            buffer_id: actual.buffer_id,
            range: actual.range,
            recorded_type: None,
        };
        let element_bytes = self.judge.typed(&target).0.and_then(ElementType::whole_bytes);
        let differing = compared.iter().filter_map(|range| {
            let bytes = expected_bytes(expected, actual, *range, element_bytes.unwrap_or(1) as usize);
            (bytes != part(actual.after, *range)).then_some((*range, bytes))
        });
        let differing: Vec<(Range, Vec<u8>)> = differing.collect();
        let (mut summarized, mut unexpected_bytes) = (Vec::new(), 0);
        if !differing.is_empty() {
            let unit = element_bytes.unwrap_or(CHANGE_BYTES as u64) as usize;
            compared.iter().for_each(|range| add_changed(expected, actual, *range, unit, &mut summarized));
            unexpected_bytes = differing.iter().map(|it| unexpected(expected, actual, it, unit)).sum();
        }
        let known = differing.iter().map(|(range, bytes)| Known {
            offset: range.offset,
            expected: bytes,
            actual: part(actual.after, *range),
        });
        let known: Vec<_> = known.collect();
        let rounding = match differing.is_empty() {
            true => None,
            false => self.rounding(&target, expected.binding, &known)?,
        };
        let evidence = Evidence {
            known,
            unexpected_bytes,
            expected_bytes: Some(expected.after),
            summarized,
            rounding,
            ..Evidence::default()
        };
        let verdict = self.judge.judge(&target, &evidence, actual.after);
        let is_tolerated = matches!(verdict, Verdict::Rounded | Verdict::Tolerated);
        if is_tolerated || (verdict > Verdict::Tolerated && self.judge.options.keep_going) {
            for known in &evidence.known {
                actual.put(known.offset, known.expected)?;
            }
        }
        Ok(verdict)
    }
}

/// The bindings of a dispatch of both sides that are compared, or why they cannot be. The bindings that a
/// dispatch may write are known on both sides, or on one: of one that only this side may write, nothing can
/// have changed.
fn counterparts<'t>(
    expected: &'t ChangeTracker,
    actual: &'t ChangeTracker,
) -> Result<Vec<(TrackedBinding<'t>, TrackedBinding<'t>)>, String> {
    let mut pairs = Vec::new();
    for own in actual.bindings() {
        let ordinals = std::iter::once(&own.binding).chain(own.aliases);
        match ordinals.copied().find_map(|it| expected.binding(it)) {
            Some(other) if other.range.length == own.range.length => pairs.push((other, own)),
            Some(other) => {
                let (binding, own, other) = (own.binding, own.range.length, other.range.length);
                return Err(format!(
                    "has {own} bytes in binding {binding}, and {other} in the other capture"
                ));
            }
            None if own.changes.is_empty() => {}
            None => {
                return Err(format!(
                    "writes binding {}, and only reads it in the other capture",
                    own.binding
                ));
            }
        }
    }
    let is_compared = |it: &TrackedBinding<'_>| pairs.iter().any(|(other, _)| other.binding == it.binding);
    match expected.bindings().find(|it| !it.changes.is_empty() && !is_compared(it)) {
        None => Ok(pairs),
        Some(it) => Err(format!("only reads binding {}, which it writes in the other capture", it.binding)),
    }
}

/// The bytes of a range of the verified side after a right dispatch. Changes are known in units of several
/// elements: elements that neither side changed, and that may have differed before, are expected as they are.
fn expected_bytes(
    expected: &TrackedBinding<'_>,
    actual: &TrackedBinding<'_>,
    range: Range,
    element_bytes: usize,
) -> Vec<u8> {
    let mut bytes = part(expected.after, range).to_vec();
    let present = part(actual.after, range);
    if bytes == present {
        return bytes;
    }
    let elements = bytes.chunks_mut(element_bytes).zip(present.chunks(element_bytes));
    let (own, other) = (expected.before(range), actual.before(range));
    let before = own.chunks(element_bytes).zip(other.chunks(element_bytes));
    for ((element, present), (own, other)) in elements.zip(before) {
        if element == own && present == other {
            element.copy_from_slice(present);
        }
    }
    bytes
}

/// Adds the elements of a range that one of the sides changed, or the units of [`CHANGE_BYTES`] if elements
/// have no type: changes are known in ranges with others between them.
fn add_changed(
    expected: &TrackedBinding<'_>,
    actual: &TrackedBinding<'_>,
    range: Range,
    unit: usize,
    changed: &mut Vec<Range>,
) {
    let mut is_changed = vec![false; (range.length as usize).div_ceil(unit)];
    for side in [expected, actual] {
        let (before, after) = (side.before(range), part(side.after, range));
        for (is_changed, (old, new)) in is_changed.iter_mut().zip(before.chunks(unit).zip(after.chunks(unit)))
        {
            *is_changed |= old != new;
        }
    }
    for (number, _) in is_changed.iter().enumerate().filter(|(_, is_changed)| **is_changed) {
        let offset = range.offset + (number * unit) as u64;
        let length = (unit as u64).min(range.end() - offset);
        match changed.last_mut() {
            Some(last) if last.end() == offset => last.length += length,
            _ => changed.push(Range { offset, length }),
        }
    }
}

/// Number of bytes that differ in elements, or units, that only the verified side changed. `differing` is a
/// range and its expected bytes.
fn unexpected(
    expected: &TrackedBinding<'_>,
    actual: &TrackedBinding<'_>,
    differing: &(Range, Vec<u8>),
    unit: usize,
) -> u64 {
    let (range, bytes) = differing;
    let before = expected.before(*range);
    let sides = before.chunks(unit).zip(part(expected.after, *range).chunks(unit));
    let differing = bytes.chunks(unit).zip(part(actual.after, *range).chunks(unit));
    let only_actual = sides.zip(differing).filter(|((old, new), _)| old == new);
    only_actual.map(|(_, (expected, actual))| different_bytes(expected, actual)).sum()
}

impl Observer for Follower<'_> {
    fn wants_operations(&self) -> bool {
        true
    }

    fn wants_host_reads(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if !self.judge.is_stopped && self.expected_site(operation).is_some() {
            self.changes.begin(operation.bindings())?;
        }
        Ok(flow(self.judge.is_stopped))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if let Some(site) = self.expected_site(operation) {
            self.dispatch(operation, site)?;
        }
        Ok(flow(self.judge.is_stopped))
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        let site = self.matching.expected_of(Site::of_read(read));
        let Some(site) = site.filter(|_| !self.judge.is_stopped) else { return Ok(()) };
        let place = Place::from_read(read);
        let actual = read.memory.bytes(read.memory.whole())?;
        let mut expected = match self.states.recv().map_err(|_| left())? {
            State::Read { site: led, bytes } if led == site => bytes,
            _ => return Err(Self::out_of_step(place.record)),
        };
        if expected.len() != actual.len() {
            if matches!(self.matching, Matching::Same) {
                return Err(Self::out_of_step(place.record));
            }
            let (own, other) = (actual.len(), expected.len());
            let reads = format!("reads {own} bytes, and {other} in the other capture");
            self.judge.inconclusive(format!("record #{}: the host {reads}", place.record));
            return self.reply();
        }
        self.skip_unwritten(&place, &mut expected, &actual);
        let evidence = Evidence {
            known: vec![Known { offset: 0, expected: &expected, actual: &actual }],
            expected_bytes: Some(&expected),
            summarized: vec![Range { offset: 0, length: actual.len() as u64 }],
            ..Evidence::default()
        };
        let target = Target {
            place: &place,
            binding: None,
            aliases: &[],
            buffer_id: read.buffer_id,
            range: Range { offset: read.offset, length: actual.len() as u64 },
            recorded_type: None,
        };
        let verdict = self.judge.judge(&target, &evidence, &actual);
        self.judge.count(&place, verdict);
        self.reply()
    }
}

#[cfg(test)]
mod tests {
    use rehal_hal::{BufferParams, DeviceGroup, transfer};
    use rehal_local::LocalSync;
    use rehal_local::executable::Plugins;
    use rehal_replay::{AccessKind, AccessedRange, Plan, PlanOptions, Replay, ReplayOptions};

    use super::*;

    /// How something is bound, how many bytes, and whether they change.
    type Bound = (AccessKind, u64, bool);

    /// A dispatch with these bindings. Ranges cannot be made, so that it begins with one of another dispatch.
    fn tracked(range: AccessedRange<'_>, bindings: &[Bound]) -> ChangeTracker {
        let device = LocalSync::create(Plugins::default());
        let buffer = |_| device.allocate_buffer(BufferParams::default(), 256).unwrap();
        let buffers: Vec<Buffer> = bindings.iter().map(buffer).collect();
        let ranges = bindings.iter().zip(&buffers).zip(1..).map(|((bound, buffer), buffer_id)| {
            let mut range = range;
            (range.access, range.length, range.offset) = (bound.0, bound.1, 0);
            (range.buffer, range.buffer_id) = (buffer, buffer_id);
            range
        });
        let mut tracker = ChangeTracker::default();
        tracker.begin(&ranges.collect::<Vec<_>>()).unwrap();
        for (_, buffer) in bindings.iter().zip(&buffers).filter(|(bound, _)| bound.2) {
            transfer::write(buffer, 64, &[0xa5; 64]).unwrap();
        }
        tracker.end().unwrap();
        tracker
    }

    /// Calls a function with what the first dispatch of a capture binds.
    struct First<F>(F);

    impl<F: FnMut(AccessedRange<'_>)> Observer for First<F> {
        fn wants_operations(&self) -> bool {
            true
        }

        fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
            let Some(range) = operation.bindings().first() else { return Ok(ControlFlow::Continue(())) };
            self.0(*range);
            Ok(ControlFlow::Break(()))
        }
    }

    /// Without this test, a binding that only one of two captures writes may pass as the same.
    #[test]
    fn bindings_that_one_capture_writes_are_not_the_same() {
        use AccessKind::{Binds, Reads};
        const READ: Bound = (Reads, 128, false);
        const BOUND: Bound = (Binds, 128, false);
        const WRITTEN: Bound = (Binds, 128, true);
        const LONGER: Bound = (Binds, 192, true);
        /// Of the expected side and of the verified one; the ordinals of the pairs.
        type Case = ([Bound; 2], [Bound; 2], Result<Vec<u32>, String>);
        let only_own = Err("writes binding 1, and only reads it in the other capture".to_owned());
        let only_other = Err("only reads binding 1, which it writes in the other capture".to_owned());
        let lengths = Err("has 192 bytes in binding 1, and 128 in the other capture".to_owned());
        let cases: [Case; 8] = [
            ([WRITTEN, WRITTEN], [WRITTEN, WRITTEN], Ok(vec![0, 1])),
            ([WRITTEN, READ], [WRITTEN, READ], Ok(vec![0])),
            ([WRITTEN, READ], [WRITTEN, BOUND], Ok(vec![0])),
            ([WRITTEN, BOUND], [WRITTEN, READ], Ok(vec![0])),
            ([WRITTEN, BOUND], [BOUND, WRITTEN], Ok(vec![0, 1])),
            ([WRITTEN, READ], [WRITTEN, WRITTEN], only_own),
            ([WRITTEN, WRITTEN], [WRITTEN, READ], only_other),
            ([WRITTEN, WRITTEN], [WRITTEN, LONGER], lengths),
        ];
        let mut case_count = 0;
        let compare = |range: AccessedRange<'_>| {
            for (expected, actual, outcome) in &cases {
                let (expected_side, actual_side) = (tracked(range, expected), tracked(range, actual));
                let ordinals = counterparts(&expected_side, &actual_side).map(|pairs| {
                    assert!(pairs.iter().all(|(other, own)| other.binding == own.binding));
                    pairs.iter().map(|(_, own)| own.binding).collect::<Vec<_>>()
                });
                assert_eq!(ordinals, *outcome, "{expected:?} {actual:?}");
                case_count += 1;
            }
        };
        let path = testing::fixtures().join("captures/add4.add.local-sync.ireereplay");
        let plan = Plan::compile(std::fs::read(path).unwrap(), PlanOptions::default()).unwrap();
        let devices = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
        let replay = Replay::new(plan, &devices, &ReplayOptions::default()).unwrap();
        replay.run(&mut [&mut First(compare)]).unwrap();
        assert_eq!(case_count, cases.len());
    }
}
