//! Searches variants of a kernel for the fastest one: the space that a file describes, samplers that choose
//! its points, and the loop that tries them.
//!
//! [`Search`] has no compiler, no clock of kernels and no processes: a [`SearchHost`] builds, checks and
//! times candidates. Each is compared with the captured kernel, and one that seems faster than the best so
//! far also with that one directly: ratios that were measured minutes apart are not comparable. The best of
//! many noisy ratios is too low, so that [`Search::finish`] measures the best once more.
//!
//! Candidates of the same code are one: the first is timed, and an axis whose values all compile to the same
//! code is named, and left out of the flags that the best needs.
//!
//! Each trial has a key, the digest of all that its result depends on but the machine. A trial whose key is
//! known is not repeated, so that a search can be resumed, and spaces may grow.

mod config;
mod sampler;
mod space;
mod trials;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use rehal_base::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use sampler::{GridSampler, ListSampler, RandomSampler, Sampler};
pub use space::{BaseKind, PointSource, SearchAxis, SearchPoint, SearchSpace};
pub use trials::TrialFile;

/// The services that a search asks of the program that runs it.
pub trait SearchHost {
    /// A compiled candidate.
    type Code;

    /// Its bytes.
    fn bytes(code: &Self::Code) -> &[u8];

    /// The workgroups that its functions need, in words, if these are not the captured ones: code with the
    /// same bytes that needs other ones is another candidate.
    fn workgroups(code: &Self::Code) -> Option<String>;

    /// Compiles a point. An error ends the search: a candidate that does not compile is none.
    fn build(&mut self, source: &PointSource) -> Result<BuiltPoint<Self::Code>>;

    /// Checks a candidate against the captured kernel or against another candidate, and times it if it is
    /// right. `None` if that was interrupted.
    fn compare(
        &mut self,
        candidate: &Self::Code,
        other: Option<&Self::Code>,
        effort: SearchEffort,
    ) -> Result<Option<Measured>>;

    /// The command that tries the point with these values again.
    fn command(&self, values: &Map<String, Value>) -> String;

    /// Whether to stop.
    fn is_interrupted(&self) -> bool;

    /// Called with each trial, in the order of the sampler, and again with a best one that turns out to be
    /// wrong. `is_new` says whether its result was not known before.
    fn finished(&mut self, trial: &Trial, is_new: bool) -> Result<()>;
}

/// The result of building a point.
#[derive(Clone, Debug)]
pub enum BuiltPoint<C> {
    /// It compiles to this code.
    Code(C),
    /// It does not compile, for this reason.
    Failed(String),
}

/// How long a comparison may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SearchEffort {
    /// As long as a trial, unless the candidate is proved to take more than this part of the other's time.
    Trial {
        /// The ratio.
        give_up_above: f64,
    },
    /// As long as the result of a search is worth.
    Result,
}

/// The result of a comparison of a candidate. As JSON, how it compares.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Measured {
    /// The outcome of the candidate.
    pub outcome: TrialOutcome,
    /// Why it is not right.
    #[serde(skip)]
    pub error: Option<String>,
    /// Its time as a fraction of the other's.
    pub ratio: Option<f64>,
    /// The interval of the ratio.
    pub ratio_interval: Option<[f64; 2]>,
    /// Time of all dispatches of the other in nanoseconds.
    #[serde(skip)]
    pub other_ns: Option<f64>,
    /// Time of all dispatches of the candidate in nanoseconds.
    #[serde(skip)]
    pub candidate_ns: Option<f64>,
    /// The timings, as `rehal compare` reports them.
    pub timings: Option<Value>,
    /// Results that are right up to rounding, as `rehal compare` reports them; `None` if they are the same.
    #[serde(skip)]
    pub rounding: Option<Value>,
}

impl Measured {
    /// A candidate that is not right.
    pub fn without_time(outcome: TrialOutcome, error: String) -> Self {
        Self { error: Some(error), ..Self::timed(outcome, None) }
    }

