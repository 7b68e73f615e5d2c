//! Slices in memory: a capture for each shape of the kernel.

use std::collections::VecDeque;
use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use rehal_base::{Error, Range, Result};
use rehal_hal::{DeviceGroup, NeededWorkgroups};
use rehal_replay::{
    FileContents, FileRecord, Observer, Plan, PlanOptions, PlannedBinding, PlannedDispatch, RecordLocation,
    Replay, ReplayOptions, Slice, SliceOptions, SliceSet, Substitution, Validation,
};
use serde::{Deserialize, Serialize};

use super::bound_buffers::{Bound, Watched};
use super::fresh_inputs::FreshBindings;
use crate::{DispatchPlace, Place, Verification, VerifyOptions};

/// Dispatches of a shape that are tried, one after the other, if the inputs of those before are zeros.
const MAX_OCCURRENCES: usize = 8;

/// Dispatches of a function with the same workgroups, constants and bindings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ComparedShape {
    /// Ordinal of the record of the first.
    pub record: u32,
    /// Its occurrence.
    pub occurrence: u64,
    /// Number of dispatches.
    pub count: u64,
}

/// The subject of a comparison.
#[derive(Clone)]
pub struct CompareSubject {
    /// The capture.
    pub plan: Arc<Plan>,
    /// The devices of the captured work, and of all that is timed.
    pub devices: DeviceGroup,
    /// Other devices of the same kind: of the replaced work, which is verified in lockstep with the captured.
    pub other_devices: DeviceGroup,
    /// Options of all replays. A replacement here takes the place of the captured kernel; others are compared
    /// with it.
    pub replay: ReplayOptions,
    /// The name of the function.
    pub function: String,
    /// Its dispatches.
    pub shapes: Vec<ComparedShape>,
}

/// A capture of a dispatch of a shape, whose only scope has the name of the function: of the first whose
/// inputs are not all zero.
pub(super) struct ShapeSlice {
    pub plan: Arc<Plan>,
    pub shape: ComparedShape,
    /// Its workgroups, unless a buffer has their count.
    workgroup_count: Option<[u32; 3]>,
    /// The bindings of its dispatch, as far as they can be read.
    bindings: Vec<PlannedBinding>,
    bound: Vec<Bound>,
    has_only_zeros: bool,
    captured: Captured,
}

impl ShapeSlice {
    /// The inputs that get fresh values, where options and the name of the function say their type.
    pub(super) fn fresh_bindings(&self, options: &VerifyOptions, function: &str) -> FreshBindings {
        FreshBindings::for_dispatch(options.element_type_of(function), &self.bindings, &self.bound)
    }

    /// A replay on the first of the devices. A dispatch uses one, unless its buffers are of others.
    pub(super) fn replay(&self, devices: &DeviceGroup, options: &ReplayOptions) -> Result<Replay> {
        let used = devices.devices().iter().take(self.plan.device_count()).cloned().collect();
        let executable_label = Some(format!("executable {}", self.captured.executable_id));
        // The slice names files by where they are here.
        let mut options = options.clone().executable_label(executable_label).file_remaps(Vec::new());
        self.state_workgroups(&mut options);
        Replay::new(self.plan.clone(), &DeviceGroup::new(used)?, &options)
    }

    /// A slice that was cut with a baseline has the count of that. Replacements that need the count of the
    /// capture get it stated: whether it is known has been found in the whole capture.
    fn state_workgroups(&self, options: &mut ReplayOptions) {
        let Some(count) = self.captured.workgroup_count.filter(|it| self.workgroup_count != Some(*it)) else {
            return;
        };
        for Substitution { replacement, .. } in &mut options.substitutions {
            for (_, needed) in &mut replacement.workgroups {
                if *needed == NeededWorkgroups::Same {
                    *needed = NeededWorkgroups::Count(count);
                }
            }
            replacement.workgroups.push((None, NeededWorkgroups::Count(count)));
        }
    }

