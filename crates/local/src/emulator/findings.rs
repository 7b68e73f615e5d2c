use parking_lot::Mutex;
use rehal_base::{Error, StatusCode};
use rehal_simt::{Finding, FindingKind};

/// The findings of emulated devices of this process that no one has taken.
static FOUND: Mutex<Findings> = Mutex::new(Findings { all: Vec::new(), dropped: 0 });

/// Limit on the places that are kept.
const MAX_PLACES: usize = 1000;

/// Findings, by place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// One for each place, of the first dispatch that has it, with the count of all.
    pub all: Vec<DispatchFinding>,
    /// How often an error was found at places beyond a thousand.
    pub dropped: u64,
}

/// A finding, and the dispatch that it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatchFinding {
    /// The ordinal and the offset of the record of a capture that submitted the work; `None` if it is of a
    /// program.
    pub record: Option<[u64; 2]>,
    /// The error, with its place.
    pub finding: Finding,
}

impl DispatchFinding {
    /// As the error of a dispatch that it fails.
    pub fn error(&self) -> Error {
        let error = error(&self.finding);
        match self.record.and_then(rehal_crash::describe_record) {
            Some(record) => error.context(record),
            None => error,
        }
    }

    /// The order of findings of the same place: the first dispatch, and in it the first block and thread.
    fn order(&self) -> (Option<[u64; 2]>, [u32; 3], [u32; 3]) {
        let reversed = |[x, y, z]: [u32; 3]| [z, y, x];
        (self.record, reversed(self.finding.block), reversed(self.finding.thread))
    }

    fn is_at(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.finding.kind, it.finding.line, it.finding.target);
        key(self) == key(other) && self.finding.function == other.finding.function
    }
}

impl Findings {
    /// Whether something is more than a note.
    pub fn are_errors(&self) -> bool {
        self.dropped != 0 || self.all.iter().any(|it| !it.finding.kind.is_note())
    }

    fn add(&mut self, found: DispatchFinding) {
        let is_full = self.all.len() >= MAX_PLACES;
        match self.all.iter_mut().find(|it| it.is_at(&found)) {
            Some(known) => {
                let count = known.finding.count + found.finding.count;
                // Threads find the blocks of a dispatch in any order.
                if found.order() < known.order() {
                    *known = found;
                }
                known.finding.count = count;
            }
            None if is_full && found.finding.kind.is_note() => {}
            None if is_full => self.dropped += found.finding.count,
            None => self.all.push(found),
        }
    }
}

/// Takes what the checks of all emulated devices of this process found until now, in the order of records and
/// lines.
pub fn take_findings() -> Findings {
    let mut found = std::mem::take(&mut *FOUND.lock());
    found.all.sort_by(|one, other| {
        let key = |it: &DispatchFinding| (it.record, it.finding.line, it.finding.kind, it.finding.target);
        key(one).cmp(&key(other)).then_with(|| one.finding.function.cmp(&other.finding.function))
    });
    found
}

/// Keeps what was found in a dispatch.
pub(super) fn add(record: [u64; 2], findings: Vec<Finding>, dropped: u64) {
    if findings.is_empty() && dropped == 0 {
        return;
    }
    let record = rehal_crash::describe_record(record).map(|_| record);
    let mut found = FOUND.lock();
    findings.into_iter().for_each(|finding| found.add(DispatchFinding { record, finding }));
    found.dropped += dropped;
}

/// A finding as an error, with what to do about it.
pub(super) fn error(found: &Finding) -> Error {
    let (code, advice) = match found.kind {
        FindingKind::Misaligned => {
            (StatusCode::InvalidArgument, "an address has to be a multiple of the size of its access")
        }
        FindingKind::Uninitialized => {
            (StatusCode::FailedPrecondition, "write the memory of a workgroup or a thread before it is read")
        }
        FindingKind::Race | FindingKind::DivergentBarrier => {
            let advice = "synchronize the threads that share the bytes, all of them at the same barrier";
            (StatusCode::FailedPrecondition, advice)
        }
        FindingKind::ReadOutOfBounds
        | FindingKind::WriteOutOfBounds
        | FindingKind::ReadInSlack
        | FindingKind::ReadOnly => {
            let advice =
                "a kernel may access only its bindings: correct its indices, and the sizes that it assumes";
            (StatusCode::OutOfRange, advice)
        }
    };
    Error::new(code, found.to_string()).advise(advice)
}

#[cfg(test)]
mod tests {
    use rehal_simt::{FindingKind, Target};

    use super::*;

    fn finding(line: usize, kind: FindingKind) -> Finding {
        Finding {
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
        }
    }

    #[test]
    fn places_are_counted_once() {
        let mut found = Findings::default();
        let mut add = |record, finding| found.add(DispatchFinding { record, finding });
        add(Some([20, 9]), finding(3, FindingKind::ReadInSlack));
        add(Some([17, 5]), finding(3, FindingKind::ReadInSlack));
        assert!(!found.are_errors());
        let mut add = |record, finding| found.add(DispatchFinding { record, finding });
        // Threads run blocks in any order.
        for block in [4, 1, 3] {
            add(None, Finding { block: [block, 0, 0], ..finding(4, FindingKind::ReadOutOfBounds) });
        }
        let kept: Vec<_> =
            found.all.iter().map(|it| (it.record, it.finding.block[0], it.finding.count)).collect();
        assert_eq!(kept, [(Some([17, 5]), 0, 4), (None, 1, 6)]);
        assert!(found.are_errors());
    }

    #[test]
    fn of_what_is_not_kept_only_errors_are_counted() {
        let mut found = Findings::default();
        let mut add = |line, kind| found.add(DispatchFinding { record: None, finding: finding(line, kind) });
        (0..MAX_PLACES + 5).for_each(|line| add(line, FindingKind::ReadInSlack));
        assert!(!found.are_errors() && found.all.len() == MAX_PLACES);
        let mut add = |line, kind| found.add(DispatchFinding { record: None, finding: finding(line, kind) });
        (0..2).for_each(|line| add(line, FindingKind::ReadOutOfBounds));
        assert!(found.are_errors() && found.dropped == 4);
    }
}
