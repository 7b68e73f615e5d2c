//! Differences between two captures.
//!
//! It needs no plan. `capture_pass.rs` reads a capture: a token for each operation, a hash of its fields
//! without ids, and what its objects are. `fields.rs` lists the fields of every operation, for the hash as
//! for the comparison. `pairs.rs` aligns what is the same, then what is similar in the gaps (`align.rs`),
//! shifts blocks to where scopes begin, and finds what was moved. `objects.rs` derives from that which
//! objects correspond, and `compare.rs` compares fields under this correspondence; the payload of a semaphore
//! is the submission that signals it. `groups.rs` folds equal changes.

use std::collections::HashMap;

use rehal_base::{Result, parallel};
use rehal_capture::{Capture, CaptureBytes, OpenOptions, Version};
use rehal_replay::dump::Progress;

mod capture_pass;
mod compare;
mod data;
mod executables;
mod fields;
mod groups;
mod hash;
mod ids;
mod json;
mod objects;
mod pairs;
mod report;

use capture_pass::Side;
use compare::Walk;

pub use fields::ObjectKind;
pub use json::DiffReport;
pub use report::{
    CaptureDiff, ChangeKind, DataDifference, DiffOptions, DiffedCapture, DiffedExecutable, ExecutableChange,
    FieldChange, FieldName, FieldValue, FunctionChange, Occurrence, OperationChange, ScopeChange, ScopePath,
};

/// Functions have names from this version on.
const NAMES: Version = Version { major: 2, minor: 0 };

