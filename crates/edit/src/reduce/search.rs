//! The search: which candidates are tried, and which is the best so far.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use rehal_base::{Context, Error, Result};
use rehal_replay::{CaptureBytes, Plan, PlanOptions};

use super::closure::{Choice, Closure, KeptRecords};
use super::emit::{Variant, size_of};
use super::program::Program;
use super::{ReduceHost, ReduceOptions, ReduceProgress, ReduceSize, ReduceStop, Reduction, SlicedDispatch};

/// Maximum number of dispatches of which slices are tried one by one.
const MAX_SLICES: u64 = 64;

/// Reduces a program, as far as checks of the search pass.
pub(super) type Passes = fn(&mut Search<'_>, &Program<'_>, &mut Best) -> Result<()>;

/// The state of a reduction.
pub(super) struct Search<'h> {
    pub options: ReduceOptions,
    passes: Passes,
    host: &'h dyn ReduceHost,
    directory: PathBuf,
    begun: Instant,
    check_count: u64,
    rejected_count: u64,
    file_count: u64,
    /// The known verdicts on the candidates of the current program, by digest.
    known: HashMap<[u8; 32], bool>,
    stop: Option<ReduceStop>,
    stage: &'static str,
    /// The size of the best candidate.
    size: ReduceSize,
    /// The length of the shortest ranges of bytes that have been tried.
    pub byte_range: usize,
    /// Whether all parts have been tried in runs, and are tried one by one.
    pub is_last_round: bool,
}

/// The best candidate of a program.
pub(super) struct Best {
    pub choice: Choice,
    pub kept: KeptRecords,
    digest: [u8; 32],
    file: PathBuf,
}

/// A candidate before its check.
struct Candidate {
    choice: Choice,
    kept: KeptRecords,
    digest: [u8; 32],
    file: PathBuf,
}

/// The verdict of a check on a candidate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It is invalid, and was not checked.
    Rejected,
    Fails,
    Passes,
}

impl<'h> Search<'h> {
    pub fn new(options: ReduceOptions, passes: Passes, host: &'h dyn ReduceHost, directory: &Path) -> Self {
        Self {
            options,
            passes,
            host,
            directory: directory.to_owned(),
            begun: Instant::now(),
            check_count: 0,
            rejected_count: 0,
            file_count: 0,
            known: HashMap::new(),
            stop: None,
            stage: "",
            size: ReduceSize::default(),
            byte_range: 1,
            is_last_round: false,
        }
    }

    pub fn run(mut self, capture: &CaptureBytes, output: &Path) -> Result<Reduction> {
        let path = capture.path().ok_or_else(|| Error::invalid_argument("the capture is not a file"))?;
        let recover = self.options.recover;
        Plan::compile(capture.clone(), PlanOptions { recover, ..PlanOptions::default() })?
            .check_not_empty()?;
        let before = self.measure(capture, recover)?;
        self.size = before;
        self.check_count += 1;
        if !self.host.is_interesting(path)? {
            return Err(Error::failed_precondition("the check fails for the capture itself"));
        }
        let mut best = path.to_owned();
        let mut is_slice = false;
        if let Some(suspect) = self.options.suspect {
            self.begin("slice");
            if let Some(slice) = self.slice(path, suspect)? {
                (best, is_slice) = (slice, true);
            }
        }
        loop {
            best = self.reduce_file(&best, recover && !is_slice, !is_slice)?;
            match self.slice_one(&best)? {
                Some(slice) => (best, is_slice) = (slice, true),
                None => break,
            }
        }
        self.is_last_round = false;
        self.begin("last check");
        if !self.is_over() {
            self.check_count += 1;
            if !self.host.is_interesting(&best)? && !self.is_over() {
                self.stop = Some(ReduceStop::Unstable);
            }
        }
        self.report(true);
        fs::copy(&best, output).map_err(|error| Error::io("copying the result", &error))?;
        self.remove(path, &best);
        Ok(Reduction {
            before,
            after: self.size,
            check_count: self.check_count,
            rejected_count: self.rejected_count,
            is_slice,
            stop: self.stop,
            byte_range: self.byte_range,
        })
    }

