//! Comparison of a captured kernel with replacements: first whether they compute the same, then whether they
//! are faster.
//!
//! `verify_lockstep` of the whole capture decides whether a replacement is right. Races need more:
//! `workgroups.rs` finds them on CPU devices by running halves of the workgroups by themselves, and all of
//! them in reverse order. Which workgroups run is a parameter of a prepared executable (`WorkgroupSchedule`),
//! so that no operation has it.
//!
//! Then a slice in memory of each distinct dispatch (`slices.rs`) is repeated by `FastForward` on both sides
//! (`timing.rs`), on the same devices: executables are prepared once for a batch, inputs are restored, and
//! results compared, all outside of the timed region. The time is what the device reports (`spans.rs`), since
//! a submission takes longer than a short kernel: that of the processor, where one executes it. A dispatch is
//! never repeated within a span: a kernel could remember its results. What the times prove is judged by
//! `rehal_judge`.
//!
//! `fresh_inputs.rs` gives inputs of a known element type fresh values in each pair. They may be out of
//! bounds for a kernel, so a process that crashes is repeated without them (`CompareWork`). Comparisons run
//! in processes of their own, because nothing contains a crash or an endless loop within a process.

mod bound_buffers;
mod code;
mod fresh_inputs;
mod memory;
mod slices;
mod spans;
mod timing;
mod workgroups;

pub use code::RunningCode;
pub use fresh_inputs::FreshInputs;
pub use slices::{CompareSubject, ComparedShape};
pub use spans::{DispatchSpans, DispatchTime};
pub use timing::displace;

use std::cell::OnceCell;
use std::time::Duration;

use rehal_base::{Error, Result, StatusCode};
use rehal_replay::{Observer, Replacement, Replay, ReplayOptions, Selector, Substitution};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use self::slices::ShapeSlice;
use crate::{FAR, Judgment, PartTiming, Pulse, TimingVerdict};
use crate::{
    Outcome, REDZONE_BYTES, Verification, VerifyOptions, VerifySides,
    verify::{NewMemory, run_lockstep},
};

/// The contents of the CPU's caches when a kernel begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheState {
    /// The memory that an untimed dispatch of the same kernel left there.
    Warm,
    /// Nothing that the kernel accesses.
    Cold,
}

impl CacheState {
    /// Its name, such as `warm`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Cold => "cold",
        }
    }
}

/// Options of a comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompareOptions {
    /// When numbers are right.
    pub verify: VerifyOptions,
    /// Each is timed by itself.
    pub caches: Vec<CacheState>,
    /// Sampling stops once half the interval is at most this fraction of the ratio, or half of a difference
    /// that it proves; a fourth of this fraction, unless it proves that the replacement is not slower.
    pub precision: f64,
    /// By which fraction of the captured time a replacement may be slower.
    pub margin: f64,
    /// Sampling stops after this time, with several states of caches after an equal share for each, and once
    /// there is a pair.
    pub max_time: Duration,
    /// A ratio beyond which more precision is of no use: a replacement that is proved to be slower than that
    /// is not timed any longer.
    pub far: f64,
    /// Seed of the order of the pairs.
    pub seed: u64,
    /// Whether workgroups of the replacement may use atomic operations on the same numbers: otherwise all
    /// that makes them depend on each other is a race.
    pub allows_atomics: bool,
    /// Whether inputs of a known element type get fresh values while kernels are timed, as it takes to find
    /// kernels that remember results. A kernel for which such values are out of bounds may crash with them.
    pub changes_inputs: bool,
    /// Whether a wrong kernel is timed.
    pub times_wrong: bool,
    /// Called between batches of timed pairs. If it ends the timing, what is known is returned.
    #[doc(hidden)]
    #[serde(skip)]
    pub pulse: Pulse,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            verify: VerifyOptions::default(),
            caches: vec![CacheState::Warm, CacheState::Cold],
            precision: 0.01,
            margin: 0.05,
            max_time: Duration::from_secs(60),
            far: FAR,
            seed: 0,
            allows_atomics: false,
            changes_inputs: true,
            times_wrong: false,
            pulse: Pulse::default(),
        }
    }
}