    /// Reads what is bound to the captured kernel before and after it.
    fn look(&mut self, subject: &CompareSubject) -> Result<()> {
        let mut watched = Watched::new(true);
        self.replay(&subject.devices, &subject.replay)?.run(&mut [&mut watched])?;
        self.bound = watched.dispatched.map(|it| it.bound).unwrap_or_default();
        // What a kernel only overwrites is not an input.
        let has_inputs = self.bound.iter().any(|it| !it.is_changed());
        let mut inputs = self.bound.iter().filter(|it| !has_inputs || !it.is_changed());
        self.has_only_zeros = inputs.all(|it| it.before.iter().all(|byte| *byte == 0));
        self.bound.iter_mut().for_each(Bound::forget);
        Ok(())
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
    /// In the capture, also if a baseline replaces it.
    workgroup_count: Option<[u32; 3]>,
}

impl Captured {
    fn from_dispatch(it: &PlannedDispatch<'_>) -> Self {
        let place = Place {
            record: it.location.ordinal,
            record_offset: it.location.offset,
            submission: it.submission.ordinal,
            occurrence: it.occurrence,
            ..Place::default()
        };
        Self {
            location: it.location,
            place,
            executable_id: it.executable.id,
            bindings: it.bindings.to_vec(),
            workgroup_count: it.workgroup_count,
        }
    }
}

/// The first dispatch of each shape, and some later ones, in the order of the shapes.
fn captured_dispatches(plan: &Plan, shapes: &[ComparedShape]) -> Result<Vec<VecDeque<Captured>>> {
    let mut found: Vec<(Option<ShapeKey>, VecDeque<Captured>)> =
        shapes.iter().map(|_| (None, VecDeque::new())).collect();
    plan.dispatches(|dispatch| {
        for (shape, (key, captured)) in shapes.iter().zip(&mut found) {
            if (shape.record, shape.occurrence) == (dispatch.location.ordinal, dispatch.occurrence) {
                *key = Some(ShapeKey::from_dispatch(dispatch));
                captured.push_back(Captured::from_dispatch(dispatch));
            } else if captured.len() < MAX_OCCURRENCES && *key == Some(ShapeKey::from_dispatch(dispatch)) {
                captured.push_back(Captured::from_dispatch(dispatch));
            }
        }
        Ok(())
    })?;
    match found.iter().zip(shapes).find(|((key, _), _)| key.is_none()) {
        Some((_, shape)) => Err(Error::not_found(format!("record #{} is not a dispatch", shape.record))),
        None => Ok(found.into_iter().map(|(_, captured)| captured).collect()),
    }
}

/// The key of a shape: dispatches with equal keys have the same shape.
#[derive(PartialEq, Eq)]
struct ShapeKey {
    function: Vec<u8>,
    workgroup_count: Option<[u32; 3]>,
    constants: Vec<u8>,
    lengths: Vec<u64>,
}

impl ShapeKey {
    fn from_dispatch(it: &PlannedDispatch<'_>) -> Self {
        Self {
            function: it.name.to_vec(),
            workgroup_count: it.workgroup_count,
            constants: it.constants.to_vec(),
            lengths: it.bindings.iter().map(|it| it.length).collect(),
        }
    }
}

/// Cuts a slice of each shape, all of them in a single replay, unless their inputs are zeros.
pub(super) fn cut(captured: &Replay, subject: &CompareSubject) -> Result<Vec<ShapeSlice>> {
    let mut pending: Vec<_> =
        (0..).zip(captured_dispatches(&subject.plan, &subject.shapes)?).collect::<Vec<(usize, _)>>();
    let mut slices: Vec<Option<ShapeSlice>> = subject.shapes.iter().map(|_| None).collect();
    while !pending.is_empty() {
        let mut next: Vec<(usize, Captured)> = Vec::new();
        pending.retain_mut(|(index, captured)| {
            next.extend(captured.pop_front().map(|it| (*index, it)));
            !captured.is_empty()
        });
        for (index, slice) in cut_dispatches(captured, subject, next)? {
            let is_zero = slice.has_only_zeros;
            // The first one stays if all are zeros.
            if slices[index].is_none() || !is_zero {
                slices[index] = Some(slice);
            }
            if !is_zero {
                pending.retain(|(other, _)| *other != index);
            }
        }
    }
    Ok(slices.into_iter().flatten().collect())
}

/// Cuts slices of dispatches of these shapes in a single replay.
fn cut_dispatches(
    captured: &Replay,
    subject: &CompareSubject,
    dispatches: Vec<(usize, Captured)>,
) -> Result<Vec<(usize, ShapeSlice)>> {
    let places: Vec<_> =
        dispatches.iter().map(|(_, it)| (it.location.ordinal, it.place.occurrence)).collect();
    let mut options = SliceOptions::default();
    // A replacement may read what the captured kernel only overwrites.
    options.keep_outputs = true;
    // Weights stay in their files, unless each replay of the slice would read these to validate them.
    let is_slow = |it: FileRecord<&[u8]>| {
        matches!(it.source.contents, FileContents::External { validation: Validation::Digest(_), .. })
    };
    options.keep_references = !subject.plan.files().any(is_slow);
    let mut captures = Captures(dispatches.iter().map(|_| Memory::default()).collect());
    captured.slices(&places, &options, &mut captures, &mut [])?;
    let compile = |(memory, (index, captured)): (&Memory, (usize, Captured))| {
        let bytes = std::mem::take(&mut *memory.0.lock()).into_inner();
        let plan = Plan::compile(bytes, PlanOptions::default())
            .map_err(|error| error.context(format!("the slice of record #{}", captured.location.ordinal)))?;
        let (mut bindings, mut workgroup_count) = (Vec::new(), None);
        plan.dispatches(|it| {
            bindings = it.bindings.to_vec();
            workgroup_count = it.workgroup_count;
            Ok(())
        })?;
        let shape = subject.shapes[index].clone();
        let mut slice = ShapeSlice {
            plan: Arc::new(plan),
            shape,
            workgroup_count,
            bindings,
            bound: Vec::new(),
            has_only_zeros: false,
            captured,
        };
        slice.look(subject)?;
        Ok((index, slice))
    };
    captures.0.iter().zip(dispatches).map(compile).collect()
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