    /// Reduces a capture that passes; returns the file of the result.
    fn reduce_file(&mut self, base: &Path, recover: bool, is_first: bool) -> Result<PathBuf> {
        let bytes = CaptureBytes::map(base)?;
        let program = Program::from_capture(&bytes, recover)?;
        self.known.clear();
        self.is_last_round = false;
        self.begin("records");
        let whole = self.candidate(&program, Choice::all(&program))?;
        let verdicts = self.judge(&program, std::slice::from_ref(&whole))?;
        if verdicts != [Verdict::Passes] {
            if self.is_over() {
                return Ok(base.to_owned());
            }
            if is_first {
                return Err(Error::failed_precondition(
                    "the check fails for a capture with the same operations as the capture: for a copy with new checksums",
                ));
            }
            self.stop = Some(ReduceStop::Unstable);
            return Ok(base.to_owned());
        }
        let Candidate { choice, kept, digest, file } = whole;
        let mut best = Best { choice, kept, digest, file };
        self.accepted(&program, &best)?;
        (self.passes)(self, &program, &mut best)?;
        Ok(best.file)
    }

    /// Tests choices in order, several at a time; the first that passes becomes the best. Returns its index.
    pub fn first_passing(
        &mut self,
        program: &Program<'_>,
        best: &mut Best,
        choices: Vec<Choice>,
    ) -> Result<Option<usize>> {
        let mut candidates = Vec::new();
        let mut indices = Vec::new();
        for (index, choice) in choices.into_iter().enumerate() {
            let candidate = self.candidate(program, choice)?;
            let is_same = candidate.digest == best.digest;
            match self.known.get(&candidate.digest) {
                Some(false) => continue,
                _ => {
                    candidates.push(candidate);
                    indices.push(index);
                }
            }
            // It passes without a check.
            if is_same {
                break;
            }
        }
        let is_known = |it: &Candidate| it.digest == best.digest;
        let known = candidates.last().filter(|it| is_known(it)).is_some().then(|| candidates.len() - 1);
        let checked = &candidates[..known.unwrap_or(candidates.len())];
        let verdicts = self.judge(program, checked)?;
        // Beyond a limit on checks, candidates are not written.
        let passing = verdicts.iter().position(|it| *it == Verdict::Passes).or(known);
        let Some(at) = passing else { return Ok(None) };
        for (index, candidate) in candidates.into_iter().enumerate() {
            if index != at {
                let _ = fs::remove_file(&candidate.file);
            } else if candidate.digest == best.digest {
                best.choice = candidate.choice;
            } else {
                let Candidate { choice, kept, digest, file } = candidate;
                let previous = std::mem::replace(best, Best { choice, kept, digest, file });
                let _ = fs::remove_file(&previous.file);
                self.accepted(program, best)?;
            }
        }
        Ok(Some(indices[at]))
    }

    /// Whether to stop, and notes why.
    pub fn is_over(&mut self) -> bool {
        if self.stop.is_none() {
            let Self { options, check_count, .. } = self;
            let is_late = options.max_time.is_some_and(|limit| self.begun.elapsed() >= limit);
            self.stop = match () {
                () if self.host.is_interrupted() => Some(ReduceStop::Interrupted),
                () if options.max_checks.is_some_and(|limit| *check_count >= limit) => {
                    Some(ReduceStop::Checks)
                }
                () if is_late => Some(ReduceStop::Time),
                () => None,
            };
        }
        self.stop.is_some()
    }

    /// Begins a stage.
    pub fn begin(&mut self, stage: &'static str) {
        let stage = if self.is_last_round { "one by one" } else { stage };
        if self.stage != stage {
            self.report(true);
            self.stage = stage;
        }
    }

    fn report(&self, has_ended: bool) {
        if !self.stage.is_empty() {
            let (stage, check_count, size) = (self.stage, self.check_count, self.size);
            self.host.progress(&ReduceProgress { stage, has_ended, check_count, size });
        }
    }

    fn candidate(&mut self, program: &Program<'_>, choice: Choice) -> Result<Candidate> {
        let kept = Closure::of(program, &choice)?;
        let digest = Variant { program, choice: &choice, kept: &kept }.digest()?;
        Ok(Candidate { choice, kept, digest, file: self.next_file() })
    }

