//! Folds the same changes of many operations into one.

use std::collections::HashMap;

use super::capture_pass::Side;
use super::fields::Name;
use super::report::{ChangeKind, FieldChange, Occurrence, OperationChange};

/// A change of one operation.
pub(super) struct Change<'c> {
    pub kind: ChangeKind,
    pub operation: &'static str,
    pub subject: &'c [u8],
    /// The innermost scope, by index in its capture.
    pub scope: u32,
    pub before: Option<u64>,
    pub after: Option<u64>,
    pub operation_count: u64,
    pub changes: Vec<FieldChange>,
}

/// The common properties of changes that are folded.
#[derive(PartialEq, Eq, Hash)]
struct Key<'c> {
    kind: ChangeKind,
    operation: &'static str,
    subject: &'c [u8],
    scope: u32,
    fields: Box<[Name]>,
}

/// The changes found so far, in the order of the first of each.
pub(super) struct Groups {
    pub list: Vec<OperationChange>,
    index: HashMap<u64, usize>,
    hasher: std::hash::RandomState,
    /// Number of changes and fields that can still be kept.
    left: u64,
    pub omitted_count: u64,
}

impl Groups {
    /// Keeps at most this many changes and fields.
    pub(super) fn new(max_kept: u64) -> Self {
        let (list, index, hasher) = (Vec::new(), HashMap::new(), std::hash::RandomState::new());
        Self { list, index, hasher, left: max_kept, omitted_count: 0 }
    }

    /// Adds a change of an operation of `side`.
    pub(super) fn add(&mut self, side: &Side<'_>, change: Change<'_>) {
        use std::hash::BuildHasher as _;
        let Change { kind, operation, subject, scope, .. } = change;
        let fields = change.changes.iter().map(|it| it.name.0).collect();
        let key = self.hasher.hash_one(Key { kind, operation, subject, scope, fields });
        let size = 1 + change.changes.len() as u64;
        let Some(left) = self.left.checked_sub(size) else {
            self.omitted_count += 1;
            if let Some(index) = self.index.get(&key) {
                self.list[*index].count += 1;
            }
            return;
        };
        self.left = left;
        let list = &mut self.list;
        let index = *self.index.entry(key).or_insert_with(|| {
            list.push(OperationChange {
                kind,
                operation,
                subject: subject.to_vec(),
                scope: side.scopes[scope as usize].path.clone(),
                fields: change.changes.iter().map(|it| it.name).collect(),
                count: 0,
                occurrences: Vec::new(),
            });
            list.len() - 1
        });
        let group = &mut self.list[index];
        group.count += 1;
        group.occurrences.push(Occurrence {
            before: change.before,
            after: change.after,
            operation_count: change.operation_count,
            changes: change.changes.into(),
        });
    }
}
