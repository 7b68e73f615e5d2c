//! The executables of slices without the functions that slices do not dispatch.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use rehal_base::Result;
use rehal_hal::{Device, Indexed, PrepareExecutable, WorkgroupSchedule};

use super::SlicedExecutable;
use super::cut::Found;
use super::issue::Needs;
use super::shared::Shared;
use crate::Plan;
use crate::prepare::{self, Prepared};
use crate::substitute::{Replacement, Replacements, Selector, Substitution};

/// The executables without some functions, by index and the captured ordinals of those that stay; `None` for one that stays whole.
pub(super) type StrippedCache = RefCell<HashMap<(u32, BTreeSet<u32>), Option<Rc<Stripped>>>>;

/// An executable without some functions.
pub(super) struct Stripped {
    replacements: Replacements,
    bytes: u64,
}

impl Stripped {
    pub(super) fn prepare(
        &self,
        plan: &Plan,
        op: &PrepareExecutable<Indexed>,
        device: &Device,
    ) -> Result<Prepared> {
        prepare::prepare(plan, op, device, &self.replacements, &[], WorkgroupSchedule::All, None)
    }
}

impl Shared<'_> {
    /// An executable without the functions that are not used, by captured ordinal; `None` if it stays whole, as one does that is
    /// replaced.
    pub(super) fn stripped(
        &self,
        op: &PrepareExecutable<Indexed>,
        used: &BTreeSet<u32>,
    ) -> Result<Option<Rc<Stripped>>> {
        let Some(strip) = self.options.strip else { return Ok(None) };
        let key = (op.created, used.clone());
        if let Some(known) = self.stripped.borrow().get(&key) {
            return Ok(known.clone());
        }
        let (plan, devices) = (self.plan, self.replay.devices().devices());
        let whole = self.replay.prepare(op, &devices[op.cache as usize])?;
        let is_captured = (0..whole.function_count()).all(|it| whole.replacement(it as u32).is_none());
        let kept: Vec<u32> = used.iter().map(|captured| whole.function(*captured).1).collect();
        let bytes = plan.bytes();
        let format = String::from_utf8_lossy(op.format.of(bytes));
        let stripped = match is_captured {
            true => strip(&format, op.data.of(bytes), &kept),
            false => None,
        };
        let stripped = match stripped {
            Some(data) => {
                let id = plan.executables[op.created as usize].record(bytes).id;
                let size = data.len() as u64;
                let replacement = Replacement::bytes(data).of_format(format);
                let substitution = Substitution::new(Selector::Id(id), replacement);
                let replacements = Replacements::open(&[substitution], plan)?;
                Some(Rc::new(Stripped { replacements, bytes: size }))
            }
            None => None,
        };
        self.stripped.borrow_mut().insert(key, stripped.clone());
        Ok(stripped)
    }

    /// The executables of a slice, if functions are to be removed.
    pub(super) fn sliced_executables(&self, found: &Found) -> Result<Vec<SlicedExecutable>> {
        if self.options.strip.is_none() {
            return Ok(Vec::new());
        }
        let needs = Needs::of(self, &found.items);
        let all = prepare::preparations(self.plan).into_iter();
        let used = all.filter_map(|op| Some((op, needs.executables.get(&op.created)?)));
        used.map(|(op, used)| {
            let stripped_bytes = self.stripped(op, used)?.map(|it| it.bytes);
            let id = self.plan.executables[op.created as usize].record(self.plan.bytes()).id;
            let captured_bytes = op.data.of(self.plan.bytes()).len() as u64;
            let functions = u64::from(self.plan.executables[op.created as usize].function_count);
            let unused_function_count = functions.saturating_sub(used.len() as u64);
            Ok(SlicedExecutable { id, captured_bytes, stripped_bytes, unused_function_count })
        })
        .collect()
    }
}
