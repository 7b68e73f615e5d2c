//! The closure of a choice of parts: these parts, what they name, and lists without what is left out.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rehal_base::Result;
use rehal_capture::layout;
use rehal_hal::{Command, CreateOp, HostOp, Op, QueueOp};
use zerocopy::little_endian::U64;

use super::bytes::Spans;
use super::program::{PartKind, Program, Role};
use super::visit::Named;

/// A choice of what to keep of a program.
#[derive(Clone)]
pub(super) struct Choice {
    /// Whether each part is kept even if nothing names it.
    pub wanted: Vec<bool>,
    /// The bytes that are zeros, by record.
    pub zeros: BTreeMap<u32, Spans>,
    /// The records whose zeros are left out.
    pub sparse: BTreeSet<u32>,
}

/// Changes of an operation.
#[derive(Default)]
pub(super) struct Edits {
    pub waits: Option<Vec<layout::SemaphoreTimepoint>>,
    pub table: Option<Vec<layout::BufferRef>>,
    pub events: Option<Vec<U64>>,
    pub buffer_barriers: Option<Vec<layout::BufferBarrier>>,
    /// Slots of the binding table of a command buffer.
    pub capacity: Option<u64>,
}

/// The records of a program that are kept.
pub(super) struct KeptRecords {
    /// By record.
    pub records: Vec<bool>,
    /// By record.
    pub edits: HashMap<u32, Edits>,
}

impl Choice {
    /// Everything.
    pub fn all(program: &Program<'_>) -> Self {
        Self { wanted: vec![true; program.parts.len()], zeros: BTreeMap::new(), sparse: BTreeSet::new() }
    }
}

/// Finds what a choice keeps.
pub(super) struct Closure<'p, 'a> {
    program: &'p Program<'a>,
    choice: &'p Choice,
    records: Vec<bool>,
    edits: HashMap<u32, Edits>,
    needed: HashSet<u64>,
    /// KeptRecords records whose names have not been followed.
    open: Vec<u32>,
    /// The slots that the kept commands of a command buffer name.
    slots: HashMap<u64, BTreeSet<u32>>,
    /// The events that kept commands signal.
    signaled: HashSet<u64>,
    /// The kept records of barriers.
    barriers: Vec<u32>,
}

impl<'p, 'a> Closure<'p, 'a> {
    pub fn of(program: &'p Program<'a>, choice: &'p Choice) -> Result<KeptRecords> {
        let mut this = Self {
            program,
            choice,
            records: vec![false; program.records.len()],
            edits: HashMap::new(),
            needed: HashSet::new(),
            open: Vec::new(),
            slots: HashMap::new(),
            signaled: HashSet::new(),
            barriers: Vec::new(),
        };
        for (part, wanted) in program.parts.iter().zip(&choice.wanted) {
            // A command is kept with its command buffer.
            if *wanted && part.kind != PartKind::Command {
                part.records.iter().for_each(|record| this.keep(*record));
            }
        }
        this.follow()?;
        this.tables()?;
        this.barriers()?;
        this.timepoints()?;
        // A capture without a device cannot be replayed.
        let is_kept = |device: &u32| this.records[*device as usize];
        if let (false, Some(first)) = (program.devices.iter().any(is_kept), program.devices.first()) {
            this.records[*first as usize] = true;
        }
        Ok(KeptRecords { records: this.records, edits: this.edits })
    }

    fn keep(&mut self, record: u32) {
        if !self.records[record as usize] {
            self.records[record as usize] = true;
            self.open.push(record);
        }
    }

    fn need(&mut self, id: u64) {
        let program = self.program;
        if !self.needed.insert(id) {
            return;
        }
        if let Some(part) = program.creators.get(&id) {
            program.parts[*part as usize].records.iter().for_each(|record| self.keep(*record));
        }
        for record in program.commands.get(&id).into_iter().flatten() {
            if self.choice.wanted[program.part_of[*record as usize] as usize] {
                self.keep(*record);
            }
        }
    }

    /// Keeps what the open records name.
    fn follow(&mut self) -> Result<()> {
        while let Some(record) = self.open.pop() {
            match self.program.roles[record as usize] {
                Role::Note | Role::Described(_) => continue,
                Role::Create(id) => self.need(id),
                Role::Recording(_) | Role::Command(_) | Role::Submission | Role::Host => {}
            }
            let Some(op) = self.program.op(record)? else { continue };
            let named = Named::by(&op)?;
            named.ids.iter().for_each(|id| self.need(*id));
            let Op::Command { into, command } = op else { continue };
            self.slots.entry(into).or_default().extend(named.slots);
            match command {
                Command::SignalEvent { event, .. } => drop(self.signaled.insert(event)),
                Command::ExecutionBarrier { .. } | Command::WaitEvents { .. } => self.barriers.push(record),
                _ => {}
            }
        }
        Ok(())
    }