/// Compares two captures up to the tear of each, if it is truncated. Ids of objects, threads, file offsets
/// and how data is stored do not count. Checksums are not verified. Fails at a corrupt record.
///
/// `progress` is called every few megabytes of the first capture.
pub fn diff_captures(
    before: &CaptureBytes,
    after: &CaptureBytes,
    options: &DiffOptions,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<CaptureDiff, DiffError> {
    let recover = OpenOptions { recover: true };
    let first = before.open(recover).map_err(|error| DiffError::Before(error.into()))?;
    let second = after.open(recover).map_err(|error| DiffError::After(error.into()))?;
    let has_names = first.version() >= NAMES && second.version() >= NAMES;
    let (one, other) = parallel::join(
        || Side::read(before, first, has_names, progress).map_err(DiffError::Before),
        || Side::read(after, second, has_names, &mut |_| {}).map_err(DiffError::After),
    );
    let (one, other) = (one?, other?);
    let pairs = pairs::align(&one, &other);
    // A change that is kept takes about as much memory as the smallest records.
    let max_kept = (first.length_bytes() + second.length_bytes()) / 96 + 4096;
    let walk = Walk::run(&one, &other, &pairs, options, max_kept).map_err(DiffError::Before)?;
    Ok(CaptureDiff {
        before: describe(&first, &one),
        after: describe(&second, &other),
        scopes: scopes(&one, &other),
        executables: walk.executables,
        operations: walk.groups.list,
        same_count: walk.same_count,
        undetermined: walk.undetermined.into_iter().collect(),
        omitted_count: walk.groups.omitted_count,
    })
}

/// The capture that is corrupt, and why.
#[derive(Debug)]
pub enum DiffError {
    /// The first one.
    Before(rehal_base::Error),
    /// The second one.
    After(rehal_base::Error),
}

fn describe(capture: &Capture<'_>, side: &Side<'_>) -> DiffedCapture {
    let objects = ObjectKind::ALL.into_iter().zip(side.object_counts);
    DiffedCapture {
        version: capture.version(),
        record_count: side.record_count,
        operation_count: side.entries.len() as u64,
        is_closed: capture.is_closed(),
        tear: capture.tear(),
        objects: objects.filter(|(_, count)| *count != 0).collect(),
        buffer_bytes: side.buffer_bytes,
        opaque_count: side.opaque_count,
    }
}

/// The scopes that are not entered as often in both captures, in the order of their names.
fn scopes(before: &Side<'_>, after: &Side<'_>) -> Vec<ScopeChange> {
    // The scopes of both, each after its parent.
    let mut nodes: Vec<(u32, &[u8])> = Vec::new();
    let mut changes: Vec<ScopeChange> = Vec::new();
    for it in &before.scopes {
        nodes.push((it.parent, it.name));
        changes.push(ScopeChange { path: it.path.clone(), before: it.count, after: 0 });
    }
    let mut index: HashMap<(u32, &[u8]), u32> = (0..).zip(&nodes).map(|(at, it)| (*it, at)).collect();
    let mut own = vec![0; after.scopes.len()];
    changes[0].after = after.scopes[0].count;
    for (at, it) in after.scopes.iter().enumerate().skip(1) {
        let node = (own[it.parent as usize], it.name);
        own[at] = *index.entry(node).or_insert_with(|| {
            nodes.push(node);
            changes.push(ScopeChange { path: it.path.clone(), before: 0, after: 0 });
            nodes.len() as u32 - 1
        });
        changes[own[at] as usize].after = it.count;
    }
    drop(index);
    // Those within a scope are next to one another.
    let mut order: Vec<u32> = (1..nodes.len() as u32).collect();
    order.sort_unstable_by_key(|at| nodes[*at as usize]);
    let (mut ordered, mut open) = (Vec::new(), vec![0]);
    while let Some(at) = open.pop() {
        let change = &changes[at as usize];
        if change.before != change.after {
            ordered.push(change.clone());
        }
        let start = order.partition_point(|it| nodes[*it as usize].0 < at);
        let within = order[start..].iter().take_while(|it| nodes[**it as usize].0 == at);
        let first = open.len();
        open.extend(within);
        open[first..].reverse();
    }
    ordered
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use rehal_replay::{RecordOptions, Recorder};

    use super::*;

    /// A capture with as many scopes, each within the one before.
    fn nested(count: usize) -> CaptureBytes {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nested.ireereplay");
        let recorder = Recorder::create(&path, RecordOptions::default()).unwrap();
        (0..count).for_each(|number| recorder.scope_begin(&format!("scope {number}")).unwrap());
        (0..count).rev().for_each(|number| recorder.scope_end(&format!("scope {number}")).unwrap());
        recorder.close().unwrap();
        CaptureBytes::map(&path).unwrap()
    }

    /// Otherwise each of hundreds of thousands would have the names of all that it is within.
    #[test]
    fn nested_scopes_share_their_names() {
        const COUNT: usize = 1000;
        let (many, none) = (nested(COUNT), nested(0));
        for (before, after) in [(&many, &none), (&none, &many)] {
            let found = diff_captures(before, after, &DiffOptions::default(), &mut |_| {}).unwrap();
            assert_eq!(found.scopes.len(), COUNT);
            let of_operations = found.operations.iter().map(|it| &it.scope);
            let paths = found.scopes.iter().map(|it| &it.path).chain(of_operations);
            let names: HashSet<_> = paths.flat_map(ScopePath::scopes).map(Arc::as_ptr).collect();
            assert_eq!(names.len(), COUNT);
            let deepest = found.scopes.iter().map(|it| it.path.names().len()).max();
            assert_eq!(deepest, Some(capture_pass::MAX_DEPTH + 1));
            assert_eq!(found.scopes[1].path.names(), [&b"scope 0"[..], b"scope 1"]);
        }
        assert!(size_of::<ScopeChange>() <= 24);
    }

    #[test]
    fn scopes_are_in_the_order_of_their_names() {
        let side = |names: &[&[u8]]| {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("scopes.ireereplay");
            let recorder = Recorder::create(&path, RecordOptions::default()).unwrap();
            for name in names {
                let parts: Vec<_> =
                    name.split(|byte| *byte == b'/').map(|it| str::from_utf8(it).unwrap()).collect();
                parts.iter().for_each(|it| recorder.scope_begin(it).unwrap());
                parts.iter().rev().for_each(|it| recorder.scope_end(it).unwrap());
            }
            recorder.close().unwrap();
            CaptureBytes::map(&path).unwrap()
        };
        let before = side(&[b"b/x", b"a", b"b/c/y", b"b c", b"same"]);
        let after = side(&[b"same", b"b/x", b"b/a", b"d/a", b"b c", b"b c"]);
        let found = diff_captures(&before, &after, &DiffOptions::default(), &mut |_| {}).unwrap();
        let shown = |it: &ScopeChange| (it.path.names().join(&b'/'), it.before, it.after);
        let shown: Vec<_> = found.scopes.iter().map(shown).collect();
        let expected: [(&[u8], u64, u64); 7] = [
            (b"a", 1, 0),
            (b"b/a", 0, 1),
            (b"b/c", 1, 0),
            (b"b/c/y", 1, 0),
            (b"b c", 1, 2),
            (b"d", 0, 1),
            (b"d/a", 0, 1),
        ];
        assert_eq!(shown, expected.map(|(path, before, after)| (path.to_vec(), before, after)));
    }
}
