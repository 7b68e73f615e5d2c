//! The contents of a slice: operations of a plan, found without running it.

use std::collections::HashMap;
use std::ops::ControlFlow;

use rehal_base::{Error, Remedy, Result, glob};
use rehal_hal::{Command, Dispatch, HostOp, Indexed, QueueOp};

use super::Cut;
use crate::plan::{ObjectKind, RecordLocation, Step, StepOp};
use crate::walk::{DispatchCommand, DispatchSite, Event, Execution};
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
pub(super) struct SlicePlan {
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
    pub(super) fn find(&self, cut: &Cut) -> Result<SlicePlan> {
        match cut {
            Cut::Dispatch { record, occurrence } => self.find_record(*record, *occurrence),
            Cut::Function { pattern, occurrence } => self.find_function(pattern, *occurrence),
            Cut::Scope { name, occurrence } => find_scope(self.plan(), name, *occurrence),
        }
    }

    /// Finds dispatches, by record and occurrence, in a single search.
    pub(super) fn find_dispatches(&self, sites: &[(u32, u64)]) -> Result<Vec<SlicePlan>> {
        let names = self.function_names()?;
        let missing = |(record, occurrence): &(u32, u64)| {
            Error::not_found(format!("record #{record} has no dispatch of occurrence {occurrence}"))
        };
        let found = performed(self.plan(), sites);
        let found = found.iter().zip(sites);
        found.map(|(found, site)| Ok(named(&names, found.as_ref().ok_or_else(|| missing(site))?))).collect()
    }

    fn find_record(&self, record: u32, occurrence: u64) -> Result<SlicePlan> {
        let plan = self.plan();
        if let [Some(site)] = &performed(plan, &[(record, occurrence)])[..] {
            return Ok(named(&self.function_names()?, site));
        }
        let step = step_of(plan, record).map(|step| step.op);
        Err(match (execution_count(plan, step), step) {
            (count @ 1.., _) => Error::out_of_range(format!(
                "record #{record} is performed {count} time(s), so it has no occurrence {occurrence}"
            )),
            (0, Some(StepOp::Command(_))) => {
                Error::failed_precondition(format!("record #{record} is not a dispatch that is executed"))
            }
            _ => Error::not_found(format!("record #{record} is not a dispatch")),
        }
        .advise(Remedy::ListDispatches))
    }

    fn find_function(&self, pattern: &str, occurrence: u64) -> Result<SlicePlan> {
        let (plan, names) = (self.plan(), self.function_names()?);
        let is_match = |name: &String| glob::matches(pattern, name);
        let matches: Vec<Vec<bool>> = names.iter().map(|it| it.iter().map(is_match).collect()).collect();
        let is_match = |it: &Dispatch<Indexed>| matches[it.executable as usize][it.function as usize];
        let mut dispatches = plan.dispatches_by_buffer();
        dispatches.iter_mut().for_each(|sites| sites.retain(|site| is_match(site.dispatch)));
        let (mut found, mut count) = (None, 0);
        let mut executions = vec![0u64; dispatches.len()];
        let _ = plan.each_event(|event| {
            let Event::Submission(index, location) = event else { return ControlFlow::Continue(()) };
            match &plan.submissions[index as usize].op {
                QueueOp::Dispatch(dispatch) if is_match(dispatch) => {
                    if count == occurrence {
                        found = Some(DispatchSite::submitted(index, location, dispatch));
                    }
                    count += 1;
                }
                QueueOp::Execute { command_buffer, bindings, .. } => {
                    let buffer = *command_buffer as usize;
                    let matching = &dispatches[buffer];
                    if let Some(it) = usize::try_from(occurrence - count).ok().and_then(|at| matching.get(at))
                    {
                        let table = bindings.of(&plan.lists.buffer_refs);
                        let occurrence = executions[buffer];
                        let execution = Execution { submission: index, location, occurrence, table };
                        found = Some(execution.site(it));
                    }
                    executions[buffer] += 1;
                    count += matching.len() as u64;
                }
                _ => {}
            }
            match found {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        });
        let found = found.ok_or_else(|| {
            match count {
                0 => Error::not_found(format!("no dispatch of a function that matches '{pattern}'")),
                _ => Error::out_of_range(format!(
                    "functions that match '{pattern}' are dispatched {count} time(s), so there is no occurrence {occurrence}"
                )),
            }
            .advise(Remedy::ListDispatches)
        })?;
        Ok(named(&names, &found))
    }
}

/// The step of a record.
fn step_of(plan: &Plan, record: u32) -> Option<&Step> {
    let index = plan.steps.binary_search_by_key(&record, |step| step.location.ordinal).ok()?;
    Some(&plan.steps[index])
}

/// The performer of a dispatch.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Holder {
    /// The submission with this index.
    Submission(u32),
    /// An execution of the command buffer with this index.
    CommandBuffer(u32),
}