/// Compares a captured kernel with replacements. It is cut out of the capture once.
pub struct KernelComparer {
    subject: CompareSubject,
    captured: Replay,
    slices: OnceCell<Vec<ShapeSlice>>,
}

/// A replacement of which it is known what it computes.
pub struct CheckedKernel<'c> {
    comparer: &'c KernelComparer,
    replaying: ReplayOptions,
    options: CompareOptions,
    comparison: Comparison,
}

impl CheckedKernel<'_> {
    /// Times it, unless it is wrong.
    pub fn time(self, observers: &mut [&mut dyn Observer]) -> Result<Comparison> {
        let Self { comparer, replaying, options, mut comparison } = self;
        // Those of an emulated device say nothing about a real one.
        let is_emulated = comparer.captured.devices().devices().iter().any(|it| it.info().is_emulated);
        if is_emulated || !comparison.is_right() && !options.times_wrong {
            return Ok(comparison);
        }
        let slices = comparer.slices()?;
        if let Some(slice) = slices.first() {
            slice.locate(observers)?;
        }
        timing::time(&comparer.subject, slices, &replaying, &options, &mut comparison)?;
        if comparison.is_right() {
            comparison.after_timing =
                Some(comparer.verify_slices(slices, &replaying, &options.verify, observers)?);
        }
        Ok(comparison)
    }
}

/// How long a replacement takes, compared with the captured kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[non_exhaustive]
pub struct Timing {
    /// The contents of the CPU's caches.
    pub cache: CacheState,
    /// The ratio, its interval and what it proves. Its parts are the shapes.
    #[serde(flatten)]
    pub judgment: Judgment,
    /// By shape, as they were given.
    pub shapes: Vec<ShapeTiming>,
}

/// The times of the dispatches of a shape.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ShapeTiming {
    /// The dispatches.
    #[serde(flatten)]
    pub shape: ComparedShape,
    /// The times of both sides.
    #[serde(flatten, serialize_with = "times")]
    pub timing: PartTiming,
    /// The bindings that had fresh values in each pair. Without one, a replacement that remembers its results
    /// is not found.
    pub varied_bindings: Vec<u32>,
    /// Of the captured side and of the replaced one: CPU time of the thread with the most, as a fraction of
    /// that of all threads.
    pub longest_shares: [f64; 2],
}

/// The times of both sides, with those that decide in front.
fn times<S: Serializer>(timing: &PartTiming, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Row<'a> {
        captured_ns: f64,
        replaced_ns: f64,
        #[serde(flatten)]
        timing: &'a PartTiming,
    }
    Row { captured_ns: timing.captured.ns, replaced_ns: timing.replaced.ns, timing }.serialize(serializer)
}

impl<'d> Deserialize<'d> for Timing {
    fn deserialize<D: Deserializer<'d>>(from: D) -> std::result::Result<Self, D::Error> {
        let mut timing = Timing::deserialize(from)?;
        // The parts of a judgment are its shapes, which reports have instead.
        for shape in &mut timing.shapes {
            shape.timing.count = shape.shape.count;
        }
        timing.judgment.parts = timing.shapes.iter().map(|shape| shape.timing.clone()).collect();
        Ok(timing)
    }
}

impl Serialize for Timing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            verdict: TimingVerdict,
            #[serde(flatten, serialize_with = "fields")]
            of: &'a Timing,
        }
        fn fields<S: Serializer>(of: &&Timing, serializer: S) -> Result<S::Ok, S::Error> {
            Timing::serialize(of, serializer)
        }
        Row { verdict: self.verdict(), of: self }.serialize(serializer)
    }
}