    /// Leaves out of binding tables what no kept command names.
    fn tables(&mut self) -> Result<()> {
        let program = self.program;
        for (command_buffer, executions) in &program.executions {
            let Some(slots) = self.capacity(*command_buffer)? else { continue };
            let used = self.slots.get(command_buffer).cloned().unwrap_or_default();
            let is_whole = used.len() as u64 >= slots;
            let count = used.last().map_or(0, |last| *last as usize + 1);
            if !is_whole {
                let creation = program.parts[program.creators[command_buffer] as usize].records[0];
                self.edits.entry(creation).or_default().capacity = Some(count as u64);
            }
            for record in executions {
                if self.records[*record as usize] {
                    self.table(*record, &used, if is_whole { None } else { Some(count) })?;
                }
            }
        }
        self.follow()
    }

    /// The same for one execution, whose binding table keeps `count` entries; `None` for all.
    fn table(&mut self, record: u32, used: &BTreeSet<u32>, count: Option<usize>) -> Result<()> {
        let Some(Op::Queue(submission)) = self.program.op(record)? else { return Ok(()) };
        let QueueOp::Execute { bindings, .. } = submission.op else { return Ok(()) };
        let Some(count) = count else {
            bindings.iter().for_each(|entry| self.open_buffer(entry.buffer_id.get()));
            return Ok(());
        };
        let entry = |slot: &u32| bindings.get(*slot as usize);
        used.iter().filter_map(entry).for_each(|entry| self.open_buffer(entry.buffer_id.get()));
        // A slot that no command names needs a buffer as well.
        let filler = used.iter().find_map(entry).copied().unwrap_or_default();
        let kept = |slot: u32| if used.contains(&slot) { entry(&slot).copied() } else { None };
        let table = (0..count as u32).map(|slot| kept(slot).unwrap_or(filler)).collect();
        self.edits.entry(record).or_default().table = Some(table);
        Ok(())
    }

    fn open_buffer(&mut self, id: u64) {
        if id != 0 {
            self.need(id);
        }
    }

    /// The slots of a kept command buffer.
    fn capacity(&self, command_buffer: u64) -> Result<Option<u64>> {
        let Some(part) = self.program.creators.get(&command_buffer) else { return Ok(None) };
        let record = self.program.parts[*part as usize].records[0];
        if !self.records[record as usize] {
            return Ok(None);
        }
        Ok(match self.program.op(record)? {
            Some(Op::Host(HostOp::Create(CreateOp::CommandBuffer { params, .. }))) => {
                Some(params.binding_capacity)
            }
            _ => None,
        })
    }

    /// Leaves out of barriers the buffers that nothing else names, and the events that nothing signals.
    fn barriers(&mut self) -> Result<()> {
        for record in std::mem::take(&mut self.barriers) {
            let Some(Op::Command { into, command }) = self.program.op(record)? else { continue };
            let (buffer_barriers, events) = match command {
                Command::ExecutionBarrier { buffer_barriers, .. } => (buffer_barriers, None),
                Command::WaitEvents { buffer_barriers, events, .. } => (buffer_barriers, Some(events)),
                _ => continue,
            };
            let slots = self.slots.get(&into);
            let is_named = |it: &&layout::BufferBarrier| match it.buffer_ref.buffer_id.get() {
                0 => slots.is_some_and(|slots| slots.contains(&it.buffer_ref.buffer_slot.get())),
                id => self.needed.contains(&id),
            };
            let named: Vec<_> = buffer_barriers.iter().filter(is_named).copied().collect();
            if named.len() != buffer_barriers.len() {
                self.edits.entry(record).or_default().buffer_barriers = Some(named);
            }
            let Some(events) = events else { continue };
            let awaited: Vec<U64> =
                events.iter().filter(|event| self.signaled.contains(&event.get())).copied().collect();
            if awaited.is_empty() && !events.is_empty() {
                self.records[record as usize] = false;
            } else if awaited.len() != events.len() {
                self.edits.entry(record).or_default().events = Some(awaited);
            }
        }
        self.follow()
    }

