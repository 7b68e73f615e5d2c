//! Finds accesses of a replacement outside of its bindings, and results that depend on memory that was never
//! written.

use rehal_base::{Result, StatusCode};
use rehal_replay::{Observer, Replay, ReplayOptions};

use super::CompareSubject;
use crate::{REDZONE_BYTES, Verification, VerifyOptions, VerifySides, watch_memory};

/// Findings of other functions are not reported, and must not leave out those that are.
const MAX_FINDINGS: usize = 10_000;

/// The wrong accesses of the replaced function but not of the captured one, in a replay of the whole capture:
/// a slice does not tell which bytes the program had never written. `None` if the devices cannot be watched.
pub(super) fn watch(
    subject: &CompareSubject,
    replaced: &ReplayOptions,
    options: &VerifyOptions,
    observers: &mut [&mut dyn Observer],
) -> Result<Option<Verification>> {
    let mut options = options.clone();
    (options.keep_going, options.max_differences) = (true, MAX_FINDINGS);
    let mut found = match watched(subject, replaced, &options, observers) {
        Ok(found) => found,
        Err(error) if error.code() == StatusCode::Unimplemented => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_own = |function: Option<&str>| function == Some(subject.function.as_str());
    found.out_of_bounds_writes.retain(|it| is_own(it.place.function()));
    found.differences.retain(|it| is_own(it.place.function()));
    if !found.out_of_bounds_writes.is_empty() || !found.differences.is_empty() {
        let captured = watched(subject, &subject.replay, &options, &mut [])?;
        found = found.memory_errors_beside(&captured);
    }
    Ok(Some(found.only_memory_errors()))
}

fn watched(
    subject: &CompareSubject,
    replaying: &ReplayOptions,
    options: &VerifyOptions,
    observers: &mut [&mut dyn Observer],
) -> Result<Verification> {
    let replaying = replaying.clone().redzone_bytes(REDZONE_BYTES);
    let expected = Replay::new(subject.plan.clone(), &subject.devices, &replaying)?;
    let actual = Replay::new(subject.plan.clone(), &subject.other_devices, &replaying)?;
    let sides = VerifySides { expected: &expected, actual: &actual, expected_observers: &mut [], observers };
    watch_memory(sides, options)
}
