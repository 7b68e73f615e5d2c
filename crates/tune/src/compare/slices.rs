//! Slices in memory: a capture for each shape of the kernel.

use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use rehal_base::{Error, Result};
use rehal_hal::DeviceGroup;
use rehal_replay::{Plan, PlanOptions, Replay, ReplayOptions, Slice, SliceOptions, SliceSet};

use super::ComparedShape;
use super::integers::IndexLimit;

/// A capture of the first dispatch of a shape, whose only scope has the name of the function.
pub(super) struct ShapeSlice {
    pub plan: Arc<Plan>,
    pub shape: ComparedShape,
    /// What may be an index of what is bound.
    pub index_limit: IndexLimit,
}

impl ShapeSlice {
    /// A replay on the first of the devices. A dispatch uses one, unless its buffers are of others.
    pub(super) fn replay(&self, devices: &DeviceGroup, options: &ReplayOptions) -> Result<Replay> {
        let used = devices.devices().iter().take(self.plan.device_count()).cloned().collect();
        Replay::new(self.plan.clone(), &DeviceGroup::new(used)?, options)
    }
}

/// Cuts a slice of each shape, in a single replay.
pub(super) fn cut(captured: &Replay, shapes: &[ComparedShape]) -> Result<Vec<ShapeSlice>> {
    let dispatches: Vec<_> = shapes.iter().map(|shape| (shape.record, shape.occurrence)).collect();
    let mut options = SliceOptions::default();
    // A replacement may read what the captured kernel only overwrites.
    options.keep_outputs = true;
    let mut captures = Captures(shapes.iter().map(|_| Memory::default()).collect());
    captured.slices(&dispatches, &options, &mut captures, &mut [])?;
    let compile = |(memory, shape): (&Memory, &ComparedShape)| {
        let bytes = std::mem::take(&mut *memory.0.lock()).into_inner();
        let plan = Plan::compile(bytes, PlanOptions::default())
            .map_err(|error| error.context(format!("the slice of record #{}", shape.record)))?;
        let mut bound_bytes = 0;
        plan.dispatches(|it| {
            bound_bytes = it.bindings.iter().map(|it| it.length).fold(bound_bytes, u64::saturating_add);
            Ok(())
        })?;
        let index_limit = IndexLimit::of(bound_bytes);
        Ok(ShapeSlice { plan: Arc::new(plan), shape: shape.clone(), index_limit })
    };
    captures.0.iter().zip(shapes).map(compile).collect::<Result<Vec<_>, Error>>()
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
