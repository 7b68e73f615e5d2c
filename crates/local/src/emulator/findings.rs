use parking_lot::Mutex;
use rehal_simt::Finding;

/// The findings of emulated devices of this process that no one has taken.
static FOUND: Mutex<Findings> = Mutex::new(Findings { all: Vec::new(), dropped: 0 });

/// Limit on the places that are kept.
const MAX_PLACES: usize = 1000;

/// Findings, by place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// One for each place, of the first dispatch that has it, with the count of all.
    pub all: Vec<DispatchFinding>,
    /// How often something was found at places beyond a thousand.
    pub dropped: u64,
}

/// A finding, and the dispatch that it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatchFinding {
    /// The record of a capture that submitted the work, as messages name it; `None` if it is of a program.
    pub record: Option<String>,
    /// The error, with its place.
    pub finding: Finding,
}

impl Findings {
    /// Whether something is more than a note.
    pub fn are_errors(&self) -> bool {
        self.dropped != 0 || self.all.iter().any(|it| !it.finding.kind.is_note())
    }

    fn add(&mut self, record: Option<String>, finding: Finding) {
        let key = |it: &Finding| (it.kind, it.line, it.target);
        let is_same = |it: &&mut DispatchFinding| {
            key(&it.finding) == key(&finding) && it.finding.function == finding.function
        };
        let is_full = self.all.len() >= MAX_PLACES;
        match self.all.iter_mut().find(is_same) {
            Some(known) => known.finding.count += finding.count,
            None if is_full => self.dropped += finding.count,
            None => self.all.push(DispatchFinding { record, finding }),
        }
    }
}

/// Takes what the checks of all emulated devices of this process found until now.
pub fn take_findings() -> Findings {
    std::mem::take(&mut *FOUND.lock())
}

/// Keeps what was found in a dispatch.
pub(super) fn add(record: Option<String>, findings: Vec<Finding>, dropped: u64) {
    if findings.is_empty() && dropped == 0 {
        return;
    }
    let mut found = FOUND.lock();
    findings.into_iter().for_each(|it| found.add(record.clone(), it));
    found.dropped += dropped;
}

#[cfg(test)]
mod tests {
    use rehal_simt::{FindingKind, Target};

    use super::*;

    #[test]
    fn places_are_counted_once() {
        let finding = |line, kind| Finding {
            kind,
            function: "f".into(),
            line,
            instruction: "ld.global.f32 %f1, [%rd1];".into(),
            target: Target::Region(1),
            offset: 44,
            bytes: 4,
            block: [0; 3],
            thread: [1, 0, 0],
            count: 2,
        };
        let mut found = Findings::default();
        found.add(Some("record #17".into()), finding(3, FindingKind::ReadInSlack));
        assert!(!found.are_errors());
        found.add(None, finding(3, FindingKind::ReadInSlack));
        found.add(None, finding(4, FindingKind::ReadOutOfBounds));
        let kept: Vec<_> =
            found.all.iter().map(|it| (it.record.as_deref(), it.finding.line, it.finding.count)).collect();
        assert_eq!(kept, [(Some("record #17"), 3, 4), (None, 4, 2)]);
        assert!(found.are_errors());
    }
}