    /// A candidate that is right.
    pub fn timed(outcome: TrialOutcome, ratio: Option<f64>) -> Self {
        Self {
            outcome,
            error: None,
            ratio,
            ratio_interval: None,
            other_ns: None,
            candidate_ns: None,
            timings: None,
            rounding: None,
        }
    }
}

/// The outcome of a candidate; the times are compared with those of the captured kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialOutcome {
    /// It is proved to be faster.
    Faster,
    /// It is proved to be not slower than the margin allows.
    NotSlower,
    /// Neither is proved.
    CannotTell,
    /// It is proved to be slower.
    Slower,
    /// It computes something else. Like those below, it was not timed.
    Wrong,
    /// It ended its process by a signal.
    Crashed,
    /// It was ended because it took too long.
    TimedOut,
    /// It does not compile, has another signature, or fails.
    Failed,
}

impl TrialOutcome {
    /// Whether the candidate computes the same.
    pub fn is_right(self) -> bool {
        self <= Self::Slower
    }

    /// Its name, as people read it.
    pub fn told(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::NotSlower => "not slower",
            Self::CannotTell => "cannot tell",
            Self::Slower => "slower",
            Self::Wrong => "wrong",
            Self::Crashed => "crashed",
            Self::TimedOut => "timed out",
            Self::Failed => "failed",
        }
    }
}

/// A candidate that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Trial {
    /// Its number, from 1.
    pub trial: u64,
    /// The digest of what the result depends on.
    pub key: String,
    /// The values of the axes.
    pub point: Map<String, Value>,
    /// The flags of the compiler.
    pub flags: Vec<String>,
    /// The BLAKE3 of its code; `None` if it does not compile.
    pub candidate_digest: Option<String>,
    /// The workgroups that it needs, if these are not the captured ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workgroups: Option<String>,
    /// The number of an earlier trial of the same code, whose result it has: it was not timed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_code_as: Option<u64>,
    /// The outcome.
    pub outcome: TrialOutcome,
    /// Why it is not right.
    pub error: Option<String>,
    /// Its time as a fraction of the captured kernel's.
    pub ratio: Option<f64>,
    /// The interval of the ratio; `None` with too few batches.
    pub ratio_interval: Option<[f64; 2]>,
    /// Time of all dispatches of the captured kernel in nanoseconds.
    pub captured_ns: Option<f64>,
    /// Time of all dispatches of the candidate in nanoseconds.
    pub candidate_ns: Option<f64>,
    /// How it compares with the best trial before it, if it seemed faster.
    pub against_best: Option<TrialPair>,
    /// Whether it was the best when it was tried.
    pub is_best: bool,
    /// The timings, as `rehal compare` reports them.
    pub timings: Option<Value>,
    /// Results that are right up to rounding, as `rehal compare` reports them; `None` if they are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounding: Option<Value>,
    /// Time of the trial in nanoseconds.
    pub elapsed_ns: u64,
    /// The command that tries it again.
    pub command: String,
}

/// A trial compared with another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TrialPair {
    /// The number of the other.
    pub trial: u64,
    /// The key of the other.
    pub key: String,
    /// The outcome, compared with the other's.
    pub outcome: TrialOutcome,
    /// Its time as a fraction of the other's.
    pub ratio: Option<f64>,
    /// The interval of the ratio.
    pub ratio_interval: Option<[f64; 2]>,
}

impl TrialPair {
    fn new(other: &Trial, measured: &Measured) -> Self {
        Self {
            trial: other.trial,
            key: other.key.clone(),
            outcome: measured.outcome,
            ratio: measured.ratio,
            ratio_interval: measured.ratio_interval,
        }
    }
}

/// Options of a [`Search`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SearchOptions {
    /// The search ends after so many points, with those whose results were known.
    pub max_trials: Option<u64>,
    /// No trial begins after this time.
    pub max_time: Option<Duration>,
    /// By which fraction of the time of the best a candidate may be slower before its timing ends.
    pub margin: f64,
    /// The inputs of the results of all trials: the digest of the capture, the function, the compiler, flags.
    pub inputs: Vec<String>,
    /// Trials of earlier searches. Those with other inputs do not matter.
    pub known: Vec<Trial>,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self { max_trials: None, max_time: None, margin: 0.05, inputs: Vec::new(), known: Vec::new() }
    }
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchStop {
    /// The sampler has no more points.
    Points,
    /// [`SearchOptions::max_trials`].
    Trials,
    /// [`SearchOptions::max_time`].
    Time,
    /// [`SearchHost::is_interrupted`].
    Interrupted,
    /// An error of a host or a sampler.
    Error,
}