    /// Writes candidates and checks them, all at the same time. Those that fail have no file afterwards.
    fn judge(&mut self, program: &Program<'_>, candidates: &[Candidate]) -> Result<Vec<Verdict>> {
        // A limit on checks holds whatever the number of jobs.
        let left = self.options.max_checks.map_or(u64::MAX, |limit| limit.saturating_sub(self.check_count));
        let count = candidates.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let host = self.host;
        let judge = &|candidate: &Candidate| judge(program, candidate, host);
        let outcomes: Vec<Result<Verdict>> = match &candidates[..count] {
            [one] => vec![judge(one)],
            several => thread::scope(|scope| {
                let spawn = |it| (it, thread::Builder::new().spawn_scoped(scope, move || judge(it)));
                let threads: Vec<_> = several.iter().map(spawn).collect();
                let joined = threads.into_iter().map(|(it, thread)| match thread.map(|it| it.join()) {
                    Ok(Ok(outcome)) => outcome,
                    Ok(Err(panic)) => std::panic::resume_unwind(panic),
                    // The system gives no more threads.
                    Err(_) => judge(it),
                });
                joined.collect()
            }),
        };
        let mut verdicts = Vec::with_capacity(outcomes.len());
        for (candidate, outcome) in candidates.iter().zip(outcomes) {
            let verdict = outcome?;
            match verdict {
                Verdict::Rejected => self.rejected_count += 1,
                Verdict::Fails | Verdict::Passes => self.check_count += 1,
            }
            // A check that was interrupted says nothing.
            if verdict == Verdict::Passes || !host.is_interrupted() {
                self.known.insert(candidate.digest, verdict == Verdict::Passes);
            }
            if verdict != Verdict::Passes {
                let _ = fs::remove_file(&candidate.file);
            }
            verdicts.push(verdict);
        }
        self.report(false);
        Ok(verdicts)
    }

    fn accepted(&mut self, program: &Program<'_>, best: &Best) -> Result<()> {
        self.size = size_of(program, &best.choice, &best.kept)?;
        self.size.bytes = fs::metadata(&best.file).map_or(0, |it| it.len());
        self.report(false);
        Ok(())
    }

    fn measure(&self, capture: &CaptureBytes, recover: bool) -> Result<ReduceSize> {
        let program = Program::from_capture(capture, recover)?;
        let all = Choice::all(&program);
        let kept = Closure::of(&program, &all)?;
        let mut size = size_of(&program, &all, &kept)?;
        size.bytes = capture.as_slice().len() as u64;
        Ok(size)
    }

    /// A slice of a dispatch that passes, if there is one.
    fn slice(&mut self, path: &Path, dispatch: SlicedDispatch) -> Result<Option<PathBuf>> {
        let file = self.next_file();
        if self.is_over() || !self.host.slice(path, dispatch, &file)? || !is_valid(&file) {
            let _ = fs::remove_file(&file);
            return Ok(None);
        }
        self.check_count += 1;
        if self.host.is_interesting(&file)? {
            self.size = self.measure(&CaptureBytes::map(&file)?, false)?;
            self.report(false);
            return Ok(Some(file));
        }
        let _ = fs::remove_file(&file);
        Ok(None)
    }

    /// A slice of one of the dispatches of a capture that passes, if there are several and one does.
    fn slice_one(&mut self, path: &Path) -> Result<Option<PathBuf>> {
        let plan = Plan::compile(CaptureBytes::map(path)?, PlanOptions::default());
        // The capture itself may be truncated.
        let Ok(plan) = plan else { return Ok(None) };
        if !(2..=MAX_SLICES).contains(&plan.dispatch_count()) {
            return Ok(None);
        }
        let mut dispatches = Vec::new();
        plan.dispatches(|it| {
            let (record, occurrence) = (it.location.ordinal, it.occurrence);
            dispatches.push(SlicedDispatch { record, occurrence });
            Ok(())
        })?;
        drop(plan);
        self.is_last_round = false;
        self.begin("slices");
        for dispatch in dispatches.into_iter().rev() {
            if let Some(slice) = self.slice(path, dispatch)? {
                return Ok(Some(slice));
            }
        }
        Ok(None)
    }

    fn next_file(&mut self) -> PathBuf {
        self.file_count += 1;
        self.directory.join(format!("{}.ireereplay", self.file_count))
    }

    /// Removes the file of the result, unless it is the capture itself.
    fn remove(&self, capture: &Path, best: &Path) {
        if best != capture {
            let _ = fs::remove_file(best);
        }
    }
}

fn judge(program: &Program<'_>, candidate: &Candidate, host: &dyn ReduceHost) -> Result<Verdict> {
    let Candidate { choice, kept, file, .. } = candidate;
    let create = || File::create_new(file).map_err(|error| Error::io("creating a file", &error));
    create()
        .and_then(|sink| Variant { program, choice, kept }.write(sink))
        .context(|| format!("'{}'", file.display()))?;
    if !is_valid(file) {
        return Ok(Verdict::Rejected);
    }
    Ok(if host.is_interesting(file)? { Verdict::Passes } else { Verdict::Fails })
}

/// Whether a candidate can be planned.
fn is_valid(file: &Path) -> bool {
    let plan = CaptureBytes::map(file).and_then(|bytes| Plan::compile(bytes, PlanOptions::default()));
    plan.is_ok_and(|plan| plan.check_not_empty().is_ok())
}
