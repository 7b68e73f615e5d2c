//! Finds races between the workgroups of a replacement: each half of them by itself must write what it writes
//! with the others, and all of them in reverse order must write the same.
//!
//! The halves differ in one bit of the number of a workgroup, and each bit is tried, so that any two
//! workgroups are in different halves once: it depends on no timing whether a race is found. Bytes that two
//! workgroups write with the same values are right.

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{DeviceGroup, WorkgroupSchedule};
use rehal_replay::{Observer, ReplayOptions};

use super::CompareSubject;
use super::bound_buffers::{Watched, exact};
use super::slices::ShapeSlice;
use crate::{Outcome, REDZONE_BYTES, Verification, VerifyOptions};

/// Compares halves of the workgroups of each slice with all of them, up to the first slice in which those of
/// the replacement depend on each other, and those of the captured kernel do not. `None` if no slice has
/// several workgroups, or the devices cannot select them.
pub(super) fn verify(
    subject: &CompareSubject,
    slices: &[ShapeSlice],
    replaced: &ReplayOptions,
    options: &VerifyOptions,
    observers: &mut [&mut dyn Observer],
) -> Result<Option<Verification>> {
    let exact = exact(options);
    let mut all: Option<Verification> = None;
    for slice in slices {
        slice.locate(observers)?;
        let found = match guarded(slice, &subject.other_devices, replaced, &exact) {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            Err(error) if error.code() == StatusCode::Unimplemented => return Ok(None),
            Err(error) => return Err(error),
        };
        if found.outcome() == Outcome::Same {
            all.get_or_insert_default().add_same(&found);
            continue;
        }
        let captured = race(slice, &subject.devices, &subject.replay, &exact)?;
        if captured.is_none_or(|it| it.outcome() == Outcome::Same) {
            let mut found = found;
            slice.name_captured(&mut found);
            return Ok(Some(found));
        }
    }
    Ok(all)
}

/// [`race`], with redzones for what a replacement writes out of bounds.
fn guarded(
    slice: &ShapeSlice,
    devices: &DeviceGroup,
    options: &ReplayOptions,
    exact: &VerifyOptions,
) -> Result<Option<Verification>> {
    let redzones = options.clone().redzone_bytes(REDZONE_BYTES);
    match race(slice, devices, &redzones, exact) {
        Err(error) if error.code() == StatusCode::Unimplemented => race(slice, devices, options, exact),
        found => found,
    }
}

/// Compares what halves of the workgroups write with what all of them write; `None` of a single workgroup.
fn race(
    slice: &ShapeSlice,
    devices: &DeviceGroup,
    options: &ReplayOptions,
    exact: &VerifyOptions,
) -> Result<Option<Verification>> {
    let run = |workgroups| {
        let mut watched = Watched::new(workgroups == WorkgroupSchedule::All);
        slice.replay(devices, &options.clone().workgroups(workgroups))?.run(&mut [&mut watched])?;
        Ok::<_, Error>(watched)
    };
    let Some(whole) = run(WorkgroupSchedule::All)?.dispatched else { return Ok(None) };
    let total =
        whole.workgroup_count().into_iter().fold(1, |product: u64, it| product.saturating_mul(it.into()));
    if total < 2 {
        return Ok(None);
    }
    // A workgroup may read what a later one overwrites: no half shows that.
    let Some(reversed) = run(WorkgroupSchedule::Reversed)?.dispatched else { return Ok(None) };
    let mut found = reversed.judge(&whole, exact);
    for bit in 0..u64::BITS - (total - 1).leading_zeros() {
        if found.outcome() != Outcome::Same {
            break;
        }
        let half = |is_set| run(WorkgroupSchedule::Where { bit, is_set });
        let (Some(mut one), Some(other)) = (half(false)?.dispatched, half(true)?.dispatched) else {
            return Ok(None);
        };
        for ((one, other), whole) in one.bound.iter_mut().zip(&other.bound).zip(&whole.bound) {
            if other.is_changed() {
                let before = &whole.before;
                join(one.after_mut(before), other.after(before), before, whole.after(before));
            }
        }
        found = one.judge(&whole, exact);
    }
    Ok(Some(found))
}

/// Makes of what one half of the workgroups left what both halves did, each by itself: of bytes that both
/// changed, one that differs from what all workgroups left, if there is one.
fn join(one: &mut [u8], other: &[u8], before: &[u8], whole: &[u8]) {
    let rest = other.iter().zip(before).zip(whole);
    for (one, ((other, before), whole)) in one.iter_mut().zip(rest) {
        if other != before && (one == before || one == whole) {
            *one = *other;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_joined_to_what_differs() {
        // Neither, one, other, both the same, both and the sum, one that reads what the other writes.
        let (before, whole) = ([0, 0, 0, 0, 0, 0], [0, 1, 2, 5, 2, 7]);
        let (mut one, other) = ([0, 1, 0, 5, 1, 0], [0, 0, 2, 5, 1, 6]);
        join(&mut one, &other, &before, &whole);
        assert_eq!(one, [0, 1, 2, 5, 1, 6]);
        // The wrong byte remains.
        for (mut one, other) in [([3], [4]), ([4], [3])] {
            join(&mut one, &other, &[0], &[4]);
            assert_eq!(one, [3]);
        }
    }
}