/// The result of a search.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SearchResult {
    /// All trials, in the order of the sampler.
    pub trials: Vec<Trial>,
    /// The index of the best; `None` if no candidate is right.
    pub best: Option<usize>,
    /// The index of the second.
    pub second: Option<usize>,
    /// The best, compared with the captured kernel once more; `None` if the search was interrupted.
    pub against_captured: Option<Measured>,
    /// The best, compared with the second.
    pub against_second: Option<Measured>,
    /// The names of axes that change nothing: all of their values were tried, and compile to the same code
    /// whatever the other axes are.
    pub unchanging_axes: Vec<String>,
    /// The flags of the compiler that the best needs.
    pub best_flags: Vec<String>,
}

/// A search.
pub struct Search<'s, H: SearchHost> {
    space: &'s SearchSpace,
    host: H,
    options: SearchOptions,
    known: HashMap<String, Trial>,
    trials: Vec<Trial>,
    by_key: HashMap<String, usize>,
    points: Vec<SearchPoint>,
    best: Option<usize>,
    /// The code of the best, if it was built.
    best_code: Option<H::Code>,
    against_captured: Option<Measured>,
    against_second: Option<Measured>,
    /// The flags without which the best compiles to the same code are left out.
    best_flags: Option<Vec<String>>,
    next_number: u64,
}

impl<'s, H: SearchHost> Search<'s, H> {
    /// A search without trials.
    pub fn new(space: &'s SearchSpace, host: H, mut options: SearchOptions) -> Self {
        let known = std::mem::take(&mut options.known);
        let next_number = known.iter().map(|it| it.trial).max().unwrap_or(0).saturating_add(1);
        // A later result of the same trial replaces an earlier one.
        let known = known.into_iter().map(|it| (it.key.clone(), it)).collect();
        Self {
            space,
            host,
            options,
            known,
            trials: Vec::new(),
            by_key: HashMap::new(),
            points: Vec::new(),
            best: None,
            best_code: None,
            against_captured: None,
            against_second: None,
            best_flags: None,
            next_number,
        }
    }

    /// The program that runs it.
    pub fn host(&mut self) -> &mut H {
        &mut self.host
    }

    /// Tries the points of a sampler.
    pub fn run(&mut self, sampler: &mut dyn Sampler) -> Result<SearchStop> {
        let begun = Instant::now();
        let mut count = 0;
        loop {
            if self.host.is_interrupted() {
                return Ok(SearchStop::Interrupted);
            }
            if self.options.max_trials.is_some_and(|limit| count >= limit) {
                return Ok(SearchStop::Trials);
            }
            if self.options.max_time.is_some_and(|limit| begun.elapsed() >= limit) {
                return Ok(SearchStop::Time);
            }
            let Some(point) = sampler.next(self.space, &|| self.host.is_interrupted())? else {
                let is_interrupted = self.host.is_interrupted();
                return Ok(if is_interrupted { SearchStop::Interrupted } else { SearchStop::Points });
            };
            let Some(index) = self.try_point(point)? else { return Ok(SearchStop::Interrupted) };
            sampler.told(&self.trials[index])?;
            count += 1;
        }
    }

