//! The comparison of a kernel with a replacement, as JSON.

use serde::Serialize;

use crate::{Comparison, Timing, Verification};

/// How a replacement compares; see the guide of `rehal compare`. All is `None` if it was not compared.
#[derive(Default, Serialize)]
pub struct ComparisonReport<'a> {
    verification: Option<&'a Verification>,
    memory: Option<&'a Verification>,
    workgroups: Option<&'a Verification>,
    after_timing: Option<&'a Verification>,
    is_same_code: Option<bool>,
    changes_inputs: Option<bool>,
    not_reproduced: Option<&'a str>,
    timings: Option<&'a [Timing]>,
}

impl<'a> ComparisonReport<'a> {
    /// Name and version of its JSON.
    pub const SCHEMA: &'static str = "rehal.compare/1";

    /// The report of a comparison.
    pub fn from_comparison(it: &'a Comparison) -> Self {
        Self {
            verification: Some(&it.verification),
            memory: it.memory.as_ref(),
            workgroups: it.workgroups.as_ref(),
            after_timing: it.after_timing.as_ref(),
            is_same_code: Some(it.is_same_code),
            changes_inputs: Some(it.changes_inputs),
            not_reproduced: it.not_reproduced.as_deref(),
            timings: Some(&it.timings),
        }
    }
}
