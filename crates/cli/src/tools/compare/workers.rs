//! Comparisons in workers, so that a kernel that crashes ends only its own comparison, and their reports.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::Duration;

use rehal::work::{CompareEnd, CompareWork, IsolatedComparison, compare_isolated};
use rehal_base::Result;
use rehal_jobs::{Confinement, JobProgress, Printed};

use super::candidates::Candidate;
use super::engine::in_own_words;
use super::print;
use super::report::{CandidateReport, Outcome};
use crate::output;
use crate::tools::verify;

/// Compares a replacement in a process, which is ended after some time, or when `watch` says so. What its
/// kernel prints appears on standard error.
pub(in crate::tools) fn compare_candidate(
    work: &CompareWork,
    candidate: &Candidate,
    limit: Duration,
    confinement: &Confinement,
    watch: &mut dyn FnMut(JobProgress) -> ControlFlow<()>,
) -> Result<CandidateReport> {
    let mut notice = Notice { name: print::name(candidate), limit, is_said: false };
    let watch = &mut |progress| {
        notice.watch(progress);
        watch(progress)
    };
    let (first, again) = compare_isolated(work, limit, confinement, watch)?;
    let report = told(work, candidate, first)?;
    let Some(again) = again else { return Ok(report) };
    let again = told(work, candidate, again)?;
    if matches!(again.outcome, Outcome::Right | Outcome::Wrong) {
        output::note(&format!(
            "{}\nnote: {}: with other inputs, the replacement or the captured kernel crashed, so that only the captured ones were used",
            report.text.trim_end(),
            print::name(candidate)
        ));
    }
    Ok(again)
}

fn told(work: &CompareWork, candidate: &Candidate, compared: IsolatedComparison) -> Result<CandidateReport> {
    let IsolatedComparison { end, stdout, stderr } = compared;
    let printed = text_of(&stderr);
    if stdout.dropped > 0 {
        output::note(&dropped(stdout.dropped, "standard output"));
    }
    // Standard output has reports only, and the process that runs kernels writes none of them.
    eprint(&String::from_utf8_lossy(&stdout.bytes));
    // The reports of others have it.
    if let CompareEnd::Compared(_) | CompareEnd::Failed(_) | CompareEnd::TimedOut { .. } = end {
        eprint(&printed);
    }
    Ok(match end {
        CompareEnd::Compared(comparison) => {
            verify::note_unused_tolerances(&comparison.verification);
            let base = if work.baseline.is_some() { "baseline" } else { "captured" };
            let text = print::screen(&work.function, candidate, &comparison, &work.options, base);
            CandidateReport::compared(candidate, comparison, text)
        }
        CompareEnd::Failed(error) => CandidateReport::failed(candidate, &in_own_words(error)),
        CompareEnd::TimedOut { limit, is_timing } => CandidateReport::timed_out(candidate, limit, is_timing),
        CompareEnd::Crashed(how) => CandidateReport::crashed(candidate, &how, printed),
        CompareEnd::Ended(how) => CandidateReport::ended(candidate, &how, &printed),
    })
}

/// Says that the checks of a replacement take long, once.
struct Notice {
    name: String,
    limit: Duration,
    is_said: bool,
}

impl Notice {
    fn watch(&mut self, progress: JobProgress) {
        // A line of progress says so there.
        self.is_said |= std::io::stderr().is_terminal();
        const DELAY: Duration = Duration::from_secs(5);
        if progress.elapsed >= DELAY && !progress.is_past_milestone && !self.is_said {
            self.is_said = true;
            let (name, limit) = (&self.name, self.limit.as_secs_f64());
            output::note(&format!("{name} is still being checked, and is ended after {limit:.0} s"));
        }
    }
}

/// Messages, after what says that those before were dropped.
fn text_of(messages: &Printed) -> String {
    let text = String::from_utf8_lossy(&messages.bytes);
    match messages.dropped {
        0 => text.into_owned(),
        count => format!("{}\n{text}", dropped(count, "standard error")),
    }
}

fn dropped(count: u64, stream: &str) -> String {
    format!("note: the first {count} bytes that the process printed on {stream} are not kept")
}

fn eprint(text: &str) {
    if !text.is_empty() {
        output::note(text.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_messages_may_be_dropped() {
        let messages = |dropped| text_of(&Printed { bytes: b"end\n".to_vec(), dropped });
        assert_eq!(messages(0), "end\n");
        assert_eq!(messages(7), dropped(7, "standard error") + "\nend\n");
    }
}