    /// Tries a point, unless its result is known. Returns the index of its trial, or `None` if it was
    /// interrupted.
    fn try_point(&mut self, point: SearchPoint) -> Result<Option<usize>> {
        let source = self.space.source(&point)?;
        let key = self.key(&source);
        if let Some(index) = self.by_key.get(&key).copied() {
            return Ok(Some(index));
        }
        let begun = Instant::now();
        let (mut trial, mut code, mut is_new) = match self.known.remove(&key) {
            Some(trial) => {
                // Axes may have been renamed since.
                let values = self.space.values(&point);
                let command = self.host.command(&values);
                let is_here = |number: &u64| self.trials.iter().any(|it| it.trial == *number);
                let same_code_as = trial.same_code_as.filter(is_here);
                (Trial { is_best: false, point: values, command, same_code_as, ..trial }, None, false)
            }
            None => {
                let Some((trial, code)) = self.measure(&source, &point, key)? else { return Ok(None) };
                (trial, code, true)
            }
        };
        let seems_best = trial.outcome.is_right()
            && trial.same_code_as.is_none()
            && self.best.is_none_or(|best| ratio(&trial) < ratio(&self.trials[best]));
        if seems_best {
            is_new |= self.promote(&mut trial, &source, &mut code)?;
        }
        if is_new {
            let elapsed_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            // A comparison that an earlier search did not get to continues the trial.
            trial.elapsed_ns = trial.elapsed_ns.saturating_add(elapsed_ns);
        }
        self.host.finished(&trial, is_new)?;
        let index = self.trials.len();
        if trial.is_best {
            (self.best, self.best_code) = (Some(index), code);
        }
        self.by_key.insert(trial.key.clone(), index);
        self.trials.push(trial);
        self.points.push(point);
        Ok(Some(index))
    }

    /// Builds a point and compares it with the captured kernel.
    fn measure(
        &mut self,
        source: &PointSource,
        point: &SearchPoint,
        key: String,
    ) -> Result<Option<(Trial, Option<H::Code>)>> {
        let values = self.space.values(point);
        let number = self.next_number;
        let (code, digest, measured) = match self.host.build(source)? {
            BuiltPoint::Failed(error) => (None, None, Measured::without_time(TrialOutcome::Failed, error)),
            BuiltPoint::Code(code) => {
                let digest = blake3::hash(H::bytes(&code)).to_hex().to_string();
                if let Some(first) = self.same_code(&digest, &H::workgroups(&code)) {
                    let same = Trial {
                        trial: number,
                        key,
                        command: self.host.command(&values),
                        point: values,
                        flags: source.flags.clone(),
                        same_code_as: Some(first.trial),
                        against_best: None,
                        is_best: false,
                        elapsed_ns: 0,
                        ..first.clone()
                    };
                    self.next_number += 1;
                    return Ok(Some((same, Some(code))));
                }
                let best = self.best.map_or(1.0, |best| ratio(&self.trials[best]));
                let effort =
                    SearchEffort::Trial { give_up_above: best.min(1.0) * (1.0 + self.options.margin) };
                let Some(measured) = self.host.compare(&code, None, effort)? else { return Ok(None) };
                (Some(code), Some(digest), measured)
            }
        };
        self.next_number += 1;
        let trial = Trial {
            trial: number,
            key,
            command: self.host.command(&values),
            point: values,
            flags: source.flags.clone(),
            candidate_digest: digest,
            workgroups: code.as_ref().and_then(H::workgroups),
            same_code_as: None,
            outcome: measured.outcome,
            error: measured.error,
            ratio: measured.ratio,
            ratio_interval: measured.ratio_interval,
            captured_ns: measured.other_ns,
            candidate_ns: measured.candidate_ns,
            against_best: None,
            is_best: false,
            timings: measured.timings,
            rounding: measured.rounding,
            elapsed_ns: 0,
        };
        Ok(Some((trial, code)))
    }

    /// The first trial of this code, if it tells what becomes of the code.
    fn same_code(&self, digest: &str, workgroups: &Option<String>) -> Option<&Trial> {
        let is_same = |trial: &&Trial| {
            trial.candidate_digest.as_deref() == Some(digest)
                && trial.workgroups == *workgroups
                && trial.same_code_as.is_none()
                && trial.outcome != TrialOutcome::Failed
        };
        self.trials.iter().find(is_same)
    }