/// The performer of the dispatch of a step; `None` if it has none.
fn holder_of(plan: &Plan, step: StepOp) -> Option<Holder> {
    match step {
        StepOp::Command(index) => match &plan.commands[index as usize] {
            (buffer, Command::Dispatch(_)) => Some(Holder::CommandBuffer(*buffer)),
            _ => None,
        },
        StepOp::Submission(index) | StepOp::Deferred(index) => {
            matches!(plan.submissions[index as usize].op, QueueOp::Dispatch(_))
                .then_some(Holder::Submission(index))
        }
        StepOp::Host(_) => None,
    }
}

/// How often a run performs the dispatch of a step.
fn execution_count(plan: &Plan, step: Option<StepOp>) -> u64 {
    let Some(holder) = step.and_then(|step| holder_of(plan, step)) else { return 0 };
    let mut count = 0;
    let _ = plan.each_event(|event| {
        if let Event::Submission(index, _) = event {
            count += u64::from(performer(plan, index) == holder);
        }
        ControlFlow::Continue(())
    });
    count
}

/// The holder as which a submission performs dispatches.
fn performer(plan: &Plan, index: u32) -> Holder {
    match &plan.submissions[index as usize].op {
        QueueOp::Execute { command_buffer, .. } => Holder::CommandBuffer(*command_buffer),
        _ => Holder::Submission(index),
    }
}

/// The dispatches with these records and occurrences; `None` for those that a run does not perform. One walk
/// of the submissions, however many commands they have.
fn performed<'p>(plan: &'p Plan, sites: &[(u32, u64)]) -> Vec<Option<DispatchSite<'p>>> {
    let mut founds: Vec<Option<DispatchSite<'p>>> = sites.iter().map(|_| None).collect();
    // By what performs them and how often it has before, with the step and the place in `founds`.
    let mut wanted: HashMap<(Holder, u64), Vec<(&Step, usize)>> = HashMap::new();
    for (place, (record, occurrence)) in sites.iter().enumerate() {
        let step = step_of(plan, *record);
        if let Some((step, holder)) = step.and_then(|step| Some((step, holder_of(plan, step.op)?))) {
            wanted.entry((holder, *occurrence)).or_default().push((step, place));
        }
    }
    let mut executions = vec![0u64; plan.counts[ObjectKind::CommandBuffer as usize] as usize];
    let _ = plan.each_event(|event| {
        let Event::Submission(index, location) = event else { return ControlFlow::Continue(()) };
        let holder = performer(plan, index);
        let mut occurrence = 0;
        if let Holder::CommandBuffer(buffer) = holder {
            occurrence = executions[buffer as usize];
            executions[buffer as usize] += 1;
        }
        for (step, place) in wanted.remove(&(holder, occurrence)).into_iter().flatten() {
            founds[place] = match (&plan.submissions[index as usize].op, step.op) {
                (QueueOp::Dispatch(dispatch), _) => Some(DispatchSite::submitted(index, location, dispatch)),
                (QueueOp::Execute { bindings, .. }, StepOp::Command(command)) => {
                    let Command::Dispatch(dispatch) = &plan.commands[command as usize].1 else { continue };
                    let table = bindings.of(&plan.lists.buffer_refs);
                    let execution = Execution { submission: index, location, occurrence, table };
                    Some(execution.site(&DispatchCommand { location: step.location, command, dispatch }))
                }
                _ => None,
            };
        }
        match wanted.is_empty() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    founds
}

/// A dispatch, with the name of its function.
fn named(names: &[Vec<String>], site: &DispatchSite<'_>) -> SlicePlan {
    let name = names[site.dispatch.executable as usize][site.dispatch.function as usize].clone();
    SlicePlan { name, ..found_site(site) }
}

fn found_site(site: &DispatchSite<'_>) -> SlicePlan {
    let DispatchSite { submission, submission_location: location, .. } = *site;
    let item = match site.command {
        None => Item::Submission(submission, location),
        Some(command) => Item::Command { submission, location, command },
    };
    SlicePlan {
        items: vec![item],
        name: String::new(),
        location: site.location,
        occurrence: site.occurrence,
        submission: location,
        end: None,
    }
}

fn find_scope(plan: &Plan, name: &[u8], occurrence: u64) -> Result<SlicePlan> {
    let entries = scopes::entries(plan, name).map_err(|error| error.advise("cut out a dispatch instead"))?;
    let shown = name.escape_ascii();
    let entry = usize::try_from(occurrence).ok().and_then(|at| entries.get(at)).ok_or_else(|| {
        match entries.len() {
            0 => Error::not_found(format!("the capture has no scope '{shown}'")),
            count => Error::out_of_range(format!(
                "scope '{shown}' is entered {count} time(s), so it has no occurrence {occurrence}"
            )),
        }
        .advise(Remedy::SurveyCapture)
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
        Error::failed_precondition(format!("scope '{shown}' issues no work")).advise(Remedy::SurveyCapture)
    })?;
    Ok(SlicePlan {
        items,
        name: String::from_utf8_lossy(name).into_owned(),
        location: plan.steps[entry.begin as usize].location,
        occurrence,
        submission,
        end: Some(plan.steps[entry.end as usize].location),
    })
}

fn is_write(op: &HostOp<Indexed>) -> bool {
    matches!(op, HostOp::Unmap(_, Some(data)) | HostOp::Flush(_, Some(data)) if data.count != 0)
}
