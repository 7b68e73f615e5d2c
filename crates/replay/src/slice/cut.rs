//! What a slice contains: operations of a plan, found without running it.

use std::collections::HashMap;
use std::ops::ControlFlow;

use rehal_base::{Error, Result, glob};
use rehal_hal::HostOp;

use super::Cut;
use crate::plan::{RecordLocation, StepOp};
use crate::walk::{DispatchSite, Event};
use crate::{Plan, Replay, scopes};

/// An operation of a slice.
#[derive(Clone, Copy)]
pub(super) enum Item {
    /// A submission, by index, with its record.
    Submission(u32, RecordLocation),
    /// One command of a submission.
    Command { submission: u32, location: RecordLocation, command: u32 },
    /// Bytes that the host writes, by the index of the host operation, with its record.
    HostWrite(u32, RecordLocation),
}

/// The operations of a slice, in the order of a run.
pub(super) struct Found {
    pub items: Vec<Item>,
    /// The function or scope.
    pub name: String,
    /// The record of the dispatch, or of the scope's begin.
    pub location: RecordLocation,
    pub occurrence: u64,
    /// The record of the first submission.
    pub submission: RecordLocation,
    /// The record that ends the scope; `None` for a dispatch.
    pub end: Option<RecordLocation>,
}

impl Replay {
    /// Finds the operations of a cut. Fails if there are none.
    pub(super) fn find(&self, cut: &Cut) -> Result<Found> {
        match cut {
            Cut::Dispatch { record, occurrence } => self.find_record(*record, *occurrence),
            Cut::Function { pattern, occurrence } => self.find_function(pattern, *occurrence),
            Cut::Scope { name, occurrence } => find_scope(self.plan(), name, *occurrence),
        }
    }

    /// Finds dispatches, by record and occurrence, in a single search.
    pub(super) fn find_dispatches(&self, sites: &[(u32, u64)]) -> Result<Vec<Found>> {
        let names = self.function_names()?;
        let mut wanted: HashMap<(u32, u64), usize> = sites.iter().copied().zip(0..).collect();
        let mut founds: Vec<Option<Found>> = sites.iter().map(|_| None).collect();
        let _ = self.plan().each_dispatch(|site| {
            if let Some(index) = wanted.remove(&(site.location.ordinal, site.occurrence)) {
                let name = &names[site.dispatch.executable as usize][site.dispatch.function as usize];
                founds[index] = Some(Found { name: name.clone(), ..found_site(site) });
            }
            match wanted.is_empty() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        let missing = |(record, occurrence): &(u32, u64)| {
            Error::not_found(format!("record #{record} has no dispatch of occurrence {occurrence}"))
        };
        founds.into_iter().zip(sites).map(|(found, site)| found.ok_or_else(|| missing(site))).collect()
    }

    fn find_record(&self, record: u32, occurrence: u64) -> Result<Found> {
        let (mut found, mut count) = (None, 0);
        let _ = self.plan().each_dispatch(|site| {
            if site.location.ordinal == record {
                if site.occurrence == occurrence {
                    found = Some(found_site(site));
                }
                count += 1;
            }
            ControlFlow::Continue(())
        });
        let Some(found) = found else {
            let steps = &self.plan().steps;
            let step = steps.iter().find(|step| step.location.ordinal == record);
            return Err(match (count, step.map(|step| step.op)) {
                (1.., _) => Error::out_of_range(format!(
                    "record #{record} is performed {count} time(s), so it has no occurrence {occurrence}"
                )),
                (0, Some(StepOp::Command(_))) => {
                    Error::failed_precondition(format!("record #{record} is not a dispatch that is executed"))
                }
                _ => Error::not_found(format!("record #{record} is not a dispatch")),
            }
            .advise("`rehal kernels` lists the dispatches, with a record of each"));
        };
        self.named(found, record)
    }

    fn find_function(&self, pattern: &str, occurrence: u64) -> Result<Found> {
        let names = self.function_names()?;
        let (mut found, mut count) = (None, 0);
        let _ = self.plan().each_dispatch(|site| {
            let name = &names[site.dispatch.executable as usize][site.dispatch.function as usize];
            if glob::matches(pattern, name) {
                if count == occurrence {
                    found = Some(Found { name: name.clone(), ..found_site(site) });
                }
                count += 1;
            }
            ControlFlow::Continue(())
        });
        found.ok_or_else(|| {
            match count {
                0 => Error::not_found(format!("no dispatch of a function that matches '{pattern}'")),
                _ => Error::out_of_range(format!(
                    "functions that match '{pattern}' are dispatched {count} time(s), so there is no occurrence {occurrence}"
                )),
            }
            .advise("`rehal kernels` lists the dispatches, with the name of the function")
        })
    }

    fn named(&self, found: Found, record: u32) -> Result<Found> {
        let names = self.function_names()?;
        let mut name = String::new();
        let _ = self.plan().each_dispatch(|site| {
            if site.location.ordinal == record {
                name.clone_from(&names[site.dispatch.executable as usize][site.dispatch.function as usize]);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        Ok(Found { name, ..found })
    }
}

fn found_site(site: &DispatchSite<'_>) -> Found {
    let DispatchSite { submission, submission_location: location, .. } = *site;
    let item = match site.command {
        None => Item::Submission(submission, location),
        Some(command) => Item::Command { submission, location, command },
    };
    Found {
        items: vec![item],
        name: String::new(),
        location: site.location,
        occurrence: site.occurrence,
        submission: location,
        end: None,
    }
}

fn find_scope(plan: &Plan, name: &[u8], occurrence: u64) -> Result<Found> {
    let entries = scopes::entries(plan, name)
        .map_err(|error| error.advise("cut out a dispatch instead; `rehal kernels` lists the dispatches"))?;
    let shown = name.escape_ascii();
    let entry = usize::try_from(occurrence).ok().and_then(|at| entries.get(at)).ok_or_else(|| {
        match entries.len() {
            0 => Error::not_found(format!("the capture has no scope '{shown}'")),
            count => Error::out_of_range(format!(
                "scope '{shown}' is entered {count} time(s), so it has no occurrence {occurrence}"
            )),
        }
        .advise("`rehal info` lists the scopes")
    })?;
    let (mut items, mut is_open) = (Vec::new(), false);
    let _ = plan.each_event(|event| {
        match event {
            Event::Host(step, _) if step == entry.begin => is_open = true,
            Event::Host(step, _) if step == entry.end => return ControlFlow::Break(()),
            Event::Host(step, op) if is_open && is_write(&plan.host_ops[op as usize]) => {
                items.push(Item::HostWrite(op, plan.steps[step as usize].location));
            }
            Event::Submission(index, location) if is_open => items.push(Item::Submission(index, location)),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    let submission = items.iter().find_map(|item| match item {
        Item::Submission(_, location) => Some(*location),
        _ => None,
    });
    let submission = submission.ok_or_else(|| {
        Error::failed_precondition(format!("scope '{shown}' issues no work"))
            .advise("`rehal info` lists the scopes")
    })?;
    Ok(Found {
        items,
        name: String::from_utf8_lossy(name).into_owned(),
        location: plan.steps[entry.begin as usize].location,
        occurrence,
        submission,
        end: Some(plan.steps[entry.end as usize].location),
    })
}

fn is_write(op: &HostOp<rehal_hal::Indexed>) -> bool {
    matches!(op, HostOp::Unmap(_, Some(data)) | HostOp::Flush(_, Some(data)) if data.count != 0)
}