impl Timing {
    /// The part of the CPU time of all threads that the one with the most had, of both sides.
    pub fn longest_shares(&self) -> [f64; 2] {
        [0, 1].map(|side| {
            let of = |it: &ShapeTiming| {
                let ns = [it.timing.captured.ns, it.timing.replaced.ns][side] * it.shape.count as f64;
                [ns, ns * it.longest_shares[side]]
            };
            let [all, longest] =
                self.shapes.iter().map(of).fold([0.0; 2], |all, it| [all[0] + it[0], all[1] + it[1]]);
            if all > 0.0 { longest / all } else { 1.0 }
        })
    }

    /// Whether the replacement shares its work so much less evenly among threads that it may be slower,
    /// although all threads together take no longer.
    pub fn is_uneven(&self) -> bool {
        /// A second thread begins later, which is a larger part of a shorter kernel.
        const LEAST: f64 = 1.25;
        let [captured, replaced] = self.longest_shares();
        let (ratio, margin) = (replaced / captured, self.judgment.margin);
        ratio > LEAST && self.judgment.interval.is_some_and(|it| it.high * ratio >= 1.0 + margin)
    }

    /// The verdict that the times prove. Whether a replacement that is uneven is slower cannot be told by the
    /// time of all threads.
    pub fn verdict(&self) -> TimingVerdict {
        match self.judgment.verdict() {
            TimingVerdict::Faster | TimingVerdict::NotSlower if self.is_uneven() => TimingVerdict::CannotTell,
            verdict => verdict,
        }
    }
}

/// How a replacement compares with the captured kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Comparison {
    /// The whole capture with the replacement, compared with the captured one dispatch by dispatch.
    pub verification: Verification,
    /// The writes of the replaced function outside of its bindings, and its results that depend on memory
    /// that was never written, other than those of the captured one; `None` if they were not determined.
    pub memory: Option<Verification>,
    /// The dispatches, with halves of their workgroups by themselves, which must write what they write with
    /// the others: otherwise workgroups race, or use atomic operations. `None` if it was wrong before, if
    /// each has a single workgroup, if the devices cannot select workgroups, or with
    /// [`CompareOptions::allows_atomics`].
    pub workgroups: Option<Verification>,
    /// The timed dispatches, compared again after they were timed.
    pub after_timing: Option<Verification>,
    /// Whether it is the same code as the captured kernel, byte for byte: then its times differ only by what
    /// the address of the code does. `false` if that cannot be told.
    pub is_same_code: bool,
    /// [`CompareOptions::changes_inputs`]: `false` also if the comparison was repeated after a crash, with
    /// the captured inputs only.
    pub changes_inputs: bool,
    /// Why the replacement is wrong although it computed the same at first: it computes something else when
    /// it is repeated, or with fresh values of its inputs.
    pub not_reproduced: Option<String>,
    /// By state of the caches, as in the options, up to one in which the replacement is far slower; empty if
    /// it was not timed.
    pub timings: Vec<Timing>,
}

impl Comparison {
    /// Whether the replacement computed the same each time, within the tolerances.
    pub fn is_right(&self) -> bool {
        let is_same = |it: &Verification| it.outcome() == Outcome::Same;
        is_same(&self.verification)
            && self.memory.as_ref().is_none_or(is_same)
            && self.workgroups.as_ref().is_none_or(is_same)
            && self.after_timing.as_ref().is_none_or(is_same)
            && self.not_reproduced.is_none()
    }

    /// Whether the replacement is slower in some state of the caches, which the same code never is:
    /// `Some(false)` if it is proved that it is not slower than the margin allows, `None` if that cannot be
    /// told, or if it was not timed.
    pub fn is_slower(&self) -> Option<bool> {
        if self.is_same_code {
            return Some(false);
        }
        let has = |verdict| self.timings.iter().any(|timing| timing.verdict() == verdict);
        match has(TimingVerdict::Slower) {
            true => Some(true),
            false if self.timings.is_empty() || has(TimingVerdict::CannotTell) => None,
            false => Some(false),
        }
    }