    /// Replaces waits for signals that are left out, and keeps the semaphores.
    fn timepoints(&mut self) -> Result<()> {
        let program = self.program;
        let mut order = Order { program, records: &self.records, resolved: HashMap::new() };
        let mut semaphores = Vec::new();
        for (index, is_kept) in self.records.iter().enumerate() {
            if !is_kept || !matches!(program.roles[index], Role::Submission | Role::Create(_)) {
                continue;
            }
            let Some(Op::Queue(submission)) = program.op(index as u32)? else { continue };
            semaphores.extend(submission.signals.iter().map(|it| it.semaphore_id.get()));
            let waits = order.waits(submission.waits)?;
            semaphores
                .extend(waits.as_deref().unwrap_or(submission.waits).iter().map(|it| it.semaphore_id.get()));
            if waits.is_some() {
                self.edits.entry(index as u32).or_default().waits = waits;
            }
        }
        semaphores.into_iter().for_each(|id| self.need(id));
        self.follow()
    }
}

/// Values of semaphores, by id.
type Values = BTreeMap<u64, u64>;

/// Which kept signals a removed one follows.
struct Order<'p, 'a> {
    program: &'p Program<'a>,
    records: &'p [bool],
    /// By signal: semaphore and value.
    resolved: HashMap<(u64, u64), Values>,
}

impl Order<'_, '_> {
    /// The waits in place of these; `None` if all of their signals are kept.
    fn waits(
        &mut self,
        waits: &[layout::SemaphoreTimepoint],
    ) -> Result<Option<Vec<layout::SemaphoreTimepoint>>> {
        let is_removed = |it: &layout::SemaphoreTimepoint| {
            self.signal(it).is_some_and(|(_, record)| !self.records[record as usize])
        };
        if !waits.iter().any(is_removed) {
            return Ok(None);
        }
        let mut values = Values::new();
        for wait in waits {
            let semaphore = wait.semaphore_id.get();
            match self.signal(wait) {
                Some((value, record)) if !self.records[record as usize] => {
                    self.resolve((semaphore, value))?;
                    join(&mut values, &self.resolved[&(semaphore, value)]);
                }
                _ => join(&mut values, &[(semaphore, wait.value.get())].into()),
            }
        }
        let timepoint = |(semaphore, value): (u64, u64)| layout::SemaphoreTimepoint {
            semaphore_id: U64::new(semaphore),
            value: U64::new(value),
        };
        Ok(Some(values.into_iter().map(timepoint).collect()))
    }

    /// The signal that reaches a timepoint.
    fn signal(&self, it: &layout::SemaphoreTimepoint) -> Option<(u64, u32)> {
        let signals = self.program.signals.get(&it.semaphore_id.get())?;
        signals.range(it.value.get()..).next().map(|(value, record)| (*value, *record))
    }

    /// Finds what a removed signal follows: its submission's waits, and the signal before it. Not recursive:
    /// a chain may be as long as the capture.
    fn resolve(&mut self, signal: (u64, u64)) -> Result<()> {
        let mut open = vec![signal];
        let mut entered = HashSet::new();
        while let Some(top) = open.last().copied() {
            if self.resolved.contains_key(&top) {
                open.pop();
                continue;
            }
            let (kept, removed) = self.before(top)?;
            // A cycle cannot run, so a plan has none.
            let missing: Vec<_> = match entered.insert(top) {
                true => removed.iter().copied().filter(|it| !self.resolved.contains_key(it)).collect(),
                false => Vec::new(),
            };
            if !missing.is_empty() {
                open.extend(missing);
                continue;
            }
            let mut values = kept;
            for it in &removed {
                if let Some(resolved) = self.resolved.get(it) {
                    join(&mut values, resolved);
                }
            }
            self.resolved.insert(top, values);
        }
        Ok(())
    }

    /// The direct predecessors of a removed signal: kept timepoints, and removed signals.
    fn before(&self, (semaphore, value): (u64, u64)) -> Result<(Values, Vec<(u64, u64)>)> {
        let (mut kept, mut removed) = (Values::new(), Vec::new());
        let signals = &self.program.signals[&semaphore];
        if let Some((before, record)) = signals.range(..value).next_back() {
            match self.records[*record as usize] {
                true => join(&mut kept, &[(semaphore, *before)].into()),
                false => removed.push((semaphore, *before)),
            }
        }
        let Some(Op::Queue(submission)) = self.program.op(signals[&value])? else {
            return Ok((kept, removed));
        };
        for wait in submission.waits {
            let semaphore = wait.semaphore_id.get();
            match self.signal(wait) {
                Some((value, record)) if !self.records[record as usize] => removed.push((semaphore, value)),
                Some(_) => join(&mut kept, &[(semaphore, wait.value.get())].into()),
                // Reached from the beginning.
                None => {}
            }
        }
        Ok((kept, removed))
    }
}

fn join(values: &mut Values, others: &Values) {
    for (semaphore, value) in others {
        let entry = values.entry(*semaphore).or_default();
        *entry = (*value).max(*entry);
    }
}