    /// The axes that change nothing, by index: whatever the others are, all of their values compile to the
    /// same code.
    fn unchanging_axes(&self) -> Vec<usize> {
        let is_unchanging = |axis: &usize| {
            let mut groups: HashMap<SearchPoint, (HashSet<usize>, &Trial)> = HashMap::new();
            for (point, trial) in self.points.iter().zip(&self.trials) {
                let (value, others) = point.without(*axis);
                let (values, first) = groups.entry(others).or_insert_with(|| (HashSet::new(), trial));
                let is_same = first.candidate_digest.is_some()
                    && (&first.candidate_digest, &first.workgroups)
                        == (&trial.candidate_digest, &trial.workgroups);
                if !is_same {
                    return false;
                }
                values.insert(value);
            }
            let count = self.space.axes()[*axis].values().len();
            count > 1 && !groups.is_empty() && groups.values().all(|(values, _)| values.len() == count)
        };
        (0..self.space.axes().len()).filter(is_unchanging).collect()
    }

    /// Leaves out of the flags of the best those of axes that change nothing, if it is the same without.
    fn leave_out_flags(&mut self) -> Result<()> {
        let axes = self.unchanging_axes();
        let Some(best) = self.best.filter(|_| !axes.is_empty()) else { return Ok(()) };
        let source = self.space.source_without(&self.points[best], &axes)?;
        if source.flags == self.trials[best].flags {
            return Ok(());
        }
        if let Some(code) = self.built(&source)? {
            let digest = blake3::hash(H::bytes(&code)).to_hex().to_string();
            let trial = &self.trials[best];
            let is_same = trial.candidate_digest.as_ref() == Some(&digest);
            self.best_flags = (is_same && trial.workgroups == H::workgroups(&code)).then_some(source.flags);
        }
        Ok(())
    }

    /// Compares a trial that seems better with the best one, which it replaces if it is proved to be faster.
    /// Returns whether they were compared now.
    fn promote(
        &mut self,
        trial: &mut Trial,
        source: &PointSource,
        code: &mut Option<H::Code>,
    ) -> Result<bool> {
        let Some(best) = self.best else {
            trial.is_best = true;
            return Ok(false);
        };
        let is_known = trial.against_best.as_ref().is_some_and(|it| it.key == self.trials[best].key);
        if !is_known {
            let built = match code.take() {
                Some(code) => Some(code),
                None => self.built(source)?,
            };
            let (Some(one), Some(other)) = (built, self.built_best()?) else { return Ok(false) };
            let effort = SearchEffort::Trial { give_up_above: 1.0 + self.options.margin };
            let measured = self.host.compare(&one, Some(&other), effort)?;
            (*code, self.best_code) = (Some(one), Some(other));
            // Without an answer, it is compared when the search is resumed.
            let Some(measured) = measured else { return Ok(false) };
            trial.against_best = Some(TrialPair::new(&self.trials[best], &measured));
        }
        trial.is_best = trial.against_best.as_ref().is_some_and(|it| it.outcome == TrialOutcome::Faster);
        Ok(!is_known)
    }

    fn built(&mut self, source: &PointSource) -> Result<Option<H::Code>> {
        Ok(match self.host.build(source)? {
            BuiltPoint::Code(code) => Some(code),
            BuiltPoint::Failed(_) => None,
        })
    }

    fn built_trial(&mut self, index: usize) -> Result<Option<H::Code>> {
        let source = self.space.source(&self.points[index])?;
        self.built(&source)
    }

    fn built_best(&mut self) -> Result<Option<H::Code>> {
        match (self.best_code.take(), self.best) {
            (Some(code), _) => Ok(Some(code)),
            (None, Some(best)) => self.built_trial(best),
            (None, None) => Ok(None),
        }
    }

    fn key(&self, source: &PointSource) -> String {
        let mut hasher = blake3::Hasher::new();
        for input in &self.options.inputs {
            hasher.update(&(input.len() as u64).to_le_bytes()).update(input.as_bytes());
        }
        hasher.update(self.space.digest(source).as_bytes());
        hasher.finalize().to_hex().to_string()
    }

