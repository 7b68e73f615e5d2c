//! Verdicts that times prove.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use rehal::judge::{TimingVerdict, check_times, judge_processes};

use crate::error::{guard, rehal_error_t};
use crate::structs::{fill, list, sized_struct};

pub type rehal_verdict_t = u32;
pub const REHAL_VERDICT_FASTER: rehal_verdict_t = 0;
pub const REHAL_VERDICT_NOT_SLOWER: rehal_verdict_t = 1;
pub const REHAL_VERDICT_SLOWER: rehal_verdict_t = 2;
pub const REHAL_VERDICT_CANNOT_TELL: rehal_verdict_t = 3;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_judgment_t {
    pub size: usize,
    pub ratio: f64,
    pub has_interval: bool,
    pub interval_low: f64,
    pub interval_high: f64,
    pub verdict: rehal_verdict_t,
}

sized_struct!(rehal_judgment_t);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_judge_processes(
    before: *const f64,
    before_count: usize,
    after: *const f64,
    after_count: usize,
    margin: f64,
    comparisons: usize,
    judgment: *mut rehal_judgment_t,
) -> *mut rehal_error_t {
    // SAFETY: what the caller gives is valid, as the header says.
    guard(|| unsafe {
        let (before, after) = (list(before, before_count, "before")?, list(after, after_count, "after")?);
        check_times(before, after, margin)?;
        let found = judge_processes(before, after, margin, comparisons);
        let filled = rehal_judgment_t {
            size: 0,
            ratio: found.ratio,
            has_interval: found.interval.is_some(),
            interval_low: found.interval.map_or(0.0, |it| it.low),
            interval_high: found.interval.map_or(0.0, |it| it.high),
            verdict: match found.verdict {
                TimingVerdict::Faster => REHAL_VERDICT_FASTER,
                TimingVerdict::NotSlower => REHAL_VERDICT_NOT_SLOWER,
                TimingVerdict::Slower => REHAL_VERDICT_SLOWER,
                TimingVerdict::CannotTell => REHAL_VERDICT_CANNOT_TELL,
            },
        };
        fill(judgment, &filled)
    })
}