    /// The verification that found it wrong, other than by its [accesses](Comparison::memory).
    pub fn wrong_verification(&self) -> Option<&Verification> {
        let others = [&self.workgroups, &self.after_timing];
        let all = others.into_iter().map(Option::as_ref);
        std::iter::once(Some(&self.verification))
            .chain(all)
            .flatten()
            .find(|it| it.outcome() != Outcome::Same)
    }

    /// The ratio by which replacements are ranked: of the first timing.
    pub fn ratio(&self) -> Option<f64> {
        self.timings.first().map(|timing| timing.judgment.ratio)
    }
}

impl KernelComparer {
    /// Prepares the captured side. Fails if the function is never dispatched.
    pub fn new(subject: CompareSubject) -> Result<Self> {
        if subject.shapes.is_empty() {
            let message = format!("function '{}' is never dispatched", subject.function.escape_debug());
            return Err(
                Error::failed_precondition(message).advise("name a function of the catalog of kernels")
            );
        }
        let captured = Replay::new(subject.plan.clone(), &subject.devices, &subject.replay)?;
        captured.check_executables()?;
        Ok(Self { subject, captured, slices: OnceCell::new() })
    }

    /// Replays the capture with the captured kernel.
    pub fn replay_captured(&self, observers: &mut [&mut dyn Observer]) -> Result<()> {
        self.captured.run(observers)
    }

    /// Compares a replacement of the function: its signature, then what it computes, then its time.
    /// `observers` see the replay that is verified.
    pub fn compare(
        &self,
        replacement: &Replacement,
        options: &CompareOptions,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Comparison> {
        self.check(replacement, options, observers)?.time(observers)
    }

    /// The same without the time, which [`CheckedKernel::time`] adds.
    pub fn check(
        &self,
        replacement: &Replacement,
        options: &CompareOptions,
        observers: &mut [&mut dyn Observer],
    ) -> Result<CheckedKernel<'_>> {
        let selector = Selector::Name(self.subject.function.clone());
        let substitutions = vec![Substitution::new(selector, replacement.clone())];
        let replaying = self.subject.replay.clone().substitutions(substitutions);
        let subject = &self.subject;
        // What the replacement writes beyond a buffer would be in the memory of this process.
        let guarded = replaying.clone().redzone_bytes(REDZONE_BYTES);
        let (verification, is_same_code) = match self.verify(&guarded, &options.verify, observers) {
            Err(error) if error.code() == StatusCode::Unimplemented => {
                self.verify(&replaying, &options.verify, observers)?
            }
            verified => verified?,
        };
        let mut comparison = Comparison {
            verification,
            memory: None,
            workgroups: None,
            after_timing: None,
            is_same_code,
            changes_inputs: options.changes_inputs,
            not_reproduced: None,
            timings: Vec::new(),
        };
        if comparison.is_right() || options.times_wrong {
            let slices = self.slices()?;
            // What races may also look like a result of unwritten memory.
            if comparison.is_right() && !options.allows_atomics {
                comparison.workgroups =
                    workgroups::verify(subject, slices, &replaying, &options.verify, observers)?;
            }
            if comparison.is_right() {
                comparison.memory = memory::watch(subject, &replaying, &options.verify, observers)?;
            }
        }
        Ok(CheckedKernel { comparer: self, replaying, options: options.clone(), comparison })
    }

    /// Verifies a replay of the whole capture with the replacement. Returns whether that is the same code,
    /// too.
    fn verify(
        &self,
        replaying: &ReplayOptions,
        options: &VerifyOptions,
        observers: &mut [&mut dyn Observer],
    ) -> Result<(Verification, bool)> {
        let subject = &self.subject;
        let replaced = Replay::new(subject.plan.clone(), &subject.other_devices, replaying)?;
        replaced.check_executables().map_err(|error| match error.code() {
            StatusCode::NotFound => {
                error.advise("a stub of the kernel has the name and the signature that a replacement needs")
            }
            _ => error,
        })?;
        let mut codes = [&subject.devices, &subject.other_devices]
            .map(|it| RunningCode::of_function(it, &subject.function));
        let [expected_code, code] = &mut codes;
        let mut all: Vec<&mut dyn Observer> = vec![code];
        for observer in observers {
            all.push(*observer);
        }
        let sides = VerifySides {
            expected: &self.captured,
            actual: &replaced,
            expected_observers: &mut [expected_code],
            observers: &mut all,
        };
        let verification = verify_sides(sides, options)?;
        Ok((verification, codes[0].are_all_same(&codes[1])))
    }

