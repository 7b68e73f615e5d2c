//! The order in which parts are tried, from coarse to fine.

use std::collections::BTreeSet;
use std::ops::Range;

use rehal_base::Result;

use super::bytes::nonzero;
use super::closure::Choice;
use super::delta::{Trials, reduce as delta};
use super::emit::{SPARSE_GAP_BYTES, can_be_sparse, carried};
use super::program::{PartKind, Program};
use super::search::{Best, Search};

/// Parts of these kinds, and what the stage is called.
const STAGES: [(&str, &[PartKind]); 4] = [
    ("unused objects", &[PartKind::Note, PartKind::Object]),
    ("submissions", &[PartKind::Submission]),
    ("commands", &[PartKind::Command]),
    ("host calls", &[PartKind::Host, PartKind::Scope]),
];

/// Reduces a program until no part can be left out.
pub(super) fn reduce(search: &mut Search<'_>, program: &Program<'_>, best: &mut Best) -> Result<()> {
    // Later rounds find what can be left out by itself after others have been.
    for round in 0.. {
        let first = if round == 0 { usize::MAX } else { 1 };
        search.is_last_round = round != 0;
        let mut changed = groups(search, program, best, STAGES[0], first)?;
        search.begin("scopes");
        changed |= scopes(search, program, best, first)?;
        for stage in &STAGES[1..] {
            changed |= groups(search, program, best, *stage, first)?;
        }
        search.begin("bytes");
        changed |= bytes(search, program, best, first)?;
        if !changed || search.is_over() {
            break;
        }
    }
    Ok(())
}

/// Leaves out parts, one by one or in runs.
fn groups(
    search: &mut Search<'_>,
    program: &Program<'_>,
    best: &mut Best,
    (stage, kinds): (&'static str, &[PartKind]),
    first: usize,
) -> Result<bool> {
    search.begin(stage);
    let is_there = |part: usize, best: &Best| {
        best.choice.wanted[part]
            && program.parts[part].records.iter().any(|record| best.kept.records[*record as usize])
    };
    for part in 0..program.parts.len() {
        // Commands of command buffers that are left out.
        if best.choice.wanted[part] && !is_there(part, best) {
            best.choice.wanted[part] = false;
        }
    }
    let is_it = |part: &usize| kinds.contains(&program.parts[*part].kind) && best.choice.wanted[*part];
    let mut items: Vec<Vec<u32>> = (0..program.parts.len()).filter(is_it).map(|it| vec![it as u32]).collect();
    delta(&mut items, first, &mut Pass { search, program, best, leave_out: leave_out_parts })
}

fn leave_out_parts(choice: &mut Choice, groups: &[Vec<u32>]) {
    groups.iter().flatten().for_each(|part| choice.wanted[*part as usize] = false);
}

/// Leaves out scopes with all that happens in them.
fn scopes(search: &mut Search<'_>, program: &Program<'_>, best: &mut Best, first: usize) -> Result<bool> {
    let mut items = Vec::new();
    for scope in &program.scopes {
        let inside = |record: &u32| (scope.begin..=scope.end).contains(record);
        let mut parts = BTreeSet::new();
        for record in scope.begin..=scope.end {
            let part = program.part_of[record as usize];
            let it = &program.parts[part as usize];
            let is_work = !matches!(it.kind, PartKind::Object | PartKind::Note);
            if is_work && best.choice.wanted[part as usize] && it.records.iter().all(inside) {
                parts.insert(part);
            }
        }
        if !parts.is_empty() {
            items.push(parts.into_iter().collect());
        }
    }
    delta(&mut items, first, &mut Pass { search, program, best, leave_out: leave_out_parts })
}

/// Replaces ranges of bytes by zeros, and leaves zeros out.
fn bytes(search: &mut Search<'_>, program: &Program<'_>, best: &mut Best, first: usize) -> Result<bool> {
    let longest = carried(program, &best.choice, &best.kept)?.values().map(Vec::len).max().unwrap_or(0);
    let mut size = longest.next_power_of_two();
    let mut changed = false;
    let mut runs = first;
    loop {
        let mut items = Vec::new();
        for (record, data) in carried(program, &best.choice, &best.kept)? {
            let blocks = (0..data.len()).step_by(size).map(|at| at..data.len().min(at + size));
            let is_used = |it: &Range<usize>| data[it.clone()].iter().any(|byte| *byte != 0);
            items.extend(blocks.filter(is_used).map(|it| (record, it)));
        }
        let is_whole = size >= longest;
        if !is_whole && items.len() > search.options.max_byte_ranges {
            break;
        }
        search.byte_range = size;
        let leave_out = |choice: &mut Choice, ranges: &[(u32, Range<usize>)]| {
            for (record, span) in ranges {
                choice.zeros.entry(*record).or_default().add(span.clone());
            }
        };
        changed |= delta(&mut items, runs, &mut Pass { search, program, best, leave_out })?;
        if search.is_over() || size == 1 {
            break;
        }
        // Shorter ranges are halves of longer ones that are needed.
        runs = 1;
        size /= 2;
    }
    Ok(changed | sparse(search, program, best, first)?)
}

/// Leaves zeros out of what the host writes.
fn sparse(search: &mut Search<'_>, program: &Program<'_>, best: &mut Best, first: usize) -> Result<bool> {
    let mut items = Vec::new();
    for (record, data) in carried(program, &best.choice, &best.kept)? {
        let spans = nonzero(&data, SPARSE_GAP_BYTES);
        let stored: usize = spans.iter().map(Range::len).sum();
        let Some(op) = program.op(record)? else { continue };
        let is_open = !best.choice.sparse.contains(&record);
        if is_open && can_be_sparse(&op) && data.len() - stored >= SPARSE_GAP_BYTES {
            items.push(record);
        }
    }
    let leave_out = |choice: &mut Choice, records: &[u32]| choice.sparse.extend(records);
    delta(&mut items, first, &mut Pass { search, program, best, leave_out })
}

/// A pass over items, which `leave_out` leaves out of a choice.
struct Pass<'t, 'h, 'a, F> {
    search: &'t mut Search<'h>,
    program: &'t Program<'a>,
    best: &'t mut Best,
    leave_out: F,
}

impl<T, F: Fn(&mut Choice, &[T])> Trials<T> for Pass<'_, '_, '_, F> {
    fn first_passing(&mut self, items: &[T], without: &[Range<usize>]) -> Result<Option<usize>> {
        let choice = |range: &Range<usize>| {
            let mut choice = self.best.choice.clone();
            (self.leave_out)(&mut choice, &items[range.clone()]);
            choice
        };
        let choices = without.iter().map(choice).collect();
        self.search.first_passing(self.program, self.best, choices)
    }

    fn width(&self) -> usize {
        self.search.options.jobs
    }

    fn is_over(&mut self) -> bool {
        self.search.is_over()
    }
}
