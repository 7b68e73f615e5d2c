//! The differences of two captures as JSON.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::{CaptureDiff, ChangeKind, DiffedCapture};

/// The differences of two captures; see the guide of `rehal diff`.
pub struct DiffReport<'r> {
    /// The differences.
    pub diff: &'r CaptureDiff,
    /// The paths of both captures.
    pub paths: [String; 2],
    /// The digests of both captures, if they are known.
    pub digests: Option<[String; 2]>,
}

impl DiffReport<'_> {
    /// Name and version of its JSON.
    pub const SCHEMA: &'static str = "rehal.diff/1";
}

impl Serialize for DiffReport<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'a> {
            same: bool,
            before: Capture<'a>,
            after: Capture<'a>,
            counts: BTreeMap<&'static str, u64>,
            #[serde(flatten)]
            diff: &'a CaptureDiff,
        }
        #[derive(Serialize)]
        struct Capture<'a> {
            path: &'a str,
            capture_digest: Option<&'a str>,
            #[serde(flatten)]
            capture: &'a DiffedCapture,
        }
        let capture = |index: usize, capture| Capture {
            path: &self.paths[index],
            capture_digest: self.digests.as_ref().map(|digests| &*digests[index]),
            capture,
        };
        let kinds = [ChangeKind::Changed, ChangeKind::Removed, ChangeKind::Inserted, ChangeKind::Moved];
        let counts = kinds.map(|kind| (kind.name(), self.diff.count(kind)));
        let fields = Fields {
            same: self.diff.is_same(),
            before: capture(0, &self.diff.before),
            after: capture(1, &self.diff.after),
            counts: counts.into_iter().chain([("same", self.diff.same_count)]).collect(),
            diff: self.diff,
        };
        fields.serialize(serializer)
    }
}