    fn slices(&self) -> Result<&[ShapeSlice]> {
        if self.slices.get().is_none() {
            let slices = slices::cut(&self.captured, &self.subject)?;
            // Nothing else sets it: it is not shared between threads.
            let _ = self.slices.set(slices);
        }
        Ok(self.slices.get().map_or(&[], Vec::as_slice))
    }

    /// Verifies the slices up to the first that differs.
    fn verify_slices(
        &self,
        slices: &[ShapeSlice],
        replaying: &ReplayOptions,
        options: &VerifyOptions,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Verification> {
        let subject = &self.subject;
        let mut all = Verification::default();
        for slice in slices {
            slice.locate(observers)?;
            let expected = slice.replay(&subject.devices, &subject.replay)?;
            let actual = slice.replay(&subject.other_devices, replaying)?;
            let sides = VerifySides {
                expected: &expected,
                actual: &actual,
                expected_observers: &mut [],
                observers: &mut [],
            };
            let mut found = verify_sides(sides, options)?;
            slice.name_captured(&mut found);
            if found.outcome() != Outcome::Same {
                return Ok(found);
            }
            all.add_same(&found);
        }
        Ok(all)
    }
}

/// Zeros in new memory: `memory` names results that depend on it.
fn verify_sides(sides: VerifySides<'_, '_, '_>, options: &VerifyOptions) -> Result<Verification> {
    decided(run_lockstep(sides, options, NewMemory::Filled(0))?)
}

/// Fails if it cannot be told whether the replacement is right.
fn decided(verification: Verification) -> Result<Verification> {
    match (verification.outcome(), verification.inconclusive.first()) {
        (Outcome::Inconclusive, Some(reason)) => {
            Err(Error::failed_precondition(format!("cannot tell whether the replacement is right: {reason}")))
        }
        _ => Ok(verification),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, Conditions, Interval, SideTiming, Statistic, Stopped};

    /// Reports have the shapes in place of the parts: without them, a tool that reads what a worker found
    /// would print times of 0.
    #[test]
    fn a_timing_is_a_message() {
        let side = |ns| SideTiming { ns, median_ns: ns + 1.0, ..SideTiming::default() };
        let interval = Some(Interval { low: 0.5, high: 0.75 });
        let part = PartTiming { count: 3, captured: side(20.0), replaced: side(10.0), ratio: 0.5, interval };
        let judgment = Judgment {
            ratio: 0.5,
            interval,
            margin: 0.05,
            clock: Clock::Processor,
            parts: vec![part.clone()],
            pair_count: 40,
            preempted_count: 1,
            batch_count: 2,
            resolution_ns: 10.0,
            statistic: Statistic::Mean,
            clock_error: 0.01,
            stopped: Stopped::Precise,
            elapsed: Duration::from_nanos(5),
            conditions: Conditions::default(),
        };
        let shape = ComparedShape { record: 17, occurrence: 1, count: 3 };
        let shape = ShapeTiming { shape, timing: part, varied_bindings: vec![2], longest_shares: [0.5, 1.0] };
        let timing = Timing { cache: CacheState::Cold, judgment, shapes: vec![shape] };
        let again: Timing = serde_json::from_str(&serde_json::to_string(&timing).unwrap()).unwrap();
        assert_eq!(format!("{again:?}"), format!("{timing:?}"));
    }
}
