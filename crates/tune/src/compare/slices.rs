//! Slices in memory: a capture for each shape of the kernel.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use rehal_base::{Error, Range, Result};
use rehal_hal::DeviceGroup;
use rehal_replay::{
    Observer, Plan, PlanOptions, PlannedBinding, RecordLocation, Replay, ReplayOptions, Slice, SliceOptions,
    SliceSet,
};

use super::ComparedShape;
use super::integers::IndexLimit;
use super::unread::Unread;
use crate::{DispatchPlace, Place, Verification};

/// A capture of the first dispatch of a shape, whose only scope has the name of the function.
pub(super) struct ShapeSlice {
    pub plan: Arc<Plan>,
    pub shape: ComparedShape,
    /// What may be an index of what is bound.
    pub index_limit: IndexLimit,
    /// What [`super::unread`] has found.
    pub unread: OnceCell<Option<Unread>>,
    captured: Captured,
}

impl ShapeSlice {
    /// A replay on the first of the devices. A dispatch uses one, unless its buffers are of others.
    pub(super) fn replay(&self, devices: &DeviceGroup, options: &ReplayOptions) -> Result<Replay> {
        let used = devices.devices().iter().take(self.plan.device_count()).cloned().collect();
        let executable_label = Some(format!("executable {}", self.captured.executable_id));
        let options = ReplayOptions { executable_label, ..options.clone() };
        Replay::new(self.plan.clone(), &DeviceGroup::new(used)?, &options)
    }

    /// Before a replay of the slice: a crash is one of the dispatch of the whole capture.
    pub(super) fn locate(&self, observers: &mut [&mut dyn Observer]) -> Result<()> {
        let mut observers = observers.iter_mut().filter(|it| it.wants_steps());
        observers.try_for_each(|it| it.command_step(self.captured.location))
    }

    /// Names the dispatch of the whole capture in what a verification of the slice found.
    pub(super) fn name_captured(&self, found: &mut Verification) {
        for it in &mut found.differences {
            let Some(dispatch) = it.place.dispatch.take() else { continue };
            let executable_id = self.captured.executable_id;
            it.place = Place {
                dispatch: Some(DispatchPlace { executable_id, ..dispatch }),
                ..self.captured.place.clone()
            };
            if let Some(bound) = it.binding.and_then(|index| self.captured.bindings.get(index as usize)) {
                it.buffer_id = bound.buffer_id;
                it.range = Range { offset: bound.offset, length: bound.length };
            }
        }
    }
}

/// A dispatch of the whole capture.
struct Captured {
    location: RecordLocation,
    place: Place,
    executable_id: u64,
    bindings: Vec<PlannedBinding>,
}

/// The dispatches of the shapes, in their order.
fn captured_dispatches(plan: &Plan, shapes: &[ComparedShape]) -> Result<Vec<Captured>> {
    let mut found: HashMap<_, _> = shapes.iter().map(|it| ((it.record, it.occurrence), None)).collect();
    plan.dispatches(|it| {
        if let Some(found) = found.get_mut(&(it.location.ordinal, it.occurrence)) {
            let place = Place {
                record: it.location.ordinal,
                record_offset: it.location.offset,
                submission: it.submission.ordinal,
                occurrence: it.occurrence,
                ..Place::default()
            };
            let executable_id = it.executable.id;
            *found = Some(Captured {
                location: it.location,
                place,
                executable_id,
                bindings: it.bindings.to_vec(),
            });
        }
        Ok(())
    })?;
    let unknown = |it: &ComparedShape| Error::not_found(format!("record #{} is not a dispatch", it.record));
    let found = shapes
        .iter()
        .map(|it| found.remove(&(it.record, it.occurrence)).flatten().ok_or_else(|| unknown(it)));
    found.collect()
}

/// Cuts a slice of each shape, in a single replay.
pub(super) fn cut(captured: &Replay, shapes: &[ComparedShape]) -> Result<Vec<ShapeSlice>> {
    let dispatches: Vec<_> = shapes.iter().map(|shape| (shape.record, shape.occurrence)).collect();
    let mut options = SliceOptions::default();
    // A replacement may read what the captured kernel only overwrites.
    options.keep_outputs = true;
    let mut captures = Captures(shapes.iter().map(|_| Memory::default()).collect());
    captured.slices(&dispatches, &options, &mut captures, &mut [])?;
    let places = captured_dispatches(captured.plan(), shapes)?;
    let compile = |((memory, shape), captured): ((&Memory, &ComparedShape), Captured)| {
        let bytes = std::mem::take(&mut *memory.0.lock()).into_inner();
        let plan = Plan::compile(bytes, PlanOptions::default())
            .map_err(|error| error.context(format!("the slice of record #{}", shape.record)))?;
        let mut bound_bytes = 0;
        plan.dispatches(|it| {
            bound_bytes = it.bindings.iter().map(|it| it.length).fold(bound_bytes, u64::saturating_add);
            Ok(())
        })?;
        let index_limit = IndexLimit::of(bound_bytes);
        Ok(ShapeSlice {
            plan: Arc::new(plan),
            shape: shape.clone(),
            index_limit,
            unread: OnceCell::new(),
            captured,
        })
    };
    captures.0.iter().zip(shapes).zip(places).map(compile).collect::<Result<Vec<_>, Error>>()
}

struct Captures(Vec<Memory>);

impl SliceSet for Captures {
    type Sink = Memory;

    fn sink(&mut self, index: usize, _name: &str) -> Result<Memory> {
        Ok(self.0[index].clone())
    }

    fn finished(&mut self, _index: usize, _slice: Slice) -> Result<()> {
        Ok(())
    }
}

/// A capture in memory that is being written.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Cursor<Vec<u8>>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Memory {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.lock().seek(to)
    }
}
