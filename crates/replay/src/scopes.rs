//! Where a plan enters and leaves its scopes.

use rehal_base::{Error, Result};
use rehal_hal::HostOp;

use crate::Plan;
use crate::plan::{RecordLocation, StepOp};

/// One entry of a scope, by the steps that begin and end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub begin: u32,
    pub end: u32,
}

/// The entries of the scopes of a name, in order; nested ones are part of the outermost. Fails if a scope
/// does not end, or ends before it begins.
pub(crate) fn entries(plan: &Plan, name: &[u8]) -> Result<Vec<Entry>> {
    let (mut entries, mut depth, mut begin) = (Vec::new(), 0u64, 0);
    for (number, step) in (0u32..).zip(&plan.steps) {
        let StepOp::Host(index) = step.op else { continue };
        match &plan.host_ops[index as usize] {
            HostOp::ScopeBegin { name: of } if of.of(plan.bytes()) == name => {
                depth += 1;
                if depth == 1 {
                    begin = number;
                }
            }
            HostOp::ScopeEnd { name: of } if of.of(plan.bytes()) == name => {
                depth = depth.checked_sub(1).ok_or_else(|| {
                    misplaced(name, "ends before it begins").context(step.location.to_string())
                })?;
                if depth == 0 {
                    entries.push(Entry { begin, end: number });
                }
            }
            _ => {}
        }
    }
    match depth {
        0 => Ok(entries),
        _ => {
            let location: RecordLocation = plan.steps[begin as usize].location;
            Err(misplaced(name, "does not end").context(location.to_string()))
        }
    }
}

fn misplaced(name: &[u8], how: &str) -> Error {
    Error::failed_precondition(format!("scope '{}' {how}", name.escape_ascii()))
}