    /// Compares the best with the captured kernel once more, and with the second. A best one that turns out
    /// to be wrong gives way to the next, and one that is proved to be slower than the second to that one.
    pub fn finish(&mut self) -> Result<()> {
        let mut is_swapped = false;
        if self.host.is_interrupted()
            && let (Some(best), Some(first)) = (self.best, self.ranked().first().copied())
            && is_far_faster(&self.trials[first], &self.trials[best])
        {
            // Their comparison was interrupted.
            self.best = Some(first);
        }
        while let Some(best) = self.best.filter(|_| !self.host.is_interrupted()) {
            let Some(code) = self.built_best()? else { break };
            let Some(measured) = self.host.compare(&code, None, SearchEffort::Result)? else { break };
            if !measured.outcome.is_right() {
                let trial = &mut self.trials[best];
                (trial.outcome, trial.error, trial.is_best) = (measured.outcome, measured.error, false);
                (trial.ratio, trial.ratio_interval, trial.timings) = (None, None, None);
                (trial.captured_ns, trial.candidate_ns, trial.against_best) = (None, None, None);
                self.host.finished(trial, true)?;
                let wrong = trial.clone();
                for same in self.trials.iter_mut().filter(|it| it.same_code_as == Some(wrong.trial)) {
                    (same.outcome, same.error) = (wrong.outcome, wrong.error.clone());
                    (same.ratio, same.ratio_interval, same.timings) = (None, None, None);
                    (same.captured_ns, same.candidate_ns) = (None, None);
                }
                self.best = self.ranked().first().copied();
                continue;
            }
            self.against_captured = Some(measured);
            let Some(second) = self.second() else { break };
            let Some(other) = self.built_trial(second)? else { break };
            let measured = self.host.compare(&code, Some(&other), SearchEffort::Result)?;
            let is_slower = measured.as_ref().is_some_and(|it| it.outcome == TrialOutcome::Slower);
            if is_slower && !is_swapped {
                (self.best, self.best_code, is_swapped) = (Some(second), Some(other), true);
                self.against_captured = None;
                continue;
            }
            self.against_second = measured;
            break;
        }
        match self.host.is_interrupted() {
            true => Ok(()),
            false => self.leave_out_flags(),
        }
    }

    /// The result so far, also if the search has not finished, and the program that ran it.
    pub fn into_result(self) -> (SearchResult, H) {
        let second = self.second();
        let axes = self.space.axes();
        let unchanging_axes =
            self.unchanging_axes().into_iter().map(|it| axes[it].name().to_owned()).collect();
        let of_best = || self.best.map(|it| self.trials[it].flags.clone()).unwrap_or_default();
        let best_flags = self.best_flags.clone().unwrap_or_else(of_best);
        let result = SearchResult {
            unchanging_axes,
            best_flags,
            trials: self.trials,
            best: self.best,
            second,
            against_captured: self.against_captured,
            against_second: self.against_second,
        };
        (result, self.host)
    }

    /// The trials that are right, those of the lowest ratio first. Of each code, the first.
    fn ranked(&self) -> Vec<usize> {
        let counts =
            |it: &usize| self.trials[*it].outcome.is_right() && self.trials[*it].same_code_as.is_none();
        let mut right: Vec<_> = (0..self.trials.len()).filter(counts).collect();
        right.sort_by(|one, other| ratio(&self.trials[*one]).total_cmp(&ratio(&self.trials[*other])));
        right
    }

    fn second(&self) -> Option<usize> {
        self.ranked().into_iter().find(|it| Some(*it) != self.best)
    }
}

impl SearchResult {
    /// The file of the best: see [`SearchSpace::file`].
    pub fn best_file(&self, space: &SearchSpace) -> Result<Option<Vec<u8>>> {
        let Some(best) = self.best else { return Ok(None) };
        let point = space.parse_point(&self.trials[best].point)?;
        space.file(&space.source(&point)?).map(Some)
    }
}

/// Whether the intervals of two trials are apart.
fn is_far_faster(one: &Trial, other: &Trial) -> bool {
    match (one.ratio_interval, other.ratio_interval) {
        (Some([_, high]), Some([low, _])) => high < low,
        _ => false,
    }
}

/// By which trials are ranked.
fn ratio(trial: &Trial) -> f64 {
    trial.ratio.unwrap_or(f64::INFINITY)
}
